//! Tests of the session against remote hosts that answer in virtual time.

use super::circumstances::{Carrier, Circumstances};
use super::login_session::MeasureSession;
use super::progress::ProgressLine;
use super::prompt::{Prompt, Prompts};
use super::record::measurement;
use super::session_parameters::{Login, SessionParameters};
use super::session_results::SessionResults;
use super::target::SerialTarget;
use super::timestamps::SpentTime;
use carrier::{CarrierStatus, Outcome, Route, StreamSession};
use net::Cx;
use net::application::Stream;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::{Duration, Instant};
use os::clock::TickRate;
use os::serial::LineSettings;
use records::measurement::PromptKind;
use std::cell::Cell;
use std::collections::VecDeque;
use std::time::SystemTime;

thread_local! {
    /// Virtual time of the test that runs in this thread, in nanoseconds.
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
}

const LATENCY: Duration = Duration::from_millis(1);

fn circumstances(carrier: Carrier) -> Circumstances {
    Circumstances {
        target: "host".to_owned(),
        address: None,
        carrier,
        started_at: SystemTime::UNIX_EPOCH,
        resolve: None,
        connecting_at: Some(Instant::ZERO),
        connect_time: None,
        tls: None,
        tick: TickRate::calibrate(),
        refutation: None,
    }
}

/// A simulated remote host.
struct RemoteShell {
    prompt: &'static str,
    line: Vec<u8>,
    erase_keys: &'static [u8],
    echoes: bool,
    /// Login prompts before the shell, each with the expected answer.
    questions: VecDeque<(&'static str, &'static str)>,
    typed: Vec<u8>,
    /// Whether the host sends data ten times a second, independent of the input.
    sends_periodically: bool,
    /// Number of further keys after which the host closes the connection.
    keys_left: usize,
    /// Key with a delayed answer, counted from 1, and the delay.
    delayed_key: Option<(usize, Duration)>,
}

impl RemoteShell {
    fn new() -> Self {
        Self {
            prompt: "$ ",
            line: Vec::new(),
            erase_keys: &[0x7f],
            echoes: true,
            questions: VecDeque::new(),
            typed: Vec::new(),
            sends_periodically: false,
            keys_left: usize::MAX,
            delayed_key: None,
        }
    }

    fn prompt_text(&self) -> &'static str {
        self.questions.front().map_or(self.prompt, |(question, _)| question)
    }

    fn key(&mut self, key: u8, answer: &mut Vec<u8>) {
        self.typed.push(key);
        self.keys_left = self.keys_left.saturating_sub(1);
        match key {
            b'\r' => self.end_of_line(answer),
            b'\n' => {}
            key if self.erase_keys.contains(&key) => {
                let count = if key == 0x15 { self.line.len() } else { 1 };
                for _ in 0..count.min(self.line.len()) {
                    self.line.pop();
                    answer.extend(b"\x08 \x08");
                }
            }
            0x7f | 0x08 | 0x15 => {
                self.line.extend([b'^', key ^ 0x40]);
                answer.extend([b'^', key ^ 0x40]);
            }
            key => {
                self.line.push(key);
                if self.echoes {
                    answer.push(key);
                }
            }
        }
    }

    fn end_of_line(&mut self, answer: &mut Vec<u8>) {
        answer.extend(b"\r\n");
        let line = String::from_utf8(std::mem::take(&mut self.line)).unwrap();
        if let Some((question, wanted)) = self.questions.pop_front()
            && line != wanted
        {
            self.questions.push_front((question, wanted));
        }
        let command = line.strip_prefix("env true; ").unwrap_or(&line);
        if line.contains("170") {
            answer.extend(b"x\r\n");
        } else if let Some(numbers) = command.strip_prefix("printf '%080d\\n' ") {
            let numbers = numbers.split(' ');
            numbers.for_each(|number| answer.extend(format!("{number:0>80}\r\n").bytes()));
        } else if line == "uname" {
            answer.extend(b"Plumb\r\n");
        }
        answer.extend(self.prompt_text().bytes());
    }
}

fn plan(keys: usize) -> SessionParameters {
    SessionParameters {
        keys,
        echo_time: None,
        login: None,
        prompts: Prompts::default(),
        command: None,
        initial_commands: Vec::new(),
        timeout: Duration::from_secs(10),
        cpu_time: || Duration::ZERO,
        run_queue_wait: || None,
    }
}

/// Runs a session to its end and returns the findings and the typed keys.
fn run_session(plan: SessionParameters, mut remote: RemoteShell) -> (SessionResults, Vec<u8>) {
    let mut session = MeasureSession::new(plan, None, ProgressLine::default());
    let mut meter = Meter::new(Clock::Counter(|| NOW_NS.get()));
    let mut rng = Rng::from_seed(1);
    let mut now = Instant::ZERO;
    let mut in_transit =
        VecDeque::from([(now + LATENCY, remote.prompt_text().as_bytes().to_vec())]);
    let mut cx = Cx { now, rng: &mut rng, meter: &mut meter };
    session.opened(&mut cx);
    for _ in 0..100_000 {
        let keys = typed_keys(session.output());
        session.sent(session.output().len());
        session.flush(&mut cx).unwrap();
        session.output_written(&mut cx);
        if session.wants_status() {
            session.take_status(&CarrierStatus::None);
        }
        if session.is_over() {
            return (session.into_findings(Outcome::LocalClosed), remote.typed);
        }
        let mut answer = Vec::new();
        keys.iter().for_each(|key| remote.key(*key, &mut answer));
        if !answer.is_empty() {
            let delayed_key =
                remote.delayed_key.filter(|(number, _)| *number == remote.typed.len());
            let answer_delay = delayed_key.map_or(Duration::ZERO, |(_, delay)| delay);
            in_transit.push_back((now + LATENCY + answer_delay, answer));
        }
        in_transit.make_contiguous().sort_by_key(|(at, _)| *at);
        let arrival = in_transit.front().map(|(at, _)| *at);
        let next = [arrival, session.deadline()].into_iter().flatten().min();
        now = next.expect("an event is pending").max(now);
        NOW_NS.set(now.as_nanos());
        cx.now = now;
        match in_transit.pop_front_if(|(at, _)| *at <= now) {
            Some((_, data)) => {
                session.receive(&data, &mut cx);
                if remote.sends_periodically {
                    in_transit.push_back((now + LATENCY * 100, b"more ".to_vec()));
                }
            }
            None => session.run(&mut cx),
        }
        if remote.keys_left == 0 {
            session.peer_closed(&mut cx);
        }
    }
    panic!("the session does not end");
}

/// Returns the typed keys in Telnet output, without Telnet commands.
fn typed_keys(output: &[u8]) -> Vec<u8> {
    let mut keys = Vec::new();
    let mut bytes = output.iter();
    while let Some(byte) = bytes.next() {
        if *byte == 0xff {
            bytes.nth(1);
        } else {
            keys.push(*byte);
        }
    }
    keys
}

fn echo_times(findings: &SessionResults) -> Vec<u64> {
    findings.keystrokes.iter().map(|key| key.total().total_ticks()).collect()
}

#[test]
fn the_echo_time_is_the_delay_of_the_remote_host() {
    let (findings, _) = run_session(plan(200), RemoteShell::new());
    assert_eq!(echo_times(&findings), [1_000_000; 200]);
}

#[test]
fn each_key_is_preceded_by_an_empty_interval_and_followed_by_an_erasure() {
    let (findings, _) = run_session(plan(20), RemoteShell::new());
    let empty: Vec<u64> = findings.stamp_overheads.iter().map(SpentTime::total_ticks).collect();
    assert_eq!(empty, [0; 20], "no time passes between two stamps");
    assert_eq!(findings.erasures, [LATENCY; 20]);
}

#[test]
fn each_character_is_erased_before_the_next_one_is_typed() {
    let (_, typed) = run_session(plan(3), RemoteShell::new());
    let one_by_one = b"x\x7fx\x7fx\x7f".to_vec();
    let at_a_pace = [[b'x'; 20], [0x7f; 20]].concat();
    let expected_keys = [one_by_one, at_a_pace, b"printf".to_vec()].concat();
    assert!(typed.starts_with(&expected_keys), "{typed:?}");
}

#[test]
fn a_delayed_erasure_is_awaited() {
    let delayed_key = Some((4, Duration::from_secs(3)));
    let (findings, typed) =
        run_session(plan(20), RemoteShell { delayed_key, ..RemoteShell::new() });
    assert_eq!(echo_times(&findings), [1_000_000; 20]);
    assert!(!typed.contains(&0x08), "{typed:?}");
}

#[test]
fn a_missing_echo_ends_the_session_and_is_reported_as_unfinished() {
    let delayed_key = Some((5, Duration::from_secs(1_000)));
    let (findings, typed) =
        run_session(plan(20), RemoteShell { delayed_key, ..RemoteShell::new() });
    assert_eq!((echo_times(&findings).len(), typed.len()), (2, 5));
    let unfinished = findings.unfinished.unwrap();
    assert!(unfinished.is_echo);
    assert_eq!((unfinished.expected_bytes, unfinished.waited_ns), (1, 10_000_000_000));
}

#[test]
fn a_remote_host_that_erases_by_backspace_gets_backspaces() {
    let (findings, typed) =
        run_session(plan(3), RemoteShell { erase_keys: &[0x08, 0x15], ..RemoteShell::new() });
    assert!(typed.starts_with(b"x\x7f\x08"), "{typed:?}");
    assert_eq!(echo_times(&findings).len(), 3);
}

#[test]
fn a_remote_host_that_supports_only_the_kill_key_gets_it_after_some_characters() {
    let (findings, typed) =
        run_session(plan(40), RemoteShell { erase_keys: &[0x15], ..RemoteShell::new() });
    assert_eq!(echo_times(&findings).len(), 40);
    let lines = typed.split(|key| *key == 0x15).map(<[u8]>::len);
    assert!(lines.clone().count() > 3 && lines.take(3).all(|keys| keys <= 16), "{typed:?}");
}

#[test]
fn a_line_that_cannot_be_erased_has_a_maximum_length_and_is_not_sent_to_the_shell() {
    let (findings, typed) =
        run_session(plan(500), RemoteShell { erase_keys: &[], ..RemoteShell::new() });
    assert_eq!(echo_times(&findings).len(), 65);
    assert!(!typed.contains(&b'\r'));
    assert_eq!(findings.notes, ["the remote host does not erase typed characters"]);
}

#[test]
fn the_screenful_of_a_shell_has_24_lines() {
    let (findings, _) = run_session(plan(1), RemoteShell::new());
    let (received, is_command) = findings.screenful.unwrap();
    assert!(is_command && received.is_complete);
    assert_eq!((received.watch.cells, received.watch.bytes), (1_920, 1_968));
}

#[test]
fn the_screenful_follows_outputs_of_one_six_and_eighteen_lines() {
    let (findings, _) = run_session(plan(1), RemoteShell::new());
    let cells: Vec<u64> = findings.short_outputs.iter().map(|output| output.cells).collect();
    assert!(cells.len() >= 4, "{cells:?}");
    assert!(cells.starts_with(&[80, 480, 1_440, 80]), "{cells:?}");
}

#[test]
fn a_user_defined_command_runs_once_and_without_short_outputs() {
    let plan = SessionParameters { command: Some("uname".to_owned()), ..plan(1) };
    let (findings, typed) = run_session(plan, RemoteShell::new());
    assert!(findings.short_outputs.is_empty());
    assert_eq!(typed.iter().filter(|key| **key == b'\r').count(), 1);
}

#[test]
fn paced_echoes_and_a_screenful_with_delayed_acknowledgments_are_measured() {
    let (findings, _) = run_session(plan(1), RemoteShell::new());
    assert_eq!(findings.paced_echoes, [LATENCY; 20]);
    assert!(findings.screenful_delayed_ack.is_some_and(|received| received.watch.cells == 1_920));
}

#[test]
fn at_an_unknown_prompt_return_is_never_typed_and_the_screenful_is_an_echo() {
    let remote =
        RemoteShell { prompt: "terminal type? ", erase_keys: &[0x7f, 0x15], ..RemoteShell::new() };
    let (findings, typed) = run_session(plan(2), remote);
    assert_eq!(findings.prompt.map(|(prompt, _)| prompt), Some(Prompt::Silence));
    assert!(!typed.contains(&b'\r'));
    assert_eq!(typed.last(), Some(&0x15));
    let (received, is_command) = findings.screenful.unwrap();
    assert_eq!((received.watch.cells, is_command), (2_000, false));
}

#[test]
fn at_a_login_prompt_every_typed_character_is_erased() {
    let remote =
        RemoteShell { prompt: "host login: ", erase_keys: &[0x7f, 0x15], ..RemoteShell::new() };
    let (findings, typed) = run_session(plan(2), remote);
    assert_eq!(findings.prompt.map(|(prompt, _)| prompt), Some(Prompt::Login));
    assert!(findings.screenful.is_none());
    let count = |keys: &[u8]| typed.iter().filter(|key| keys.contains(key)).count();
    assert!(typed.len() < 100 && !typed.contains(&b'\r'), "{typed:?}");
    assert_eq!(count(b"x"), count(&[0x7f]), "{typed:?}");
}

#[test]
fn a_name_and_a_password_lead_to_the_shell() {
    let questions = [("host login: ", "guest"), ("Password: ", "secret")].into();
    let login = Login { user: "guest".to_owned(), password: Some("secret".to_owned()) };
    let plan = SessionParameters { login: Some(login), ..plan(1) };
    let (findings, _) = run_session(plan, RemoteShell { questions, ..RemoteShell::new() });
    assert!(findings.notes.is_empty(), "{:?}", findings.notes);
    assert!(findings.password_prompt.is_some() && findings.login.is_some());
    assert!(findings.screenful.is_some_and(|(_, is_command)| is_command));
}

#[test]
fn a_wrong_password_is_sent_once_and_the_refusal_is_noted() {
    let questions = [("login: ", "guest"), ("Password: ", "secret")].into();
    let login = Login { user: "guest".to_owned(), password: Some("wrong".to_owned()) };
    let plan = SessionParameters { login: Some(login), ..plan(1) };
    let (findings, typed) = run_session(plan, RemoteShell { questions, ..RemoteShell::new() });
    let refusal = "the login was refused; check --user and --password-file";
    assert_eq!(findings.notes.first().map(String::as_str), Some(refusal));
    assert_eq!(typed.iter().filter(|key| **key == b'\r').count(), 2);
}

#[test]
fn without_echo_the_session_ends_without_a_screenful() {
    let remote = RemoteShell { prompt: "Password: ", echoes: false, ..RemoteShell::new() };
    let (findings, _) = run_session(plan(5), remote);
    assert_eq!(findings.notes, ["the remote host does not echo typed characters"]);
    assert!(findings.screenful.is_none());
}

#[test]
fn an_unknown_prompt_is_recognized_by_the_following_silence() {
    let (findings, _) = run_session(plan(1), RemoteShell { prompt: "hello", ..RemoteShell::new() });
    assert_eq!(findings.prompt, Some((Prompt::Silence, Instant::ZERO + LATENCY)));
}

#[test]
fn a_greeting_without_a_prompt_ends_the_session_before_a_key_is_typed() {
    let plan = SessionParameters { timeout: Duration::from_secs(1), ..plan(30) };
    let remote = RemoteShell { prompt: "\r\r\nDebian GNU/Linux 12\r\n\r", ..RemoteShell::new() };
    let (findings, typed) = run_session(plan, remote);
    let note = "no login prompt within 1.00 s; use a longer --timeout";
    assert_eq!((findings.notes.as_slice(), typed.as_slice()), (&[note.to_owned()][..], &[][..]));
    assert!(findings.is_cut_off && findings.unfinished.is_none() && findings.prompt.is_none());
}

#[test]
fn an_interrupt_before_the_prompt_is_noted_with_the_wait() {
    let mut session = MeasureSession::new(plan(1), None, ProgressLine::default());
    let mut meter = Meter::new(Clock::None);
    let mut rng = Rng::from_seed(1);
    let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
    session.opened(&mut cx);
    cx.now = Instant::ZERO + Duration::from_millis(950);
    session.take_input(0, &mut cx).unwrap();
    let findings = session.into_findings(Outcome::LocalClosed);
    assert_eq!(findings.notes, ["no login prompt after 950 ms"]);
}

#[test]
fn the_local_timeout_for_a_missing_prompt_is_not_reported_as_a_time_of_the_remote_host() {
    let (findings, _) = run_session(plan(30), RemoteShell { prompt: "", ..RemoteShell::new() });
    let record = measurement(&findings, &circumstances(Carrier::Network(Route::Kernel)));
    assert_eq!(record.phases.prompt, Some(PromptKind::Silence));
    assert_eq!(record.phases.login_prompt_ns, None);
    assert!(!record.verdict.contains("late prompt"), "{}", record.verdict);
}

#[test]
fn a_line_faster_than_its_configured_rate_is_charged_with_no_time() {
    let (findings, _) = run_session(plan(30), RemoteShell::new());
    let settings = LineSettings::at(9_600);
    let mut circumstances =
        circumstances(Carrier::Line(SerialTarget { device: "tty".into(), settings }));
    circumstances.check_line_rate(&findings);
    let record = measurement(&findings, &circumstances);
    assert_eq!(record.refuted_line_bps, Some(9_600));
    assert!(record.verdict.starts_with("This line does not run at 9,600 bit/s"));
    assert!(!record.verdict.contains("serial line"), "{}", record.verdict);
}

#[test]
fn a_remote_host_that_never_stops_sending_is_awaited_for_at_most_the_timeout() {
    let remote = RemoteShell { prompt: "welcome ", sends_periodically: true, ..RemoteShell::new() };
    let (findings, _) = run_session(plan(1), remote);
    let (prompt, at) = findings.prompt.unwrap();
    assert_eq!(prompt, Prompt::Silence);
    assert!(at <= Instant::ZERO + Duration::from_secs(10), "{at}");
}

#[test]
fn measurements_before_the_remote_host_closes_are_kept() {
    let (findings, _) = run_session(plan(200), RemoteShell { keys_left: 20, ..RemoteShell::new() });
    assert_eq!(echo_times(&findings).len(), 10);
    assert_eq!(findings.notes, ["the remote host closed the connection"]);
}

#[test]
fn the_banner_of_an_ssh_server_ends_the_session_with_its_remedy() {
    let remote = RemoteShell { prompt: "SSH-2.0-x\r\n", ..RemoteShell::new() };
    let (findings, _) = run_session(plan(30), remote);
    assert_eq!(findings.notes, ["this is an SSH server (SSH-2.0-x): use --exec 'ssh HOST'"]);
    assert_eq!(findings.prompt, None);
}

#[test]
fn the_output_of_an_initial_command_is_returned() {
    let plan = SessionParameters { initial_commands: vec!["uname".to_owned()], ..plan(1) };
    let (findings, _) = run_session(plan, RemoteShell::new());
    assert_eq!(findings.initial_commands, [("uname".to_owned(), b"\r\nPlumb\r\n$ ".to_vec())]);
}

#[test]
fn a_reset_that_ends_the_session_is_reported() {
    let mut session = MeasureSession::new(plan(1), None, ProgressLine::default());
    let mut meter = Meter::new(Clock::None);
    let mut rng = Rng::from_seed(1);
    session.opened(&mut Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter });
    let findings = session.into_findings(Outcome::Reset);
    assert_eq!(findings.notes, ["the remote host reset the connection"]);
}
