//! Settings of a console: a `[[console]]` of the configuration file, or `--console`.

use crate::address_text;
use crate::listen_addresses::ListenAddresses;
use crate::start_tls_policy::StartTls;
use anyhow::{Context, Result, bail};
use carrier::line_settings;
use ipnet::IpNet;
use os::serial::LineSettings;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Table `[[console]]` of the configuration file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ConsoleFile {
    /// Device, with settings as in `plumb login serial:`, such as `?parity=even`.
    pub(crate) device: String,
    pub(crate) baud: Option<u32>,
    #[serde(default, deserialize_with = "address_text::list")]
    pub(crate) listen: Vec<SocketAddr>,
    #[serde(default, deserialize_with = "address_text::list")]
    pub(crate) listen_tls: Vec<SocketAddr>,
    pub(crate) tls: Option<StartTls>,
    /// Address prefixes of clients that may write; all admitted clients by default.
    #[serde(default, deserialize_with = "address_text::networks")]
    pub(crate) write: Vec<IpNet>,
    /// Additional bit rates that the client with write access may choose.
    #[serde(default)]
    pub(crate) rates: Vec<u32>,
    /// Whether the client with write access may choose data bits, parity, stop bits and flow
    /// control.
    #[serde(default)]
    pub(crate) free_framing: bool,
    /// File that records the output of the line.
    pub(crate) log: Option<PathBuf>,
}

impl ConsoleFile {
    /// Returns the table of a console with all defaults.
    pub(crate) fn effective(settings: ConsoleSettings) -> Self {
        Self {
            device: settings.configured_device,
            baud: Some(settings.line.bits_per_second),
            listen: settings.addresses.listen,
            listen_tls: settings.addresses.listen_tls,
            tls: settings.start_tls,
            write: settings.write,
            rates: settings.rates,
            free_framing: settings.free_framing,
            log: settings.log,
        }
    }

    /// Returns whether a listen address is given.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.listen.is_empty() || !self.listen_tls.is_empty()
    }
}

/// Settings of a console with all defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsoleSettings {
    /// Device and its settings, as configured.
    configured_device: String,
    pub(crate) device: PathBuf,
    pub(crate) line: LineSettings,
    pub(crate) addresses: ListenAddresses,
    pub(crate) start_tls: Option<StartTls>,
    pub(crate) write: Vec<IpNet>,
    pub(super) rates: Vec<u32>,
    pub(super) free_framing: bool,
    pub(super) log: Option<PathBuf>,
}

impl ConsoleSettings {
    /// Applies defaults to the configuration file; without addresses the console listens on
    /// loopback.
    ///
    /// # Errors
    ///
    /// Returns an error if no device is given, or its settings are invalid.
    pub(crate) fn complete(file: ConsoleFile) -> Result<Self> {
        let (device, settings) = file.device.split_once('?').unwrap_or((&file.device, ""));
        if device.is_empty() {
            bail!("a console has no device: set device, e.g. device = \"/dev/ttyUSB0\"");
        }
        let mut line = line_settings(settings)
            .with_context(|| format!("invalid settings of console {device}"))?;
        if let Some(baud) = file.baud {
            line.bits_per_second = baud;
        }
        if line.bits_per_second == 0 {
            bail!("invalid bit rate 0 of console {device}: set baud, e.g. baud = 9600");
        }
        let addresses = ListenAddresses { listen: file.listen, listen_tls: file.listen_tls };
        Ok(Self {
            device: device.into(),
            configured_device: file.device.clone(),
            line,
            addresses: if addresses.is_empty() { ListenAddresses::console() } else { addresses },
            start_tls: file.tls,
            write: file.write,
            rates: file.rates,
            free_framing: file.free_framing,
            log: file.log,
        })
    }

    /// Returns whether the client with write access may change the line settings from `current` to
    /// `wanted`.
    pub(super) fn allows(&self, wanted: LineSettings, current: LineSettings) -> bool {
        let rate = wanted.bits_per_second;
        let is_known_rate = rate == current.bits_per_second || rate == self.line.bits_per_second;
        let framing = LineSettings { bits_per_second: current.bits_per_second, ..wanted };
        (is_known_rate || self.rates.contains(&rate)) && (self.free_framing || framing == current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::serial::Parity;

    fn complete(text: &str) -> Result<ConsoleSettings> {
        ConsoleSettings::complete(toml::from_str(text)?)
    }

    #[test]
    fn a_device_with_settings_listens_on_loopback_by_default() {
        let settings = complete("device = \"/dev/ttyS0?baud=1200&parity=even\"").unwrap();
        assert_eq!(settings.line.bits_per_second, 1200);
        assert_eq!(settings.line.parity, Parity::Even);
        assert_eq!(settings.addresses.listen, ["127.0.0.1:2217".parse().unwrap()]);
    }

    #[test]
    fn only_configured_settings_may_be_changed() {
        let settings = complete("device = \"/dev/x\"\nbaud = 9600\nrates = [19200]").unwrap();
        let current = settings.line;
        assert!(settings.allows(LineSettings::at(19_200), current));
        assert!(!settings.allows(LineSettings::at(38_400), current));
        assert!(!settings.allows(LineSettings { parity: Parity::Odd, ..current }, current));
        let free = ConsoleSettings { free_framing: true, ..settings };
        assert!(free.allows(LineSettings { parity: Parity::Odd, ..current }, current));
    }

    #[test]
    fn invalid_settings_are_rejected() {
        assert!(complete("device = \"\"").is_err());
        assert!(complete("device = \"/dev/x?bits=9\"").is_err());
        assert!(complete("device = \"/dev/x\"\nbaud = 0").is_err());
        assert!(complete("device = \"/dev/x\"\nwirte = []").is_err());
    }
}
