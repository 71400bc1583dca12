//! Runs the servers until the process is terminated.

use super::flags::Flags;
use super::inherited_sockets;
use super::log::{Log, ServeEvent};
use super::log_output;
use super::plan::Plan;
use super::prepare::Prepared;
use super::running_servers::RunningServers;
use anyhow::Result;
use carrier::meters::MeterRegistry;
use os::host::Host;
use os::service_manager::{self, ServiceState};
use std::rc::Rc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// Time for the user-space host to deliver remaining data when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Time for blocking work in other threads to finish when the server ends: hashing, a password
/// check, a process that asks PAM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

/// Runs all servers in this thread until the process is terminated.
///
/// # Errors
///
/// Returns an error if an address, a device or a certificate cannot be used, or if a server fails.
pub fn serve(prepared: Prepared) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    // Separate task for the servers: `block_on` polls its own future whenever any task is woken.
    let result =
        local.block_on(&runtime, async { tokio::task::spawn_local(run_servers(prepared)).await? });
    drop(local);
    // Limit the wait, so that the server ends even if a disk or a PAM module does not respond.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Runs the servers until the process is terminated or one of them fails.
async fn run_servers(prepared: Prepared) -> Result<()> {
    let Prepared { plan, flags } = prepared;
    let log = flags.log();
    // Before a line of the log reports that a server is ready: without a handler, SIGHUP ends it.
    let mut signals = ControlSignals::handle()?;
    let registry = MeterRegistry::new(command(&flags));
    let connections_max = plan.connections_max();
    let host = carrier::open_host(&flags.via, connections_max, carrier::LOGINS)?;
    let _shown = host
        .as_ref()
        .map(|host| registry.register_block("own TCP/IP stack", host.shared_counters()));
    let (sender, mut failures) = mpsc::unbounded_channel();
    let servers = RunningServers::new(&flags, registry, host.clone(), sender);
    servers.apply(servers.open(plan)?)?;
    for at in inherited_sockets::close_unused() {
        log.write(&ServeEvent::UnusedSocket { at });
    }
    notify(ServiceState::Ready, log);
    let result = tokio::select! {
        biased;
        Some(failure) = failures.recv() => Err(failure),
        () = signals.until_terminated(|signal| match signal {
            NonFinalSignal::HangUp => reload(&flags, &servers, connections_max),
            NonFinalSignal::User1 => reopen_log_files(log, &servers),
        }) => Ok(()),
    };
    notify(ServiceState::Stopping, log);
    servers.close().await;
    if let Some(host) = &host {
        // Data that is still queued would be lost with the host.
        _ = tokio::time::timeout(DRAIN_TIMEOUT, Host::drained(host)).await;
    }
    result
}

/// Returns the command for `plumb meters`, with the configuration file that distinguishes several servers.
fn command(flags: &Flags) -> String {
    match &flags.config {
        Some(path) => format!("serve --config {}", path.display()),
        None => "serve".to_owned(),
    }
}

/// Reads the configuration and the user files again, and applies them: completely, or after an error
/// not at all. Opens the log file again.
fn reload(flags: &Flags, servers: &Rc<RunningServers>, connections_max: usize) {
    let log = flags.log();
    notify(ServiceState::Reloading, log);
    log_output::reopen_file();
    let opened = Plan::reload(flags).and_then(|plan| {
        let needs_restart =
            flags.via != carrier::Route::Kernel && plan.connections_max() > connections_max;
        Ok((servers.open(plan)?, needs_restart))
    });
    let result = opened.and_then(|(opened, needs_restart)| {
        servers.apply(opened)?;
        Ok(needs_restart)
    });
    match result {
        Ok(needs_restart) => {
            log.write(&ServeEvent::Reloaded);
            if needs_restart {
                // plumb's own TCP/IP stack allocates its connections at the start.
                log.write(&ServeEvent::RestartNeeded { keys: vec!["sessions-max".to_owned()] });
            }
        }
        Err(error) => log.write(&ServeEvent::NotReloaded { why: format!("{error:#}") }),
    }
    notify(ServiceState::Ready, log);
}

/// Opens the log files again, also those of consoles, and changes nothing else.
fn reopen_log_files(log: Log, servers: &RunningServers) {
    log_output::reopen_file();
    servers.reopen_console_logs();
    log.write(&ServeEvent::LogReopened);
}

/// Reports the state of the servers to the service manager, if there is one.
fn notify(state: ServiceState, log: Log) {
    if let Err(error) = service_manager::notify(state) {
        log.write(&ServeEvent::NotNotified { why: error.to_string() });
    }
}

/// Signals that control the servers.
struct ControlSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    user1: Signal,
}

/// Signal that does not end the server.
enum NonFinalSignal {
    HangUp,
    User1,
}

impl ControlSignals {
    /// Handles the signals from now on.
    fn handle() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
        })
    }

    /// Waits for SIGINT or SIGTERM. Calls `on_other` for each SIGHUP and each SIGUSR1.
    async fn until_terminated(&mut self, on_other: impl Fn(NonFinalSignal)) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => on_other(NonFinalSignal::HangUp),
                _ = self.user1.recv() => on_other(NonFinalSignal::User1),
            }
        }
    }
}
