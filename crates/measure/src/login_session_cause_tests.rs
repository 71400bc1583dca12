//! Logins in virtual time, each with one injected fault, measured over the user-space TCP. The
//! tests cover the complete measurement, from the first prompt to the verdict.
//!
//! `cargo test -p measure login_session_cause -- --nocapture` prints in how many
//! sessions the verdict names each fault first. `crates/simulator/tests/causes` covers the faults
//! that cannot be injected into a login or that need TLS.

use super::circumstances::{Carrier, Circumstances};
use super::login_session::MeasureSession;
use super::progress::ProgressLine;
use super::prompt::Prompts;
use super::record::measurement;
use super::session_parameters::{Login, SessionParameters};
use carrier::{CarrierStatus, Outcome, Route, StreamSession};
use impaired_path::{ImpairedPath, PathSettings};
use net::Cx;
use net::application::Stream;
use net::link::{Datagram, Link};
use net::meter::{Costs, Work};
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{Acknowledgment, Profile, ReceiveWindow, SendLimit};
use os::clock::TickRate;
use records::Measurement;
use records::verdict::CauseKind;
use simulator::transmission_line::Line;
use simulator::{Host, World};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::SystemTime;

#[path = "../../simulator/tests/causes/impaired_path.rs"]
#[expect(clippy::cast_possible_truncation, reason = "a round trip of a test is short")]
mod impaired_path;

const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 23;
/// Time limit in virtual time; every login ends long before.
const TIME_LIMIT: Duration = Duration::from_secs(10_000);

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A remote host with a shell.
#[derive(Clone, Copy, Debug)]
struct Shell {
    /// Time until the login prompt.
    prompt: Duration,
    /// Time from the user name until the shell's prompt.
    login: Duration,
    /// Time from the arrival of a key to its answer.
    answer_delay: Duration,
    /// Size of each write of a program, in bytes.
    write_bytes: usize,
}

/// Data that the shell sends.
#[derive(Debug)]
enum Answer {
    /// Echo of keys.
    Echo(Vec<u8>),
    /// Output of a command, followed by the prompt.
    Output(Vec<u8>),
}

/// A simulated shell with its terminal: line discipline, echo and the output of a few commands.
#[derive(Debug)]
struct SimulatedShell {
    shell: Shell,
    line: Vec<u8>,
    has_name: bool,
    answers: VecDeque<(Instant, Answer)>,
    /// Remaining output of a command.
    rest: VecDeque<u8>,
    output: Vec<u8>,
    now: Instant,
    /// Number of bytes until the end of the current Telnet command.
    command_bytes_left: usize,
}

impl SimulatedShell {
    fn new(shell: Shell) -> Self {
        Self {
            shell,
            line: Vec::new(),
            has_name: false,
            answers: VecDeque::new(),
            rest: VecDeque::new(),
            output: Vec::new(),
            now: Instant::ZERO,
            command_bytes_left: 0,
        }
    }

    fn queue_answer(&mut self, answer: Answer, after: Duration) {
        let at = self.answers.back().map_or(self.now, |(at, _)| (*at).max(self.now));
        self.answers.push_back((at + after, answer));
    }

    /// Processes a key, which is answered after `answer_delay`.
    fn key(&mut self, key: u8, answer_delay: Duration) {
        match key {
            b'\r' => {
                self.queue_answer(Answer::Echo(b"\r\n".to_vec()), answer_delay);
                let line = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
                let delay = if self.has_name { ms(1) } else { self.shell.login };
                let written = if self.has_name { written(&line) } else { String::new() };
                self.has_name = true;
                self.queue_answer(Answer::Output((written + "$ ").into_bytes()), delay);
            }
            b'\n' | 0 => {}
            0x7f => {
                if self.line.pop().is_some() {
                    self.queue_answer(Answer::Echo(b"\x08 \x08".to_vec()), answer_delay);
                }
            }
            key => {
                self.line.push(key);
                self.queue_answer(Answer::Echo(vec![key]), answer_delay);
            }
        }
    }

    /// Writes the next data once the previous data was sent. An echo is written before the rest of
    /// a command's output.
    fn fill(&mut self) {
        if !self.output.is_empty() {
            return;
        }
        let is_due = self.answers.front().is_some_and(|(at, _)| *at <= self.now);
        match self.answers.pop_front_if(|_| is_due) {
            Some((_, Answer::Echo(bytes))) => {
                self.output = bytes;
                // Echoes that are due at the same time are sent in one write.
                while let Some((_, Answer::Echo(more))) =
                    self.answers.pop_front_if(|(at, answer)| {
                        *at <= self.now && matches!(answer, Answer::Echo(_))
                    })
                {
                    self.output.extend(more);
                }
            }
            Some((_, Answer::Output(bytes))) => {
                self.rest.extend(bytes);
                self.fill();
            }
            None => {
                let count = self.rest.len().min(self.shell.write_bytes);
                self.output = self.rest.drain(..count).collect();
            }
        }
    }
}

/// Returns the output of a command line, with line ends as sent to a terminal.
fn written(line: &str) -> String {
    if let Some((_, looped)) = line.split_once("while [ $i -lt ") {
        let (times, rest) = looped.split_once(" ]; do ").unwrap();
        let (body, _) = rest.split_once("; i=$((").unwrap();
        return written(body).repeat(times.parse().unwrap());
    }
    let command = line.strip_prefix("env true; ").unwrap_or(line);
    if command.contains("170") {
        return "x\r\n".to_owned();
    }
    let numbers = command.strip_prefix("printf '%080d\\n' ").map(|numbers| numbers.split(' '));
    numbers.into_iter().flatten().map(|number| format!("{number:0>80}\r\n")).collect()
}

impl Stream for SimulatedShell {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.now = cx.now;
        self.queue_answer(Answer::Echo(b"remote login: ".to_vec()), self.shell.prompt);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.now = cx.now;
        // Keys that arrive together are delayed only once.
        let mut answer_delay = self.shell.answer_delay;
        for byte in data {
            if self.command_bytes_left > 0 {
                self.command_bytes_left -= 1;
            } else if *byte == 0xff {
                self.command_bytes_left = 2;
            } else {
                self.key(*byte, std::mem::take(&mut answer_delay));
            }
        }
        self.fill();
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &self.output
    }

    fn sent(&mut self, count: usize) {
        self.output.drain(..count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.now = cx.now;
        self.fill();
    }

    fn wants_to_run(&self) -> bool {
        // Each write of the program is passed to TCP separately, after the previous one was sent.
        self.output.is_empty() && !self.rest.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.answers.front().filter(|_| self.output.is_empty()).map(|(at, _)| *at)
    }
}

/// A login with one fault or none.
#[derive(Clone, Debug)]
struct Scenario {
    path: PathSettings,
    local: Profile,
    local_costs: Costs,
    remote: Profile,
    shell: Shell,
    lookup: Duration,
    seed: u64,
}

impl Scenario {
    fn healthy(trip: Duration, seed: u64) -> Self {
        let tcp = Profile {
            receive_window: ReceiveWindow::Bytes(128 << 10),
            acknowledgment: Acknowledgment::Delayed(ms(40)),
            send_limit: SendLimit::Bytes(32 << 10),
            nagle: false,
            ..Profile::BULK
        };
        let shell = Shell { prompt: ms(5), login: ms(30), answer_delay: ms(1), write_bytes: 4_096 };
        Self {
            path: PathSettings::healthy(trip),
            local: tcp,
            local_costs: Costs::default(),
            remote: tcp,
            shell,
            lookup: ms(2),
            seed,
        }
    }

    fn world(&self) -> World<TcpStreamApp<MeasureSession>, TcpStreamApp<SimulatedShell>> {
        let login = Login { user: "guest".to_owned(), password: None };
        let plan = SessionParameters {
            keys: 60,
            echo_time: None,
            login: Some(login),
            prompts: Prompts::default(),
            command: None,
            initial_commands: Vec::new(),
            timeout: Duration::from_secs(60),
            cpu_time: || Duration::ZERO,
            run_queue_wait: || None,
        };
        let session = MeasureSession::new(plan, None, ProgressLine::default());
        let opening =
            Opening::Active { local: LOCAL.into(), remote: SocketAddr::new(REMOTE.into(), PORT) };
        let link = || Link::Datagram(Datagram::new(1_500));
        let settings =
            |address| Settings { address, prefix_len: 24, packets: 1_024, ..Settings::default() };
        let local = TcpStreamApp::new(session, opening, self.local);
        let local = Host::new(link(), settings(LOCAL), self.local_costs, self.seed * 2 + 1, local);
        let serving = SimulatedShell::new(self.shell);
        let remote = TcpStreamApp::new(serving, Opening::Passive { port: PORT }, self.remote);
        let remote = Host::new(link(), settings(REMOTE), Costs::default(), self.seed * 2, remote);
        let mut world = World::new(local, remote, Line::path(Duration::ZERO), self.seed);
        world.set_medium(Box::new(ImpairedPath::new(self.path)));
        world
    }

    /// Measures the login and returns the record.
    fn measure(&self) -> Measurement {
        self.measure_until(usize::MAX)
    }

    /// Like [`Self::measure`], with an interrupt after `keys` keys.
    fn measure_until(&self, keys: usize) -> Measurement {
        let mut world = self.world();
        let drive_result = world.drive(|world| {
            let host = &mut world.user;
            let tcp_app = &mut host.application;
            if tcp_app.stream.wants_status() {
                let status = tcp_app.status(&host.station.layers);
                let status =
                    status.map_or(CarrierStatus::None, |it| CarrierStatus::UserSpace(Box::new(it)));
                tcp_app.stream.take_status(&status);
            }
            tcp_app.set_acknowledging(tcp_app.stream.ack_policy().predicate());
            tcp_app.stream.is_over()
                || tcp_app.stream.echoed_keys() >= keys
                || world.now() > Instant::ZERO + TIME_LIMIT
        });
        drive_result.unwrap_or_else(|stuck| panic!("{stuck}: {self:?}"));
        let findings = world.user.application.stream.into_findings(Outcome::LocalClosed);
        let circumstances = Circumstances {
            target: "remote".to_owned(),
            address: Some(SocketAddr::new(REMOTE.into(), PORT)),
            carrier: Carrier::Network(Route::Kernel),
            started_at: SystemTime::UNIX_EPOCH,
            resolve: Some(self.lookup),
            connecting_at: Some(Instant::ZERO),
            connect_time: None,
            tls: None,
            tick: TickRate::NANOSECOND,
            refutation: None,
        };
        measurement(&findings, &circumstances)
    }
}

/// Faults that can be injected into a login.
const INJECTED: [CauseKind; 17] = [
    CauseKind::NameServer,
    CauseKind::SlowPrompt,
    CauseKind::SlowLogin,
    CauseKind::RemoteHost,
    CauseKind::Distance,
    CauseKind::LineRate,
    CauseKind::Queue,
    CauseKind::RateLimiter,
    CauseKind::Nagle,
    CauseKind::SmallWindow,
    CauseKind::SmallPackets,
    CauseKind::Loss,
    CauseKind::RetransmissionTimeouts,
    CauseKind::PathMtuBlackHole,
    CauseKind::HalfDuplex,
    CauseKind::Terminal,
    CauseKind::LocalProcessor,
];

fn inject(kind: CauseKind, size: usize, scenario: &mut Scenario) {
    let Scenario { path, local, remote, shell, .. } = scenario;
    let costs = |work, ns| Costs::default().with(work, ns);
    match kind {
        CauseKind::NameServer => scenario.lookup = [ms(600), ms(3_000)][size],
        CauseKind::SlowPrompt => shell.prompt = [ms(800), ms(10_000)][size],
        CauseKind::SlowLogin => shell.login = [ms(800), ms(3_000)][size],
        CauseKind::RemoteHost => shell.answer_delay = [ms(60), ms(200)][size],
        CauseKind::Distance => {
            path.delay = [ms(60), ms(150)][size];
            path.queue_bytes = 1 << 20;
            // With a send buffer of fixed size, the verdict would have a second cause.
            remote.send_limit = SendLimit::Tuned { start: 16 << 10, limit: 4 << 20 };
            local.receive_window = ReceiveWindow::Bytes(1 << 20);
        }
        // At these rates the measurement does not request the longer outputs, which would fill a
        // queue.
        CauseKind::LineRate => path.rate_bps = [9_600, 19_200][size],
        CauseKind::Queue => {
            path.rate_bps = [2_000_000, 4_000_000][size];
            path.queue_bytes = [250_000, 400_000][size];
            remote.send_limit = SendLimit::Tuned { start: 16 << 10, limit: 4 << 20 };
            local.receive_window = ReceiveWindow::Bytes(1 << 20);
        }
        CauseKind::RateLimiter => {
            path.bucket = Some([(60_000, 500_000), (100_000, 1_000_000)][size]);
        }
        CauseKind::Nagle => {
            remote.nagle = true;
            local.acknowledgment = Acknowledgment::Delayed([ms(40), ms(200)][size]);
        }
        CauseKind::SmallWindow => {
            path.delay = ms(20);
            local.receive_window = ReceiveWindow::Bytes([3_000, 6_000][size]);
        }
        CauseKind::SmallPackets => {
            shell.write_bytes = [80, 60][size];
            path.rate_bps = [19_200, 38_400][size];
        }
        CauseKind::Loss => {
            path.loss_ppm = [40_000, 80_000][size];
            path.delay *= 2;
        }
        CauseKind::RetransmissionTimeouts => {
            path.loss_ppm = [40_000, 60_000][size];
            for profile in [local, remote] {
                profile.extensions = false;
                profile.receive_window = ReceiveWindow::Bytes(60_000);
                profile.rto_min = ms(1_000);
            }
        }
        CauseKind::PathMtuBlackHole => path.hole_bytes = Some([1_400, 1_000][size]),
        CauseKind::HalfDuplex => path.turnaround = Some([ms(30), ms(60)][size]),
        CauseKind::Terminal => {
            scenario.local_costs = costs(Work::TerminalByte, [100_000, 692_000][size]);
        }
        _ => {
            // The queue of the path is large enough for all data that the local host has not
            // processed yet.
            path.queue_bytes = 1 << 20;
            scenario.local_costs = costs(Work::Segment, [20_000_000, 30_000_000][size]);
        }
    }
}

#[test]
fn the_verdict_names_injected_login_causes_first() {
    let mut named_kinds = 0;
    let mut named_first = 0;
    for kind in INJECTED {
        let mut wrong_causes = Vec::new();
        let mut all = 0;
        for size in [0, 1] {
            for (trip_ms, seed) in [(4, 1), (12, 20), (25, 300)] {
                let mut scenario = Scenario::healthy(ms(trip_ms), seed);
                inject(kind, size, &mut scenario);
                let record = scenario.measure();
                all += 1;
                let first = record.causes.first().map(|cause| cause.name.clone());
                if first.as_deref() != Some(kind.name()) {
                    wrong_causes.push((size, trip_ms, first.unwrap_or_default()));
                    println!("    {kind:?} {size} {trip_ms} ms: {}", record.verdict);
                }
            }
        }
        println!(
            "{:24} first {} of {all}; misnamed: {wrong_causes:?}",
            kind.name(),
            all - wrong_causes.len()
        );
        named_kinds += usize::from(wrong_causes.len() * 3 <= all);
        named_first += all - wrong_causes.len();
    }
    println!(
        "{named_kinds} of {} named first in two sessions of three; {named_first} sessions",
        INJECTED.len()
    );
    assert_eq!(named_kinds, INJECTED.len());
    // There are 102 sessions.
    assert!(named_first >= 95, "{named_first}");
}

#[test]
fn the_verdict_on_the_session_set_up_does_not_depend_on_the_number_of_keys() {
    let mut scenario = Scenario::healthy(ms(12), 20);
    scenario.shell.login = ms(3_000);
    for keys in [5, 15, 38] {
        let record = scenario.measure_until(keys);
        let names: Vec<_> = record.causes.iter().map(|cause| cause.name.as_str()).collect();
        assert_eq!(names, [CauseKind::SlowLogin.name()], "{keys}: {}", record.verdict);
    }
    let record = Scenario::healthy(ms(12), 20).measure_until(5);
    assert!(record.causes.is_empty(), "{}", record.verdict);
}

#[test]
fn a_healthy_login_has_no_cause() {
    for (trip_ms, seed) in [(1, 7), (4, 1), (12, 20), (25, 300)] {
        let record = Scenario::healthy(ms(trip_ms), seed).measure();
        assert!(record.verdict.starts_with("Nothing stands out."), "{}", record.verdict);
        assert!(record.screenful.is_some() && record.echo.is_some());
    }
}
