//! Tests of the policy, with every form of every special address.

use super::*;
use proptest::prelude::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rule(prefix: &str, is_permitted: bool) -> Rule {
    Rule::new(prefix.parse().unwrap(), is_permitted)
}

fn with_rules(rules: &[(&str, bool)]) -> Policy {
    let rules = rules.iter().map(|(prefix, is_permitted)| rule(prefix, *is_permitted)).collect();
    Policy::new(Settings { rules, ..Settings::default() })
}

fn results(policy: &Policy, destinations: &[&str]) -> Vec<Result<IpAddr, Refusal>> {
    destinations.iter().map(|text| policy.check(ip(text))).collect()
}

/// Destinations that the default policy refuses, with the reason.
const REFUSED: [(&str, Refusal); 34] = [
    ("127.0.0.1", Refusal::Loopback),
    ("127.255.255.255", Refusal::Loopback),
    ("::1", Refusal::Loopback),
    ("0.0.0.0", Refusal::Unspecified),
    ("0.1.2.3", Refusal::Unspecified),
    ("::", Refusal::Unspecified),
    ("169.254.1.1", Refusal::LinkLocal),
    ("fe80::1", Refusal::LinkLocal),
    ("febf::1", Refusal::LinkLocal),
    ("169.254.169.254", Refusal::Metadata),
    ("169.254.170.2", Refusal::Metadata),
    ("168.63.129.16", Refusal::Metadata),
    ("100.100.100.200", Refusal::Metadata),
    ("192.0.0.192", Refusal::Metadata),
    ("fd00:ec2::254", Refusal::Metadata),
    ("fd20:ce::254", Refusal::Metadata),
    ("10.0.0.1", Refusal::Private),
    ("172.16.0.1", Refusal::Private),
    ("172.31.255.255", Refusal::Private),
    ("192.168.255.255", Refusal::Private),
    ("100.64.0.1", Refusal::Private),
    ("100.127.255.255", Refusal::Private),
    ("fd00::1", Refusal::Private),
    ("fec0::1", Refusal::Private),
    ("224.0.0.1", Refusal::Multicast),
    ("ff02::1", Refusal::Multicast),
    ("255.255.255.255", Refusal::Broadcast),
    ("240.0.0.1", Refusal::Reserved),
    ("192.0.2.1", Refusal::Reserved),
    ("198.19.255.255", Refusal::Reserved),
    ("2001:db8::1", Refusal::Reserved),
    ("4000::1", Refusal::Reserved),
    ("100::1", Refusal::Reserved),
    ("64:ff9b:1::1", Refusal::Private),
];

/// Destinations next to the refused prefixes.
const PERMITTED: [&str; 14] = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "223.255.255.255",
    "2606:4700::1111",
    "64:ff9b::1.1.1.1",
];

// attack row 104
#[test]
fn row_104_special_addresses_are_refused_with_their_reason() {
    let mut policy = Policy::default();
    for (destination, refusal) in REFUSED {
        assert_eq!(policy.permit(ip(destination)), Err(refusal), "{destination}");
    }
    let reasons = REFUSED.map(|(_, refusal)| refusal);
    let of = |refusal| reasons.iter().filter(|reason| **reason == refusal).count() as u64;
    let refused = policy.refused();
    assert_eq!(refused.loopback, of(Refusal::Loopback));
    assert_eq!(refused.metadata, of(Refusal::Metadata));
    assert_eq!(refused.private, of(Refusal::Private));
    assert_eq!(refused.rule, 0);
}

#[test]
fn addresses_next_to_the_special_ones_are_permitted() {
    let permitted = PERMITTED.map(|text| Ok(ip(text)));
    assert_eq!(results(&Policy::default(), &PERMITTED), permitted);
}

/// Returns every IPv6 form that embeds `address`.
fn forms(address: Ipv4Addr) -> Vec<Ipv6Addr> {
    let [a, b, c, d] = address.octets();
    let bits = u128::from(address.to_bits());
    let prefix = |text: &str| text.parse::<Ipv6Addr>().unwrap().to_bits();
    let nat64 = |octets: [u8; 10]| {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&prefix("64:ff9b:1::").to_be_bytes()[..6]);
        bytes[6..].copy_from_slice(&octets);
        Ipv6Addr::from(bytes)
    };
    let public = u128::from(Ipv4Addr::new(8, 8, 8, 8).to_bits());
    vec![
        (prefix("::ffff:0:0") | bits).into(),
        bits.into(),
        (prefix("::ffff:0:0:0") | bits).into(),
        (prefix("64:ff9b::") | bits).into(),
        nat64([a, b, 0, c, d, 0, 0, 0, 0, 0]),
        nat64([0, a, 0, b, c, d, 0, 0, 0, 0]),
        nat64([0, 0, 0, a, b, c, d, 0, 0, 0]),
        nat64([0, 0, 0, 0, 0, 0, a, b, c, d]),
        (prefix("2002::") | bits << 80 | 1).into(),
        (prefix("2001::") | bits << 64 | !public & 0xFFFF_FFFF).into(),
        (prefix("2001::") | public << 64 | !bits & 0xFFFF_FFFF).into(),
        (prefix("2600:1::5efe:0:0") | bits).into(),
        (prefix("2600:1::200:5efe:0:0") | bits).into(),
        (prefix("2600:1::300:5efe:0:0") | bits).into(),
        (prefix("2002:808:808:0:0:5efe::") | bits).into(),
    ]
}

// attack row 104
#[test]
fn row_104_a_special_address_is_refused_in_every_form_that_embeds_it() {
    // The operator permits all prefixes of tunnels and translators: the embedded address decides.
    let permissions = [
        "::/0",
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
    ];
    let permissive = with_rules(&permissions.map(|prefix| (prefix, true)));
    for (text, refusal) in REFUSED {
        let IpAddr::V4(address) = ip(text) else { continue };
        // 0.0.0.0/8 in a position of local NAT64 holds no address, and `::` is no form of 0.0.0.0.
        if refusal == Refusal::Unspecified {
            continue;
        }
        for form in forms(address) {
            assert!(Policy::default().check(form.into()).is_err(), "{form} of {address}");
            assert_eq!(permissive.check(form.into()), Err(refusal), "{form} of {address}");
        }
    }
}

// attack row 104
#[test]
fn row_104_a_rule_for_the_embedded_address_alone_does_not_permit_the_forms() {
    let policy = with_rules(&[("10.0.0.0/8", true)]);
    let permitted =
        forms(Ipv4Addr::new(10, 1, 2, 3)).into_iter().map(|form| policy.check(form.into()));
    // Mapped, NAT64, 6to4, both of Teredo, and all of ISATAP; not IPv4-compatible, IPv4-translated,
    // nor local NAT64.
    let is_permitted: Vec<bool> = permitted.map(|result| result.is_ok()).collect();
    let is_expected = [
        [true, false, false, true, false, false, false, false].as_slice(),
        &[true, true, true, true, true, true, true],
    ];
    assert_eq!(is_permitted, is_expected.concat());
}

#[test]
fn a_mapped_address_becomes_an_ipv4_address() {
    assert_eq!(Policy::default().check(ip("::ffff:1.1.1.1")), Ok(ip("1.1.1.1")));
}

#[test]
fn a_rule_for_a_mapped_prefix_is_one_for_the_ipv4_prefix() {
    let policy = with_rules(&[
        ("::ffff:9.9.9.1/128", false),
        ("::ffff:1.0.0.0/104", false),
        ("::ffff:10.1.0.0/112", true),
    ]);
    for refused in ["9.9.9.1", "::ffff:9.9.9.1", "64:ff9b::9.9.9.1", "1.255.255.255"] {
        assert_eq!(policy.check(ip(refused)), Err(Refusal::Rule), "{refused}");
    }
    for permitted in ["9.9.9.2", "2.0.0.0", "10.1.255.255"] {
        assert_eq!(policy.check(ip(permitted)), Ok(ip(permitted)));
    }
    assert_eq!(policy.check(ip("10.2.0.0")), Err(Refusal::Private));
    let all = rule("::ffff:0:0/96", false);
    assert_eq!(all.prefix().to_string(), "0.0.0.0/0");
    for unchanged in ["::ffff:0:0/95", "::fffe:9.9.9.1/128", "2001:db8::/32"] {
        assert_eq!(rule(unchanged, false).prefix(), unchanged.parse::<IpNet>().unwrap());
    }
}

#[test]
fn the_longest_prefix_decides() {
    let policy = with_rules(&[
        ("10.1.0.0/16", true),
        ("10.1.2.0/24", false),
        ("10.1.2.3/32", true),
        ("1.0.0.0/8", false),
    ]);
    let destinations = ["10.0.0.1", "10.1.0.1", "10.1.2.1", "10.1.2.3", "1.1.1.1", "2.2.2.2"];
    let rule = Err(Refusal::Rule);
    let expected = [Err(Refusal::Private), Ok(ip("10.1.0.1")), rule, Ok(ip("10.1.2.3")), rule];
    assert_eq!(results(&policy, &destinations[..5]), expected);
    assert_eq!(policy.check(ip("2.2.2.2")), Ok(ip("2.2.2.2")));
}

#[test]
fn a_denial_wins_over_a_permission_of_the_same_prefix() {
    for order in [[true, false], [false, true]] {
        let policy = with_rules(&order.map(|is_permitted| ("1.0.0.0/8", is_permitted)));
        assert_eq!(policy.check(ip("1.1.1.1")), Err(Refusal::Rule));
    }
}

#[test]
fn a_permission_for_everything_permits_no_special_address() {
    let policy = with_rules(&[("0.0.0.0/0", true), ("::/0", true)]);
    let still_refused = ["127.0.0.1", "10.0.0.1", "169.254.169.254", "fe80::1", "fd00::1"];
    assert!(results(&policy, &still_refused).iter().all(Result::is_err));
}

#[test]
fn permission_for_link_local_addresses_does_not_include_the_metadata_service() {
    let policy = with_rules(&[("169.254.0.0/16", true)]);
    assert_eq!(policy.check(ip("169.254.1.1")), Ok(ip("169.254.1.1")));
    assert_eq!(policy.check(ip("169.254.169.254")), Err(Refusal::Metadata));
}

#[test]
fn no_rule_permits_groups_broadcast_or_the_unspecified_network() {
    let policy = with_rules(&[
        ("0.0.0.0/32", true),
        ("::/128", true),
        ("224.0.0.1/32", true),
        ("255.255.255.255/32", true),
        ("ff02::1/128", true),
    ]);
    let destinations = ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1"];
    assert!(results(&policy, &destinations).iter().all(Result::is_err));
}

fn with_gateway(permits_host_loopback: bool) -> Policy {
    let gateways = vec![ip("10.0.2.2"), ip("fd00::2")];
    // The rules do not apply to the gateway.
    let rules = vec![rule("10.0.2.2/32", true), rule("fd00::2/128", true)];
    Policy::new(Settings { gateways, permits_host_loopback, rules, ..Settings::default() })
}

// attack row 104
#[test]
fn row_104_the_gateway_stands_for_the_hosts_loopback_only_if_permitted() {
    let destinations = ["10.0.2.2", "::ffff:10.0.2.2", "fd00::2"];
    let refused = [Err(Refusal::Loopback); 3];
    assert_eq!(results(&with_gateway(false), &destinations), refused);
    let loopback = ["127.0.0.1", "127.0.0.1", "::1"].map(|text| Ok(ip(text)));
    assert_eq!(results(&with_gateway(true), &destinations), loopback);
    assert_eq!(with_gateway(true).check(ip("127.0.0.1")), Err(Refusal::Loopback));
    assert_eq!(with_gateway(true).check(ip("64:ff9b::10.0.2.2")), Err(Refusal::Loopback));
}

#[test]
fn the_port_of_a_socket_address_is_kept_and_its_scope_is_not() {
    let mut policy = with_gateway(true);
    let destination = "[::ffff:10.0.2.2%3]:80".parse().unwrap();
    assert_eq!(policy.permit_socket(destination), Ok("127.0.0.1:80".parse().unwrap()));
}

proptest! {
    /// Without rules, only addresses that the standard library can classify as global are permitted.
    #[test]
    fn no_permitted_address_is_special(bits: u32, form in 0_usize..11) {
        let address = Ipv4Addr::from_bits(bits);
        let is_special = address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_documentation()
            || address.octets()[0] == 0
            || bits >> 28 == 15;
        let policy = Policy::default();
        if is_special {
            prop_assert!(policy.check(address.into()).is_err());
            prop_assert!(policy.check(forms(address)[form].into()).is_err());
        }
    }

    #[test]
    fn a_permitted_address_of_ipv6_is_global_unicast_or_nat64(bits: u128, high: u8) {
        let bits = bits >> 8 | u128::from(high) << 120;
        let address = Ipv6Addr::from_bits(bits);
        if Policy::default().check(address.into()).is_ok() {
            let segments = address.segments();
            prop_assert!(segments[0] >> 13 == 1 || segments[..2] == [0x64, 0xFF9B]);
        }
    }
}

#[test]
fn a_mapped_address_leads_to_its_target_only() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let mut policy = Policy::new(Settings {
        mappings: vec![(address("169.254.1.2"), address("192.168.7.7"))],
        ..Settings::default()
    });
    assert_eq!(policy.permit(address("169.254.1.2")), Ok(address("192.168.7.7")));
    assert_eq!(policy.permit(address("::ffff:169.254.1.2")), Ok(address("192.168.7.7")));
    assert_eq!(policy.permit(address("169.254.1.3")), Err(Refusal::LinkLocal));
    assert_eq!(policy.permit(address("192.168.7.7")), Err(Refusal::Private));
}
