//! A relay of TCP connections in front of a real server, in the server's network namespace, that
//! delays selected steps of the protocol.
//!
//! For FTP the relay parses the replies (RFC 959, RFC 2428), so that it can delay each of them
//! separately. It also relays the data connections: it replaces the port in the replies 227 and 229
//! by a port of its own, and forwards the final reply of a transfer after all data.

mod ftp;
mod telnet_relay;
mod timeouts;

use super::service_address::SERVER;
use super::setup::Delays;
use super::stop::{Flag, Stop};
use anyhow::{Context, Result};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use timeouts::{READ_TIMEOUT, sleep};

/// Protocol of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Login,
    Ftp,
}

/// Starts a relay at `port` of the server's address, in the network namespace of the calling
/// thread; the real server is at `server_port` on the loopback.
pub(super) fn start(
    protocol: Protocol,
    port: u16,
    server_port: u16,
    delays: Delays,
) -> Result<Stop> {
    let listener = TcpListener::bind((SERVER, port)).context("the interposer cannot listen")?;
    listener.set_nonblocking(true)?;
    Ok(Stop::start(move |stop| {
        while !stop.is_set() {
            let Ok((client, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            let stop = stop.clone();
            thread::spawn(move || {
                // If this connection fails, the client's connection closes, and the client reports
                // an error.
                _ = serve(protocol, client, server_port, delays, &stop);
            });
        }
    }))
}

fn serve(
    protocol: Protocol,
    client: TcpStream,
    server_port: u16,
    delays: Delays,
    stop: &Flag,
) -> Result<()> {
    client.set_nonblocking(false)?;
    sleep(delays.greeting_ms, stop);
    let server = TcpStream::connect(("127.0.0.1", server_port))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        // The timeout lets the threads check the stop flag, so that they end soon after the case.
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
    }
    match protocol {
        Protocol::Login => telnet_relay::relay_session(client, server, delays, stop),
        Protocol::Ftp => ftp::relay_session(client, server, delays, stop),
    }
}
