//! The servers that are measured, and the life of one.
//!
//! Every server is a program with the same face, so that whatever speaks it can be measured:
//!
//! ```text
//! SERVER --attach tun:NAME|packet:INTERFACE|kernel --address A --mode sink|source|echo
//!        [--mtu BYTES] [--buffers BYTES] [--connections N] [--spin]
//! ```
//!
//! The project's own two have further modes, for datagrams, and ours has further arguments.
//!
//! It answers TCP on port 7000 of the address, which is in a network of 24 bits; takes what comes,
//! sends without end, or sends back what comes; prints `ready` when it can be called; and when
//! its standard input ends, it prints the processor time that it has used, in seconds, and ends.

use super::network::{self, Attachment, MTU_BYTES, Networks};
use anyhow::{Context, Result, bail, ensure};
use os::clock::Monotonic;
use os::process::Program;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::schedule;
use protocols::time::Duration;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

/// Every server listens here.
pub(super) const PORT: u16 = 7000;
/// Longest time until a server is ready, and until it has ended.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is measured: a program and how it is started.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    /// For `--only`; the part before the first hyphen is whose it is.
    pub(super) name: &'static str,
    /// For the tables.
    pub(super) label: &'static str,
    /// The program and its first arguments.
    pub(super) command: Vec<PathBuf>,
    /// How it is attached to the client.
    pub(super) attachment: Attachment,
    /// Further arguments.
    pub(super) arguments: &'static [&'static str],
    /// Whether it can spin.
    pub(super) can_spin: bool,
    /// Tells its interface and its address from those of the others.
    pub(super) number: u8,
}

/// What a server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// It takes what comes.
    Sink,
    /// It sends without end.
    Source,
    /// It sends back what comes.
    Echo,
    /// It takes datagrams, and says how many have come.
    DatagramSink,
    /// It sends a burst of datagrams for each that comes.
    DatagramSource,
}

impl Mode {
    /// Returns the argument of `--mode`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Source => "source",
            Self::Echo => "echo",
            Self::DatagramSink => "datagram-sink",
            Self::DatagramSource => "datagram-source",
        }
    }

    /// Reads the argument of `--mode`.
    pub(super) fn named(name: &str) -> Option<Self> {
        let streams = [Self::Sink, Self::Source, Self::Echo];
        let datagrams = [Self::DatagramSink, Self::DatagramSource];
        streams.into_iter().chain(datagrams).find(|mode| mode.name() == name)
    }

    /// Returns whether it is about datagrams and not about connections.
    pub(super) fn is_of_datagrams(self) -> bool {
        matches!(self, Self::DatagramSink | Self::DatagramSource)
    }
}

/// How a server is to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// What it does with a connection.
    pub(super) mode: Mode,
    /// For how many connections it must have room.
    pub(super) connections: usize,
    /// Whether it never sleeps.
    pub(super) spins: bool,
    /// Further arguments.
    pub(super) arguments: &'static [&'static str],
}

impl Manner {
    /// One connection, or one flow of datagrams, and the server sleeps when there is nothing to do.
    pub(super) const fn of(mode: Mode) -> Self {
        Self { mode, connections: 1, spins: false, arguments: &[] }
    }
}

/// A server that is ready.
#[derive(Debug)]
pub(super) struct Server {
    program: Program,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
    spins: bool,
}

impl Server {
    /// Starts the program of `contender` and waits until it is ready.
    pub(super) fn start(
        contender: &Contender,
        manner: Manner,
        networks: &Networks,
    ) -> Result<Self> {
        let mut command = command(contender, manner)?;
        let started = networks.within(contender.attachment, || Ok(Program::start(&mut command)?));
        let mut program = started.with_context(|| format!("cannot start {}", contender.name))?;
        let output = program.child().stdout.take().context("its output is no pipe")?;
        let address = (network::server_address(contender.number), PORT).into();
        let (output, spins) = (BufReader::new(output), manner.spins);
        let mut server = Self { program, output, address, spins };
        let line = server.line()?;
        ensure!(line == "ready", "{} says '{line}' and not that it is ready", contender.name);
        network::wait_until_running(contender.number)?;
        Ok(server)
    }

    /// Returns its process id.
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Returns where it can be called.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the processor time that it has used, in nanoseconds.
    pub(super) fn processor_ns(&self) -> Result<u64> {
        let used = schedule::processor_time(self.program.id()).context("the server has gone")?;
        Ok(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the memory that it has in use (`VmRSS`), in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.id()))?;
        resident_bytes_in(&status).context("the server has no VmRSS")
    }

    /// Ends it. What it says of its processor time is not used: that was read when it mattered.
    pub(super) fn stop(mut self) -> Result<()> {
        if self.spins {
            // Nothing else in it gets a turn to see the end of standard input: a signal ends it.
            return Ok(());
        }
        drop(self.program.child().stdin.take());
        let line = self.line()?;
        let _: f64 = line.parse().with_context(|| format!("'{line}' is no time"))?;
        self.program.wait_for_end(PATIENCE)?.context("the server does not end")?;
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let clock = Monotonic::start();
        let mut descriptors = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        if wait(&mut descriptors, &clock, Some(clock.now() + PATIENCE))? == Wake::Deadline {
            bail!("the server says nothing for {} s", PATIENCE.as_secs());
        }
        let mut line = String::new();
        self.output.by_ref().take(256).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the server has ended");
        Ok(line.trim().to_owned())
    }
}

fn command(contender: &Contender, manner: Manner) -> Result<Command> {
    let (program, first) = contender.command.split_first().context("there is no program")?;
    let mut command = Command::new(program);
    let attach = network::attach_argument(contender.number, contender.attachment);
    command.args(first).args(["--attach", &attach]);
    command.args(["--address", &network::server_address(contender.number).to_string()]);
    command.args(["--mode", manner.mode.name(), "--mtu", &MTU_BYTES.to_string()]);
    command.args(contender.arguments).args(manner.arguments);
    if manner.connections > 1 {
        // An idle connection shall not have more room than it needs; the last word counts.
        command.args(["--buffers", "4096", "--connections", &manner.connections.to_string()]);
    }
    if manner.spins {
        command.arg("--spin");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Reads /proc/PID/status.
fn resident_bytes_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_in_use_is_read_in_bytes() {
        assert_eq!(resident_bytes_in("VmHWM:\t 9 kB\nVmRSS:\t  1250 kB\n"), Some(1_280_000));
        assert_eq!(resident_bytes_in("VmSize:\t 9 kB\n"), None);
    }

    #[test]
    fn a_mode_is_found_by_its_name() {
        assert_eq!(Mode::named("source"), Some(Mode::Source));
        assert_eq!(Mode::named("datagram-sink"), Some(Mode::DatagramSink));
        assert_eq!(Mode::named("drain"), None);
    }
}
