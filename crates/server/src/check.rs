//! `plumb serve --check`: validates the configuration without serving.
//!
//! The check reads the configuration and the files that it names (users, certificates, roots). It
//! creates no file. It binds each address for a moment ([`resources`]), unless the server uses
//! plumb's own TCP/IP. The check prints a warning for each directory that has its own access rights in the
//! configuration but does not exist: the name may be misspelled, and then the intended directory
//! lacks these rights.

use super::certificate::CertificatePaths;
use super::configuration_loader::ConfigurationLoader;
use super::flags::Flags;
use super::login_server::LoginPlan;
use super::resources;
use anyhow::{Context, Result};
use carrier::Route;
use os::user::User;
use std::time::SystemTime;

/// User of the packaged services.
const SERVICE_USER: &str = "plumb";

/// Validates the configuration and the files that it names, with the rights of the user `check_as` if it
/// is given. This process then remains that user. `server_pid` is the server that will load the
/// configuration, if it is known. Returns warnings, each a sentence.
///
/// # Errors
///
/// Returns the first error of the configuration or of a file that it names, or an error if this process
/// cannot become the user.
pub fn check(
    flags: &Flags,
    check_as: Option<&str>,
    server_pid: Option<u32>,
) -> Result<Vec<String>> {
    carrier::check_host_supported(&flags.via)?;
    let mut warnings = Vec::new();
    match check_as {
        Some(name) => become_user(name)?,
        // The check of a reload has the rights of its service. The package creates the user of its services.
        None if server_pid.is_none()
            && os::user::is_root()
            && matches!(User::named(SERVICE_USER), Ok(Some(_))) =>
        {
            warnings.push(format!(
                "checked with the rights of root; --check-as {SERVICE_USER} checks with those of the \
                 packaged service"
            ));
        }
        None => {}
    }
    let loader = ConfigurationLoader::open(flags)?;
    if let Some(ftp) = loader.ftp()? {
        ftp.check_files()?;
        warnings.extend(ftp.missing_directories());
        warnings.extend(ftp.unwritable_roots());
        warnings.extend(ftp.anonymous_note());
        warnings.extend(ftp.system_users_note().map(str::to_owned));
        warn_of_validity(ftp.certificates(), &mut warnings);
    }
    if let Some(tftp) = loader.tftp()? {
        tftp.check_root()?;
        warnings.extend(tftp.unwritable_root());
    }
    if loader.wants_logins() {
        let plan = LoginPlan::prepare(loader.login()?)?;
        let certificate = &plan.configuration().certificate;
        certificate.check()?;
        warn_of_validity([certificate], &mut warnings);
        warnings.extend(plan.service_user_note());
    }
    if flags.via == Route::Kernel {
        warnings.extend(resources::check(&loader, server_pid)?);
    }
    Ok(warnings)
}

/// Adds a warning for each certificate that is not valid or expires soon. Several servers may use the same
/// certificate, which is reported once.
fn warn_of_validity<'a>(
    certificates: impl IntoIterator<Item = &'a CertificatePaths>,
    warnings: &mut Vec<String>,
) {
    let now = SystemTime::now();
    for warning in certificates.into_iter().filter_map(|it| it.validity_warning(now)) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

fn become_user(name: &str) -> Result<()> {
    let user = User::named(name).with_context(|| format!("cannot look up user {name}"))?;
    let user = user.with_context(|| format!("no user {name} on this machine"))?;
    user.become_for_check().with_context(|| format!("cannot check as user {name}: run as root"))
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
        let check_result = check(&serial, None, None);
        let prepare_result = crate::prepare(&serial);
        let messages = [check_result.map(drop), prepare_result.map(drop)]
            .map(|result| format!("{:#}", result.unwrap_err()));
        let why = "a serial line leads to one host only, and this command needs a network: \
                   use tun: or tap:";
        assert_eq!(messages, [why, why]);
        assert!(check(&flags("tun:plumb9"), None, None).is_ok());
    }
}
