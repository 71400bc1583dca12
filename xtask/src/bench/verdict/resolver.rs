//! A DNS server on the loopback of the client's network: it knows one name, and answers after a
//! delay (RFC 1035).

use super::stop::Stop;
use anyhow::{Context, Result};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// The name of the server.
pub(super) const NAME: &str = "server.example";
/// Where the resolver listens.
const ADDRESS: &str = "127.0.0.1:53";
/// A question without EDNS fits.
const QUERY_BYTES: usize = 512;

/// A running server; dropped, it ends.
#[derive(Debug)]
pub(super) struct Resolver {
    _stop: Stop,
}

impl Resolver {
    /// Starts it in the network of the calling thread.
    pub(super) fn start(delay: Duration) -> Result<Self> {
        let socket = UdpSocket::bind(ADDRESS).context("the resolver cannot listen")?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Stop::start(move |stop| {
            let mut query = [0; QUERY_BYTES];
            while !stop.is_set() {
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                let answer = query.get(..length).and_then(answer);
                let (Some(answer), Ok(socket)) = (answer, socket.try_clone()) else { continue };
                thread::spawn(move || {
                    thread::sleep(delay);
                    // The client has gone, if this fails.
                    _ = socket.send_to(&answer, from);
                });
            }
        });
        Ok(Self { _stop: stop })
    }
}

/// Answers a question for an IPv4 address by the server's, and any other by no record.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let question = query.get(12..)?;
    // The name ends with an empty label; type and class follow.
    let end = question.iter().position(|byte| *byte == 0)? + 5;
    let question = question.get(..end)?;
    let is_address = question.ends_with(&[0, 1, 0, 1]);
    let mut answer = query.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
    answer.extend(question);
    if is_address {
        answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 1]);
    }
    Some(answer)
}

/// Asks the resolver for the address of the server, and waits for its answer.
pub(super) fn ask(limit: Duration) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(limit))?;
    let mut query = vec![0x13, 0x37, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split('.') {
        query.push(u8::try_from(label.len())?);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send_to(&query, ADDRESS)?;
    socket.recv_from(&mut [0; QUERY_BYTES]).context("the resolver does not answer")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_answered_and_any_other_type_is_not() {
        let query = |kind: u8| {
            let name = b"\x06server\x07example\0";
            [&[9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], name, &[0, kind, 0, 1]].concat()
        };
        let address = answer(&query(1)).unwrap();
        assert_eq!(address[..2], [9, 9]);
        assert_eq!(address[7], 1);
        assert!(address.ends_with(&[10, 0, 0, 1]));
        assert_eq!(answer(&query(28)).unwrap()[7], 0);
        assert_eq!(answer(&[0; 5]), None);
    }
}
