//! Tests of the addresses that a guest of pasta gets.

use super::*;
use crate::invocation::Invocation;
use crate::pasta::{PastaMode, parse};
use std::ffi::OsString;

fn settings(mode: PastaMode, text: &str) -> PastaSettings {
    let arguments: Vec<OsString> = text.split_ascii_whitespace().map(Into::into).collect();
    match parse(mode, &arguments) {
        Invocation::Run(settings) => settings,
        Invocation::Text(text) => panic!("{text:?}"),
    }
}

fn host() -> HostNetwork {
    HostNetwork {
        interface: Some("eth0".to_owned()),
        v4: Some(HostAddress {
            address: [192, 168, 7, 20].into(),
            prefix_bits: 24,
            gateway: Some([192, 168, 7, 1].into()),
        }),
        v6: Some(HostAddress {
            address: "2001:db8::20".parse().unwrap(),
            prefix_bits: 64,
            gateway: Some("fe80::1".parse().unwrap()),
        }),
    }
}

fn network(text: &str, host: &HostNetwork) -> PastaNetwork {
    let resolvers = vec!["127.0.0.53:53".parse().unwrap(), "192.0.2.53:53".parse().unwrap()];
    let settings = settings(PastaMode::Passt, text);
    PastaNetwork::new(&settings, host, resolvers, vec!["a.example".to_owned()]).unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_guest_has_the_addresses_of_the_host() {
    let settings = settings(PastaMode::Pasta, "--config-net 7");
    let network = PastaNetwork::new(&settings, &host(), Vec::new(), Vec::new()).unwrap();
    assert_eq!(network.interface(), "eth0");
    let setup = network.setup(&settings);
    assert_eq!(setup.addresses, [(ip("192.168.7.20"), 24), (ip("2001:db8::20"), 64)]);
    assert_eq!(setup.gateways, [ip("192.168.7.1"), ip("fe80::1")]);
    assert_eq!(setup.mtu_bytes, Some(65_520));
    assert!(network.guest(&settings).fragments_datagrams);
    let unconfigured = settings_without_configuration();
    assert_eq!(network.setup(&unconfigured), TunSetup::default());
}

fn settings_without_configuration() -> PastaSettings {
    settings(PastaMode::Pasta, "7")
}

#[test]
fn options_replace_the_addresses_of_the_host() {
    let text = "-a 10.0.2.100 -n 24 -g 10.0.2.2 -4";
    for host in [host(), HostNetwork::default()] {
        let network = network(text, &host);
        assert_eq!(network.addresses(), [ip("10.0.2.100")]);
        let expected = Assigned {
            address: [10, 0, 2, 100].into(),
            prefix_bits: 24,
            gateway: [10, 0, 2, 2].into(),
        };
        assert_eq!((network.v4, network.is_local), (Some(expected), false));
    }
}

#[test]
fn a_prefix_is_widened_until_it_contains_the_gateway() {
    let mut host = host();
    host.v4 = host.v4.map(|v4| HostAddress { prefix_bits: 32, ..v4 });
    assert_eq!(network("-4", &host).v4.unwrap().prefix_bits, 27);
}

#[test]
fn a_host_without_a_default_route_gets_a_local_network() {
    let local = network("", &HostNetwork::default());
    assert!(local.is_local);
    assert_eq!((local.interface(), local.addresses()), ("tap0", vec![ip("169.254.2.1")]));
    let settings = settings(PastaMode::Passt, "-6");
    let none = PastaNetwork::new(&settings, &HostNetwork::default(), Vec::new(), Vec::new());
    assert_eq!(none, Err(NoNetwork));
}

#[test]
fn a_resolver_at_a_loopback_address_is_reached_at_the_gateway() {
    let mapped = network("", &host());
    assert_eq!(mapped.dns_servers, [ip("192.168.7.1"), ip("192.0.2.53")]);
    assert_eq!(mapped.dns_forward, [ip("192.168.7.1")]);
    assert_eq!(mapped.search_list, ["a.example"]);
    let unmapped = network("--no-map-gw --dns-forward 169.254.1.1 -S none", &host());
    assert_eq!(unmapped.dns_servers, [ip("169.254.1.1"), ip("192.0.2.53")]);
    assert_eq!(unmapped.dns_forward, [ip("169.254.1.1")]);
    assert!(unmapped.search_list.is_empty());
    let silent = network("--no-dhcp-dns", &host());
    assert!(silent.dns_servers.is_empty());
}

#[test]
fn the_gateway_leads_to_the_loopback_of_the_host_unless_it_is_not_mapped() {
    let to = |text: &str, address: &str| {
        let settings = settings(PastaMode::Passt, text);
        let network = network(text, &host());
        network.policy(&settings).check(ip(address)).ok()
    };
    assert_eq!(to("", "192.168.7.1"), Some(ip("127.0.0.1")));
    assert_eq!(to("", "fe80::1"), Some(ip("::1")));
    assert_eq!(to("--no-map-gw", "192.168.7.1"), Some(ip("192.168.7.1")));
    assert_eq!(to("--no-map-gw", "fe80::1"), None);
    assert_eq!(to("--map-host-loopback 10.1.1.1", "10.1.1.1"), Some(ip("127.0.0.1")));
    assert_eq!(to("--map-host-loopback 10.1.1.1", "192.168.7.1"), Some(ip("192.168.7.1")));
    assert_eq!(to("--map-guest-addr 169.254.1.2", "169.254.1.2"), Some(ip("192.168.7.20")));
    assert_eq!(to("", "127.0.0.1"), None);
    assert_eq!(to("", "169.254.169.254"), None);
}

#[test]
fn the_own_addresses_of_the_gateway_are_those_that_it_answers() {
    let own = |text: &str| network(text, &host()).own_addresses(&settings(PastaMode::Passt, text));
    assert_eq!(own("-4"), [ip("192.168.7.1")]);
    assert!(own("-4 --no-map-gw").is_empty());
    assert_eq!(own("--no-map-gw"), [ip("fe80::1")]);
}
