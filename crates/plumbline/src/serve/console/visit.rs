//! Console session: Telnet to the client, and the `Desk` of the serial line.
//!
//! Option negotiation comes first, for a limited time, because it decides whether the client uses
//! RFC 2217. If it does, its data stream carries only the bytes of the line, and notices are sent
//! as signatures. Otherwise notices appear within the output, in lines that begin with `[plumb:`,
//! and the client has the keys of `escape`.

use super::Console;
use super::desk::{Id, Masks, Typed};
use super::escape::{Escape, HELP, Key, Wish};
use crate::serve::LoginServer;
use crate::serve::ending::Ending;
use crate::serve::entrance::StartTls;
use crate::serve::log::Event as Logged;
use crate::serve::session::{NO_TLS, Traffic, is_gone};
use crate::serve::wire::{Ready, Wire};
use anyhow::{Context, Result};
use protocols::application::telnet::{
    ComPortCommand, ComPortEvent, Command, Event, OptionCode, ServerSettings, Side, Telnet,
};
use protocols::meter::Counter;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum time that negotiation delays the output of the line.
const NEGOTIATION: Duration = Duration::from_secs(1);
/// Time limit for starting TLS, if the client has agreed to it or it is required.
const TLS_NEGOTIATION: Duration = Duration::from_secs(3);
/// Number of bytes queued for the client at which the console is no longer read.
const OUTPUT_LEN: usize = 32 * 1024;
/// Number of bytes taken from the console at a time.
const PIECE_LEN: usize = 8 * 1024;
/// Number of typed bytes queued at which the client is no longer read.
const TYPED_LEN: usize = 4096;
/// Time for the last output to be sent, and duration of a BREAK sent by key or by Telnet.
const FAREWELL: Duration = Duration::from_secs(2);
const BREAK: Duration = Duration::from_millis(300);

/// Initial masks of RFC 2217: all of the modem state, nothing of the line state.
const MASKS: Masks = Masks { line: 0, modem: 0xFF };

enum Stage {
    /// Options are being negotiated.
    Negotiating,
    /// The client is attached to the line.
    Open(Id, Rc<Notify>),
    /// The last output is being sent.
    Ended(Ending),
}

enum Woken {
    Far(Ready),
    /// The connection is lost. A socket reports that on reading, TLS and the user-space TCP report
    /// it here.
    Gone,
    Bell,
    Deadline,
}

pub(in crate::serve) struct Visit<W> {
    wire: W,
    peer: SocketAddr,
    shop: Rc<LoginServer>,
    console: Rc<Console>,
    telnet: Telnet,
    stage: Stage,
    /// Output that did not fit into the Telnet engine's buffer.
    unsent: Vec<u8>,
    /// Input that the line has not accepted yet.
    typed: VecDeque<u8>,
    escape: Escape,
    masks: Masks,
    /// Whether the client was notified that its input is refused, since input was last accepted.
    was_told: bool,
    begun: Instant,
    start_tls: StartTls,
    tls_rest: Option<Vec<u8>>,
    pub(in crate::serve) traffic: Traffic,
}

impl<W: Wire> Visit<W> {
    pub(in crate::serve) fn new(
        wire: W,
        peer: SocketAddr,
        shop: Rc<LoginServer>,
        console: Rc<Console>,
        start_tls: StartTls,
    ) -> Self {
        let mut allows = ServerSettings::OPTIONS.with(OptionCode::COM_PORT);
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
            console,
            telnet: Telnet::server(&settings),
            stage: Stage::Negotiating,
            unsent: Vec::new(),
            typed: VecDeque::new(),
            escape: Escape::default(),
            masks: MASKS,
            was_told: false,
            begun: Instant::now(),
            start_tls,
            tls_rest: None,
            traffic: Traffic::default(),
        }
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub(in crate::serve) async fn run(&mut self) -> Result<Ending> {
        // A console requires no login.
        self.shop.admission().proved(self.peer);
        self.telnet.start(&mut self.shop.bench().cx());
        let ended = self.turns().await;
        self.leave();
        if matches!(ended, Ok(ending) if ending != Ending::StartsTls) {
            // A client that accepts no data is not waited for.
            _ = tokio::time::timeout(FAREWELL, self.wire.close()).await;
        }
        ended
    }

    /// Returns the stream to the client and the bytes read beyond the end of a session that
    /// continues in TLS.
    pub(in crate::serve) fn into_wire(self) -> (W, Vec<u8>) {
        (self.wire, self.tls_rest.unwrap_or_default())
    }

    fn leave(&mut self) {
        if let Stage::Open(id, _) = self.stage
            && self.console.desk.borrow_mut().leave(id)
        {
            self.console.end_break();
        }
        self.stage = Stage::Ended(Ending::Left);
    }

    async fn turns(&mut self) -> Result<Ending> {
        loop {
            self.settle();
            self.pass_typed();
            self.pull();
            self.write()?;
            // Its notification has already been received, so pending output is taken as long as it
            // can be sent.
            while self.has_waiting() && self.telnet.output().is_empty() {
                self.pull();
                self.write()?;
            }
            let is_all_said = self.telnet.output().is_empty() && self.unsent.is_empty();
            if self.tls_rest.is_some() && is_all_said && !self.wire.is_owing() {
                return Ok(Ending::StartsTls);
            }
            // Continuous input does not delay the end.
            if let Stage::Ended(ending) = self.stage
                && (is_all_said || self.begun.elapsed() >= FAREWELL)
            {
                return Ok(ending);
            }
            match self.wait().await? {
                Woken::Far(ready) => {
                    if ready.is_urgent {
                        self.telnet.urgent();
                    }
                    if ready.to_read && !self.read()? {
                        return Ok(Ending::Left);
                    }
                }
                Woken::Gone => return Ok(Ending::Left),
                Woken::Bell => {}
                Woken::Deadline => {}
            }
        }
    }

    async fn wait(&mut self) -> Result<Woken> {
        let wants_room = !self.telnet.output().is_empty() || !self.unsent.is_empty();
        let wants_far = self.typed.len() < TYPED_LEN && self.tls_rest.is_none();
        let wants_wire = wants_far || wants_room || self.wire.is_owing();
        let due = match self.stage {
            Stage::Negotiating => Some(self.begun + self.patience()),
            Stage::Open(..) => None,
            Stage::Ended(_) => Some(self.begun + FAREWELL),
        };
        let alarm = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let bell = async {
            match &self.stage {
                Stage::Open(_, bell) => bell.notified().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ready = self.wire.ready(wants_far, wants_room), if wants_wire => {
                match ready {
                    Err(error) if is_gone(&error) => Ok(Woken::Gone),
                    ready => ready.context("the connection failed").map(Woken::Far),
                }
            }
            () = bell => Ok(Woken::Bell),
            () = alarm => Ok(Woken::Deadline),
        }
    }

    /// Returns whether the client has agreed to TLS and TLS has not started.
    fn awaits_tls(&self) -> bool {
        self.telnet.is_enabled(Side::Him, OptionCode::START_TLS)
    }

    fn patience(&self) -> Duration {
        let is_for_tls = self.awaits_tls() || self.start_tls == StartTls::Required;
        if is_for_tls { TLS_NEGOTIATION } else { NEGOTIATION }
    }

    /// Attaches the client once the options are negotiated or the time for that is over.
    fn settle(&mut self) {
        if !matches!(self.stage, Stage::Negotiating) || self.tls_rest.is_some() {
            return;
        }
        let is_late = self.begun.elapsed() >= self.patience();
        let is_settled = self.telnet.negotiation_is_quiet() && !self.awaits_tls();
        if is_settled || is_late {
            self.begin();
        }
    }

    /// Attaches the client, or ends the session if it must not continue in cleartext.
    fn begin(&mut self) {
        if self.awaits_tls() || self.start_tls == StartTls::Required {
            self.show(NO_TLS);
            self.end(Ending::InClear);
            return;
        }
        let may_write = self.console.lets_write(self.peer);
        let (id, bell) = self.console.desk.borrow_mut().enter(self.peer, may_write);
        self.stage = Stage::Open(id, bell);
        if self.speaks_com_port() {
            self.console.desk.borrow_mut().set_masks(id, self.masks);
            self.console.work.notify_one();
        }
        self.say_who_writes(id);
    }

    fn end(&mut self, ending: Ending) {
        self.leave();
        self.begun = Instant::now();
        self.stage = Stage::Ended(ending);
    }

    fn speaks_com_port(&self) -> bool {
        self.telnet.is_enabled(Side::Him, OptionCode::COM_PORT)
    }

    /// Logs that this client has write access, if it does.
    fn say_who_writes(&self, id: Id) {
        if self.console.desk.borrow().writes(id) {
            let device = self.console.settings.device.display().to_string();
            self.shop.log.say(&Logged::Writes { from: self.peer, device });
        }
    }

    /// Reads data from the client. Returns whether more may come.
    fn read(&mut self) -> Result<bool> {
        let shop = Rc::clone(&self.shop);
        let mut scratch = shop.scratch.borrow_mut();
        let room = scratch.get_mut(..TYPED_LEN).unwrap_or_default();
        let read = match self.wire.read(room) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(true),
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(error).context("the connection failed"),
        };
        if read.count == 0 {
            return Ok(false);
        }
        self.traffic.bytes_in += read.count as u64;
        let mut input = scratch.get(..read.count).unwrap_or_default();
        loop {
            let event = self.telnet.receive(&mut input, &mut shop.bench().cx());
            let Some(event) = event else { break };
            match event {
                Event::Data(keys) => self.on_keys(keys),
                Event::ComPort(event) => self.on_com_port(&event),
                Event::Command(command) => self.on_command(command),
                Event::Option { side: Side::Him, option: OptionCode::COM_PORT, enabled } => {
                    self.on_com_port_option(enabled);
                }
                Event::StartTls => self.tls_rest = Some(Vec::new()),
                _ => {}
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
        Ok(true)
    }

    fn on_com_port_option(&mut self, is_on: bool) {
        if is_on {
            // The line's data is binary, and many RFC 2217 clients do not request BINARY
            // themselves.
            let mut bench = self.shop.bench();
            for side in [Side::Us, Side::Him] {
                // This fails if the client has already requested it.
                _ = self.telnet.ask(side, OptionCode::BINARY, true, &mut bench.cx());
            }
        }
        if let (Stage::Open(id, _), true) = (&self.stage, is_on) {
            self.console.desk.borrow_mut().set_masks(*id, self.masks);
            self.console.work.notify_one();
        }
    }

    fn on_keys(&mut self, mut keys: &[u8]) {
        if self.speaks_com_port() {
            self.typed.extend(keys);
            return;
        }
        let mut escape = self.escape;
        while let Some(key) = escape.take(&mut keys) {
            match key {
                Key::Line(run) => self.typed.extend(run),
                Key::Held => {}
                Key::Wish(wish) => self.grant(wish),
            }
        }
        self.escape = escape;
    }

    fn grant(&mut self, wish: Wish) {
        let Stage::Open(id, _) = self.stage else { return };
        // Input typed before the command is passed on first.
        self.pass_typed();
        match wish {
            Wish::TakeOver => {
                let may_write = self.console.desk.borrow_mut().take_over(id);
                if !may_write {
                    self.tell("write access is not allowed from this address");
                }
                self.say_who_writes(id);
            }
            Wish::Watch => self.console.desk.borrow_mut().watch(id),
            Wish::Who => {
                let who = self.console.desk.borrow().who();
                who.iter().for_each(|line| self.tell(line));
            }
            Wish::Replay => {
                let history = self.console.desk.borrow().history();
                self.tell("recent output:");
                self.show(&history);
                self.tell("end of recent output");
            }
            Wish::Break => self.send_break(),
            Wish::Leave => self.end(Ending::Left),
            Wish::Help => self.tell(HELP),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Break => self.send_break(),
            Command::AreYouThere => self.tell("yes"),
            _ => {}
        }
    }

    /// Sends a BREAK on the line, if this client has write access.
    fn send_break(&mut self) {
        let Stage::Open(id, _) = self.stage else { return };
        if !self.console.desk.borrow().writes(id) {
            return self.tell("BREAK requires write access");
        }
        self.console.with_line(|line| line.set_break(true));
        let console = Rc::clone(&self.console);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(BREAK).await;
            console.end_break();
        });
    }

    fn on_com_port(&mut self, event: &ComPortEvent) {
        let ComPortEvent::Command(command) = event else { return };
        let may_begin = !self.awaits_tls() && self.start_tls != StartTls::Required;
        // A client that sends RFC 2217 commands has negotiated what matters.
        if matches!(self.stage, Stage::Negotiating) && may_begin {
            self.begin();
        }
        let Stage::Open(id, _) = self.stage else { return };
        self.pass_typed();
        if let Some(answer) = self.console.obey(id, command, &mut self.masks) {
            // A client that does not read answers gets none.
            _ = self.telnet.com_port(&answer, &mut self.shop.bench().cx());
        }
    }

    /// Queues typed input for the line as far as there is room.
    fn pass_typed(&mut self) {
        let Stage::Open(id, _) = self.stage else { return };
        if self.typed.is_empty() {
            return;
        }
        let wrote = self.console.desk.borrow().writes(id);
        let typed = self.typed.make_contiguous();
        let taken = self.console.desk.borrow_mut().take(id, typed);
        let sentence = match taken {
            Typed::Taken(count) => {
                self.typed.drain(..count);
                self.was_told = false;
                self.console.work.notify_one();
                if !wrote {
                    self.say_who_writes(id);
                }
                return;
            }
            Typed::Watching => "another client has write access: ^E c f takes over",
            Typed::Forbidden => "write access is not allowed from this address",
        };
        let refused = self.typed.len() as u64;
        self.shop.bench().meter.add(Counter::ConsoleBytesRefused, refused);
        self.typed.clear();
        if !std::mem::replace(&mut self.was_told, true) {
            self.tell(sentence);
        }
    }

    /// Returns whether output of the line is pending and may be sent.
    fn has_waiting(&self) -> bool {
        let Stage::Open(id, _) = self.stage else { return false };
        !self.telnet.is_suspended() && self.console.desk.borrow().has_output(id)
    }

    /// Takes pending output and notices as far as there is room.
    fn pull(&mut self) {
        let Stage::Open(id, _) = self.stage else { return };
        while self.unsent.is_empty()
            && self.telnet.output().len() < OUTPUT_LEN
            && !self.telnet.is_suspended()
        {
            let news = self.console.desk.borrow_mut().news(id, PIECE_LEN);
            let is_all = news.output.len() < PIECE_LEN;
            if news.skipped > 0 {
                self.tell(&format!("{} bytes skipped: output not read fast enough", news.skipped));
            }
            self.show(&news.output);
            news.notes.iter().for_each(|sentence| self.tell(sentence));
            let states = [
                news.line_state.map(ComPortCommand::LineState),
                news.wires.map(ComPortCommand::ModemState),
            ];
            for state in states.iter().flatten() {
                // A client that does not read notifications gets none.
                _ = self.telnet.com_port(state, &mut self.shop.bench().cx());
            }
            if is_all {
                return;
            }
        }
    }

    /// Sends a notice: as a signature with RFC 2217, otherwise within the output.
    fn tell(&mut self, sentence: &str) {
        if self.speaks_com_port() {
            let signature = ComPortCommand::Signature(format!("plumb: {sentence}"));
            // A client that does not read notices gets none.
            _ = self.telnet.com_port(&signature, &mut self.shop.bench().cx());
        } else {
            self.show(format!("\r\n[plumb: {sentence}]\r\n").as_bytes());
        }
    }

    /// Queues bytes for the client.
    fn show(&mut self, bytes: &[u8]) {
        let taken = match self.unsent.is_empty() {
            true => self.telnet.send(bytes, &mut self.shop.bench().cx()),
            false => 0,
        };
        let rest = bytes.get(taken..).unwrap_or_default();
        // A client that sends requests without reading the answers gets no more.
        if self.unsent.len() < 4 * OUTPUT_LEN {
            self.unsent.extend_from_slice(rest);
        }
    }

    /// Writes queued output to the client until it accepts no more.
    fn write(&mut self) -> Result<()> {
        loop {
            if !self.unsent.is_empty() {
                let unsent = std::mem::take(&mut self.unsent);
                self.show(&unsent);
                if self.awaits_tls() {
                    // No more output is sent before TLS, and nothing waits for room.
                    self.unsent.clear();
                }
            }
            let output = self.telnet.output();
            if output.is_empty() {
                return Ok(());
            }
            let sent = match self.wire.write(output, self.telnet.urgent_mark()) {
                Ok(Some(sent)) => sent,
                Ok(None) => return Ok(()),
                // The read reports this error too.
                Err(error) if is_gone(&error) => output.len(),
                Err(error) => return Err(error).context("the connection failed"),
            };
            self.traffic.bytes_out += sent as u64;
            self.telnet.sent(sent);
        }
    }
}
