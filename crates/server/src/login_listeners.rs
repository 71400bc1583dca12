//! Listeners of the logins and of the serial consoles.

use super::console::{self, SerialConsole};
use super::listen_addresses::ListenAddresses;
use super::listener::ServerListener;
use super::log::ServeEvent;
use super::login_connection::LoginService;
use super::login_server::LoginServer;
use super::start_tls_policy::StartTls;
use super::startup::StartupGuard;
use anyhow::{Context, Result};
use os::host::Host;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Serves logins and consoles until no connections can be accepted any more. Drops `startup` when all
/// listeners are open.
///
/// # Errors
///
/// Returns an error if a listener cannot be opened, or the error of a listener that failed.
pub(crate) async fn listen(
    login_server: Rc<LoginServer>,
    host: Option<Host>,
    startup: StartupGuard,
) -> Result<()> {
    let configuration = login_server.configuration();
    let mut accept_tasks = JoinSet::new();
    let mut listeners =
        Listeners { login_server: &login_server, host: host.as_ref(), acceptor: None };
    let start_tls = configuration.start_tls;
    listeners.open(&configuration.addresses, start_tls, None, &mut accept_tasks)?;
    for settings in &configuration.consoles {
        let console = Rc::new(SerialConsole::new(settings.clone()));
        tokio::task::spawn_local(console::run_port(Rc::clone(&console), Rc::clone(&login_server)));
        let start_tls = settings.start_tls;
        listeners.open(&settings.addresses, start_tls, Some(&console), &mut accept_tasks)?;
    }
    drop(startup);
    let first_end = accept_tasks.join_next().await.transpose()?;
    first_end.map_or(Ok(()), |error| Err(error).context("cannot accept connections"))
}

/// Opens listeners that share one certificate.
struct Listeners<'a> {
    login_server: &'a Rc<LoginServer>,
    host: Option<&'a Host>,
    acceptor: Option<TlsAcceptor>,
}

impl Listeners<'_> {
    /// Opens the listeners of one service.
    fn open(
        &mut self,
        addresses: &ListenAddresses,
        configured_start_tls: Option<StartTls>,
        console: Option<&Rc<SerialConsole>>,
        accept_tasks: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        let addresses = addresses.to_open(self.host.is_some());
        for address in &addresses.listen {
            let is_loopback = address.ip().is_loopback() && self.host.is_none();
            let protection = match is_loopback {
                true => "unencrypted, loopback only",
                false => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let start_tls = self.start_tls(configured_start_tls, is_loopback)?;
            let protection =
                if start_tls == StartTls::Required { "START_TLS required" } else { protection };
            self.listen(*address, protection, Some(start_tls), console, accept_tasks)?;
            if console.is_none() && !is_loopback {
                self.warn_of_no_login(*address);
            }
        }
        for address in &addresses.listen_tls {
            self.acceptor()?;
            self.listen(*address, "with TLS", None, console, accept_tasks)?;
            if console.is_none() && !address.ip().is_loopback() {
                self.warn_of_no_login(*address);
            }
        }
        Ok(())
    }

    /// Logs a warning if a program is served without a login to clients of any address.
    fn warn_of_no_login(&self, address: SocketAddr) {
        let configuration = self.login_server.configuration();
        if let Some(program) = configuration.exec.as_ref().and_then(|words| words.first())
            && configuration.rules.allow.is_empty()
        {
            self.login_server.log.write(&ServeEvent::NoLogin { at: address.to_string(), program });
        }
    }

    /// Returns the START_TLS policy. If the policy is only the default and no certificate is
    /// available, logs the reason and returns [`StartTls::Off`].
    fn start_tls(&mut self, configured: Option<StartTls>, is_loopback: bool) -> Result<StartTls> {
        let is_default = configured.is_none() && !is_loopback;
        match configured {
            None if is_default => {
                if let Err(error) = self.acceptor() {
                    let why = format!("{error:#}");
                    self.login_server.log.write(&ServeEvent::NoStartTls { why });
                    return Ok(StartTls::Off);
                }
            }
            None | Some(StartTls::Off) => {}
            Some(_) => _ = self.acceptor()?,
        }
        Ok(configured.unwrap_or(if is_default { StartTls::Offered } else { StartTls::Off }))
    }

    /// Returns the TLS acceptor. The first call generates a missing certificate and logs its hash.
    fn acceptor(&mut self) -> Result<TlsAcceptor> {
        if let Some(acceptor) = &self.acceptor {
            return Ok(acceptor.clone());
        }
        let configuration = self.login_server.configuration();
        if configuration.certificate.is_generated() {
            configuration.certificate.generate_if_missing()?;
        }
        let (acceptor, sha256) = configuration.certificate.acceptor()?;
        self.login_server.log.write(&ServeEvent::Certificate { sha256: &sha256 });
        Ok(self.acceptor.insert(acceptor).clone())
    }

    fn listen(
        &self,
        address: SocketAddr,
        protection: &'static str,
        start_tls: Option<StartTls>,
        console: Option<&Rc<SerialConsole>>,
        accept_tasks: &mut JoinSet<io::Error>,
    ) -> Result<()> {
        let listener = ServerListener::open(self.host, address)?;
        let at = listener.name()?;
        self.login_server.log.write(&ServeEvent::Listening { at, how: protection });
        let service = LoginService {
            server: Rc::clone(self.login_server),
            acceptor: self.acceptor.clone(),
            start_tls,
            console: console.cloned(),
        };
        accept_tasks.spawn_local(listener.run(Rc::new(service)));
        Ok(())
    }
}
