//! Arguments of `plumb measure`, and their valid combinations with each kind of target.

use super::schedule::{Schedule, duration, large_size, size};
use super::target::Subject;
use crate::carry::{self, Family, Via};
use anyhow::{Result, bail};
use protocols::time::Duration;
use std::path::PathBuf;

/// Introduction of `plumb measure --help`.
pub(crate) const ABOUT: &str = "\
Measure a login, a server's files, a serial line or a recorded session, and report where its time \
goes and what limits it.

For a login: the steps up to its prompt, the echo of a character and a screenful, split by layer. \
For a file server: connection, TLS, login and command separately from the data, and the throughput \
by file size, of existing files or, with --write, of files that are created and removed again. For \
a recording: its content. For a running plumb: its activity, from its meters. The report also has \
the six metrics of RFC 573: rate, response, processor time, failures to connect, availability and \
accuracy. The last three need more than one try (--count, --for) and a known pattern (--pattern).";

const EXAMPLES: &str = "\
Examples:
  plumb measure host
  plumb measure --login me --html report.html telnets://host
  plumb measure ftp://ftp.example.net/pub/image.iso
  plumb measure --write --pattern ftpes://me@example.net/incoming/
  plumb measure tftp://10.0.0.1/vmlinuz
  plumb measure --bytes 4M --foretell 10G ftp://ftp.example.net/pub/image.iso
  plumb measure --pattern serial:/dev/ttyUSB0?baud=115200
  plumb measure session.cast
  plumb measure --for 10s pid:4711
  plumb measure --every 60s --for 1h --json host

Exit codes: 0 measured; 1 remote host unreachable, unknown, refused, reset the connection or timed
out; 2 invalid arguments; 3 nothing measured, or interrupted; 4 local error.";

/// Arguments of `plumb measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Host, host:port or telnet://host:port, with an IPv6 address before a port in brackets, and
    /// telnets:// with TLS; ftp://host/name, ftpes:// and ftps:// with TLS, and tftp://host/name,
    /// where a name that ends with / is a directory whose files are read; serial:DEVICE?baud=9600;
    /// FILE.cast, recorded by plumb login --record; pid:NUMBER, a plumb that runs on this machine.
    /// Of several addresses the first that answers is measured
    pub(super) target: Subject,
    /// Route to the target: kernel, tun:NAME, tap:NAME, packet:INTERFACE,
    /// serial:DEVICE?baud=19200&link=llp
    #[arg(long, default_value = "kernel", value_name = "WAY")]
    pub(super) via: Via,
    #[command(flatten)]
    pub(super) family: Family,
    /// Write the record as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Number of keys for the measurement of the echo
    #[arg(long, default_value_t = 200, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) keys: u32,
    /// Log in as this user at a login prompt; without it, Return is pressed only in a shell. The
    /// password of a file server may also come from ~/.netrc or PLUMB_FTP_PASSWORD
    #[arg(long, value_name = "USER")]
    pub(super) login: Option<String>,
    /// File whose first line is the password; by default plumb asks on the terminal
    #[arg(long, value_name = "FILE", requires = "login")]
    pub(super) password_file: Option<PathBuf>,
    #[arg(long, env = "PLUMB_PASSWORD", hide_env_values = true, hide = true)]
    pub(super) password: Option<String>,
    /// Endings of the shell's prompt, separated by |, if it does not end with '$ ', '# ', '% ' or
    /// '> '
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// Command for the screenful in a shell, instead of a printf of 24 lines
    #[arg(long, value_name = "COMMAND")]
    pub(super) command: Option<String>,
    /// Trust the certificate authorities in this file (PEM) instead of the first certificate seen
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// Size of the largest transfer; the smaller ones are 1K, 4K, 16K and so on
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    pub(super) bytes: u64,
    /// Also predict the transfer time of a file of this size, such as 700M or 10G, without a
    /// transfer
    #[arg(long, value_name = "SIZE", value_parser = large_size)]
    pub(super) foretell: Option<u64>,
    /// Number of transfers of each size
    #[arg(long, value_name = "TIMES", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Write files into the directory of the URL, read them back, and remove them; TFTP cannot
    /// remove, so one file remains, with the name in the URL or plumb-measure
    #[arg(long)]
    pub(super) write: bool,
    /// Count wrong bits, bytes, blocks and files of a known pattern: of the files that --write has
    /// written, or of the echo of as many typed characters as there are keys
    #[arg(long)]
    pub(super) pattern: bool,
    /// Number of tries; the first that succeeds performs the measurement, the others only test
    /// whether the target is usable
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) count: Option<u64>,
    /// Interval between the starts of two tries, such as 500ms, 60s or 5m; 60s by default
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) every: Option<Duration>,
    /// Duration of the tries, such as 30m or 24h; for a running plumb the observation time, 2s by
    /// default
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(super) length: Option<Duration>,
    /// Timeout in seconds for opening the connection, and for any expected data
    #[arg(long, default_value_t = carry::DEFAULT_TIMEOUT.as_secs(), value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,
}

impl Arguments {
    /// Returns the schedule of the tries.
    ///
    /// # Errors
    ///
    /// Returns an error with an explanation if the arguments are incompatible.
    pub(super) fn schedule(&self) -> Result<Schedule> {
        let is_series = self.count.is_some() || self.every.is_some() || self.length.is_some();
        let is_of_files = matches!(self.target, Subject::Files(_));
        match &self.target {
            _ if self.foretell.is_some() && !is_of_files => {
                bail!("--foretell requires a file server as its target")
            }
            Subject::Recording(_) if self.write || self.pattern => {
                bail!("--write and --pattern do not apply to a recording: omit them")
            }
            Subject::Recording(_) if is_series => {
                bail!("--count, --every and --for do not apply to a recording: omit them")
            }
            Subject::Recording(_) | Subject::Line(_) | Subject::Running(_)
                if self.via != Via::Kernel =>
            {
                bail!("--via applies only to hosts: omit it")
            }
            Subject::Running(_) if self.write || self.pattern => {
                bail!("--write and --pattern do not apply to a running plumb: omit them")
            }
            Subject::Running(_) if self.count.is_some() || self.every.is_some() => {
                bail!("a running plumb is observed once: use --for instead of --count and --every")
            }
            Subject::Running(_) => Schedule::new(None, None, None),
            Subject::Login { .. } | Subject::Line(_) if self.write => {
                bail!("--write requires a file server as its target")
            }
            Subject::Files(_) if self.pattern && !self.write => {
                bail!(
                    "--pattern requires --write: the content of the server's own files is unknown"
                )
            }
            _ => Schedule::new(self.count, self.every, self.length),
        }
    }
}
