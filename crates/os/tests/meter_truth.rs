//! Accuracy of the meter on a real clock: its accounts add up to the elapsed time, and a delay
//! injected in a layer is charged to that layer.
//!
//! Delays are injected through the parts that the tests supply to the engines: the checksum
//! routines, the application, the driver, and the clock.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use net::application::Stream;
use net::checksum::Routines;
use net::link::{Link, Slip};
use net::meter::{Account, Clock, Meter};
use net::rng::Rng;
use net::station::{Opening, Scheduler, Settings, Station, TcpStreamApp};
use net::transport::tcp::Profile;
use net::{Cx, Instant};
use plumbline_os::clock::{Monotonic, TickRate, ticks};
use protocols::telnet::{Event, ServerSettings, Telnet, UserSettings};
use protocols::terminal::Terminal;
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

const USER: Ipv4Addr = Ipv4Addr::new(10, 84, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 84, 255, 1);
const PORT: u16 = 23;
const INJECTED_NS: [u64; 2] = [100_000, 1_000_000];
/// Maximum relative difference between an injected delay and its charge.
const TOLERANCE: f64 = 0.05;

thread_local! {
    /// Place in the code at which a delay is injected, and the length of the delay in nanoseconds.
    static INJECTED_DELAY: Cell<(Place, u64)> = const { Cell::new((Place::Nowhere, 0)) };
    /// Total length of the delays injected so far, in ticks.
    static INJECTED_TICKS: Cell<u64> = const { Cell::new(0) };
    /// State of the simulated clock, which advances only in one jump: number of readings, number of
    /// the reading at which the clock jumps, and size of the jump in ticks.
    static JUMPING_CLOCK: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Checksum,
    Application,
    Driver,
}

/// Spins for the injected delay if the delay is injected at `place`.
fn delay(place: Place) {
    let (injected, nanos) = INJECTED_DELAY.get();
    if injected == place {
        let clock = Monotonic::start();
        let from = ticks();
        while clock.now().as_nanos() < nanos {}
        INJECTED_TICKS.set(INJECTED_TICKS.get() + ticks() - from);
    }
}

fn read_jumping_clock() -> u64 {
    let (readings, jumps_at, jump_ticks) = JUMPING_CLOCK.get();
    JUMPING_CLOCK.set((readings + 1, jumps_at, jump_ticks));
    if readings >= jumps_at { jump_ticks } else { 0 }
}

const DELAYED_ROUTINES: Routines = Routines {
    sum: |bytes| {
        delay(Place::Checksum);
        (Routines::PORTABLE.sum)(bytes)
    },
    copy_and_sum: |to, from| {
        delay(Place::Checksum);
        (Routines::PORTABLE.copy_and_sum)(to, from)
    },
};

/// One end of a Telnet connection with a screen; the server echoes.
struct End {
    telnet: Telnet,
    terminal: Terminal,
    echoes: bool,
    bytes: usize,
}

impl Stream for End {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        let previous_account = cx.meter.enter(Account::Outside);
        delay(Place::Application);
        cx.meter.enter(previous_account);
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            self.bytes += run.len();
            self.terminal.receive(run, cx);
            if self.echoes {
                self.telnet.send(run, cx);
            }
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// One host. The time of its station is constant, so that no timer affects the measurement.
struct Host {
    station: Station,
    scheduler: Scheduler,
    tcp_app: TcpStreamApp<End>,
    meter: Meter,
    rng: Rng,
}

impl Host {
    fn new(address: Ipv4Addr, opening: Opening, clock: Clock) -> Self {
        let mut meter = Meter::new(clock);
        let mut rng = Rng::from_seed(233);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        let settings =
            Settings { address, prefix_len: 24, routines: DELAYED_ROUTINES, ..Settings::default() };
        let station = Station::new(Link::Slip(Slip::new(1_006)), settings, &mut cx);
        let echoes = address == SERVER;
        let user = UserSettings { starts_negotiation: false, ..UserSettings::default() };
        let server = ServerSettings { starts_negotiation: false, ..ServerSettings::default() };
        let telnet = if echoes { Telnet::server(&server) } else { Telnet::user(&user) };
        let end = End { telnet, terminal: Terminal::new(80, 24), echoes, bytes: 0 };
        let tcp_app = TcpStreamApp::new(end, opening, Profile::interactive(4_096));
        Self { station, scheduler: Scheduler::default(), tcp_app, meter, rng }
    }

    /// Processes the bytes in `wire`, runs the station, and returns its output.
    fn turn(&mut self, wire: &[u8]) -> Vec<u8> {
        self.meter.enter(Account::Interrupt);
        delay(Place::Driver);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive(wire, &mut cx);
        self.scheduler.run(&mut self.station, &mut self.tcp_app, &mut cx);
        let mut out = Vec::new();
        while self.station.transmit_into(&mut out, 4_096, &mut cx) > 0 {}
        self.meter.enter(Account::Outside);
        out
    }
}

struct Pair {
    user: Host,
    server: Host,
}

impl Pair {
    fn connect(clock: Clock) -> Self {
        let remote = SocketAddr::new(SERVER.into(), PORT);
        let active = Opening::Active { local: USER.into(), remote };
        let user = Host::new(USER, active, clock);
        let server = Host::new(SERVER, Opening::Passive { port: PORT }, clock);
        let mut pair = Self { user, server };
        pair.settle(Vec::new());
        assert!(pair.user.tcp_app.is_open());
        pair
    }

    fn settle(&mut self, mut to_server: Vec<u8>) {
        loop {
            let to_user = self.server.turn(&to_server);
            to_server = self.user.turn(&to_user);
            if to_server.is_empty() && to_user.is_empty() {
                return;
            }
        }
    }

    /// Types a key at the user's end, and returns the output of that end.
    fn press_key(&mut self) -> Vec<u8> {
        let Host { tcp_app, rng, meter, .. } = &mut self.user;
        let mut cx = Cx { now: Instant::ZERO, rng, meter };
        tcp_app.stream.telnet.send(b"x", &mut cx);
        tcp_app.notice();
        self.user.turn(&[])
    }

    fn echo(&mut self) {
        let sent = self.press_key();
        self.settle(sent);
    }
}

/// A clock that runs one percent slow.
fn slow_ticks() -> u64 {
    let now = ticks();
    now - now / 100
}

/// Maximum relative difference between the sum of the accounts and the elapsed time.
const CLOCK_TOLERANCE: f64 = 0.005;

/// Sum of the accounts, and limits of the elapsed time by the system clock, in nanoseconds. The
/// meter and the system clock are not read at the same moment; the difference between the limits is
/// not an error of the meter.
#[derive(Debug)]
struct ElapsedTime {
    sum: f64,
    lower_bound: f64,
    upper_bound: f64,
}

impl ElapsedTime {
    /// Returns whether the accounts lack time. A process that is suspended during a reading has too
    /// much time in its accounts, never too little.
    fn is_too_short(&self) -> bool {
        self.sum < self.lower_bound * (1.0 - CLOCK_TOLERANCE)
    }

    fn is_too_long(&self) -> bool {
        self.sum > self.upper_bound * (1.0 + CLOCK_TOLERANCE)
    }
}

/// Echoes keys for 50 ms, and measures the time with a meter of the server that reads `clock`.
fn measure_elapsed(clock: fn() -> u64) -> ElapsedTime {
    let rate = TickRate::calibrate();
    let mut pair = Pair::connect(Clock::Counter(ticks));
    let outer = Monotonic::start();
    pair.server.meter = Meter::new(Clock::Counter(clock));
    let inner = Monotonic::start();
    while inner.now().as_nanos() < 50_000_000 {
        pair.echo();
    }
    let lower_bound = inner.now().as_nanos() as f64;
    pair.server.meter.settle();
    let upper_bound = outer.now().as_nanos() as f64;
    let sum: u64 = pair.server.meter.accounts().iter().sum();
    assert_eq!(sum, pair.server.meter.total());
    ElapsedTime { sum: rate.to_nanos(sum) as f64, lower_bound, upper_bound }
}

#[test]
fn the_accounts_add_up_to_the_elapsed_system_time() {
    let elapsed = measure_elapsed(ticks);
    assert!(!elapsed.is_too_short() && !elapsed.is_too_long(), "{elapsed:?}");
}

#[test]
fn a_clock_that_runs_one_percent_slow_is_detected() {
    // If the process is suspended during the first or the last reading, the error may be hidden, so
    // it is sufficient that one of several runs finds it. The exact clock is never too short.
    assert!((0..5).any(|_| measure_elapsed(slow_ticks).is_too_short()));
    for _ in 0..5 {
        let elapsed = measure_elapsed(ticks);
        assert!(!elapsed.is_too_short(), "{elapsed:?}");
    }
}

/// Relative errors of the time charged for an injected delay.
#[derive(Clone, Copy, Debug)]
struct ChargeError {
    /// Part of the delay that the account lacks.
    missing: f64,
    /// Time beyond the delay in the account, or time in all other accounts together, if more.
    excess: f64,
}

/// Returns the errors of the time charged to `account` for a delay at `place`.
fn error_of(place: Place, account: Account, nanos: u64) -> ChargeError {
    INJECTED_DELAY.set((Place::Nowhere, 0));
    let mut pair = Pair::connect(Clock::Counter(ticks));
    (0..50).for_each(|_| pair.echo());
    let charged = |pair: &mut Pair| {
        pair.server.meter.settle();
        (pair.server.meter.charged(account), pair.server.meter.total())
    };
    let sent = pair.press_key();
    let before = charged(&mut pair);
    INJECTED_DELAY.set((place, nanos));
    INJECTED_TICKS.set(0);
    pair.server.turn(&sent);
    INJECTED_DELAY.set((Place::Nowhere, 0));
    let after = charged(&mut pair);
    let injected_ticks = INJECTED_TICKS.get() as f64;
    assert!(injected_ticks > 0.0, "nothing was injected in {place:?}");
    let charged_ticks = (after.0 - before.0) as f64;
    let other_ticks = (after.1 - before.1) as f64 - charged_ticks;
    ChargeError {
        missing: (injected_ticks - charged_ticks) / injected_ticks,
        excess: (charged_ticks - injected_ticks).max(other_ticks) / injected_ticks,
    }
}

fn assert_charged(place: Place, account: Account) {
    for nanos in INJECTED_NS {
        let errors: Vec<_> = (0..40).map(|_| error_of(place, account, nanos)).collect();
        // Other programs and interrupts add time to an account, but never take any from it.
        let missing = errors.iter().map(|error| error.missing).max_by(f64::total_cmp).unwrap();
        assert!(missing <= TOLERANCE, "{place:?}, {nanos} ns: {missing} is missing");
        // A hardware interrupt is charged to the account of the code that it interrupts, so only
        // the best of several runs shows the meter's own error.
        let excess = errors.iter().map(|error| error.excess).min_by(f64::total_cmp).unwrap();
        assert!(excess <= TOLERANCE, "{place:?}, {nanos} ns: {excess} too much");
    }
}

#[test]
fn a_delay_in_the_checksum_is_charged_to_tcp_by_the_byte() {
    assert_charged(Place::Checksum, Account::TcpByte);
}

#[test]
fn a_delay_in_the_application_is_charged_to_the_outside() {
    assert_charged(Place::Application, Account::Outside);
}

#[test]
fn a_delay_in_the_driver_is_charged_to_the_system_call() {
    assert_charged(Place::Driver, Account::Interrupt);
}

/// Processes a key at the server with a clock that jumps by `jump_ticks` at its `jumps_at`-th
/// reading, and returns the time charged to each account.
fn charged_by_jump(jumps_at: u64, jump_ticks: u64) -> [u64; Account::COUNT] {
    JUMPING_CLOCK.set((0, u64::MAX, 0));
    let mut pair = Pair::connect(Clock::Counter(read_jumping_clock));
    pair.echo();
    let sent = pair.press_key();
    pair.server.meter = Meter::new(Clock::Counter(read_jumping_clock));
    JUMPING_CLOCK.set((0, jumps_at, jump_ticks));
    pair.server.turn(&sent);
    pair.server.meter.accounts()
}

#[test]
fn a_clock_jump_is_charged_to_one_account_in_the_order_of_a_key() {
    charged_by_jump(u64::MAX, 0);
    let (readings, _, _) = JUMPING_CLOCK.get();
    let mut accounts = Vec::new();
    for jumps_at in 0..readings {
        let [short, long] = INJECTED_NS.map(|jump_ticks| charged_by_jump(jumps_at, jump_ticks));
        let mut charged = Account::ALL.iter().zip(short).filter(|(_, charged)| *charged > 0);
        let Some((account, INJECTED_SHORT_NS)) = charged.next() else { panic!("at {jumps_at}") };
        assert_eq!(charged.next(), None, "at reading {jumps_at}");
        assert_eq!(long[*account as usize], INJECTED_NS[1]);
        assert_eq!(long.iter().sum::<u64>(), INJECTED_NS[1]);
        accounts.push(*account);
    }
    accounts.dedup();
    let mut remaining = accounts.iter();
    for layer in KEY_ACCOUNTS {
        assert!(remaining.any(|account| *account == layer), "{layer:?} is not in {accounts:?}");
    }
}

const INJECTED_SHORT_NS: u64 = INJECTED_NS[0];

/// Layer accounts of the meter that are charged for a key at a server, in order: from the line to
/// the screen and back.
const KEY_ACCOUNTS: [Account; 12] = [
    Account::Outside,
    Account::Interrupt,
    Account::Link,
    Account::Internet,
    Account::TcpByte,
    Account::TcpFixed,
    Account::Telnet,
    Account::Terminal,
    Account::TcpFixed,
    Account::Internet,
    Account::Link,
    Account::Interrupt,
];
