//! A serial line offered by `plumb serve --console` to plumb's own client, to Telnet clients
//! without RFC 2217 and, if it is installed, to pyserial's RFC 2217 client.
//!
//! Each test has its own network, in which the server listens at 10.0.0.1. The line is a
//! pseudo-terminal; the test holds its other end.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::served::{Caller, PORT, Served, unique};
use login_desk::{Person, SERVER, in_new_network, within_the_limit};
use os::pty::Pty;
use os::tty::WindowSize;
use rustix::termios::{ControlModes, tcgetattr};
use std::path::PathBuf;
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

    fn says(&self, text: &[u8]) {
        let mut rest = text;
        within_the_limit(|| {
            let count = self.end().write(rest).unwrap().unwrap_or(0);
            rest = &rest[count..];
            rest.is_empty().then_some(())
        });
    }

    /// Waits for `text`, and checks that exactly these bytes arrive.
    fn hears(&self, text: &[u8]) {
        let mut heard = Vec::new();
        within_the_limit(|| {
            let mut bytes = [0; 4096];
            let count = self.end().read(&mut bytes).ok().flatten().unwrap_or(0);
            heard.extend_from_slice(&bytes[..count]);
            (heard.len() >= text.len()).then_some(())
        });
        assert_eq!(heard, text);
    }

    fn serve(&self, arguments: &[&str]) -> Served {
        let server =
            Served::start(&[&["--console", self.name.to_str().unwrap()], arguments].concat());
        server.says("is open");
        server
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.name);
    }
}

/// Connects as a Telnet client that refuses every option, so that the server need not wait for
/// negotiation.
fn caller_of_telnet() -> Caller {
    let mut caller = Caller::new();
    // WONT and DONT for the options that a console requests: ECHO, SUPPRESS-GO-AHEAD,
    // TERMINAL-TYPE, NAWS.
    caller.says(b"\xff\xfe\x01\xff\xfe\x03\xff\xfc\x18\xff\xfc\x1f");
    caller
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
fn a_person_works_at_a_console_by_rfc_2217_and_every_byte_passes() {
    in_new_network(|| {
        let device = Device::new();
        let server = device.serve(&[]);
        let mut person = Person::over(&[&format!("rfc2217://{SERVER}:{PORT}?baud=9600")]);
        person.sees("Message from the server: plumb: you have write access");
        server.says("10.0.0.1:");
        person.types("ls\r\x05c");
        device.hears(b"ls\r\x05c");
        device.says(b"boot> \xe2\x82\xac\r\n");
        person.sees("boot> \u{20ac}");
        person.types("\x1dclose\r");
        assert_eq!(person.leaves().code(), Some(0));
        server.says("disconnected");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn one_writes_and_the_others_watch_until_one_takes_over() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut first = caller_of_telnet();
        first.hears(b"[plumb: you have write access");
        let mut second = caller_of_telnet();
        second.hears(b"has write access, you watch; ^E c f takes over]");
        second.says(b"not yet\r\n");
        second.hears(b"[plumb: another client has write access");
        first.says(b"mine");
        device.hears(b"mine");
        device.says(b"for both");
        first.hears(b"for both");
        second.hears(b"for both");
        second.says(b"\x05cfyours");
        second.hears(b"[plumb: you have write access");
        first.hears(b"has write access, you watch");
        device.hears(b"yours");
        second.says(b"\x05c.");
        second.hears_the_end();
        first.hears(b"left: type to get write access]");
        first.says(b"again");
        device.hears(b"again");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn who_comes_later_can_see_what_the_line_said_before_and_who_is_there() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut first = caller_of_telnet();
        first.hears(b"you have write access");
        device.says(b"panic: out of coffee\r\n");
        first.hears(b"coffee");
        let mut second = caller_of_telnet();
        second.hears(b"you watch");
        second.says(b"\x05cr");
        second.hears(b"[plumb: recent output:]");
        second.hears(b"panic: out of coffee\r\n");
        second.says(b"\x05cw");
        second.hears(b" writes]");
        second.hears(b" watches]");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn one_who_does_not_read_holds_nobody_and_is_told_what_was_skipped() {
    in_new_network(|| {
        let device = Device::new();
        let _server = device.serve(&[]);
        let mut reader = caller_of_telnet();
        reader.hears(b"you have write access");
        let mut sleeper = caller_of_telnet();
        sleeper.hears(b"you watch");
        // More bytes than the kernel's buffers for the sleeping client and the server's queue hold
        // together.
        let line = [b'.'; 1024];
        for _ in 0..12 * 1024 {
            device.says(&line);
            let mut left = line.len();
            while left > 0 {
                let mut bytes = [0; 1024];
                left -= std::io::Read::read(&mut reader.stream, &mut bytes[..left]).unwrap();
            }
        }
        device.says(b"the end");
        reader.hears(b"the end");
        sleeper.hears(b"bytes skipped: output not read fast enough]");
        sleeper.hears(b"the end");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_device_that_is_pulled_out_and_plugged_in_again_goes_on() {
    in_new_network(|| {
        let mut device = Device::new();
        let server = device.serve(&[]);
        let mut caller = caller_of_telnet();
        caller.hears(b"you have write access");
        device.pull_out();
        caller.hears(b"[plumb: serial line lost, waiting for it]");
        server.says("is unavailable");
        device.plug_in();
        caller.hears(b"[plumb: serial line reopened]");
        caller.says(b"here again");
        device.hears(b"here again");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_place_that_may_not_write_watches() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "write = [\"10.66.0.0/16\"]\n");
        let server = Served::start_with(&["--config", &file]);
        server.says("is open");
        let mut caller = caller_of_telnet();
        caller.hears(b"no client has write access, you watch]");
        caller.says(b"rm -rf /\r\n\x05cf");
        caller.hears(b"[plumb: write access is not allowed from this address]");
        device.says(b"prompt> ");
        caller.hears(b"prompt> ");
        assert_eq!(device.end().read(&mut [0; 64]).unwrap(), None);
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn what_the_line_says_is_kept_where_that_is_asked() {
    in_new_network(|| {
        let (device, log) = (Device::new(), unique("console.log"));
        let file = configuration(&device, &format!("log = \"{}\"\n", log.display()));
        let server = Served::start_with(&["--config", &file]);
        server.says("is open");
        device.says(b"kept with nobody there\r\n");
        within_the_limit(|| {
            let kept = std::fs::read(&log).ok()?;
            (kept == b"kept with nobody there\r\n").then_some(())
        });
        std::fs::remove_file(file).unwrap();
        std::fs::remove_file(log).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn who_writes_sets_the_line_within_what_the_configuration_allows() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "rates = [19200]\nfree-framing = true\n");
        let server = Served::start_with(&["--config", &file]);
        server.says("is open");
        let to = format!("rfc2217://{SERVER}:{PORT}?baud=19200&stop=2");
        let mut person = Person::over(&[&to]);
        person.sees("you have write access");
        person.types("x");
        device.hears(b"x");
        let modes = tcgetattr(device.end()).unwrap();
        assert_eq!(modes.output_speed(), 19_200);
        assert!(modes.control_modes.contains(ControlModes::CSTOPB));
        person.types("\x1dclose\r");
        assert_eq!(person.leaves().code(), Some(0));
        let mut person = Person::over(&[&format!("rfc2217://{SERVER}:{PORT}?baud=38400&stop=2")]);
        person.sees("The server did not set");
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_console_in_tls_alone_sends_away_who_stays_in_clear() {
    in_new_network(|| {
        let device = Device::new();
        let name = device.name.to_str().unwrap();
        let at = format!("{SERVER}:{PORT}");
        let server = Served::start_with(&["--console", name, "--listen", &at, "--tls", "required"]);
        server.says("START_TLS required");
        let mut caller = caller_of_telnet();
        caller.says(b"\xff\xfc\x2e");
        caller.hears(b"This server requires TLS");
        caller.hears_the_end();
        let mut person = person_who_knows_nobody(&[&format!("rfc2217://{at}")]);
        person.sees("you have write access");
        person.types("x");
        device.hears(b"x");
    });
}

/// A client with an empty, temporary store of known certificates.
fn person_who_knows_nobody(arguments: &[&str]) -> Person {
    let mut command = login_desk::plumb();
    command.args(arguments).env("XDG_STATE_HOME", unique("known"));
    Person::running(command)
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
fn pyserial_works_at_our_console() {
    in_new_network(|| {
        let device = Device::new();
        let file = configuration(&device, "rates = [19200]\n");
        let server = Served::start_with(&["--config", &file]);
        server.says("is open");
        let mut child = peers::PYSERIAL.command().args(["-c", PYSERIAL]).spawn().unwrap();
        let all: Vec<u8> = (0..=255).collect();
        device.hears(&all);
        device.says(&all);
        device.hears(b"done");
        assert!(child.wait().unwrap().success());
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's ser2net"]
fn our_client_works_at_the_console_of_ser2net() {
    in_new_network(|| {
        let device = Device::new();
        let line = format!("serialdev,{},9600n81,local", device.end().path().display());
        let _server = Ser2net::start("telnet(rfc2217),tcp", &line);
        let mut person = Person::over(&[&format!("rfc2217://{SERVER}:2217?baud=19200")]);
        person.sees("Escape character");
        let speed = || tcgetattr(device.end()).unwrap().output_speed();
        within_the_limit(|| (speed() == 19_200).then_some(()));
        person.types("ls\r");
        device.hears(b"ls\r");
        device.says(b"boot> ");
        person.sees("boot> ");
        person.types("\x1dclose\r");
        assert_eq!(person.leaves().code(), Some(0));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and Debian's ser2net"]
fn ser2net_works_at_our_console_and_every_byte_passes() {
    in_new_network(|| {
        let device = Device::new();
        let server = device.serve(&[]);
        let to = format!("telnet(rfc2217),tcp,{SERVER},{PORT}");
        let _peer = Ser2net::start("tcp", &to);
        // ser2net connects to the console when a client connects to ser2net.
        let mut caller = Caller::at((SERVER, 2217));
        server.says("10.0.0.1:");
        let all: Vec<u8> = (0..=255).filter(|byte| *byte != ESCAPE).collect();
        caller.says(&all);
        device.hears(&all);
        device.says(&all);
        caller.hears(&all);
    });
}

/// The console's escape key; it is sent twice to pass it to the line.
const ESCAPE: u8 = 0x05;

/// A ser2net that listens at port 2217, killed on drop.
struct Ser2net {
    _program: os::process::Program,
    file: PathBuf,
}

impl Ser2net {
    /// Starts ser2net between an `accepter` and a `connector`, both in the syntax of its
    /// configuration.
    fn start(accepter: &str, connector: &str) -> Self {
        let file = unique("ser2net.yaml");
        let text = format!(
            "connection: &con\n  accepter: {accepter},{SERVER},2217\n  connector: {connector}\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut command = peers::SER2NET.command();
        command.args(["-n", "-c"]).arg(&file);
        let program = os::process::Program::start(&mut command).unwrap();
        within_the_limit(|| {
            let file = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
            // 10.0.0.1, port 2217, LISTEN. A connection as a probe would already be served.
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
