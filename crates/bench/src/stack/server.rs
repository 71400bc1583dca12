//! The measured servers: command line, start and stop.
//!
//! Every server is a program with the same interface, so that any program with this interface can
//! be measured:
//!
//! ```text
//! SERVER --attach tun:NAME|packet:INTERFACE|kernel --address A --mode sink|source|echo
//!        [--mtu BYTES] [--buffers BYTES] [--connections N] [--spin]
//! ```
//!
//! The project's own two servers have further modes for datagrams, and plumb has further arguments.
//!
//! A server accepts TCP on port 7000 of its address, which is in a /24 network. It discards
//! received data, sends without end, or echoes. It prints `ready` when it accepts connections. When
//! its standard input ends, it prints the processor time it has used, in seconds, and exits.

use super::server_networks::{self, Attachment, MTU_BYTES, Networks};
use anyhow::{Context, Result, bail, ensure};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use os::readiness::{PollFd, PollFlags, Wake, wait};
use os::schedule;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};

/// Port of every server.
pub(super) const PORT: u16 = 7000;
/// Time limit for a server to become ready, and to exit.
const SERVER_TIMEOUT: Duration = Duration::from_secs(15);

/// A program to measure, and how it is started.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    /// Name for `--only`; the part before the first hyphen is the project's name.
    pub(super) name: &'static str,
    /// Label in the tables.
    pub(super) label: &'static str,
    /// Program and its first arguments.
    pub(super) command: Vec<PathBuf>,
    /// Attachment to the client's network namespace.
    pub(super) attachment: Attachment,
    /// Further arguments.
    pub(super) arguments: &'static [&'static str],
    /// Whether the server supports `--spin`.
    pub(super) can_spin: bool,
    /// Number of the server, from which its interface name and address are derived.
    pub(super) number: u8,
}

/// Service of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Discards received data.
    Sink,
    /// Sends without end.
    Source,
    /// Echoes received data.
    Echo,
    /// Receives datagrams, and reports how many have arrived.
    DatagramSink,
    /// Sends a burst of datagrams for each received datagram.
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

    /// Parses the argument of `--mode`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let streams = [Self::Sink, Self::Source, Self::Echo];
        let datagrams = [Self::DatagramSink, Self::DatagramSource];
        streams.into_iter().chain(datagrams).find(|mode| mode.name() == name)
    }

    /// Returns whether the mode uses datagrams instead of connections.
    pub(super) fn is_of_datagrams(self) -> bool {
        matches!(self, Self::DatagramSink | Self::DatagramSource)
    }
}

/// Options of a server run.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerOptions {
    /// Service of the server.
    pub(super) mode: Mode,
    /// Number of connections that it must support.
    pub(super) connections: usize,
    /// Whether the server polls instead of sleeping.
    pub(super) spins: bool,
    /// Further arguments.
    pub(super) arguments: &'static [&'static str],
}

impl ServerOptions {
    /// Returns options for one connection or one flow of datagrams, without spinning.
    pub(super) const fn for_mode(mode: Mode) -> Self {
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
        options: ServerOptions,
        networks: &Networks,
    ) -> Result<Self> {
        let mut command = command(contender, options)?;
        let started = networks.within(contender.attachment, || Ok(Program::start(&mut command)?));
        let mut program = started.with_context(|| format!("cannot start {}", contender.name))?;
        let output = program.child().stdout.take().context("the server's output is not a pipe")?;
        let address = (server_networks::server_address(contender.number), PORT).into();
        let output = BufReader::new(output);
        let spins = options.spins;
        let mut server = Self { program, output, address, spins };
        let line = server.line()?;
        ensure!(line == "ready", "{} printed '{line}' instead of 'ready'", contender.name);
        server_networks::wait_until_running(contender.number)?;
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    /// Returns the server's address and port.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the processor time used so far, in nanoseconds.
    pub(super) fn processor_ns(&self) -> Result<u64> {
        let used = schedule::processor_time(self.program.id()).context("the server has exited")?;
        Ok(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the resident memory (`VmRSS`), in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.id()))?;
        resident_bytes_in(&status).context("the server has no VmRSS")
    }

    /// Stops the server. The processor time that the server prints is ignored, because the bench
    /// reads the processor time during the measurement.
    pub(super) fn stop(mut self) -> Result<()> {
        if self.spins {
            // A spinning server does not notice the end of standard input; dropping it sends
            // SIGTERM.
            return Ok(());
        }
        drop(self.program.child().stdin.take());
        let line = self.line()?;
        let _: f64 = line.parse().with_context(|| format!("'{line}' is not a processor time"))?;
        self.program.wait_for_end(SERVER_TIMEOUT)?.context("the server does not end")?;
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let clock = Monotonic::start();
        let mut descriptors = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        if wait(&mut descriptors, &clock, Some(clock.now() + SERVER_TIMEOUT))? == Wake::Deadline {
            bail!("the server has printed nothing for {} s", SERVER_TIMEOUT.as_secs());
        }
        let mut line = String::new();
        self.output.by_ref().take(256).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the server has ended");
        Ok(line.trim().to_owned())
    }
}

fn command(contender: &Contender, options: ServerOptions) -> Result<Command> {
    let (program, first) = contender.command.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    let attach = server_networks::attach_argument(contender.number, contender.attachment);
    command.args(first).args(["--attach", &attach]);
    command.args(["--address", &server_networks::server_address(contender.number).to_string()]);
    command.args(["--mode", options.mode.name(), "--mtu", &MTU_BYTES.to_string()]);
    command.args(contender.arguments).args(options.arguments);
    if options.connections > 1 {
        // Idle connections should have small buffers; the last `--buffers` counts.
        command.args(["--buffers", "4096", "--connections", &options.connections.to_string()]);
    }
    if options.spins {
        command.arg("--spin");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Parses /proc/PID/status.
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
        assert_eq!(Mode::from_name("source"), Some(Mode::Source));
        assert_eq!(Mode::from_name("datagram-sink"), Some(Mode::DatagramSink));
        assert_eq!(Mode::from_name("drain"), None);
    }
}
