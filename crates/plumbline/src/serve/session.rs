//! Login session: Telnet to the client, and a login prompt or a program.
//!
//! ```text
//! client ──► wire ──► Telnet ──► typed ──► login prompt, then the program's terminal
//! client ◄── wire ◄── Telnet ◄── unsent ◄── the program's terminal
//! ```
//!
//! Option negotiation comes first, for a limited time, because a program needs to know its terminal
//! when it starts. Each turn then processes received data and the program's output, and sends
//! everything in one write, so that a screenful leaves in one piece and nothing waits for an
//! acknowledgment. Neither side is read while its earlier data has not been accepted by the other.

mod half_duplex;

use super::LoginServer;
use super::dialogue::{Claim, Dialogue};
use super::ending::Ending;
use super::entrance::StartTls;
use super::fair_queue::{Busy, Permit};
use super::log::Event as Logged;
use super::program::{self, Client, Running};
use super::throttle;
use super::users::Account;
use super::watch::{Alarm, Watched};
use super::wire::{Ready, Wire};
use anyhow::{Context, Result};
use half_duplex::{DEFAULT_WINDOW, GoAhead};
use os::pty::{ControlCharacters, OUTPUT_FLUSHED, PtyProgram};
use os::tty::WindowSize;
use os::utmp::Entry;
use protocols::application::telnet::{Command, Event, OptionCode, ServerSettings, Side, Telnet};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::time::Instant;

/// Maximum time that negotiation delays the start of the program.
const NEGOTIATION: Duration = Duration::from_secs(3);
/// Number of bytes queued for the client at which the program is no longer read.
const OUTPUT_LEN: usize = 32 * 1024;
/// Number of queued bytes from which discarding them is worth a Synch.
const MUCH: usize = 4096;
/// Number of typed bytes queued for the program at which the client is no longer read.
const TYPED_LEN: usize = 4096;
/// Maximum number of password attempts per session.
const ATTEMPTS: u32 = 3;
/// Idle time of a program after the client has closed its half, until the terminal is hung up.
/// Input from a pipe is thus still answered, without typing anything that the client did not send.
const FAREWELL: Duration = Duration::from_secs(2);
/// Maximum number of answers to AYT per second.
const AYT_PER_SECOND: u32 = 4;

/// Sent when a password was not checked because the queue of checks was full.
const BUSY: &[u8] = b"Too many logins at the moment, try again later\r\n";

/// Sent to a client that continues in cleartext although TLS is required.
pub(super) const NO_TLS: &[u8] =
    b"This server requires TLS: use telnets, or a client that supports START_TLS.\r\n";

/// Result of a password check: the user, or `None` if the password is wrong.
type Verdict = (Claim, Result<(Option<(String, Account)>, Permit), Busy>);

/// State of the local end.
enum Near {
    /// Options are being negotiated.
    Negotiating,
    Dialogue(Dialogue),
    /// A password is being checked in another thread. Dropping the future leaves the queue of
    /// checks.
    Checking(Pin<Box<dyn Future<Output = Verdict>>>),
    /// The answer to a wrong password is delayed until this time.
    Punished(Instant),
    Program(Watched<PtyProgram>, Option<Entry>),
    /// The program has ended; its last output is being sent.
    Ended(Ending),
}

/// Reason for the end of a wait.
enum Woken {
    Far(Ready),
    /// The connection is lost. A socket reports that on reading, TLS and the user-space TCP report
    /// it here.
    Gone,
    Near {
        to_read: bool,
    },
    Checked(Verdict),
    Deadline,
}

/// Bytes carried by a session.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

pub(super) struct Session<W> {
    wire: W,
    peer: SocketAddr,
    shop: Rc<LoginServer>,
    telnet: Telnet,
    near: Near,
    /// Output that did not fit into the Telnet engine's buffer.
    unsent: Vec<u8>,
    /// Input that the program has not accepted yet.
    typed: Vec<u8>,
    /// Reports that the program accepts input again. Present only while input is queued, because a
    /// terminal reports being writable after every key.
    room: Option<Watched<OwnedFd>>,
    window: WindowSize,
    go_ahead: GoAhead,
    /// Whether the client has refused the server's ECHO.
    is_echo_refused: bool,
    /// Whether the last read from the client filled the buffer, so that the program's output goes
    /// first.
    is_far_busy: bool,
    terminal: Option<String>,
    attempts: u32,
    answers_left: u32,
    answers_since: Instant,
    begun: Instant,
    last_typed: Instant,
    /// Set when the client has closed its half: the time of that or of the program's last output
    /// since.
    left_at: Option<Instant>,
    start_tls: StartTls,
    /// TLS begins after the current output; these bytes were already read.
    tls_rest: Option<Vec<u8>>,
    pub(super) traffic: Traffic,
}

impl<W: Wire> Session<W> {
    pub(super) fn new(
        wire: W,
        peer: SocketAddr,
        shop: Rc<LoginServer>,
        start_tls: StartTls,
    ) -> Self {
        let now = Instant::now();
        let mut allows = ServerSettings::OPTIONS.with(OptionCode::ECHO_ACKNOWLEDGMENT);
        if start_tls != StartTls::Off {
            allows = allows.with(OptionCode::START_TLS);
        }
        let settings = ServerSettings {
            allows,
            hears_lines_as_cr: true,
            output_limit_bytes: 2 * OUTPUT_LEN,
            ..ServerSettings::default()
        };
        Self {
            wire,
            peer,
            shop,
            telnet: Telnet::server(&settings),
            near: Near::Negotiating,
            unsent: Vec::new(),
            typed: Vec::new(),
            room: None,
            window: DEFAULT_WINDOW,
            go_ahead: GoAhead::default(),
            is_echo_refused: false,
            is_far_busy: false,
            terminal: None,
            attempts: 0,
            answers_left: AYT_PER_SECOND,
            answers_since: now,
            begun: now,
            last_typed: now,
            left_at: None,
            start_tls,
            tls_rest: None,
            traffic: Traffic::default(),
        }
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails or the program cannot be started.
    pub(super) async fn run(&mut self) -> Result<Ending> {
        self.telnet.start(&mut self.shop.bench().cx());
        let ended = self.turns().await;
        self.hang_up();
        if matches!(ended, Ok(ending) if ending != Ending::StartsTls) {
            // A client that accepts no data or does not close is not waited for.
            _ = tokio::time::timeout(FAREWELL, self.close()).await;
        }
        ended
    }

    /// Returns the stream to the client and the bytes read beyond the end of a session that
    /// continues in TLS.
    pub(super) fn into_wire(self) -> (W, Vec<u8>) {
        (self.wire, self.tls_rest.unwrap_or_default())
    }

    /// Closes the stream and reads until the client closes. Dropping a connection with unread data
    /// resets it, which could discard the last output.
    async fn close(&mut self) -> io::Result<()> {
        self.wire.close().await;
        let mut unread = [0; 512];
        loop {
            if self.wire.ready(true, false).await?.to_read
                && self.wire.read(&mut unread)?.is_some_and(|read| read.count == 0)
            {
                return Ok(());
            }
        }
    }

    async fn turns(&mut self) -> Result<Ending> {
        let mut alarm = self.shop.waiter.alarm(self.begun + NEGOTIATION);
        loop {
            self.settle()?;
            // Deadlines apply no matter how much the client sends.
            if let Some(ending) = self.on_deadline() {
                return Ok(ending);
            }
            self.write()?;
            let is_all_said = self.telnet.output().is_empty() && self.unsent.is_empty();
            if self.tls_rest.is_some() && is_all_said && !self.wire.is_owing() {
                return Ok(Ending::StartsTls);
            }
            if let Near::Ended(ending) = self.near
                && is_all_said
            {
                return Ok(ending);
            }
            let due = earlier(self.due(), self.acknowledgment_due());
            let due = earlier(due, self.go_ahead.due());
            alarm.be_in_time_for(due);
            let woken = self.wait(&mut alarm, due.is_some()).await?;
            self.shop.count_wakeup();
            match woken {
                Woken::Far(ready) => {
                    if ready.is_urgent {
                        self.telnet.urgent();
                    }
                    if ready.to_read && !self.read_far()? && !self.leave() {
                        return Ok(Ending::Left);
                    }
                }
                Woken::Gone => return Ok(Ending::Left),
                Woken::Near { to_read } => {
                    self.write_near()?;
                    if to_read {
                        self.read_near()?;
                    }
                }
                Woken::Checked((claim, checked)) => self.on_checked(&claim, checked)?,
                Woken::Deadline => {
                    self.acknowledge();
                    self.go_ahead();
                }
            }
        }
    }

    /// Records that the client has closed its half. Returns whether a program may still answer what
    /// was typed before.
    fn leave(&mut self) -> bool {
        self.left_at = Some(Instant::now());
        matches!(self.near, Near::Program(..))
    }

    async fn wait(&mut self, alarm: &mut Alarm, has_alarm: bool) -> Result<Woken> {
        let wants_room = !self.telnet.output().is_empty() || !self.unsent.is_empty();
        let wants_far =
            self.typed.len() < TYPED_LEN && self.left_at.is_none() && self.tls_rest.is_none();
        // Output already read from the program is sent before more is read.
        let wants_near = self.unsent.is_empty() && self.telnet.output().len() < OUTPUT_LEN;
        let has_typed = !self.typed.is_empty();
        let wants_wire = wants_far || wants_room || self.wire.is_owing();
        let mut far = pin!(self.wire.ready(wants_far, wants_room));
        let mut near = pin!(near_ready(&mut self.near, self.room.as_ref(), wants_near, has_typed));
        let mut rung = pin!(alarm.rung());
        // Polling order matters for latency. The program comes first only if the client sends
        // continuously.
        let is_far_busy = self.is_far_busy;
        poll_fn(|context| {
            if is_far_busy && let Poll::Ready(woken) = near.as_mut().poll(context) {
                return Poll::Ready(woken);
            }
            if wants_wire && let Poll::Ready(ready) = far.as_mut().poll(context) {
                return Poll::Ready(match ready {
                    Err(error) if is_gone(&error) => Ok(Woken::Gone),
                    ready => ready.context("the connection failed").map(Woken::Far),
                });
            }
            if !is_far_busy && let Poll::Ready(woken) = near.as_mut().poll(context) {
                return Poll::Ready(woken);
            }
            // An elapsed alarm stays ready, so it is not polled without a deadline.
            if has_alarm && rung.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Woken::Deadline));
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next deadline of the session.
    fn due(&self) -> Option<Instant> {
        match &self.near {
            Near::Negotiating => Some(self.begun + NEGOTIATION),
            Near::Punished(until) => Some(*until),
            Near::Dialogue(_) | Near::Checking(_) => {
                Some(self.begun + self.shop.configuration.login_timeout)
            }
            Near::Program(..) => match (self.left_at, self.shop.configuration.idle_timeout) {
                (Some(left_at), _) => Some(left_at + FAREWELL),
                (None, idle) => idle.map(|time| self.last_typed + time),
            },
            Near::Ended(_) => Some(self.last_typed + NEGOTIATION),
        }
    }

    /// Returns when typed data is acknowledged if it has not been echoed. `None` while there is no
    /// room for the echo.
    fn acknowledgment_due(&self) -> Option<Instant> {
        let due = self.telnet.deadline()?;
        let has_room = self.unsent.is_empty() && self.telnet.output().len() < OUTPUT_LEN;
        let left = due.since(self.shop.bench().cx().now);
        has_room.then(|| Instant::now() + left)
    }

    /// Acknowledges data typed long enough ago. The program's output was already read, because it
    /// is polled before the alarm.
    fn acknowledge(&mut self) {
        let shop = Rc::clone(&self.shop);
        let mut bench = shop.bench();
        let mut cx = bench.cx();
        if self.telnet.deadline().is_some_and(|due| due <= cx.now) {
            self.telnet.timeout(&mut cx);
        }
    }

    fn on_deadline(&mut self) -> Option<Ending> {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return None;
        }
        match self.near {
            Near::Negotiating => {}
            Near::Punished(_) => {
                if self.attempts >= ATTEMPTS {
                    return Some(Ending::Denied);
                }
                self.show(b"Login incorrect\r\n\r\n");
                self.begin_dialogue(Dialogue::default());
            }
            Near::Dialogue(_) | Near::Checking(_) => {
                self.show(b"\r\nLogin timed out\r\n");
                self.near = Near::Ended(Ending::NoLogin);
                self.last_typed = Instant::now();
            }
            Near::Program(..) if self.left_at.is_some() => return Some(Ending::Left),
            Near::Program(..) => return Some(Ending::Idle),
            Near::Ended(ending) => return Some(ending),
        }
        None
    }

    /// Starts the service once the options are negotiated or the time for that is over.
    fn settle(&mut self) -> Result<()> {
        if !matches!(self.near, Near::Negotiating) {
            return Ok(());
        }
        let is_late = self.begun.elapsed() >= NEGOTIATION;
        let names_terminal = self.telnet.is_enabled(Side::Him, OptionCode::TERMINAL_TYPE);
        let is_settled =
            self.telnet.negotiation_is_quiet() && (!names_terminal || self.terminal.is_some());
        // A client that types before it has answered does not negotiate. Where TLS is required, the
        // input may come from an attacker and does not count.
        let is_typing = !self.typed.is_empty() && self.start_tls != StartTls::Required;
        // A client that has agreed to TLS starts in TLS or not at all.
        let awaits_tls = self.telnet.is_enabled(Side::Him, OptionCode::START_TLS);
        if is_late || (!awaits_tls && (is_settled || is_typing)) {
            self.begin()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let awaits_tls = self.telnet.is_enabled(Side::Him, OptionCode::START_TLS);
        if awaits_tls || self.start_tls == StartTls::Required {
            self.show(NO_TLS);
            self.near = Near::Ended(Ending::InClear);
            self.last_typed = Instant::now();
            return Ok(());
        }
        let greeting = self.shop.configuration.greeting();
        self.show(&greeting);
        let client = self.client();
        let running = match &self.shop.service {
            super::Service::Nothing => anyhow::bail!("logins are not served here"),
            super::Service::SystemLogin => program::start_login(&client)?,
            super::Service::Exec(words) => program::start_exec(words, &client)?,
            super::Service::Users(_) => {
                self.begin_dialogue(Dialogue::default());
                return Ok(());
            }
        };
        self.attach(running)
    }

    fn client(&self) -> Client {
        let terminal = self.terminal.clone();
        let (address, window) = (self.peer.ip().to_canonical(), self.window);
        Client { address, terminal, window, is_echo_refused: self.is_echo_refused }
    }

    fn attach(&mut self, running: Running) -> Result<()> {
        self.shop.admission().proved(self.peer);
        let program = self.shop.waiter.watch(running.program, Interest::READABLE)?;
        self.near = Near::Program(program, running.entry);
        self.last_typed = Instant::now();
        self.write_near()
    }

    fn begin_dialogue(&mut self, mut dialogue: Dialogue) {
        let mut output = Vec::new();
        dialogue.set_echo(!self.is_echo_refused);
        dialogue.ask(&mut output);
        self.show(&output);
        self.near = Near::Dialogue(dialogue);
        // Process input that arrived in the meantime.
        let typed = std::mem::take(&mut self.typed);
        self.take_typed(&typed);
    }

    /// Reads data from the client. Returns whether more may come.
    fn read_far(&mut self) -> Result<bool> {
        let shop = Rc::clone(&self.shop);
        let mut scratch = shop.scratch.borrow_mut();
        // Never read more than `typed` has room for, so that no input is lost.
        let room = scratch.get_mut(..TYPED_LEN).unwrap_or_default();
        let read = match shop.charge_call(|| self.wire.read(room)) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(true),
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error).context("the connection failed"),
        };
        if read.count == 0 {
            return Ok(false);
        }
        self.traffic.bytes_in += read.count as u64;
        self.is_far_busy = read.count == TYPED_LEN;
        if matches!(self.near, Near::Program(..)) {
            shop.bench().meter.transaction();
        }
        let mut input = scratch.get(..read.count).unwrap_or_default();
        loop {
            let event = self.telnet.receive(&mut input, &mut shop.bench().cx());
            let Some(event) = event else { break };
            match event {
                Event::Data(data) => self.on_data(data),
                event => self.on_event(event),
            }
        }
        if read.ends_urgent {
            self.telnet.urgent_ended();
        }
        if let Some(rest) = &mut self.tls_rest {
            // Cleartext input may come from an attacker.
            self.typed.clear();
            self.unsent.clear();
            rest.extend_from_slice(input);
        }
        self.write_near()?;
        Ok(true)
    }

    fn on_data(&mut self, data: &[u8]) {
        if self.shop.configuration.idle_timeout.is_some() {
            self.last_typed = Instant::now();
        }
        self.take_typed(data);
    }

    fn take_typed(&mut self, data: &[u8]) {
        let Near::Dialogue(dialogue) = &mut self.near else {
            let room = (2 * TYPED_LEN).saturating_sub(self.typed.len());
            // The client is not read while this is full, so at most one read can exceed it.
            let fits = data.len().min(room);
            return self.typed.extend_from_slice(data.get(..fits).unwrap_or_default());
        };
        let mut output = Vec::new();
        let mut rest = data.iter();
        let claim = rest.by_ref().find_map(|byte| dialogue.take(*byte, &mut output));
        self.show(&output);
        if let Some(claim) = claim {
            self.check(claim);
            self.take_typed(rest.as_slice());
        }
    }

    fn check(&mut self, claim: Claim) {
        let super::Service::Users(users) = &self.shop.service else { return };
        let users = Arc::clone(&users.lock().unwrap_or_else(PoisonError::into_inner));
        let (shop, address) = (Rc::clone(&self.shop), self.peer.ip());
        self.near = Near::Checking(Box::pin(async move {
            let name = claim.name.clone().unwrap_or_default();
            let now = std::time::Instant::now;
            let reserve = || shop.admission().reserve_check(address, &name, now());
            let failures = || shop.admission().failures(address, &name);
            let permit = throttle::turn(&shop.checks, address, reserve, failures).await;
            let Ok(permit) = permit else { return (claim, Err(Busy)) };
            let checked = tokio::task::spawn_blocking(move || {
                let proved = users.prove(claim.name.as_deref(), &claim.password);
                // A running check cannot be interrupted; the next one waits for its end.
                (claim, Ok((proved, permit)))
            });
            let failed = || (Claim { name: None, password: Vec::new() }, Err(Busy));
            checked.await.unwrap_or_else(|_| failed())
        }));
    }

    fn on_checked(
        &mut self,
        claim: &Claim,
        checked: Result<(Option<(String, Account)>, Permit), Busy>,
    ) -> Result<()> {
        let now = std::time::Instant::now();
        let Ok((proved, permit)) = checked else {
            self.shop.admission().count_busy();
            self.show(BUSY);
            self.near = Near::Ended(Ending::Busy);
            self.last_typed = Instant::now();
            return Ok(());
        };
        self.shop.admission().count_login(proved.is_some());
        if let Some((name, account)) = proved {
            self.shop.admission().note_success(self.peer.ip(), &name, now);
            self.shop.log.say(&Logged::LoggedIn { from: self.peer, name: &name });
            let motd = self.shop.configuration.motd();
            self.show(&motd);
            let running = program::start_account(&name, &account, &self.client())?;
            return self.attach(running);
        }
        let name = claim.name.as_deref().unwrap_or("?");
        self.shop.log.say(&Logged::LoginFailed { from: self.peer, name });
        self.attempts += 1;
        let name = claim.name.as_deref().unwrap_or_default();
        let delay = self.shop.admission().note_failure(self.peer.ip(), name, now);
        drop(permit);
        self.near = Near::Punished(Instant::now() + delay);
        Ok(())
    }

    fn on_event(&mut self, event: Event<'_>) {
        match event {
            Event::TerminalType(name) => self.terminal = Some(name),
            Event::WindowSize { columns, rows } => self.on_window(columns, rows),
            Event::Command(command) => self.on_command(command),
            Event::StartTls => self.tls_rest = Some(Vec::new()),
            Event::Option { side: Side::Us, option, enabled } => self.on_option(option, enabled),
            Event::Refused { side: Side::Us, option } => self.on_option(option, false),
            _ => {}
        }
    }

    /// Applies a Telnet command of the client to the terminal (RFC 854, RFC 1123 §3.2.4).
    fn on_command(&mut self, command: Command) {
        let key: fn(ControlCharacters) -> u8 = match command {
            Command::AreYouThere => return self.answer_are_you_there(),
            Command::InterruptProcess | Command::Break => |keys| keys.interrupt,
            Command::EraseCharacter => |keys| keys.erase,
            Command::EraseLine => |keys| keys.kill,
            Command::EndOfFile => |keys| keys.end_of_file,
            Command::Suspend => |keys| keys.suspend,
            Command::Abort => |keys| keys.quit,
            Command::AbortOutput => return self.unsent.clear(),
            _ => return,
        };
        match &self.near {
            Near::Program(program, _) => {
                let keys = program.get_ref().control_characters();
                if let Ok(key) = keys.map(key)
                    && key != 0
                {
                    self.take_typed(&[key]);
                }
            }
            Near::Dialogue(_) if matches!(command, Command::EraseCharacter) => {
                self.take_typed(&[0x7f]);
            }
            Near::Dialogue(_) if matches!(command, Command::EraseLine) => self.take_typed(&[0x15]),
            _ => {}
        }
    }

    /// Answers AYT, limited to the rate of a client that waits for each answer (attack 58).
    fn answer_are_you_there(&mut self) {
        if self.answers_since.elapsed() >= Duration::from_secs(1) {
            (self.answers_left, self.answers_since) = (AYT_PER_SECOND, Instant::now());
        }
        if let Some(left) = self.answers_left.checked_sub(1) {
            self.answers_left = left;
            self.show(b"\r\n[plumb: yes]\r\n");
        }
    }

    /// Queues bytes for the client.
    fn show(&mut self, bytes: &[u8]) {
        self.go_ahead.on_output();
        let taken = match self.unsent.is_empty() {
            true => self.telnet.send(bytes, &mut self.shop.bench().cx()),
            false => 0,
        };
        self.unsent.extend_from_slice(bytes.get(taken..).unwrap_or_default());
    }

    /// Writes queued output to the client until it accepts no more.
    fn write(&mut self) -> Result<()> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                self.show(&unsent);
                if self.telnet.is_enabled(Side::Him, OptionCode::START_TLS) {
                    // No more output is sent before TLS, and nothing waits for room.
                    self.unsent.clear();
                }
            }
            let output = self.telnet.output();
            if output.is_empty() {
                return Ok(());
            }
            let urgent = self.telnet.urgent_mark();
            let sent = match self.shop.charge_call(|| self.wire.write(output, urgent)) {
                Ok(Some(sent)) => sent,
                Ok(None) => return Ok(()),
                // The read reports this error too.
                Err(error) if is_gone(&error) => {
                    self.left_at = self.left_at.map(|_| self.begun);
                    output.len()
                }
                Err(error) => return Err(error).context("the connection failed"),
            };
            self.traffic.bytes_out += sent as u64;
            self.telnet.sent(sent);
        }
    }

    /// Writes typed data to the program until it accepts no more.
    fn write_near(&mut self) -> Result<()> {
        let Near::Program(program, _) = &self.near else { return Ok(()) };
        while !self.typed.is_empty() {
            match self.shop.charge_call(|| program.get_ref().write(&self.typed)) {
                Ok(Some(count)) => drop(self.typed.drain(..count)),
                Ok(None) => break,
                // The terminal is hung up; the read reports it.
                Err(_) => self.typed.clear(),
            }
        }
        if self.typed.is_empty() {
            self.room = None;
        } else if self.room.is_none() {
            let room = program.get_ref().as_fd().try_clone_to_owned()?;
            self.room = Some(self.shop.waiter.watch(room, Interest::WRITABLE)?);
        }
        Ok(())
    }

    /// Reads the program's output as long as there is room for it.
    fn read_near(&mut self) -> Result<()> {
        let shop = Rc::clone(&self.shop);
        let mut scratch = shop.scratch.borrow_mut();
        while self.unsent.is_empty() && self.telnet.output().len() < OUTPUT_LEN {
            let Near::Program(program, _) = &self.near else { return Ok(()) };
            let read = shop.charge_call(|| read_program(program, &mut scratch));
            let Some(count) = read? else { return Ok(()) };
            match scratch.get(..count).unwrap_or_default() {
                [] => {
                    self.finish();
                    return Ok(());
                }
                [0, data @ ..] => {
                    self.left_at = self.left_at.map(|_| Instant::now());
                    // A short read has drained the terminal.
                    let is_empty = count < 1024;
                    self.show(data);
                    if is_empty {
                        return Ok(());
                    }
                }
                [flags, ..] if flags & OUTPUT_FLUSHED != 0 => self.flush_output(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles an interrupt: the terminal has flushed its output, so queued output is discarded
    /// too. A Synch (RFC 1123 §3.2.4) is sent only if much is queued: with little output the client
    /// needs none, and some clients lose a byte by it.
    fn flush_output(&mut self) {
        self.unsent.clear();
        if self.telnet.output().len() >= MUCH {
            self.telnet.command(Command::DataMark, &mut self.shop.bench().cx());
        }
    }

    fn finish(&mut self) {
        self.hang_up();
        self.near = Near::Ended(Ending::Finished);
        self.last_typed = Instant::now();
    }

    /// Hangs up the program's terminal, if any, and waits for the program in the background.
    fn hang_up(&mut self) {
        // This duplicate also keeps the terminal open.
        self.room = None;
        let near = std::mem::replace(&mut self.near, Near::Ended(Ending::Left));
        if let Near::Program(program, entry) = near {
            // Many systems have no such record.
            _ = entry.map(|entry| entry.log_out());
            super::reaper::reap(program.into_inner().hang_up());
        }
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Reads once. Returns 0 on a hang-up and `None` if there is nothing now. A short read marks the
/// terminal as drained, which saves the read that would find out.
fn read_program(program: &Watched<PtyProgram>, bytes: &mut [u8]) -> Result<Option<usize>> {
    let mut count = None;
    let read = program.try_io(Interest::READABLE, |program| {
        count = program.read(bytes)?;
        let is_empty = count.is_none_or(|count| count > 1 && count < 1024);
        if is_empty { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
    });
    match (count, read) {
        (Some(count), _) => Ok(Some(count)),
        (None, Ok(())) => Ok(None),
        (None, Err(error)) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        (None, Err(error)) => Err(error).context("the terminal of the program failed"),
    }
}

async fn near_ready(
    near: &mut Near,
    room: Option<&Watched<OwnedFd>>,
    wants_more: bool,
    has_typed: bool,
) -> Result<Woken> {
    match near {
        Near::Program(program, _) if wants_more || has_typed => {
            let mut program = pin!(program.ready(Interest::READABLE));
            let mut room = pin!(has_room(room));
            let woken = poll_fn(|context| {
                if wants_more && let Poll::Ready(ready) = program.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|_| Woken::Near { to_read: true }));
                }
                if has_typed && let Poll::Ready(ready) = room.as_mut().poll(context) {
                    return Poll::Ready(ready.map(|()| Woken::Near { to_read: false }));
                }
                Poll::Pending
            });
            woken.await.context("cannot poll the terminal")
        }
        Near::Checking(checking) => Ok(Woken::Checked(checking.await)),
        _ => std::future::pending().await,
    }
}

/// Waits until the terminal may accept input again.
async fn has_room(room: Option<&Watched<OwnedFd>>) -> io::Result<()> {
    match room {
        Some(room) => room.ready(Interest::WRITABLE).await.map(|_| room.clear(Interest::WRITABLE)),
        None => std::future::pending().await,
    }
}

/// Returns whether an error means only that the connection is lost.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::UnexpectedEof
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
    )
}
