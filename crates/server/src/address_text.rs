//! Addresses in the configuration file, with errors that name the missing part.

use super::metrics::parse_address;
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
    fn metrics_have_a_port_or_an_address_and_a_port() {
        let metrics = |text: &str| parse(text).map(|file| file.metrics.unwrap().to_string());
        assert_eq!(metrics("metrics = 9559").unwrap(), "127.0.0.1:9559");
        assert_eq!(metrics("metrics = \"[::]:9559\"").unwrap(), "[::]:9559");
        assert_eq!(metrics("metrics = \"9559\"").unwrap(), "127.0.0.1:9559");
        assert_eq!(metrics("metrics = \"here\"").unwrap_err(), "use PORT or ADDRESS:PORT");
    }
}
