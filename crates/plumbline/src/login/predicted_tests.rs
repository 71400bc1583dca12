//! Prediction of recorded sessions over a path with delay, jitter and stalls, in virtual time.
//!
//! A recording of `plumb login --record --record-input` contains the typed keys and the output that
//! followed each key. The simulated server sends that output when the key arrives, and acknowledges
//! the echo 50 ms later (Telnet option 221). The client reads the stream in random pieces. A second
//! client with `--predict never` reads the same pieces; its screen is the reference.

#![expect(clippy::cast_possible_truncation, reason = "milliseconds and lengths of a test")]

use super::super::session::Login;
use super::super::session_settings::LoginSettings;
use super::super::terminal_input::LocalTerminal;
use super::Predict;
use net::Cx;
use net::application::Stream;
use net::meter::{Clock, Meter};
use net::rng::Rng;
use net::time::{Duration, Instant};
use proptest::prelude::*;
use protocols::terminal::Terminal;
use protocols::terminal::prediction::Statistics;
use records::recording::{Kind, read_event};
use std::collections::HashMap;

const BASH: &str = include_str!("../../tests/sessions/bash.cast");
const LOGIN: &str = include_str!("../../tests/sessions/login.cast");
const VIM: &str = include_str!("../../tests/sessions/vim.cast");
const LESS: &str = include_str!("../../tests/sessions/less.cast");
const SESSIONS: [&str; 4] = [BASH, LOGIN, VIM, LESS];

/// Characters of the passwords in the recordings. No output contains any of these characters.
const PASSWORD_CHARACTERS: &str = "QZXJKVY";
/// Time between the arrival of a key at the simulated server and the acknowledgment of its echo, in
/// ms.
const SETTLING_MS: u64 = 50;
const SIZE: (u16, u16) = (80, 24);
/// IAC WILL ECHO, IAC WILL SUPPRESS-GO-AHEAD, IAC WILL 221.
const OFFERS: &[u8] = &[255, 251, 1, 255, 251, 3, 255, 251, 221];

/// Behavior of the path and of the user.
#[derive(Clone, Copy, Debug)]
struct Conditions {
    one_way_ms: u64,
    jitter_ms: u64,
    /// Number of segments that the path stalls, per mille.
    stalls_per_mille: u64,
    stall_ms: u64,
    /// Maximum pause between two keys, ms.
    key_interval_max_ms: u64,
    /// Maximum time until the remote program writes the output of a key, in ms. Below 50 ms, the
    /// output precedes the acknowledgment of its echo.
    program_delay_max_ms: u64,
    acknowledges: bool,
    /// Whether data that arrives together is passed to the client in several random pieces.
    splits_reads: bool,
    predict: Predict,
}

impl Conditions {
    fn steady(one_way_ms: u64, key_interval_max_ms: u64) -> Self {
        let jitter_ms = 0;
        let stalls_per_mille = 0;
        let stall_ms = 0;
        let acknowledges = true;
        let predict = Predict::Auto;
        let program_delay_max_ms = 5;
        Self {
            one_way_ms,
            jitter_ms,
            stalls_per_mille,
            stall_ms,
            key_interval_max_ms,
            program_delay_max_ms,
            acknowledges,
            splits_reads: false,
            predict,
        }
    }
}

/// A key, and the output that followed it.
#[derive(Debug)]
struct Exchange {
    key: Vec<u8>,
    output: Vec<u8>,
}

/// Parses a recording. Returns the output before the first key, and the exchanges.
fn exchanges(recording: &str) -> (Vec<u8>, Vec<Exchange>) {
    let mut greeting = Vec::new();
    let mut exchanges = Vec::<Exchange>::new();
    for event in recording.lines().skip(1).map(|line| read_event(line).unwrap()) {
        let text = event.text.into_bytes();
        match (event.kind, exchanges.last_mut()) {
            (Kind::Input, _) => exchanges.push(Exchange { key: text, output: Vec::new() }),
            (Kind::Output, Some(last)) => last.output.extend(text),
            (Kind::Output, None) => greeting.extend(text),
            _ => {}
        }
    }
    (greeting, exchanges)
}

/// Returns the acknowledgment of the echo up to `position`.
fn acknowledgment(position: u64) -> Vec<u8> {
    let mut bytes = vec![255, 250, 221];
    for byte in position.to_be_bytes() {
        // An IAC in a subnegotiation is doubled.
        bytes.extend(std::iter::repeat_n(byte, if byte == 255 { 2 } else { 1 }));
    }
    bytes.extend([255, 240]);
    bytes
}

/// Times at which the segments of the server arrive, and times at which each key is typed and
/// answered.
struct Schedule {
    /// Segments of the server, each with its arrival time at the client in ms.
    arrivals: Vec<(u64, Vec<u8>)>,
    /// For each key, the time at which it is typed, and the time at which its output and its
    /// acknowledgment have arrived, in ms.
    keys: Vec<(u64, u64)>,
}

/// One direction of a path; it preserves the order of the segments.
struct Path<'a> {
    conditions: &'a Conditions,
    last: u64,
}

impl Path<'_> {
    fn deliver_at(&mut self, at: u64, rng: &mut Rng) -> u64 {
        let conditions = self.conditions;
        let mut delay = conditions.one_way_ms + random_up_to(conditions.jitter_ms, rng);
        if random_up_to(999, rng) < conditions.stalls_per_mille {
            delay += random_up_to(conditions.stall_ms, rng);
        }
        self.last = self.last.max(at + delay);
        self.last
    }
}

fn random_up_to(limit: u64, rng: &mut Rng) -> u64 {
    rng.next_u64() % (limit + 1)
}

fn schedule(recording: &str, conditions: &Conditions, rng: &mut Rng) -> Schedule {
    let (greeting, exchanges) = exchanges(recording);
    let mut downlink = Path { conditions, last: 0 };
    // Keys that are typed before the offer of ECHO are echoed locally (RFC 857), also passwords.
    let greeted_at_ms = downlink.deliver_at(0, rng);
    let mut arrivals = vec![(greeted_at_ms, [OFFERS, &greeting].concat())];
    let mut sent: Vec<(u64, Vec<u8>, usize)> = Vec::new();
    let mut uplink = Path { conditions, last: 0 };
    let mut typed_at_ms = greeted_at_ms + 2 * conditions.one_way_ms;
    let mut position = 0;
    let mut written_at_ms = 0;
    let mut keys = Vec::new();
    for (number, exchange) in exchanges.into_iter().enumerate() {
        typed_at_ms += 1 + random_up_to(conditions.key_interval_max_ms, rng);
        keys.push((typed_at_ms, typed_at_ms));
        let read = uplink.deliver_at(typed_at_ms, rng);
        written_at_ms =
            (read + random_up_to(conditions.program_delay_max_ms, rng)).max(written_at_ms);
        sent.push((written_at_ms, exchange.output, number));
        position += exchange.key.len() as u64;
        if conditions.acknowledges {
            sent.push((read + SETTLING_MS, acknowledgment(position), number));
        }
    }
    sent.sort_by_key(|(at, ..)| *at);
    for (at, bytes, number) in sent {
        let at = downlink.deliver_at(at, rng);
        if let Some((_, answered_ms)) = keys.get_mut(number) {
            *answered_ms = at.max(*answered_ms);
        }
        arrivals.push((at, bytes));
    }
    Schedule { arrivals, keys }
}

/// A client, and the terminal of its user.
struct Client {
    login: Login,
    screen: Terminal,
    rng: Rng,
    meter: Meter,
    now: Instant,
    /// Everything written to the terminal.
    written: Vec<u8>,
}

impl Client {
    fn new(predict: Predict) -> Self {
        let settings = LoginSettings { is_interactive: true, predict, ..LoginSettings::default() };
        let mut login =
            Login::new(settings, LocalTerminal::new(false).unwrap(), "the test".to_owned());
        login.display.set_window(SIZE);
        let mut client = Self {
            login,
            screen: Terminal::new(SIZE.0, SIZE.1),
            rng: Rng::from_seed(1),
            meter: Meter::new(Clock::None),
            now: Instant::ZERO,
            written: Vec::new(),
        };
        client.with(|login, cx| login.begin(cx));
        client
    }

    fn with(&mut self, work: impl FnOnce(&mut Login, &mut Cx<'_>)) {
        let mut cx = Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter };
        work(&mut self.login, &mut cx);
        self.login.sent(self.login.output().len());
    }

    /// Writes pending output to the terminal, as a session does after each iteration of the event
    /// loop.
    fn flush(&mut self) {
        self.with(|login, cx| login.prepare_output(cx));
        let bytes = self.login.display.screen.queued_text();
        self.login.display.screen.clear();
        let mut cx = Cx { now: self.now, rng: &mut self.rng, meter: &mut self.meter };
        self.screen.receive(&bytes, &mut cx);
        self.written.extend(bytes);
    }

    fn character(&self, row: u16, column: u16) -> char {
        self.screen.cell(row, column).map_or(' ', |cell| cell.character())
    }

    fn statistics(&self) -> Statistics {
        self.login.display.prediction.predictor().map(|it| it.statistics()).unwrap_or_default()
    }
}

/// Displayed predictions by row and column: the predicted character and the time in ms at which it
/// was displayed.
type Displayed = HashMap<(u16, u16), (char, u64)>;

/// The predicting client, the reference client, and the cells in which their screens differ.
struct ScreenComparison {
    predicting: Client,
    reference: Client,
    schedule: Schedule,
    displayed: Displayed,
    /// Maximum time in ms from the answer to a key to the removal of its wrong predictions. Without
    /// acknowledgments of echoes, this is the time that the predictor allows for a late answer.
    grace_ms: u64,
    /// Number of wrong predictions that were replaced by the right content of the cell.
    corrected_cells: usize,
    /// Number of predicted cells that the output of the host confirmed.
    confirmed_cells: usize,
}

impl ScreenComparison {
    fn new(schedule: Schedule, conditions: &Conditions) -> Self {
        let variation_ms = 2 * conditions.jitter_ms + SETTLING_MS + conditions.stall_ms;
        Self {
            predicting: Client::new(conditions.predict),
            reference: Client::new(Predict::Never),
            schedule,
            displayed: Displayed::new(),
            grace_ms: if conditions.acknowledges { 0 } else { 50 + 4 * variation_ms },
            corrected_cells: 0,
            confirmed_cells: 0,
        }
    }

    fn at_both_clients(&mut self, work: impl Fn(&mut Login, &mut Cx<'_>)) {
        self.predicting.with(&work);
        self.reference.with(&work);
    }

    /// Advances the time and runs the timers of the predicting client.
    fn wait_until(&mut self, at: u64) {
        let end = Instant::ZERO + Duration::from_millis(at);
        while let Some(deadline) = self.predicting.login.deadline().filter(|next| *next <= end) {
            self.predicting.now = self.predicting.now.max(deadline);
            self.predicting.with(|login, cx| login.run(cx));
            self.predicting.flush();
            self.compare(false);
        }
        self.predicting.now = end;
        self.reference.now = end;
    }

    fn flush(&mut self) {
        self.predicting.flush();
        self.reference.flush();
        self.compare(false);
    }

    /// Types a key at both clients. A prediction may change any cell of the cursor's row, so all
    /// predictions count as displayed from now on.
    fn type_key(&mut self, key: &[u8]) {
        self.at_both_clients(|login, cx| login.process_typed_keys(key, cx));
        self.predicting.flush();
        self.reference.flush();
        self.compare(true);
    }

    /// Compares the screens cell by cell. A cell that differs from the reference is a prediction;
    /// it must become right, or be removed once all keys typed before it were answered.
    fn compare(&mut self, is_typed: bool) {
        let now = (self.predicting.now - Instant::ZERO).as_millis() as u64;
        for row in 0..SIZE.1 {
            let are_equal =
                self.predicting.screen.row_text(row) == self.reference.screen.row_text(row);
            if are_equal && self.displayed.keys().all(|(of, _)| *of != row) {
                continue;
            }
            for column in 0..SIZE.0 {
                self.compare_cell((row, column), now);
                if let Some((_, since)) = self.displayed.get_mut(&(row, column))
                    && is_typed
                {
                    *since = now;
                }
            }
        }
    }

    fn compare_cell(&mut self, place: (u16, u16), now: u64) {
        let shown = self.predicting.character(place.0, place.1);
        let expected = self.reference.character(place.0, place.1);
        if let Some(&(predicted, since)) = self.displayed.get(&place)
            && (predicted != shown || shown == expected)
        {
            self.displayed.remove(&place);
            if predicted == expected {
                self.confirmed_cells += 1;
            } else {
                self.corrected_cells += usize::from(shown == expected);
                let keys = self.schedule.keys.iter();
                let before = keys.filter(|(typed, _)| *typed <= since);
                let answered_ms =
                    before.map(|(_, answered_ms)| *answered_ms).max().unwrap_or(since);
                assert!(
                    now <= answered_ms.max(since) + self.grace_ms,
                    "'{predicted}' at {place:?}, displayed at {since} ms, was wrong at {now} ms; \
                     its keys were answered at {answered_ms} ms"
                );
            }
        }
        if shown != expected {
            self.displayed.entry(place).or_insert((shown, now));
        }
    }
}

/// Passes `bytes` to both clients, split at random, with random writes between the pieces.
fn read_in_pieces(comparison: &mut ScreenComparison, bytes: &[u8], rng: &mut Rng) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let is_unsplit = random_up_to(2, rng) > 0;
        let count = if is_unsplit {
            rest.len()
        } else {
            1 + random_up_to(rest.len() as u64 - 1, rng) as usize
        };
        let (piece, later) = rest.split_at(count);
        comparison.at_both_clients(|login, cx| login.receive(piece, cx));
        rest = later;
        if random_up_to(1, rng) == 0 {
            comparison.flush();
        }
    }
    comparison.flush();
}

/// Plays a recording; returns the state after the last byte.
fn play(recording: &str, conditions: &Conditions, seed: u64) -> ScreenComparison {
    let mut rng = Rng::from_seed(seed);
    let schedule = schedule(recording, conditions, &mut rng);
    let mut comparison = ScreenComparison::new(schedule, conditions);
    let (_, exchanges) = exchanges(recording);
    let mut keys = exchanges.into_iter();
    let mut next_key = 0;
    let mut next_arrival = 0;
    let mut unread = Vec::new();
    loop {
        let key_at = comparison.schedule.keys.get(next_key).map(|(typed, _)| *typed);
        let arrival_at = comparison.schedule.arrivals.get(next_arrival).map(|(at, _)| *at);
        let Some(at) = key_at.into_iter().chain(arrival_at).min() else { break };
        comparison.wait_until(at);
        if arrival_at == Some(at) {
            unread.extend_from_slice(&comparison.schedule.arrivals[next_arrival].1);
            next_arrival += 1;
            // The client may read this segment together with the next one if that one arrives less
            // than 5 ms later.
            let following = comparison.schedule.arrivals.get(next_arrival).map(|(at, _)| *at);
            let may_be_joined = following.is_some_and(|next| next == at || next < at + 5);
            if may_be_joined && random_up_to(2, &mut rng) > 0 {
                for (_, answered_ms) in
                    comparison.schedule.keys.iter_mut().filter(|(_, a)| *a == at)
                {
                    *answered_ms = following.unwrap_or(at);
                }
                continue;
            }
            let bytes = std::mem::take(&mut unread);
            if conditions.splits_reads {
                read_in_pieces(&mut comparison, &bytes, &mut rng);
            } else {
                comparison.at_both_clients(|login, cx| login.receive(&bytes, cx));
                comparison.flush();
            }
        } else {
            let key = keys.next().unwrap().key;
            next_key += 1;
            comparison.type_key(&key);
        }
    }
    let end = comparison.predicting.now - Instant::ZERO;
    comparison.wait_until(end.as_millis() as u64 + 20_000);
    comparison
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let path = (10..300_u64, 0..40_u64, prop_oneof![Just(0_u64), Just(20_u64)], 0..1500_u64);
    let programs = prop_oneof![0..SETTLING_MS, 0..2 * SETTLING_MS];
    (path, 5..400_u64, programs, any::<bool>(), any::<bool>()).prop_map(
        |(path, key_interval_max_ms, program_delay_max_ms, acknowledges, is_always)| {
            let (one_way_ms, jitter_ms, stalls_per_mille, stall_ms) = path;
            Conditions {
                one_way_ms,
                jitter_ms,
                stalls_per_mille,
                stall_ms,
                key_interval_max_ms,
                program_delay_max_ms,
                acknowledges,
                splits_reads: true,
                predict: if is_always { Predict::Always } else { Predict::Auto },
            }
        },
    )
}

proptest! {
    // attack row 134
    #[test]
    fn arbitrary_acknowledgments_leave_the_screen_of_the_host_unchanged(
        positions in prop::collection::vec(prop_oneof![0..8_u64, any::<u64>()], 1..40),
    ) {
        let mut client = Client::new(Predict::Always);
        let mut reference = Client::new(Predict::Never);
        let mut keys = "alice and bob".bytes().cycle();
        for (at, position) in (1..).zip(positions) {
            let key = [keys.next().unwrap()];
            let piece = [OFFERS, &key, &acknowledgment(position)].concat();
            for client in [&mut client, &mut reference] {
                client.now = Instant::ZERO + Duration::from_millis(50 * at);
                client.with(|login, cx| login.process_typed_keys(&key, cx));
                client.flush();
                client.with(|login, cx| login.receive(&piece, cx));
                client.flush();
            }
            let positions = &client.login.display.prediction.sent_positions;
            prop_assert!(positions.len() <= super::SENT_POSITIONS_MAX);
        }
        client.now = client.now + Duration::from_secs(20);
        client.with(|login, cx| login.run(cx));
        client.flush();
        prop_assert_eq!(client.screen.text(), reference.screen.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_final_screen_of_a_recorded_session_equals_the_screen_without_prediction(
        conditions in conditions(),
        seed in any::<u64>(),
    ) {
        for recording in SESSIONS {
            let comparison = play(recording, &conditions, seed);
            prop_assert_eq!(comparison.predicting.screen.text(), comparison.reference.screen.text());
            let are_equal =
                comparison.predicting.screen.picture() == comparison.reference.screen.picture();
            prop_assert!(are_equal, "the text is equal, its look is not");
            prop_assert!(comparison.displayed.is_empty());
        }
    }

    #[test]
    fn no_key_of_a_password_is_displayed(conditions in conditions(), seed in any::<u64>()) {
        let comparison = play(LOGIN, &conditions, seed);
        let written = String::from_utf8_lossy(&comparison.predicting.written);
        prop_assert_eq!(written.find(|key| PASSWORD_CHARACTERS.contains(key)), None);
    }
}

#[test]
fn in_an_editor_at_half_a_second_rtt_at_most_three_wrong_predictions_are_displayed() {
    for (acknowledges, key_interval_max_ms, seed) in
        [(true, 120, 1), (false, 120, 2), (true, 300, 3)]
    {
        let conditions =
            Conditions { acknowledges, ..Conditions::steady(250, key_interval_max_ms) };
        let comparison = play(VIM, &conditions, seed);
        let statistics = comparison.predicting.statistics();
        let figures = (comparison.confirmed_cells, comparison.corrected_cells, statistics);
        assert!(statistics.shown > 60 && statistics.wrong_seen <= 3, "{figures:?}");
        // The corrected cells belong to the first two characters that overwrote text: the client
        // predicted an insertion, which shifts the rest of the row.
        assert!(comparison.corrected_cells < comparison.confirmed_cells, "{figures:?}");
    }
}

// attack row 134
#[test]
fn an_acknowledgment_read_together_with_its_echo_does_not_change_the_screen() {
    let mut client = Client::new(Predict::Auto);
    client.with(|login, cx| login.receive(&[OFFERS, b"login: "].concat(), cx));
    client.flush();
    let mut stream = Vec::new();
    for (position, key) in (1..).zip("alice".bytes()) {
        client.with(|login, cx| login.process_typed_keys(&[key], cx));
        client.flush();
        stream.push(key);
        stream.extend(acknowledgment(position));
    }
    client.now = Instant::ZERO + Duration::from_millis(200);
    client.with(|login, cx| login.receive(&stream, cx));
    client.flush();
    assert_eq!(client.screen.text(), "login: alice");
    assert_eq!(client.statistics().confirmed, 5);
}
