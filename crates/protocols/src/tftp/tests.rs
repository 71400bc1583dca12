//! Tests of whole transfers in virtual time, over a simulated network that loses, duplicates and
//! reorders datagrams.

use super::*;
use alloc::vec;
use net::cx::Cx;
use net::cx::OwnedCx;
use net::meter::Counter;
use net::time::Instant;
use proptest::prelude::*;

/// One-way delay of the network.
const ONE_WAY_DELAY: Duration = Duration::from_millis(5);
const USER_PORT: u16 = 2000;
const TRANSFER_PORT: u16 = 3000;

/// Fault rates of the network.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    loss_percent: u64,
    repeat_percent: u64,
    reorder_percent: u64,
}

/// A sender and a receiver, with the datagrams in flight between them.
struct Pair {
    sender: Sender,
    receiver: Receiver,
    sender_port: u16,
    receiver_port: u16,
    context: OwnedCx,
    faults: Faults,
    in_flight: Vec<(Instant, Role, Vec<u8>)>,
    file: Vec<u8>,
    supplied_bytes: usize,
    received_file: Vec<u8>,
    events: Vec<(Role, Event)>,
    /// Every datagram that was sent, in order.
    trace: Vec<(Role, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
}

fn request(direction: Direction, mode: Mode, options: Options) -> Request {
    Request { direction, name: b"file".to_vec(), mode, options }
}

fn window(block_size: u16, window_size: u16) -> Options {
    Options {
        block_size: Some(block_size),
        window_size: Some(window_size),
        transfer_size: Some(0),
        timeout_s: None,
    }
}

fn unlimited() -> Limits {
    Limits { block_size_max: 65_464, window_size_max: u16::MAX, window_max_bytes: usize::MAX }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

impl Pair {
    /// A user that reads from a server which accepts every option.
    fn reading(file: Vec<u8>, mode: Mode, options: Options) -> Self {
        Self::reading_with(&Settings::default(), file, mode, options)
    }

    fn reading_with(settings: &Settings, file: Vec<u8>, mode: Mode, options: Options) -> Self {
        let context = OwnedCx::default();
        let request = request(Direction::Read, mode, options);
        let receiver = Receiver::for_user(&request, settings, context.now).unwrap();
        let grant = options.grant(&unlimited(), Some(file.len() as u64));
        let sender = Sender::for_server(mode, USER_PORT, grant, settings, context.now);
        let mut pair = Self::new(sender, receiver, TRANSFER_PORT, USER_PORT, file, context);
        // The server's transfer was created from the parsed request, so the request datagram is
        // discarded.
        let _ = pair.receiver.transmit(&mut Vec::new(), &mut pair.context.cx());
        pair
    }

    /// A user that writes to a server which accepts every option.
    fn writing(file: Vec<u8>, mode: Mode, options: Options) -> Self {
        Self::writing_with(&Settings::default(), file, mode, options)
    }

    fn writing_with(settings: &Settings, file: Vec<u8>, mode: Mode, options: Options) -> Self {
        let context = OwnedCx::default();
        let request = request(Direction::Write, mode, options);
        let sender = Sender::for_user(&request, settings, context.now).unwrap();
        let grant = options.grant(&unlimited(), None);
        let receiver = Receiver::for_server(mode, USER_PORT, grant, settings, context.now);
        let mut pair = Self::new(sender, receiver, USER_PORT, TRANSFER_PORT, file, context);
        let _ = pair.sender.transmit(&mut Vec::new(), &mut pair.context.cx());
        pair
    }

    fn new(
        sender: Sender,
        receiver: Receiver,
        sender_port: u16,
        receiver_port: u16,
        file: Vec<u8>,
        context: OwnedCx,
    ) -> Self {
        Self {
            sender,
            receiver,
            sender_port,
            receiver_port,
            context,
            faults: Faults::default(),
            in_flight: Vec::new(),
            file,
            supplied_bytes: 0,
            received_file: Vec::new(),
            events: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn with_faults(mut self, faults: Faults, seed: u64) -> Self {
        self.faults = faults;
        self.context.rng = net::rng::Rng::from_seed(seed);
        self
    }

    fn enqueue(&mut self, to: Role, datagram: Vec<u8>) {
        self.trace.push((to, datagram.clone()));
        let mut random_percent = || self.context.rng.below(100);
        let loss_draw = random_percent();
        let repeat_draw = random_percent();
        let reorder_draw = random_percent();
        if loss_draw < self.faults.loss_percent {
            return;
        }
        let extra_delay =
            if reorder_draw < self.faults.reorder_percent { ONE_WAY_DELAY } else { Duration::ZERO };
        if repeat_draw < self.faults.repeat_percent {
            self.in_flight.push((self.context.now + ONE_WAY_DELAY * 2, to, datagram.clone()));
        }
        self.in_flight.push((self.context.now + ONE_WAY_DELAY + extra_delay, to, datagram));
    }

    /// Runs both ends until neither can do more at the current time.
    fn settle(&mut self) {
        self.supplied_bytes += self.sender.write(&self.file[self.supplied_bytes..]);
        if self.supplied_bytes == self.file.len() {
            self.sender.finish();
        }
        let mut out = Vec::new();
        while self.sender.transmit(&mut out, &mut self.context.cx()).is_some() {
            self.enqueue(Role::Receiver, core::mem::take(&mut out));
        }
        while self.receiver.transmit(&mut out, &mut self.context.cx()).is_some() {
            self.enqueue(Role::Sender, core::mem::take(&mut out));
        }
        while let Some(event) = self.sender.event() {
            self.events.push((Role::Sender, event));
        }
        while let Some(event) = self.receiver.event() {
            if event == Event::Received {
                self.receiver.confirm_stored(&mut self.context.cx());
            }
            self.events.push((Role::Receiver, event));
        }
    }

    fn deliver(&mut self, to: Role, datagram: &[u8]) {
        let sender_port = self.sender_port;
        let receiver_port = self.receiver_port;
        let OwnedCx { now, rng, meter } = &mut self.context;
        let mut cx = Cx { now: *now, rng, meter };
        match to {
            Role::Sender => self.sender.receive(receiver_port, datagram, &mut cx).unwrap(),
            Role::Receiver => {
                let data = self.receiver.receive(sender_port, datagram, &mut cx).unwrap();
                self.received_file.extend_from_slice(data);
            }
        }
    }

    /// Advances the time to the next event. Returns `false` if no event is pending.
    fn step(&mut self) -> bool {
        self.settle();
        let arrival = self.in_flight.iter().map(|(at, ..)| *at).min();
        let timers = [self.sender.deadline(), self.receiver.deadline()];
        let Some(next) = timers.into_iter().flatten().chain(arrival).min() else {
            return false;
        };
        self.context.now = self.context.now.max(next);
        let now = self.context.now;
        let (due, later) =
            core::mem::take(&mut self.in_flight).into_iter().partition(|d| d.0 <= now);
        self.in_flight = later;
        let due: Vec<(Instant, Role, Vec<u8>)> = due;
        for (_, to, datagram) in due {
            self.deliver(to, &datagram);
            self.settle();
        }
        self.sender.timeout(&mut self.context.cx());
        self.receiver.timeout(&mut self.context.cx());
        true
    }

    fn run(&mut self) {
        while self.step() {}
        assert!(self.sender.is_over() || self.receiver.is_over(), "both wait indefinitely");
    }

    fn roles_with(&self, event: &Event) -> Vec<Role> {
        self.events
            .iter()
            .filter(|(_, recorded)| recorded == event)
            .map(|(role, _)| *role)
            .collect()
    }

    fn blocks_sent(&self) -> u64 {
        self.context.counted(Counter::TftpBlocksOut)
    }
}

fn assert_arrived(pair: &Pair) {
    assert_eq!(pair.received_file.len(), pair.file.len(), "{:?}", pair.events);
    assert!(pair.received_file == pair.file);
    assert_eq!(pair.roles_with(&Event::Complete).len(), 2, "{:?}", pair.events);
}

// req RFC1123:4.2.2-MUST-2
#[test]
fn a_file_is_read_block_by_block_without_options() {
    let mut pair = Pair::reading(bytes(1300), Mode::Octet, Options::default());
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.blocks_sent(), 3);
    // DATA 1, ACK 1, DATA 2, ACK 2, DATA 3, ACK 3.
    assert_eq!(pair.trace.len(), 6);
}

#[test]
fn a_file_is_written_block_by_block_without_options() {
    let mut pair = Pair::writing(bytes(1300), Mode::Octet, Options::default());
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.trace[0], (Role::Sender, b"\0\x04\0\0".to_vec()));
}

#[test]
fn a_file_of_whole_blocks_ends_with_an_empty_one() {
    let mut pair = Pair::reading(bytes(1024), Mode::Octet, Options::default());
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.blocks_sent(), 3);
}

#[test]
fn an_empty_file_is_one_empty_block() {
    let mut pair = Pair::writing(Vec::new(), Mode::Octet, window(1428, 16));
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.blocks_sent(), 1);
}

#[test]
fn a_window_of_blocks_shares_an_acknowledgment() {
    let mut pair = Pair::reading(bytes(100_000), Mode::Octet, window(1000, 16));
    pair.run();
    assert_arrived(&pair);
    let acks = pair.trace.iter().filter(|(to, _)| *to == Role::Sender).count();
    // One ACK for the options, six for full windows, and one for the end.
    assert_eq!((pair.blocks_sent(), acks), (101, 8));
}

#[test]
fn the_reader_gets_the_size_and_the_window() {
    let mut pair = Pair::reading(bytes(70_000), Mode::Octet, window(1428, 8));
    pair.run();
    let Some((_, Event::Opened(agreed))) =
        pair.events.iter().find(|(role, _)| *role == Role::Receiver)
    else {
        panic!("{:?}", pair.events);
    };
    assert_eq!(agreed.transfer_size, Some(70_000));
    assert_eq!((agreed.block_size, agreed.window_size), (1428, 8));
}

#[test]
fn block_numbers_wrap_after_65_535() {
    let mut pair = Pair::reading(bytes(8 * 70_000 + 3), Mode::Octet, window(8, 64));
    pair.run();
    assert_arrived(&pair);
}

// req RFC1123:4.2.3.1-MUST-1
#[test]
fn a_duplicate_acknowledgment_never_duplicates_the_blocks() {
    let mut pair = Pair::reading(bytes(512 * 40), Mode::Octet, Options::default());
    pair.faults.repeat_percent = 100;
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.blocks_sent(), 41);
}

// req RFC1123:4.2.3.2-MUST-1
#[test]
fn the_retransmission_interval_follows_the_round_trip_and_doubles() {
    let mut pair = Pair::writing(bytes(5120), Mode::Octet, Options::default());
    while pair.received_file.len() < 2560 {
        pair.step();
    }
    pair.faults.loss_percent = 100;
    let mut intervals = Vec::new();
    let mut last_sent_at = None;
    while !pair.sender.is_over() {
        let sent = pair.trace.len();
        pair.step();
        let sender_has_sent = pair.trace[sent..].iter().any(|(to, _)| *to == Role::Receiver);
        if sender_has_sent {
            intervals.extend(last_sent_at.map(|at| pair.context.now - at));
            last_sent_at = Some(pair.context.now);
        }
    }
    assert!(intervals[1] < Duration::from_millis(100), "{intervals:?}");
    assert_eq!(intervals[3], intervals[2] * 2);
    assert_eq!(pair.sender.event(), Some(Event::Failed(Failure::Silence)));
}

// req RFC1123:4.2.2-MUST-1
#[test]
fn text_is_sent_with_network_line_ends() {
    let file = b"one\ntwo\r\nthree\r".to_vec();
    let mut pair = Pair::writing(file, Mode::Netascii, window(8, 1));
    pair.run();
    assert_arrived(&pair);
    let wire_text: Vec<u8> = pair
        .trace
        .iter()
        .filter(|(to, _)| *to == Role::Receiver)
        .flat_map(|(_, datagram)| datagram[HEADER_LEN..].to_vec())
        .collect();
    assert_eq!(wire_text, b"one\r\ntwo\r\0\r\nthree\r\0");
}

#[test]
fn a_gap_is_reported_once_and_the_sender_continues_after_received_data() {
    let mut pair = Pair::reading(bytes(64 * 8 - 1), Mode::Octet, window(64, 8));
    while pair.roles_with(&Event::Complete).is_empty() && pair.blocks_sent() == 0 {
        pair.step();
    }
    // Eight blocks are in flight; the third is lost.
    pair.in_flight.retain(|(_, _, datagram)| datagram[..4] != *b"\0\x03\0\x03");
    pair.run();
    assert_arrived(&pair);
    let acks: Vec<u8> = pair
        .trace
        .iter()
        .filter(|(to, datagram)| *to == Role::Sender && datagram[1] == 4)
        .map(|(_, datagram)| datagram[3])
        .collect();
    assert_eq!(acks, [0, 2, 8]);
    assert_eq!(pair.context.counted(Counter::TftpTimeouts), 0);
}

#[test]
fn a_lost_first_block_of_a_window_causes_no_timeout() {
    let mut pair = Pair::reading(bytes(64 * 8 - 1), Mode::Octet, window(64, 4));
    while pair.blocks_sent() < 8 {
        pair.step();
    }
    pair.in_flight.retain(|(_, _, datagram)| datagram[..4] != *b"\0\x03\0\x05");
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.context.counted(Counter::TftpTimeouts), 0);
}

#[test]
fn a_file_is_not_acknowledged_before_it_is_stored() {
    let mut context = OwnedCx::default();
    let grant = Options::default().grant(&unlimited(), None);
    let settings = Settings::default();
    let mut receiver = Receiver::for_server(Mode::Octet, 9, grant, &settings, context.now);
    let mut out = Vec::new();
    receiver.transmit(&mut out, &mut context.cx());
    assert_eq!(receiver.receive(9, b"\0\x03\0\x01all", &mut context.cx()), Ok(&b"all"[..]));
    assert_eq!(receiver.transmit(&mut out, &mut context.cx()), None);
    receiver.abort(Fault { code: ErrorCode::DiskFull, text: "The disk is full." });
    out.clear();
    receiver.transmit(&mut out, &mut context.cx());
    assert_eq!(out, b"\0\x05\0\x03The disk is full.\0");
    assert!(receiver.is_over());
}

#[test]
fn a_lost_last_acknowledgment_is_repeated() {
    let mut pair = Pair::writing(bytes(100), Mode::Octet, Options::default());
    while pair.roles_with(&Event::Received).is_empty() {
        pair.step();
    }
    pair.settle();
    pair.in_flight.clear();
    pair.run();
    assert_arrived(&pair);
    assert_eq!(pair.blocks_sent(), 2);
}

#[test]
fn a_datagram_from_another_port_is_refused_and_the_transfer_continues() {
    let mut pair = Pair::reading(bytes(2000), Mode::Octet, Options::default());
    pair.step();
    let mut context = OwnedCx::default();
    assert_eq!(
        pair.sender.receive(4444, b"\0\x05\0\0bye\0", &mut context.cx()),
        Err(WrongTransferId)
    );
    pair.run();
    assert_arrived(&pair);
}

#[test]
fn an_answer_with_unrequested_options_is_refused() {
    let mut context = OwnedCx::default();
    let request = request(Direction::Read, Mode::Octet, Options::default());
    let mut receiver = Receiver::for_user(&request, &Settings::default(), context.now).unwrap();
    assert_eq!(receiver.receive(9, b"\0\x06windowsize\x009\0", &mut context.cx()), Ok(&[][..]));
    let mut out = Vec::new();
    receiver.transmit(&mut out, &mut context.cx());
    assert_eq!(out[..4], *b"\0\x05\0\x08");
    assert_eq!(receiver.event(), Some(Event::Failed(Failure::Aborted(OPTIONS_REFUSED))));
}

#[test]
fn a_block_longer_than_agreed_ends_the_transfer() {
    let mut context = OwnedCx::default();
    let request = request(Direction::Read, Mode::Octet, Options::default());
    let mut receiver = Receiver::for_user(&request, &Settings::default(), context.now).unwrap();
    let mut block = b"\0\x03\0\x01".to_vec();
    block.extend_from_slice(&[0; 513]);
    assert_eq!(receiver.receive(9, &block, &mut context.cx()), Ok(&[][..]));
    assert_eq!(receiver.event(), Some(Event::Opened(Options::default().agreed())));
    assert!(matches!(receiver.event(), Some(Event::Failed(Failure::Aborted(_)))));
}

#[test]
fn a_refusal_is_reported_with_its_code_and_its_text() {
    let mut context = OwnedCx::default();
    let request = request(Direction::Read, Mode::Octet, Options::default());
    let mut receiver = Receiver::for_user(&request, &Settings::default(), context.now).unwrap();
    receiver.receive(9, b"\0\x05\0\x01no such file\0", &mut context.cx()).unwrap();
    let refused = Failure::Refused(ErrorCode::FileNotFound, b"no such file".to_vec());
    assert_eq!(receiver.event(), Some(Event::Failed(refused)));
}

#[test]
fn a_transfer_fails_if_the_server_never_answers() {
    let mut context = OwnedCx::default();
    let request = request(Direction::Write, Mode::Octet, Options::default());
    let mut sender = Sender::for_user(&request, &Settings::default(), context.now).unwrap();
    let mut request_count = 0;
    while !sender.is_over() {
        request_count += usize::from(sender.transmit(&mut Vec::new(), &mut context.cx()).is_some());
        context.now = sender.deadline().unwrap();
        sender.timeout(&mut context.cx());
    }
    assert_eq!(sender.event(), Some(Event::Failed(Failure::NoAnswer)));
    assert_eq!(context.now.since(Instant::ZERO), Settings::default().idle_timeout);
    assert!(request_count >= 4, "{request_count}");
}

#[test]
fn a_sender_that_waits_for_file_data_restarts_its_timeout_when_data_arrives() {
    let mut pair = Pair::reading(bytes(1200), Mode::Octet, Options::default());
    let file = core::mem::replace(&mut pair.file, vec![0; 512]);
    pair.supplied_bytes = pair.sender.write(&file[..512]);
    // The file is not finished: the owner has supplied no more data yet.
    let mut out = Vec::new();
    assert_eq!(pair.sender.transmit(&mut out, &mut pair.context.cx()), Some(516));
    pair.sender.receive(USER_PORT, b"\0\x04\0\x01", &mut pair.context.cx()).unwrap();
    assert_eq!(pair.sender.deadline(), None);
    pair.context.advance(Duration::from_secs(600));
    pair.sender.write(&file[512..]);
    pair.sender.transmit(&mut out, &mut pair.context.cx()).unwrap();
    assert!(pair.sender.deadline().unwrap() > pair.context.now);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_file_arrives_at_any_block_size_and_window_through_a_bad_network(
        len in 0_usize..6000,
        block_size in 8_u16..700,
        window_size in 1_u16..80,
        is_read: bool,
        is_text: bool,
        loss_percent in 0_u64..15,
        repeat_percent in 0_u64..15,
        reorder_percent in 0_u64..15,
        seed: u64,
    ) {
        let mode = if is_text { Mode::Netascii } else { Mode::Octet };
        let options = window(block_size, window_size);
        // Four losses in a row occur in one of some thousand openings and exceed the default idle
        // timeout.
        let settings = Settings { idle_timeout: Duration::from_secs(1000) };
        let pair = if is_read {
            Pair::reading_with(&settings, bytes(len), mode, options)
        } else {
            Pair::writing_with(&settings, bytes(len), mode, options)
        };
        let mut pair = pair.with_faults(Faults { loss_percent, repeat_percent, reorder_percent }, seed);
        pair.run();
        prop_assert!(pair.roles_with(&Event::Received).len() == 1, "{:?}", pair.events);
        prop_assert!(pair.received_file == pair.file);
    }
}
