//! Arguments of slirp4netns 1.2.0.

use super::texts;
use crate::command_line::{OptionName, Order, Word, split};
use crate::invocation::{ExitText, Invocation};
use os::tun_in_namespace::TunSetup;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Settings of a gateway that is started as slirp4netns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlirpSettings {
    /// Namespace of the guest.
    pub target: SlirpTarget,
    /// User namespace of `--userns-path`. Without it, that of the process is entered, and none for
    /// a path.
    pub user_namespace: Option<PathBuf>,
    /// Name of the TAP.
    pub tap_name: String,
    /// Whether the interface is configured. Otherwise the TAP exists or is created, and the caller
    /// configures it.
    pub is_configuring: bool,
    /// Ethernet address of the guest.
    pub hardware_address: Option<[u8; 6]>,
    /// MTU in bytes, 1 to 65,521.
    pub mtu_bytes: u16,
    /// IPv4 network of the guest.
    pub network: SlirpNetwork,
    /// Whether the guest has IPv6, in fd00::/64.
    pub has_ipv6: bool,
    /// Whether the gateway address leads to the loopback address of the host.
    pub has_host_loopback: bool,
    /// Whether DNS is forwarded at the third address of the network.
    pub has_dns: bool,
    /// Number of the inherited descriptor whose event ends the gateway.
    pub exit_fd: Option<i32>,
    /// Number of the inherited descriptor that is notified when the gateway is ready.
    pub ready_fd: Option<i32>,
    /// Path of the API socket, shorter than 108 bytes.
    pub api_socket: Option<PathBuf>,
    /// Whether only /etc and /run are left of the file system, read-only.
    pub is_sandboxed: bool,
    /// Source of IPv4 sockets.
    pub outbound4: Option<OutboundSource>,
    /// Source of IPv6 sockets.
    pub outbound6: Option<OutboundSource>,
    /// Warnings to print on standard error, each a line without its end.
    pub warnings: Vec<String>,
}

/// Namespace of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlirpTarget {
    /// The network namespace of a process.
    Process(u32),
    /// The network namespace at a path.
    Path(PathBuf),
}

/// Source of the sockets to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboundSource {
    /// An address of the host.
    Address(IpAddr),
    /// An interface of the host.
    Interface(String),
}

/// The IPv4 network of a guest, with the addresses that slirp4netns assigns in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlirpNetwork {
    address: Ipv4Addr,
    prefix_bits: u8,
}

impl SlirpNetwork {
    /// The network 10.0.2.0/24.
    pub const DEFAULT: Self = Self { address: Ipv4Addr::new(10, 0, 2, 0), prefix_bits: 24 };
    /// The IPv6 prefix of every guest, with 64 bits.
    pub const IPV6_PREFIX: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);

    /// Parses a network like `10.0.2.0/24`, with a prefix of 1 to 25 bits.
    ///
    /// # Errors
    ///
    /// Returns the text for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = text.split_once('/').ok_or("invalid CIDR")?;
        let address: Ipv4Addr = address.parse().map_err(|_| "invalid CIDR")?;
        let prefix_bits = prefix.parse().ok().filter(|bits| (1..=25).contains(bits));
        let prefix_bits: u8 = prefix_bits.ok_or("prefix length needs to be 1-25")?;
        let network = Self { address, prefix_bits };
        if address.to_bits() & !network.netmask().to_bits() != 0 {
            return Err(format!(
                "CIDR needs to be a network address like 10.0.2.0/24, not like {text}"
            ));
        }
        Ok(network)
    }

    /// Returns the address of the network.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// Returns the length of the prefix in bits.
    #[must_use]
    pub fn prefix_bits(self) -> u8 {
        self.prefix_bits
    }

    /// Returns the mask of the prefix.
    #[must_use]
    pub fn netmask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(self.prefix_bits)).unwrap_or(0))
    }

    /// Returns the address of the gateway, which stands for the host.
    #[must_use]
    pub fn gateway(self) -> Ipv4Addr {
        self.host(2)
    }

    /// Returns the address at which DNS is forwarded.
    #[must_use]
    pub fn dns(self) -> Ipv4Addr {
        self.host(3)
    }

    /// Returns the first address of the DHCP server.
    #[must_use]
    pub fn dhcp_first(self) -> Ipv4Addr {
        self.host(15)
    }

    /// Returns the last address of the DHCP server.
    #[must_use]
    pub fn dhcp_last(self) -> Ipv4Addr {
        self.host(30)
    }

    /// Returns the address of the guest if the gateway or its caller configures it.
    #[must_use]
    pub fn guest(self) -> Ipv4Addr {
        self.host(100)
    }

    fn host(self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | number)
    }
}

impl SlirpSettings {
    /// Returns the configuration of the interface, or `None` if the caller configures it. IPv6 is
    /// configured by router advertisements.
    #[must_use]
    pub fn guest_setup(&self) -> Option<TunSetup> {
        self.is_configuring.then(|| TunSetup {
            hardware_address: self.hardware_address,
            mtu_bytes: Some(self.mtu_bytes),
            addresses: vec![(self.network.guest().into(), self.network.prefix_bits)],
            gateways: vec![self.network.gateway().into()],
        })
    }
}

/// Parses the arguments after `argv[0]`.
#[must_use]
pub fn parse(arguments: &[OsString]) -> Invocation<SlirpSettings> {
    match parse_settings(arguments) {
        Ok(settings) => Invocation::Run(settings),
        Err(text) => Invocation::Text(text),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Configure,
    ExitFd,
    ReadyFd,
    Mtu,
    EnableIpv6,
    ApiSocket,
    Cidr,
    DisableHostLoopback,
    NoHostLoopback,
    NetnsType,
    UsernsPath,
    EnableSandbox,
    CreateSandbox,
    EnableSeccomp,
    OutboundAddr,
    OutboundAddr6,
    DisableDns,
    MacAddress,
    TargetType,
    Help,
    Version,
}

const FLAGS: [OptionName<Flag>; 21] = {
    const fn flag(option: Flag, short: Option<u8>, long: &'static str) -> OptionName<Flag> {
        OptionName { option, short, long, has_value: false }
    }
    const fn value(option: Flag, short: Option<u8>, long: &'static str) -> OptionName<Flag> {
        OptionName { option, short, long, has_value: true }
    }
    [
        flag(Flag::Configure, Some(b'c'), "configure"),
        value(Flag::ExitFd, Some(b'e'), "exit-fd"),
        value(Flag::ReadyFd, Some(b'r'), "ready-fd"),
        value(Flag::Mtu, Some(b'm'), "mtu"),
        flag(Flag::EnableIpv6, Some(b'6'), "enable-ipv6"),
        value(Flag::ApiSocket, Some(b'a'), "api-socket"),
        value(Flag::Cidr, None, "cidr"),
        flag(Flag::DisableHostLoopback, None, "disable-host-loopback"),
        flag(Flag::NoHostLoopback, None, "no-host-loopback"),
        value(Flag::NetnsType, None, "netns-type"),
        value(Flag::UsernsPath, None, "userns-path"),
        flag(Flag::EnableSandbox, None, "enable-sandbox"),
        flag(Flag::CreateSandbox, None, "create-sandbox"),
        flag(Flag::EnableSeccomp, None, "enable-seccomp"),
        value(Flag::OutboundAddr, None, "outbound-addr"),
        value(Flag::OutboundAddr6, None, "outbound-addr6"),
        flag(Flag::DisableDns, None, "disable-dns"),
        value(Flag::MacAddress, None, "macaddress"),
        value(Flag::TargetType, None, "target-type"),
        flag(Flag::Help, Some(b'h'), "help"),
        flag(Flag::Version, Some(b'v'), "version"),
    ]
};

/// Values of the options before they are combined.
struct Draft {
    settings: SlirpSettings,
    is_path: bool,
}

fn parse_settings(arguments: &[OsString]) -> Result<SlirpSettings, ExitText> {
    let words = split(arguments, &FLAGS, Order::Any)
        .map_err(|error| usage(&format!("slirp4netns: {error}")))?;
    let mut draft = Draft { settings: defaults(), is_path: false };
    let mut operands = Vec::new();
    for word in words {
        match word {
            Word::Option(Flag::Help, _) => return Err(ExitText::success(texts::HELP)),
            Word::Option(Flag::Version, _) => return Err(ExitText::success(texts::VERSION)),
            Word::Option(flag, value) => {
                draft.apply(flag, &value.unwrap_or_default()).map_err(|error| usage(&error))?;
            }
            Word::Operand(operand) => operands.push(operand),
        }
    }
    draft.finish(&operands).map_err(|error| usage(&error))
}

fn defaults() -> SlirpSettings {
    SlirpSettings {
        target: SlirpTarget::Process(0),
        user_namespace: None,
        tap_name: String::new(),
        is_configuring: false,
        hardware_address: None,
        mtu_bytes: 1500,
        network: SlirpNetwork::DEFAULT,
        has_ipv6: false,
        has_host_loopback: true,
        has_dns: true,
        exit_fd: None,
        ready_fd: None,
        api_socket: None,
        is_sandboxed: false,
        outbound4: None,
        outbound6: None,
        warnings: Vec::new(),
    }
}

impl Draft {
    fn apply(&mut self, flag: Flag, value: &OsStr) -> Result<(), String> {
        let settings = &mut self.settings;
        let text = value.to_str().unwrap_or_default();
        match flag {
            Flag::Configure => settings.is_configuring = true,
            Flag::ExitFd => settings.exit_fd = Some(descriptor("exit-fd", text)?),
            Flag::ReadyFd => settings.ready_fd = Some(descriptor("ready-fd", text)?),
            Flag::Mtu => {
                let mtu = text.parse().ok().filter(|mtu| (1..=MTU_MAX_BYTES).contains(mtu));
                settings.mtu_bytes = mtu.ok_or("MTU must be a positive integer (< 65522)")?;
            }
            Flag::EnableIpv6 => settings.has_ipv6 = true,
            Flag::ApiSocket if value.len() >= SOCKET_PATH_LEN => {
                return Err(format!("API socket path must be shorter than {SOCKET_PATH_LEN}"));
            }
            Flag::ApiSocket => settings.api_socket = Some(value.into()),
            Flag::Cidr => settings.network = SlirpNetwork::parse(text)?,
            Flag::DisableHostLoopback => settings.has_host_loopback = false,
            Flag::NoHostLoopback => {
                settings.has_host_loopback = false;
                settings.warnings.push(
                    "WARNING: --no-host-loopback is deprecated, use --disable-host-loopback".into(),
                );
            }
            Flag::NetnsType => {
                self.is_path = match text {
                    "pid" => false,
                    "path" => true,
                    _ => return Err("--netns-type must be either 'path' or 'pid'".into()),
                }
            }
            Flag::UsernsPath => settings.user_namespace = Some(value.into()),
            Flag::EnableSeccomp | Flag::Help | Flag::Version => {}
            Flag::EnableSandbox => settings.is_sandboxed = true,
            Flag::CreateSandbox => {
                settings.is_sandboxed = true;
                let warning = "WARNING: --create-sandbox is deprecated, use --enable-sandbox";
                settings.warnings.push(warning.into());
            }
            Flag::OutboundAddr => settings.outbound4 = Some(outbound(text, IpAddr::is_ipv4)?),
            Flag::OutboundAddr6 => settings.outbound6 = Some(outbound(text, IpAddr::is_ipv6)?),
            Flag::DisableDns => settings.has_dns = false,
            Flag::MacAddress => {
                let address =
                    hardware_address(text).ok_or("MAC address must be like 02:00:00:00:00:01")?;
                settings.hardware_address = Some(address);
            }
            Flag::TargetType if text == "netns" => {}
            Flag::TargetType => return Err("--target-type must be \"netns\"".into()),
        }
        Ok(())
    }

    fn finish(self, operands: &[OsString]) -> Result<SlirpSettings, String> {
        let Self { mut settings, is_path } = self;
        let [target, tap_name, extra @ ..] = operands else { return Err(String::new()) };
        settings.target = if is_path {
            SlirpTarget::Path(target.into())
        } else {
            let id = target.to_str().and_then(|text| text.parse().ok()).filter(|id| *id > 0);
            SlirpTarget::Process(id.ok_or("PID must be a positive integer")?)
        };
        let tap_name = tap_name.to_str().ok_or("TAPNAME must be text")?;
        tap_name.clone_into(&mut settings.tap_name);
        if settings.hardware_address.is_some() && !settings.is_configuring {
            return Err("--macaddress cannot be specified without --configure or -c".into());
        }
        if !extra.is_empty() {
            settings.warnings.push("WARNING: too many arguments".into());
        }
        Ok(settings)
    }
}

fn usage(error: &str) -> ExitText {
    let separator = if error.is_empty() { "" } else { "\n" };
    ExitText::failure(format!("{error}{separator}{}", texts::HELP))
}

fn descriptor(name: &str, text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number: &i32| *number >= 0);
    number.ok_or_else(|| format!("{name} must be a non-negative integer"))
}

fn outbound(text: &str, is_right: fn(&IpAddr) -> bool) -> Result<OutboundSource, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if is_right(&address) => Ok(OutboundSource::Address(address)),
        Ok(address) => Err(format!("outbound address {address} has the wrong IP version")),
        Err(_) if text.is_empty() => {
            Err("outbound address must be an address or an interface".into())
        }
        Err(_) => Ok(OutboundSource::Interface(text.into())),
    }
}

/// Parses an Ethernet address of six octets in hexadecimal with colons.
pub(crate) fn hardware_address(text: &str) -> Option<[u8; 6]> {
    let octets = text.split(':').map(|octet| {
        let is_valid = (1..=2).contains(&octet.len()) && !octet.starts_with('+');
        u8::from_str_radix(octet, 16).ok().filter(|_| is_valid)
    });
    octets.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// Maximum MTU in bytes.
const MTU_MAX_BYTES: u16 = 65_521;
/// Size of `sun_path` of unix(7) in bytes.
const SOCKET_PATH_LEN: usize = 108;

#[cfg(test)]
#[path = "slirp_arguments_tests.rs"]
mod tests;
