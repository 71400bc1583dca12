//! Remote host of the demonstration: a user-space station with a Telnet server and a minimal shell.
//!
//! The demonstration uses this host on machines that permit no TUN. The link is LLP over a
//! pseudo-terminal, whose path is the first line that this program prints.

use super::local_server::SERVER;
use anyhow::{Context, Result};
use net::Cx;
use net::application::Stream;
use net::link::{Link, Llp};
use net::meter::Meter;
use net::rng::Rng;
use net::station::{Application, Opening, Scheduler, Settings, Station, TcpStreamApp};
use net::transport::tcp::Profile;
use os::clock::Monotonic;
use os::load::Machine;
use os::pty::Pty;
use os::readiness::{self, PollFd, PollFlags};
use os::tty::WindowSize;
use protocols::telnet::{Event, ServerSettings, Telnet};
use std::io::Write;
use std::os::fd::AsFd;

const MTU: usize = 576;
const WINDOW: usize = 4_096;
const PROMPT: &[u8] = b"$ ";
const LINE_MAX: usize = 2_048;

/// Runs the host until its line is closed.
///
/// # Errors
///
/// Returns an error if the machine provides no pseudo-terminal.
pub(crate) fn run() -> Result<()> {
    let pty = Pty::open(WindowSize { rows: 24, columns: 80 })
        .context("cannot open a pseudo-terminal: mount /dev/pts")?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", pty.path().display())?;
    stdout.flush()?;
    let clock = Monotonic::start();
    let mut meter = Meter::off();
    let mut rng = Rng::from_seed(os::entropy::seed()?);
    let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
    let settings = Settings { address: *SERVER.ip(), prefix_len: 24, ..Settings::default() };
    let mut station = Station::new(Link::Llp(Llp::new(MTU)), settings, &mut cx);
    let opening = Opening::Passive { port: SERVER.port() };
    let mut shell = TcpStreamApp::new(DemoShell::new(), opening, Profile::interactive(WINDOW));
    let mut scheduler = Scheduler::default();
    let mut buffer = vec![0; 4_096];
    let mut unwritten = Vec::new();
    loop {
        cx.now = clock.now();
        scheduler.run(&mut station, &mut shell, &mut cx);
        write(&pty, &mut station, &mut unwritten, &mut cx)?;
        if shell.is_over() {
            return Ok(());
        }
        let mut line_events = PollFlags::IN;
        line_events.set(PollFlags::OUT, !unwritten.is_empty());
        let until = [station.deadline(), shell.deadline()].into_iter().flatten().min();
        // The parent process ends this program by closing its standard input.
        let stdin = std::io::stdin();
        let mut descriptors = [
            PollFd::from_borrowed_fd(pty.as_fd(), line_events),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        readiness::wait(&mut descriptors, &clock, until)?;
        let [line, starter] = descriptors;
        if !starter.revents().is_empty() {
            return Ok(());
        }
        if !line.revents().is_empty() {
            cx.now = clock.now();
            while let Some(count @ 1..) = pty.read(&mut buffer)? {
                station.receive(buffer.get(..count).unwrap_or_default(), &mut cx);
            }
        }
    }
}

fn write(pty: &Pty, station: &mut Station, unwritten: &mut Vec<u8>, cx: &mut Cx<'_>) -> Result<()> {
    loop {
        if unwritten.is_empty() && station.transmit_into(unwritten, usize::MAX, cx) == 0 {
            return Ok(());
        }
        match pty.write(unwritten)? {
            Some(count) => drop(unwritten.drain(..count.min(unwritten.len()))),
            None => return Ok(()),
        }
    }
}

/// Shell that echoes input, edits the line and supports three commands.
struct DemoShell {
    telnet: Telnet,
    line: Vec<u8>,
    is_over: bool,
}

impl DemoShell {
    fn new() -> Self {
        let telnet = Telnet::server(&ServerSettings::default());
        Self { telnet, line: Vec::new(), is_over: false }
    }

    fn type_key(&mut self, key: u8, answer: &mut Vec<u8>) {
        match key {
            b'\r' => {
                answer.extend_from_slice(b"\r\n");
                let line = std::mem::take(&mut self.line);
                answer.extend(output_of(&String::from_utf8_lossy(&line)));
                answer.extend_from_slice(PROMPT);
            }
            0x7f | 0x08 if self.line.pop().is_some() => {
                answer.extend_from_slice(b"\x08 \x08");
            }
            0x15 => {
                let erasure = b"\x08 \x08".repeat(self.line.len());
                self.line.clear();
                answer.extend(erasure);
            }
            b' '..=b'~' if self.line.len() < LINE_MAX => {
                self.line.push(key);
                answer.push(key);
            }
            _ => {}
        }
    }
}

/// Returns the output of a command, with CR LF line ends.
fn output_of(command: &str) -> Vec<u8> {
    let machine = Machine::current();
    match command.trim() {
        "" => Vec::new(),
        "uname -a" => format!("{} {}\r\n", machine.kernel, machine.architecture).into_bytes(),
        "ls -l" => b"total 1\r\n-r--r--r--    1 plumb    plumb        1968 screenful\r\n".to_vec(),
        printf if printf.starts_with("printf '%080d\\n' ") => {
            let numbers = printf.split_whitespace().skip(2).take(24);
            numbers.flat_map(|number| format!("{number:0>80}\r\n").into_bytes()).collect()
        }
        _ => b"this shell supports uname -a, ls -l and a printf of a screenful\r\n".to_vec(),
    }
}

impl Stream for DemoShell {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.telnet.start(cx);
        self.telnet.send(PROMPT, cx);
    }

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        let mut answer = Vec::new();
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            let keys = run.to_vec();
            keys.iter().for_each(|key| self.type_key(*key, &mut answer));
        }
        self.telnet.send(&answer, cx);
    }

    fn urgent(&mut self, is_ahead: bool) {
        if is_ahead { self.telnet.urgent() } else { self.telnet.urgent_ended() }
    }

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.telnet.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.is_over = true;
    }

    fn is_closing(&self) -> bool {
        self.is_over
    }
}
