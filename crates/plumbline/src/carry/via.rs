//! By which way: `kernel`, `tun:NAME`, `tap:NAME`, `packet:INTERFACE`,
//! `serial:DEVICE?baud=19200&link=llp`.

use super::segment::{Port, Segment};
use anyhow::{Context, Result, bail};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

/// The way to the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Via {
    /// The kernel's own TCP/IP.
    #[default]
    Kernel,
    /// Our own TCP/IP on a TUN interface.
    Tun {
        /// The interface; a new one is made if there is none of that name.
        name: String,
        /// Our address, if not the peer that the interface's own address suggests.
        address: Option<Ipv4Addr>,
    },
    /// Our own TCP/IP on an Ethernet segment.
    Segment(Segment),
    /// Our own TCP/IP on a serial line.
    Serial {
        /// The device.
        device: PathBuf,
        /// Bits per second.
        rate_bps: u32,
        /// What runs on the line.
        link: SerialLink,
        /// Our address, if not asked for on the line.
        address: Option<Ipv4Addr>,
    },
}

/// The link protocol of a serial line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SerialLink {
    /// The low level protocol of TM-233.
    #[default]
    Llp,
    /// SLIP.
    Slip,
}

const DEFAULT_RATE_BPS: u32 = 9_600;

impl Via {
    /// Returns whether it carries IPv6 too.
    pub(crate) fn has_ipv6(&self) -> bool {
        matches!(self, Self::Kernel | Self::Segment(_))
    }
}

impl FromStr for Via {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (way, settings) = text.split_once('?').unwrap_or((text, ""));
        let (kind, name) = way.split_once(':').unwrap_or((way, ""));
        let settings = settings.split('&').filter(|setting| !setting.is_empty());
        match kind {
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
                "'{}' is not a way that plumb knows: use kernel, tun:NAME, tap:NAME, \
                 packet:INTERFACE or serial:DEVICE?baud=19200&link=llp",
                text.escape_debug()
            ),
        }
    }
}

fn tun<'a>(name: &str, settings: impl Iterator<Item = &'a str>) -> Result<Via> {
    let mut address = None;
    for setting in settings {
        match setting.split_once('=') {
            Some(("address", value)) => address = Some(parse_address(value)?),
            _ => bail!("'{}' is no setting of a TUN: it has address=", setting.escape_debug()),
        }
    }
    Ok(Via::Tun { name: name.to_owned(), address })
}

fn serial<'a>(device: &str, settings: impl Iterator<Item = &'a str>) -> Result<Via> {
    let (mut rate_bps, mut link, mut address) = (DEFAULT_RATE_BPS, SerialLink::Llp, None);
    for setting in settings {
        match setting.split_once('=') {
            Some(("baud", value)) => {
                let rate = value.parse().ok().filter(|rate| *rate > 0);
                rate_bps = rate.with_context(|| {
                    format!("'{}' is not a rate in bits per second", value.escape_debug())
                })?;
            }
            Some(("link", "llp")) => link = SerialLink::Llp,
            Some(("link", "slip")) => link = SerialLink::Slip,
            Some(("address", value)) => address = Some(parse_address(value)?),
            _ => bail!(
                "'{}' is no setting of a serial line: it has baud=, link=llp or link=slip, address=",
                setting.escape_debug()
            ),
        }
    }
    if link == SerialLink::Slip && address.is_none() {
        bail!("SLIP cannot ask for an address: say address=10.0.0.2 or whatever yours is");
    }
    Ok(Via::Serial { device: PathBuf::from(device), rate_bps, link, address })
}

fn parse_address(text: &str) -> Result<Ipv4Addr> {
    text.parse().with_context(|| format!("'{}' is not an IPv4 address", text.escape_debug()))
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel => f.write_str("kernel"),
            Self::Tun { name, .. } => write!(f, "tun:{name}"),
            Self::Segment(segment) => segment.fmt(f),
            Self::Serial { device, rate_bps, link, .. } => {
                let link = if *link == SerialLink::Llp { "llp" } else { "slip" };
                write!(f, "serial:{}?baud={rate_bps}&link={link}", device.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_written_as_it_is_read() {
        let ways = [
            "kernel",
            "tun:plumb0",
            "tap:plumb1",
            "packet:eth0",
            "serial:/dev/ttyS0?baud=19200&link=llp",
        ];
        for text in ways {
            assert_eq!(text.parse::<Via>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_way_is_refused() {
        let wrong = ["", "tun", "tun:", "kernel:x", "serial:/dev/x?link=ppp", "tun:a?b=c", "tap:"];
        for text in wrong.into_iter().chain(["serial:/dev/x?baud=0", "serial:/dev/x?link=slip"]) {
            assert!(text.parse::<Via>().is_err(), "{text}");
        }
    }
}
