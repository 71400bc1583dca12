//! The arguments of `plumb measure`, and which of them go with which target.

use super::schedule::{Schedule, duration, large_size, size};
use super::target::Subject;
use crate::carry::{self, Family, Via};
use anyhow::{Result, bail};
use protocols::time::Duration;
use std::path::PathBuf;

/// What `plumb measure --help` says first.
pub(crate) const ABOUT: &str = "\
Measures a login, a server's files, a serial line or a recorded session, and says where its time \
goes and what limits it.

Of a login: the steps up to its prompt, the echo of a character and a screenful, split by layer. Of \
a file server: connection, TLS, login and command apart from the data, and the throughput against \
the size, of files that are there or, with --write, of files that are made and removed again. Of a \
recording: what is in it. Of a running plumb: what it does, by its meters. Beside them stand the six measures of RFC 573: rate, response, processor \
time, failures to connect, availability and accuracy. The last three need more than one try \
(--count, --for) and a known pattern (--pattern).";

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

Exit codes: 0 measured; 1 the far side cannot be reached, refused, or fell silent; 2 the arguments
are wrong; 3 nothing could be measured, or you ended it before; 4 this machine refuses what is
needed.";

/// Arguments of `plumb measure`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Host, host:port or telnet://host:port, where an IPv6 address before a port stands in
    /// brackets, and telnets:// in TLS; ftp://host/name, ftpes:// and ftps:// in TLS, and
    /// tftp://host/name, where a name that ends with / is a folder whose files are read;
    /// serial:DEVICE?baud=9600; FILE.cast, made by plumb login --record; pid:NUMBER, a plumb that
    /// runs here. Of several addresses the first that answers is measured
    pub(super) target: Subject,
    /// By which way: kernel, tun:NAME, tap:NAME, packet:INTERFACE,
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
    /// How many keys to measure the echo with
    #[arg(long, default_value_t = 200, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) keys: u32,
    /// Log in as this user where a name is asked for; without it, Return is pressed nowhere but
    /// in a shell. A file server's password comes from ~/.netrc too, or from PLUMB_FTP_PASSWORD
    #[arg(long, value_name = "USER")]
    pub(super) login: Option<String>,
    /// A file whose first line is the password; else the terminal is asked
    #[arg(long, value_name = "FILE", requires = "login")]
    pub(super) password_file: Option<PathBuf>,
    #[arg(long, env = "PLUMB_PASSWORD", hide_env_values = true, hide = true)]
    pub(super) password: Option<String>,
    /// How the shell's prompt ends, if not in one of '$ ', '# ', '% ' and '> '; several are
    /// separated by |
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// What to run in a shell for the screenful, if not a printf of 24 lines
    #[arg(long, value_name = "COMMAND")]
    pub(super) command: Option<String>,
    /// Trust the authorities of this file (PEM), and not the certificate of the first time
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// The largest transfer; those before it are 1K, 4K, 16K and so on, up to it
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    pub(super) bytes: u64,
    /// Also say how long a file of this size would take, as 700M or 10G, which is not moved
    #[arg(long, value_name = "SIZE", value_parser = large_size)]
    pub(super) foretell: Option<u64>,
    /// How often each size is transferred
    #[arg(long, value_name = "TIMES", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Write files into the folder that the URL names, read them back, and remove them; by TFTP,
    /// which cannot remove, one file stays, of the name in the URL or plumb-measure
    #[arg(long)]
    pub(super) write: bool,
    /// Count wrong bits, bytes, blocks and files of a known pattern: of what --write has written,
    /// or of what was typed at a login, as many characters as there are keys
    #[arg(long)]
    pub(super) pattern: bool,
    /// Try so often; the first try that succeeds measures, the others only ask whether it can be
    /// used
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(super) count: Option<u64>,
    /// From the beginning of one try to that of the next, as 500ms, 60s or 5m; 60s unless said
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) every: Option<Duration>,
    /// Try for so long, as 30m or 24h; a running plumb is looked at for so long, 2s unless said
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(super) length: Option<Duration>,
    /// Seconds in which the connection must stand, and in which something must come where
    /// something is waited for
    #[arg(long, default_value_t = carry::DEFAULT_TIMEOUT.as_secs(), value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) timeout: u64,
}

impl Arguments {
    /// Returns when the target is tried.
    ///
    /// # Errors
    ///
    /// If the arguments do not go together, in a sentence.
    pub(super) fn schedule(&self) -> Result<Schedule> {
        let is_series = self.count.is_some() || self.every.is_some() || self.length.is_some();
        let is_of_files = matches!(self.target, Subject::Files(_));
        match &self.target {
            _ if self.foretell.is_some() && !is_of_files => {
                bail!("--foretell is for files: name a server of them")
            }
            Subject::Recording(_) if self.write || self.pattern => {
                bail!("a recording can only be read: leave --write and --pattern out")
            }
            Subject::Recording(_) if is_series => {
                bail!("a recording is always the same: leave --count, --every and --for out")
            }
            Subject::Recording(_) | Subject::Line(_) | Subject::Running(_)
                if self.via != Via::Kernel =>
            {
                bail!("only hosts have a network between: leave --via out")
            }
            Subject::Running(_) if self.write || self.pattern => {
                bail!("a running plumb is only looked at: leave --write and --pattern out")
            }
            Subject::Running(_) if self.count.is_some() || self.every.is_some() => {
                bail!("a running plumb is looked at once: say how long by --for")
            }
            Subject::Running(_) => Schedule::new(None, None, None),
            Subject::Login { .. } | Subject::Line(_) if self.write => {
                bail!("--write is for files: a login has none")
            }
            Subject::Files(_) if self.pattern && !self.write => {
                bail!("--pattern needs --write: what a server's own files hold is not known")
            }
            _ => Schedule::new(self.count, self.every, self.length),
        }
    }
}
