//! `plumb serve --check`: validates the configuration without serving.
//!
//! The configuration and the files that it names (users, certificates, roots) are read as for
//! serving. Nothing is created and no socket is opened, so an address in use is found only when the
//! server starts. A missing directory with rights of its own is reported: it may be created later,
//! or its name is misspelled and another directory lacks the intended rights.

use super::configuration::File;
use super::{Arguments, ftp_settings, prepare_logins, tftp};
use crate::carry;
use crate::exit::{self, Failure};
use anyhow::Result;
use std::io::{self, Write};

/// Runs the check and prints the result.
pub(super) fn run(arguments: &Arguments) -> exit::Result {
    match look(arguments) {
        Ok(missing) => {
            // Nothing can be reported if standard output is closed.
            for line in missing {
                _ = writeln!(io::stdout(), "{line}");
            }
            let name = arguments.config.as_ref().map(|path| path.display().to_string());
            let what = name.unwrap_or_else(|| "arguments".to_owned());
            _ = writeln!(io::stdout(), "{what}: configuration OK");
            Ok(())
        }
        Err(error) => {
            exit::complain(&error);
            Err(Failure::WrongArguments)
        }
    }
}

/// Returns warnings.
fn look(arguments: &Arguments) -> Result<Vec<String>> {
    carry::check_host(&arguments.via)?;
    let mut file = arguments.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
    let ftp = ftp_settings(arguments, &file)?;
    let mut missing = Vec::new();
    if let Some(ftp) = &ftp {
        ftp.look_at_files()?;
        missing = ftp.folders_not_there();
    }
    let prefixes = (arguments.allow.as_slice(), arguments.deny.as_slice());
    let (table, folder, is_root) = (file.tftp.take(), &arguments.folder, os::user::is_root());
    let tftp = tftp::Settings::complete(table, &arguments.tftp, folder, prefixes, is_root)?;
    if let Some(tftp) = &tftp {
        tftp.look_at_root()?;
    }
    if arguments.wants_logins(&file, ftp.is_some() || tftp.is_some()) {
        let house = prepare_logins(arguments, file)?;
        if !house.configuration.makes_certificate {
            house.configuration.certificate.configuration()?;
        }
    }
    Ok(missing)
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
        let folder = std::env::temp_dir();
        let root = folder.to_str().unwrap();
        let words = ["serve", "--ftp", "--root", root, "--ftp-listen", "[::1]:2121", "--via", via];
        Line::try_parse_from(words).unwrap().arguments
    }

    #[test]
    fn a_serial_line_is_refused_by_the_check_as_it_is_by_the_server() {
        let serial = arguments("serial:/dev/ttyS0?baud=9600&link=llp");
        let (checked, started) = (look(&serial), super::super::prepare(&serial));
        let said =
            [checked.map(|_| ()), started.map(|_| ())].map(|one| format!("{:#}", one.unwrap_err()));
        let why = "a serial line leads to one host only, and this command needs a network: \
                   use tun: or tap:";
        assert_eq!(said, [why, why]);
        assert_eq!(run(&serial), Err(Failure::WrongArguments));
        assert!(look(&arguments("tun:plumb9")).is_ok());
    }
}
