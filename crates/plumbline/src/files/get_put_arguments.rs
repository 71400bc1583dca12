//! The arguments of `plumb get` and `plumb put`.

use super::ftp::{ConnectionOptions, TransferArguments};
use super::location::Location;
use crate::heading;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS,
    METERS, NETRC, QUOTES,
};
use crate::manual::{ManualNote, ManualPage};
use anyhow::{Context, bail};
use std::path::PathBuf;
use transfer::recorder::WriteOut;

/// Introduction of `plumb get --help`.
pub(crate) const GET_ABOUT: &str = "\
Download files by FTP or TFTP.

A file appears under its name only when it is complete. After an interrupt, a full disk or a \
timeout, an existing file of that name is unchanged. A partial download by FTP is saved as \
NAME.part, and --continue resumes it. Existing files are not replaced without --force. '-' is the \
standard output.";

/// Introduction of `plumb put --help`.
pub(crate) const PUT_ABOUT: &str = "\
Upload files by FTP or TFTP.

'-' is the standard input. If the URL has no name, or its name ends with '/', the name of the \
local file is appended. By FTP, the remote file gets the time of the local file if the server \
supports setting times.";

/// Manual page of `plumb get`.
pub(crate) const GET_PAGE: ManualPage = ManualPage {
    command: "get",
    examples: &[
        "plumb get ftp://ftp.example.net/pub/README",
        "plumb get 'ftpes://me@example.net/logs/*.gz' -o logs",
        "plumb get -r -j 4 ftp://example.net/pub/tree .",
        "plumb get --store c36 ftp://example.net/system.exe",
        "plumb get 'tftp://10.0.0.1/motd;mode=netascii' -",
    ],
    notes: &[QUOTES, WRITE_OUT],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
    files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
    see_also: &["put", "mirror", "ftp", "stats"],
};

/// Manual page of `plumb put`.
pub(crate) const PUT_PAGE: ManualPage = ManualPage {
    command: "put",
    examples: &[
        "plumb put -c image.iso ftpes://me@example.net/images/",
        "plumb put backup.cfg tftp://10.0.0.1/",
        "date | plumb put - 'tftp://10.0.0.1/date;mode=netascii'",
    ],
    notes: &[QUOTES, WRITE_OUT],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
    files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
    see_also: &["get", "mirror", "ftp", "stats"],
};

/// Variables of `--write-out`.
const WRITE_OUT: ManualNote = ManualNote::Text(
    "Variables of --write-out",
    "The names and meanings are those of curl: size_download, size_upload (bytes), speed_download, \
     speed_upload (bytes per second), time_namelookup, time_connect, time_appconnect (TLS), \
     time_starttransfer, time_total (seconds since the start of the transfer), response_code, \
     filename_effective (the local file) and url_effective.",
);

/// Arguments of `plumb get`.
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Sources, all on one host, then optionally the local file or directory [default: the last
    /// component of the name, in the current directory]. A source is ftp://user@host/name, ftpes://
    /// or ftps:// with TLS, or tftp://host/name. The host may be followed by :port, and a TFTP name
    /// by ;mode=netascii
    #[arg(value_name = "url", required = true)]
    pub(super) locations: Vec<Location>,
    /// Local file or directory to write to, instead of the last argument
    #[arg(short, long, value_name = "file")]
    pub(super) output: Option<PathBuf>,
    /// Write to the file named by the last component of the URL, which is the default
    #[arg(short = 'O', long = "remote-name", conflicts_with = "output")]
    _remote_name: bool,
    /// Replace existing files
    #[arg(short, long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) transfer: TransferArguments,
    /// FTP: number of segments of a file that are downloaded in parallel, each over its own session
    /// [default: 1]
    #[arg(long, value_name = "count", value_parser = clap::value_parser!(u32).range(1..=32),
          help_heading = heading::TRANSFER)]
    pub(super) segments: Option<u32>,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// Arguments of `plumb put`.
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    /// Local files, then the destination: ftp://user@host/name, ftpes:// or ftps:// with TLS, or
    /// tftp://host/name. The host may be followed by :port, and a TFTP name by ;mode=netascii
    #[arg(value_name = "file", num_args = 2.., required = true)]
    pub(super) locations: Vec<Location>,
    /// Replace existing remote files, which is the default. By FTP with --continue, also replace a
    /// remote file that is not the beginning of the local file
    #[arg(short, long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) transfer: TransferArguments,
    /// FTP: treatment of local links within directories that are sent with -r
    #[arg(long, value_name = "follow|skip", value_enum, default_value_t = Links::Follow,
          help_heading = heading::TRANSFER)]
    pub(super) links: Links,
    #[command(flatten)]
    pub(super) common: CommonOptions,
}

/// Treatment of links within directories that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Links {
    /// Send a link to a file as that file; skip a link to a directory
    Follow,
    /// Skip all links
    Skip,
}

/// Options of a transfer.
#[derive(Debug, clap::Args)]
pub(super) struct CommonOptions {
    /// Maximum rate in bytes per second; K, M and G mean thousands, millions and billions
    /// [default: unlimited]
    #[arg(long, value_name = "rate", value_parser = rate, help_heading = heading::TRANSFER)]
    pub(super) limit_rate: Option<u64>,
    /// Requested block size in bytes (RFC 2348) [default: 1428]
    #[arg(long, value_name = "bytes", value_parser = clap::value_parser!(u16).range(8..=65_464),
          help_heading = heading::TFTP)]
    pub(super) block_size: Option<u16>,
    /// Requested window size in blocks (RFC 7440) [default: 16]
    #[arg(long, value_name = "blocks", value_parser = clap::value_parser!(u16).range(1..),
          help_heading = heading::TFTP)]
    pub(super) window: Option<u16>,
    /// After each transfer, print this text with the values of %{variables}; \n and \t are escapes
    #[arg(short, long, value_name = "format", help_heading = heading::OUTPUT)]
    pub(super) write_out: Option<WriteOut>,
    #[command(flatten)]
    pub(super) connection: ConnectionOptions,
}

impl CommonOptions {
    /// Returns the first given option that the protocol of the URL does not have.
    fn option_of_other_protocol(
        &self,
        transfer: &TransferArguments,
        is_ftp: bool,
    ) -> Option<&'static str> {
        let tftp_options =
            [(self.block_size.is_some(), "--block-size"), (self.window.is_some(), "--window")];
        let connection = &self.connection;
        let ftp_options = [
            (transfer.data_type.is_some(), "--type"),
            (transfer.mode.is_some(), "--mode"),
            (transfer.stru.is_some(), "--stru"),
            (transfer.store.is_some(), "--store"),
            (transfer.continues, "--continue"),
            (transfer.recursive, "--recursive"),
            (transfer.no_keep_time, "--no-keep-time"),
            (transfer.jobs.is_some(), "--jobs"),
            (connection.user.is_some(), "--user"),
            (connection.ca.is_some(), "--ca"),
            (connection.insecure, "--insecure"),
            (transfer.no_clobber, "--no-clobber"),
            (connection.active, "--active"),
            (connection.tries.is_some(), "--tries"),
        ];
        let mut inapplicable_options =
            if is_ftp { tftp_options.iter() } else { ftp_options.iter() };
        inapplicable_options.find(|(is_given, _)| *is_given).map(|(_, name)| *name)
    }
}

/// Returns an error if `other` names an option that the protocol of the URL does not have.
fn reject_option(other: Option<&'static str>, is_ftp: bool) -> anyhow::Result<()> {
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
    /// Returns an error that names an option of a different protocol.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let segments = (self.segments.is_some() && !is_ftp).then_some("--segments");
        reject_option(
            segments.or_else(|| self.common.option_of_other_protocol(&self.transfer, is_ftp)),
            is_ftp,
        )
    }
}

impl Put {
    /// Like [`Get::check`].
    ///
    /// # Errors
    ///
    /// Returns an error that names an option of a different protocol.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let create_dirs = (self.transfer.create_dirs && !is_ftp).then_some("--create-dirs");
        let links = (self.links != Links::Follow && !is_ftp).then_some("--links");
        reject_option(
            links
                .or(create_dirs)
                .or_else(|| self.common.option_of_other_protocol(&self.transfer, is_ftp)),
            is_ftp,
        )
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
