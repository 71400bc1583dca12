//! A DNS server (RFC 1035) on the loopback interface of a network namespace. It knows one name. It
//! answers after a delay, or ignores the first of two equal queries.

use super::stop::Stop;
use anyhow::{Context, Result};
use std::collections::HashSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Host name of the server.
pub(super) const NAME: &str = "server.example";
const ADDRESS: &str = "127.0.0.1:53";
/// Maximum size of a query without EDNS.
const QUERY_BYTES: usize = 512;

/// A running DNS server; it stops on drop.
#[derive(Debug)]
pub(super) struct Resolver {
    _stop: Stop,
    delay_ms: Arc<AtomicU64>,
}

impl Resolver {
    /// Starts the DNS server in the network namespace of the calling thread. With `drops_first`
    /// each query is answered only when it is repeated.
    pub(super) fn start(delay_ms: u64, drops_first: bool) -> Result<Self> {
        let socket = UdpSocket::bind(ADDRESS).context("the resolver cannot listen")?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let delay_ms = Arc::new(AtomicU64::new(delay_ms));
        let current = Arc::clone(&delay_ms);
        let stop = Stop::start(move |stop| {
            let mut query = [0; QUERY_BYTES];
            // A repeated query has the same identifier.
            let mut seen = HashSet::new();
            while !stop.is_set() {
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                let query = query.get(..length).unwrap_or_default();
                if drops_first && seen.insert(query.to_vec()) {
                    continue;
                }
                let answer = answer(query);
                let delay = Duration::from_millis(current.load(Ordering::Relaxed));
                let (Some(answer), Ok(socket)) = (answer, socket.try_clone()) else { continue };
                thread::spawn(move || {
                    thread::sleep(delay);
                    // Sending fails if the client has closed its socket.
                    _ = socket.send_to(&answer, from);
                });
            }
        });
        Ok(Self { _stop: stop, delay_ms })
    }

    /// Sets the delay of later answers.
    pub(super) fn set_delay(&self, ms: u64) {
        self.delay_ms.store(ms, Ordering::Relaxed);
    }
}

/// Answers an A query with the server's address, and any other query with no records.
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

/// Returns a command that runs `program` in a separate mount namespace with `file` as
/// /etc/resolv.conf.
pub(super) fn with_file(program: &Path, file: &Path) -> Command {
    let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(file).arg(program);
    command
}

/// Queries the resolver for the address of the server, and waits for the answer; repeats the query
/// after `timeout`.
pub(super) fn resolve_server(timeout: Duration) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(timeout))?;
    let mut query = vec![0x13, 0x37, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in NAME.split('.') {
        query.push(u8::try_from(label.len())?);
        query.extend(label.as_bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    socket.send_to(&query, ADDRESS)?;
    if socket.recv_from(&mut [0; QUERY_BYTES]).is_err() {
        socket.send_to(&query, ADDRESS)?;
        socket.recv_from(&mut [0; QUERY_BYTES]).context("the resolver does not answer")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_another_resolver_file_keeps_its_arguments() {
        let mut command = with_file(Path::new("/bin/cat"), Path::new("/tmp/own"));
        command.arg("-n");
        let words: Vec<&str> = command.get_args().filter_map(|word| word.to_str()).collect();
        assert_eq!(words[words.len() - 3..], ["/tmp/own", "/bin/cat", "-n"]);
    }

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
