//! `plumb serve --check`: whether the configuration makes sense, without serving anything.
//!
//! It is read and completed as it is for serving, with the files that it names: users, certificates,
//! roots. Nothing is made, and nobody listens; whether an address is free shows when it is served. A
//! folder that has rights of its own and is not there is said: it may come later, or its name is
//! wrong and another one has not the rights that it should have.

use super::configuration::File;
use super::{Arguments, ftp_settings, prepare_logins, tftp};
use crate::carry;
use crate::exit::{self, Failure};
use anyhow::Result;
use std::io::{self, Write};

/// Looks, and says what comes of it.
pub(super) fn run(arguments: &Arguments) -> exit::Result {
    match look(arguments) {
        Ok(missing) => {
            // Where the reader has gone there is nobody to tell.
            for line in missing {
                _ = writeln!(io::stdout(), "{line}");
            }
            let name = arguments.config.as_ref().map(|path| path.display().to_string());
            let what = name.unwrap_or_else(|| "what is said".to_owned());
            _ = writeln!(io::stdout(), "{what} makes sense");
            Ok(())
        }
        Err(error) => {
            exit::complain(&error);
            Err(Failure::WrongArguments)
        }
    }
}

/// Returns what is odd and no error.
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
        let why = "this needs a network, and a serial line leads to one host: use tun: or tap:";
        assert_eq!(said, [why, why]);
        assert_eq!(run(&serial), Err(Failure::WrongArguments));
        assert!(look(&arguments("tun:plumb9")).is_ok());
    }
}
