//! What a console is to be: a `[[console]]` of the configuration, or `--console`.

use crate::login::line_settings;
use crate::serve::entrance::StartTls;
use anyhow::{Context, Result, bail};
use ipnet::IpNet;
use os::serial::LineSettings;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The port of RFC 2217 by custom: the RFC asks for none.
const PORT: u16 = 2217;

/// The file's words about one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(in crate::serve) struct ConsoleFile {
    /// The device, with further settings as `plumb login serial:` takes them: `?parity=even`.
    pub(in crate::serve) device: String,
    pub(in crate::serve) baud: Option<u32>,
    #[serde(default)]
    pub(in crate::serve) listen: Vec<SocketAddr>,
    #[serde(default)]
    pub(in crate::serve) listen_tls: Vec<SocketAddr>,
    pub(in crate::serve) tls: Option<StartTls>,
    /// Who may write; everybody who may come, if there are none.
    #[serde(default)]
    pub(in crate::serve) write: Vec<IpNet>,
    /// The rates that who writes may choose.
    #[serde(default)]
    pub(in crate::serve) rates: Vec<u32>,
    /// Whether who writes may choose data bits, parity, stop bits and flow control.
    #[serde(default)]
    pub(in crate::serve) free_framing: bool,
    /// Where the output of the line is kept.
    pub(in crate::serve) log: Option<PathBuf>,
}

/// What a console is to be, with nothing left open.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Settings {
    pub(in crate::serve) device: PathBuf,
    pub(in crate::serve) line: LineSettings,
    pub(in crate::serve) listen: Vec<SocketAddr>,
    pub(in crate::serve) listen_tls: Vec<SocketAddr>,
    pub(in crate::serve) start_tls: Option<StartTls>,
    pub(in crate::serve) write: Vec<IpNet>,
    pub(super) rates: Vec<u32>,
    pub(super) free_framing: bool,
    pub(super) log: Option<PathBuf>,
}

impl Settings {
    /// Completes what the file says; one that is told nothing listens at loopback.
    ///
    /// # Errors
    ///
    /// If there is no device, or its settings make no sense.
    pub(in crate::serve) fn complete(file: ConsoleFile) -> Result<Self> {
        let (device, settings) = file.device.split_once('?').unwrap_or((&file.device, ""));
        if device.is_empty() {
            bail!("a console needs a device: /dev/ttyUSB0");
        }
        let mut line = line_settings(settings)
            .with_context(|| format!("the console {device} is not to be understood"))?;
        if let Some(baud) = file.baud {
            line.bits_per_second = baud;
        }
        if line.bits_per_second == 0 {
            bail!("a console has no rate of 0 bit/s");
        }
        let mut listen = file.listen;
        if listen.is_empty() && file.listen_tls.is_empty() {
            listen.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        Ok(Self {
            device: device.into(),
            line,
            listen,
            listen_tls: file.listen_tls,
            start_tls: file.tls,
            write: file.write,
            rates: file.rates,
            free_framing: file.free_framing,
            log: file.log,
        })
    }

    /// Returns whether who writes may give the line these settings in the place of `holds`.
    pub(super) fn allows(&self, wanted: LineSettings, holds: LineSettings) -> bool {
        let rate = wanted.bits_per_second;
        let is_own = rate == holds.bits_per_second || rate == self.line.bits_per_second;
        let framing = LineSettings { bits_per_second: holds.bits_per_second, ..wanted };
        (is_own || self.rates.contains(&rate)) && (self.free_framing || framing == holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::serial::Parity;

    fn complete(text: &str) -> Result<Settings> {
        Settings::complete(toml::from_str(text)?)
    }

    #[test]
    fn a_device_has_its_settings_behind_it_and_listens_at_loopback() {
        let settings = complete("device = \"/dev/ttyS0?baud=1200&parity=even\"").unwrap();
        assert_eq!(settings.line.bits_per_second, 1200);
        assert_eq!(settings.line.parity, Parity::Even);
        assert_eq!(settings.listen, ["127.0.0.1:2217".parse().unwrap()]);
    }

    #[test]
    fn only_what_is_said_may_be_chosen() {
        let settings = complete("device = \"/dev/x\"\nbaud = 9600\nrates = [19200]").unwrap();
        let holds = settings.line;
        assert!(settings.allows(LineSettings::at(19_200), holds));
        assert!(!settings.allows(LineSettings::at(38_400), holds));
        assert!(!settings.allows(LineSettings { parity: Parity::Odd, ..holds }, holds));
        let free = Settings { free_framing: true, ..settings };
        assert!(free.allows(LineSettings { parity: Parity::Odd, ..holds }, holds));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(complete("device = \"\"").is_err());
        assert!(complete("device = \"/dev/x?bits=9\"").is_err());
        assert!(complete("device = \"/dev/x\"\nbaud = 0").is_err());
        assert!(complete("device = \"/dev/x\"\nwirte = []").is_err());
    }
}
