//! The addresses of the router and of the hosts at its lines, and the outputs of the lines.

use super::routed_error::RoutedError;
use crate::guest_summary;
use crate::guest_target::{GuestTarget, LineProtocol, TargetKind};
use gateway::queue::{Concentrator1982, Discipline};
use gateway::router::{self, LineSettings, RouterSettings};
use net::link::ppp;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The address of a router that was given none: the source of ICMP errors of a node without an IPv4
/// address (RFC 7600 §4.4).
const DUMMY_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 8);
/// MTU of the TUN in bytes.
pub(super) const HOST_MTU: u16 = 1500;
/// Number of packets that a line with the fair discipline queues.
const QUEUE_PACKETS: usize = 200;
/// Number of queues besides those of the lines.
const OTHER_QUEUES: usize = 3;

/// The discipline of the outputs to the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Whether the queues are those of the concentrator of 1982, instead of fair ones.
    pub is_of_1982: bool,
    /// Maximum number of packets in each queue, unless it is the default.
    pub packets_max: Option<usize>,
    /// Whether windows of TCP connections stay as their hosts set them.
    pub keeps_windows: bool,
    /// Whether packets of transports with ECN are dropped instead of marked.
    pub drops_ecn: bool,
}

impl Output {
    fn packets_max(&self) -> usize {
        let default =
            if self.is_of_1982 { Concentrator1982::default().buffers } else { QUEUE_PACKETS };
        self.packets_max.unwrap_or(default).max(1)
    }

    fn discipline(&self) -> Discipline {
        if self.is_of_1982 {
            let buffers = self.packets_max();
            Discipline::Of1982(Concentrator1982 { buffers, ..Concentrator1982::default() })
        } else {
            Discipline::Fair
        }
    }
}

/// A line of the plan.
#[derive(Clone, Debug)]
pub(super) struct PlannedLine {
    /// The name in requests and messages; see [`guest_summary::names`].
    pub(super) name: String,
    pub(super) device: PathBuf,
    pub(super) rate_bps: u32,
    pub(super) settings: LineSettings,
}

/// The addresses of the router and of its lines.
#[derive(Clone, Debug)]
pub struct AddressPlan {
    pub(super) router: RouterSettings,
    /// The addresses of the router that were given.
    given: Vec<IpAddr>,
    pub(super) lines: Vec<PlannedLine>,
}

impl AddressPlan {
    /// Creates the plan for `guests`, each with the text with which it was given.
    ///
    /// # Errors
    ///
    /// Returns an error that is caused by the arguments.
    pub fn new(
        guests: &[(String, GuestTarget)],
        router_addresses: &[IpAddr],
        output: Output,
    ) -> Result<Self, RoutedError> {
        let v4 = router_addresses.iter().filter(|address| address.is_ipv4()).count();
        if v4 > 1 || router_addresses.len() - v4 > 1 {
            return Err(RoutedError::TwoRouterAddresses);
        }
        let own4 = router_addresses.iter().find_map(|address| match address {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        });
        let own6 = router_addresses.iter().find_map(|address| match address {
            IpAddr::V6(v6) => Some(*v6),
            IpAddr::V4(_) => None,
        });
        let texts: Vec<&str> = guests.iter().map(|(text, _)| text.as_str()).collect();
        let named = guest_summary::names(&texts).into_iter().zip(guests);
        let lines = named.map(|(name, guest)| planned_line(name, guest, own6, output));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        let line_mtu_max = lines.iter().map(|line| line.settings.mtu).max().unwrap_or(0);
        let router = RouterSettings {
            address: own4.unwrap_or(DUMMY_ADDRESS),
            address_v6: own6,
            host_mtu: HOST_MTU.into(),
            line_mtu_max,
            lines_max: lines.len(),
            // Each queue has the same share of the packets.
            packets_max: output.packets_max().saturating_mul(lines.len() + OTHER_QUEUES),
        };
        Ok(Self { router, given: router_addresses.to_vec(), lines })
    }

    /// Returns the addresses and prefixes that are behind the TUN, with their lengths in bits.
    pub(super) fn routes(&self) -> impl Iterator<Item = (IpAddr, u8)> {
        let router = self.given.iter().map(|address| (*address, bits_of(*address)));
        let lines = self.lines.iter().flat_map(|line| {
            let prefix = line.settings.prefix.map(|(prefix, bits)| (IpAddr::from(prefix), bits));
            [Some((IpAddr::from(line.settings.address), 32)), prefix].into_iter().flatten()
        });
        router.chain(lines)
    }

    /// Returns the single addresses behind the TUN. A prefix of several addresses is reached by
    /// routes of other routers, because a neighbor has one address.
    pub(super) fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        let is_single = |(address, bits): &(IpAddr, u8)| *bits == bits_of(*address);
        self.routes().filter(is_single).map(|(address, _)| address)
    }

    /// Returns whether a line has an IPv6 prefix.
    pub(super) fn has_ipv6(&self) -> bool {
        self.lines.iter().any(|line| line.settings.prefix.is_some())
    }
}

const fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn planned_line(
    name: String,
    (text, target): &(String, GuestTarget),
    router6: Option<Ipv6Addr>,
    output: Output,
) -> Result<PlannedLine, RoutedError> {
    let TargetKind::Line { device, rate_bps, protocol } = &target.kind else {
        return Err(RoutedError::NotALine(text.clone()));
    };
    let address = target.address.ok_or_else(|| RoutedError::NoAddress(text.clone()))?;
    if target.prefix.is_some() && router6.is_none() {
        return Err(RoutedError::NoRouterAddress6(text.clone()));
    }
    let protocol = match *protocol {
        LineProtocol::Llp { compresses_headers } => {
            router::LineProtocol::Llp { compresses_headers }
        }
        LineProtocol::Slip { compresses_headers } => {
            router::LineProtocol::Slip { compresses_headers }
        }
        LineProtocol::Ppp { compresses_headers } => {
            router::LineProtocol::Ppp(Box::new(ppp::Settings {
                compresses_headers,
                ..ppp::Settings::default()
            }))
        }
    };
    let settings = LineSettings {
        protocol,
        mtu: target.mtu_bytes.into(),
        prefix: target.prefix.map(|prefix| (prefix.network(), prefix.prefix_len())),
        discipline: output.discipline(),
        marks_ecn: !output.drops_ecn,
        limits_windows: !output.is_of_1982 && !output.keeps_windows,
        ..LineSettings::llp(address, u64::from(*rate_bps))
    };
    Ok(PlannedLine { name, device: device.clone(), rate_bps: *rate_bps, settings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(guests: &[&str], router: &[&str], output: Output) -> Result<AddressPlan, String> {
        let guests: Vec<_> =
            guests.iter().map(|text| ((*text).to_owned(), text.parse().unwrap())).collect();
        let router: Vec<_> = router.iter().map(|text| text.parse().unwrap()).collect();
        AddressPlan::new(&guests, &router, output).map_err(|error| {
            assert!(error.is_caused_by_arguments(), "{error}");
            error.to_string()
        })
    }

    #[test]
    fn single_addresses_are_neighbors_and_all_prefixes_have_routes() {
        let guests = [
            "serial:/dev/ttyS0?address=192.0.2.10&link=ppp&prefix=2001:db8:1::1/64",
            "serial:/dev/ttyS1?address=192.0.2.11&link=ppp&prefix=2001:db8::11/128",
        ];
        let plan = plan(&guests, &["192.0.2.9", "2001:db8::9"], Output::default()).unwrap();
        let routes: Vec<String> =
            plan.routes().map(|(address, bits)| format!("{address}/{bits}")).collect();
        let expected = [
            "192.0.2.9/32",
            "2001:db8::9/128",
            "192.0.2.10/32",
            "2001:db8:1::/64",
            "192.0.2.11/32",
            "2001:db8::11/128",
        ];
        assert_eq!(routes, expected);
        assert_eq!(plan.neighbors().count(), 5);
        assert!(plan.has_ipv6());
    }

    #[test]
    fn the_name_of_a_line_has_no_settings() {
        let guests = [
            "serial:/dev/ttyS0?baud=19200&address=192.0.2.10",
            "serial:/dev/ttyS1?address=192.0.2.11",
        ];
        let plan = plan(&guests, &[], Output::default()).unwrap();
        let names: Vec<&str> = plan.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["serial:/dev/ttyS0", "serial:/dev/ttyS1"]);
    }

    #[test]
    fn a_router_without_an_address_has_no_route_of_its_own() {
        let plan = plan(&["serial:/dev/ttyS0?address=192.0.2.10"], &[], Output::default()).unwrap();
        assert_eq!((plan.router.address, plan.routes().count()), (DUMMY_ADDRESS, 1));
    }

    #[test]
    fn the_discipline_of_1982_has_its_buffers_and_leaves_windows_alone() {
        let output = Output { is_of_1982: true, packets_max: Some(4), ..Output::default() };
        let plan = plan(&["serial:/dev/ttyS0?address=192.0.2.10"], &[], output).unwrap();
        let settings = &plan.lines[0].settings;
        let Discipline::Of1982(concentrator) = settings.discipline else { panic!("{settings:?}") };
        assert_eq!((concentrator.buffers, settings.limits_windows), (4, false));
    }

    #[test]
    fn a_line_compresses_headers_as_its_guest() {
        use router::LineProtocol::{Llp, Ppp, Slip};
        for (settings, expected) in
            [("link=llp&vj=1", true), ("link=slip&vj=1", true), ("link=ppp&vj=0", false)]
        {
            let line = format!("serial:/dev/ttyS0?address=192.0.2.10&{settings}");
            let plan = plan(&[&line], &[], Output::default()).unwrap();
            let compresses_headers = match &plan.lines[0].settings.protocol {
                Llp { compresses_headers } | Slip { compresses_headers } => *compresses_headers,
                Ppp(settings) => settings.compresses_headers,
            };
            assert_eq!(compresses_headers, expected, "{settings}");
        }
    }

    #[test]
    fn a_plan_with_missing_or_surplus_addresses_is_refused() {
        let refuse =
            |guests: &[&str], router: &[&str]| plan(guests, router, Output::default()).unwrap_err();
        let line = "serial:/dev/ttyS0?address=192.0.2.10";
        assert!(refuse(&["netns:a"], &[]).contains("is not a serial line"));
        assert!(refuse(&["serial:/dev/ttyS0"], &[]).contains("has no address"));
        assert!(refuse(&[line], &["10.0.0.1", "10.0.0.2"]).contains("one address"));
        let line = format!("{line}&prefix=2001:db8::/64&mtu=1280");
        assert!(refuse(&[&line], &["10.0.0.1"]).contains("no IPv6 address"));
    }
}
