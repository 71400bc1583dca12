//! Listeners of the FTP server, and the maintenance of the roots while it runs.

use super::default_tls::TlsOptions;
use super::ftp_log::FtpEvent;
use super::ftp_server::{FtpPlan, FtpServer};
use super::partial;
use super::protection::Protection;
use super::session::FtpSession;
use super::space::Space;
use super::upload;
use crate::admission::AdmissionRefusal;
use crate::listener::{ConnectionService, ServerListener};
use crate::log::ServeEvent;
use crate::log_line::Level;
use crate::log_text::{connection_error, connection_error_level};
use crate::socket_set::{ConfiguredSocket, SocketDescription};
use carrier::TcpConnection;
use os::beneath::RootDir;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;

/// Policy of a listener, which a reload can change: whether TLS is implicit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FtpPolicy {
    is_implicit_tls: bool,
}

impl FtpPlan {
    /// Returns the listeners of the configuration.
    pub(crate) fn sockets(&self, is_userspace: bool) -> Vec<ConfiguredSocket<FtpPolicy>> {
        let settings = &self.settings;
        let mut what = match &settings.site.root {
            Some(root) => format!("root {}, {}", root.display(), settings.rights_description),
            None => "a root directory for each user".to_owned(),
        };
        for host in settings.hosts.iter() {
            what += &format!(", virtual host {}", host.name());
        }
        let addresses = settings.addresses().to_open(is_userspace);
        let cleartext = addresses.listen.iter().map(|address| (address, false));
        let all = cleartext.chain(addresses.listen_tls.iter().map(|address| (address, true)));
        let socket = |(address, is_implicit_tls): (&SocketAddr, bool)| {
            let how = match (is_implicit_tls, settings.tls, self.tls.tls.is_some()) {
                (true, ..) => "with TLS",
                (_, Protection::Required, _) => "AUTH TLS required",
                (_, _, true) => "unencrypted or with AUTH TLS",
                (_, _, false) => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let description = SocketDescription { how, what: what.clone() };
            let policy = FtpPolicy { is_implicit_tls };
            ConfiguredSocket { address: *address, policy, description }
        };
        all.map(socket).collect()
    }
}

impl FtpServer {
    /// Starts the maintenance of the roots, which ends with the server.
    pub(crate) fn start_maintenance(self: &Rc<Self>) {
        let settings = self.settings();
        let roots = settings.writable_roots();
        let limits = settings.partials;
        // The removal runs in the background, because a root may contain any number of directories.
        tokio::task::spawn_blocking(move || {
            roots.iter().for_each(|root| upload::sweep(root, limits));
        });
        tokio::task::spawn_local(maintain_roots(Rc::downgrade(self)));
    }

    /// Accepts connections until the listener fails. Returns the error.
    pub(crate) async fn accept(
        self: Rc<Self>,
        listener: Rc<ServerListener>,
        policy: Rc<RefCell<FtpPolicy>>,
    ) -> anyhow::Error {
        let error = listener.run(Rc::new(ControlService { server: self, policy })).await;
        anyhow::Error::new(error).context("cannot accept FTP connections")
    }

    /// Logs that a listener is open.
    pub(crate) fn report_listener(&self, listener: &ServerListener, of: &SocketDescription) {
        let at = listener.name().unwrap_or_default();
        self.log.write(&FtpEvent::ServingFtp { at, how: of.how, what: of.what.clone() });
    }
}

/// Periodically recounts quotas and removes old partial uploads, until the server is gone.
async fn maintain_roots(server: Weak<FtpServer>) {
    loop {
        let Some(recount_interval) = server.upgrade().map(|it| it.settings().recount_interval)
        else {
            return;
        };
        tokio::time::sleep(recount_interval).await;
        let Some(server) = server.upgrade() else { return };
        let settings = server.settings();
        let spaces: HashMap<PathBuf, Arc<Space>> = {
            let spaces = server.spaces.borrow();
            spaces.iter().map(|((root, _), space)| (root.clone(), Arc::clone(space))).collect()
        };
        let roots = settings.writable_roots();
        let limits = settings.partials;
        let maintenance = tokio::task::spawn_blocking(move || {
            for root in roots {
                let Ok(root_dir) = RootDir::open(&root) else { continue };
                let space = spaces.get(&root);
                partial::trim(&root_dir, space.map(Arc::as_ref), limits, None);
                if let Some(space) = space {
                    space.recount(&root_dir);
                }
            }
        });
        // An error in this round does not prevent the next round.
        _ = maintenance.await;
    }
}

/// Service of one listener for control connections.
struct ControlService {
    server: Rc<FtpServer>,
    policy: Rc<RefCell<FtpPolicy>>,
}

impl ConnectionService for ControlService {
    fn report(&self, event: &ServeEvent<'_>) {
        self.server.log.write(event);
    }

    fn is_closing(&self) -> bool {
        self.server.is_closing()
    }

    fn admit(&self, peer: SocketAddr) -> Result<(), AdmissionRefusal> {
        let random_ppm = self.server.context().rng.below(1_000_000);
        self.server.admission.borrow_mut().admit_unauthenticated(peer, random_ppm)?;
        self.server.log.write(&ServeEvent::Connected { from: peer });
        Ok(())
    }

    fn notify_refused(&self, connection: &TcpConnection, refusal: AdmissionRefusal) {
        if !self.policy.borrow().is_implicit_tls {
            // If the reply does not fit into the send buffer, the client gets none.
            _ = connection.try_write(format!("421 Sorry, {refusal}\r\n").as_bytes());
        }
    }

    async fn serve(self: Rc<Self>, connection: TcpConnection, peer: SocketAddr) {
        let started_at = Instant::now();
        let result = self.run_session(connection, peer).await;
        let level = result.as_ref().err().map_or(Level::Info, connection_error_level);
        let why = match result {
            Ok(reason) => reason.map(str::to_owned),
            Err(error) => Some(connection_error(&error)),
        };
        let seconds = started_at.elapsed().as_secs();
        self.server.log.write(&FtpEvent::Left { from: peer, seconds, why, level });
    }

    fn release(&self, peer: SocketAddr) {
        self.server.admission.borrow_mut().release_session(peer);
    }
}

impl ControlService {
    async fn run_session(
        &self,
        connection: TcpConnection,
        peer: SocketAddr,
    ) -> io::Result<Option<&'static str>> {
        let tls = self.server.tls.borrow().clone();
        let is_implicit_tls = self.policy.borrow().is_implicit_tls;
        let tls_options = TlsOptions { tls, is_implicit_tls };
        let server = Rc::clone(&self.server);
        FtpSession::begin(server, tls_options, connection, peer).await?.run().await
    }
}
