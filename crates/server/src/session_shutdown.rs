//! End of the open sessions when the process stops.
//!
//! Every session holds a [`ShutdownNotice`]. [`SessionShutdown::close`] notifies all sessions, and waits
//! until each has logged its end and dropped its notice. This includes the sessions of a server whose
//! table a reload has removed.

use std::rc::Rc;
use std::time::Duration;
use tokio::sync::watch;

/// Time for the sessions to log their ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// Notifies the sessions that the process stops.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionShutdown(Rc<watch::Sender<bool>>);

impl SessionShutdown {
    /// Returns the notice of a session, which the session keeps until its end is logged.
    pub(super) fn notice(&self) -> ShutdownNotice {
        ShutdownNotice(self.0.subscribe())
    }

    /// Returns whether the process stops.
    pub(super) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Notifies all sessions, and waits until they have ended, at most [`CLOSE_TIMEOUT`].
    pub(super) async fn close(&self) {
        self.0.send_replace(true);
        // A session that does not end in time is dropped with the process.
        _ = tokio::time::timeout(CLOSE_TIMEOUT, self.0.closed()).await;
    }
}

/// Notice of one session.
#[derive(Debug)]
pub(super) struct ShutdownNotice(watch::Receiver<bool>);

impl ShutdownNotice {
    /// Waits until the process stops. Cancel safe.
    pub(super) async fn requested(&mut self) {
        if self.0.wait_for(|is_requested| *is_requested).await.is_err() {
            // The server is gone, so nothing notifies its sessions.
            std::future::pending::<()>().await;
        }
    }
}
