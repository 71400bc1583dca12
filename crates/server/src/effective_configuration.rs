//! The configuration with the flags and all defaults, as TOML, and the keys that a reload does not
//! apply.

use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Keys that a reload applies; a prefix that ends with a period stands for all keys of a table. The
/// certificates of `[tls]` apply to FTP.
const RELOADABLE: [&str; 12] = [
    "ftp.",
    "login.allow",
    "login.deny",
    "login.greeting",
    "login.idle-timeout-s",
    "login.login-timeout-s",
    "login.motd",
    "login.sessions-max",
    "login.sessions-per-source-max",
    "tftp.allow",
    "tftp.deny",
    "tftp.transfers-per-source-max",
];
/// Keys of the tables above that a reload does not apply.
const NOT_RELOADABLE: [&str; 2] = ["ftp.listen", "ftp.listen-tls"];

/// Returns the configuration with the flags and all defaults, as TOML. Read as a configuration file, it
/// gives the same configuration.
///
/// # Errors
///
/// Returns an error if the configuration is invalid.
pub fn effective_configuration(flags: &Flags) -> Result<String> {
    Ok(toml::to_string(&ConfigurationLoader::open(flags)?.effective()?)?)
}

/// Configuration with which the servers run.
#[derive(Clone, Debug)]
pub(super) struct RunningConfiguration(BTreeMap<String, Value>);

impl RunningConfiguration {
    /// Reads the configuration with the flags and all defaults.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid.
    pub(super) fn read(flags: &Flags) -> Result<Self> {
        let table = Table::try_from(ConfigurationLoader::open(flags)?.effective()?)?;
        let mut keys = BTreeMap::new();
        for (name, value) in table {
            match value {
                // The table itself is a key too, because a new table is a new server.
                Value::Table(table) => {
                    keys.insert(name.clone(), Value::Boolean(true));
                    keys.extend(
                        table.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)),
                    );
                }
                value => _ = keys.insert(name, value),
            }
        }
        Ok(Self(keys))
    }

    /// Returns the keys that differ in `new` and that only a restart applies.
    pub(super) fn keys_for_restart(&self, new: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(new.0.keys()).collect();
        let differs = |name: &&&String| self.0.get(**name) != new.0.get(**name);
        let needs_restart = |name: &&&String| {
            let is_reloadable = RELOADABLE.iter().any(|known| match known.ends_with('.') {
                true => name.starts_with(known),
                false => **name == known,
            });
            !is_reloadable || NOT_RELOADABLE.contains(&name.as_str())
        };
        names.iter().filter(differs).filter(needs_restart).map(|name| (*name).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{FtpFlags, LoginFlags, RootFlags};
    use std::path::PathBuf;

    fn write(text: &str, name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("plumb-effective-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn flags(path: PathBuf) -> Flags {
        Flags { config: Some(path), ..Flags::default() }
    }

    /// Returns the settings of all servers.
    fn settings(flags: &Flags) -> String {
        let loader = ConfigurationLoader::open(flags).unwrap();
        let login = loader.wants_logins().then(|| loader.login().unwrap());
        let metrics = loader.metrics();
        let ftp = loader.ftp().unwrap();
        let tftp = loader.tftp().unwrap();
        let is_recording = loader.is_recording();
        let settings = format!("{login:#?} {ftp:#?} {tftp:#?} {metrics:#?} {is_recording}");
        // Whether the file has the table makes no difference for the servers.
        settings.replace("has_table: false", "has_table: true")
    }

    #[test]
    fn the_printed_configuration_gives_the_same_settings_without_flags() {
        let texts = [
            "",
            "metrics = 9559\nrecord = false\n[ftp]\nroot = \"/\"\nrights = [\"list\", \"read\"]\n\
             passive-ports = [5000, 5010]\n[ftp.folders]\n\"/tmp\" = \"drop-box\"\n\
             [[ftp.host]]\nname = \"a.example\"\nroot = \"/tmp\"\n",
            "[login]\nexec = [\"menu\"]\nallow = [\"10.0.0.0/8\"]\n[tftp]\nroot = \"/\"\n\
             listen = [\"[::]:69\"]\n[tls]\ncertificate = \"/a\"\nkey = \"/b\"\n",
            "[[console]]\ndevice = \"/dev/ttyS0?parity=even\"\nrates = [300]\n",
        ];
        for (number, text) in texts.iter().enumerate() {
            let file = write(text, &format!("given-{number}"));
            let given = Flags {
                deny: vec!["192.0.2.0/24".parse().unwrap()],
                metrics_hosts: vec!["stats.example".to_owned()],
                login: LoginFlags { idle_timeout_s: Some(5), ..LoginFlags::default() },
                ..flags(file.clone())
            };
            let printed = effective_configuration(&given).unwrap();
            let reread = flags(write(&printed, &format!("printed-{number}")));
            assert_eq!(settings(&reread), settings(&given), "{printed}");
            assert_eq!(effective_configuration(&reread).unwrap(), printed);
            std::fs::remove_file(file).unwrap();
            std::fs::remove_file(reread.config.unwrap()).unwrap();
        }
    }

    #[test]
    fn flags_and_defaults_are_printed_as_keys() {
        let root = RootFlags { root: Some("/".into()), rights: None };
        let listen = vec!["127.0.0.1:2121".parse().unwrap()];
        let ftp = FtpFlags { is_requested: true, listen, ..FtpFlags::default() };
        let printed = effective_configuration(&Flags { root, ftp, ..Flags::default() }).unwrap();
        for line in [
            "[ftp]",
            "root = \"/\"",
            "listen = [\"127.0.0.1:2121\"]",
            "idle-timeout-s = 300",
            "rights = \"read-only\"",
            "record = true",
        ] {
            assert!(printed.lines().any(|printed| printed == line), "{line} is not in\n{printed}");
        }
    }

    #[test]
    fn only_keys_that_a_reload_does_not_apply_need_a_restart() {
        let read = |text: &str| {
            let path = write(text, "restart");
            let running = RunningConfiguration::read(&flags(path.clone())).unwrap();
            std::fs::remove_file(path).unwrap();
            running
        };
        let ftp = "[ftp]\nroot = \"/\"\n";
        let running = read(ftp);
        let changed = |text: &str| running.keys_for_restart(&read(text));
        assert_eq!(changed(ftp), Vec::<String>::new());
        assert_eq!(changed(&format!("{ftp}greeting = \"hi\"\n")), Vec::<String>::new());
        let listen = format!("metrics = 9559\n{ftp}listen = [\"127.0.0.1:2122\"]\n");
        assert_eq!(changed(&listen), ["ftp.listen", "metrics"]);
        let tftp = format!("{ftp}[tftp]\nroot = \"/\"\n");
        assert!(changed(&tftp).contains(&"tftp".to_owned()));
    }
}
