//! A serial line that is offered to many: one writes, all others watch.
//!
//! Somebody who comes is a visit (`visit`); who writes, and what waits for whom, is kept at the desk
//! (`desk`); one task tends the line itself (`port`), also while it is away. Who speaks RFC 2217
//! asks for rates, wires and BREAK by its commands (`com_port`); who does not has keys (`escape`).
//!
//! Nobody who does not read holds the line: what waits for him has a limit, the oldest is skipped,
//! and he is told how much. What is written and has no room holds its writer alone.

mod com_port;
mod desk;
mod escape;
mod port;
mod settings;
mod visit;

pub(super) use port::tend;
pub(super) use settings::{ConsoleFile, Settings};
pub(super) use visit::Visit;

use desk::Desk;
use os::readiness::Registered;
use os::serial::{LineSettings, Serial};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::Notify;

/// A line, and all who are at it.
pub(super) struct Console {
    pub(super) settings: Settings,
    desk: RefCell<Desk>,
    /// The device, while it is there.
    line: RefCell<Option<Rc<Registered<Serial>>>>,
    /// How the line is set, or is to be when it is there again.
    holds: Cell<LineSettings>,
    /// There is something for the line, or somebody wants to know of its wires.
    work: Notify,
}

impl Console {
    pub(super) fn new(settings: Settings) -> Self {
        let (desk, line) = (RefCell::new(Desk::default()), RefCell::new(None));
        let holds = Cell::new(settings.line);
        Self { settings, desk, line, holds, work: Notify::new() }
    }

    /// Returns whether somebody from there may write at all.
    fn lets_write(&self, peer: SocketAddr) -> bool {
        let (nets, address) = (&self.settings.write, peer.ip().to_canonical());
        nets.is_empty() || nets.iter().any(|net| net.contains(&address))
    }

    /// Does something with the line; `None` if it is not there, or will not.
    fn with_line<T>(&self, act: impl FnOnce(&Serial) -> std::io::Result<T>) -> Option<T> {
        let line = self.line.borrow().clone();
        line.and_then(|line| act(line.get_ref()).ok())
    }
}
