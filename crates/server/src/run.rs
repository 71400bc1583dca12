//! Runs the servers until the process is terminated.

use super::configuration_loader::ConfigurationLoader;
use super::effective_configuration::RunningConfiguration;
use super::flags::Flags;
use super::inherited_sockets;
use super::log::{Log, ServeEvent};
use super::log_output;
use super::login_listeners::listen;
use super::login_server::{LoginServer, LoginState};
use super::metrics;
use super::prepare::Prepared;
use super::startup::Startup;
use super::traffic::ServerProtocol;
use super::transfer_log::TransferLog;
use super::{ftp, tftp};
use anyhow::{Context, Result};
use carrier::Route;
use carrier::meters::{self, MeterRegistry};
use os::host::Host;
use os::service_manager::{self, ServiceState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, LocalSet};

/// Time for the user-space host to deliver remaining data when the server ends.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// File descriptors per session: connection, program, terminal, and a duplicate of the terminal.
const DESCRIPTORS_PER_SESSION: u64 = 4;

/// Time for blocking work in other threads to finish when the server ends: hashing, a password
/// check, a process that asks PAM.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(700);

/// Runs all servers in this thread until the process is terminated.
///
/// # Errors
///
/// Returns an error if an address, a device or a certificate cannot be used, or if a server fails.
pub fn serve(prepared: Prepared) -> Result<()> {
    let Prepared {
        login_state,
        files,
        ftp,
        transfer_log,
        metrics,
        registry,
        has_meters_socket,
        flags,
    } = prepared;
    if let Some(login_state) = &login_state {
        let sessions =
            u64::try_from(login_state.configuration().rules.sessions_max).unwrap_or(u64::MAX);
        let descriptors = sessions.saturating_mul(DESCRIPTORS_PER_SESSION).saturating_add(64);
        // If the limit cannot be raised, fewer sessions are possible at once.
        _ = os::process::allow_descriptors(descriptors);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let log = flags.log();
    let _meter_server = has_meters_socket.then(|| serve_meters(&registry, log));
    // Separate task for the servers: `block_on` polls its own future whenever any task is woken.
    let result = local.block_on(&runtime, async {
        let login_server =
            login_state.map(|login_state| LoginServer::open(login_state, &registry)).transpose()?;
        let served = Served {
            host: userspace_host(&flags.via, login_server.as_ref(), files.as_ref(), ftp.as_ref())?,
            login_server: login_server.map(Rc::new),
            files: files.map(Rc::new),
            ftp: ftp.map(Rc::new),
        };
        if let Some(metrics) = metrics {
            serve_metrics(metrics, &transfer_log, &served, log)?;
        }
        let result = tokio::task::spawn_local(run_servers(served, flags, registry, log)).await?;
        transfer_log.close();
        result
    });
    drop(local);
    // Limit the wait, so that the server ends even if a disk or a PAM module does not respond.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Opens the meter socket. If the socket cannot be opened, logs the reason.
fn serve_meters(registry: &Arc<MeterRegistry>, log: Log) -> Option<meters::MeterServer> {
    let report = |why: String| log.write(&ServeEvent::NoMeters { why });
    meters::MeterServer::open(registry).map_err(|error| report(error.to_string())).ok()
}

/// Creates the user-space host of `via` for all servers; `None` for the kernel's network stack.
fn userspace_host(
    via: &Route,
    login_server: Option<&LoginServer>,
    files: Option<&tftp::TftpServer>,
    ftp: Option<&ftp::FtpServer>,
) -> Result<Option<Host>> {
    let logins =
        login_server.map_or(0, |login_server| login_server.configuration().rules.sessions_max);
    let connections = logins + ftp.map_or(0, ftp::FtpServer::connections_max);
    let host = carrier::open_host(via, connections, carrier::LOGINS)?;
    if let Some(host) = &host {
        ftp.into_iter().for_each(|ftp| ftp.use_host(host));
        files.into_iter().for_each(|files| files.use_host(host));
    }
    Ok(host)
}

/// Running servers, shared by their tasks.
struct Served {
    /// User-space host that carries the connections; `None` for the kernel's network stack.
    host: Option<Host>,
    login_server: Option<Rc<LoginServer>>,
    files: Option<Rc<tftp::TftpServer>>,
    ftp: Option<Rc<ftp::FtpServer>>,
}

/// Opens the metrics endpoint.
fn serve_metrics(
    address: metrics::EndpointSettings,
    transfer_log: &Rc<TransferLog>,
    served: &Served,
    log: Log,
) -> Result<()> {
    let transfer_log = Rc::clone(transfer_log);
    let login_server = served.login_server.clone();
    let files = served.files.clone();
    let ftp = served.ftp.clone();
    let text = move || {
        let traffic = [
            login_server
                .as_ref()
                .map(|login_server| login_server.admission().traffic(ServerProtocol::Telnet)),
            files.as_ref().map(|files| files.traffic()),
            ftp.as_ref().map(|ftp| ftp.traffic()),
        ];
        let traffic: Vec<_> = traffic.into_iter().flatten().collect();
        transfer_log.metrics().text(&traffic)
    };
    let (at, attended) = metrics::serve(address, text, log)?;
    log.write(&ServeEvent::Metrics { at });
    tokio::task::spawn_local(attended);
    Ok(())
}

/// Runs the servers until the process is terminated or one of them fails.
async fn run_servers(
    served: Served,
    flags: Flags,
    registry: Arc<MeterRegistry>,
    log: Log,
) -> Result<()> {
    let Served { host, login_server, files, ftp } = &served;
    let _shown = host
        .as_ref()
        .map(|host| registry.register_block("own TCP/IP stack", host.shared_counters()));
    let running = RunningConfiguration::read(&flags).ok();
    let mut services = JoinSet::new();
    let (guard, startup) = Startup::begin();
    if let Some(files) = files {
        services.spawn_local(Rc::clone(files).serve(guard.clone()));
    }
    if let Some(ftp) = ftp {
        services.spawn_local(Rc::clone(ftp).serve(guard.clone()));
    }
    if let Some(login_server) = login_server {
        services.spawn_local(listen(Rc::clone(login_server), host.clone(), guard.clone()));
    }
    drop(guard);
    let serving = async {
        startup.finish().await;
        for at in inherited_sockets::close_unused() {
            log.write(&ServeEvent::UnusedSocket { at });
        }
        notify(ServiceState::Ready, log);
        until_terminated(|| {
            reload(&flags, &served, log);
            log_keys_for_restart(&flags, running.as_ref(), log);
            notify(ServiceState::Ready, log);
        })
        .await
    };
    let ended_service = tokio::select! {
        // A server that cannot start must not be reported as ready.
        biased;
        Some(result) = services.join_next() => result?,
        result = serving => result,
    };
    notify(ServiceState::Stopping, log);
    if let Some(login_server) = login_server {
        let sessions = login_server.admission().sessions();
        login_server.log.write(&ServeEvent::Closing { sessions });
    }
    if let Some(files) = files {
        files.close().await;
    }
    if let Some(ftp) = ftp {
        ftp.close().await;
    }
    if let Some(host) = host {
        // Data that is still queued would be lost with the host.
        _ = tokio::time::timeout(DRAIN_TIMEOUT, host.drained()).await;
    }
    ended_service
}

/// Rereads the configuration and the user files, and applies the settings that can change at run
/// time.
fn reload(flags: &Flags, served: &Served, log: Log) {
    notify(ServiceState::Reloading, log);
    log_output::reopen_file();
    let load = || ConfigurationLoader::open(flags);
    if let Some(ftp) = &served.ftp {
        let settings = load().and_then(|loader| loader.ftp());
        ftp.reload(settings.and_then(|settings| settings.context("the [ftp] table is missing")));
    }
    if let Some(files) = &served.files {
        let settings = load().and_then(|loader| loader.tftp());
        files.reload(settings.and_then(|settings| settings.context("the [tftp] table is missing")));
    }
    if let Some(login_server) = &served.login_server {
        let configuration = load().and_then(|loader| loader.login());
        let login_state =
            configuration.and_then(|configuration| LoginState::prepare(configuration, flags));
        let reload_result =
            login_state.and_then(|login_state| login_server.apply_reloadable(login_state));
        log.write(&match reload_result {
            Ok(()) => ServeEvent::ReloadedLogins,
            Err(error) => ServeEvent::NotReloaded { why: format!("{error:#}") },
        });
    }
}

/// Logs the keys that have changed since the start and that only a restart applies.
fn log_keys_for_restart(flags: &Flags, running: Option<&RunningConfiguration>, log: Log) {
    // An invalid configuration has been logged by the servers.
    let new = RunningConfiguration::read(flags).ok();
    let keys = running.zip(new).map(|(running, new)| running.keys_for_restart(&new));
    if let Some(keys) = keys.filter(|keys| !keys.is_empty()) {
        log.write(&ServeEvent::RestartNeeded { keys });
    }
}

/// Reports the state of the servers to the service manager, if there is one.
fn notify(state: ServiceState, log: Log) {
    if let Err(error) = service_manager::notify(state) {
        log.write(&ServeEvent::NotNotified { why: error.to_string() });
    }
}

/// Waits for SIGINT or SIGTERM. Calls `on_hangup` for each SIGHUP, which never ends the server.
async fn until_terminated(on_hangup: impl Fn()) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            result = tokio::signal::ctrl_c() => return Ok(result?),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => on_hangup(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::AdmissionRefusal;
    use tftp::TftpServer;

    #[test]
    fn a_reload_applies_the_prefixes_of_the_tftp_server() {
        let mut flags = Flags { quiet: true, no_record: true, ..Flags::default() };
        flags.tftp.is_requested = true;
        flags.root.root = Some(std::env::temp_dir());
        let settings = ConfigurationLoader::open(&flags).unwrap().tftp().unwrap().unwrap();
        let transfer_log = Rc::new(TransferLog::new(None, flags.log()));
        let registry = MeterRegistry::new("test");
        let server =
            Rc::new(TftpServer::new(settings, flags.log(), transfer_log, &registry).unwrap());
        let files = Some(Rc::clone(&server));
        let served = Served { host: None, login_server: None, files, ftp: None };
        flags.deny = vec!["192.0.2.0/24".parse().unwrap()];
        reload(&flags, &served, flags.log());
        assert_eq!(server.admit([192, 0, 2, 1].into()), Err(AdmissionRefusal::Prefix));
    }
}
