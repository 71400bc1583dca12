//! Data addresses in commands and replies: PORT and PASV (RFC 959), EPRT and EPSV (RFC 2428), LPRT
//! and LPSV (RFC 1639).
//!
//! The user engine never connects to the address in a reply. It connects to the port in the reply
//! at the address of the control connection. The address in the reply is still parsed, because it
//! reveals address translators on the path.

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Address family, with the numbers of RFC 2428.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4 (1).
    Ipv4,
    /// IPv6 (2).
    Ipv6,
}

impl Family {
    /// Returns the family of `address`.
    #[must_use]
    pub const fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }
}

/// Reason why an address cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The syntax of the address is wrong.
    Syntax,
    /// The address family is not supported.
    Family,
}

/// Parses `h1,h2,h3,h4,p1,p2`.
///
/// # Errors
///
/// Returns [`AddressError::Syntax`] unless the argument is six numbers from 0 to 255.
pub fn parse_port(argument: &[u8]) -> Result<SocketAddr, AddressError> {
    let (numbers, rest) = parse_numbers::<6>(trim_spaces(argument)).ok_or(AddressError::Syntax)?;
    if rest.is_empty() { Ok(port_address(numbers)) } else { Err(AddressError::Syntax) }
}

/// Formats an IPv4 address as `h1,h2,h3,h4,p1,p2`; returns `None` for an IPv6 address.
#[must_use]
pub fn write_port(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip().to_canonical() else { return None };
    let [a, b, c, d] = ip.octets();
    let [high, low] = address.port().to_be_bytes();
    Some(format!("{a},{b},{c},{d},{high},{low}"))
}

/// Parses the text of a reply to PASV: the first six comma-separated numbers, at any position
/// (RFC 1123 §4.1.2.6).
#[must_use]
pub fn parse_pasv_reply(text: &[u8]) -> Option<SocketAddr> {
    let mut rest = text;
    while let Some(at) = rest.iter().position(u8::is_ascii_digit) {
        rest = rest.get(at..)?;
        if let Some((numbers, _)) = parse_numbers::<6>(rest) {
            return Some(port_address(numbers)).filter(|address| address.port() != 0);
        }
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        rest = rest.get(digits..)?;
    }
    None
}

/// Parses `|1|132.235.1.2|6275|`, with any delimiter.
///
/// # Errors
///
/// Returns [`AddressError`] if the syntax is wrong or the family is neither 1 nor 2.
pub fn parse_eprt(argument: &[u8]) -> Result<SocketAddr, AddressError> {
    let text = core::str::from_utf8(trim_spaces(argument)).map_err(|_| AddressError::Syntax)?;
    let delimiter = text.chars().next().ok_or(AddressError::Syntax)?;
    if !delimiter.is_ascii_graphic() || delimiter.is_ascii_digit() {
        return Err(AddressError::Syntax);
    }
    let mut parts = text.split(delimiter).skip(1);
    let family = parts.next();
    let address = parts.next();
    let port = parts.next();
    let (Some(""), None) = (parts.next(), parts.next()) else { return Err(AddressError::Syntax) };
    let port = port.and_then(|port| port.parse().ok()).ok_or(AddressError::Syntax)?;
    let address = address.unwrap_or_default();
    let ip = match family.and_then(|family| family.parse::<u16>().ok()) {
        Some(1) => address.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some(2) => address.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        Some(_) => return Err(AddressError::Family),
        None => None,
    };
    Ok(SocketAddr::new(ip.ok_or(AddressError::Syntax)?, port))
}

/// Formats the argument of EPRT: `|1|132.235.1.2|6275|`.
#[must_use]
pub fn write_eprt(address: SocketAddr) -> String {
    let ip = address.ip().to_canonical();
    let family = if ip.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{ip}|{}|", address.port())
}

/// Parses the port in the text of a reply to EPSV: `(|||6446|)`, with any delimiter.
///
/// Some servers omit the last delimiter, and some fill in a family and an address.
#[must_use]
pub fn parse_epsv_reply(text: &[u8]) -> Option<u16> {
    let parenthesis = text.iter().position(|&byte| byte == b'(')?;
    let (&delimiter, rest) = text.get(parenthesis + 1..)?.split_first()?;
    if !delimiter.is_ascii_graphic() || delimiter.is_ascii_digit() {
        return None;
    }
    let field = rest.split(|&byte| byte == delimiter).nth(2)?;
    let digits = field.split(|byte| !byte.is_ascii_digit()).next()?;
    core::str::from_utf8(digits).ok()?.parse().ok().filter(|&port| port != 0)
}

/// Parses the argument of LPRT, which also occurs in a reply to LPSV: family, length and octets of
/// the address, length and octets of the port.
///
/// # Errors
///
/// Returns [`AddressError`] if a length is wrong or the family is neither 4 nor 6.
pub fn parse_lprt(argument: &[u8]) -> Result<SocketAddr, AddressError> {
    let argument = trim_spaces(argument);
    let ([family, _], _) = parse_numbers::<2>(argument).ok_or(AddressError::Syntax)?;
    let (address, rest) = match family {
        4 => {
            let (numbers, rest) = parse_numbers::<9>(argument).ok_or(AddressError::Syntax)?;
            let [_, 4, a, b, c, d, 2, high, low] = numbers else {
                return Err(AddressError::Syntax);
            };
            (port_address([a, b, c, d, high, low]), rest)
        }
        6 => {
            let (numbers, rest) = parse_numbers::<21>(argument).ok_or(AddressError::Syntax)?;
            let [_, 16, octets @ .., 2, high, low] = numbers else {
                return Err(AddressError::Syntax);
            };
            let port = u16::from_be_bytes([high, low]);
            (SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)), port), rest)
        }
        _ => return Err(AddressError::Family),
    };
    if rest.is_empty() { Ok(address) } else { Err(AddressError::Syntax) }
}

/// Formats the argument of LPRT, which is also the list of numbers in a reply to LPSV.
#[must_use]
pub fn write_lprt(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    let (head, octets) = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ("4,4", comma_separated(&ip.octets())),
        IpAddr::V6(ip) => ("6,16", comma_separated(&ip.octets())),
    };
    format!("{head},{octets},2,{high},{low}")
}

fn comma_separated(octets: &[u8]) -> String {
    let decimal_octets: alloc::vec::Vec<String> =
        octets.iter().map(|octet| format!("{octet}")).collect();
    decimal_octets.join(",")
}

fn port_address([a, b, c, d, high, low]: [u8; 6]) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), u16::from_be_bytes([high, low]))
}

/// Parses `N` comma-separated numbers at the start of `text`, and returns them with the rest of the
/// text.
fn parse_numbers<const N: usize>(mut text: &[u8]) -> Option<([u8; N], &[u8])> {
    let mut numbers = [0; N];
    for (place, number) in numbers.iter_mut().enumerate() {
        if place > 0 {
            text = trim_spaces(text).strip_prefix(b",")?;
            text = trim_spaces(text);
        }
        let len = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at_checked(len)?;
        // A number with more than three digits cannot be an octet.
        *number = core::str::from_utf8(digits).ok().filter(|d| d.len() <= 3)?.parse().ok()?;
        text = rest;
    }
    Some((numbers, text))
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn every_known_reply_to_pasv_is_parsed() {
        for text in [
            "Entering Passive Mode (10,0,0,1,19,137)",
            "Entering Passive Mode (10,0,0,1,19,137).",
            "Entering Passive Mode 10,0,0,1,19,137",
            "Passive mode on: =10,0,0,1,19,137",
            "Entering Passive Mode. 10, 0, 0, 1, 19, 137",
            "Port 4 of 2: {10,0,0,1,19,137}",
        ] {
            assert_eq!(parse_pasv_reply(text.as_bytes()), Some(address("10.0.0.1:5001")), "{text}");
        }
        for text in ["", "(10,0,0,1,19)", "(10,0,0,256,19,137)", "(1,2,3,4,0,0)", "1,2,3,4,5,1234"]
        {
            assert_eq!(parse_pasv_reply(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_known_reply_to_epsv_is_parsed() {
        for text in [
            "Entering Extended Passive Mode (|||6446|)",
            "ok (!!!6446!)",
            "(|||6446|",
            "(|||6446)",
            "(|1|10.0.0.1|6446|)",
        ] {
            assert_eq!(parse_epsv_reply(text.as_bytes()), Some(6446), "{text}");
        }
        for text in ["", "|||6446|", "(|||0|)", "(|||70000|)", "(||", "(111)"] {
            assert_eq!(parse_epsv_reply(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_family_is_distinguished_from_malformed_text() {
        assert_eq!(parse_eprt(b"|3|1.2.3.4|5|"), Err(AddressError::Family));
        assert_eq!(parse_lprt(b"16,4,1,2,3,4,2,1,2"), Err(AddressError::Family));
        for text in ["", "|", "|1|::1|5|", "|2|1.2.3.4|5|", "|1|1.2.3.4|5", "|1|1.2.3.4|70000|"] {
            assert_eq!(parse_eprt(text.as_bytes()), Err(AddressError::Syntax), "{text}");
        }
        for text in ["4,4,1,2,3,4,2,1", "4,5,1,2,3,4,2,1,2", "4,4,1,2,3,4,2,1,2,3", "6,16,1"] {
            assert_eq!(parse_lprt(text.as_bytes()), Err(AddressError::Syntax), "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_values_are_parsed_back(v4: bool, ip: u128, port in 1..=u16::MAX) {
            let ip = if v4 {
                IpAddr::V4(Ipv4Addr::from((ip & 0xFFFF_FFFF) as u32))
            } else {
                // IPv4-mapped addresses are written as IPv4.
                IpAddr::V6(Ipv6Addr::from(ip | 1 << 127))
            };
            let address = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_eprt(write_eprt(address).as_bytes()), Ok(address));
            prop_assert_eq!(parse_lprt(write_lprt(address).as_bytes()), Ok(address));
            let port_text = write_port(address);
            prop_assert_eq!(port_text.is_some(), v4);
            if let Some(text) = port_text {
                prop_assert_eq!(parse_port(text.as_bytes()), Ok(address));
                let reply = std::format!("2 ways ({text})");
                prop_assert_eq!(parse_pasv_reply(reply.as_bytes()), Some(address));
            }
            let reply = std::format!("x (|||{port}|)");
            prop_assert_eq!(parse_epsv_reply(reply.as_bytes()), Some(port));
        }
    }
}
