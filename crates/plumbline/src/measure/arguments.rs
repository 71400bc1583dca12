//! Arguments of `plumb measure`, and their valid combinations with each kind of target.

use crate::address_families::AddressFamilyOptions;
use crate::heading;
use crate::manual::ManualPage;
use crate::manual::entries::{KNOWN_HOSTS, LOGIN_VARIABLES, METERS, NETRC, REPORT_VARIABLES};
use anyhow::{Context, Result, bail};
use carrier::{self, Route};
use measure::{FOLLOW_INTERVAL, LoginTarget, MeasureTarget, ProgramTarget, Schedule, TRIES_MAX};
use measure::{duration, large_size, schedule, size};
use net::time::Duration;
use std::path::PathBuf;

/// Introduction of `plumb measure --help`.
pub(crate) const ABOUT: &str = "\
Measure a login, a server's files, a serial line, a program or a recorded session, and report \
where its time goes and what limits it.

For a login, plumb measures the steps up to its prompt, the echo of a character and a screenful, \
and splits each time by layer. For a file server, it measures the connection, TLS, the login, the \
commands and the data, and reports the throughput by file size. The files are existing files or, \
with --write, files that are created and removed again. For a recording, it measures the recorded \
session. For a running plumb, it reports the activity of the process from its meters.

The first line is OK, SLOW or FAILED, with the time that a user notices. A bar shows where this \
time is spent, and a remedy follows. --verbose prints all tables.

--rfc573 prints the six measures of RFC 573: rate, response, processor time, failures to connect, \
availability and accuracy. Failures to connect and availability need more than one try (--tries, \
--for). Accuracy needs a known pattern (--pattern).";

/// Manual page of `plumb measure`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "measure",
    examples: &[
        "plumb measure host",
        "plumb measure --user me --html report.html telnets://host",
        "plumb measure --bytes 4M --estimate 10G ftp://ftp.example.net/pub/image.iso",
        "plumb measure --exec 'ssh host'",
        "plumb measure --compare 'ssh host' 'mosh host' 'plumb login --predict never host'",
    ],
    notes: &[],
    exit_status: &[
        (0, "Measured"),
        (1, "Remote host failed in any try: unknown, unreachable, refused or reset, or timed out"),
        (2, "Invalid arguments"),
        (3, "Nothing measured"),
        (4, "Local error, such as permission denied"),
        (130, "Interrupted (SIGINT); the report has what was measured until then"),
    ],
    environment: &[
        &[
            ("PLUMB_PASSWORD", "Password of --user at a login prompt"),
            ("PLUMB_FTP_PASSWORD", "Password for the FTP server, if the URL has none"),
            ("NETRC", "File with user names and passwords [default: ~/.netrc]"),
        ],
        LOGIN_VARIABLES,
        REPORT_VARIABLES,
    ],
    files: &[NETRC, KNOWN_HOSTS, METERS],
    see_also: &["login", "get", "meters", "demo"],
};

/// Arguments of `plumb measure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Host, URL, serial:DEVICE, recording (FILE.cast), or running plumb (pid:NUMBER)
    ///
    /// A login by Telnet is host, host:port or telnet://host:port; telnets:// adds TLS. An IPv6
    /// address before a port is in brackets. If a host has several addresses, the first that
    /// answers is measured. Files are ftp://host/name, or tftp://host/name; ftpes:// and ftps://
    /// add TLS. If the name ends with /, it is a directory whose files are read. A login on a
    /// serial line is serial:DEVICE?baud=9600. plumb login --record writes a recording. pid:NUMBER
    /// is a plumb that runs on this machine.
    #[arg(value_name = "target", required_unless_present_any = ["exec", "compare"])]
    target: Option<MeasureTarget>,
    /// A port as in telnet HOST PORT, which only leads to a hint.
    #[arg(hide = true, value_name = "port")]
    port: Option<String>,
    /// A port as in ssh -p PORT HOST, which only leads to a hint.
    #[arg(short = 'p', long = "port", hide = true, value_name = "port", conflicts_with = "port")]
    port_option: Option<String>,
    /// Measure this program on a pseudo-terminal, such as 'ssh host'
    ///
    /// The program and its arguments are one word of the shell. They are split by the quoting rules
    /// of a shell; variables and patterns are not expanded. Examples are ssh, mosh, kubectl exec
    /// and the tools of serial lines.
    #[arg(long, value_name = "command", conflicts_with = "target")]
    exec: Option<ProgramTarget>,
    /// Measure these programs, at least two, in turn, --rounds times each, and print them side by
    /// side
    ///
    /// A program that predicts echoes, such as mosh and plumb login, displays a key before the host
    /// has echoed it. Use plumb login --predict never to compare hosts.
    #[arg(long, value_name = "command", num_args = 2..,
          conflicts_with_all = ["target", "exec", "verbose", "rfc573"])]
    pub(super) compare: Vec<ProgramTarget>,
    /// Compare data with a known pattern, and count wrong bits, bytes, blocks and files. The data
    /// is the files written by --write, or the echo of typed characters; --keys specifies their
    /// number
    #[arg(long)]
    pub(super) pattern: bool,

    /// Log in as this user at a login prompt; without this option, plumb presses Return only at a
    /// shell prompt. The password of a file server may also come from ~/.netrc or
    /// PLUMB_FTP_PASSWORD
    #[arg(long = "user", alias = "login", value_name = "name", help_heading = heading::LOGIN)]
    pub(super) login: Option<String>,
    /// File whose first line is the password [default: a prompt on the terminal]
    #[arg(long, value_name = "file", help_heading = heading::LOGIN)]
    pub(super) password_file: Option<PathBuf>,
    /// A password that all users of this machine could read, which only leads to a hint.
    #[arg(long, hide = true, value_name = "password")]
    password: Option<String>,
    /// Endings of the shell's prompt, separated by | [default: $, #, % and >, each with a space
    /// after it]
    #[arg(long, value_name = "text", help_heading = heading::LOGIN)]
    pub(super) prompt: Option<String>,
    /// Command that prints the screenful in a shell [default: a printf of 24 lines]
    #[arg(long, value_name = "command", help_heading = heading::LOGIN)]
    pub(super) command: Option<String>,
    /// Number of keys whose echo is measured [default: 200; if these take more than 30 seconds,
    /// fewer, but at least 20; with --follow 20]
    #[arg(long, value_name = "count", value_parser = clap::value_parser!(u32).range(1..=100_000),
          help_heading = heading::LOGIN)]
    pub(super) keys: Option<u32>,

    /// Size of the largest transfer; the smaller ones are 1K, 4K, 16K and so on
    #[arg(long, value_name = "size", default_value = "16M", value_parser = size,
          help_heading = heading::TRANSFER)]
    pub(super) bytes: u64,
    /// Number of transfers of each size; for --compare, number of measurements of each program
    #[arg(long, value_name = "count", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000),
          help_heading = heading::TRANSFER)]
    pub(super) rounds: u32,
    /// Write files into the directory of the URL, read them back, and remove them. TFTP cannot
    /// remove files, so one file remains. Its name is the name in the URL, or plumb-measure
    #[arg(long, help_heading = heading::TRANSFER)]
    pub(super) write: bool,
    /// Also predict the transfer time of a file of this size, such as 700M or 10G, without a
    /// transfer
    #[arg(long, alias = "foretell", value_name = "size", value_parser = large_size,
          help_heading = heading::TRANSFER)]
    pub(super) estimate: Option<u64>,

    /// Number of tries. The first one that succeeds performs the measurement, and the others only
    /// measure the echo of ten keys, after a login with --user, or the connection to a file server.
    /// Each try is one line of output [default: 1, or as many as --for allows]
    #[arg(long = "tries", alias = "count", value_name = "count",
          value_parser = clap::value_parser!(u64).range(1..=100_000),
          help_heading = heading::SERIES)]
    pub(super) count: Option<u64>,
    /// Interval between the starts of two tries, such as 500ms, 60s or 5m [default: 60s; with --for
    /// its share of --tries, or a tenth of it, from 1s to 60s]
    #[arg(long, value_name = "duration", value_parser = duration, help_heading = heading::SERIES)]
    pub(super) every: Option<Duration>,
    /// Total duration of the tries, such as 30m or 24h, which includes the first measurement. For a
    /// running plumb: the observation time [default: 2s]
    #[arg(long = "for", value_name = "duration", value_parser = duration,
          help_heading = heading::SERIES)]
    pub(super) length: Option<Duration>,

    /// Try until an interrupt, and display the tries on the whole terminal: the last one, the times
    /// of the recent ones, and the parts of an echo. The key q ends the tries. The default of --every
    /// is 1s
    #[arg(long, conflicts_with_all = ["count", "length"], help_heading = heading::SERIES)]
    pub(super) follow: bool,

    /// Route to the target, as for login
    #[arg(long, value_name = "kernel|tun:name|tap:name|packet:interface|serial:device",
          default_value = "kernel", help_heading = heading::CONNECTION)]
    pub(super) via: Route,
    #[command(flatten)]
    pub(super) family: AddressFamilyOptions,
    /// Timeout in seconds for opening the connection, and for any expected data
    #[arg(long, default_value_t = carrier::DEFAULT_TIMEOUT.as_secs(), value_name = "seconds",
          value_parser = clap::value_parser!(u64).range(1..=86_400),
          help_heading = heading::CONNECTION)]
    pub(super) timeout: u64,
    /// Trust the certificate authorities in this file (PEM) instead of the first certificate seen
    #[arg(long, value_name = "file", help_heading = heading::TLS)]
    pub(super) ca: Option<PathBuf>,

    /// Print all tables, and each time split by layer
    #[arg(short, long, help_heading = heading::OUTPUT)]
    pub(super) verbose: bool,
    /// Print the six measures of RFC 573
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(super) rfc573: bool,
    /// Write the record as JSON
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(super) json: bool,
    /// Also write a report to this HTML file
    #[arg(long, value_name = "file", help_heading = heading::OUTPUT)]
    pub(super) html: Option<PathBuf>,
}

impl Arguments {
    /// Returns the target; for --compare, the first program.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub(super) fn target(&self) -> Result<MeasureTarget> {
        let program = self.exec.as_ref().or(self.compare.first());
        let program = program.map(|one| MeasureTarget::Login(LoginTarget::Program(one.clone())));
        program.or_else(|| self.target.clone()).context("no target")
    }

    /// Checks the credentials, and the programs of --compare.
    ///
    /// # Errors
    ///
    /// Returns an error with an explanation.
    fn check_login(&self, target: &MeasureTarget) -> Result<()> {
        if self.password.is_some() {
            bail!(
                "every user of this machine can read a password in the arguments: use \
                 --password-file, or the variable PLUMB_PASSWORD"
            );
        }
        let has_user = self.login.is_some() || target.login_user().is_some();
        let is_of_files = matches!(target, MeasureTarget::Files(url) if url.login.user.is_some());
        if self.password_file.is_some() && !has_user && !is_of_files {
            bail!("--password-file requires --user, or user@host as the target");
        }
        match self.compare.iter().find_map(ProgramTarget::as_host) {
            Some(host) => bail!(
                "--compare takes commands, and there is no program '{host}': use 'plumb login \
                 {host} --predict never'"
            ),
            None => Ok(()),
        }
    }

    /// Returns the schedule of the tries.
    ///
    /// # Errors
    ///
    /// Returns an error with an explanation if the arguments are incompatible.
    pub(super) fn schedule(&self) -> Result<Schedule> {
        let has_end = self.count.is_some() || self.length.is_some();
        let is_series = has_end || self.every.is_some() || self.follow;
        let target = self.target()?;
        if let Some(port) = &self.port_option {
            bail!("the port is a part of the target: use plumb measure {target}:{port}");
        }
        if let Some(port) = &self.port {
            let example = format!("{target}:{port}");
            let hint = match example.parse::<MeasureTarget>() {
                Ok(_) => format!("for a port, use plumb measure {example}"),
                Err(_) => format!("to measure a program, use --exec '{target} {port}'"),
            };
            bail!("only one target can be measured: {hint}");
        }
        self.check_login(&target)?;
        let is_of_files = matches!(target, MeasureTarget::Files(_));
        match &target {
            _ if is_series && !self.compare.is_empty() => {
                bail!("--tries, --every and --for do not apply to --compare: use --rounds")
            }
            _ if self.estimate.is_some() && !is_of_files => {
                bail!("--estimate requires a file server as its target")
            }
            MeasureTarget::Recording(_) if self.write || self.pattern => {
                bail!("--write and --pattern do not apply to a recording: omit them")
            }
            MeasureTarget::Recording(_) if is_series => {
                bail!("--tries, --every and --for do not apply to a recording: omit them")
            }
            MeasureTarget::Recording(_)
            | MeasureTarget::Login(LoginTarget::Line(_) | LoginTarget::Program(_))
            | MeasureTarget::Running(_)
                if self.via != Route::Kernel =>
            {
                bail!("--via applies only to hosts: omit it")
            }
            MeasureTarget::Running(_) if self.write || self.pattern => {
                bail!("--write and --pattern do not apply to a running plumb: omit them")
            }
            MeasureTarget::Running(_)
                if self.count.is_some() || self.every.is_some() || self.follow =>
            {
                bail!("a running plumb is observed once: use --for instead of --tries and --every")
            }
            MeasureTarget::Running(_) => schedule(None, None, None),
            MeasureTarget::Login(_) if self.write => {
                bail!("--write requires a file server as its target")
            }
            MeasureTarget::Files(_) if self.pattern && !self.write => {
                bail!(
                    "--pattern requires --write: the content of the server's own files is unknown"
                )
            }
            _ if self.follow => {
                schedule(Some(TRIES_MAX), self.every.or(Some(FOLLOW_INTERVAL)), None)
            }
            _ => schedule(self.count, self.every, self.length),
        }
    }
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

    fn arguments(line: &str) -> Arguments {
        let words = ["measure"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().arguments
    }

    #[test]
    fn earlier_spellings_are_still_accepted() {
        for line in ["--user me --tries 2 host", "--login me --count 2 host"] {
            let parsed = arguments(line);
            assert_eq!((parsed.login.as_deref(), parsed.count), (Some("me"), Some(2)), "{line}");
        }
        for option in ["--estimate", "--foretell"] {
            let parsed = arguments(&format!("{option} 10G ftp://host/file"));
            assert_eq!(parsed.estimate, Some(10 << 30), "{option}");
            assert!(parsed.schedule().is_ok(), "{option}");
        }
    }

    #[test]
    fn a_port_as_a_second_word_leads_to_a_hint() {
        let error = arguments("host 2323").schedule().unwrap_err().to_string();
        assert_eq!(
            error,
            "only one target can be measured: for a port, use plumb measure host:2323"
        );
        let error = arguments("host other").schedule().unwrap_err().to_string();
        assert!(error.ends_with("use --exec 'host other'"), "{error}");
        let error = arguments("-p 2323 host").schedule().unwrap_err().to_string();
        assert_eq!(error, "the port is a part of the target: use plumb measure host:2323");
    }

    #[test]
    fn a_password_in_the_arguments_is_rejected_with_the_safe_ways() {
        let error = arguments("--user me --password secret host").schedule().unwrap_err();
        let text = error.to_string();
        assert!(text.contains("use --password-file") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn a_password_file_requires_a_user_who_may_be_a_part_of_the_target() {
        let schedule = |line: &str| arguments(line).schedule();
        for line in [
            "--password-file f --user me host",
            "--password-file f me@host",
            "--password-file f ftp://me@host/a",
        ] {
            assert!(schedule(line).is_ok(), "{line}");
        }
        let error = schedule("--password-file f host").unwrap_err().to_string();
        assert_eq!(error, "--password-file requires --user, or user@host as the target");
    }

    #[test]
    fn a_host_as_a_compared_program_leads_to_a_command() {
        let line = "--compare 192.0.2.1 192.0.2.1:2323";
        let error = arguments(line).schedule().unwrap_err().to_string();
        assert!(error.ends_with("use 'plumb login 192.0.2.1 --predict never'"), "{error}");
        assert!(arguments("--compare sh /bin/sh").schedule().is_ok());
    }

    #[test]
    fn an_estimate_requires_a_file_server() {
        let error = arguments("--estimate 10G host").schedule().unwrap_err();
        assert_eq!(error.to_string(), "--estimate requires a file server as its target");
    }
}
