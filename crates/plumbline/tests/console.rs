//! Tests of a serial line that `plumb serve --console` offers to plumb's own client, to Telnet
//! clients without RFC 2217 and, if it is installed, to pyserial's RFC 2217 client.
//!
//! Each test has its own network namespace, in which the server listens at 10.0.0.1. The serial
//! line is a pseudo-terminal whose other end the test reads and writes.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use login_harness::serve_process::{PORT, RawClient, ServeProcess, unique};
use login_harness::{SERVER, TerminalUser, in_new_network, poll_until_timeout};
use os::pty::Pty;
use os::tty::WindowSize;
use rustix::process::Signal;
use rustix::termios::{ControlModes, tcgetattr};
use std::path::{Path, PathBuf};
use test_support::peers;

/// A removable device: a symbolic link to a pseudo-terminal, like the links that udev makes.
struct Device {
    name: PathBuf,
    end: Option<Pty>,
}

impl Device {
    fn new() -> Self {
        let mut device = Self { name: unique("line"), end: None };
        device.plug_in();
        device
    }

    fn plug_in(&mut self) {
        let pty = Pty::open(WindowSize { rows: 24, columns: 80 }).unwrap();
        std::os::unix::fs::symlink(pty.path(), &self.name).unwrap();
        self.end = Some(pty);
    }

    fn pull_out(&mut self) {
        std::fs::remove_file(&self.name).unwrap();
        self.end = None;
    }

    fn end(&self) -> &Pty {
        self.end.as_ref().unwrap()
    }

    fn send(&self, text: &[u8]) {
        let mut rest = text;
        poll_until_timeout(|| {
            let count = self.end().write(rest).unwrap().unwrap_or(0);
            rest = &rest[count..];
            rest.is_empty().then_some(())
        });
    }

    /// Waits for as many bytes as `text` has, and checks that the received bytes are exactly
    /// `text`.
    fn wait_for(&self, text: &[u8]) {
        let mut received = Vec::new();
        poll_until_timeout(|| {
            let mut bytes = [0; 4096];
            let count = self.end().read(&mut bytes).ok().flatten().unwrap_or(0);
            received.extend_from_slice(&bytes[..count]);
            (received.len() >= text.len()).then_some(())
        });
        assert_eq!(received, text);
    }

    fn serve(&self, arguments: &[&str]) -> ServeProcess {
        let server =
            ServeProcess::start(&[&["--console", self.name.to_str().unwrap()], arguments].concat());
        server.wait_for_log("is open");
        server
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.name);
    }
}

/// Connects as a Telnet client that refuses every option, so that the server does not wait for the
/// end of the negotiation.
fn connect_telnet_client() -> RawClient {
    let mut client = RawClient::new();
    // WONT and DONT for the options that a console requests: ECHO, SUPPRESS-GO-AHEAD,
    // TERMINAL-TYPE, NAWS.
    client.send(b"\xff\xfe\x01\xff\xfe\x03\xff\xfc\x18\xff\xfc\x1f");
    client
}

/// Writes a configuration with one console, and returns its path.
fn configuration(device: &Device, rest: &str) -> String {
    let path = unique("console.toml");
    let text = format!(
        "[[console]]\ndevice = \"{}\"\nbaud = 9600\nlisten = [\"{SERVER}:{PORT}\"]\n\
         tls = \"off\"\n{rest}",
        device.name.display()
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_rfc_2217_client_uses_a_console_and_every_byte_passes() {
    in_new_network(|| {
        let device = Device::new();
        let server = device.serve(&[]);
        let mut terminal_user =
            TerminalUser::with_arguments(&[&format!("rfc2217://{SERVER}:{PORT}?baud=9600")]);
        terminal_user.wait_for_text("Message from the server: plumb: you have write access");
        server.wait_for_log("10.0.0.1:");
        terminal_user.type_keys("ls\r\x05c");
        device.wait_for(b"ls\r\x05c");
        device.send(b"boot> \xe2\x82\xac\r\n");
        terminal_user.wait_for_text("boot> \u{20ac}");
        terminal_user.type_keys("\x1dclose\r");
        assert_eq!(terminal_user.wait_for_exit().code(), Some(0));
        server.wait_for_log("disconnected");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn one_client_writes_and_the_others_watch_until_one_takes_write_access() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut first = connect_telnet_client();
        first.wait_for(b"[plumb: you have write access");
        let mut second = connect_telnet_client();
        second.wait_for(b"has write access, you watch; ^E c f takes over]");
        second.send(b"not yet\r\n");
        second.wait_for(b"[plumb: another client has write access");
        first.send(b"mine");
        device.wait_for(b"mine");
        device.send(b"for both");
        first.wait_for(b"for both");
        second.wait_for(b"for both");
        second.send(b"\x05cfyours");
        second.wait_for(b"[plumb: you have write access");
        first.wait_for(b"has write access, you watch");
        device.wait_for(b"yours");
        second.send(b"\x05c.");
        second.read_to_end_of_stream();
        first.wait_for(b"left: type to get write access]");
        first.send(b"again");
        device.wait_for(b"again");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_later_client_can_replay_the_output_and_list_the_clients() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut first = connect_telnet_client();
        first.wait_for(b"you have write access");
        device.send(b"panic: out of coffee\r\n");
        first.wait_for(b"coffee");
        let mut second = connect_telnet_client();
        second.wait_for(b"you watch");
        second.send(b"\x05cr");
        second.wait_for(b"[plumb: recent output:]");
        second.wait_for(b"panic: out of coffee\r\n");
        second.send(b"\x05cw");
        second.wait_for(b" writes]");
        second.wait_for(b" watches]");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_slow_reader_blocks_no_other_client_and_is_notified_of_dropped_bytes() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut reader = connect_telnet_client();
        reader.wait_for(b"you have write access");
        let mut sleeper = connect_telnet_client();
        sleeper.wait_for(b"you watch");
        // The line sends more bytes than the kernel's buffers for the sleeping client and the
        // server's queue can store together.
        let line = [b'.'; 1024];
        for _ in 0..12 * 1024 {
            device.send(&line);
            let mut remaining_bytes = line.len();
            while remaining_bytes > 0 {
                let mut bytes = [0; 1024];
                remaining_bytes -=
                    std::io::Read::read(&mut reader.stream, &mut bytes[..remaining_bytes]).unwrap();
            }
        }
        device.send(b"the end");
        reader.wait_for(b"the end");
        sleeper.wait_for(b"bytes skipped: output not read fast enough]");
        sleeper.wait_for(b"the end");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_replugged_device_is_reopened() {
    in_new_network(|| {
        let mut device = Device::new();
        let server = device.serve(&[]);
        let mut client = connect_telnet_client();
        client.wait_for(b"you have write access");
        device.pull_out();
        client.wait_for(b"[plumb: serial line lost, waiting for it]");
        server.wait_for_log("is unavailable");
        device.plug_in();
        client.wait_for(b"[plumb: serial line reopened]");
        client.send(b"here again");
        device.wait_for(b"here again");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn an_address_without_write_access_watches() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "write = [\"10.66.0.0/16\"]\n");
        let server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        let mut client = connect_telnet_client();
        client.wait_for(b"no client has write access, you watch]");
        client.send(b"rm -rf /\r\n\x05cf");
        client.wait_for(b"[plumb: write access is not allowed from this address]");
        device.send(b"prompt> ");
        client.wait_for(b"prompt> ");
        assert_eq!(device.end().read(&mut [0; 64]).unwrap(), None);
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_reload_changes_the_line_of_a_connected_client_and_ends_a_removed_console() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "");
        let mut server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        let mut client = connect_telnet_client();
        client.wait_for(b"you have write access");
        assert_eq!(tcgetattr(device.end()).unwrap().output_speed(), 9600);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("9600", "19200")).unwrap();
        server.program.signal(Signal::HUP).unwrap();
        server.wait_for_log("configuration reloaded");
        poll_until_timeout(|| {
            (tcgetattr(device.end()).unwrap().output_speed() == 19_200).then_some(())
        });
        client.send(b"same session");
        device.wait_for(b"same session");
        device.send(b"prompt> ");
        client.wait_for(b"prompt> ");
        let other = Device::new();
        let names = [&device, &other].map(|device| device.name.to_str().unwrap());
        std::fs::write(&file, text.replace(names[0], names[1])).unwrap();
        server.program.signal(Signal::HUP).unwrap();
        client.read_to_end_of_stream();
        server.wait_for_log("the console was removed from the configuration");
        let mut client = connect_telnet_client();
        client.wait_for(b"you have write access");
        client.send(b"other line");
        other.wait_for(b"other line");
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_output_of_the_line_is_logged_if_configured() {
    in_new_network(|| {
        let device = Device::new();
        let log = unique("console.log");
        let file = configuration(&device, &format!("log = \"{}\"\n", log.display()));
        let server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        device.send(b"kept without a client\r\n");
        poll_until_timeout(|| {
            let log_text = std::fs::read(&log).ok()?;
            (log_text == b"kept without a client\r\n").then_some(())
        });
        std::fs::remove_file(file).unwrap();
        std::fs::remove_file(log).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_renamed_console_log_is_opened_again_on_sigusr1() {
    in_new_network(|| {
        let device = Device::new();
        let log = unique("console.log");
        let file = configuration(&device, &format!("log = \"{}\"\n", log.display()));
        let mut server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        let wait_for_content = |text: &[u8]| {
            poll_until_timeout(|| (std::fs::read(&log).ok()? == text).then_some(()));
        };
        device.send(b"before\r\n");
        wait_for_content(b"before\r\n");
        let renamed = log.with_extension("1");
        std::fs::rename(&log, &renamed).unwrap();
        server.program.signal(Signal::USR1).unwrap();
        server.wait_for_log("log files reopened");
        device.send(b"after\r\n");
        wait_for_content(b"after\r\n");
        assert_eq!(std::fs::read(&renamed).unwrap(), b"before\r\n");
        for path in [Path::new(&file), &log, &renamed] {
            std::fs::remove_file(path).unwrap();
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn the_writer_changes_the_line_settings_within_the_configuration() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "rates = [19200]\nfree-framing = true\n");
        let server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        let to = format!("rfc2217://{SERVER}:{PORT}?baud=19200&stop=2");
        let mut terminal_user = TerminalUser::with_arguments(&[&to]);
        terminal_user.wait_for_text("you have write access");
        terminal_user.type_keys("x");
        device.wait_for(b"x");
        let modes = tcgetattr(device.end()).unwrap();
        assert_eq!(modes.output_speed(), 19_200);
        assert!(modes.control_modes.contains(ControlModes::CSTOPB));
        terminal_user.type_keys("\x1dclose\r");
        assert_eq!(terminal_user.wait_for_exit().code(), Some(0));
        let mut terminal_user = TerminalUser::with_arguments(&[&format!(
            "rfc2217://{SERVER}:{PORT}?baud=38400&stop=2"
        )]);
        terminal_user.wait_for_text("The server did not set");
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_console_that_requires_tls_rejects_cleartext_clients() {
    in_new_network(|| {
        let device = Device::new();
        let name = device.name.to_str().unwrap();
        let address = format!("{SERVER}:{PORT}");
        let server = ServeProcess::start_with(&[
            "--console",
            name,
            "--listen",
            &address,
            "--tls",
            "required",
        ]);
        server.wait_for_log("START_TLS required");
        let mut client = connect_telnet_client();
        client.send(b"\xff\xfc\x2e");
        client.wait_for(b"This server requires TLS");
        client.read_to_end_of_stream();
        let mut terminal_user = login_without_known_hosts(&[&format!("rfc2217://{address}")]);
        terminal_user.wait_for_text("you have write access");
        terminal_user.type_keys("x");
        device.wait_for(b"x");
    });
}

/// Starts a client with an empty, temporary store of known certificates.
fn login_without_known_hosts(arguments: &[&str]) -> TerminalUser {
    let mut command = login_harness::plumb();
    command.args(arguments).env("XDG_STATE_HOME", unique("known"));
    TerminalUser::run(command)
}

/// A pyserial script: settings, all byte values in both directions, a BREAK, and a rate that is
/// refused.
const PYSERIAL: &str = r#"
import serial, sys
port = serial.serial_for_url("rfc2217://10.0.0.1:2323?timeout=10", baudrate=9600, timeout=10)
port.baudrate = 19200
port.dtr = False
port.write(bytes(range(256)))
assert port.read(256) == bytes(range(256)), "bytes from the line"
port.send_break(0.01)
try:
    port.baudrate = 50
    sys.exit("a rate that is not allowed was accepted")
except ValueError:
    pass
port.write(b"done")
port.close()
"#;

#[test]
#[ignore = "needs root or a user namespace, and pyserial"]
fn pyserial_uses_a_console_of_plumb_serve() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "rates = [19200]\n");
        let server = ServeProcess::start_with(&["--config", &file]);
        server.wait_for_log("is open");
        let mut child = peers::PYSERIAL.command().args(["-c", PYSERIAL]).spawn().unwrap();
        let all: Vec<u8> = (0..=255).collect();
        device.wait_for(&all);
        device.send(&all);
        device.wait_for(b"done");
        assert!(child.wait().unwrap().success());
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's ser2net"]
fn plumb_login_uses_a_console_of_ser2net() {
    in_new_network(|| {
        let device = Device::new();
        let line = format!("serialdev,{},9600n81,local", device.end().path().display());
        let _server = Ser2net::start("telnet(rfc2217),tcp", &line);
        let mut terminal_user =
            TerminalUser::with_arguments(&[&format!("rfc2217://{SERVER}:2217?baud=19200")]);
        terminal_user.wait_for_text("Escape character");
        let speed = || tcgetattr(device.end()).unwrap().output_speed();
        poll_until_timeout(|| (speed() == 19_200).then_some(()));
        terminal_user.type_keys("ls\r");
        device.wait_for(b"ls\r");
        device.send(b"boot> ");
        terminal_user.wait_for_text("boot> ");
        terminal_user.type_keys("\x1dclose\r");
        assert_eq!(terminal_user.wait_for_exit().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's ser2net"]
fn ser2net_uses_a_console_of_plumb_serve_and_every_byte_passes() {
    in_new_network(|| {
        let device = Device::new();
        let server = device.serve(&[]);
        let to = format!("telnet(rfc2217),tcp,{SERVER},{PORT}");
        let _peer = Ser2net::start("tcp", &to);
        // ser2net connects to the console when a client connects to ser2net.
        let mut client = RawClient::connect_to((SERVER, 2217));
        server.wait_for_log("10.0.0.1:");
        let all: Vec<u8> = (0..=255).filter(|byte| *byte != ESCAPE).collect();
        client.send(&all);
        device.wait_for(&all);
        device.send(&all);
        client.wait_for(&all);
    });
}

/// The console's escape key. A client types the key twice to send it to the line.
const ESCAPE: u8 = 0x05;

/// A ser2net that listens at port 2217, killed on drop.
struct Ser2net {
    _program: os::process::Program,
    file: PathBuf,
}

impl Ser2net {
    /// Starts a ser2net that passes data between `accepter` (the network side) and `connector` (the
    /// serial side), both in the syntax of the ser2net configuration.
    fn start(accepter: &str, connector: &str) -> Self {
        let file = unique("ser2net.yaml");
        let text = format!(
            "connection: &con\n  accepter: {accepter},{SERVER},2217\n  connector: {connector}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = peers::SER2NET.command();
        command.args(["-n", "-c"]).arg(&file);
        let program = os::process::Program::start(&mut command).unwrap();
        poll_until_timeout(|| {
            let file = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
            // 10.0.0.1, port 2217, LISTEN. The test does not probe with a connection, because
            // ser2net would serve it.
            file.contains("0100000A:08A9 00000000:0000 0A").then_some(())
        });
        Self { _program: program, file }
    }
}

impl Drop for Ser2net {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.file);
    }
}
