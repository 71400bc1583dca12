//! The arguments of `plumb get` and `plumb put`.

use super::ftp::{Moving, Reach};
use super::url::Url;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::str::FromStr;

/// Introduction of `plumb get --help`.
pub(crate) const GET_ABOUT: &str = "\
Download files by FTP or TFTP.

A file appears under its name only when it is complete; after an interrupt, a full disk or a \
timeout, an existing file of that name is unchanged. A partial download by FTP is saved as \
NAME.part, and --continue resumes it. Existing files are not replaced without --force. '-' is the \
standard output.";

/// Introduction of `plumb put --help`.
pub(crate) const PUT_ABOUT: &str = "\
Upload files by FTP or TFTP.

'-' is the standard input. If the URL has no name, or its name ends with '/', the name of the \
local file is appended. By FTP, the remote file gets the time of the local file if the server \
supports setting times.";

const GET_EXAMPLES: &str = "\
Examples:
  plumb get ftp://ftp.example.net/pub/README
  plumb get ftpes://me@example.net/logs/*.gz -o logs
  plumb get -r -j 4 ftp://example.net/pub/tree .
  plumb get --store c36 ftp://example.net/system.exe
  plumb get --type auto ftp://its.example/system;ts.ddt
  plumb get tftp://10.0.0.1/vmlinuz
  plumb get tftp://10.0.0.1/motd;mode=netascii -
  plumb get --window 64 tftp://[2001:db8::1]/image.bin image.bin

Exit codes: 0 downloaded; 1 the remote host is unreachable, has no such file, refused or timed out;
2 wrong arguments; 3 interrupted; 4 local error: the file cannot be written, or permission denied.";

const PUT_EXAMPLES: &str = "\
Examples:
  plumb put -c image.iso ftpes://me@example.net/images/
  plumb put backup.cfg tftp://10.0.0.1/
  date | plumb put - tftp://10.0.0.1/date;mode=netascii

Exit codes: 0 uploaded; 1 the remote host is unreachable, refused or timed out; 2 wrong arguments;
3 interrupted; 4 local error: the file cannot be read, or permission denied.";

/// Arguments of `plumb get`.
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct Get {
    /// Source: ftp://user@host/name, ftpes:// and ftps:// with TLS, or tftp://host/name; :port may
    /// follow the host, ;mode=netascii a TFTP name; several of one host, and last the local file or
    /// directory [default: the last component of the name, in the current directory]
    #[arg(value_name = "URL", required = true)]
    pub(super) places: Vec<Place>,
    /// Write to this file or directory (same as the last argument)
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Replace existing files
    #[arg(short, long)]
    pub(super) force: bool,
    /// FTP: number of segments of a file that are downloaded in parallel, each over its own session
    /// [default: 1]
    #[arg(long, value_name = "PIECES", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) segments: Option<u32>,
    #[command(flatten)]
    pub(super) moving: Moving,
    #[command(flatten)]
    pub(super) how: How,
}

/// Arguments of `plumb put`.
#[derive(Debug, clap::Args)]
#[command(after_help = PUT_EXAMPLES)]
pub(crate) struct Put {
    /// Local files, and last the destination: ftp://user@host/name, ftpes:// and ftps:// with TLS,
    /// or tftp://host/name; :port may follow the host, ;mode=netascii a TFTP name
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    pub(super) places: Vec<Place>,
    /// FTP: with --continue, replace a remote file that is not the beginning of the local one;
    /// without it, files are always replaced
    #[arg(short, long)]
    pub(super) force: bool,
    /// FTP: treatment of local links within directories that are sent with -r
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Links::Follow)]
    pub(super) links: Links,
    #[command(flatten)]
    pub(super) moving: Moving,
    #[command(flatten)]
    pub(super) how: How,
}

/// Treatment of links within directories that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Links {
    /// Send a link to a file as that file; skip a link to a directory
    Follow,
    /// Skip all links
    Skip,
}

/// A local path or a URL.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Here(PathBuf),
    There(Url),
}

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text.contains("://") {
            return text.parse().map(Self::There);
        }
        Ok(Self::Here(PathBuf::from(text)))
    }
}

/// Options of a transfer.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) reach: Reach,
    /// Maximum rate in bytes per second; K, M and G mean thousands, millions and billions
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) limit_rate: Option<u64>,
    /// TFTP: requested block size in bytes (RFC 2348) [default: 1428]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(8..=65_464))]
    pub(super) block_size: Option<u16>,
    /// TFTP: requested window size in blocks (RFC 7440) [default: 16]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) window: Option<u16>,
}

impl How {
    /// Returns a given option that only the other protocol has.
    fn of_the_other(&self, moving: &Moving, is_ftp: bool) -> Option<&'static str> {
        let of_tftp =
            [(self.block_size.is_some(), "--block-size"), (self.window.is_some(), "--window")];
        let reach = &self.reach;
        let of_ftp = [
            (moving.data_type.is_some(), "--type"),
            (moving.mode.is_some(), "--mode"),
            (moving.stru.is_some(), "--stru"),
            (moving.store.is_some(), "--store"),
            (moving.continues, "--continue"),
            (moving.recursive, "--recursive"),
            (moving.no_keep_time, "--no-keep-time"),
            (moving.jobs.is_some(), "--jobs"),
            (reach.user.is_some(), "--user"),
            (reach.ca.is_some(), "--ca"),
            (reach.active, "--active"),
            (reach.tries.is_some(), "--tries"),
        ];
        let mut asked = if is_ftp { of_tftp.iter() } else { of_ftp.iter() };
        asked.find(|(is_asked, _)| *is_asked).map(|(_, name)| *name)
    }
}

/// Returns an error if an option is given that the protocol of the URL does not have.
fn refuse(other: Option<&'static str>, is_ftp: bool) -> anyhow::Result<()> {
    match other {
        Some("--type") => bail!("TFTP has no --type: for text, append ;mode=netascii to the URL"),
        Some(name) => bail!("{} has no {name}", if is_ftp { "FTP" } else { "TFTP" }),
        None => Ok(()),
    }
}

impl Get {
    /// Checks that all given options apply to the protocol.
    ///
    /// # Errors
    ///
    /// Returns an error that names an option of the other protocol.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let segments = (self.segments.is_some() && !is_ftp).then_some("--segments");
        refuse(segments.or_else(|| self.how.of_the_other(&self.moving, is_ftp)), is_ftp)
    }
}

impl Put {
    /// Like [`Get::check`].
    ///
    /// # Errors
    ///
    /// Returns an error that names an option of the other protocol.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let links = (self.links != Links::Follow && !is_ftp).then_some("--links");
        let links = links.or((self.force && !is_ftp).then_some("--force"));
        refuse(links.or_else(|| self.how.of_the_other(&self.moving, is_ftp)), is_ftp)
    }
}

/// Parses a rate like `300K`.
pub(super) fn rate(text: &str) -> anyhow::Result<u64> {
    let (digits, factor) = match text.chars().last() {
        Some('k' | 'K') => (text.get(..text.len() - 1), 1_000),
        Some('m' | 'M') => (text.get(..text.len() - 1), 1_000_000),
        Some('g' | 'G') => (text.get(..text.len() - 1), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number = digits.and_then(|digits| digits.parse::<u64>().ok()).filter(|number| *number > 0);
    number.and_then(|number| number.checked_mul(factor)).with_context(|| {
        format!("invalid rate '{}': use bytes per second, like 300K", text.escape_debug())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_be_in_thousands_and_millions() {
        let rates = ["1", "300K", "2m", "1G"].map(|text| rate(text).unwrap());
        assert_eq!(rates, [1, 300_000, 2_000_000, 1_000_000_000]);
        assert!(
            ["", "0", "K", "-1", "1T", "99999999999999G"].iter().all(|text| rate(text).is_err())
        );
    }
}
