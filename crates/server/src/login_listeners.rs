//! Listeners of the logins and of the serial consoles, as the configuration describes them.

use super::console::SerialConsole;
use super::listen_addresses::ListenAddresses;
use super::login_configuration::LoginConfiguration;
use super::login_connection::LoginPolicy;
use super::socket_set::{ConfiguredSocket, SocketDescription};
use super::start_tls_policy::StartTls;
use anyhow::Result;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio_rustls::TlsAcceptor;

/// Listeners of a configuration, and events for the log.
#[derive(Default)]
pub(super) struct LoginListeners {
    pub(super) sockets: Vec<ConfiguredSocket<LoginPolicy>>,
    /// SHA-256 fingerprint of the certificate, if a listener uses TLS.
    pub(super) certificate: Option<String>,
    /// Reason for which START_TLS is not offered, if it would be offered by default.
    pub(super) no_start_tls: Option<String>,
    /// Addresses at which clients of any address run a program without a login.
    pub(super) without_login: Vec<SocketAddr>,
}

impl LoginListeners {
    /// Returns the listeners of `configuration`, whose consoles are `consoles`. Generates a missing
    /// certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if a listener needs a certificate that cannot be used.
    pub(super) fn of(
        configuration: &LoginConfiguration,
        consoles: &[Rc<SerialConsole>],
        is_userspace: bool,
    ) -> Result<Self> {
        let listeners = Self::default();
        let mut builder = Builder { configuration, is_userspace, acceptor: None, listeners };
        builder.add(&configuration.addresses, configuration.start_tls, None)?;
        for (settings, console) in configuration.consoles.iter().zip(consoles) {
            builder.add(&settings.addresses, settings.start_tls, Some(console))?;
        }
        Ok(builder.listeners)
    }
}

/// Builds the listeners, which share one certificate.
struct Builder<'a> {
    configuration: &'a LoginConfiguration,
    is_userspace: bool,
    acceptor: Option<TlsAcceptor>,
    listeners: LoginListeners,
}

impl Builder<'_> {
    /// Adds the listeners of one service.
    fn add(
        &mut self,
        addresses: &ListenAddresses,
        configured_start_tls: Option<StartTls>,
        console: Option<&Rc<SerialConsole>>,
    ) -> Result<()> {
        let addresses = addresses.to_open(self.is_userspace);
        for address in &addresses.listen {
            let is_loopback = address.ip().is_loopback() && !self.is_userspace;
            let protection = match is_loopback {
                true => "unencrypted, loopback only",
                false => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let start_tls = self.start_tls(configured_start_tls, is_loopback)?;
            let protection =
                if start_tls == StartTls::Required { "START_TLS required" } else { protection };
            self.add_socket(*address, protection, Some(start_tls), console);
            self.note_no_login(*address, is_loopback || console.is_some());
        }
        for address in &addresses.listen_tls {
            self.acceptor()?;
            self.add_socket(*address, "with TLS", None, console);
            self.note_no_login(*address, address.ip().is_loopback() || console.is_some());
        }
        Ok(())
    }

    fn note_no_login(&mut self, address: SocketAddr, is_restricted: bool) {
        let configuration = self.configuration;
        if !is_restricted && configuration.exec.is_some() && configuration.rules.allow.is_empty() {
            self.listeners.without_login.push(address);
        }
    }

    /// Returns the START_TLS policy: [`StartTls::Off`] if the policy is only the default and no
    /// certificate is available.
    fn start_tls(&mut self, configured: Option<StartTls>, is_loopback: bool) -> Result<StartTls> {
        let is_default = configured.is_none() && !is_loopback;
        match configured {
            None if is_default => {
                if let Err(error) = self.acceptor() {
                    self.listeners.no_start_tls = Some(format!("{error:#}"));
                    return Ok(StartTls::Off);
                }
            }
            None | Some(StartTls::Off) => {}
            Some(_) => self.acceptor()?,
        }
        Ok(configured.unwrap_or(if is_default { StartTls::Offered } else { StartTls::Off }))
    }

    /// Reads the certificate, which the first call generates if it is missing.
    fn acceptor(&mut self) -> Result<()> {
        if self.acceptor.is_none() {
            let certificate = &self.configuration.certificate;
            if certificate.is_generated() {
                certificate.generate_if_missing()?;
            }
            let (acceptor, sha256) = certificate.acceptor()?;
            self.listeners.certificate = Some(sha256);
            self.acceptor = Some(acceptor);
        }
        Ok(())
    }

    fn add_socket(
        &mut self,
        address: SocketAddr,
        protection: &'static str,
        start_tls: Option<StartTls>,
        console: Option<&Rc<SerialConsole>>,
    ) {
        let acceptor = self.acceptor.clone();
        let policy = LoginPolicy { acceptor, start_tls, console: console.cloned() };
        let description = SocketDescription { how: protection, what: String::new() };
        self.listeners.sockets.push(ConfiguredSocket { address, policy, description });
    }
}
