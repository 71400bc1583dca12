//! `plumb serve --check`: validates the configuration without serving.
//!
//! The check reads the configuration and the files that it names (users, certificates, roots). It
//! creates nothing and opens no socket, so an address in use is detected only when the server
//! starts. The check prints a warning for each directory that has its own access rights in the
//! configuration but does not exist: the name may be misspelled, and then the intended directory
//! lacks these rights.

use super::configuration::File;
use super::{Arguments, ftp_settings, prepare_logins, tftp};
use crate::exit::{self, Failure};
use anyhow::Result;
use std::io::{self, Write};

/// Runs the check and prints the result.
pub(super) fn run(arguments: &Arguments) -> exit::Result {
    match check(arguments) {
        Ok(warnings) => {
            // Nothing can be reported if standard output is closed.
            for line in warnings {
                _ = writeln!(io::stdout(), "{line}");
            }
            let name = arguments.config.as_ref().map(|path| path.display().to_string());
            let subject = name.unwrap_or_else(|| "arguments".to_owned());
            _ = writeln!(io::stdout(), "{subject}: configuration OK");
            Ok(())
        }
        Err(error) => {
            exit::print_error(&error);
            Err(Failure::WrongArguments)
        }
    }
}

/// Validates the configuration and the files that it names. Returns warnings.
fn check(arguments: &Arguments) -> Result<Vec<String>> {
    carrier::check_host_supported(&arguments.via)?;
    let mut file = arguments.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let ftp = ftp_settings(arguments, &file)?;
    let mut warnings = Vec::new();
    if let Some(ftp) = &ftp {
        ftp.check_files()?;
        warnings = ftp.missing_directories();
    }
    let prefixes = (arguments.allow.as_slice(), arguments.deny.as_slice());
    let table = file.tftp.take();
    let root = &arguments.root;
    let is_root = os::user::is_root();
    let tftp = tftp::TftpSettings::complete(table, &arguments.tftp, root, prefixes, is_root)?;
    if let Some(tftp) = &tftp {
        tftp.check_root()?;
    }
    if arguments.wants_logins(&file, ftp.is_some() || tftp.is_some()) {
        let login_state = prepare_logins(arguments, file)?;
        if !login_state.configuration.generates_certificate {
            login_state.configuration.certificate.configuration()?;
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn arguments(via: &str) -> Arguments {
        let directory = std::env::temp_dir();
        let root = directory.to_str().unwrap();
        let program_arguments =
            ["serve", "--ftp", "--root", root, "--ftp-listen", "[::1]:2121", "--via", via];
        Line::try_parse_from(program_arguments).unwrap().arguments
    }

    #[test]
    fn check_and_server_reject_a_serial_line_alike() {
        let serial = arguments("serial:/dev/ttyS0?baud=9600&link=llp");
        let check_result = check(&serial);
        let prepare_result = super::super::prepare(&serial);
        let messages = [check_result.map(|_| ()), prepare_result.map(|_| ())]
            .map(|result| format!("{:#}", result.unwrap_err()));
        let why = "a serial line leads to one host only, and this command needs a network: \
                   use tun: or tap:";
        assert_eq!(messages, [why, why]);
        assert_eq!(run(&serial), Err(Failure::WrongArguments));
        assert!(check(&arguments("tun:plumb9")).is_ok());
    }
}
