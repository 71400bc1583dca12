//! Guests with Debian's kernel in QEMU: at the socket of the gateway by virtio, and at a serial line
//! by the kernel's own PPP and SLIP.
//!
//! The kernel is the file that `PLUMB_GUEST_KERNEL` names, or the newest one in /boot. Its modules
//! are in `../lib/modules` of its directory. QEMU interprets the processor, so that no KVM is needed.

use super::gateway_harness::{
    Gateway, HOST, TestFile, accept_within, command, in_host_network, listen, read_to_end,
    test_data,
};
use super::initial_file_system::InitialFileSystem;
use super::{is_long_run, sha256};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;
use test_support::{ProgramLog, ip, not_configured, peers};

const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);
/// Time until a machine that QEMU interprets has done its work on a busy computer.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(120);
/// Modules in the order in which they are loaded. A module that the kernel contains has no file.
const MODULES: [&str; 12] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "slhc",
    "ppp_generic",
    "ppp_async",
    "slip",
];
/// Beginning of the first program of the machine.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec < /dev/ttyS0 > /dev/ttyS0 2>&1
for module in /modules/*; do insmod $module; done
ip link set lo up
# Sends a file of $3 bytes to port $2 of $1, and receives another one.
exchange() {
    head -c $3 /dev/urandom > /sent
    nc $1 $2 < /sent > /received
    sha256sum /sent /received
}
";
/// Script with which udhcpc configures the interface.
const CONFIGURE: &str = "#!/bin/sh
[ $1 != bound ] || {
    ip address add $ip/$mask dev $interface
    ip link set $interface mtu $mtu
    ip route add default via $router
    echo lease $ip $router $dns $mtu
}
";

/// A kernel with its modules.
struct Kernel {
    image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// Returns `None`, and reports it, if the machine has no kernel.
    fn find() -> Option<Self> {
        let named = std::env::var_os("PLUMB_GUEST_KERNEL").map(PathBuf::from);
        let installed = fs::read_dir("/boot").ok()?.filter_map(|file| Some(file.ok()?.path()));
        let is_kernel =
            |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("vmlinuz-");
        let Some(image) = named.or_else(|| installed.filter(is_kernel).max()) else {
            not_configured("PLUMB_GUEST_KERNEL", "there is no kernel in /boot");
            return None;
        };
        let version = image.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        let modules = image.parent()?.parent()?.join("lib/modules").join(version).join("kernel");
        assert!(modules.is_dir(), "{} is missing", modules.display());
        Some(Self { image, modules })
    }

    fn module(&self, name: &str) -> Option<Vec<u8>> {
        let file = format!("{name}.ko");
        let mut directories = vec![self.modules.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else if entry.file_name() == file.as_str() {
                    return Some(fs::read(entry.path()).unwrap());
                }
            }
        }
        None
    }
}

/// A running virtual machine, which is killed at the end.
struct Machine {
    qemu: Child,
    console: ProgramLog,
    _image: TestFile,
}

impl Machine {
    /// Boots a machine that runs `script`, with programs of this machine and further devices.
    fn boot(kernel: &Kernel, script: &str, programs: &[PathBuf], devices: &[&str]) -> Self {
        let mut files = InitialFileSystem::default();
        for directory in ["/dev", "/proc", "/sys", "/tmp", "/run", "/var/run"] {
            files.add_directory(directory);
        }
        for (number, name) in MODULES.iter().enumerate() {
            if let Some(module) = kernel.module(name) {
                files.add_file(&format!("/modules/{number:02}-{name}"), &module);
            }
        }
        files.add_file("/bin/busybox", &fs::read(peers::BUSYBOX.path()).unwrap());
        files.add_file("/configure", CONFIGURE.as_bytes());
        files.add_file("/etc/ppp/options", b"");
        files.add_file("/etc/passwd", b"root:x:0:0:root:/:/bin/sh\n");
        files.add_file("/etc/group", b"root:x:0:\n");
        programs.iter().for_each(|program| files.add_program(program));
        let init = format!("{INIT}{script}\necho the machine ends\npoweroff -f\n");
        files.add_file("/init", init.as_bytes());
        let image = TestFile::new("initrd", &files.finish());
        let mut command = peers::QEMU.command();
        command.args(["-accel", "tcg", "-cpu", "max", "-m", "256", "-smp", "1", "-nodefaults"]);
        command.args(["-no-reboot", "-display", "none", "-serial", "stdio"]).args(devices);
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&image.0);
        command.args(["-append", "console=ttyS0 loglevel=4 panic=-1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut qemu = command.spawn().unwrap();
        let console = ProgramLog::read(qemu.stdout.take().unwrap());
        Self { qemu, console, _image: image }
    }

    /// Waits for a line of the console that contains `text`, and returns it.
    fn wait_for(&self, text: &str) -> String {
        let find = |lines: &[String]| lines.iter().find(|line| line.contains(text)).cloned();
        self.console.find_within(MACHINE_TIMEOUT, find)
    }

    /// Accepts a connection of the machine.
    fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr) {
        let accepted = catch_unwind(|| accept_within(MACHINE_TIMEOUT, listener));
        accepted.unwrap_or_else(|_| panic!("{}", self.console.lines().join("\n")))
    }

    /// Returns the next checksum of a file of the machine, after `count` others.
    fn checksum(&self, file: &str, count: usize) -> String {
        let is_checksum = |line: &&String| line.trim_end().ends_with(file);
        self.console.find_within(MACHINE_TIMEOUT, |lines| {
            let line = lines.iter().filter(is_checksum).nth(count)?;
            line.split_whitespace().next().map(str::to_owned)
        })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Fails if the machine has ended already.
        _ = self.qemu.kill();
        _ = self.qemu.wait();
    }
}

/// Receives a file of the machine at `listener`, sends another one of `len` bytes, and compares the
/// checksums of both with those of the machine, which has printed `count` before.
fn exchange(machine: &Machine, listener: &TcpListener, len: usize, count: usize) {
    let (mut stream, _) = machine.accept(listener);
    let received = read_to_end(&mut stream);
    assert_eq!(received.len(), len);
    let sent = test_data(len, 1);
    stream.write_all(&sent).unwrap();
    drop(stream);
    assert_eq!(machine.checksum("/sent", count), sha256(&received));
    assert_eq!(machine.checksum("/received", count), sha256(&sent));
}

#[test]
#[ignore = "needs root or a user namespace, QEMU and a kernel"]
fn a_virtual_machine_has_a_lease_and_ipv6_and_exchanges_files() {
    const LEN: usize = 8 << 20;
    if !is_long_run() {
        return;
    }
    let Some(kernel) = Kernel::find() else { return };
    in_host_network(|| {
        ip(&["addr", "add", &format!("{HOST6}/128"), "dev", "lo", "nodad"]);
        let (listener, address) = listen(HOST);
        let listener6 = TcpListener::bind((HOST6, 0)).unwrap();
        let port6 = listener6.local_addr().unwrap().port();
        let socket = TestFile::unused("machine");
        let arguments = ["--allow", "10.99.0.0/16", "--allow", "fd99::/16"];
        let published = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap();
        let publish = format!("{published}:80");
        let arguments = [&arguments[..], &["-p", &publish]].concat();
        let guest = format!("qemu:{}?mtu=1400", socket.path());
        let _gateway = Gateway::start_command(command(&guest, &arguments));
        let script = format!(
            "ip link set eth0 up
             udhcpc -s /configure -i eth0 -n -q -O mtu
             exchange {HOST} {} {LEN}
             until ip -6 route | grep -q ^default; do sleep 0.2; done
             until ip -6 address show dev eth0 | grep fd00: | grep -qv tentative; do sleep 0.2; done
             exchange {HOST6} {port6} {LEN}
             echo listening; echo from the machine | nc -l -p 80",
            address.port(),
        );
        let netdev = format!("stream,id=n0,server=off,addr.type=unix,addr.path={}", socket.path());
        let devices = ["-netdev", &netdev, "-device", "virtio-net-pci,netdev=n0"];
        let machine = Machine::boot(&kernel, &script, &[], &devices);
        assert_eq!(machine.wait_for("lease 10.").trim(), "lease 10.0.2.100 10.0.2.2 10.0.2.3 1400");
        exchange(&machine, &listener, LEN, 0);
        exchange(&machine, &listener6, LEN, 1);
        machine.wait_for("listening");
        let greeting = test_support::poll_until_timeout(|| {
            // The machine resets connections until it listens.
            let mut data = Vec::new();
            TcpStream::connect(published)
                .and_then(|mut stream| stream.read_to_end(&mut data))
                .ok()?;
            Some(data).filter(|data| !data.is_empty())
        });
        assert_eq!(greeting, b"from the machine\n");
        machine.wait_for("the machine ends");
    });
}

/// Boots a machine at a serial line with this link of the gateway. `script` gives the machine an
/// address and a default route at /dev/ttyS1.
fn exchange_at_serial_line(link: &str, script: &str, programs: &[PathBuf]) {
    const LEN: usize = 100_000;
    let Some(kernel) = Kernel::find() else { return };
    in_host_network(|| {
        let (listener, address) = listen(HOST);
        let script = format!("{script}\nexchange {HOST} {} {LEN}", address.port());
        let devices = ["-chardev", "pty,id=line", "-serial", "chardev:line"];
        let machine = Machine::boot(&kernel, &script, programs, &devices);
        let line = machine.wait_for("char device redirected to");
        let device = line.split_whitespace().find(|word| word.starts_with("/dev/pts/")).unwrap();
        let guest = format!("serial:{device}?baud=1000000&link={link}");
        let _gateway = Gateway::start_command(command(&guest, &["--allow", "10.99.0.0/16"]));
        exchange(&machine, &listener, LEN, 0);
        machine.wait_for("the machine ends");
    });
}

#[test]
#[ignore = "needs root or a user namespace, QEMU, a kernel and pppd"]
fn a_machine_at_a_serial_line_exchanges_files_by_ppp_of_its_kernel() {
    if is_long_run() {
        let pppd = peers::PPPD.path();
        let script = format!(
            "{} /dev/ttyS1 115200 local noauth nodetach nocrtscts noipdefault defaultroute &
             until ip address show dev ppp0 2>/dev/null | grep -q '10.0.2.100 peer 10.0.2.2'
             do sleep 0.2; done",
            pppd.display()
        );
        exchange_at_serial_line("ppp", &script, &[pppd]);
    }
}

/// Attaches SLIP with this protocol of slattach.
fn attach(protocol: &str) -> String {
    format!(
        "{} -L -p {protocol} -s 115200 /dev/ttyS1 &
         until ifconfig sl0 10.0.2.100 pointopoint 10.0.2.2 mtu 296 up 2>/dev/null
         do sleep 0.2; done
         route add default dev sl0",
        peers::SLATTACH.path().display()
    )
}

#[test]
#[ignore = "needs root or a user namespace, QEMU, a kernel and slattach"]
fn a_machine_at_a_serial_line_exchanges_files_by_slip_of_its_kernel() {
    if is_long_run() {
        exchange_at_serial_line("slip", &attach("slip"), &[peers::SLATTACH.path()]);
    }
}

#[test]
#[ignore = "needs root or a user namespace, QEMU, a kernel and slattach"]
fn a_machine_at_a_serial_line_exchanges_files_by_compressed_slip_of_its_kernel() {
    if is_long_run() {
        exchange_at_serial_line("cslip", &attach("cslip"), &[peers::SLATTACH.path()]);
    }
}

#[test]
#[ignore = "needs root or a user namespace, QEMU and a kernel"]
fn a_machine_that_is_killed_in_mid_transfer_is_followed_by_another_one() {
    const LEN: usize = 1 << 20;
    if !is_long_run() {
        return;
    }
    let Some(kernel) = Kernel::find() else { return };
    in_host_network(|| {
        let (listener, SocketAddr::V4(address)) = listen(HOST) else { unreachable!() };
        let socket = TestFile::unused("machine");
        let guest = format!("qemu:{}", socket.path());
        let _gateway = Gateway::start_command(command(&guest, &["--allow", "10.99.0.0/16"]));
        let script = format!(
            "ip link set eth0 up
             udhcpc -s /configure -i eth0 -n -q -O mtu
             exchange {HOST} {} {LEN}",
            address.port()
        );
        let netdev = format!("stream,id=n0,server=off,addr.type=unix,addr.path={}", socket.path());
        let devices = ["-netdev", &netdev, "-device", "virtio-net-pci,netdev=n0"];
        let first = Machine::boot(&kernel, &script, &[], &devices);
        let (mut interrupted, from) = first.accept(&listener);
        assert_eq!(from.ip(), IpAddr::from(HOST));
        // The machine has sent its file and waits for the other one.
        read_to_end(&mut interrupted);
        interrupted.write_all(&test_data(LEN / 2, 1)).unwrap();
        drop(first);
        let second = Machine::boot(&kernel, &script, &[], &devices);
        exchange(&second, &listener, LEN, 0);
    });
}
