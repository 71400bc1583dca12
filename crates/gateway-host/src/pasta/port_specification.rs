//! Port specifications of pasta: `-t`, `-u`, `-T` and `-U`.
//!
//! ```text
//! SPEC  := "none" | "auto" | "all" | [ADDR ["%" IFNAME] "/"] ITEM {"," ITEM}
//! ITEM  := FIRST ["-" LAST] [":" FIRST ["-" LAST]] | "~" FIRST ["-" LAST]
//! ```
//!
//! Both ranges of an item have the same length. If all items are exclusions, all ports below the
//! ephemeral ports are forwarded but those.

use crate::forwards::{BindAddress, Forward, PortRange, Transport};
use std::fmt;

/// Forwarding of one option, which may be given several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PortForwarding {
    /// The option is not given.
    #[default]
    Unset,
    /// No ports.
    None,
    /// The ports at which a program of the other side listens (pasta).
    Auto,
    /// All ports below the ephemeral ports (passt).
    All,
    /// The ports of the specifications.
    Ports(Vec<PortItem>),
}

/// Ports of the host that lead to ports of the guest, or the reverse for `-T` and `-U`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortItem {
    /// Address and interface of the sockets.
    pub bind: BindAddress,
    /// Ports of the sockets.
    pub from: PortRange,
    /// First port of the destination.
    pub to: u16,
}

/// Error in a port specification. The messages are those of pasta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpecificationError {
    /// The text is not a specification.
    Invalid(String),
    /// A port is specified twice.
    Overlap(String),
    /// The mode differs from that of an earlier specification.
    Mode(String),
}

/// First ephemeral port of RFC 6335 §6.
pub const FIRST_EPHEMERAL_PORT: u16 = 49_152;
/// Maximum number of items of one option.
const ITEMS_MAX: usize = 4096;

impl PortForwarding {
    /// Adds a specification. `can_bind` permits an address, as for `-t` and `-u`; `is_pasta` selects
    /// between the modes `auto` and `all`.
    ///
    /// # Errors
    ///
    /// Returns [`PortSpecificationError`].
    pub fn add(
        &mut self,
        text: &str,
        can_bind: bool,
        is_pasta: bool,
    ) -> Result<(), PortSpecificationError> {
        let mode = match text {
            "none" => Some(Self::None),
            "auto" if is_pasta => Some(Self::Auto),
            "all" if !is_pasta => Some(Self::All),
            _ => None,
        };
        match (mode, &mut *self) {
            (Some(mode), Self::Unset) => *self = mode,
            (Some(_), _) | (None, Self::None | Self::Auto | Self::All) => {
                return Err(PortSpecificationError::Mode(text.into()));
            }
            (None, Self::Unset) => *self = Self::Ports(parse(text, can_bind, &[])?),
            (None, Self::Ports(items)) => {
                let more = parse(text, can_bind, items)?;
                items.extend(more);
            }
        }
        Ok(())
    }

    /// Returns the forwards of the items, for the guest's leased address.
    #[must_use]
    pub fn forwards(&self, transport: Transport) -> Vec<Forward> {
        let everything = || {
            let from = PortRange::new(1, FIRST_EPHEMERAL_PORT - 1)?;
            Some(PortItem { bind: BindAddress::ALL, from, to: 1 })
        };
        let items = match self {
            Self::Ports(items) => items.clone(),
            Self::All => everything().into_iter().collect(),
            Self::Unset | Self::None | Self::Auto => Vec::new(),
        };
        let forward = |PortItem { bind, from, to }| Forward {
            transport,
            bind,
            host_ports: from,
            guest_address: None,
            guest_port: to,
        };
        items.into_iter().map(forward).collect()
    }
}

fn parse(
    text: &str,
    can_bind: bool,
    earlier: &[PortItem],
) -> Result<Vec<PortItem>, PortSpecificationError> {
    let invalid = || PortSpecificationError::Invalid(text.into());
    let (bind, list) = match text.split_once('/') {
        Some((bind, list)) if can_bind => (parse_bind(bind).ok_or_else(invalid)?, list),
        Some(_) => return Err(invalid()),
        None => (BindAddress::ALL, text),
    };
    let mut included: Vec<(PortRange, u16)> = Vec::new();
    let mut excluded = Vec::new();
    for item in list.split(',') {
        if let Some(item) = item.strip_prefix('~') {
            excluded.push(parse_range(item).ok_or_else(invalid)?);
            continue;
        }
        let (from, to) = item.split_once(':').unwrap_or((item, item));
        let from = parse_range(from).ok_or_else(invalid)?;
        let to = parse_range(to).filter(|to| to.span() == from.span()).ok_or_else(invalid)?;
        included.push((from, to.first()));
    }
    if included.is_empty() {
        let every_port = PortRange::new(1, FIRST_EPHEMERAL_PORT - 1).ok_or_else(invalid)?;
        included.push((every_port, 1));
    }
    let mut items: Vec<PortItem> = Vec::new();
    for (from, to) in included {
        for (from, to) in without(from, to, &excluded) {
            let is_used = |other: &PortItem| other.from.overlaps(from) && other.bind == bind;
            if earlier.iter().chain(&items).any(is_used) {
                return Err(PortSpecificationError::Overlap(text.into()));
            }
            items.push(PortItem { bind: bind.clone(), from, to });
        }
    }
    if earlier.len() + items.len() > ITEMS_MAX {
        return Err(invalid());
    }
    Ok(items)
}

/// Returns the parts of a range that are in none of the ranges `excluded`.
fn without(from: PortRange, to: u16, excluded: &[PortRange]) -> Vec<(PortRange, u16)> {
    let mut parts = Vec::new();
    let mut start = u32::from(from.first());
    let mut excluded: Vec<_> = excluded.iter().filter(|range| range.overlaps(from)).collect();
    excluded.sort_by_key(|range| range.first());
    let mut add = |first: u32, last: u32| {
        let range = u16::try_from(first).ok().zip(u16::try_from(last).ok());
        let range = range.and_then(|(first, last)| PortRange::new(first, last));
        parts.extend(range.map(|range| (range, to + (range.first() - from.first()))));
    };
    for range in excluded {
        if let Some(last) = u32::from(range.first()).checked_sub(1).filter(|last| *last >= start) {
            add(start, last);
        }
        start = start.max(u32::from(range.last()) + 1);
    }
    add(start, from.last().into());
    parts
}

fn parse_bind(text: &str) -> Option<BindAddress> {
    let (address, interface) = match text.split_once('%') {
        Some((address, interface)) => (address, Some(interface)),
        None => (text, None),
    };
    let interface_len_max = 15;
    let is_valid = |name: &&str| (1..=interface_len_max).contains(&name.len());
    let interface = match interface {
        Some(name) => Some(Some(name).filter(is_valid)?.to_owned()),
        None => None,
    };
    // "%eth0/80" restricts the interface alone.
    let address = match address {
        "" => {
            interface.as_ref()?;
            None
        }
        address => Some(address.trim_matches(['[', ']']).parse().ok()?),
    };
    Some(BindAddress { address, interface })
}

fn parse_range(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PortRange::new(parse_port(first)?, parse_port(last)?)
}

/// Parses digits only: `u16::from_str` accepts a sign.
fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for PortSpecificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) => write!(f, "Invalid port specifier {text}"),
            Self::Overlap(text) => write!(f, "Overlapping port specifier {text}"),
            Self::Mode(text) => {
                write!(f, "Port forwarding mode '{text}' conflicts with previous mode")
            }
        }
    }
}

impl std::error::Error for PortSpecificationError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the items of a specification in the form BIND/FIRST-LAST:TO.
    fn items(text: &str) -> Result<Vec<String>, PortSpecificationError> {
        let mut forwarding = PortForwarding::default();
        forwarding.add(text, true, true)?;
        let PortForwarding::Ports(items) = forwarding else { panic!("{forwarding:?}") };
        let display = |item: &PortItem| {
            let BindAddress { address, interface } = &item.bind;
            let address = address.map_or("*".into(), |address| address.to_string());
            let interface = interface.as_ref().map_or(String::new(), |name| format!("%{name}"));
            format!("{address}{interface}/{}:{}", item.from, item.to)
        };
        Ok(items.iter().map(display).collect())
    }

    #[test]
    fn specifications_are_parsed() {
        for (text, expected) in [
            ("22", vec!["*/22:22"]),
            ("22:23", vec!["*/22:23"]),
            ("22,25", vec!["*/22:22", "*/25:25"]),
            ("22-80", vec!["*/22-80:22"]),
            ("22-80:32-90", vec!["*/22-80:32"]),
            ("192.0.2.1/22", vec!["192.0.2.1/22:22"]),
            ("192.0.2.1%eth0/22", vec!["192.0.2.1%eth0/22:22"]),
            ("%eth0/22", vec!["*%eth0/22:22"]),
            ("::1/22", vec!["::1/22:22"]),
            ("[::1]/22", vec!["::1/22:22"]),
            ("2000-5000,~3000-3010", vec!["*/2000-2999:2000", "*/3011-5000:3011"]),
            ("20-30:120-130,~25", vec!["*/20-24:120", "*/26-30:126"]),
            ("20-30,~20,~30", vec!["*/21-29:21"]),
            ("20-30,~10-40", vec![]),
            ("~25", vec!["*/1-24:1", "*/26-49151:26"]),
            ("127.0.0.1/~1-49150", vec!["127.0.0.1/49151:49151"]),
            ("0.0.0.0/8080-8089:80-89", vec!["0.0.0.0/8080-8089:80"]),
        ] {
            assert_eq!(items(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_specifications_are_rejected_with_the_message_of_pasta() {
        for text in [
            "",
            "x",
            "0",
            "65536",
            "-1",
            "+1",
            "22-",
            "-22",
            "80-22",
            "22-80:32-80",
            "22:",
            "22,,23",
            "~",
            "1.2.3/22",
            "/22",
            "192.0.2.1%/22",
            "192.0.2.1%abcdefghijklmnop/22",
            "all",
            "22 ",
        ] {
            let error = items(text).unwrap_err();
            assert_eq!(error.to_string(), format!("Invalid port specifier {text}"));
        }
        for text in ["22,22", "20-30,25", "22-24,24-26:1-3"] {
            let error = items(text).unwrap_err();
            assert_eq!(error.to_string(), format!("Overlapping port specifier {text}"));
        }
    }

    #[test]
    fn an_option_may_be_repeated_with_other_ports_but_not_with_another_mode() {
        let mut forwarding = PortForwarding::default();
        forwarding.add("22", true, true).unwrap();
        forwarding.add("23", true, true).unwrap();
        // The same port at two addresses.
        forwarding.add("127.0.0.2/24", true, true).unwrap();
        forwarding.add("127.0.0.3/24", true, true).unwrap();
        assert_eq!(forwarding.forwards(Transport::Tcp).len(), 4);
        let overlap = forwarding.add("22", true, true).unwrap_err();
        assert_eq!(overlap, PortSpecificationError::Overlap("22".into()));
        let mode = forwarding.add("none", true, true).unwrap_err();
        let text = "Port forwarding mode 'none' conflicts with previous mode";
        assert_eq!(mode.to_string(), text);
        let mut none = PortForwarding::None;
        assert_eq!(none.add("22", true, true), Err(PortSpecificationError::Mode("22".into())));
    }

    #[test]
    fn each_program_has_its_mode_for_many_ports() {
        let mut forwarding = PortForwarding::default();
        forwarding.add("all", true, false).unwrap();
        let forwards = forwarding.forwards(Transport::Udp);
        assert_eq!(forwards.len(), 1);
        assert_eq!(forwards[0].host_ports, PortRange::new(1, 49_151).unwrap());
        let mut forwarding = PortForwarding::default();
        assert!(forwarding.add("auto", true, false).is_err());
        forwarding.add("auto", true, true).unwrap();
        assert_eq!(forwarding, PortForwarding::Auto);
    }

    #[test]
    fn ports_of_the_guest_side_have_no_address() {
        let mut forwarding = PortForwarding::default();
        assert!(forwarding.add("127.0.0.1/22", false, true).is_err());
        forwarding.add("22", false, true).unwrap();
    }

    proptest! {
        #[test]
        fn exclusions_remove_exactly_their_ports(
            first in 1..200_u16, length in 0..100_u16,
            excluded in proptest::collection::vec((1..300_u16, 0..50_u16), 0..6),
        ) {
            let range = |(first, length): (u16, u16)| format!("{first}-{}", first + length);
            let exclusions: String =
                excluded.iter().map(|bounds| format!(",~{}", range(*bounds))).collect();
            let mut forwarding = PortForwarding::default();
            let text = format!("{}{exclusions}", range((first, length)));
            forwarding.add(&text, true, true).unwrap();
            let forwards = forwarding.forwards(Transport::Tcp);
            let ports: Vec<_> =
                forwards.iter().flat_map(|forward| forward.host_ports.ports()).collect();
            let is_excluded = |port: u16| {
                excluded.iter().any(|(first, length)| (*first..=first + length).contains(&port))
            };
            let expected: Vec<_> =
                (first..=first + length).filter(|port| !is_excluded(*port)).collect();
            prop_assert_eq!(ports, expected);
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in "[0-9a-z~,:/%.-]{0,30}") {
            let mut forwarding = PortForwarding::default();
            if forwarding.add(&text, true, true).is_ok() {
                for forward in forwarding.forwards(Transport::Tcp) {
                    let last = forward.guest_port_for(forward.host_ports.last());
                    prop_assert!(last.is_some());
                }
            }
        }
    }
}
