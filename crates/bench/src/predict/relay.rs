//! A relay that lengthens the path to a server: it delays each byte by the same time.

use anyhow::{Context, Result};
use net::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

/// A relay on the loopback, which runs until the program exits.
#[derive(Debug)]
pub(super) struct LoopbackRelay {
    /// Port at which the relay listens.
    pub(super) port: u16,
}

impl LoopbackRelay {
    /// Relays to port `to` with a one-way delay of `delay`.
    pub(super) fn open(to: u16, delay: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("the relay cannot listen")?;
        let port = listener.local_addr()?.port();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server cannot be reached, the client sees its connection close.
                _ = relay(&client, to, delay);
            }
        });
        Ok(Self { port })
    }
}

fn relay(client: &TcpStream, to: u16, delay: Duration) -> std::io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", to))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    carry(client.try_clone()?, server.try_clone()?, delay);
    carry(server, client.try_clone()?, delay);
    Ok(())
}

/// Forwards one direction in two threads, so that data does not wait for the delay of earlier data.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let piece = buffer.get(..count).unwrap_or_default().to_vec();
            if sender.send((Instant::now() + delay, piece)).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (due, piece) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        // The connection may already be shut down.
        _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_relayed_both_ways() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let relay = LoopbackRelay::open(port, Duration::from_millis(1)).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
        let (mut server, _) = server.accept().unwrap();
        client.write_all(b"key").unwrap();
        let mut buffer = [0; 3];
        server.read_exact(&mut buffer).unwrap();
        server.write_all(&buffer).unwrap();
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"key");
    }
}
