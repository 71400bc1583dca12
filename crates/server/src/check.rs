//! `plumb serve --check`: validates the configuration without serving.
//!
//! The check reads the configuration and the files that it names (users, certificates, roots). It
//! creates no file. It binds each address for a moment ([`resources`]), unless the server uses
//! plumb's own TCP/IP. The check prints a warning for each directory that has its own access rights in the
//! configuration but does not exist: the name may be misspelled, and then the intended directory
//! lacks these rights.

use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use super::login_server::LoginState;
use super::resources;
use anyhow::Result;
use carrier::Route;

/// Validates the configuration and the files that it names. Returns warnings, each a sentence.
///
/// # Errors
///
/// Returns the first error of the configuration or of a file that it names.
pub fn check(flags: &Flags) -> Result<Vec<String>> {
    carrier::check_host_supported(&flags.via)?;
    let loader = ConfigurationLoader::open(flags)?;
    let mut warnings = Vec::new();
    if let Some(ftp) = loader.ftp()? {
        ftp.check_files()?;
        warnings = ftp.missing_directories();
    }
    if let Some(tftp) = loader.tftp()? {
        tftp.check_root()?;
    }
    if loader.wants_logins() {
        let login_state = LoginState::prepare(loader.login()?, flags)?;
        login_state.configuration().certificate.check()?;
    }
    if flags.via == Route::Kernel {
        warnings.extend(resources::check(&loader)?);
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{FtpFlags, RootFlags};

    fn flags(via: &str) -> Flags {
        let root = RootFlags { root: Some(std::env::temp_dir()), rights: None };
        let listen = vec!["[::1]:2121".parse().unwrap()];
        let ftp = FtpFlags { is_requested: true, listen, ..FtpFlags::default() };
        Flags { root, ftp, via: via.parse().unwrap(), ..Flags::default() }
    }

    #[test]
    fn check_and_server_reject_a_serial_line_alike() {
        let serial = flags("serial:/dev/ttyS0?baud=9600&link=llp");
        let check_result = check(&serial);
        let prepare_result = crate::prepare(&serial);
        let messages = [check_result.map(drop), prepare_result.map(drop)]
            .map(|result| format!("{:#}", result.unwrap_err()));
        let why = "a serial line leads to one host only, and this command needs a network: \
                   use tun: or tap:";
        assert_eq!(messages, [why, why]);
        assert!(check(&flags("tun:plumb9")).is_ok());
    }
}
