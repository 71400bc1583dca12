//! The gateways: how they are started, and their versions.
//!
//! plumb is started by the name and the arguments of slirp4netns, through a symbolic link.

use super::guest::Guest;
use super::guest_traffic::Route;
use super::memory;
use crate::typing::plumb;
use anyhow::{Context, Result, bail, ensure};
use os::interface::Interface;
use os::process::Program;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A gateway that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GatewayKind {
    /// slirp4netns of the distribution.
    Slirp4netns,
    /// pasta of the distribution.
    Pasta,
    /// plumb, by this path.
    Plumb(PathBuf),
}

/// Time limit for a gateway to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const INTERFACE: &str = "tap0";
/// Gateway of the host. pasta copies it to its guest, and maps it to the host.
pub(super) const HOST_GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// Address of the host in the networks of slirp4netns.
const SLIRP_HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

impl GatewayKind {
    /// Names of all gateways, in the order of the report.
    pub(super) const NAMES: [&'static str; 3] = ["slirp4netns", "pasta", "plumb"];

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Slirp4netns => "slirp4netns",
            Self::Pasta => "pasta",
            Self::Plumb(_) => "plumb",
        }
    }

    /// Returns the gateways that can be measured, and notes the versions and what is missing.
    pub(super) fn available(only: &[String], notes: &mut Vec<String>) -> Vec<Self> {
        let mut kinds = Vec::new();
        for name in Self::NAMES {
            if !only.is_empty() && !only.iter().any(|only| only == name) {
                continue;
            }
            match Self::find(name) {
                Ok((kind, version)) => {
                    notes.push(format!("{name}: {version}"));
                    kinds.push(kind);
                }
                Err(error) => notes.push(format!("{name}: not configured: {error:#}")),
            }
        }
        kinds
    }

    /// Returns the gateway with its path and its version.
    fn find(name: &str) -> Result<(Self, String)> {
        match name {
            "slirp4netns" => {
                let version = first_line(Command::new("slirp4netns").arg("--version"))?;
                Ok((Self::Slirp4netns, version))
            }
            "pasta" => {
                let version = first_line(Command::new("pasta").arg("--version"))?;
                Ok((Self::Pasta, with_package(version, "passt")))
            }
            _ => {
                let link = link_to_plumb()?;
                let text = first_line(Command::new(&link).arg("--version"))?;
                ensure!(
                    text.starts_with("slirp4netns"),
                    "plumb has no gateway: started as slirp4netns, it prints '{text}'"
                );
                let version = first_line(Command::new(plumb()?).arg("--version"))?;
                Ok((Self::Plumb(link), version))
            }
        }
    }

    pub(super) fn command(&self, guest: u32, mtu_bytes: u16) -> Command {
        let mtu = mtu_bytes.to_string();
        let guest = guest.to_string();
        let mut command = match self {
            Self::Slirp4netns => Command::new("slirp4netns"),
            Self::Plumb(link) => Command::new(link),
            Self::Pasta => Command::new("pasta"),
        };
        if *self == Self::Pasta {
            // --runas: as root, pasta would become another user, who may not enter the namespaces.
            command.args(["-f", "--runas", "0", "--config-net", "-4", "-I", INTERFACE]);
            command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
            command.args(["-m", &mtu, &guest]);
        } else {
            command.args(["-c", "--mtu", &mtu, &guest, INTERFACE]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn host(&self) -> Ipv4Addr {
        if *self == Self::Pasta { HOST_GATEWAY } else { SLIRP_HOST }
    }
}

/// A running gateway and its guest.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) label: String,
    pub(super) mtu_bytes: u16,
    /// Private memory before the first connection.
    pub(super) idle_bytes: Option<u64>,
    is_plumb: bool,
    host: Ipv4Addr,
    program: Program,
    guest: Guest,
}

impl Gateway {
    /// Starts a guest and its gateway.
    pub(super) fn start(kind: &GatewayKind, mtu_bytes: u16) -> Result<Self> {
        let name = kind.name();
        let guest = Guest::start()?;
        let mut command = kind.command(guest.id(), mtu_bytes);
        let program =
            Program::start(&mut command).with_context(|| format!("cannot start {name}"))?;
        let mut gateway = Self {
            label: format!("{name}, MTU {mtu_bytes}"),
            mtu_bytes,
            idle_bytes: None,
            is_plumb: matches!(kind, GatewayKind::Plumb(_)),
            host: kind.host(),
            program,
            guest,
        };
        wait_until_ready(&mut gateway.program, &gateway.guest)
            .with_context(|| format!("{name} does not become ready"))?;
        gateway.idle_bytes = memory::private_bytes(gateway.id());
        Ok(gateway)
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.program.id()
    }

    pub(super) fn is_plumb(&self) -> bool {
        self.is_plumb
    }

    pub(super) fn route(&self) -> Route<'_> {
        Route { guest: Some(self.guest.network()), host: self.host, gateway: Some(self.id()) }
    }
}

/// Waits until the interface of a guest has an address and is running.
pub(super) fn wait_until_ready(program: &mut Program, guest: &Guest) -> Result<()> {
    let began = Instant::now();
    loop {
        if let Some(status) = program.exit_status()? {
            bail!("it has exited: {status}");
        }
        let network = guest.network();
        let is_ready = thread::scope(|scope| {
            let is_ready = || -> Result<bool> {
                network.enter()?;
                let interface = Interface::named(INTERFACE)?;
                Ok(interface.address()?.is_some() && interface.is_running()?)
            };
            // Until then the interface does not exist.
            scope.spawn(is_ready).join().is_ok_and(|ready| ready.unwrap_or(false))
        });
        if is_ready {
            return Ok(());
        }
        ensure!(began.elapsed() < START_TIMEOUT, "no address after {START_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Creates a link called `slirp4netns` to plumb in a directory of this run.
fn link_to_plumb() -> Result<PathBuf> {
    let plumb = plumb()?;
    let directory = std::env::temp_dir().join(format!("plumb-gateway-{}", std::process::id()));
    fs::create_dir_all(&directory).with_context(|| format!("cannot create {directory:?}"))?;
    let link = directory.join("slirp4netns");
    if !link.is_symlink() {
        std::os::unix::fs::symlink(plumb, &link)?;
    }
    Ok(link)
}

fn first_line(command: &mut Command) -> Result<String> {
    let output = command.output().context("it is not installed")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).context("it prints no version")
}

/// Adds the version of the Debian package, because pasta of Debian 12 does not know its own.
fn with_package(version: String, package: &str) -> String {
    let query = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    match query {
        Ok(output) if output.status.success() => {
            format!("{version} ({package} {})", String::from_utf8_lossy(&output.stdout))
        }
        _ => version,
    }
}
