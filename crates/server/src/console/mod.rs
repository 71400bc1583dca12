//! Serial line shared by many clients: one has write access, the others watch.
//!
//! The session of one client is a `console_session`. The `line_multiplexer` tracks the clients, the
//! holder of write access, and the queues of the clients and of the line. One task per line opens
//! the device, forwards the data, and reopens a device that was lost (`port`). A client that
//! negotiates RFC 2217 sets rates, modem lines and BREAK with its commands (`com_port`); other
//! clients use escape keys (`escape`).
//!
//! A client that does not read does not block the line: its queue has a limit, the oldest output is
//! dropped, and the client is notified of the number of dropped bytes. If the line does not accept
//! input, only the client that sent this input has to wait.

mod com_port;
mod console_session;
mod console_set;
mod console_settings;
mod escape;
mod line_multiplexer;
mod notice;
mod port;

pub(super) use console_session::ConsoleSession;
pub(super) use console_set::ConsoleSet;
pub(super) use console_settings::{ConsoleFile, ConsoleSettings};

use line_multiplexer::LineMultiplexer;
use os::readiness::Registered;
use os::serial::{LineSettings, Serial};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::Notify;

/// Serial line and its clients.
pub(super) struct SerialConsole {
    settings: RefCell<Rc<ConsoleSettings>>,
    multiplexer: RefCell<LineMultiplexer>,
    /// The device, while it is open.
    line: RefCell<Option<Rc<Registered<Serial>>>>,
    /// Current settings of the line; if the device is not open, the settings for its next opening.
    line_settings: Cell<LineSettings>,
    /// Notified when data is queued for the line, or when a client first needs modem line changes.
    wakeup: Notify,
    /// Whether the file of the output is to be opened again before the next output.
    is_log_reopen_due: Cell<bool>,
    /// Whether the console is no longer in the configuration.
    is_removed: Cell<bool>,
}

impl SerialConsole {
    pub(super) fn new(settings: ConsoleSettings) -> Self {
        let multiplexer = RefCell::new(LineMultiplexer::default());
        let line = RefCell::new(None);
        let line_settings = Cell::new(settings.line);
        Self {
            settings: RefCell::new(Rc::new(settings)),
            multiplexer,
            line,
            line_settings,
            wakeup: Notify::new(),
            is_log_reopen_due: Cell::default(),
            is_removed: Cell::default(),
        }
    }

    /// Returns whether the console is no longer configured.
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.get()
    }

    /// Returns the current rate of the line.
    #[cfg(test)]
    pub(crate) fn bits_per_second(&self) -> u32 {
        self.line_settings.get().bits_per_second
    }

    fn settings(&self) -> Rc<ConsoleSettings> {
        Rc::clone(&self.settings.borrow())
    }

    /// Adopts other settings of the same device. The prefixes for write access apply to new clients.
    fn apply(&self, settings: ConsoleSettings) {
        let line = settings.line;
        let is_line_changed = self.settings.replace(Rc::new(settings)).line != line;
        if is_line_changed {
            // A line that does not accept the settings gets them when it is opened again.
            self.with_line(|device| device.set(line));
            self.line_settings.set(line);
        }
        // The file may have been renamed, or another file is configured.
        self.is_log_reopen_due.set(true);
    }

    /// Ends the sessions of the clients, because the console is no longer configured.
    fn remove(&self) {
        self.is_removed.set(true);
        self.line.take();
        self.multiplexer.borrow_mut().notify_all("the console was removed from the configuration");
    }

    /// Returns whether clients at this address may have write access.
    fn may_write(&self, peer: SocketAddr) -> bool {
        let settings = self.settings();
        let nets = &settings.write;
        let address = peer.ip().to_canonical();
        nets.is_empty() || nets.iter().any(|net| net.contains(&address))
    }

    /// Calls `act` with the line. Returns `None` if the line is not open or `act` fails.
    fn with_line<T>(&self, act: impl FnOnce(&Serial) -> std::io::Result<T>) -> Option<T> {
        let line = self.line.borrow().clone();
        line.and_then(|line| act(line.get_ref()).ok())
    }
}
