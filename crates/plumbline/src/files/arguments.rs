//! The arguments of `plumb get` and `plumb put`.

use super::url::Url;
use crate::carry::{Family, Via};
use anyhow::Context;
use std::path::PathBuf;

/// What `plumb get --help` says first.
pub(crate) const GET_ABOUT: &str = "\
Gets a file from another host.

The file appears under its name when it is whole and on the disk, never before; an interrupt, a \
full disk or a host that falls silent leaves what was there. A file that exists is kept, unless \
--force is given. '-' stands for the standard output.";

/// What `plumb put --help` says first.
pub(crate) const PUT_ABOUT: &str = "\
Puts a file on another host.

'-' stands for the standard input. A URL without a name, or whose name ends with '/', gets the \
file's own name behind it.";

const GET_EXAMPLES: &str = "\
Examples:
  plumb get tftp://10.0.0.1/vmlinuz
  plumb get tftp://10.0.0.1/motd;mode=netascii -
  plumb get --window 64 tftp://[2001:db8::1]/image.bin image.bin

Exit codes: 0 the file is there; 1 the far side cannot be reached, has no such file, refused, or
fell silent; 2 the arguments are wrong; 3 you ended it; 4 this machine cannot write the file or
refuses what is needed.";

const PUT_EXAMPLES: &str = "\
Examples:
  plumb put backup.cfg tftp://10.0.0.1/
  date | plumb put - tftp://10.0.0.1/date;mode=netascii

Exit codes: 0 the far side has the file; 1 the far side cannot be reached, refused, or fell silent;
2 the arguments are wrong; 3 you ended it; 4 this machine cannot read the file or refuses what is
needed.";

/// Arguments of `plumb get`.
#[derive(Debug, clap::Args)]
#[command(after_help = GET_EXAMPLES)]
pub(crate) struct Get {
    /// From where: tftp://host/name; :port and ;mode=netascii may follow host and name
    #[arg(value_name = "URL")]
    pub(super) url: Url,
    /// To which file or folder [default: the name's last part, here]
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// To which file or folder, said the other way
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    pub(super) output: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(short, long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) how: How,
}

/// Arguments of `plumb put`.
#[derive(Debug, clap::Args)]
#[command(after_help = PUT_EXAMPLES)]
pub(crate) struct Put {
    /// Which file
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// To where: tftp://host/name; :port and ;mode=netascii may follow host and name
    #[arg(value_name = "URL")]
    pub(super) url: Url,
    #[command(flatten)]
    pub(super) how: How,
}

/// How a file is moved.
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// What carries it: kernel, tun:NAME, tap:NAME or packet:INTERFACE, as for login
    #[arg(long, default_value = "kernel")]
    pub(super) via: Via,
    #[command(flatten)]
    pub(super) family: Family,
    /// At most so many bytes a second; K, M and G stand for thousands, millions and billions
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(super) limit_rate: Option<u64>,
    /// Bytes of a block that are asked for (RFC 2348)
    #[arg(long, value_name = "BYTES", default_value_t = 1428,
          value_parser = clap::value_parser!(u16).range(8..=65_464))]
    pub(super) block_size: u16,
    /// Blocks before an acknowledgment that are asked for (RFC 7440)
    #[arg(long, value_name = "BLOCKS", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) window: u16,
    /// Give up when nothing has been heard for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 25,
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(super) timeout: u32,
    /// Say the result as JSON, on the standard output unless the file goes there
    #[arg(long)]
    pub(super) json: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Reads `300K`.
fn rate(text: &str) -> anyhow::Result<u64> {
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
