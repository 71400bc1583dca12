//! Tests with the command lines that podman 4.4 to 5 and rootlesskit 3 pass.

use super::*;
use crate::forwards::{BindAddress, PortRange};
use crate::pasta::port_specification::PortItem;

fn arguments(text: &str) -> Vec<OsString> {
    text.split_ascii_whitespace().map(Into::into).collect()
}

fn settings_in(mode: PastaMode, text: &str) -> PastaSettings {
    match parse(mode, &arguments(text)) {
        Invocation::Run(settings) => settings,
        Invocation::Text(text) => panic!("{text:?}"),
    }
}

fn settings(text: &str) -> PastaSettings {
    settings_in(PastaMode::Pasta, text)
}

fn failure(mode: PastaMode, text: &str) -> String {
    match parse(mode, &arguments(text)) {
        Invocation::Text(ExitText { stderr, exit_code: 1, .. }) => stderr,
        other => panic!("{text}: {other:?}"),
    }
}

fn ports(bind: BindAddress, first: u16, last: u16, to: u16) -> PortForwarding {
    PortForwarding::Ports(vec![PortItem { bind, from: PortRange::new(first, last).unwrap(), to }])
}

#[test]
fn the_command_line_of_podman_4_is_parsed() {
    let line = "--config-net -t 127.0.0.1/8080-8081:80-81 -u none -T none -U none --no-map-gw \
                --netns /run/user/1000/netns/netns-1";
    let bind = BindAddress::at([127, 0, 0, 1].into());
    let expected = PastaSettings {
        guest: PastaGuest::Path("/run/user/1000/netns/netns-1".into()),
        is_network_only: true,
        is_configuring: true,
        maps_gateway: false,
        tcp_ports: ports(bind, 8080, 8081, 80),
        udp_ports: PortForwarding::None,
        guest_tcp_ports: PortForwarding::None,
        guest_udp_ports: PortForwarding::None,
        ..defaults(PastaMode::Pasta)
    };
    assert_eq!(settings(line), expected);
}

#[test]
fn the_command_line_of_podman_5_is_parsed() {
    let line = "--config-net --dns-forward 169.254.1.1 --map-guest-addr 169.254.1.2 -t none \
                -u none -T none -U none --no-map-gw --quiet --netns /run/netns/x";
    let settings = settings(line);
    assert_eq!(settings.dns_forward.ipv4, Some([169, 254, 1, 1].into()));
    assert_eq!(settings.host_addresses.ipv4, Some([169, 254, 1, 2].into()));
    assert!(settings.is_quiet && !settings.is_foreground);
}

#[test]
fn the_command_line_of_rootlesskit_3_is_parsed() {
    let line = "--stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 \
                --netmask=24 --gateway=10.0.2.2 --dns-forward=10.0.2.3 --no-map-gw --ipv4-only \
                --tcp-ports=auto --udp-ports=auto --host-lo-to-ns-lo 4711";
    let expected = PastaSettings {
        guest: PastaGuest::Process(4711),
        logs_to_stderr: true,
        interface_name: Some("tap0".into()),
        mtu_bytes: Some(65_520),
        is_configuring: true,
        addresses: VersionPair { ipv4: Some([10, 0, 2, 100].into()), ipv6: None },
        prefix_bits: Some(24),
        gateways: VersionPair { ipv4: Some([10, 0, 2, 2].into()), ipv6: None },
        dns_forward: VersionPair { ipv4: Some([10, 0, 2, 3].into()), ipv6: None },
        maps_gateway: false,
        maps_loopback: true,
        has_ipv6: false,
        tcp_ports: PortForwarding::Auto,
        udp_ports: PortForwarding::Auto,
        guest_tcp_ports: PortForwarding::Auto,
        guest_udp_ports: PortForwarding::Auto,
        ..defaults(PastaMode::Pasta)
    };
    assert_eq!(settings(line), expected);
    let by_path = settings("--userns=/proc/7/ns/user --netns=/proc/7/ns/net --tcp-ports=none");
    assert_eq!(by_path.guest, PastaGuest::Path("/proc/7/ns/net".into()));
    assert_eq!(by_path.user_namespace, Some("/proc/7/ns/user".into()));
    assert!(!by_path.is_network_only);
    assert_eq!(by_path.udp_ports, PortForwarding::None);
}

#[test]
fn a_virtual_machine_connects_to_a_socket_or_is_passed() {
    let settings =
        settings_in(PastaMode::Passt, "-f -1 -s p.sock -t 2222:80 -u none -p guest.pcap");
    assert_eq!(settings.guest, PastaGuest::Listener(Some("p.sock".into())));
    assert!(settings.is_foreground && settings.is_one_off && settings.announces_dns);
    assert_eq!(settings.tcp_ports, ports(BindAddress::ALL, 2222, 2222, 80));
    assert_eq!(settings.capture, Some("guest.pcap".into()));
    let passed = settings_in(PastaMode::Passt, "--fd 5");
    assert_eq!((passed.guest, passed.is_one_off), (PastaGuest::Descriptor(5), true));
    assert_eq!(passed.tcp_ports, PortForwarding::None);
    let default = settings_in(PastaMode::Passt, "");
    assert_eq!(default.guest, PastaGuest::Listener(None));
}

#[test]
fn the_options_of_a_command_are_its_own() {
    let with_command = settings("-q sh -c exit");
    let command = ["sh", "-c", "exit"].map(OsString::from).to_vec();
    assert_eq!(with_command.guest, PastaGuest::Command(command));
    assert!(with_command.is_foreground);
    assert_eq!(settings("--").guest, PastaGuest::Command(Vec::new()));
}

#[test]
fn a_name_without_a_slash_is_one_of_ip_netns() {
    assert_eq!(settings("--netns blue").guest, PastaGuest::Path("/run/netns/blue".into()));
    assert_eq!(settings("--netns ./blue").guest, PastaGuest::Path("./blue".into()));
}

#[test]
fn values_are_parsed() {
    let values = settings("-m 0 -n 255.255.240.0 -D 192.0.2.53 -D 2001:db8::53 -S none 7");
    assert_eq!((values.mtu_bytes, values.prefix_bits), (None, Some(20)));
    let servers: Vec<IpAddr> = vec![[192, 0, 2, 53].into(), "2001:db8::53".parse().unwrap()];
    assert_eq!(values.dns_servers, Some(servers));
    assert_eq!(values.search_list, Some(Vec::new()));
    let both = settings("-a 192.0.2.9 -a 2001:db8::9 --no-tcp --no-ra 7");
    assert!(both.addresses.ipv4.is_some() && both.addresses.ipv6.is_some());
    assert_eq!(both.disabled, [Disabled::Tcp, Disabled::RouterAdvertisements]);
}

#[test]
fn invalid_values_and_combinations_are_errors_with_exit_code_1() {
    for (line, error) in [
        ("-m 67", "Invalid MTU: 67\n"),
        ("-m 65536", "Invalid MTU: 65536\n"),
        ("-n 255.0.255.0", "Invalid netmask: 255.0.255.0\n"),
        ("-n 33", "Invalid netmask: 33\n"),
        ("-a x", "Invalid address: x\n"),
        ("-a 0.0.0.0", "Invalid address: 0.0.0.0\n"),
        ("-a 192.0.2.1 -a 192.0.2.2", "Redundant address: 192.0.2.2\n"),
        ("-M 01:00:00:00:00:00", "Invalid MAC address: 01:00:00:00:00:00\n"),
        ("-I abcdefghijklmnop", "Invalid interface name: abcdefghijklmnop\n"),
        ("-t 80 -t none", "Port forwarding mode 'none' conflicts with previous mode\n"),
        ("-t 80,80", "Overlapping port specifier 80,80\n"),
        ("-t all", "Invalid port specifier all\n"),
        ("-T 127.0.0.1/80", "Invalid port specifier 127.0.0.1/80\n"),
        ("-d -q", "Either DEBUG or QUIET\n"),
        ("-e -l file", "Can't log to both file and stderr\n"),
        ("-4 -6", "Options ipv4-only and ipv6-only are mutually exclusive\n"),
        ("--userns /u --netns-only", "Both --userns and --netns-only given\n"),
        ("--netns /n 7", "Both --netns and PID or command given\n"),
        ("--ns-mac-addr 02:00:00:00:00:01 7", "Option --ns-mac-addr requires --config-net\n"),
        ("-F 2", "Invalid --fd: 2\n"),
    ] {
        assert_eq!(failure(PastaMode::Pasta, line), error, "{line}");
    }
    let both = failure(PastaMode::Passt, "-s /s -F 5");
    assert_eq!(both, "Options --socket and --fd are mutually exclusive\n");
    assert_eq!(failure(PastaMode::Passt, "x"), "Extra non-option argument: x\n");
    let unknown = failure(PastaMode::Passt, "--netns /n");
    assert!(unknown.starts_with("passt: unrecognized option '--netns'\nUsage: passt"), "{unknown}");
}

#[test]
fn the_help_has_every_option_of_its_program() {
    for (mode, own) in [(PastaMode::Pasta, &PASTA[..]), (PastaMode::Passt, &PASST[..])] {
        let Invocation::Text(help) = parse(mode, &arguments("--help")) else { panic!("no text") };
        assert_eq!(help.exit_code, 0);
        for option in COMMON.iter().chain(own) {
            let is_listed = help.stdout.contains(&format!("--{}", option.long));
            assert!(is_listed || matches!(option.long, "usage" | "fd"), "{}", option.long);
        }
    }
    let version = parse(PastaMode::Pasta, &arguments("--host-lo-to-ns-lo --version"));
    let Invocation::Text(version) = version else { panic!("no text") };
    assert!(version.stdout.starts_with("pasta 2023_03_09") && version.exit_code == 0);
}
