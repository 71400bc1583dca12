//! Runs a client's job at a server, and measures its cost.

use super::job::{Job, Load, TUN, User};
use super::servers::{Maker, Server};
use super::stage::{SMALL_BYTES, Stage};
use crate::bench::conditions::Conditions;
use crate::bench::files::account::Account;
use crate::bench::telnetd::on_the_far_processor;
use crate::bench::typing::run_ip;
use anyhow::{Context, Result, ensure};
use os::clock::Monotonic;
use os::process::Program;
use os::socket;
use protocols::time::Duration;
use serde_json::{Value, json};
use std::error::Error;
use std::net::TcpStream;
use std::{fmt, fs, process, thread};

/// Time limit for a job; a pair that exceeds it is left out.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for a server's session process to end, so that the account includes it.
const PAUSE: Duration = Duration::from_millis(20);

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
pub(super) struct NotDone;

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it had not done after {} s", PATIENCE.as_secs())
    }
}

impl Error for NotDone {}

/// The running servers and the directories.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) stage: Stage,
    conditions: &'a Conditions,
    pub(super) servers: Vec<Server>,
    /// Account of this process and of the client programs.
    near: Account,
}

impl<'a> Desk<'a> {
    /// Starts the installed servers; also returns a note for each missing one.
    pub(super) fn open(conditions: &'a Conditions) -> Result<(Self, Vec<String>)> {
        TUN.prepare()?;
        prefer_cubic()?;
        keep_few_closed_connections()?;
        let near = Account::open("users", process::id());
        let mut desk = Self { stage: Stage::make()?, conditions, servers: Vec::new(), near };
        let mut missing = Vec::new();
        for maker in Maker::ALL {
            match desk.start(maker) {
                Ok(server) => desk.servers.push(server),
                Err(error) if maker == Maker::Plumb => return Err(error),
                Err(error) => missing.push(format!("Left out: {}: {error:#}.", maker.name())),
            }
        }
        for user in User::ALL {
            if let Err(error) = user.path() {
                missing.push(format!("Left out: {}: {error:#}.", user.name()));
            }
        }
        Ok((desk, missing))
    }

    fn start(&self, maker: Maker) -> Result<Server> {
        on_the_far_processor(self.conditions.pinning(), || {
            let command = maker.command(&self.stage, maker.port(), 1000)?;
            Server::start(maker, command, maker.port())
        })
    }

    /// Starts one more server, which runs until [`Self::end`].
    pub(super) fn add(&mut self, maker: Maker) -> Result<()> {
        let server = self.start(maker)?;
        self.servers.push(server);
        Ok(())
    }

    /// Ends a server.
    pub(super) fn end(&mut self, maker: Maker) {
        self.servers.retain(|server| server.maker != maker);
    }

    /// Restarts a server: after a failed job it may be busy with that job indefinitely.
    pub(super) fn restart(&mut self, maker: Maker) -> Result<()> {
        let at = self.servers.iter().position(|server| server.maker == maker);
        let at = at.context("there is no such server")?;
        drop(self.servers.remove(at));
        let server = self.start(maker)?;
        self.servers.insert(at, server);
        Ok(())
    }

    /// Returns the congestion control of connections in this network.
    pub(super) fn congestion(&self) -> Result<String> {
        let stream = TcpStream::connect(("127.0.0.1", Maker::Plumb.port()))?;
        Ok(socket::congestion_control(&stream)?)
    }

    /// Runs a job, and checks that all files have been transferred.
    pub(super) fn measure(&self, maker: Maker, user: User, job: Job) -> Result<Measured> {
        let server = self.servers.iter().find(|server| server.maker == maker);
        let account = &server.context("there is no such server")?.account;
        self.stage.clear()?;
        let mut command = user.command(&self.stage, maker, job)?;
        let (user_before, server_before) = (self.near.nanos()?, account.nanos()?);
        let clock = Monotonic::start();
        let begun = clock.now();
        let mut program = Program::start(&mut command)?;
        let status = program.wait_for_end(PATIENCE)?;
        let wall = clock.now() - begun;
        let user_ns = self.near.nanos()?.saturating_sub(user_before);
        thread::sleep(PAUSE);
        let server_ns = account.nanos()?.saturating_sub(server_before);
        match status {
            None => return Err(NotDone.into()),
            Some(status) => ensure!(status.success(), "it failed ({status})"),
        }
        self.is_whole(job)?;
        Ok(Measured { wall_ns: u64::try_from(wall.as_nanos())?, user_ns, server_ns })
    }

    fn is_whole(&self, job: Job) -> Result<()> {
        let wanted = match job.load {
            Load::Large(_) if !job.is_upload => return Ok(()),
            Load::Kept(mebibytes) => {
                let (files, bytes) = self.stage.measure("here")?;
                // Words may take more octets in the file than on the wire.
                let is_whole = files == 1 && bytes >= mebibytes << 20;
                ensure!(is_whole, "{files} files of {bytes} bytes in all have come");
                return Ok(());
            }
            Load::Large(mebibytes) => (1, mebibytes << 20),
            Load::Small { files, .. } => {
                (u64::from(files), u64::from(files) * u64::try_from(SMALL_BYTES)?)
            }
        };
        let found = self.stage.measure(if job.is_upload { "root/in" } else { "here" })?;
        ensure!(
            found == wanted,
            "{} files of {} bytes in all have come, and not {} of {}",
            found.0,
            found.1,
            wanted.0,
            wanted.1
        );
        Ok(())
    }
}

/// Sets CUBIC as the congestion control of connections over the loopback and the TUN.
///
/// A network namespace other than the initial one may refuse a change of the default, so it is set
/// per route.
fn prefer_cubic() -> Result<()> {
    for prefix in ["127.0.0.0/8", "127.0.0.1"] {
        let mut words = vec!["route", "replace", "local", prefix, "dev", "lo", "table", "local"];
        words.extend(["proto", "kernel", "scope", "host", "src", "127.0.0.1", "congctl", "cubic"]);
        run_ip(&words)?;
    }
    let (host, network) = (TUN.host(), "10.82.0.0/24");
    let mut words = vec!["route", "replace", network, "dev", "plumb0"];
    words.extend(["proto", "kernel", "scope", "link", "src", &host, "congctl", "cubic"]);
    run_ip(&words)
}

/// Limits the connections in TIME-WAIT (RFC 9293 section 3.6.1) to 4096 in this network.
///
/// The kernel keeps each for a minute. A row of small files leaves more of them than there are
/// ports, and later connections then pay for earlier ones: the kernel searches port by port.
fn keep_few_closed_connections() -> Result<()> {
    const LIMIT: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";
    fs::write(LIMIT, "4096").with_context(|| format!("cannot write {LIMIT}"))
}
