//! The HTTP exchange of a scrape: the subset of HTTP/1.1 (RFC 9112) that it needs.
//!
//! Each connection carries one request and is closed after the response. Requests other than GET
//! and HEAD of `/metrics` get an error status. The caller closes a connection whose request is too
//! long or too slow without a response.
//!
//! A web page could make a browser request the metrics under a host name of its own that resolves
//! to this machine (DNS rebinding). Requests must therefore name this machine, an IP address, or a
//! configured name (`Host`, RFC 9110 §7.2); others get status 421.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Maximum size of a request including its header fields.
pub const REQUEST_MAX_BYTES: usize = 8 * 1024;
/// Time limit for a request and its response.
pub const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent connections.
pub const CONNECTIONS_MAX: usize = 16;

/// Returns the names that requests may use: that of the machine, and the configured ones.
pub fn accepted_hosts<'a>(
    machine: &str,
    configured: impl Iterator<Item = &'a String>,
) -> Vec<String> {
    let label = machine.split('.').next().unwrap_or_default();
    let own_names = [machine, label, "localhost"].map(str::to_owned);
    own_names.into_iter().filter(|name| !name.is_empty()).chain(configured.cloned()).collect()
}

/// Returns whether a request has reached the end of its header.
#[must_use]
pub fn is_complete(request: &[u8]) -> bool {
    request.windows(4).any(|end| end == b"\r\n\r\n")
}

/// Classification of the `Host` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedHost {
    Own,
    Other,
    /// RFC 9112 §3.2: an HTTP/1.1 request has exactly one `Host`.
    Malformed,
}

/// Classifies the `Host` of a request. Any IP address is accepted: a request caused by DNS
/// rebinding names a host, not an address.
fn requested_host(request: &[u8], version: &[u8], hosts: &[String]) -> RequestedHost {
    let lines = request.split(|byte| *byte == b'\n').skip(1);
    let fields = lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some((name, value.get(1..).unwrap_or_default()))
    });
    // RFC 9112 §5.1: white space before the colon would let two recipients see different fields.
    if fields.clone().any(|(name, _)| name.trim_ascii() != name) {
        return RequestedHost::Malformed;
    }
    let mut hosts_of_request =
        fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"host")).map(|(_, value)| value);
    let host = hosts_of_request.next();
    let second = hosts_of_request.next();
    let Some(host) = host else {
        return if version == b"HTTP/1.0" { RequestedHost::Own } else { RequestedHost::Malformed };
    };
    let Ok(host) = std::str::from_utf8(host.trim_ascii()) else { return RequestedHost::Malformed };
    if second.is_some() {
        return RequestedHost::Malformed;
    }
    if host.parse::<SocketAddr>().is_ok() {
        return RequestedHost::Own;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address_text =
        name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_own_host = address_text.parse::<IpAddr>().is_ok()
        || hosts.iter().any(|host| host.eq_ignore_ascii_case(name));
    if is_own_host { RequestedHost::Own } else { RequestedHost::Other }
}

/// Returns the response to a complete request, with the metrics that `text` returns. `hosts` are the
/// accepted host names.
pub fn response(request: &[u8], hosts: &[String], text: &impl Fn() -> String) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut tokens = line.split(|byte| *byte == b' ');
    let method = tokens.next();
    let target = tokens.next();
    let version = tokens.next();
    let path = target.and_then(|target| target.split(|byte| *byte == b'?').next());
    let is_http = version.is_some_and(|version| version.starts_with(b"HTTP/1."));
    let host = requested_host(request, version.unwrap_or_default(), hosts);
    let (status, body) = match (method, path) {
        _ if host == RequestedHost::Other => (
            "421 Misdirected Request",
            "Unknown host name; allow it with --metrics-host.\n".to_owned(),
        ),
        _ if !is_http || host == RequestedHost::Malformed => {
            ("400 Bad Request", "Not a valid HTTP/1.1 request.\n".to_owned())
        }
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => ("200 OK", text()),
        (Some(b"GET" | b"HEAD"), _) => ("404 Not Found", "Only /metrics exists.\n".to_owned()),
        _ => ("405 Method Not Allowed", "Use GET or HEAD.\n".to_owned()),
    };
    let content_type = match status {
        "200 OK" => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let allow_field = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: \
         {}\r\n{allow_field}Connection: close\r\n\r\n",
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
        let hosts = ["a".to_owned(), "stats.example.net".to_owned()];
        let answer = response(request.as_bytes(), &hosts, &|| "figures".to_owned());
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn only_the_metrics_path_is_served() {
        let answer = status("GET /metrics?x HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nfigures"));
        assert!(answer.contains("Content-Length: 7\r\n"));
        assert!(status("GET / HTTP/1.1\r\nHost: a\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let post_status = status("POST /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(post_status.contains("Allow: GET, HEAD\r\n"));
        assert!(status("GET /metrics\r\n\r\n").starts_with("HTTP/1.1 400 "));
    }

    // attack row 108
    #[test]
    fn a_request_must_name_this_machine_or_an_address() {
        let code = |host: &str| {
            let answer = status(&format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
            answer[9..12].parse::<u16>().unwrap()
        };
        for own in ["A", "a:9559", "a.", "Stats.Example.NET:80", "127.0.0.1:9559", "[::1]:9559"] {
            assert_eq!(code(&format!("Host: {own}")), 200, "{own}");
            assert_eq!(code(&format!("hOST:{own}")), 200, "{own}");
        }
        for other in ["evil.example", "a.evil.example:9559", "127.0.0.1.evil.example", "a@b", ""] {
            assert_eq!(code(&format!("Host: {other}")), 421, "{other}");
        }
        for malformed in
            ["X: a", "Host: a\r\nHost: a", "Host : a", "Host: a\r\nHost : b", "Host: a\r\n X: b"]
        {
            assert_eq!(code(malformed), 400, "{malformed}");
        }
    }

    #[test]
    fn a_head_response_has_no_body() {
        let answer = status("HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(answer.contains("Content-Length: 7\r\n") && answer.ends_with("\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn each_request_gets_a_response(request in proptest::collection::vec(any::<u8>(), 0..200)) {
            let answer = response(&request, &[], &String::new);
            prop_assert!(answer.starts_with(b"HTTP/1.1 "));
        }
    }
}
