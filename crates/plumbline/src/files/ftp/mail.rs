//! `plumb mail`: sends a text to a mailbox on an FTP server (RFC 354).
//!
//! MLFL sends the text over a data connection, like a file. To a server that only knows MAIL, the
//! text is sent line by line over the control connection. On the control connection, a line with a
//! single period ends the text. Therefore a space is appended to each line of the text that is a
//! single period.
//!
//! The text is sent only once: if it is uncertain whether the text arrived, the command fails.

use super::command_options::ConnectionOptions;
use super::run_command::run_command;
use crate::exit;
use crate::files::progress::print_message;
use crate::manual::ManualPage;
use crate::manual::entries::{EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS, NETRC};
use anyhow::Context;
use protocols::ftp::user::Task;
use records::format::count;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::LocalEnd;
use transfer::ftp::name_of;
use transfer::url::Url;

/// Introduction of `plumb mail --help`.
pub(crate) const MAIL_ABOUT: &str = "\
Send a text to a mailbox on an FTP server that has mailboxes (RFC 354).

The name in the URL is the mailbox; without a name, the mail goes to the operator of the server. \
MLFL is tried first, then MAIL if the server does not know MLFL.";

/// Manual page of `plumb mail`.
pub(crate) const MAIL_PAGE: ManualPage = ManualPage {
    command: "mail",
    examples: &[
        "plumb mail letter.txt ftp://host.example.net/ann",
        "date | plumb mail - ftpes://me@host.example.net/operator",
    ],
    notes: &[],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES],
    files: &[NETRC, KNOWN_HOSTS, JOURNAL],
    see_also: &["put", "serve"],
};

/// Maximum size of a text. Few servers accept a text of this size.
const TEXT_MAX_BYTES: u64 = 16 << 20;

/// Arguments of `plumb mail`.
#[derive(Debug, clap::Args)]
pub(crate) struct Mail {
    /// File with the text; '-' is the standard input
    #[arg(value_name = "file")]
    from: PathBuf,
    /// Destination: ftp://user@host:port/mailbox, ftpes:// and ftps:// with TLS
    #[arg(value_name = "url")]
    url: Url,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Runs `plumb mail`.
pub(crate) fn mail(arguments: &Mail) -> exit::Result {
    let url = &arguments.url;
    let connection = &arguments.connection;
    run_command(url, connection, None, async |connector| {
        let text = read(&arguments.from)?;
        let mailbox = match url.name.as_slice() {
            b"" => None,
            name => Some(name_of(name)?),
        };
        let context = format!("cannot mail to '{}'", escaped(&url.name));
        let mut client = FtpClient::new(&connector);
        client.ready().await?;
        let local_end = LocalEnd::ReadFrom(in_memory(&text).map_err(anyhow::Error::new)?);
        let by_file = Task::MailFile(mailbox.clone());
        let (sent, _) = client.run_once(&context, by_file, Some(local_end)).await;
        let command_name = match sent {
            Err(error) if error.is_unknown_command() => {
                let task = Task::Mail(mailbox, text.clone());
                client.run_once(&context, task, None).await.0?;
                "MAIL"
            }
            sent => sent.map(|_| "MLFL")?,
        };
        client.quit().await;
        if connection.json {
            let line = serde_json::json!({ "command": command_name, "file_bytes": text.len() });
            super::command_output::print(format!("{line}\n").as_bytes())?;
        } else if !connection.quiet {
            let bytes = count(u64::try_from(text.len()).unwrap_or(u64::MAX));
            print_message(&format!(
                "mailed {bytes} bytes to '{}' by {command_name}",
                escaped(&url.name)
            ));
        }
        Ok(())
    })
}

fn read(path: &Path) -> Result<Vec<u8>, FtpError> {
    let mut text = Vec::new();
    let read_result = match path == Path::new("-") {
        true => std::io::stdin().take(TEXT_MAX_BYTES + 1).read_to_end(&mut text),
        false => {
            let open_result = File::open(path);
            open_result.and_then(|file| file.take(TEXT_MAX_BYTES + 1).read_to_end(&mut text))
        }
    };
    let count = read_result.with_context(|| format!("cannot read {}", path.display()))?;
    if u64::try_from(count).unwrap_or(u64::MAX) > TEXT_MAX_BYTES {
        return Err(FtpError::InvalidRequest(
            "the text exceeds the limit of 16,777,216 bytes".to_owned(),
        ));
    }
    Ok(text)
}

fn in_memory(text: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("mail", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}
