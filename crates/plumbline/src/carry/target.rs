//! Whom to call: a host and a port, as people write them.

use super::Via;
use anyhow::{Context, Result, bail};
use os::clock::Monotonic;
use os::readiness::{self, PollFd, PollFlags};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::mpsc;
use std::{fmt, io, thread};

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
        Self::parse(text, Some(TELNET_PORT))
    }
}

impl Target {
    /// Reads `host`, `host:port`, `[v6]:port`; where no port stands, it is `port`.
    ///
    /// # Errors
    ///
    /// If that is no host, and if there is no port.
    pub(crate) fn parse(text: &str, unless_said: Option<u16>) -> Result<Self> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            // More than one colon without brackets is an IPv6 address.
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        if host.is_empty() || host.contains(char::is_whitespace) || host.starts_with('-') {
            bail!("'{}' is not a host name or an address", text.escape_debug());
        }
        let port = match (port, unless_said) {
            ("", Some(port)) => port,
            ("", None) => bail!("'{}' has no port: say host:port", text.escape_debug()),
            (port, _) => parse_port(port)?,
        };
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

/// Which kinds of addresses may be called.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Family {
    /// Use IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6')]
    ipv6: bool,
}

impl Family {
    fn has(self, address: &SocketAddr) -> bool {
        match address {
            SocketAddr::V4(_) => !self.ipv6,
            SocketAddr::V6(_) => !self.ipv4,
        }
    }
}

/// Why a target has no address that could be called.
#[derive(Debug)]
pub(crate) enum NoAddress {
    /// Who waited for the answer has ended that.
    Interrupted,
    /// The name has none.
    Unknown {
        /// The name.
        host: String,
        /// What the resolver says.
        error: io::Error,
    },
    /// There is none of a family that may be used.
    OtherFamily {
        /// The name or the address.
        host: String,
        /// Whether only IPv6 was wanted.
        is_ipv6_wanted: bool,
        /// Whether the way carries IPv4 only.
        is_ipv4_way: bool,
    },
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted before the connection stood"),
            Self::Unknown { host, error } => write!(
                f,
                "the name '{}' is not known: check its spelling: {error}",
                host.escape_debug()
            ),
            Self::OtherFamily { host, is_ipv6_wanted, is_ipv4_way } => {
                let family = if *is_ipv6_wanted { "IPv6" } else { "IPv4" };
                write!(f, "{} has no {family} address", host.escape_debug())?;
                f.write_str(if *is_ipv4_way { ", and this way has IPv4 only" } else { "" })
            }
        }
    }
}

/// Returns the addresses of a target that are of a wanted family and that the way carries, in the
/// resolver's order. Who waits can end it by something to read at `interrupt`.
///
/// # Errors
///
/// If the machine has no threads or descriptors left; inside, if there is no such address.
pub(crate) fn addresses(
    target: &Target,
    family: Family,
    via: &Via,
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
        let (is_ipv6_wanted, is_ipv4_way) = (family.ipv6, !via.has_ipv6());
        return Ok(Err(NoAddress::OtherFamily { host, is_ipv6_wanted, is_ipv4_way }));
    }
    Ok(Ok(addresses))
}

/// Asks the resolver, in a thread that is left behind if `interrupt` comes before the answer
/// (`None`): it may wait for many seconds, and nobody can stop it.
fn look_up(
    target: &Target,
    interrupt: Option<BorrowedFd<'_>>,
) -> Result<Option<io::Result<Vec<SocketAddr>>>> {
    if let Ok(address) = target.host.parse::<IpAddr>() {
        return Ok(Some(Ok(vec![(address, target.port).into()])));
    }
    let (notice, teller) = UnixStream::pair().context("no descriptors are left")?;
    let (sender, answer) = mpsc::channel();
    let Target { host, port } = target.clone();
    let ask = move || {
        let found = (host.as_str(), port).to_socket_addrs();
        // Where nobody waits any more, nobody needs the answer.
        _ = sender.send(found.map(without_repetition));
        drop(teller);
    };
    let named = thread::Builder::new().name("lookup".to_owned());
    named.spawn(ask).context("no threads are left")?;
    let clock = Monotonic::start();
    let mut ends = vec![PollFd::new(&notice, PollFlags::IN)];
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

    /// Asks for addresses, where the machine has all that is needed.
    fn asked(host: &str, family: Family, via: &str) -> Result<Vec<SocketAddr>, String> {
        let (target, via) = (host.parse().unwrap(), via.parse().unwrap());
        addresses(&target, family, &via, None).unwrap().map_err(|why| why.to_string())
    }

    const ONLY_IPV4: Family = Family { ipv4: true, ipv6: false };
    const ONLY_IPV6: Family = Family { ipv4: false, ipv6: true };

    #[test]
    fn an_address_of_a_family_that_is_not_wanted_is_none() {
        assert!(asked("192.0.2.1", ONLY_IPV4, "kernel").is_ok());
        assert!(asked("2001:db8::1", ONLY_IPV6, "kernel").is_ok());
        let refused = asked("2001:db8::1", ONLY_IPV4, "kernel").unwrap_err();
        assert_eq!(refused, "2001:db8::1 has no IPv4 address");
        let refused = asked("192.0.2.1", ONLY_IPV6, "tun:plumb0").unwrap_err();
        assert_eq!(refused, "192.0.2.1 has no IPv6 address");
    }

    #[test]
    fn a_serial_line_has_ipv4_only_and_says_so() {
        let refused = asked("2001:db8::1", Family::default(), "serial:/dev/x").unwrap_err();
        assert_eq!(refused, "2001:db8::1 has no IPv4 address, and this way has IPv4 only");
    }

    #[test]
    fn an_address_that_the_resolver_gives_twice_is_called_once() {
        let twice = SocketAddr::from(([127, 0, 0, 1], 23));
        assert_eq!(without_repetition([twice, twice].into_iter()), [twice]);
    }
}
