//! Whom to call: a host and a port, as people write them.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The port of Telnet servers.
pub(crate) const TELNET_PORT: u16 = 23;

/// A host by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name or the address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl FromStr for Target {
    type Err = anyhow::Error;

    /// Reads `host`, `host:port`, `[v6]:port`, `telnet://host:port/`.
    fn from_str(text: &str) -> Result<Self> {
        let text = match text.split_once("://") {
            Some(("telnet", rest)) => rest.trim_end_matches('/'),
            Some((scheme, _)) => {
                bail!("'{scheme}://' is not a scheme that plumb knows: use telnet://")
            }
            None => text,
        };
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            // More than one colon without brackets is an IPv6 address.
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        if host.is_empty() || host.contains(char::is_whitespace) || host.starts_with('-') {
            bail!("'{}' is not a host name or an address", text.escape_debug());
        }
        let port = if port.is_empty() { TELNET_PORT } else { parse_port(port)? };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Reads a port: a number from 1 to 65535, or the name of a service that people log in to.
///
/// # Errors
///
/// If it is neither.
pub(crate) fn parse_port(text: &str) -> Result<u16> {
    match text {
        "telnet" => return Ok(TELNET_PORT),
        "echo" => return Ok(7),
        "daytime" => return Ok(13),
        "smtp" => return Ok(25),
        "http" => return Ok(80),
        _ => {}
    }
    let port = text.parse::<u16>().ok().filter(|port| *port > 0);
    port.with_context(|| {
        format!("'{}' is not a port: use a number from 1 to 65535", text.escape_debug())
    })
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.host, self.port)
    }
}

/// Returns the addresses of a target, the one to try first in front.
///
/// # Errors
///
/// If the name is not known.
pub(crate) fn resolve(target: &Target) -> Result<Vec<SocketAddr>> {
    let found = (target.host.as_str(), target.port).to_socket_addrs();
    let addresses: Vec<_> = found
        .with_context(|| {
            format!("the name '{}' is not known: check its spelling", target.host.escape_debug())
        })?
        .collect();
    if addresses.is_empty() {
        bail!("the name '{}' has no address", target.host.escape_debug());
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, u16)> {
        text.parse::<Target>().ok().map(|target| (target.host, target.port))
    }

    #[test]
    fn a_target_is_read_as_people_write_it() {
        let own = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(read("mit-multics"), own("mit-multics", 23));
        assert_eq!(read("10.0.0.6:2323"), own("10.0.0.6", 2323));
        assert_eq!(read("telnet://host/"), own("host", 23));
        assert_eq!(read("[::1]:7"), own("::1", 7));
        assert_eq!(read("fe80::1"), own("fe80::1", 23));
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for wrong in ["", ":23", "host:0", "host:70000", "ssh://host", "a b", "-f"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
