//! Tests of the walk against remote hosts that answer in virtual time.

use super::progress::ProgressLine;
use super::prompt::{Prompt, Prompts};
use super::record::{Carrier, Circumstances, measurement};
use super::stamp::Spent;
use super::target::Line;
use super::walk::{Findings, Login, Plan, Walk};
use crate::carry::{CarrierStatus, Outcome, Session, Via};
use os::clock::TickRate;
use os::serial::LineSettings;
use protocols::Cx;
use protocols::application::Stream;
use protocols::chance::Chance;
use protocols::meter::{Clock, Meter};
use protocols::time::{Duration, Instant};
use records::measurement::PromptKind;
use std::cell::Cell;
use std::collections::VecDeque;
use std::time::SystemTime;

thread_local! {
    /// Time of the test in this thread, in nanoseconds.
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
        tls: None,
        tick: TickRate::calibrate(),
        refuting: None,
    }
}

/// A remote host, defined by its answers to keys.
struct Far {
    prompt: &'static str,
    line: Vec<u8>,
    erases_by: &'static [u8],
    echoes: bool,
    /// Login prompts before the shell, each with the expected answer.
    questions: VecDeque<(&'static str, &'static str)>,
    typed: Vec<u8>,
    /// Whether the host sends data ten times a second, independent of the input.
    chatters: bool,
    /// Number of keys after which the host closes the connection.
    keys_left: usize,
    /// Key with a delayed answer, counted from 1, and the delay.
    late: Option<(usize, Duration)>,
}

impl Far {
    fn shell() -> Self {
        Self {
            prompt: "$ ",
            line: Vec::new(),
            erases_by: &[0x7f],
            echoes: true,
            questions: VecDeque::new(),
            typed: Vec::new(),
            chatters: false,
            keys_left: usize::MAX,
            late: None,
        }
    }

    fn says(&self) -> &'static str {
        self.questions.front().map_or(self.prompt, |(question, _)| question)
    }

    fn key(&mut self, key: u8, answer: &mut Vec<u8>) {
        self.typed.push(key);
        self.keys_left = self.keys_left.saturating_sub(1);
        match key {
            b'\r' => self.end_of_line(answer),
            b'\n' => {}
            key if self.erases_by.contains(&key) => {
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
        answer.extend(self.says().bytes());
    }
}

fn plan(keys: usize) -> Plan {
    Plan {
        keys,
        login: None,
        prompts: Prompts::default(),
        command: None,
        errands: Vec::new(),
        patience: Duration::from_secs(10),
        cpu_time: || Duration::ZERO,
        run_queue_wait: || None,
    }
}

/// Runs the walk to its end and returns the findings and the typed keys.
fn walk(plan: Plan, mut far: Far) -> (Findings, Vec<u8>) {
    let mut walk = Walk::new(plan, None, ProgressLine::default());
    let mut meter = Meter::new(Clock::Counter(|| NOW_NS.get()));
    let mut chance = Chance::from_seed(1);
    let mut now = Instant::ZERO;
    let mut coming = VecDeque::from([(now + LATENCY, far.says().as_bytes().to_vec())]);
    let mut cx = Cx { now, chance: &mut chance, meter: &mut meter };
    walk.opened(&mut cx);
    for _ in 0..100_000 {
        let keys = data_of(walk.output());
        walk.sent(walk.output().len());
        walk.flush(&mut cx).unwrap();
        walk.has_gone_out(&mut cx);
        if walk.wants_status() {
            walk.take_status(&CarrierStatus::None);
        }
        if walk.is_over() {
            return (walk.into_findings(Outcome::Left), far.typed);
        }
        let mut answer = Vec::new();
        keys.iter().for_each(|key| far.key(*key, &mut answer));
        if !answer.is_empty() {
            let late = far.late.filter(|(number, _)| *number == far.typed.len());
            let late = late.map_or(Duration::ZERO, |(_, by)| by);
            coming.push_back((now + LATENCY + late, answer));
        }
        coming.make_contiguous().sort_by_key(|(at, _)| *at);
        let arrival = coming.front().map(|(at, _)| *at);
        let next = [arrival, walk.deadline()].into_iter().flatten().min();
        now = next.expect("something happens next").max(now);
        NOW_NS.set(now.as_nanos());
        cx.now = now;
        match coming.pop_front_if(|(at, _)| *at <= now) {
            Some((_, data)) => {
                walk.receive(&data, &mut cx);
                if far.chatters {
                    coming.push_back((now + LATENCY * 100, b"more ".to_vec()));
                }
            }
            None => walk.run(&mut cx),
        }
        if far.keys_left == 0 {
            walk.peer_closed(&mut cx);
        }
    }
    panic!("the walk does not end");
}

/// Returns the keys in Telnet output, without the commands, which the remote host ignores.
fn data_of(output: &[u8]) -> Vec<u8> {
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

fn echo_times(findings: &Findings) -> Vec<u64> {
    findings.keystrokes.iter().map(|key| key.whole().total_ticks()).collect()
}

#[test]
fn an_echo_takes_as_long_as_the_far_side_does() {
    let (findings, _) = walk(plan(200), Far::shell());
    assert_eq!(echo_times(&findings), [1_000_000; 200]);
}

#[test]
fn each_key_has_an_empty_interval_before_it_and_an_erasure_behind_it() {
    let (findings, _) = walk(plan(20), Far::shell());
    let empty: Vec<u64> = findings.empty.iter().map(Spent::total_ticks).collect();
    assert_eq!(empty, [0; 20], "no time passes between two stamps");
    assert_eq!(findings.erasures, [LATENCY; 20]);
}

#[test]
fn each_character_is_taken_back_before_the_next_one_is_struck() {
    let (_, typed) = walk(plan(3), Far::shell());
    let one_by_one = b"x\x7fx\x7fx\x7f".to_vec();
    let at_a_pace = [[b'x'; 20], [0x7f; 20]].concat();
    let all = [one_by_one, at_a_pace, b"printf".to_vec()].concat();
    assert!(typed.starts_with(&all), "{typed:?}");
}

#[test]
fn an_erasure_that_the_path_delays_is_waited_for() {
    let late = Some((4, Duration::from_secs(3)));
    let (findings, typed) = walk(plan(20), Far { late, ..Far::shell() });
    assert_eq!(echo_times(&findings), [1_000_000; 20]);
    assert!(!typed.contains(&0x08), "{typed:?}");
}

#[test]
fn an_echo_that_never_comes_is_the_end_and_unfinished() {
    let late = Some((5, Duration::from_secs(1_000)));
    let (findings, typed) = walk(plan(20), Far { late, ..Far::shell() });
    assert_eq!((echo_times(&findings).len(), typed.len()), (2, 5));
    let unfinished = findings.unfinished.unwrap();
    assert!(unfinished.is_echo);
    assert_eq!((unfinished.asked_bytes, unfinished.waited_ns), (1, 10_000_000_000));
}

#[test]
fn a_far_side_that_takes_back_by_backspace_gets_backspaces() {
    let (findings, typed) = walk(plan(3), Far { erases_by: &[0x08, 0x15], ..Far::shell() });
    assert!(typed.starts_with(b"x\x7f\x08"), "{typed:?}");
    assert_eq!(echo_times(&findings).len(), 3);
}

#[test]
fn a_far_side_that_knows_only_the_kill_key_gets_it_after_some_characters() {
    let (findings, typed) = walk(plan(40), Far { erases_by: &[0x15], ..Far::shell() });
    assert_eq!(echo_times(&findings).len(), 40);
    let lines = typed.split(|key| *key == 0x15).map(<[u8]>::len);
    assert!(lines.clone().count() > 3 && lines.take(3).all(|keys| keys <= 16), "{typed:?}");
}

#[test]
fn a_line_from_which_nothing_is_taken_back_does_not_grow_for_ever_and_is_not_given_to_the_shell() {
    let (findings, typed) = walk(plan(500), Far { erases_by: &[], ..Far::shell() });
    assert_eq!(echo_times(&findings).len(), 65);
    assert!(!typed.contains(&b'\r'));
    assert_eq!(findings.notes, ["the remote host does not erase typed characters"]);
}

#[test]
fn a_shell_shows_a_screenful_of_24_lines() {
    let (findings, _) = walk(plan(1), Far::shell());
    let (shown, is_command) = findings.screenful.unwrap();
    assert!(is_command && shown.is_whole);
    assert_eq!((shown.watch.cells, shown.watch.bytes), (1_920, 1_968));
}

#[test]
fn before_the_screenful_come_pieces_of_one_line_of_six_and_of_eighteen() {
    let (findings, _) = walk(plan(1), Far::shell());
    let cells: Vec<u64> = findings.pieces.iter().map(|piece| piece.cells).collect();
    assert!(cells.len() >= 4, "{cells:?}");
    assert!(cells.starts_with(&[80, 480, 1_440, 80]), "{cells:?}");
}

#[test]
fn a_command_of_ones_own_is_run_once_and_nothing_before_it() {
    let plan = Plan { command: Some("uname".to_owned()), ..plan(1) };
    let (findings, typed) = walk(plan, Far::shell());
    assert!(findings.pieces.is_empty());
    assert_eq!(typed.iter().filter(|key| **key == b'\r').count(), 1);
}

#[test]
fn keys_at_a_steady_pace_and_a_screenful_for_the_unhurried_are_noted() {
    let (findings, _) = walk(plan(1), Far::shell());
    assert_eq!(findings.train, [LATENCY; 20]);
    assert!(findings.unhurried.is_some_and(|shown| shown.watch.cells == 1_920));
}

#[test]
fn at_an_unknown_prompt_return_is_never_pressed_and_the_screenful_is_an_echo() {
    let far = Far { prompt: "terminal type? ", erases_by: &[0x7f, 0x15], ..Far::shell() };
    let (findings, typed) = walk(plan(2), far);
    assert_eq!(findings.prompt.map(|(prompt, _)| prompt), Some(Prompt::Silence));
    assert!(!typed.contains(&b'\r'));
    assert_eq!(typed.last(), Some(&0x15));
    let (shown, is_command) = findings.screenful.unwrap();
    assert_eq!((shown.watch.cells, is_command), (2_000, false));
}

#[test]
fn at_a_login_prompt_nothing_is_typed_that_is_not_taken_back() {
    let far = Far { prompt: "host login: ", erases_by: &[0x7f, 0x15], ..Far::shell() };
    let (findings, typed) = walk(plan(2), far);
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
    let plan = Plan { login: Some(login), ..plan(1) };
    let (findings, _) = walk(plan, Far { questions, ..Far::shell() });
    assert!(findings.notes.is_empty(), "{:?}", findings.notes);
    assert!(findings.screenful.is_some_and(|(_, is_command)| is_command));
}

#[test]
fn a_wrong_password_is_said_once_and_the_refusal_is_noted() {
    let questions = [("login: ", "guest"), ("Password: ", "secret")].into();
    let login = Login { user: "guest".to_owned(), password: Some("wrong".to_owned()) };
    let plan = Plan { login: Some(login), ..plan(1) };
    let (findings, typed) = walk(plan, Far { questions, ..Far::shell() });
    assert_eq!(findings.notes.first().map(String::as_str), Some("the login was refused"));
    assert_eq!(typed.iter().filter(|key| **key == b'\r').count(), 2);
}

#[test]
fn a_far_side_that_does_not_echo_is_given_up_without_a_screenful() {
    let far = Far { prompt: "Password: ", echoes: false, ..Far::shell() };
    let (findings, _) = walk(plan(5), far);
    assert_eq!(findings.notes, ["the remote host does not echo typed characters"]);
    assert!(findings.screenful.is_none());
}

#[test]
fn a_far_side_that_says_nothing_known_is_taken_at_its_silence() {
    let (findings, _) = walk(plan(1), Far { prompt: "hello", ..Far::shell() });
    assert_eq!(findings.prompt, Some((Prompt::Silence, Instant::ZERO + LATENCY)));
}

#[test]
fn how_long_this_side_waits_for_a_prompt_that_never_comes_is_no_time_of_the_far_side() {
    let (findings, _) = walk(plan(30), Far { prompt: "", ..Far::shell() });
    let record = measurement(&findings, &circumstances(Carrier::Network(Via::Kernel)));
    assert_eq!(record.phases.prompt, Some(PromptKind::Silence));
    assert_eq!(record.phases.login_prompt_ns, None);
    assert!(!record.verdict.contains("first question"), "{}", record.verdict);
}

#[test]
fn a_line_that_brings_echoes_sooner_than_its_bits_take_is_charged_with_nothing() {
    let (findings, _) = walk(plan(30), Far::shell());
    let settings = LineSettings::at(9_600);
    let mut circumstances = circumstances(Carrier::Line(Line { device: "tty".into(), settings }));
    circumstances.judge_line(&findings);
    let record = measurement(&findings, &circumstances);
    assert_eq!(record.refuted_line_bps, Some(9_600));
    assert!(record.verdict.starts_with("This line does not run at 9,600 bit/s"));
    assert!(!record.verdict.contains("The line"), "{}", record.verdict);
}

#[test]
fn a_far_side_that_never_stops_talking_is_waited_for_no_longer_than_patience_lasts() {
    let far = Far { prompt: "welcome ", chatters: true, ..Far::shell() };
    let (findings, _) = walk(plan(1), far);
    let (prompt, at) = findings.prompt.unwrap();
    assert_eq!(prompt, Prompt::Silence);
    assert!(at <= Instant::ZERO + Duration::from_secs(10), "{at}");
}

#[test]
fn what_was_measured_before_the_far_side_closed_is_kept() {
    let (findings, _) = walk(plan(200), Far { keys_left: 20, ..Far::shell() });
    assert_eq!(echo_times(&findings).len(), 10);
    assert_eq!(findings.notes, ["the remote host closed the connection"]);
}

#[test]
fn an_errand_brings_its_output_home() {
    let plan = Plan { errands: vec!["uname".to_owned()], ..plan(1) };
    let (findings, _) = walk(plan, Far::shell());
    assert_eq!(findings.errands, [("uname".to_owned(), b"\r\nPlumb\r\n$ ".to_vec())]);
}

#[test]
fn a_walk_that_a_reset_breaks_off_says_so() {
    let mut walk = Walk::new(plan(1), None, ProgressLine::default());
    let (mut meter, mut chance) = (Meter::new(Clock::None), Chance::from_seed(1));
    walk.opened(&mut Cx { now: Instant::ZERO, chance: &mut chance, meter: &mut meter });
    let findings = walk.into_findings(Outcome::Reset);
    assert_eq!(findings.notes, ["the remote host reset the connection"]);
}
