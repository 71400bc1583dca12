//! The configuration with the flags and all defaults, as TOML.

use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use anyhow::Result;

/// Returns the configuration with the flags and all defaults, as TOML. Read as a configuration file, it
/// gives the same configuration.
///
/// # Errors
///
/// Returns an error if the configuration is invalid.
pub fn effective_configuration(flags: &Flags) -> Result<String> {
    let loader = ConfigurationLoader::open(flags)?;
    let note = loader.ftp()?.and_then(|ftp| ftp.anonymous_note());
    let note = note.map(|note| format!("# {note}\n")).unwrap_or_default();
    Ok(note + &toml::to_string(&loader.effective()?)?)
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
        format!("{login:#?} {ftp:#?} {tftp:#?} {metrics:#?} {is_recording}")
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
}
