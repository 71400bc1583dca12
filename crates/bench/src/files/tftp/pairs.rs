//! The client and server programs, and the cost of one transfer.

use crate::conditions::Conditions;
use crate::files::account::Account;
use crate::telnetd::{on_server_processor, program};
use crate::typing::plumb;
use anyhow::{Context, Result, ensure};
use net::time::Duration;
use os::clock::Monotonic;
use os::process::Program;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};

/// Ports of the servers on the loopback.
const PLUMB_PORT: &str = "7001";
const HPA_PORT: &str = "7002";
const ATFTP_PORT: &str = "7003";
/// Name of the transferred file.
const FILE: &str = "file";
/// Time limit for the start of a server.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a client program.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of one probe for a starting server; its first request may be lost.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Parameters of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) block_size: u16,
    pub(super) window: u16,
    pub(super) megabytes: u64,
}

/// A client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Ours,
    Hpa,
    CurlHpa,
    Atftp,
}

impl Pair {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "plumb, plumb",
            Self::Hpa => "tftp-hpa, tftp-hpa",
            Self::CurlHpa => "curl, tftp-hpa",
            Self::Atftp => "atftp, atftp",
        }
    }

    fn server_name(self) -> &'static str {
        match self {
            Self::Ours => "tftp-plumb",
            Self::Hpa | Self::CurlHpa => "tftp-hpa",
            Self::Atftp => "atftp",
        }
    }

    /// Returns whether both programs support the block size and window of the row. Of the
    /// third-party programs only atftp supports windows, and the client of tftp-hpa does not
    /// support block sizes.
    fn supports(self, row: Row) -> bool {
        match self {
            Self::Ours | Self::Atftp => true,
            Self::CurlHpa => row.window == 1,
            Self::Hpa => row.window == 1 && row.block_size == 512,
        }
    }
}

/// Cost of one transfer.
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

/// The servers, and the directory with the file that they serve.
pub(super) struct TftpHarness {
    directory: PathBuf,
    plumb: PathBuf,
    servers: Vec<(Pair, Program, Account)>,
    /// Account of this process and of the client programs.
    client_account: Account,
    missing: Vec<String>,
}

impl TftpHarness {
    /// Starts the installed servers on the servers' processor.
    pub(super) fn open(conditions: &Conditions) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("plumb-files-{}", process::id()));
        fs::create_dir_all(&directory)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&directory, mode)?;
        // The server of tftp-hpa looks up the address of its host, and finds no address if the host
        // has only the loopback interface.
        let words = ["address", "add", "10.83.0.1/32", "dev", "lo"];
        let ip_status = Command::new(program("ip", "iproute2")?).args(words).status()?;
        ensure!(ip_status.success(), "cannot add an address to the bench's network namespace");
        let plumb = plumb()?;
        let client_account = Account::open("tftp-users", process::id());
        let mut harness =
            Self { directory, plumb, servers: Vec::new(), client_account, missing: Vec::new() };
        harness.write_file(1)?;
        let mut ours = Command::new(&harness.plumb);
        let at = format!("127.0.0.1:{PLUMB_PORT}");
        ours.args(["serve", "--quiet", "--tftp", "--tftp-listen", &at, "--root"])
            .arg(&harness.directory);
        on_server_processor(conditions.pinning(), || {
            harness.start(Pair::Ours, ours)?;
            harness.start_peer(
                Pair::Hpa,
                "in.tftpd",
                "tftpd-hpa",
                &["-L", "-u", "root", "-a", "127.0.0.1:7002", "-s"],
            )?;
            harness.start_peer(
                Pair::Atftp,
                "atftpd",
                "atftpd",
                &[
                    "--daemon",
                    "--no-fork",
                    "--user",
                    "root.root",
                    "--logfile",
                    "/dev/null",
                    "--bind-address",
                    "127.0.0.1",
                    "--port",
                    ATFTP_PORT,
                ],
            )
        })?;
        for (pair, name, package) in [
            (Pair::Hpa, "tftp", "tftp-hpa"),
            (Pair::CurlHpa, "curl", "curl"),
            (Pair::Atftp, "atftp", "atftp"),
        ] {
            if let Err(error) = program(name, package) {
                harness.missing.push(format!("left out: {}: {error}", pair.name()));
            }
        }
        Ok(harness)
    }

    /// Returns a note for each pair that is left out, with the reason.
    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    fn start_peer(&mut self, pair: Pair, name: &str, package: &str, words: &[&str]) -> Result<()> {
        match program(name, package) {
            Err(error) => self.missing.push(format!("left out: {}: {error}", pair.name())),
            Ok(path) => {
                let mut command = Command::new(path);
                command.args(words).arg(&self.directory);
                self.start(pair, command)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, pair: Pair, mut command: Command) -> Result<()> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = Program::start(&mut command)?;
        let account = Account::open(pair.server_name(), program.id());
        self.servers.push((pair, program, account));
        let row = Row { block_size: 512, window: 1, megabytes: 1 };
        let pair = if pair == Pair::Hpa { Pair::CurlHpa } else { pair };
        let clock = Monotonic::start();
        let started_at = clock.now();
        loop {
            let mut probe = Program::start(&mut self.user(pair, row)?)?;
            if probe.wait_for_end(PROBE_TIMEOUT)?.is_some_and(|status| status.success()) {
                break Ok(());
            }
            ensure!(
                clock.now() - started_at < START_TIMEOUT,
                "the server of {} does not start",
                pair.name()
            );
        }
    }

    /// Returns the available pairs that support the row, plumb's own first.
    pub(super) fn pairs(&self, row: Row) -> impl Iterator<Item = Pair> {
        // curl would take minutes in comparison; it only probes whether the server has started.
        let all = [Pair::Ours, Pair::Hpa, Pair::Atftp];
        all.into_iter().filter(move |pair| {
            let is_available = !self.missing.iter().any(|line| line.contains(pair.name()));
            pair.supports(row) && is_available && self.server(*pair).is_ok()
        })
    }

    fn server(&self, pair: Pair) -> Result<&Account> {
        let measured_pair = if pair == Pair::CurlHpa { Pair::Hpa } else { pair };
        let mut servers = self.servers.iter();
        let found = servers.find(|(server, ..)| *server == measured_pair);
        found.map(|(.., account)| account).context("there is no such server")
    }

    /// Writes the file with `megabytes` · 10^6 bytes.
    pub(super) fn write_file(&self, megabytes: u64) -> Result<()> {
        let piece: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let bytes = piece.repeat(usize::try_from(megabytes)?);
        fs::write(self.directory.join(FILE), bytes).context("the file cannot be written")
    }

    fn user(&self, pair: Pair, row: Row) -> Result<Command> {
        let block_size = row.block_size.to_string();
        let window = row.window.to_string();
        let url = |port: &str| format!("tftp://127.0.0.1:{port}/{FILE}");
        let mut command;
        match pair {
            Pair::Ours => {
                command = Command::new(&self.plumb);
                command.args(["get", "--quiet", "--block-size", &block_size, "--window", &window]);
                command.args([&url(PLUMB_PORT), "/dev/null"]);
            }
            Pair::Hpa => {
                command = Command::new(program("tftp", "tftp-hpa")?);
                command.args([
                    "-m",
                    "binary",
                    "127.0.0.1",
                    HPA_PORT,
                    "-c",
                    "get",
                    FILE,
                    "/dev/null",
                ]);
            }
            Pair::CurlHpa => {
                command = Command::new(program("curl", "curl")?);
                command.args([
                    "-sS",
                    "--tftp-blksize",
                    &block_size,
                    &url(HPA_PORT),
                    "-o",
                    "/dev/null",
                ]);
            }
            Pair::Atftp => {
                command = Command::new(program("atftp", "atftp")?);
                let options = [format!("blksize {block_size}"), format!("windowsize {window}")];
                options.iter().for_each(|option| _ = command.args(["--option", option]));
                command.args(["-g", "-r", FILE, "-l", "/dev/null", "127.0.0.1", ATFTP_PORT]);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Transfers the file once with this pair, and returns the cost.
    pub(super) fn measure(&self, pair: Pair, row: Row) -> Result<Measured> {
        let server = self.server(pair)?;
        let server_before = server.nanos()?;
        let user_before = self.client_account.nanos()?;
        let clock = Monotonic::start();
        let started_at = clock.now();
        let mut user = Program::start(&mut self.user(pair, row)?)?;
        let status = user.wait_for_end(CLIENT_TIMEOUT)?.context("the transfer timed out")?;
        let wall = clock.now() - started_at;
        ensure!(status.success(), "{} failed to transfer the file", pair.name());
        Ok(Measured {
            wall_ns: u64::try_from(wall.as_nanos())?,
            user_ns: self.client_account.nanos()?.saturating_sub(user_before),
            server_ns: server.nanos()?.saturating_sub(server_before),
        })
    }

    /// Transfers the file with plumb's own pair. Returns its size in bytes, the time in
    /// nanoseconds, and the number of timeouts at the client.
    pub(super) fn transfer_with_plumb(
        &self,
        block_size: u16,
        window: u16,
    ) -> Result<(u64, u64, u64)> {
        let row = Row { block_size, window, megabytes: 1 };
        let mut command = self.user(Pair::Ours, row)?;
        let output = command.arg("--json").stdout(Stdio::piped()).output()?;
        let record: Value = serde_json::from_slice(&output.stdout)?;
        let number = |name: &str| record.get(name).and_then(Value::as_u64);
        let bytes = number("file_bytes").context("the record has no bytes")?;
        let nanos = number("total_ns").context("the record has no time")?;
        ensure!(output.status.success(), "{block_size}/{window}: the transfer failed");
        Ok((bytes, nanos, number("timeouts").unwrap_or(0)))
    }
}

impl Drop for TftpHarness {
    fn drop(&mut self) {
        self.servers.clear();
        _ = fs::remove_dir_all(&self.directory);
    }
}
