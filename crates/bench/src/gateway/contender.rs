//! The gateways: how they are started, and their versions.
//!
//! plumb is started by the name and the arguments of slirp4netns, through a symbolic link.

use super::guest::Guest;
use super::guest_traffic::Route;
use super::gvisor_tap_vsock::{self, GvisorTapVsock};
use super::memory;
use super::program_version::{first_line, with_package};
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
    /// gvisor-tap-vsock, if variables name its programs.
    GvisorTapVsock(GvisorTapVsock),
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
    pub(super) const NAMES: [&'static str; 4] =
        ["slirp4netns", "pasta", "gvisor-tap-vsock", "plumb"];

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Slirp4netns => "slirp4netns",
            Self::Pasta => "pasta",
            Self::GvisorTapVsock(_) => "gvisor-tap-vsock",
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
            "gvisor-tap-vsock" => {
                let (programs, version) = GvisorTapVsock::find()?;
                Ok((Self::GvisorTapVsock(programs), version))
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

    /// Starts the programs of the gateway: the gateway and, for gvisor-tap-vsock, its forwarder.
    pub(super) fn start(
        &self,
        guest: &Guest,
        mtu_bytes: u16,
    ) -> Result<(Program, Option<Program>)> {
        let mtu = mtu_bytes.to_string();
        let id = guest.id().to_string();
        let mut command = match self {
            Self::Slirp4netns => Command::new("slirp4netns"),
            Self::Plumb(link) => Command::new(link),
            Self::Pasta => Command::new("pasta"),
            Self::GvisorTapVsock(programs) => {
                let (proxy, forwarder) = programs.start(guest, INTERFACE, mtu_bytes)?;
                return Ok((proxy, Some(forwarder)));
            }
        };
        if *self == Self::Pasta {
            // --runas: as root, pasta would become another user, who may not enter the namespaces.
            command.args(["-f", "--runas", "0", "--config-net", "-4", "-I", INTERFACE]);
            command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
            command.args(["-m", &mtu, &id]);
        } else {
            command.args(["-c", "--mtu", &mtu, &id, INTERFACE]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok((Program::start(&mut command)?, None))
    }

    fn host(&self) -> Ipv4Addr {
        match self {
            Self::Pasta => HOST_GATEWAY,
            Self::GvisorTapVsock(_) => gvisor_tap_vsock::HOST,
            Self::Slirp4netns | Self::Plumb(_) => SLIRP_HOST,
        }
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
    forwarder: Option<Program>,
    guest: Guest,
}

impl Gateway {
    /// Starts a guest and its gateway.
    pub(super) fn start(kind: &GatewayKind, mtu_bytes: u16) -> Result<Self> {
        let name = kind.name();
        let guest = Guest::start()?;
        let started = kind.start(&guest, mtu_bytes);
        let (program, forwarder) = started.with_context(|| format!("cannot start {name}"))?;
        let mut gateway = Self {
            label: format!("{name}, MTU {mtu_bytes}"),
            mtu_bytes,
            idle_bytes: None,
            is_plumb: matches!(kind, GatewayKind::Plumb(_)),
            host: kind.host(),
            program,
            forwarder,
            guest,
        };
        wait_until_ready(&mut gateway.program, &gateway.guest)
            .with_context(|| format!("{name} does not become ready"))?;
        gateway.idle_bytes = gateway.private_bytes();
        Ok(gateway)
    }

    /// Returns the private memory of the programs of the gateway.
    pub(super) fn private_bytes(&self) -> Option<u64> {
        let forwarder = self.forwarder.as_ref();
        let forwarder = forwarder.map_or(Some(0), |program| memory::private_bytes(program.id()));
        Some(memory::private_bytes(self.program.id())? + forwarder?)
    }

    pub(super) fn is_plumb(&self) -> bool {
        self.is_plumb
    }

    pub(super) fn route(&self) -> Route<'_> {
        let programs = [Some(self.program.id()), self.forwarder.as_ref().map(Program::id)];
        Route { guest: Some(self.guest.network()), host: self.host, programs }
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
