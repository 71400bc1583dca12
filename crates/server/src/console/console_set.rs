//! The consoles of the configuration, each with the task of its serial line. A reload adds, changes and
//! removes consoles; a console is identified by its device.

use super::port::run_port;
use super::{ConsoleSettings, SerialConsole};
use crate::login_server::LoginServer;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::task::JoinHandle;

/// Running consoles.
#[derive(Default)]
pub(crate) struct ConsoleSet {
    running: RefCell<Vec<RunningConsole>>,
}

struct RunningConsole {
    console: Rc<SerialConsole>,
    port_task: JoinHandle<()>,
}

impl ConsoleSet {
    /// Returns the console of each of `settings`: the running console of the device, or a new one.
    pub(crate) fn prepare(&self, settings: &[ConsoleSettings]) -> Vec<Rc<SerialConsole>> {
        let running = self.running.borrow();
        let mut unclaimed: Vec<_> = running.iter().map(|it| Rc::clone(&it.console)).collect();
        let console_of = |settings: &ConsoleSettings| {
            let at = unclaimed.iter().position(|it| it.settings().device == settings.device);
            match at {
                Some(at) => unclaimed.swap_remove(at),
                None => Rc::new(SerialConsole::new(settings.clone())),
            }
        };
        settings.iter().map(console_of).collect()
    }

    /// Runs the consoles that [`Self::prepare`] has returned for `settings`, and ends all others.
    pub(crate) fn apply(
        &self,
        consoles: Vec<Rc<SerialConsole>>,
        settings: &[ConsoleSettings],
        server: &Rc<LoginServer>,
    ) {
        let mut before = self.running.take();
        let mut after = Vec::new();
        for (console, settings) in consoles.into_iter().zip(settings) {
            match before.iter().position(|it| Rc::ptr_eq(&it.console, &console)) {
                Some(at) => {
                    console.apply(settings.clone());
                    after.push(before.swap_remove(at));
                }
                None => {
                    let port = run_port(Rc::clone(&console), Rc::clone(server));
                    let port_task = tokio::task::spawn_local(port);
                    after.push(RunningConsole { console, port_task });
                }
            }
        }
        before.into_iter().for_each(RunningConsole::end);
        self.running.replace(after);
    }

    /// Opens the log files of all consoles again before the next output of their lines.
    pub(crate) fn reopen_logs(&self) {
        for running in self.running.borrow().iter() {
            running.console.is_log_reopen_due.set(true);
        }
    }

    /// Ends all consoles.
    pub(crate) fn clear(&self) {
        self.running.take().into_iter().for_each(RunningConsole::end);
    }
}

impl RunningConsole {
    fn end(self) {
        self.port_task.abort();
        self.console.remove();
    }
}
