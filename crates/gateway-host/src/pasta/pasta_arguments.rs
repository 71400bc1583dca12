//! Arguments of pasta and passt.

use super::mode::PastaMode;
use super::port_specification::PortForwarding;
use super::texts;
use crate::command_line::{OptionName, Order, Word, split};
use crate::invocation::{ExitText, Invocation};
use crate::slirp4netns::hardware_address;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Guest to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PastaGuest {
    /// New namespaces in which the command runs; without words, the shell of the user.
    Command(Vec<OsString>),
    /// The namespaces of a process.
    Process(u32),
    /// The network namespace at a path.
    Path(PathBuf),
    /// A virtual machine that connects to a socket at this path, or at the first free default path.
    Listener(Option<PathBuf>),
    /// A virtual machine at an inherited descriptor.
    Descriptor(i32),
}

/// A value for each version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionPair {
    /// Value for IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// Value for IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

/// Settings of a gateway that is started as pasta or passt.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent flag of the command line"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastaSettings {
    /// Guest to connect.
    pub guest: PastaGuest,
    /// User namespace to enter (`--userns`).
    pub user_namespace: Option<PathBuf>,
    /// Whether no user namespace is entered or created.
    pub is_network_only: bool,
    /// Whether the gateway keeps running when the path of the namespace is deleted.
    pub keeps_running: bool,
    /// Whether the interface in the namespace is configured.
    pub is_configuring: bool,
    /// Name of the interface in the namespace. By default that of the host's interface.
    pub interface_name: Option<String>,
    /// Ethernet address of the interface in the namespace.
    pub guest_hardware_address: Option<[u8; 6]>,
    /// Ethernet address of the gateway.
    pub hardware_address: Option<[u8; 6]>,
    /// Whether the process stays in the foreground.
    pub is_foreground: bool,
    /// Whether only errors are logged.
    pub is_quiet: bool,
    /// Whether details are logged.
    pub is_debug: bool,
    /// Whether the log goes to standard error.
    pub logs_to_stderr: bool,
    /// File for the log.
    pub log_file: Option<PathBuf>,
    /// User, or user and group, to run as.
    pub run_as: Option<String>,
    /// File for a capture of the guest's packets.
    pub capture: Option<PathBuf>,
    /// File for the process ID, written before the foreground process exits.
    pub pid_file: Option<PathBuf>,
    /// MTU in bytes to announce and configure, or `None` to announce none.
    pub mtu_bytes: Option<u16>,
    /// Addresses of the guest. By default those of the host.
    pub addresses: VersionPair,
    /// Length of the guest's IPv4 prefix in bits.
    pub prefix_bits: Option<u8>,
    /// Gateways of the guest. By default those of the host.
    pub gateways: VersionPair,
    /// Interface of the host whose addresses and routes are used.
    pub host_interface: Option<String>,
    /// Sources of connections.
    pub outbound: VersionPair,
    /// Interface of IPv4 connections.
    pub outbound_interface4: Option<String>,
    /// Interface of IPv6 connections.
    pub outbound_interface6: Option<String>,
    /// DNS servers to announce; `None` for those of the host.
    pub dns_servers: Option<Vec<IpAddr>>,
    /// Search list to announce; `None` for that of the host.
    pub search_list: Option<Vec<String>>,
    /// Whether DNS servers and the search list are announced by DHCP, DHCPv6 and RAs.
    pub announces_dns: bool,
    /// Addresses at which DNS is forwarded.
    pub dns_forward: VersionPair,
    /// Addresses that lead to the loopback addresses of the host.
    pub host_loopback: VersionPair,
    /// Addresses that lead to the addresses of the host that the guest also has.
    pub host_addresses: VersionPair,
    /// Whether the gateway address leads to the loopback address of the host.
    pub maps_gateway: bool,
    /// Whether forwards from the host's loopback address lead to the guest's.
    pub maps_loopback: bool,
    /// Protocols that are off, each once.
    pub disabled: Vec<Disabled>,
    /// Whether the guest has IPv4.
    pub has_ipv4: bool,
    /// Whether the guest has IPv6.
    pub has_ipv6: bool,
    /// Whether the gateway exits when the virtual machine disconnects.
    pub is_one_off: bool,
    /// TCP ports of the host that lead to the guest.
    pub tcp_ports: PortForwarding,
    /// UDP ports of the host that lead to the guest.
    pub udp_ports: PortForwarding,
    /// TCP ports of the guest's loopback address that lead to the host's.
    pub guest_tcp_ports: PortForwarding,
    /// UDP ports of the guest's loopback address that lead to the host's.
    pub guest_udp_ports: PortForwarding,
}

/// A protocol that an option disables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    /// `--no-tcp`
    Tcp,
    /// `--no-udp`
    Udp,
    /// `--no-icmp`
    Icmp,
    /// `--no-dhcp`
    Dhcp,
    /// `--no-ndp`
    Ndp,
    /// `--no-dhcpv6`
    Dhcpv6,
    /// `--no-ra`
    RouterAdvertisements,
}

/// Parses the arguments after `argv[0]`.
#[must_use]
pub fn parse(mode: PastaMode, arguments: &[OsString]) -> Invocation<PastaSettings> {
    match parse_settings(mode, arguments) {
        Ok(settings) => Invocation::Run(settings),
        Err(text) => Invocation::Text(text),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Debug,
    Quiet,
    Foreground,
    Stderr,
    LogFile,
    LogSize,
    RunAs,
    Pcap,
    Pid,
    Mtu,
    Address,
    Netmask,
    MacAddr,
    Gateway,
    Interface,
    Outbound,
    OutboundIf4,
    OutboundIf6,
    Dns,
    Search,
    DnsForward,
    AnnounceDns(bool),
    AnnounceSearch,
    Disable(Disabled),
    NoMapGw,
    MapHostLoopback,
    MapGuestAddr,
    Ipv4Only,
    Ipv6Only,
    TcpPorts,
    UdpPorts,
    TcpNs,
    UdpNs,
    NsIfname,
    Userns,
    Netns,
    NetnsOnly,
    NoNetnsQuit,
    ConfigNet,
    NsMacAddr,
    HostLoToNsLo,
    Socket,
    Fd,
    OneOff,
    Help,
    Version,
}

const fn flag(option: Flag, short: Option<u8>, long: &'static str) -> OptionName<Flag> {
    OptionName { option, short, long, has_value: false }
}

const fn value(option: Flag, short: Option<u8>, long: &'static str) -> OptionName<Flag> {
    OptionName { option, short, long, has_value: true }
}

/// Options of both programs.
const COMMON: [OptionName<Flag>; 40] = [
    flag(Flag::Debug, Some(b'd'), "debug"),
    flag(Flag::Debug, None, "trace"),
    flag(Flag::Quiet, Some(b'q'), "quiet"),
    flag(Flag::Foreground, Some(b'f'), "foreground"),
    flag(Flag::Stderr, Some(b'e'), "stderr"),
    value(Flag::LogFile, Some(b'l'), "log-file"),
    value(Flag::LogSize, None, "log-size"),
    value(Flag::RunAs, None, "runas"),
    value(Flag::Pcap, Some(b'p'), "pcap"),
    value(Flag::Pid, Some(b'P'), "pid"),
    value(Flag::Mtu, Some(b'm'), "mtu"),
    value(Flag::Address, Some(b'a'), "address"),
    value(Flag::Netmask, Some(b'n'), "netmask"),
    value(Flag::MacAddr, Some(b'M'), "mac-addr"),
    value(Flag::Gateway, Some(b'g'), "gateway"),
    value(Flag::Interface, Some(b'i'), "interface"),
    value(Flag::Outbound, Some(b'o'), "outbound"),
    value(Flag::OutboundIf4, None, "outbound-if4"),
    value(Flag::OutboundIf6, None, "outbound-if6"),
    value(Flag::Dns, Some(b'D'), "dns"),
    value(Flag::Search, Some(b'S'), "search"),
    value(Flag::DnsForward, None, "dns-forward"),
    flag(Flag::Disable(Disabled::Tcp), None, "no-tcp"),
    flag(Flag::Disable(Disabled::Udp), None, "no-udp"),
    flag(Flag::Disable(Disabled::Icmp), None, "no-icmp"),
    flag(Flag::Disable(Disabled::Dhcp), None, "no-dhcp"),
    flag(Flag::Disable(Disabled::Ndp), None, "no-ndp"),
    flag(Flag::Disable(Disabled::Dhcpv6), None, "no-dhcpv6"),
    flag(Flag::Disable(Disabled::RouterAdvertisements), None, "no-ra"),
    flag(Flag::NoMapGw, None, "no-map-gw"),
    value(Flag::MapHostLoopback, None, "map-host-loopback"),
    value(Flag::MapGuestAddr, None, "map-guest-addr"),
    flag(Flag::Ipv4Only, Some(b'4'), "ipv4-only"),
    flag(Flag::Ipv6Only, Some(b'6'), "ipv6-only"),
    value(Flag::TcpPorts, Some(b't'), "tcp-ports"),
    value(Flag::UdpPorts, Some(b'u'), "udp-ports"),
    flag(Flag::Help, Some(b'h'), "help"),
    flag(Flag::Help, Some(b'?'), "usage"),
    flag(Flag::Version, None, "version"),
    value(Flag::Fd, Some(b'F'), "fd"),
];

const PASTA: [OptionName<Flag>; 12] = [
    value(Flag::TcpNs, Some(b'T'), "tcp-ns"),
    value(Flag::UdpNs, Some(b'U'), "udp-ns"),
    value(Flag::NsIfname, Some(b'I'), "ns-ifname"),
    value(Flag::Userns, None, "userns"),
    value(Flag::Netns, None, "netns"),
    flag(Flag::NetnsOnly, None, "netns-only"),
    flag(Flag::NoNetnsQuit, None, "no-netns-quit"),
    flag(Flag::ConfigNet, None, "config-net"),
    value(Flag::NsMacAddr, None, "ns-mac-addr"),
    flag(Flag::HostLoToNsLo, None, "host-lo-to-ns-lo"),
    flag(Flag::AnnounceDns(true), None, "dhcp-dns"),
    flag(Flag::AnnounceSearch, None, "dhcp-search"),
];

const PASST: [OptionName<Flag>; 4] = [
    value(Flag::Socket, Some(b's'), "socket"),
    flag(Flag::OneOff, Some(b'1'), "one-off"),
    flag(Flag::AnnounceDns(false), None, "no-dhcp-dns"),
    flag(Flag::AnnounceSearch, None, "no-dhcp-search"),
];

/// Values of the options before they are combined.
struct Draft {
    settings: PastaSettings,
    mode: PastaMode,
    netns: Option<PathBuf>,
    socket: Option<PathBuf>,
    descriptor: Option<i32>,
}

fn parse_settings(mode: PastaMode, arguments: &[OsString]) -> Result<PastaSettings, ExitText> {
    let own: &[_] = match mode {
        PastaMode::Pasta => &PASTA,
        PastaMode::Passt => &PASST,
    };
    let options = [&COMMON[..], own].concat();
    let failure = |error: String| ExitText::failure(format!("{error}\n"));
    let usage = |error: String| {
        failure(format!("{}: {error}\n{}", mode.name(), texts::help(mode).trim_end()))
    };
    let words = split(arguments, &options, Order::First).map_err(usage)?;
    let settings = defaults(mode);
    let mut draft = Draft { settings, mode, netns: None, socket: None, descriptor: None };
    let mut operands = Vec::new();
    for word in words {
        match word {
            // pasta exits with 1 here, but callers expect 0 of later versions.
            Word::Option(Flag::Help, _) => return Err(ExitText::success(texts::help(mode))),
            Word::Option(Flag::Version, _) => return Err(ExitText::success(texts::version(mode))),
            Word::Option(flag, value) => {
                draft.apply(flag, value.unwrap_or_default().as_os_str()).map_err(failure)?;
            }
            Word::Operand(operand) => operands.push(operand),
        }
    }
    draft.finish(operands).map_err(failure)
}

fn defaults(mode: PastaMode) -> PastaSettings {
    PastaSettings {
        guest: PastaGuest::Command(Vec::new()),
        user_namespace: None,
        is_network_only: false,
        keeps_running: false,
        is_configuring: false,
        interface_name: None,
        guest_hardware_address: None,
        hardware_address: None,
        is_foreground: false,
        is_quiet: false,
        is_debug: false,
        logs_to_stderr: false,
        log_file: None,
        run_as: None,
        capture: None,
        pid_file: None,
        mtu_bytes: Some(65_520),
        addresses: VersionPair::default(),
        prefix_bits: None,
        gateways: VersionPair::default(),
        host_interface: None,
        outbound: VersionPair::default(),
        outbound_interface4: None,
        outbound_interface6: None,
        dns_servers: None,
        search_list: None,
        announces_dns: mode == PastaMode::Passt,
        dns_forward: VersionPair::default(),
        host_loopback: VersionPair::default(),
        host_addresses: VersionPair::default(),
        maps_gateway: true,
        maps_loopback: false,
        disabled: Vec::new(),
        has_ipv4: true,
        has_ipv6: true,
        is_one_off: false,
        tcp_ports: PortForwarding::Unset,
        udp_ports: PortForwarding::Unset,
        guest_tcp_ports: PortForwarding::Unset,
        guest_udp_ports: PortForwarding::Unset,
    }
}

impl Draft {
    fn apply(&mut self, flag: Flag, value: &OsStr) -> Result<(), String> {
        let settings = &mut self.settings;
        match flag {
            Flag::Debug => settings.is_debug = true,
            Flag::Quiet => settings.is_quiet = true,
            Flag::Foreground => settings.is_foreground = true,
            Flag::Stderr => settings.logs_to_stderr = true,
            Flag::LogFile => settings.log_file = Some(value.into()),
            Flag::Pcap => settings.capture = Some(value.into()),
            Flag::Pid => settings.pid_file = Some(value.into()),
            Flag::AnnounceDns(is_announced) => settings.announces_dns = is_announced,
            Flag::Disable(protocol) => settings.disabled.push(protocol),
            Flag::NoMapGw => settings.maps_gateway = false,
            Flag::Ipv4Only => settings.has_ipv6 = false,
            Flag::Ipv6Only => settings.has_ipv4 = false,
            Flag::Userns => settings.user_namespace = Some(value.into()),
            Flag::Netns => {
                // A name without a slash is one of `ip netns`.
                let is_path = value.as_encoded_bytes().contains(&b'/');
                let directory = if is_path { Path::new("") } else { Path::new("/run/netns") };
                self.netns = Some(directory.join(value));
            }
            Flag::NetnsOnly => settings.is_network_only = true,
            Flag::NoNetnsQuit => settings.keeps_running = true,
            Flag::ConfigNet => settings.is_configuring = true,
            Flag::HostLoToNsLo => settings.maps_loopback = true,
            Flag::Socket => self.socket = Some(value.into()),
            Flag::OneOff => settings.is_one_off = true,
            Flag::AnnounceSearch | Flag::Help | Flag::Version => {}
            _ => return self.apply_text(flag, value.to_str().unwrap_or_default()),
        }
        Ok(())
    }

    /// Applies an option whose value is a text.
    fn apply_text(&mut self, flag: Flag, text: &str) -> Result<(), String> {
        let is_pasta = self.mode == PastaMode::Pasta;
        let settings = &mut self.settings;
        let forwarding = match flag {
            Flag::TcpPorts => Some((&mut settings.tcp_ports, true)),
            Flag::UdpPorts => Some((&mut settings.udp_ports, true)),
            Flag::TcpNs => Some((&mut settings.guest_tcp_ports, false)),
            Flag::UdpNs => Some((&mut settings.guest_udp_ports, false)),
            _ => None,
        };
        if let Some((forwarding, can_bind)) = forwarding {
            return forwarding.add(text, can_bind, is_pasta).map_err(|error| error.to_string());
        }
        match flag {
            Flag::LogSize => {
                text.parse::<u64>().map_err(|_| format!("Invalid --log-size: {text}"))?;
            }
            Flag::RunAs => settings.run_as = Some(text.into()),
            Flag::Mtu => settings.mtu_bytes = mtu(text)?,
            Flag::Address => settings.addresses.set("address", text)?,
            Flag::Gateway => settings.gateways.set("gateway address", text)?,
            Flag::Outbound => settings.outbound.set("outbound address", text)?,
            Flag::DnsForward => settings.dns_forward.set("DNS forwarding address", text)?,
            Flag::MapHostLoopback if text == "none" => settings.maps_gateway = false,
            Flag::MapHostLoopback => settings.host_loopback.set("address", text)?,
            Flag::MapGuestAddr if text == "none" => {}
            Flag::MapGuestAddr => settings.host_addresses.set("address", text)?,
            Flag::Netmask => settings.prefix_bits = Some(netmask(text)?),
            Flag::MacAddr => settings.hardware_address = Some(ethernet(text)?),
            Flag::NsMacAddr => settings.guest_hardware_address = Some(ethernet(text)?),
            Flag::Interface => settings.host_interface = Some(interface(text)?),
            Flag::OutboundIf4 => settings.outbound_interface4 = Some(interface(text)?),
            Flag::OutboundIf6 => settings.outbound_interface6 = Some(interface(text)?),
            Flag::NsIfname => settings.interface_name = Some(interface(text)?),
            Flag::Dns => add_dns(&mut settings.dns_servers, text)?,
            Flag::Search if text.is_empty() || text == "none" => {
                settings.search_list = Some(Vec::new());
            }
            Flag::Search => {
                let names = text.split_ascii_whitespace().map(str::to_owned);
                settings.search_list.get_or_insert_default().extend(names);
            }
            Flag::Fd => {
                let number = text.parse().ok().filter(|number| *number > 2);
                self.descriptor = Some(number.ok_or_else(|| format!("Invalid --fd: {text}"))?);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self, operands: Vec<OsString>) -> Result<PastaSettings, String> {
        self.check()?;
        let mut settings = self.settings;
        settings.guest = match self.mode {
            PastaMode::Passt => {
                if let Some(operand) = operands.first() {
                    return Err(format!("Extra non-option argument: {}", operand.display()));
                }
                // A socket that is passed is that of one virtual machine.
                settings.is_one_off |= self.descriptor.is_some();
                match self.descriptor {
                    Some(number) => PastaGuest::Descriptor(number),
                    None => PastaGuest::Listener(self.socket.take()),
                }
            }
            PastaMode::Pasta => match (self.netns.take(), operands.as_slice()) {
                (Some(path), []) => {
                    settings.is_network_only |= settings.user_namespace.is_none();
                    PastaGuest::Path(path)
                }
                (Some(_), _) => return Err("Both --netns and PID or command given".into()),
                (None, [id]) if let Some(id) = process_id(id) => PastaGuest::Process(id),
                (None, _) => {
                    settings.is_foreground = true;
                    PastaGuest::Command(operands)
                }
            },
        };
        let is_auto = self.mode == PastaMode::Pasta;
        let default = || if is_auto { PortForwarding::Auto } else { PortForwarding::None };
        let [tcp, udp] = [&mut settings.tcp_ports, &mut settings.udp_ports];
        // The UDP ports follow the TCP ports unless given.
        if *udp == PortForwarding::Unset {
            *udp = if *tcp == PortForwarding::Unset { default() } else { tcp.clone() };
        }
        for forwarding in [tcp, &mut settings.guest_tcp_ports, &mut settings.guest_udp_ports] {
            if *forwarding == PortForwarding::Unset {
                *forwarding = default();
            }
        }
        Ok(settings)
    }

    /// Rejects options that exclude each other.
    fn check(&self) -> Result<(), String> {
        let settings = &self.settings;
        let exclusions = [
            (settings.is_debug && settings.is_quiet, "Either DEBUG or QUIET"),
            (
                settings.logs_to_stderr && settings.log_file.is_some(),
                "Can't log to both file and stderr",
            ),
            (
                !settings.has_ipv4 && !settings.has_ipv6,
                "Options ipv4-only and ipv6-only are mutually exclusive",
            ),
            (
                self.socket.is_some() && self.descriptor.is_some(),
                "Options --socket and --fd are mutually exclusive",
            ),
            (
                settings.user_namespace.is_some() && settings.is_network_only,
                "Both --userns and --netns-only given",
            ),
            (
                settings.guest_hardware_address.is_some() && !settings.is_configuring,
                "Option --ns-mac-addr requires --config-net",
            ),
        ];
        match exclusions.iter().find(|(is_excluded, _)| *is_excluded) {
            Some((_, error)) => Err((*error).into()),
            None => Ok(()),
        }
    }
}

impl VersionPair {
    /// Sets the value of the version of the address in `text`, which may be set once.
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let is_new = match text.parse() {
            Ok(IpAddr::V4(address)) if !address.is_unspecified() => {
                self.ipv4.replace(address).is_none()
            }
            Ok(IpAddr::V6(address)) if !address.is_unspecified() => {
                self.ipv6.replace(address).is_none()
            }
            _ => return Err(format!("Invalid {name}: {text}")),
        };
        if is_new { Ok(()) } else { Err(format!("Redundant {name}: {text}")) }
    }
}

fn mtu(text: &str) -> Result<Option<u16>, String> {
    let mtu: u16 = text.parse().map_err(|_| format!("Invalid MTU: {text}"))?;
    match mtu {
        0 => Ok(None),
        MTU_MIN_BYTES.. => Ok(Some(mtu)),
        _ => Err(format!("Invalid MTU: {text}")),
    }
}

fn netmask(text: &str) -> Result<u8, String> {
    let bits = match text.parse::<Ipv4Addr>() {
        Ok(mask) => {
            let bits = mask.to_bits().leading_ones();
            let is_prefix = mask.to_bits().checked_shl(bits).unwrap_or(0) == 0;
            u8::try_from(bits).ok().filter(|_| is_prefix)
        }
        Err(_) => text.parse().ok(),
    };
    bits.filter(|bits| (1..=32).contains(bits)).ok_or_else(|| format!("Invalid netmask: {text}"))
}

fn ethernet(text: &str) -> Result<[u8; 6], String> {
    // The address of one interface: not a group.
    let address = hardware_address(text).filter(|[first, ..]| first & 1 == 0);
    address.ok_or_else(|| format!("Invalid MAC address: {text}"))
}

fn interface(text: &str) -> Result<String, String> {
    let is_valid = (1..=INTERFACE_NAME_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if is_valid { Ok(text.into()) } else { Err(format!("Invalid interface name: {text}")) }
}

fn add_dns(servers: &mut Option<Vec<IpAddr>>, text: &str) -> Result<(), String> {
    if text.is_empty() || text == "none" {
        *servers = Some(Vec::new());
        return Ok(());
    }
    let server = text.parse().map_err(|_| format!("Cannot use DNS address {text}"))?;
    servers.get_or_insert_default().push(server);
    Ok(())
}

fn process_id(text: &OsStr) -> Option<u32> {
    let text = text.to_str()?;
    text.parse().ok().filter(|id| *id > 0 && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Minimum MTU of IPv4 (RFC 791 §3.2).
const MTU_MIN_BYTES: u16 = 68;
const INTERFACE_NAME_MAX: usize = 15;

#[cfg(test)]
#[path = "pasta_arguments_tests.rs"]
mod tests;
