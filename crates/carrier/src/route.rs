//! Route to the network: `kernel`, `tun:NAME`, `tap:NAME`, `packet:INTERFACE`,
//! `serial:DEVICE?baud=19200&link=llp`.
//!
//! There is no setting for a password, because every user of the machine can read the arguments of
//! a program.

use super::ethernet_device::{Port, Segment};
use super::local_addresses::LocalAddresses;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// Route to the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// The kernel's TCP/IP.
    #[default]
    Kernel,
    /// User-space TCP/IP on a TUN interface.
    Tun {
        /// Interface name; an interface that does not exist is created.
        name: String,
        /// Local addresses; by default they are derived from the interface's own addresses.
        local_addresses: LocalAddresses,
    },
    /// User-space TCP/IP on an Ethernet segment.
    Segment(Segment),
    /// User-space TCP/IP on a serial line.
    Serial {
        /// Device path.
        device: PathBuf,
        /// Line rate in bits per second.
        rate_bps: u32,
        /// Link protocol.
        link: SerialLink,
        /// Local address; by default it is requested over the link.
        address: Option<Ipv4Addr>,
    },
}

/// Link protocol of a serial line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SerialLink {
    /// Low Level Protocol of TM-233.
    Llp {
        /// Whether TCP headers are compressed. The peer must be configured alike.
        compresses_headers: bool,
    },
    /// SLIP, or CSLIP with compressed headers.
    Slip {
        /// Whether TCP headers are compressed (CSLIP). The peer must be configured alike.
        compresses_headers: bool,
    },
    /// PPP.
    Ppp {
        /// User name for authentication, if the peer requires it.
        user: Option<String>,
        /// Whether TCP headers may be compressed, if the peer agrees.
        compresses_headers: bool,
    },
}

impl SerialLink {
    /// LLP without header compression.
    pub const LLP: Self = Self::Llp { compresses_headers: false };

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "llp" => Self::LLP,
            "slip" => Self::Slip { compresses_headers: false },
            "cslip" => Self::Slip { compresses_headers: true },
            "ppp" => Self::Ppp { user: None, compresses_headers: true },
            _ => return None,
        })
    }

    /// Sets whether TCP headers are compressed.
    fn set_compression(&mut self, value: bool) {
        let (Self::Llp { compresses_headers }
        | Self::Slip { compresses_headers }
        | Self::Ppp { compresses_headers, .. }) = self;
        *compresses_headers = value;
    }
}

impl fmt::Display for SerialLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Llp { compresses_headers: false } => f.write_str("llp"),
            Self::Llp { compresses_headers: true } => f.write_str("llp&vj=1"),
            Self::Slip { compresses_headers: false } => f.write_str("slip"),
            Self::Slip { compresses_headers: true } => f.write_str("cslip"),
            Self::Ppp { user, compresses_headers } => {
                f.write_str(if *compresses_headers { "ppp" } else { "ppp&vj=0" })?;
                user.iter().try_for_each(|user| write!(f, "&user={user}"))
            }
        }
    }
}

const DEFAULT_RATE_BPS: u32 = 9_600;

impl Route {
    /// Returns whether this route supports IPv6.
    pub fn has_ipv6(&self) -> bool {
        !matches!(self, Self::Serial { .. })
    }
}

impl FromStr for Route {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (device, settings) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, name) = device.split_once(':').unwrap_or((device, ""));
        let settings = settings.split('&').filter(|setting| !setting.is_empty());
        match scheme {
            "kernel" if name.is_empty() => Ok(Self::Kernel),
            "tun" if !name.is_empty() => tun(name, settings),
            "tap" if !name.is_empty() => {
                Segment::parse(Port::Tap(name.to_owned()), settings).map(Self::Segment)
            }
            "packet" if !name.is_empty() => {
                Segment::parse(Port::Packet(name.to_owned()), settings).map(Self::Segment)
            }
            "serial" if !name.is_empty() => serial(name, settings),
            _ => bail!(
                "invalid value of --via '{}': use kernel, tun:NAME, tap:NAME, packet:INTERFACE or \
                 serial:DEVICE?baud=19200&link=llp",
                text.escape_debug()
            ),
        }
    }
}

fn tun<'a>(name: &str, settings: impl Iterator<Item = &'a str>) -> Result<Route> {
    let mut local_addresses = LocalAddresses::default();
    for setting in settings {
        match setting.split_once('=') {
            Some(("address", value)) => local_addresses.parse_and_set(value)?,
            _ => bail!(
                "invalid TUN setting '{}': use address=10.0.0.2 or address=2001:db8::2",
                setting.escape_debug()
            ),
        }
    }
    Ok(Route::Tun { name: name.to_owned(), local_addresses })
}

fn serial<'a>(device: &str, settings: impl Iterator<Item = &'a str>) -> Result<Route> {
    let mut rate_bps = DEFAULT_RATE_BPS;
    let mut link = SerialLink::LLP;
    let mut address = None;
    let mut compression = None;
    let mut user = None;
    for setting in settings {
        match setting.split_once('=') {
            Some(("baud", value)) => {
                let rate = value.parse().ok().filter(|rate| *rate > 0);
                rate_bps = rate.with_context(|| {
                    format!("invalid rate '{}': use bits per second", value.escape_debug())
                })?;
            }
            Some(("link", value)) => {
                link = SerialLink::from_name(value).with_context(|| {
                    format!(
                        "invalid link protocol '{}': use llp, slip, cslip or ppp",
                        value.escape_debug()
                    )
                })?;
            }
            Some(("vj", "0")) => compression = Some(false),
            Some(("vj", "1")) => compression = Some(true),
            Some(("user", value)) if !value.is_empty() => user = Some(value.to_owned()),
            Some(("password", _)) => bail!(
                "a password in the arguments is readable by every user of this machine: use the \
                 environment variable PLUMB_PPP_PASSWORD"
            ),
            Some(("address", value)) => address = Some(parse_address(value)?),
            _ => bail!(
                "invalid serial line setting '{}': use baud=, link=llp, slip, cslip or ppp, vj=0 or \
                 1, address=, and user= for PPP",
                setting.escape_debug()
            ),
        }
    }
    if let Some(compression) = compression {
        link.set_compression(compression);
    }
    match (&mut link, user) {
        (_, None) => {}
        (SerialLink::Ppp { user, .. }, given) => *user = given,
        _ => bail!("user= is valid only with link=ppp"),
    }
    if matches!(link, SerialLink::Slip { .. }) && address.is_none() {
        bail!("SLIP cannot obtain an address: set one with address=10.0.0.2");
    }
    Ok(Route::Serial { device: PathBuf::from(device), rate_bps, link, address })
}

fn parse_address(text: &str) -> Result<Ipv4Addr> {
    text.parse().with_context(|| format!("invalid IPv4 address '{}'", text.escape_debug()))
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Tun { name, .. } => write!(f, "tun:{name}"),
            Self::Segment(segment) => segment.fmt(f),
            Self::Serial { device, rate_bps, link, .. } => {
                write!(f, "serial:{}?baud={rate_bps}&link={link}", device.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_formatted_as_it_is_parsed() {
        let serial = "serial:/dev/ttyS0?baud=19200&link=";
        let links = ["llp", "llp&vj=1", "ppp", "ppp&vj=0&user=guest"];
        let links = links.map(|link| format!("{serial}{link}"));
        let devices = ["kernel", "tun:plumb0", "tap:plumb1", "packet:eth0"];
        for text in devices.into_iter().chain(links.iter().map(String::as_str)) {
            assert_eq!(text.parse::<Route>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_tun_accepts_an_address_of_each_family() {
        let Ok(Route::Tun { local_addresses, .. }) =
            "tun:a?address=10.0.0.2&address=2001:db8::2/48".parse()
        else {
            panic!("it is a TUN")
        };
        assert_eq!(local_addresses.ipv4, Some((Ipv4Addr::new(10, 0, 0, 2), 24)));
        assert_eq!(local_addresses.ipv6, Some(("2001:db8::2".parse().unwrap(), 48)));
    }

    #[test]
    fn cslip_is_slip_with_compressed_headers() {
        let [cslip, slip] = ["link=cslip", "link=slip&vj=1"]
            .map(|link| format!("serial:/dev/x?{link}&address=10.0.0.2").parse::<Route>().unwrap());
        assert_eq!(cslip, slip);
    }

    #[test]
    fn an_invalid_route_is_rejected() {
        let invalid_routes =
            ["", "tun", "tun:", "kernel:x", "serial:/dev/x?link=x25", "tun:a?b=c", "tap:"];
        let lines = ["baud=0", "link=slip", "link=cslip", "vj=2", "user=x", "link=ppp&password=x"];
        let lines = lines.map(|settings| format!("serial:/dev/x?{settings}"));
        for text in invalid_routes.into_iter().chain(lines.iter().map(String::as_str)) {
            assert!(text.parse::<Route>().is_err(), "{text}");
        }
    }
}
