//! Connection target: a host and a port, as typed by the user.

use super::Route;
use anyhow::{Context, Result, bail};
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::{fmt, io, thread};

/// Default port of Telnet servers.
pub const TELNET_PORT: u16 = 23;

/// Host name or address, and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTarget {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl HostTarget {
    /// Parses `host`, `host:port`, `[v6]:port`; `default_port` is the port if none is specified.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is invalid or no port is known.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(port))),
            // More than one colon without brackets is an IPv6 address.
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.contains(char::is_whitespace) || host.starts_with('-') {
            bail!("invalid host name or address '{}'", text.escape_debug());
        }
        let port = match (port, default_port) {
            (None, Some(port)) => port,
            (None, None) => bail!("'{}' has no port: use host:port", text.escape_debug()),
            (Some(""), _) => {
                bail!("no port after the colon in '{}': use host:port", text.escape_debug())
            }
            (Some(port), _) => parse_port(port)?,
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// Parses a port: a number from 1 to 65535, or the name of one of five well-known services, such as
/// `telnet`.
///
/// # Errors
///
/// Returns an error if `text` is neither a port number nor one of these names.
pub fn parse_port(text: &str) -> Result<u16> {
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
        format!("invalid port '{}': use a number from 1 to 65535", text.escape_debug())
    })
}

impl HostTarget {
    /// Returns a hint if the host is an IPv6 address whose last group may have been meant as a
    /// port, as in `2001:db8::2:23`.
    #[must_use]
    pub fn port_hint(&self) -> Option<String> {
        let (address, port) = self.host.rsplit_once(':')?;
        address.parse::<Ipv6Addr>().ok()?;
        parse_port(port).ok().map(|port| format!("if {port} is a port, use [{address}]:{port}"))
    }
}

impl fmt::Display for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.host, self.port)
    }
}

/// Address families that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFamilies {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// IPv4 only.
    Ipv4,
    /// IPv6 only.
    Ipv6,
}

impl AddressFamilies {
    fn has(self, address: &SocketAddr) -> bool {
        match address {
            SocketAddr::V4(_) => self != Self::Ipv6,
            SocketAddr::V6(_) => self != Self::Ipv4,
        }
    }
}

/// Beginning of the standard library's message for a failed lookup.
const LOOKUP_PREFIX: &str = "failed to lookup address information: ";
/// Message of the C library for EAI_AGAIN (RFC 3493 §6.1). The standard library does not return the
/// code.
const NO_NAME_SERVER: &str = "Temporary failure in name resolution";

/// Reason why a target has no usable address.
#[derive(Debug)]
pub enum NoAddress {
    /// The user interrupted the lookup.
    Interrupted,
    /// The name has no address.
    Unknown {
        /// Host name that was looked up.
        host: String,
        /// Error of the resolver.
        error: io::Error,
    },
    /// The host has no address of an allowed family.
    OtherFamily {
        /// Name or address.
        host: String,
        /// Whether only IPv6 was requested.
        is_ipv6_wanted: bool,
        /// Whether the carrier supports only IPv4.
        is_route_ipv4_only: bool,
    },
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted before the connection was established"),
            Self::Unknown { host, error } => {
                let host = host.escape_debug();
                let error = error.to_string();
                let reason = error.strip_prefix(LOOKUP_PREFIX).unwrap_or(&error);
                if reason == NO_NAME_SERVER {
                    return write!(
                        f,
                        "cannot resolve '{host}': no name server answers; check the network and \
                         /etc/resolv.conf"
                    );
                }
                write!(f, "cannot resolve '{host}': {reason}; check its spelling")
            }
            Self::OtherFamily { host, is_ipv6_wanted, is_route_ipv4_only } => {
                let family = if *is_ipv6_wanted { "IPv6" } else { "IPv4" };
                write!(f, "{} has no {family} address", host.escape_debug())?;
                f.write_str(if *is_route_ipv4_only {
                    ", and the route of --via supports only IPv4"
                } else {
                    ""
                })
            }
        }
    }
}

/// Returns the addresses of a target in the resolver's order, restricted to the requested address
/// family and to the families that the carrier supports. Readable data at `interrupt` cancels the
/// lookup.
///
/// # Errors
///
/// Returns an error if the machine has no threads or descriptors left. The inner error reports that
/// the target has no address of these families.
pub fn addresses(
    target: &HostTarget,
    family: AddressFamilies,
    via: &Route,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Result<Vec<SocketAddr>, NoAddress>> {
    let host = target.host.clone();
    let mut addresses = match look_up(target, interrupt)? {
        Some(Ok(addresses)) => addresses,
        Some(Err(error)) => return Ok(Err(NoAddress::Unknown { host, error })),
        None => return Ok(Err(NoAddress::Interrupted)),
    };
    addresses.retain(|address| family.has(address) && (address.is_ipv4() || via.has_ipv6()));
    if addresses.is_empty() {
        let is_ipv6_wanted = family == AddressFamilies::Ipv6;
        let is_route_ipv4_only = !via.has_ipv6();
        return Ok(Err(NoAddress::OtherFamily { host, is_ipv6_wanted, is_route_ipv4_only }));
    }
    Ok(Ok(addresses))
}

/// Resolves `target` in a separate thread. Returns `None` if `interrupt` is readable before the
/// answer; the thread is then left running, because a lookup cannot be canceled and may take many
/// seconds.
fn look_up(
    target: &HostTarget,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Option<io::Result<Vec<SocketAddr>>>> {
    if let Ok(address) = target.host.parse::<IpAddr>() {
        return Ok(Some(Ok(vec![(address, target.port).into()])));
    }
    let (done, done_sender) = UnixStream::pair().context("cannot create a socket pair")?;
    let (sender, answer) = mpsc::channel();
    let HostTarget { host, port } = target.clone();
    let lookup = move || {
        let lookup_result = (host.as_str(), port).to_socket_addrs();
        // Ignored: the receiver is gone after an interrupt.
        _ = sender.send(lookup_result.map(without_repetition));
        drop(done_sender);
    };
    let builder = thread::Builder::new().name("lookup".to_owned());
    builder.spawn(lookup).context("cannot start a thread")?;
    let clock = Monotonic::start();
    let mut ends = vec![PollFd::new(&done, PollFlags::IN)];
    ends.extend(interrupt.map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
    while !ends.iter().any(|end| !end.revents().is_empty()) {
        readiness::wait(&mut ends, &clock, None)?;
    }
    Ok(answer.try_recv().ok())
}

fn without_repetition(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = Vec::new();
    found.for_each(|address| {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    });
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, u16)> {
        HostTarget::parse(text, Some(TELNET_PORT)).ok().map(|target| (target.host, target.port))
    }

    #[test]
    fn a_target_is_parsed_in_all_accepted_forms() {
        let host_and_port = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(read("mit-multics"), host_and_port("mit-multics", 23));
        assert_eq!(read("10.0.0.6:2323"), host_and_port("10.0.0.6", 2323));
        assert_eq!(read("[::1]:7"), host_and_port("::1", 7));
        assert_eq!(read("fe80::1"), host_and_port("fe80::1", 23));
    }

    #[test]
    fn an_empty_port_is_rejected_with_its_own_message() {
        for text in ["host:", "[::1]:"] {
            let error = HostTarget::parse(text, Some(TELNET_PORT)).unwrap_err().to_string();
            assert_eq!(error, format!("no port after the colon in '{text}': use host:port"));
        }
    }

    #[test]
    fn an_invalid_target_is_rejected() {
        for wrong in ["", ":23", "host:0", "host:70000", "ssh://host", "a b", "-f"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_an_address_with_one_group_too_many_gets_a_hint_about_its_port() {
        let hint = |host: &str| HostTarget { host: host.to_owned(), port: 23 }.port_hint();
        assert_eq!(hint("fd99::2:99").as_deref(), Some("if 99 is a port, use [fd99::2]:99"));
        assert_eq!(hint("fd99::2:beef"), None);
        assert_eq!(hint("fd99::2"), None);
        assert_eq!(hint("host"), None);
    }

    #[test]
    fn an_unreachable_name_server_is_not_reported_as_a_spelling_error() {
        let message = |reason: &str| {
            let error = io::Error::other(format!("{LOOKUP_PREFIX}{reason}"));
            NoAddress::Unknown { host: "host".to_owned(), error }.to_string()
        };
        assert!(message(NO_NAME_SERVER).contains("no name server answers"));
        let unknown = message("Name or service not known");
        assert_eq!(unknown, "cannot resolve 'host': Name or service not known; check its spelling");
    }

    /// Resolves addresses on a machine with sufficient resources.
    fn resolve(host: &str, family: AddressFamilies, via: &str) -> Result<Vec<SocketAddr>, String> {
        let target = HostTarget::parse(host, Some(TELNET_PORT)).unwrap();
        let via = via.parse().unwrap();
        addresses(&target, family, &via, None).unwrap().map_err(|why| why.to_string())
    }

    #[test]
    fn an_address_of_an_excluded_family_is_not_used() {
        assert!(resolve("192.0.2.1", AddressFamilies::Ipv4, "kernel").is_ok());
        assert!(resolve("2001:db8::1", AddressFamilies::Ipv6, "kernel").is_ok());
        let error = resolve("2001:db8::1", AddressFamilies::Ipv4, "kernel").unwrap_err();
        assert_eq!(error, "2001:db8::1 has no IPv4 address");
        let error = resolve("192.0.2.1", AddressFamilies::Ipv6, "tun:plumb0").unwrap_err();
        assert_eq!(error, "192.0.2.1 has no IPv6 address");
    }

    #[test]
    fn the_error_for_ipv6_over_a_serial_line_names_the_route() {
        let refused =
            resolve("2001:db8::1", AddressFamilies::default(), "serial:/dev/x").unwrap_err();
        assert_eq!(
            refused,
            "2001:db8::1 has no IPv4 address, and the route of --via supports only IPv4"
        );
    }

    #[test]
    fn a_repeated_address_of_the_resolver_is_tried_once() {
        let address = SocketAddr::from(([127, 0, 0, 1], 23));
        assert_eq!(without_repetition([address, address].into_iter()), [address]);
    }
}
