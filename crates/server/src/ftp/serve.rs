//! Listeners of the FTP server, and the maintenance of the roots while it runs.

use super::default_tls::TlsOptions;
use super::ftp_log::FtpEvent;
use super::ftp_server::FtpServer;
use super::partial;
use super::protection::Protection;
use super::session::FtpSession;
use super::space::Space;
use super::upload;
use crate::admission::AdmissionRefusal;
use crate::listener::{ConnectionService, ServerListener};
use crate::log::ServeEvent;
use crate::startup::StartupGuard;
use anyhow::{Context, Result};
use carrier::TcpConnection;
use os::beneath::RootDir;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::JoinSet;

impl FtpServer {
    /// Serves until no connections can be accepted any more. Drops `startup` when all listeners are
    /// open.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a listener cannot be opened, or
    /// the error of a listener that failed.
    pub(crate) async fn serve(self: Rc<Self>, startup: StartupGuard) -> Result<()> {
        let settings = self.settings();
        let mut description = match &settings.site.root {
            Some(root) => format!("root {}, {}", root.display(), settings.rights_description),
            None => "a root directory for each user".to_owned(),
        };
        for host in settings.hosts.iter() {
            description += &format!(", virtual host {}", host.name());
        }
        let roots = settings.writable_roots();
        let limits = settings.partials;
        // The removal runs in the background, because a root may contain any number of directories.
        tokio::task::spawn_blocking(move || {
            roots.iter().for_each(|root| upload::sweep(root, limits));
        });
        let mut listeners = JoinSet::new();
        tokio::task::spawn_local(Rc::clone(&self).maintain_roots());
        let addresses = settings.addresses().to_open(self.host().is_some());
        let cleartext = addresses.listen.iter().map(|address| (address, false));
        for (address, is_tls) in
            cleartext.chain(addresses.listen_tls.iter().map(|address| (address, true)))
        {
            let listener = ServerListener::open(self.host(), *address)?;
            let has_tls = self.tls.borrow().is_some();
            let protection = match (is_tls, settings.tls, has_tls) {
                (true, ..) => "with TLS",
                (_, Protection::Required, _) => "AUTH TLS required",
                (_, _, true) => "unencrypted or with AUTH TLS",
                (_, _, false) => "UNENCRYPTED (readable by anyone on the network path)",
            };
            let at = listener.name()?;
            let what = description.clone();
            self.log.write(&FtpEvent::ServingFtp { at, how: protection, what });
            let service = ControlService { server: Rc::clone(&self), is_implicit_tls: is_tls };
            listeners.spawn_local(listener.run(Rc::new(service)));
        }
        drop(startup);
        let first_end = listeners.join_next().await.transpose()?;
        first_end.map_or(Ok(()), |error| Err(error).context("cannot accept FTP connections"))
    }

    /// Periodically recounts quotas and removes old partial uploads.
    async fn maintain_roots(self: Rc<Self>) {
        loop {
            let settings = self.settings();
            tokio::time::sleep(settings.recount_interval).await;
            let spaces: HashMap<PathBuf, Arc<Space>> = {
                let spaces = self.spaces.borrow();
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
}

/// Service of one listener for control connections.
struct ControlService {
    server: Rc<FtpServer>,
    is_implicit_tls: bool,
}

impl ConnectionService for ControlService {
    fn report(&self, event: &ServeEvent<'_>) {
        self.server.log.write(event);
    }

    fn is_closing(&self) -> bool {
        *self.server.closing.borrow()
    }

    fn admit(&self, peer: SocketAddr) -> Result<(), AdmissionRefusal> {
        let random_ppm = self.server.context().rng.below(1_000_000);
        self.server.admission.borrow_mut().admit_unauthenticated(peer, random_ppm)
    }

    fn notify_refused(&self, connection: &TcpConnection, refusal: AdmissionRefusal) {
        if !self.is_implicit_tls {
            // If the reply does not fit into the send buffer, the client gets none.
            _ = connection.try_write(format!("421 Sorry, {refusal}\r\n").as_bytes());
        }
    }

    async fn serve(self: Rc<Self>, connection: TcpConnection, peer: SocketAddr) {
        let started_at = Instant::now();
        let result = self.run_session(connection, peer).await;
        self.server.log.write(&match result {
            Ok(()) => FtpEvent::Left { from: peer, seconds: started_at.elapsed().as_secs() },
            Err(error) => FtpEvent::Refused { from: peer, why: error.to_string() },
        });
    }

    fn release(&self, peer: SocketAddr) {
        self.server.admission.borrow_mut().release_session(peer);
    }
}

impl ControlService {
    async fn run_session(&self, connection: TcpConnection, peer: SocketAddr) -> io::Result<()> {
        let tls = self.server.tls.borrow().clone();
        let tls_options = TlsOptions { tls, is_implicit_tls: self.is_implicit_tls };
        let server = Rc::clone(&self.server);
        FtpSession::begin(server, tls_options, connection, peer).await?.run().await
    }
}
