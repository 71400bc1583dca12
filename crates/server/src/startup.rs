//! The end of the start: all servers have opened their listeners.

use tokio::sync::mpsc;

/// Held by a server until its listeners are open.
#[derive(Clone, Debug)]
pub(super) struct StartupGuard {
    _sender: mpsc::Sender<()>,
}

/// The start of all servers.
#[derive(Debug)]
pub(super) struct Startup(mpsc::Receiver<()>);

impl Startup {
    /// Begins the start. Every server gets a clone of the guard.
    pub(super) fn begin() -> (StartupGuard, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (StartupGuard { _sender: sender }, Self(receiver))
    }

    /// Waits until every clone of the guard is dropped.
    pub(super) async fn finish(mut self) {
        while self.0.recv().await.is_some() {}
    }
}
