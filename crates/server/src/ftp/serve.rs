//! Listeners of the FTP server, and the maintenance of the roots while it runs.

use super::default_tls::TlsOptions;
use super::ftp_log::FtpEvent;
use super::ftp_server::FtpServer;
use super::partial;
use super::protection::Protection;
use super::session::FtpSession;
use super::socket::{ControlListener, Socket};
use super::space::Space;
use super::upload;
use anyhow::{Context, Result};
use os::beneath::RootDir;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

/// Length of the kernel's queue of connections that are not accepted yet (the backlog of
/// `listen(2)`).
const BACKLOG: u32 = 1024;

/// Delay after a failed accept, for example for lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl FtpServer {
    /// Serves until no connections can be accepted any more.
    ///
    /// # Errors
    ///
    /// Returns an error that names the address and the reason if a listener cannot be opened, or
    /// the error of a listener that failed.
    pub(crate) async fn serve(self: Rc<Self>) -> Result<()> {
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
        let addresses = settings.listen.iter().map(|address| (address, false));
        let mut ports = Vec::new();
        for (address, is_tls) in
            addresses.chain(settings.listen_tls.iter().map(|address| (address, true)))
        {
            if self.host().is_some() && ports.contains(&(address.port(), is_tls)) {
                // A port of the user-space host covers all its addresses.
                continue;
            }
            ports.push((address.port(), is_tls));
            let listener = self.open(*address)?;
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
            listeners.spawn_local(Rc::clone(&self).accept_connections(listener, is_tls));
        }
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

    fn open(&self, address: SocketAddr) -> Result<ControlListener> {
        let Some(host) = self.host() else { return open(address) };
        let port = address.port();
        let listener = host.listen(port);
        let failure = || format!("cannot listen on port {port} of plumb's own TCP/IP stack");
        let listener = listener.with_context(failure)?;
        Ok(ControlListener::Userspace(listener))
    }

    /// Accepts connections. Returns only if a listener of the user-space host fails.
    async fn accept_connections(
        self: Rc<Self>,
        listener: ControlListener,
        is_implicit_tls: bool,
    ) -> io::Error {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) if self.host().is_some() => return error,
                Err(_) => {
                    // No descriptors are left, or the client closed the connection before it was
                    // accepted.
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            if *self.closing.borrow() {
                continue;
            }
            let random_ppm = self.context().rng.below(1_000_000);
            let admission_result =
                self.admission.borrow_mut().admit_unauthenticated(peer, random_ppm);
            if let Err(refusal) = admission_result {
                let why = refusal.to_string();
                if !is_implicit_tls {
                    // One attempt without blocking: a refused client gets no more of the server's
                    // time.
                    _ = stream.try_write(format!("421 Sorry, {refusal}\r\n").as_bytes());
                }
                self.log.write(&FtpEvent::Refused { from: peer, why });
                continue;
            }
            let server = Rc::clone(&self);
            tokio::task::spawn_local(async move {
                let started_at = std::time::Instant::now();
                let result = Rc::clone(&server).run_session(stream, peer, is_implicit_tls).await;
                server.log.write(&match result {
                    Ok(()) => {
                        FtpEvent::Left { from: peer, seconds: started_at.elapsed().as_secs() }
                    }
                    Err(error) => FtpEvent::Refused { from: peer, why: error.to_string() },
                });
                server.admission.borrow_mut().release_session(peer);
            });
        }
    }

    async fn run_session(
        self: Rc<Self>,
        stream: Socket,
        peer: SocketAddr,
        is_implicit_tls: bool,
    ) -> io::Result<()> {
        let tls_options = TlsOptions { tls: self.tls.borrow().clone(), is_implicit_tls };
        FtpSession::begin(self, tls_options, stream, peer).await?.run().await
    }
}

fn open(address: SocketAddr) -> Result<ControlListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    socket.set_reuseaddr(true)?;
    let result = socket.bind(address).and_then(|()| socket.listen(BACKLOG));
    result.map(ControlListener::Kernel).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::PermissionDenied => "ports below 1024 need root",
            io::ErrorKind::AddrInUse => "the port is used by another program",
            io::ErrorKind::AddrNotAvailable => "not an address of this machine",
            _ => "system error",
        };
        anyhow::Error::new(error).context(format!("cannot listen on {address}: {why}"))
    })
}
