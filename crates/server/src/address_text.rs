//! Addresses in the configuration file, with errors that name the missing part.

use super::metrics::parse_address;
use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use std::net::{IpAddr, SocketAddr};

/// Address and port.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct AddressText(SocketAddr);

impl TryFrom<String> for AddressText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| match text.parse() {
            Ok(IpAddr::V4(address)) => format!("the port is missing: use \"{address}:PORT\""),
            Ok(IpAddr::V6(address)) => format!("the port is missing: use \"[{address}]:PORT\""),
            Err(_) => "an address has the form \"127.0.0.1:PORT\" or \"[::]:PORT\"".to_owned(),
        })
    }
}

/// Parses a list of addresses.
pub(super) fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
    let addresses = Vec::<AddressText>::deserialize(from)?;
    Ok(addresses.into_iter().map(|address| address.0).collect())
}

/// Parses a list of addresses that may be absent.
pub(super) fn optional_list<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<SocketAddr>>, D::Error> {
    list(from).map(Some)
}

/// Network prefix of clients.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct NetworkText(IpNet);

impl TryFrom<String> for NetworkText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_network(&text).map(Self)
    }
}

/// Parses a list of network prefixes.
pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let networks = Vec::<NetworkText>::deserialize(from)?;
    Ok(networks.into_iter().map(|network| network.0).collect())
}

/// Parses a network prefix.
///
/// # Errors
///
/// Returns a sentence that names the invalid part.
fn parse_network(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| match text.split_once('/').map(|(address, _)| address.parse()) {
        Some(Ok(IpAddr::V4(_))) => "the prefix length of an IPv4 address is 0 to 32".to_owned(),
        Some(Ok(IpAddr::V6(_))) => "the prefix length of an IPv6 address is 0 to 128".to_owned(),
        _ => "a prefix has the form \"10.0.0.0/8\" or \"2001:db8::/32\"".to_owned(),
    })
}

/// Port, or address and port, of the metrics.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "metrics must be a port, or \"ADDRESS:PORT\"")]
enum MetricsValue {
    Port(u16),
    Text(String),
}

/// Parses the address of the metrics as `--metrics` does.
pub(super) fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = match MetricsValue::deserialize(from)? {
        MetricsValue::Port(port) => port.to_string(),
        MetricsValue::Text(text) => text,
    };
    parse_address(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::configuration_file::ConfigurationFile;

    fn parse(text: &str) -> Result<ConfigurationFile, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn an_error_names_the_missing_port() {
        let error = |text: &str| parse(text).unwrap_err();
        let missing = "the port is missing: use \"0.0.0.0:PORT\"";
        assert_eq!(error("[ftp]\nlisten = [\"0.0.0.0\"]\n"), missing);
        let missing = "the port is missing: use \"[::]:PORT\"";
        assert_eq!(error("[[console]]\ndevice = \"a\"\nlisten-tls = [\"::\"]\n"), missing);
        let form = "an address has the form \"127.0.0.1:PORT\" or \"[::]:PORT\"";
        assert_eq!(error("[login]\nlisten = [\"here\"]\n"), form);
        assert!(parse("[tftp]\nlisten = [\"[::1]:69\"]\n").is_ok());
    }

    #[test]
    fn an_error_names_the_valid_prefix_lengths_or_the_form_of_a_prefix() {
        for table in
            ["[login]\nallow", "[ftp]\ndeny", "[tftp]\nallow", "[[console]]\ndevice = \"a\"\nwrite"]
        {
            let error = |prefix: &str| parse(&format!("{table} = [\"{prefix}\"]\n")).unwrap_err();
            assert_eq!(error("10.88.0.0/33"), "the prefix length of an IPv4 address is 0 to 32");
            assert_eq!(error("fd00::/129"), "the prefix length of an IPv6 address is 0 to 128");
            let form = "a prefix has the form \"10.0.0.0/8\" or \"2001:db8::/32\"";
            for prefix in ["10.88.0.1", "10.88/16", ""] {
                assert_eq!(error(prefix), form, "{prefix}");
            }
        }
    }

    #[test]
    fn metrics_have_a_port_or_an_address_and_a_port() {
        let metrics = |text: &str| parse(text).map(|file| file.metrics.unwrap().to_string());
        assert_eq!(metrics("metrics = 9559").unwrap(), "127.0.0.1:9559");
        assert_eq!(metrics("metrics = \"[::]:9559\"").unwrap(), "[::]:9559");
        assert_eq!(metrics("metrics = \"9559\"").unwrap(), "127.0.0.1:9559");
        assert_eq!(metrics("metrics = \"here\"").unwrap_err(), "use PORT or ADDRESS:PORT");
    }
}
