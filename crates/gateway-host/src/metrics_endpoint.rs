//! The endpoint of the metrics, with the exchange of the crate `open-metrics`.
//!
//! A connection carries one request. If all connections are in use, the oldest one is closed, so
//! that silent clients delay no scrape. A client that sends or reads too slowly is closed after
//! [`EXCHANGE_TIMEOUT`].

use crate::event_loop::EventLoop;
use crate::program_error::ProgramError;
use crate::spare_descriptor::SpareDescriptor;
use net::Instant;
use open_metrics::exchange::{
    CONNECTIONS_MAX, EXCHANGE_TIMEOUT, REQUEST_MAX_BYTES, accepted_hosts, is_complete, response,
};
use os::readiness::would_block_as_pending;
use os::tcp_socket::{self, ListenOptions};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::task::Poll;

/// Number of descriptors that the endpoint uses in the event loop.
pub(crate) const NUMBERS: usize = 1 + CONNECTIONS_MAX;
/// Maximum number of bytes that are read from a client in a turn.
const READ_LEN: usize = 4096;

/// The listener and its clients.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint {
    listener: TcpListener,
    spare: SpareDescriptor,
    clients: Vec<Option<Client>>,
    /// Host names that a request may use.
    hosts: Vec<String>,
    /// Number of the listener in the event loop. The clients have the following numbers.
    first_number: usize,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    until: Instant,
}

impl MetricsEndpoint {
    /// Listens at `address`.
    pub(crate) fn bind(
        address: SocketAddr,
        configured_hosts: &[String],
        event_loop: &EventLoop,
        first_number: usize,
    ) -> Result<Self, ProgramError> {
        let failed = |error| ProgramError::Metrics(address, error);
        let listener = tcp_socket::listen(address, &ListenOptions::default()).map_err(failed)?;
        event_loop.watch(&listener, first_number).map_err(failed)?;
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let hosts = accepted_hosts(&name, configured_hosts.iter());
        let spare = SpareDescriptor::reserve();
        Ok(Self { listener, spare, clients: Vec::new(), hosts, first_number })
    }

    /// Returns when a client has to be closed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.clients.iter().flatten().map(|client| client.until).min()
    }

    /// Closes the clients whose time is over.
    pub(crate) fn timeout(&mut self, now: Instant) {
        for slot in &mut self.clients {
            if slot.as_ref().is_some_and(|client| client.until <= now) {
                *slot = None;
            }
        }
    }

    /// Serves the descriptor with `number` in the event loop, if it is one of the endpoint. `text`
    /// returns the metrics.
    pub(crate) fn serve(
        &mut self,
        number: usize,
        event_loop: &EventLoop,
        text: &impl Fn() -> String,
    ) {
        match number.checked_sub(self.first_number) {
            Some(0) => self.accept(event_loop),
            Some(index) => {
                let slot = self.clients.get_mut(index - 1);
                if let Some(slot) = slot
                    && let Some(client) = slot
                    && !client.serve(&self.hosts, text)
                {
                    *slot = None;
                }
            }
            None => {}
        }
    }

    fn accept(&mut self, event_loop: &EventLoop) {
        // An error of one connection does not concern the listener.
        let Some((stream, _)) = self.spare.accept_tcp(&self.listener) else { return };
        let index = self.free_index();
        let number = self.first_number + 1 + index;
        let is_watched = event_loop.watch(&stream, number).is_ok();
        if let Some(slot) = self.clients.get_mut(index).filter(|_| is_watched) {
            let until = event_loop.now() + EXCHANGE_TIMEOUT;
            *slot = Some(Client { stream, request: Vec::new(), until });
        }
    }

    /// Returns the index of a free place, or that of the oldest client.
    fn free_index(&mut self) -> usize {
        if let Some(free) = self.clients.iter().position(Option::is_none) {
            return free;
        }
        if self.clients.len() < CONNECTIONS_MAX {
            self.clients.push(None);
            return self.clients.len() - 1;
        }
        let until = |index: &usize| {
            let client = self.clients.get(*index).and_then(Option::as_ref);
            client.map(|client| client.until)
        };
        (0..self.clients.len()).min_by_key(until).unwrap_or(0)
    }
}

impl Client {
    /// Reads the request, and answers it if it is complete. Returns whether more must be read.
    fn serve(&mut self, hosts: &[String], text: &impl Fn() -> String) -> bool {
        let mut buffer = [0; READ_LEN];
        match would_block_as_pending(self.stream.read(&mut buffer)) {
            Poll::Pending => return true,
            Poll::Ready(Ok(0) | Err(_)) => return false,
            Poll::Ready(Ok(len)) => {
                self.request.extend_from_slice(buffer.get(..len).unwrap_or_default());
            }
        }
        if !is_complete(&self.request) {
            return self.request.len() < REQUEST_MAX_BYTES;
        }
        // The response is shorter than the buffer of a new connection. A client that does not read
        // loses the rest.
        _ = self.stream.write_all(&response(&self.request, hosts, text));
        _ = self.stream.shutdown(Shutdown::Write);
        false
    }
}
