//! Context of each FTP command: settings of the connection, messages and progress.

use super::account;
use super::command_options::ConnectionOptions;
use crate::exit;
use crate::files::progress::Progress;
use anyhow::Result;
use std::sync::Arc;
use std::time::Duration;
use transfer::ftp::Connector;
use transfer::ftp::FtpError;
use transfer::ftp::{ConnectionSettings, Interrupt};
use transfer::url::Url;

/// Interval at which the progress display is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `work` with a [`Connector`] for the host of `url`, and prints any error.
pub(super) fn run_command<T>(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, exit::Failure> {
    run_command_with(url, connection, bytes_per_second, Interrupt::CancelsCommand, work)
}

/// Like [`run_command`], with the given scope of an interrupt.
pub(super) fn run_command_with<T>(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Connector>) -> Result<T, FtpError>,
) -> Result<T, exit::Failure> {
    let run = || {
        let settings = settings(url, connection, bytes_per_second)?;
        transfer::ftp::run(url, &settings, None, interrupt, work)
    };
    run().map_err(|error| report_error(&error))
}

fn settings(
    url: &Url,
    connection: &ConnectionOptions,
    bytes_per_second: Option<u64>,
) -> Result<ConnectionSettings, FtpError> {
    Ok(ConnectionSettings {
        via: connection.via.clone(),
        families: connection.family.families(),
        timeout_s: connection.timeout,
        attempts: connection.tries,
        credentials: account::credentials(url, connection.user.as_ref())?,
        is_active: connection.active,
        ca: connection.ca.clone(),
        is_insecure: connection.insecure,
        is_recording: !connection.record_options.no_record,
        is_quiet: connection.quiet || connection.json,
        is_verbose: connection.verbose,
        bytes_per_second,
        message: exit::print_diagnostic,
    })
}

/// Prints an error and returns its failure class. The error of a closed standard output is not
/// printed.
pub(super) fn report_error(error: &FtpError) -> exit::Failure {
    if !error.is_closed_stdout() {
        exit::print_error(&anyhow::Error::msg(error.sentence()));
    }
    error.failure().into()
}

/// Displays the progress of all transfers until [`ProgressDisplay::end`].
pub(super) struct ProgressDisplay(tokio::task::JoinHandle<()>);

impl ProgressDisplay {
    /// Starts the display. For a batch of several files, it includes the files in transfer.
    pub(super) fn begin(connector: &Connector, is_batch: bool) -> Self {
        let mut progress = Progress::new(connector.is_quiet(), is_batch);
        let transferred = connector.progress().clone();
        Self(tokio::spawn(async move {
            let _clear = ClearOnDrop(progress.clone());
            loop {
                tokio::time::sleep(PROGRESS_INTERVAL).await;
                let names = |width| transferred.files_text(width);
                progress.show(transferred.moved_bytes(), transferred.expected_bytes(), names);
            }
        }))
    }

    /// Ends the display.
    pub(super) async fn end(self) {
        self.0.abort();
        // Ignored: awaiting an aborted task returns a cancellation error.
        _ = self.0.await;
    }
}

struct ClearOnDrop(Progress);

impl Drop for ClearOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
