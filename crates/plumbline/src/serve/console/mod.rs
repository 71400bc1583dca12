//! Serial line shared by many clients: one has write access, the others watch.
//!
//! A session of a client is a `visit`. The `desk` tracks the clients, the holder of write access,
//! and the queues of the clients and of the line. One task per line opens the device, carries the
//! data, and reopens a device that was lost (`port`). A client that negotiates RFC 2217 sets rates,
//! modem lines and BREAK with its commands (`com_port`); other clients use escape keys (`escape`).
//!
//! A client that does not read does not block the line: its queue has a limit, the oldest output is
//! dropped, and the client is notified of the number of bytes. Input that the line cannot accept
//! blocks only its writer.

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

/// Serial line and its clients.
pub(super) struct Console {
    pub(super) settings: Settings,
    desk: RefCell<Desk>,
    /// The device, while it is open.
    line: RefCell<Option<Rc<Registered<Serial>>>>,
    /// Current settings of the line, or those for the next opening of the device.
    holds: Cell<LineSettings>,
    /// Notified when data is queued for the line, or when a client first needs modem line changes.
    work: Notify,
}

impl Console {
    pub(super) fn new(settings: Settings) -> Self {
        let (desk, line) = (RefCell::new(Desk::default()), RefCell::new(None));
        let holds = Cell::new(settings.line);
        Self { settings, desk, line, holds, work: Notify::new() }
    }

    /// Returns whether clients at this address may have write access.
    fn lets_write(&self, peer: SocketAddr) -> bool {
        let (nets, address) = (&self.settings.write, peer.ip().to_canonical());
        nets.is_empty() || nets.iter().any(|net| net.contains(&address))
    }

    /// Calls `act` with the line. Returns `None` if the line is not open or `act` fails.
    fn with_line<T>(&self, act: impl FnOnce(&Serial) -> std::io::Result<T>) -> Option<T> {
        let line = self.line.borrow().clone();
        line.and_then(|line| act(line.get_ref()).ok())
    }
}
