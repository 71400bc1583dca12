//! Where scrapes come in: as much of HTTP/1.1 (RFC 9112) as a scrape needs.
//!
//! One request a connection, answered and closed. Everything but GET and HEAD of `/metrics` is
//! refused by its status; what is longer than a request may be, or slower, is closed without a word.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// The longest request, with its fields.
pub(super) const REQUEST_MAX_BYTES: usize = 8 * 1024;
/// How long request and answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many scrape at once; others wait at the door.
const CONNECTIONS_MAX: usize = 16;
/// How long an accept that fails for want of something waits for it.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the door at `place`, and returns where it is and what attends it for ever.
///
/// # Errors
///
/// If nobody can listen there.
pub(in super::super) async fn serve(
    place: SocketAddr,
    text: impl Fn() -> String + 'static,
) -> Result<(SocketAddr, impl Future<Output = ()>)> {
    let door = TcpListener::bind(place).await;
    let door = door.with_context(|| format!("the metrics cannot be served at {place}"))?;
    let at = door.local_addr()?;
    Ok((at, attend(door, Rc::new(text))))
}

async fn attend(door: TcpListener, text: Rc<impl Fn() -> String + 'static>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = door.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let text = Rc::clone(&text);
        tokio::task::spawn_local(async move {
            // Who has gone, or is too slow, gets nothing.
            _ = timeout(PATIENCE, answer(stream, &*text)).await;
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> std::io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_MAX_BYTES || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(&response(&request, text)).await?;
    stream.shutdown().await
}

/// Returns the answer to a request.
fn response(request: &[u8], text: &impl Fn() -> String) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    let (status, body) = match (method, path) {
        _ if !is_http => ("400 Bad Request", "This is no request of HTTP/1.1.\n".to_owned()),
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", text()),
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "There is only /metrics.\n".to_owned()),
        _ => ("405 Method Not Allowed", "There is only GET.\n".to_owned()),
    };
    let kind = match status {
        "200 OK" => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}\
         Connection: close\r\n\r\n",
        body.len()
    );
    let body = if method == Some(b"HEAD") { String::new() } else { body };
    [head.into_bytes(), body.into_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(request: &str) -> String {
        let answer = response(request.as_bytes(), &|| "figures".to_owned());
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn the_metrics_are_got_and_nothing_else_is() {
        let answer = status("GET /metrics?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nfigures"));
        assert!(answer.contains("Content-Length: 7\r\n"));
        assert!(status("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(status("POST /metrics HTTP/1.1\r\n\r\n").contains("Allow: GET, HEAD\r\n"));
        assert!(status("GET /metrics\r\n\r\n").starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn a_head_is_the_same_without_the_figures() {
        let answer = status("HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(answer.contains("Content-Length: 7\r\n") && answer.ends_with("\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn any_request_has_an_answer(request in proptest::collection::vec(any::<u8>(), 0..200)) {
            let answer = response(&request, &String::new);
            prop_assert!(answer.starts_with(b"HTTP/1.1 "));
        }
    }
}
