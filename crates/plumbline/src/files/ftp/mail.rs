//! `plumb mail`: sends a text to a mailbox on an FTP server (RFC 354).
//!
//! MLFL sends it over a data connection, like a file. A server that only knows MAIL gets it line by
//! line over the control connection, where a line with a single period ends it. Such a line of the
//! text gets a space after its period. A mail is sent only once: if it is uncertain whether it has
//! arrived, the command fails.

use super::desk::carry_out;
use super::dialogue::Dialogue;
use super::mover::Near;
use super::options::Reach;
use super::remote::name_of;
use super::trouble::Trouble;
use crate::exit;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::files::url::Url;
use anyhow::Context;
use protocols::application::ftp::user::Task;
use records::figures::count;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Introduction of `plumb mail --help`.
pub(crate) const MAIL_ABOUT: &str = "\
Send a text to a mailbox on an FTP server that has mailboxes (RFC 354).

The name in the URL is the mailbox; without a name, the mail goes to the operator of the server. \
MLFL is tried first, then MAIL if the server does not know MLFL.";

const MAIL_EXAMPLES: &str = "\
Examples:
  plumb mail letter.txt ftp://host.example.net/ann
  date | plumb mail - ftpes://me@host.example.net/operator

Exit codes: 0 delivered; 1 the server is unreachable, has no such mailbox, or accepts no mail;
2 wrong arguments; 3 interrupted; 4 local error: the text cannot be read.";

/// Maximum size of a text. Few servers accept one of this size.
const TEXT_MAX_BYTES: u64 = 16 << 20;

/// Arguments of `plumb mail`.
#[derive(Debug, clap::Args)]
#[command(after_help = MAIL_EXAMPLES)]
pub(crate) struct Mail {
    /// File with the text; '-' is the standard input
    #[arg(value_name = "FILE")]
    from: PathBuf,
    /// Destination: ftp://user@host:port/mailbox, ftpes:// and ftps:// with TLS
    #[arg(value_name = "URL")]
    url: Url,
    #[command(flatten)]
    reach: Reach,
}

/// Runs `plumb mail`.
pub(crate) fn mail(arguments: &Mail) -> exit::Result {
    let (url, reach) = (&arguments.url, &arguments.reach);
    carry_out(url, reach, None, async |caller| {
        let text = read(&arguments.from)?;
        let mailbox = match url.name.as_slice() {
            b"" => None,
            name => Some(name_of(name)?),
        };
        let wanted = format!("cannot mail to '{}'", shown(&url.name));
        let mut dialogue = Dialogue::new(&caller);
        dialogue.ready().await?;
        let near = Near::From(in_memory(&text).map_err(anyhow::Error::new)?);
        let by_file = Task::MailFile(mailbox.clone());
        let (sent, _) = dialogue.run_once(&wanted, by_file, Some(near)).await;
        let by = match sent {
            Err(trouble) if trouble.is_unknown_command() => {
                let task = Task::Mail(mailbox, text.clone());
                dialogue.run_once(&wanted, task, None).await.0?;
                "MAIL"
            }
            sent => sent.map(|_| "MLFL")?,
        };
        dialogue.quit().await;
        if reach.json {
            let line = serde_json::json!({ "command": by, "file_bytes": text.len() });
            super::manage::show(format!("{line}\n").as_bytes())?;
        } else if !reach.quiet {
            let bytes = count(u64::try_from(text.len()).unwrap_or(u64::MAX));
            say(&format!("mailed {bytes} bytes to '{}' by {by}", shown(&url.name)));
        }
        Ok(())
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Trouble> {
    let mut text = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().take(TEXT_MAX_BYTES + 1).read_to_end(&mut text),
        false => {
            let opened = File::open(path);
            opened.and_then(|file| file.take(TEXT_MAX_BYTES + 1).read_to_end(&mut text))
        }
    };
    let count = read.with_context(|| format!("cannot read {}", path.display()))?;
    if u64::try_from(count).unwrap_or(u64::MAX) > TEXT_MAX_BYTES {
        return Err(Trouble::Wrong("the text exceeds the limit of 16,777,216 bytes".to_owned()));
    }
    Ok(text)
}

fn in_memory(text: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("mail", MemfdFlags::CLOEXEC)?);
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}
