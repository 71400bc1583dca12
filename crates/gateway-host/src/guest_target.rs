//! The guests of `plumb gateway`, as they are given on the command line.

use crate::bit_rate;
use crate::unix_socket::SOCKET_PATH_MAX_LEN;
use ipnet::Ipv6Net;
use net::link::{Link, Llp, Ppp, Slip, ppp};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::{error, fmt};

/// The MTU of a guest in a namespace or of a virtual machine, in bytes.
const MTU_BYTES: u16 = 1500;
/// The MTU of LLP and SLIP, in bytes. A packet takes 0.3 s at 9,600 bit/s.
const LINE_MTU_BYTES: u16 = 296;
/// The MTU of PPP (RFC 1661 §2), in bytes.
const PPP_MTU_BYTES: u16 = 1500;
/// Number of packets that the link of a line queues. A longer queue would delay every flow, because
/// it has no order of flows.
const LINE_QUEUE_PACKETS: usize = 2;
/// The MTU of a guest, in bytes: from that of RFC 791 to the longest packet of the kernel's TAP.
const MTU_RANGE_BYTES: RangeInclusive<u16> = 68..=65_521;
/// Maximum length of the name of a network interface (IFNAMSIZ without the NUL), in bytes.
const INTERFACE_NAME_MAX_LEN: usize = 15;
const DEFAULT_RATE_BPS: u32 = 9600;
const TAP_NAME: &str = "tap0";

/// A guest and the settings of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestTarget {
    /// The kind of guest.
    pub kind: TargetKind,
    /// The address of the guest, if it was given.
    pub address: Option<Ipv4Addr>,
    /// The IPv6 prefix of the guest, if it was given.
    pub prefix: Option<Ipv6Net>,
    /// The MTU in bytes.
    pub mtu_bytes: u16,
    /// Maximum rate of the packets to the guest in bits per second, if it was given.
    pub rate_limit_bps: Option<u64>,
}

/// The kind of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A network namespace, by the process in it.
    Process {
        /// The process.
        id: u32,
        /// The name of the TAP.
        tap: String,
    },
    /// A network namespace, by its path.
    Path {
        /// The path.
        path: PathBuf,
        /// The name of the TAP.
        tap: String,
    },
    /// A virtual machine that connects to a Unix socket.
    Machine(PathBuf),
    /// A host at a serial line.
    Line {
        /// The device.
        device: PathBuf,
        /// The rate in bits per second.
        rate_bps: u32,
        /// The link protocol.
        protocol: LineProtocol,
    },
}

impl TargetKind {
    /// Returns whether two guests would use one device.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Line { device, .. }, Self::Line { device: other, .. }) => device == other,
            _ => self == other,
        }
    }
}

/// A link protocol of a serial line, with or without compressed TCP headers (RFC 1144).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineProtocol {
    /// LLP of TM-233. The guest may request its address.
    Llp {
        /// Whether headers are compressed. The guest must be configured alike.
        compresses_headers: bool,
    },
    /// SLIP (RFC 1055), or CSLIP.
    Slip {
        /// Whether headers are compressed: CSLIP. The guest must be configured alike.
        compresses_headers: bool,
    },
    /// PPP. The guest receives its address by IPCP.
    Ppp {
        /// Whether headers may be compressed, if the guest agrees.
        compresses_headers: bool,
    },
}

/// A guest that cannot be parsed. The message names the valid forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetParseError(String);

impl FromStr for GuestTarget {
    type Err = TargetParseError;

    fn from_str(text: &str) -> Result<Self, TargetParseError> {
        let (target, settings) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = target.split_once(':').unwrap_or((target, ""));
        let mut settings = Settings::parse(settings)?;
        let tap = settings.tap.take();
        let tap_name = || tap.clone().unwrap_or_else(|| TAP_NAME.to_owned());
        let kind = match scheme {
            "pid" => {
                let id = rest.parse().ok().filter(|id| *id > 0);
                let id = id
                    .ok_or_else(|| invalid(format!("invalid process '{}'", rest.escape_debug())))?;
                TargetKind::Process { id, tap: tap_name() }
            }
            "netns" if rest.contains('/') => {
                TargetKind::Path { path: PathBuf::from(rest), tap: tap_name() }
            }
            "netns" if !rest.is_empty() => {
                let path = PathBuf::from("/run/netns").join(rest);
                TargetKind::Path { path, tap: tap_name() }
            }
            "qemu" if rest.len() > SOCKET_PATH_MAX_LEN => {
                return Err(invalid(format!(
                    "the path of the socket has {} bytes: use at most {SOCKET_PATH_MAX_LEN}",
                    rest.len()
                )));
            }
            "qemu" if !rest.is_empty() => TargetKind::Machine(PathBuf::from(rest)),
            "serial" if !rest.is_empty() => TargetKind::Line {
                device: PathBuf::from(rest),
                rate_bps: settings.rate_bps.take().unwrap_or(DEFAULT_RATE_BPS),
                protocol: settings.take_protocol(),
            },
            _ => {
                return Err(invalid(format!(
                    "invalid guest '{}': use netns:NAME, pid:PROCESS, qemu:SOCKET or \
                     serial:DEVICE?baud=19200&link=slip",
                    text.escape_debug()
                )));
            }
        };
        let is_namespace = matches!(kind, TargetKind::Process { .. } | TargetKind::Path { .. });
        if tap.is_some() && !is_namespace {
            return Err(invalid("tap= is valid only for a namespace".to_owned()));
        }
        if settings.rate_limit_bps.is_some() && matches!(kind, TargetKind::Line { .. }) {
            return Err(invalid("rate= is not valid for a serial line: use baud=".to_owned()));
        }
        if settings.rate_bps.is_some() || settings.protocol.is_some() || settings.vj.is_some() {
            return Err(invalid(
                "baud=, link= and vj= are valid only for a serial line".to_owned(),
            ));
        }
        let default_mtu = match &kind {
            TargetKind::Line { protocol: LineProtocol::Ppp { .. }, .. } => PPP_MTU_BYTES,
            TargetKind::Line { .. } => LINE_MTU_BYTES,
            _ => MTU_BYTES,
        };
        let mtu_bytes = settings.mtu_bytes.unwrap_or(default_mtu);
        let Settings { address, prefix, rate_limit_bps, .. } = settings;
        Ok(Self { kind, address, prefix, mtu_bytes, rate_limit_bps })
    }
}

/// The settings after the question mark.
#[derive(Debug, Default)]
struct Settings {
    address: Option<Ipv4Addr>,
    prefix: Option<Ipv6Net>,
    mtu_bytes: Option<u16>,
    tap: Option<String>,
    rate_bps: Option<u32>,
    protocol: Option<LineProtocol>,
    /// Whether TCP headers are compressed, if it was given.
    vj: Option<bool>,
    rate_limit_bps: Option<u64>,
}

impl Settings {
    fn parse(text: &str) -> Result<Self, TargetParseError> {
        let mut settings = Self::default();
        for setting in text.split('&').filter(|setting| !setting.is_empty()) {
            let is_valid = match setting.split_once('=') {
                Some(("address", value)) => {
                    let is_valid = parse_into(value, &mut settings.address);
                    if settings.address.is_some_and(|address| !is_unicast(address)) {
                        return Err(invalid(format!("{value} is not a unicast address of a host")));
                    }
                    is_valid
                }
                Some(("prefix", value)) => parse_into(value, &mut settings.prefix),
                Some(("mtu", value)) => {
                    let is_valid = parse_into(value, &mut settings.mtu_bytes)
                        && settings.mtu_bytes.is_some_and(|mtu| MTU_RANGE_BYTES.contains(&mtu));
                    if !is_valid {
                        return Err(invalid(invalid_mtu(value)));
                    }
                    true
                }
                Some(("tap", value)) => {
                    if !is_interface_name(value) {
                        return Err(invalid(format!(
                            "invalid interface name '{}': use 1 to {INTERFACE_NAME_MAX_LEN} \
                             characters without space, '/' and ':'",
                            value.escape_debug()
                        )));
                    }
                    settings.tap = Some(value.to_owned());
                    true
                }
                Some(("baud", value)) => {
                    parse_into(value, &mut settings.rate_bps) && settings.rate_bps != Some(0)
                }
                Some(("rate", value)) => {
                    settings.rate_limit_bps = Some(bit_rate::parse(value).map_err(invalid)?);
                    true
                }
                Some(("link", value)) => {
                    settings.protocol = LineProtocol::from_name(value);
                    settings.protocol.is_some()
                }
                Some(("vj", value @ ("0" | "1"))) => {
                    settings.vj = Some(value == "1");
                    true
                }
                _ => false,
            };
            if !is_valid {
                return Err(invalid(format!(
                    "invalid setting '{}': use address=10.0.2.100, prefix=2001:db8:1::/64, mtu=1500, \
                     tap=NAME, rate=10mbit, baud=19200, link=llp, slip, cslip or ppp, and vj=0 or 1",
                    setting.escape_debug()
                )));
            }
        }
        Ok(settings)
    }

    /// Removes the settings of the protocol of a line, and returns it.
    fn take_protocol(&mut self) -> LineProtocol {
        let mut protocol = self.protocol.take().unwrap_or(LineProtocol::LLP);
        if let Some(value) = self.vj.take() {
            protocol.set_compression(value);
        }
        protocol
    }
}

/// Returns whether an interface of a guest can have the address.
fn is_unicast(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || address.octets()[0] == 0)
}

fn invalid_mtu(value: &str) -> String {
    let [least, greatest] = [MTU_RANGE_BYTES.start(), MTU_RANGE_BYTES.end()];
    format!("invalid MTU '{}': use {least} to {greatest} bytes", value.escape_debug())
}

/// Returns whether a network interface can have the name.
fn is_interface_name(name: &str) -> bool {
    (1..=INTERFACE_NAME_MAX_LEN).contains(&name.len())
        && !matches!(name, "." | "..")
        && !name.contains(|character: char| character.is_whitespace() || "/:".contains(character))
}

fn parse_into<T: FromStr>(text: &str, value: &mut Option<T>) -> bool {
    *value = text.parse().ok();
    value.is_some()
}

fn invalid(message: String) -> TargetParseError {
    TargetParseError(message)
}

impl LineProtocol {
    /// LLP without header compression.
    pub const LLP: Self = Self::Llp { compresses_headers: false };

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "llp" => Self::LLP,
            "slip" => Self::Slip { compresses_headers: false },
            "cslip" => Self::Slip { compresses_headers: true },
            "ppp" => Self::Ppp { compresses_headers: true },
            _ => return None,
        })
    }

    /// Sets whether TCP headers are compressed.
    fn set_compression(&mut self, value: bool) {
        let (Self::Llp { compresses_headers }
        | Self::Slip { compresses_headers }
        | Self::Ppp { compresses_headers }) = self;
        *compresses_headers = value;
    }

    /// Returns the link of a line to the guest with the address `guest`.
    #[must_use]
    pub fn link(self, mtu_bytes: u16, gateway: Ipv4Addr, guest: Ipv4Addr) -> Link {
        let mtu = mtu_bytes.into();
        match self {
            Self::Llp { compresses_headers } => {
                let link = Llp::with_queue_limit(mtu, LINE_QUEUE_PACKETS);
                let mut link =
                    if compresses_headers { link.with_header_compression() } else { link };
                link.set_peer_address(Some(guest.octets()));
                Link::Llp(link)
            }
            Self::Slip { compresses_headers } => {
                let link = Slip::with_queue_limit(mtu, LINE_QUEUE_PACKETS);
                Link::Slip(if compresses_headers { link.with_header_compression() } else { link })
            }
            Self::Ppp { compresses_headers } => {
                let settings = ppp::Settings {
                    address: Some(gateway),
                    peer_address: Some(guest),
                    compresses_headers,
                    ..ppp::Settings::default()
                };
                Link::Ppp(Box::new(Ppp::with_queue_limit(mtu, LINE_QUEUE_PACKETS, settings)))
            }
        }
    }
}

impl fmt::Display for TargetParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for TargetParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<GuestTarget, String> {
        text.parse().map_err(|error: TargetParseError| error.to_string())
    }

    #[test]
    fn the_forms_of_a_guest_are_parsed() {
        let tap = "tap0".to_owned();
        let path = PathBuf::from("/run/netns/blue");
        assert_eq!(parse("netns:blue").unwrap().kind, TargetKind::Path { path, tap: tap.clone() });
        let guest = parse("pid:17?tap=eth0&address=10.9.0.2&mtu=65520").unwrap();
        assert_eq!(guest.kind, TargetKind::Process { id: 17, tap: "eth0".to_owned() });
        assert_eq!((guest.address, guest.mtu_bytes), (Some(Ipv4Addr::new(10, 9, 0, 2)), 65_520));
        assert_eq!(parse("pid:17?rate=10mbit").unwrap().rate_limit_bps, Some(10_000_000));
        let socket = TargetKind::Machine(PathBuf::from("/tmp/vm.sock"));
        assert_eq!(parse("qemu:/tmp/vm.sock").unwrap().kind, socket);
        let line = TargetKind::Line {
            device: PathBuf::from("/dev/ttyS0"),
            rate_bps: 19_200,
            protocol: LineProtocol::Slip { compresses_headers: false },
        };
        let guest = parse("serial:/dev/ttyS0?baud=19200&link=slip").unwrap();
        assert_eq!((guest.kind, guest.mtu_bytes), (line, 296));
    }

    #[test]
    fn headers_are_compressed_as_the_link_and_vj_say() {
        for (settings, expected) in [
            ("", LineProtocol::LLP),
            ("vj=1&link=llp", LineProtocol::Llp { compresses_headers: true }),
            ("link=slip", LineProtocol::Slip { compresses_headers: false }),
            ("link=slip&vj=1", LineProtocol::Slip { compresses_headers: true }),
            ("link=cslip", LineProtocol::Slip { compresses_headers: true }),
            ("link=cslip&vj=0", LineProtocol::Slip { compresses_headers: false }),
            ("link=ppp", LineProtocol::Ppp { compresses_headers: true }),
            ("vj=0&link=ppp", LineProtocol::Ppp { compresses_headers: false }),
        ] {
            let TargetKind::Line { protocol, .. } =
                parse(&format!("serial:/dev/ttyS0?{settings}")).unwrap().kind
            else {
                panic!("{settings}");
            };
            assert_eq!(protocol, expected, "{settings}");
        }
    }

    #[test]
    fn an_invalid_guest_is_refused_with_the_valid_forms() {
        for text in ["", "tap0", "pid:0", "netns:", "qemu:", "serial:", "ssh:x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "netns:a?mtu=67",
            "netns:a?address=127.0.0.1",
            "netns:a?address=0.0.0.0",
            "netns:a?address=224.0.0.1",
            "netns:a?baud=1",
            "qemu:x?tap=t",
            "serial:x?link=x25",
            "serial:x?vj=2",
            "netns:a?vj=1",
            "pid:1?rate=x",
            "serial:x?rate=1mbit",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("blue").unwrap_err().contains("netns:NAME"));
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        assert_eq!(parse("netns:a?mtu=67").unwrap_err(), "invalid MTU '67': use 68 to 65521 bytes");
        assert!(parse("netns:a?mtu=65521").is_ok());
        for name in ["", ".", "a b", "a/b", "a:b", "abcdefghijklmnop"] {
            let error = parse(&format!("pid:1?tap={name}")).unwrap_err();
            assert!(error.starts_with("invalid interface name"), "{error}");
        }
        assert!(parse("pid:1?tap=abcdefghijklmno").is_ok());
        let path = "x".repeat(107);
        assert!(parse(&format!("qemu:{path}")).is_ok());
        let error = parse(&format!("qemu:{path}x")).unwrap_err();
        assert_eq!(error, "the path of the socket has 108 bytes: use at most 107");
    }
}
