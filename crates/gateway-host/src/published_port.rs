//! A port forward on the command line: `[ADDRESS:]HOST_PORT[-LAST][:GUEST_PORT][/udp]`.

use crate::forwards::{BindAddress, Forward, PortRange, Transport};
use std::net::{IpAddr, Ipv4Addr};

/// Parses a port forward. Without an address, the host's port listens at 127.0.0.1 only. Without a
/// guest port, the guest's port is that of the host.
///
/// # Errors
///
/// Returns a message that names the valid form.
pub fn parse(text: &str) -> Result<Forward, String> {
    parse_forward(text).ok_or_else(|| {
        format!(
            "invalid port '{}': use [ADDRESS:]HOST_PORT[-LAST][:GUEST_PORT][/udp], such as 8080:80 \
             or 0.0.0.0:5300:53/udp",
            text.escape_debug()
        )
    })
}

fn parse_forward(text: &str) -> Option<Forward> {
    let (ports, transport) = match text.rsplit_once('/') {
        Some((ports, "tcp")) => (ports, Transport::Tcp),
        Some((ports, "udp")) => (ports, Transport::Udp),
        Some(_) => return None,
        None => (text, Transport::Tcp),
    };
    let (address, ports) = split_address(ports)?;
    let (host, guest) = ports.split_once(':').unwrap_or((ports, ""));
    let (first, last) = host.split_once('-').unwrap_or((host, host));
    let host_ports = PortRange::new(first.parse().ok()?, last.parse().ok()?)?;
    let guest_port = match guest {
        "" => host_ports.first(),
        guest => guest.parse().ok().filter(|port| *port > 0)?,
    };
    let bind = BindAddress::at(address);
    Some(Forward { transport, bind, host_ports, guest_address: None, guest_port })
}

/// Splits an address from the ports after it.
fn split_address(text: &str) -> Option<(IpAddr, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, ports) = rest.split_once("]:")?;
        return Some((address.parse().ok()?, ports));
    }
    match text.split_once(':') {
        Some((address, ports)) if address.contains('.') => Some((address.parse().ok()?, ports)),
        _ => Some((Ipv4Addr::LOCALHOST.into(), text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_port_are_parsed() {
        let forward = parse("8080:80").unwrap();
        assert_eq!((forward.transport, forward.guest_port), (Transport::Tcp, 80));
        assert_eq!(forward.bind.address, Some(Ipv4Addr::LOCALHOST.into()));
        let forward = parse("0.0.0.0:5300:53/udp").unwrap();
        assert_eq!((forward.transport, forward.guest_port), (Transport::Udp, 53));
        let forward = parse("[::1]:8000-8009").unwrap();
        assert_eq!((forward.host_ports.span(), forward.guest_port), (9, 8000));
        assert_eq!(forward.bind.address, Some("::1".parse().unwrap()));
    }

    #[test]
    fn an_invalid_port_is_refused() {
        for text in ["", "0", "80:0", "9-8", "80/sctp", "1.2.3:80:80", "[::1]80", "x:80", "70000"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
