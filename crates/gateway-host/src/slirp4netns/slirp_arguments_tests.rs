//! Tests with the command lines that podman 4.3.1 and rootlesskit 1.1.0 pass.

use super::*;

fn arguments(text: &str) -> Vec<OsString> {
    text.split_ascii_whitespace().map(Into::into).collect()
}

fn settings(text: &str) -> SlirpSettings {
    match parse(&arguments(text)) {
        Invocation::Run(settings) => settings,
        Invocation::Text(text) => panic!("{text:?}"),
    }
}

fn failure(text: &str) -> String {
    match parse(&arguments(text)) {
        Invocation::Text(ExitText { stdout, stderr, exit_code: 1 }) => {
            assert_eq!(stdout, "");
            stderr
        }
        other => panic!("{other:?}"),
    }
}

fn of_process(id: u32) -> SlirpSettings {
    SlirpSettings { target: SlirpTarget::Process(id), tap_name: "tap0".into(), ..defaults() }
}

fn at_path(path: &str) -> SlirpSettings {
    SlirpSettings { target: SlirpTarget::Path(path.into()), tap_name: "tap0".into(), ..defaults() }
}

#[test]
fn the_observed_command_lines_are_parsed() {
    let podman = SlirpSettings {
        has_host_loopback: false,
        mtu_bytes: 65_520,
        has_ipv6: true,
        is_configuring: true,
        exit_fd: Some(3),
        ready_fd: Some(4),
        is_sandboxed: true,
        ..at_path("/run/user/1000/netns/netns-1")
    };
    let line = "--disable-host-loopback --mtu=65520 --enable-sandbox --enable-seccomp \
                --enable-ipv6 -c -e 3 -r 4";
    let path = "--netns-type=path /run/user/1000/netns/netns-1 tap0";
    assert_eq!(settings(&format!("{line} {path}")), podman);
    let with_socket = settings(&format!("{line} --api-socket /run/libpod/tmp/0.net {path}"));
    let api_socket = Some("/run/libpod/tmp/0.net".into());
    assert_eq!(with_socket, SlirpSettings { api_socket, ..podman });
    let rootlesskit = SlirpSettings {
        mtu_bytes: 65_520,
        ready_fd: Some(3),
        has_host_loopback: false,
        ..of_process(4711)
    };
    let line = "--mtu 65520 -r 3 --disable-host-loopback 4711 tap0";
    assert_eq!(settings(line), rootlesskit);
    let all_options = SlirpSettings {
        mtu_bytes: 1500,
        ready_fd: Some(3),
        network: SlirpNetwork::parse("10.6.0.0/24").unwrap(),
        api_socket: Some("/tmp/rk/.s4nn.sock".into()),
        has_ipv6: true,
        is_sandboxed: true,
        ..of_process(4711)
    };
    let line = "--mtu 1500 -r 3 --cidr 10.6.0.0/24 --api-socket /tmp/rk/.s4nn.sock \
                --enable-sandbox --enable-seccomp --enable-ipv6 4711 tap0";
    assert_eq!(settings(line), all_options);
}

#[test]
fn the_default_is_a_tap_that_the_caller_configures() {
    let settings = settings("1 tap0");
    assert_eq!(settings, of_process(1));
    assert_eq!(settings.guest_setup(), None);
    assert_eq!((settings.mtu_bytes, settings.network), (1500, SlirpNetwork::DEFAULT));
}

#[test]
fn sources_of_connections_are_addresses_or_interfaces() {
    let settings = settings("--outbound-addr=192.0.2.1 --outbound-addr6=eth0 1 tap0");
    let address = OutboundSource::Address("192.0.2.1".parse().unwrap());
    assert_eq!(settings.outbound4, Some(address));
    assert_eq!(settings.outbound6, Some(OutboundSource::Interface("eth0".into())));
}

#[test]
fn a_configured_guest_has_the_hundredth_address() {
    let settings = settings("-c --macaddress 02:00:00:00:00:0a --cidr 10.6.0.0/16 1 tap0");
    let setup = settings.guest_setup().unwrap();
    assert_eq!(setup.hardware_address, Some([2, 0, 0, 0, 0, 10]));
    assert_eq!(setup.mtu_bytes, Some(1500));
    assert_eq!(setup.addresses, [("10.6.0.100".parse().unwrap(), 16)]);
    assert_eq!(setup.gateways, ["10.6.0.2".parse::<IpAddr>().unwrap()]);
}

#[test]
fn invalid_values_are_usage_errors_with_exit_code_1() {
    for (line, error) in [
        ("", ""),
        ("1", ""),
        ("x tap0", "PID must be a positive integer\n"),
        ("0 tap0", "PID must be a positive integer\n"),
        ("-m 0 1 tap0", "MTU must be a positive integer (< 65522)\n"),
        ("-m 65522 1 tap0", "MTU must be a positive integer (< 65522)\n"),
        ("--cidr 10.0.2.0/26 1 tap0", "prefix length needs to be 1-25\n"),
        ("--cidr 10.0.2.0 1 tap0", "invalid CIDR\n"),
        ("-r x 1 tap0", "ready-fd must be a non-negative integer\n"),
        ("-e -1 1 tap0", "exit-fd must be a non-negative integer\n"),
        ("--netns-type=foo 1 tap0", "--netns-type must be either 'path' or 'pid'\n"),
        ("--outbound-addr=::1 1 tap0", "outbound address ::1 has the wrong IP version\n"),
        ("--macaddress=02:00 -c 1 tap0", "MAC address must be like 02:00:00:00:00:01\n"),
        (
            "--macaddress=02:00:00:00:00:01 1 tap0",
            "--macaddress cannot be specified without --configure or -c\n",
        ),
        ("--target-type=bess 1 tap0", "--target-type must be \"netns\"\n"),
        ("--bogus 1 tap0", "slirp4netns: unrecognized option '--bogus'\n"),
        ("--mtu", "slirp4netns: option '--mtu' requires an argument\n"),
    ] {
        assert_eq!(failure(line), format!("{error}{}", texts::HELP), "{line}");
    }
    let host_bits = failure("--cidr 10.0.2.1/24 1 tap0");
    assert!(host_bits.starts_with("CIDR needs to be a network address"), "{host_bits}");
    let path = "x".repeat(SOCKET_PATH_LEN);
    assert!(failure(&format!("-a {path} 1 tap0")).starts_with("API socket path"));
}

#[test]
fn old_options_and_a_third_operand_cause_warnings() {
    let settings = settings("--no-host-loopback --create-sandbox 1 tap0 more");
    assert!(!settings.has_host_loopback);
    assert_eq!(settings.warnings.len(), 3);
}

#[test]
fn the_help_has_every_option_for_which_callers_search() {
    let Invocation::Text(help) = parse(&arguments("--help")) else { panic!("no text") };
    assert_eq!((help.stderr.as_str(), help.exit_code), ("", 0));
    for option in [
        "--disable-host-loopback",
        "--mtu",
        "--enable-sandbox",
        "--enable-seccomp",
        "--cidr",
        "--outbound-addr",
        "--enable-ipv6",
        "--netns-type",
        "--api-socket",
        "--userns-path",
        "--target-type",
    ] {
        assert!(help.stdout.contains(option), "{option}");
    }
    for option in FLAGS {
        let is_old = matches!(option.option, Flag::NoHostLoopback | Flag::CreateSandbox);
        assert_eq!(help.stdout.contains(&format!("--{}", option.long)), !is_old);
    }
}

#[test]
fn the_version_begins_with_the_version_of_slirp4netns() {
    let Invocation::Text(version) = parse(&arguments("--version")) else { panic!("no text") };
    let lines: Vec<_> = version.stdout.lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0], "slirp4netns version 1.2.0");
    assert!(lines[1].starts_with("commit: plumb-"));
    assert_eq!(version.exit_code, 0);
}

#[test]
fn the_start_text_has_the_addresses() {
    let text = super::super::start_text(&settings("-a /tmp/s 1 tap0"));
    let expected = "Starting slirp
* MTU:             1500
* Network:         10.0.2.0
* Netmask:         255.255.255.0
* Gateway:         10.0.2.2
* DNS:             10.0.2.3
* DHCP begin:      10.0.2.15
* DHCP end:        10.0.2.30
* Recommended IP:  10.0.2.100
* API Socket:      /tmp/s
WARNING: 127.0.0.1:* on the host is accessible as 10.0.2.2 (set --disable-host-loopback to \
                    prohibit connecting to 127.0.0.1:*)
";
    assert_eq!(text, expected);
}
