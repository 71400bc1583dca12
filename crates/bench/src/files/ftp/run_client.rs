//! Runs a client's job at a server, and measures its cost.

use super::directories::{Directories, SMALL_BYTES};
use super::ftp_servers::{Server, ServerProgram};
use super::job::{FtpClientProgram, Job, Load, TUN};
use crate::conditions::Conditions;
use crate::files::account::Account;
use crate::telnetd::on_server_processor;
use crate::typing::run_ip;
use anyhow::{Context, Result, ensure};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use os::socket;
use serde_json::{Value, json};
use std::error::Error;
use std::net::TcpStream;
use std::{fmt, fs, process, thread};

/// Time limit for a job; a pair that exceeds it is left out.
const JOB_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a server's session process to end, so that the account includes it.
const SESSION_END_DELAY: Duration = Duration::from_millis(20);

/// Cost of one job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) wall_ns: u64,
    pub(super) user_ns: u64,
    pub(super) server_ns: u64,
}

impl Measured {
    pub(super) fn json(&self) -> Value {
        json!({
            "wall_ns": self.wall_ns,
            "user_cpu_ns": self.user_ns,
            "server_cpu_ns": self.server_ns,
        })
    }
}

/// A job that took too long.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "timed out after {} s", JOB_TIMEOUT.as_secs())
    }
}

impl Error for TimedOut {}

/// The running servers and the directories.
#[derive(Debug)]
pub(super) struct ClientRunner<'a> {
    pub(super) directories: Directories,
    conditions: &'a Conditions,
    pub(super) servers: Vec<Server>,
    /// Account of this process and of the client programs.
    client_account: Account,
}

impl<'a> ClientRunner<'a> {
    /// Starts the installed servers; also returns a note for each missing one.
    pub(super) fn open(conditions: &'a Conditions) -> Result<(Self, Vec<String>)> {
        TUN.prepare()?;
        prefer_cubic()?;
        keep_few_closed_connections()?;
        let client_account = Account::open("users", process::id());
        let mut runner = Self {
            directories: Directories::make()?,
            conditions,
            servers: Vec::new(),
            client_account,
        };
        let mut missing = Vec::new();
        for server_program in ServerProgram::ALL {
            match runner.start(server_program) {
                Ok(server) => runner.servers.push(server),
                Err(error) if server_program == ServerProgram::Plumb => return Err(error),
                Err(error) => {
                    missing.push(format!("Left out: {}: {error:#}.", server_program.name()));
                }
            }
        }
        for user in FtpClientProgram::ALL {
            if let Err(error) = user.path() {
                missing.push(format!("Left out: {}: {error:#}.", user.name()));
            }
        }
        Ok((runner, missing))
    }

    fn start(&self, server_program: ServerProgram) -> Result<Server> {
        on_server_processor(self.conditions.pinning(), || {
            let command = server_program.command(&self.directories, server_program.port(), 1000)?;
            Server::start(server_program, command, server_program.port())
        })
    }

    /// Starts one more server, which runs until [`Self::end`].
    pub(super) fn add(&mut self, server_program: ServerProgram) -> Result<()> {
        let server = self.start(server_program)?;
        self.servers.push(server);
        Ok(())
    }

    /// Ends a server.
    pub(super) fn end(&mut self, server_program: ServerProgram) {
        self.servers.retain(|server| server.server_program != server_program);
    }

    /// Restarts a server: after a failed job it may be busy with that job indefinitely.
    pub(super) fn restart(&mut self, server_program: ServerProgram) -> Result<()> {
        let at = self.servers.iter().position(|server| server.server_program == server_program);
        let at = at.context("there is no such server")?;
        drop(self.servers.remove(at));
        let server = self.start(server_program)?;
        self.servers.insert(at, server);
        Ok(())
    }

    /// Returns the congestion control of connections in this network namespace.
    pub(super) fn congestion(&self) -> Result<String> {
        let stream = TcpStream::connect(("127.0.0.1", ServerProgram::Plumb.port()))?;
        Ok(socket::congestion_control(&stream)?)
    }

    /// Runs a job, and checks that all files have been transferred.
    pub(super) fn measure(
        &self,
        server_program: ServerProgram,
        user: FtpClientProgram,
        job: Job,
    ) -> Result<Measured> {
        let server = self.servers.iter().find(|server| server.server_program == server_program);
        let account = &server.context("there is no such server")?.account;
        self.directories.clear()?;
        let mut command = user.command(&self.directories, server_program, job)?;
        let user_before = self.client_account.nanos()?;
        let server_before = account.nanos()?;
        let clock = Monotonic::start();
        let started_at = clock.now();
        let mut program = Program::start(&mut command)?;
        let status = program.wait_for_end(JOB_TIMEOUT)?;
        let wall = clock.now() - started_at;
        let user_ns = self.client_account.nanos()?.saturating_sub(user_before);
        thread::sleep(SESSION_END_DELAY);
        let server_ns = account.nanos()?.saturating_sub(server_before);
        match status {
            None => return Err(TimedOut.into()),
            Some(status) => ensure!(status.success(), "it failed ({status})"),
        }
        self.check_transferred(job)?;
        Ok(Measured { wall_ns: u64::try_from(wall.as_nanos())?, user_ns, server_ns })
    }

    fn check_transferred(&self, job: Job) -> Result<()> {
        let expected = match job.load {
            Load::Large(_) if !job.is_upload => return Ok(()),
            Load::Saved(mebibytes) => {
                let (files, bytes) = self.directories.measure("here")?;
                // Words of 36 bits may take more octets in the file than on the wire.
                let is_complete = files == 1 && bytes >= mebibytes << 20;
                ensure!(is_complete, "received {files} files of {bytes} bytes in total");
                return Ok(());
            }
            Load::Large(mebibytes) => (1, mebibytes << 20),
            Load::Small { files, .. } => {
                (u64::from(files), u64::from(files) * u64::try_from(SMALL_BYTES)?)
            }
        };
        let received = self.directories.measure(if job.is_upload { "root/in" } else { "here" })?;
        ensure!(
            received == expected,
            "received {} files of {} bytes in total instead of {} of {}",
            received.0,
            received.1,
            expected.0,
            expected.1
        );
        Ok(())
    }
}

/// Sets CUBIC as the congestion control of connections over the loopback and the TUN.
///
/// The kernel may reject a change of the default congestion control in a network namespace other
/// than the initial one, so it is set per route.
fn prefer_cubic() -> Result<()> {
    for prefix in ["127.0.0.0/8", "127.0.0.1"] {
        let mut words = vec!["route", "replace", "local", prefix, "dev", "lo", "table", "local"];
        words.extend(["proto", "kernel", "scope", "host", "src", "127.0.0.1", "congctl", "cubic"]);
        run_ip(&words)?;
    }
    let host = TUN.host();
    let network = "10.82.0.0/24";
    let mut words = vec!["route", "replace", network, "dev", "plumb0"];
    words.extend(["proto", "kernel", "scope", "link", "src", &host, "congctl", "cubic"]);
    run_ip(&words)
}

/// Limits the connections in TIME-WAIT (RFC 9293 section 3.6.1) to 4096 in this network namespace.
///
/// The kernel keeps each of these connections for a minute. A row of small files leaves more of
/// them than there are ports. Later connections then take longer, because the kernel searches for a
/// free port one by one.
fn keep_few_closed_connections() -> Result<()> {
    const TIME_WAIT_LIMIT_PATH: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";
    fs::write(TIME_WAIT_LIMIT_PATH, "4096")
        .with_context(|| format!("cannot write {TIME_WAIT_LIMIT_PATH}"))
}
