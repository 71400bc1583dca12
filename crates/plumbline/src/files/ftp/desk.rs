//! Context of each FTP command: server, account, runtime and signals.

use super::account::Account;
use super::dialogue::{Caller, CancellationToken};
use super::mover::Watch;
use super::options::Reach;
use super::session::Shared;
use super::trouble::Trouble;
use crate::carry::{self, Trust};
use crate::exit;
use crate::files::progress::Progress;
use crate::files::url::{Scheme, Url};
use crate::meters::{self, Registry};
use crate::transfer_recorder::Recorder;
use anyhow::Result;
use protocols::application::ftp::user::{TlsUse, UserSettings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Maximum number of connections of the user-space host: control and data of each session.
const CONNECTIONS: usize = 160;
/// Default number of attempts.
const TRIES: u32 = 4;
/// Interval at which the progress display is updated.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Scope of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// The whole command.
    EndsAll,
    /// The operation in progress.
    EndsThis,
}

/// Runs `work` with a source of sessions at the host of `url`, and prints an error.
pub(super) fn carry_out<T>(
    url: &Url,
    reach: &Reach,
    bytes_per_second: Option<u64>,
    work: impl AsyncFnOnce(Arc<Caller>) -> Result<T, Trouble>,
) -> Result<T, exit::Failure> {
    carry_out_with(url, reach, bytes_per_second, Interrupt::EndsAll, work)
}

/// Like [`carry_out`], with the given scope of an interrupt.
pub(super) fn carry_out_with<T>(
    url: &Url,
    reach: &Reach,
    bytes_per_second: Option<u64>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Caller>) -> Result<T, Trouble>,
) -> Result<T, exit::Failure> {
    carry_out_silently(url, reach, bytes_per_second, None, interrupt, work)
        .map_err(|trouble| tell(&trouble))
}

/// Like [`carry_out_with`], but returns the error instead of printing it, and can log arrivals in
/// `watch`.
pub(super) fn carry_out_silently<T>(
    url: &Url,
    reach: &Reach,
    bytes_per_second: Option<u64>,
    watch: Option<Arc<Mutex<Watch>>>,
    interrupt: Interrupt,
    work: impl AsyncFnOnce(Arc<Caller>) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Trouble::Ours(error.into()))?;
    let result = runtime.block_on(async {
        let caller = Arc::new(caller(url, reach, bytes_per_second, watch)?);
        let mut end = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .map_err(anyhow::Error::new)?;
        let (stopper, board) = (Arc::clone(&caller.stopper), Arc::clone(&caller.shared.board));
        let kept = Arc::clone(&caller);
        let host = caller.shared.host.as_ref();
        let _shown = host.map(|host| board.show_sheet("our own host", host.meter_sheet()));
        let shows = tokio::spawn(meters::show_long_run(board));
        let watcher = tokio::spawn(async move {
            let [interrupted, other, third] = end.as_mut_slice() else { return };
            loop {
                let is_final = tokio::select! {
                    _ = interrupted.recv() => interrupt == Interrupt::EndsAll,
                    _ = other.recv() => true,
                    _ = third.recv() => true,
                };
                // A second signal exits immediately.
                if stopper.stop(is_final) {
                    kept.recorder.flush();
                    std::process::exit(3);
                }
            }
        });
        let result = work(Arc::clone(&caller)).await;
        caller.recorder.flush();
        watcher.abort();
        shows.abort();
        if let Some(host) = &caller.shared.host {
            // Data that is not delivered in time is abandoned.
            _ = tokio::time::timeout(caller.timeout, host.drained()).await;
        }
        result
    });
    // A thread that is blocked on a pipe is left behind.
    runtime.shutdown_background();
    result
}

/// Prints an error, unless it needs no message, and returns its failure class.
pub(super) fn tell(trouble: &Trouble) -> exit::Failure {
    if !trouble.is_unread() {
        exit::complain(&anyhow::Error::msg(trouble.sentence()));
    }
    trouble.failure()
}

fn caller(
    url: &Url,
    reach: &Reach,
    bytes_per_second: Option<u64>,
    watch: Option<Arc<Mutex<Watch>>>,
) -> Result<Caller, Trouble> {
    let Scheme::Ftp(tls, _) = url.scheme else {
        return Err(Trouble::Wrong(format!("{url} is not an FTP URL: TFTP has only get and put")));
    };
    let account = Account::of(url, reach.user.as_deref())?;
    let began = Instant::now();
    let found = carry::addresses(&url.target, reach.family, &reach.via, None)?;
    let resolving = began.elapsed();
    let addresses = found.map_err(|none| Trouble::NoAddress(none.to_string()))?;
    let host = carry::host(&reach.via, CONNECTIONS, carry::FILES)?;
    let board = Registry::new(url.to_string());
    let timeout = Duration::from_secs(reach.timeout.into());
    let mut settings = UserSettings::new(account.user, account.password);
    settings.account = account.account;
    settings.tls = tls;
    settings.may_listen = true;
    (settings.reply_timeout, settings.stall_timeout) = (timeout, timeout);
    let trust = match tls {
        TlsUse::Never => None,
        _ => Some(Trust::new(&url.target.host, url.target.port, reach.ca.as_deref())?),
    };
    let (stopper, stop) = CancellationToken::new();
    Ok(Caller {
        target: url.target.clone(),
        addresses,
        settings,
        trust,
        shared: Shared {
            host,
            bytes_per_second,
            tally: Arc::new(AtomicU64::new(0)),
            watch,
            expected: Arc::new(AtomicU64::new(0)),
            stop,
            is_verbose: Arc::new(AtomicBool::new(reach.verbose)),
            board,
        },
        timeout,
        was_reached: AtomicBool::new(false),
        avoids_times: AtomicBool::new(false),
        is_active: AtomicBool::new(reach.active),
        lessons: Mutex::default(),
        stopper: Arc::new(stopper),
        attempts: reach.tries.unwrap_or(TRIES),
        waits_for_room: reach.tries.is_some(),
        is_quiet: reach.quiet || reach.json,
        recorder: Recorder::of_user(!reach.keeping.no_record),
        is_due: AtomicBool::new(false),
        resolving,
        swept: Mutex::default(),
    })
}

/// Displays the progress of all transfers until [`Shown::end`].
pub(super) struct Shown(tokio::task::JoinHandle<()>);

impl Shown {
    pub(super) fn begin(caller: &Caller) -> Self {
        let mut progress = Progress::new(caller.is_quiet);
        let (tally, expected) =
            (Arc::clone(&caller.shared.tally), Arc::clone(&caller.shared.expected));
        Self(tokio::spawn(async move {
            let _end = End(progress.clone());
            loop {
                tokio::time::sleep(SHOWN_EVERY).await;
                let size = Some(expected.load(Ordering::Relaxed)).filter(|size| *size > 0);
                progress.show(tally.load(Ordering::Relaxed), size);
            }
        }))
    }

    /// Ends the display.
    pub(super) async fn end(self) {
        self.0.abort();
        // The task was aborted, so this is the error of a cancelled task.
        _ = self.0.await;
    }
}

struct End(Progress);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}
