//! Resources of the machine that a configuration needs: addresses, ports and devices.

use super::configuration_loader::ConfigurationLoader;
use super::listen_addresses::ListenAddresses;
use super::listener::listen_error;
use anyhow::{Result, bail};
use os::port_owner::{self, PortProtocol};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

/// Checks the addresses, ports and devices of all servers. Returns warnings: a port may be used by the
/// server that this configuration will be loaded into, a port below 1024 may need another user, and a
/// device may be connected later.
///
/// # Errors
///
/// Returns an error if a setting is invalid, if an address is not an address of this machine, or if a
/// program other than the server `server_pid` uses a port.
pub(super) fn check(
    loader: &ConfigurationLoader<'_>,
    server_pid: Option<u32>,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let mut tcp: Vec<SocketAddr> = loader.metrics().into_iter().map(|metrics| metrics.at).collect();
    let mut add = |addresses: &ListenAddresses| {
        tcp.extend(addresses.listen.iter().chain(&addresses.listen_tls));
    };
    if loader.wants_logins() {
        let login = loader.login()?;
        add(&login.addresses);
        for console in &login.consoles {
            add(&console.addresses);
            warnings.extend(device_warning(&console.device));
        }
    }
    if let Some(ftp) = loader.ftp()? {
        add(&ftp.addresses());
    }
    for address in tcp {
        let bound = std::net::TcpListener::bind(address).map(drop);
        warnings.extend(address_warning(address, bound, PortProtocol::Tcp, server_pid)?);
    }
    for address in loader.tftp()?.into_iter().flat_map(|tftp| tftp.addresses().to_vec()) {
        let bound = UdpSocket::bind(address).map(drop);
        warnings.extend(address_warning(address, bound, PortProtocol::Udp, server_pid)?);
    }
    Ok(warnings)
}

/// Returns a warning about the attempt to bind `address`, if any.
fn address_warning(
    address: SocketAddr,
    bound: io::Result<()>,
    protocol: PortProtocol,
    server_pid: Option<u32>,
) -> Result<Option<String>> {
    let Err(error) = bound else { return Ok(None) };
    let name = match protocol {
        PortProtocol::Tcp => "TCP",
        PortProtocol::Udp => "UDP",
    };
    match error.kind() {
        ErrorKind::AddrInUse => {
            let owns = |pid| port_owner::has_port(pid, protocol, address.port());
            match server_pid.and_then(owns) {
                Some(true) => Ok(None),
                Some(false) => bail!("{name} address {address} is used by another program"),
                None => {
                    Ok(Some(format!("{name} address {address} is in use, perhaps by this server")))
                }
            }
        }
        ErrorKind::PermissionDenied => Ok(Some(format!(
            "{name} address {address} needs root, CAP_NET_BIND_SERVICE or a socket unit"
        ))),
        _ => Err(listen_error(address, error)),
    }
}

fn device_warning(device: &Path) -> Option<String> {
    let path = device.display();
    match std::fs::metadata(device) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("serial device {path} does not exist"))
        }
        Err(error) => Some(format!("cannot use serial device {path}: {error}")),
        Ok(metadata) => {
            use std::os::unix::fs::FileTypeExt;
            let is_device = metadata.file_type().is_char_device();
            (!is_device).then(|| format!("{path} is not a serial device"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use std::net::TcpListener;

    fn check_text(text: &str) -> Result<Vec<String>, String> {
        check_text_for(text, None)
    }

    fn check_text_for(text: &str, server_pid: Option<u32>) -> Result<Vec<String>, String> {
        let name = format!("plumb-resources-{}-{}", std::process::id(), text.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let flags = Flags { config: Some(path.clone()), ..Flags::default() };
        let loader = ConfigurationLoader::open(&flags).unwrap();
        std::fs::remove_file(path).unwrap();
        check(&loader, server_pid).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_address_of_another_machine_is_an_error_and_a_used_port_is_a_warning() {
        let used = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = used.local_addr().unwrap();
        let ftp = |address: &str| format!("[ftp]\nroot = \"/\"\nlisten = [\"{address}\"]\n");
        let warnings = check_text(&ftp(&address.to_string())).unwrap();
        assert_eq!(warnings, [format!("TCP address {address} is in use, perhaps by this server")]);
        assert_eq!(check_text(&ftp("127.0.0.1:0")), Ok(Vec::new()));
        let text = ftp(&address.to_string());
        assert_eq!(check_text_for(&text, Some(std::process::id())), Ok(Vec::new()));
        let mut other = std::process::Command::new("cat");
        let mut other = other.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let error = check_text_for(&text, Some(other.id())).unwrap_err();
        assert_eq!(error, format!("TCP address {address} is used by another program"));
        drop(other.stdin.take());
        other.wait().unwrap();
        let error = check_text(&ftp("192.0.2.9:2121")).unwrap_err();
        assert!(error.contains("192.0.2.9:2121: not an address of this machine"), "{error}");
    }

    #[test]
    fn a_missing_device_and_a_directory_are_warnings() {
        let console = |device: &str| {
            check_text(&format!("[[console]]\ndevice = \"{device}\"\nlisten = [\"127.0.0.1:0\"]\n"))
        };
        let missing = "serial device /dev/nosuch0 does not exist";
        assert_eq!(console("/dev/nosuch0").unwrap(), [missing]);
        assert_eq!(console("/").unwrap(), ["/ is not a serial device"]);
        assert_eq!(console("/dev/null"), Ok(Vec::new()));
    }

    #[test]
    fn a_used_udp_port_is_a_warning() {
        let used = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = used.local_addr().unwrap();
        let warnings = check_text(&format!("[tftp]\nroot = \"/\"\nlisten = [\"{address}\"]\n"));
        let expected = format!("UDP address {address} is in use, perhaps by this server");
        assert_eq!(warnings.unwrap(), [expected]);
    }
}
