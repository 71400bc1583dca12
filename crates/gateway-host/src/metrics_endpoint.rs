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
use std::io::{self, Read, Write};
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
    /// The rest of the response, once the request is complete.
    unsent: Option<Vec<u8>>,
    until: Instant,
}

/// The state of a client after its descriptor was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    Reading,
    /// The socket did not accept the whole response.
    Writing,
    Ended,
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
                {
                    let was_writing = client.unsent.is_some();
                    let is_kept = match client.serve(&self.hosts, text) {
                        ClientState::Reading => true,
                        ClientState::Writing if was_writing => true,
                        ClientState::Writing => {
                            event_loop.watch_output(&client.stream, number, true).is_ok()
                        }
                        ClientState::Ended => false,
                    };
                    if !is_kept {
                        *slot = None;
                    }
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
            *slot = Some(Client { stream, request: Vec::new(), unsent: None, until });
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
    /// Reads the request, and answers it if it is complete.
    fn serve(&mut self, hosts: &[String], text: &impl Fn() -> String) -> ClientState {
        if self.unsent.is_none() {
            match self.read() {
                Ok(true) => self.unsent = Some(response(&self.request, hosts, text)),
                Ok(false) => return ClientState::Reading,
                Err(_) => return ClientState::Ended,
            }
        }
        match self.write() {
            Ok(true) => {
                _ = self.stream.shutdown(Shutdown::Write);
                ClientState::Ended
            }
            Ok(false) => ClientState::Writing,
            Err(_) => ClientState::Ended,
        }
    }

    /// Reads a part of the request. Returns whether it is complete.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; READ_LEN];
        match would_block_as_pending(self.stream.read(&mut buffer)) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Poll::Ready(len) => {
                self.request.extend_from_slice(buffer.get(..len?).unwrap_or_default());
            }
        }
        let is_complete = is_complete(&self.request);
        if !is_complete && self.request.len() >= REQUEST_MAX_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(is_complete)
    }

    /// Writes as much of the response as the socket accepts. Returns whether nothing is left.
    fn write(&mut self) -> io::Result<bool> {
        let unsent = self.unsent.get_or_insert_default();
        while !unsent.is_empty() {
            match would_block_as_pending(self.stream.write(unsent)) {
                Poll::Pending => return Ok(false),
                Poll::Ready(len) => _ = unsent.drain(..len?),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::Turn;
    use net::time::Duration;

    /// Number of the listener in the event loop.
    const LISTENER: usize = 7;
    /// Length of a response that exceeds the buffer of a socket.
    const TEXT_LEN: usize = 20_000_000;

    #[test]
    fn a_long_response_is_sent_completely_to_a_client_that_reads_late() {
        let mut event_loop = EventLoop::new().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut endpoint = MetricsEndpoint::bind(address, &[], &event_loop, LISTENER).unwrap();
        let address = endpoint.listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let text = || "x".repeat(TEXT_LEN);
        let mut turn = |endpoint: &mut MetricsEndpoint| {
            let until = event_loop.now() + Duration::from_millis(10);
            if let Ok(Turn::Ready(number)) = event_loop.turn(Some(until)) {
                endpoint.serve(number, &event_loop, &text);
            }
        };
        let is_writing = |endpoint: &MetricsEndpoint| {
            let mut clients = endpoint.clients.iter().flatten();
            clients.any(|client| client.unsent.is_some())
        };
        test_support::poll_until_timeout(|| {
            turn(&mut endpoint);
            is_writing(&endpoint).then_some(())
        });
        // The response fills the buffers of the sockets before the client reads.
        let reader = std::thread::spawn(move || {
            let mut response = Vec::new();
            client.read_to_end(&mut response).map(|_| response)
        });
        test_support::poll_until_timeout(|| {
            turn(&mut endpoint);
            reader.is_finished().then_some(())
        });
        let response = reader.join().unwrap().unwrap();
        assert!(response.starts_with(b"HTTP/1.1 200 "));
        let body = response.iter().rev().take_while(|byte| **byte == b'x').count();
        assert_eq!(body, TEXT_LEN);
        assert!(endpoint.clients.iter().all(Option::is_none));
    }
}
