//! A guest: a process in a user and network namespace of its own.

use super::congestion_default;
use anyhow::{Context, Result, anyhow};
use os::namespace::Network;
use os::process::Program;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

/// A guest without programs. Dropping it ends its process and, without a gateway, its namespaces.
#[derive(Debug)]
pub(super) struct Guest {
    program: Program,
    network: Network,
}

impl Guest {
    /// Starts the process.
    pub(super) fn start() -> Result<Self> {
        let mut command = Command::new("unshare");
        // The user namespace belongs to the user of the bench, so that a gateway without privileges
        // may enter it.
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", "echo; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Program::start(&mut command).context("cannot start unshare")?;
        let stdout = program.child().stdout.as_mut().context("unshare has no output")?;
        stdout.read_exact(&mut [0]).context("unshare cannot make the namespaces of a guest")?;
        let network = Network::of_process(program.id())?;
        let select = || network.enter().map(|()| congestion_default::select());
        let selected = thread::scope(|scope| scope.spawn(select).join());
        let selected = selected.map_err(|_| anyhow!("a thread has panicked"))?;
        selected.context("cannot enter the guest")?;
        Ok(Self { program, network })
    }

    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }
}
