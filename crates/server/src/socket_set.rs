//! Sockets of one server that accept connections or receive requests. A reload opens and closes them.
//!
//! A reload has two steps: [`SocketSet::prepare`] opens the new sockets and may fail, which changes
//! nothing; [`SocketSet::apply`] starts to serve them and closes the sockets that are no longer
//! configured. A socket whose address remains in the configuration stays open, and its policy, such as
//! the TLS settings, is replaced. Open sessions are not affected.

use anyhow::Result;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::task::JoinHandle;

/// Address in the configuration, with the policy of its socket.
#[derive(Clone, Debug)]
pub(super) struct ConfiguredSocket<P> {
    pub(super) address: SocketAddr,
    pub(super) policy: P,
    pub(super) description: SocketDescription,
}

/// Description of a socket for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SocketDescription {
    /// Protection of the connections, or rights of the clients.
    pub(super) how: &'static str,
    /// Served files; empty for logins.
    pub(super) what: String,
}

/// Open sockets with their tasks.
#[derive(Debug)]
pub(super) struct SocketSet<L, P> {
    open: RefCell<Vec<OpenSocket<L, P>>>,
}

impl<L, P> Default for SocketSet<L, P> {
    fn default() -> Self {
        Self { open: RefCell::default() }
    }
}

#[derive(Debug)]
struct OpenSocket<L, P> {
    configured: ConfiguredSocket<Rc<RefCell<P>>>,
    socket: Rc<L>,
    task: JoinHandle<()>,
}

impl<L, P> Drop for OpenSocket<L, P> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Result of [`SocketSet::prepare`]: all configured sockets, of which `None` are open already.
#[derive(Debug)]
pub(super) struct SocketChanges<L, P>(Vec<(ConfiguredSocket<P>, Option<L>)>);

impl<L: 'static, P: 'static> SocketSet<L, P> {
    /// Opens the sockets of `configured` that are not open yet. `open` gets the address.
    ///
    /// # Errors
    ///
    /// Returns the first error of `open`. The new sockets are then closed.
    pub(super) fn prepare(
        &self,
        configured: Vec<ConfiguredSocket<P>>,
        open: impl Fn(SocketAddr) -> Result<L>,
    ) -> Result<SocketChanges<L, P>> {
        let mut unclaimed: Vec<SocketAddr> =
            self.open.borrow().iter().map(|open| open.configured.address).collect();
        let prepared = configured.into_iter().map(|socket| {
            let at = unclaimed.iter().position(|address| *address == socket.address);
            let is_open = at.map(|at| unclaimed.swap_remove(at)).is_some();
            let new = (!is_open).then(|| open(socket.address)).transpose()?;
            Ok((socket, new))
        });
        prepared.collect::<Result<Vec<_>>>().map(SocketChanges)
    }

    /// Returns the open sockets, with their addresses, that are not in `configured`.
    pub(super) fn unconfigured(
        &self,
        configured: &[ConfiguredSocket<P>],
    ) -> Vec<(SocketAddr, Rc<L>)> {
        let mut kept: Vec<SocketAddr> = configured.iter().map(|socket| socket.address).collect();
        let open = self.open.borrow();
        let unconfigured = open.iter().filter(|open| {
            let at = kept.iter().position(|address| *address == open.configured.address);
            at.map(|at| kept.swap_remove(at)).is_none()
        });
        unconfigured.map(|open| (open.configured.address, Rc::clone(&open.socket))).collect()
    }

    /// Closes the sockets that are no longer configured, and serves the new ones in tasks that run
    /// `serve`. Calls `report` with each socket that is new or has another description, and its
    /// description.
    pub(super) fn apply<F: Future<Output = ()> + 'static>(
        &self,
        changes: SocketChanges<L, P>,
        serve: impl Fn(Rc<L>, Rc<RefCell<P>>) -> F,
        report: impl Fn(&L, &SocketDescription),
    ) {
        let mut before = self.open.take();
        let mut after = Vec::new();
        for (configured, new) in changes.0 {
            let ConfiguredSocket { address, policy, description } = configured;
            if let Some(socket) = new {
                let socket = Rc::new(socket);
                report(&socket, &description);
                let policy = Rc::new(RefCell::new(policy));
                let served = serve(Rc::clone(&socket), Rc::clone(&policy));
                let task = tokio::task::spawn_local(served);
                let configured = ConfiguredSocket { address, policy, description };
                after.push(OpenSocket { configured, socket, task });
                continue;
            }
            let at = before.iter().position(|open| open.configured.address == address);
            let Some(mut open) = at.map(|at| before.remove(at)) else { continue };
            open.configured.policy.replace(policy);
            if open.configured.description != description {
                report(&open.socket, &description);
                open.configured.description = description;
            }
            after.push(open);
        }
        self.open.replace(after);
    }

    /// Returns the sockets that [`Self::apply`] of `changes` will close.
    pub(super) fn to_close(&self, changes: &SocketChanges<L, P>) -> Vec<Rc<L>> {
        let mut kept: Vec<SocketAddr> = Vec::new();
        kept.extend(changes.0.iter().filter(|(_, new)| new.is_none()).map(|(it, _)| it.address));
        let open = self.open.borrow();
        let closed = open.iter().filter(|open| {
            let at = kept.iter().position(|address| *address == open.configured.address);
            at.map(|at| kept.swap_remove(at)).is_none()
        });
        closed.map(|open| Rc::clone(&open.socket)).collect()
    }

    /// Returns the open sockets.
    #[cfg(test)]
    pub(super) fn sockets(&self) -> Vec<Rc<L>> {
        self.open.borrow().iter().map(|open| Rc::clone(&open.socket)).collect()
    }
}
