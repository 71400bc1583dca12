//! gvisor-tap-vsock: gvproxy on the host, and a forwarder in the guest that passes the frames of a
//! TAP to it over a Unix socket. No distribution of this bench has them, so that two variables name
//! the programs.

use super::guest::Guest;
use super::program_version::first_line;
use anyhow::{Context, Result, bail, ensure};
use os::process::Program;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The programs of gvisor-tap-vsock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GvisorTapVsock {
    proxy: PathBuf,
    forwarder: PathBuf,
}

/// Name of the variable for the path of gvproxy.
const PROXY: &str = "PLUMB_GVPROXY";
/// Name of the variable for the path of the forwarder, which is built from cmd/vm.
const FORWARDER: &str = "PLUMB_GVFORWARDER";
/// Address that gvproxy maps to the host.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 127, 254);
/// Port at which gvproxy forwards SSH; each instance needs its own.
const FIRST_SSH_PORT: u16 = 2222;
/// Time limit for the socket of gvproxy.
const START_TIMEOUT: Duration = Duration::from_secs(10);

impl GvisorTapVsock {
    /// Returns the programs, and the version of gvproxy.
    pub(super) fn find() -> Result<(Self, String)> {
        let named = |name| env::var_os(name).with_context(|| format!("{name} names no program"));
        let programs = Self { proxy: named(PROXY)?.into(), forwarder: named(FORWARDER)?.into() };
        let version = first_line(Command::new(&programs.proxy).arg("-version"))?;
        Ok((programs, version))
    }

    /// Starts gvproxy and the forwarder, and returns them in this order.
    pub(super) fn start(
        &self,
        guest: &Guest,
        interface: &str,
        mtu_bytes: u16,
    ) -> Result<(Program, Program)> {
        let name = format!("plumb-bench-gvproxy-{}", guest.id());
        let socket = env::temp_dir().join(name);
        let url = format!("unix://{}", socket.display());
        let mtu = mtu_bytes.to_string();
        let ssh_port = FIRST_SSH_PORT + u16::from(mtu_bytes != 1500);
        let mut proxy = Command::new(&self.proxy);
        proxy.args(["-listen", &url, "-mtu", &mtu, "-ssh-port", &ssh_port.to_string()]);
        let mut proxy = start_silently(&mut proxy).context("cannot start gvproxy")?;
        wait_for_socket(&socket, &mut proxy)?;
        // The forwarder asks a DHCP client for the address of an interface that it has made itself.
        let script = "ip tuntap add name $1 mode tap && ip address add 192.168.127.2/24 dev $1 \
                      && ip link set $1 mtu $2 up && ip route add default via 192.168.127.1 \
                      && exec $3 -preexisting -iface $1 -mtu $2 -url $4";
        let mut forwarder = Command::new("nsenter");
        forwarder.args(["-t", &guest.id().to_string(), "-U", "-n", "--preserve-credentials"]);
        forwarder.args(["sh", "-c", script, "sh", interface, &mtu]);
        forwarder.arg(&self.forwarder).arg(&url);
        let forwarder = start_silently(&mut forwarder).context("cannot start the forwarder")?;
        Ok((proxy, forwarder))
    }
}

fn start_silently(command: &mut Command) -> Result<Program> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Program::start(command)?)
}

fn wait_for_socket(socket: &Path, proxy: &mut Program) -> Result<()> {
    let began = Instant::now();
    while !fs::exists(socket)? {
        if let Some(status) = proxy.exit_status()? {
            bail!("gvproxy has exited: {status}");
        }
        ensure!(began.elapsed() < START_TIMEOUT, "no socket after {START_TIMEOUT:?}");
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
