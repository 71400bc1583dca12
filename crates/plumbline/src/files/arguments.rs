//! The arguments of `plumb get` and `plumb put`.

use super::ftp::{Moving, Reach};
use super::url::Url;
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::str::FromStr;

/// What `plumb get --help` says first.
pub(crate) const GET_ABOUT: &str = "\
Gets files from another host, by FTP or TFTP.

A file appears under its name when it is whole, never before; an interrupt, a full disk or a host \
that falls silent leaves what was there. What FTP has brought of it by then is kept as NAME.part, \
and --continue goes on with it. A file that exists is kept, unless \
--force is given. '-' stands for the standard output.";

/// What `plumb put --help` says first.
pub(crate) const PUT_ABOUT: &str = "\
Puts files on another host, by FTP or TFTP.

'-' stands for the standard input. A URL without a name, or whose name ends with '/', gets the \
file's own name behind it. By FTP a file gets the time of the one here, where the server sets \
times.";

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

Exit codes: 0 the file is there; 1 the far side cannot be reached, has no such file, refused, or
fell silent; 2 the arguments are wrong; 3 you ended it; 4 this machine cannot write the file or
refuses what is needed.";

const PUT_EXAMPLES: &str = "\
Examples:
  plumb put -c image.iso ftpes://me@example.net/images/
  plumb put backup.cfg tftp://10.0.0.1/
  date | plumb put - tftp://10.0.0.1/date;mode=netascii

Exit codes: 0 the far side has the file; 1 the far side cannot be reached, refused, or fell silent;
2 the arguments are wrong; 3 you ended it; 4 this machine cannot read the file or refuses what is
needed.";

/// Arguments of `plumb get`.
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct Get {
    /// From where: ftp://user@host/name, ftpes:// and ftps:// in TLS, or tftp://host/name; :port may
    /// follow the host, ;mode=netascii a name of TFTP; several of one host, and last to which file
    /// or folder [default: the name's last part, here]
    #[arg(value_name = "URL", required = true)]
    pub(super) places: Vec<Place>,
    /// To which file or folder, said the other way
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(short, long)]
    pub(super) force: bool,
    /// FTP: get the file in so many pieces at a time, each over a session of its own [default: 1]
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
    /// Which files, and last to where: ftp://user@host/name, ftpes:// and ftps:// in TLS, or
    /// tftp://host/name; :port may follow the host, ;mode=netascii a name of TFTP
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    pub(super) places: Vec<Place>,
    /// FTP: with --continue, replace a file that is not the beginning of the one here; without it, a
    /// file is replaced anyway
    #[arg(short, long)]
    pub(super) force: bool,
    /// FTP: what becomes of links here within folders that go by -r
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Links::Follow)]
    pub(super) links: Links,
    #[command(flatten)]
    pub(super) moving: Moving,
    #[command(flatten)]
    pub(super) how: How,
}

/// What becomes of links within folders that are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Links {
    /// A link to a file goes as that file; one to a folder does not go
    Follow,
    /// No link goes
    Skip,
}

/// A place here or on another host.
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

/// How a file is moved.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    #[command(flatten)]
    pub(super) reach: Reach,
    /// At most so many bytes a second; K, M and G stand for thousands, millions and billions
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) limit_rate: Option<u64>,
    /// TFTP: bytes of a block that are asked for (RFC 2348) [default: 1428]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(8..=65_464))]
    pub(super) block_size: Option<u16>,
    /// TFTP: blocks before an acknowledgment that are asked for (RFC 7440) [default: 16]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) window: Option<u16>,
}

impl How {
    /// Returns what is asked for that only the other protocol has.
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

/// Says so if something is asked for that the protocol of the URL does not have.
fn refuse(other: Option<&'static str>, is_ftp: bool) -> anyhow::Result<()> {
    match other {
        Some("--type") => bail!("TFTP has no --type: for text, say ;mode=netascii behind the name"),
        Some(name) => bail!("{} has no {name}", if is_ftp { "FTP" } else { "TFTP" }),
        None => Ok(()),
    }
}

impl Get {
    /// Checks that nothing is asked for which the protocol does not have.
    ///
    /// # Errors
    ///
    /// If there is, in a sentence.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let segments = (self.segments.is_some() && !is_ftp).then_some("--segments");
        refuse(segments.or_else(|| self.how.of_the_other(&self.moving, is_ftp)), is_ftp)
    }
}

impl Put {
    /// As for [`Get`].
    ///
    /// # Errors
    ///
    /// If there is, in a sentence.
    pub(super) fn check(&self, is_ftp: bool) -> anyhow::Result<()> {
        let links = (self.links != Links::Follow && !is_ftp).then_some("--links");
        let links = links.or((self.force && !is_ftp).then_some("--force"));
        refuse(links.or_else(|| self.how.of_the_other(&self.moving, is_ftp)), is_ftp)
    }
}

/// Reads `300K`.
pub(super) fn rate(text: &str) -> anyhow::Result<u64> {
    let (digits, factor) = match text.chars().last() {
        Some('k' | 'K') => (text.get(..text.len() - 1), 1_000),
        Some('m' | 'M') => (text.get(..text.len() - 1), 1_000_000),
        Some('g' | 'G') => (text.get(..text.len() - 1), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number = digits.and_then(|digits| digits.parse::<u64>().ok()).filter(|number| *number > 0);
    number.and_then(|number| number.checked_mul(factor)).with_context(|| {
        format!("'{}' is not a rate in bytes a second, like 300K", text.escape_debug())
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
