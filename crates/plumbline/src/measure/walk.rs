//! A measured login: the session without a keyboard that performs the measurement.
//!
//! ```text
//! connect ─► prompt ─► name, password ─► errands ─► echo ─► pieces ─► screenful
//!                      (--login alone)   (a shell)          (a shell)
//!         ─► again ─► short answers ─► load ─► sustained load ─► over
//!            (a shell, all four)
//! ```
//!
//! Each part is a small state machine that processes the console whenever data has arrived or its
//! deadline has passed, and returns its next deadline. If a part fails, this is noted and the next
//! part runs, so that the report contains everything that could be measured. Return is pressed only
//! when a shell waits for a command, or when a user name and a password were given.

use super::answers::{Answered, Answers};
use super::beside::{Load, Loaded, TRAIN_KEYS, Train};
use super::command::{SCREENFUL_CELLS, SCREENFUL_COMMAND, Screen, Showing, Shown};
use super::console::{Console, Waits, Watch};
use super::echo::{Echo, Keystroke, Progress};
use super::pieces::Pieces;
use super::progress::ProgressLine;
use super::prompt::{Prompt, Prompts, Wait};
use super::record::nanos;
use super::stamp::Spent;
use super::sustained::{Sustained, Sustaining};
use crate::carry::{Acknowledging, CarrierStatus, Outcome, Session};
use anyhow::Result;
use protocols::Cx;
use protocols::application::Stream;
use protocols::meter::Counter;
use protocols::time::{Duration, Instant};
use records::verdict::Unfinished;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Initial silence after which a serial line is used; its prompt was printed long ago.
const LINE_GREETING: Duration = Duration::from_secs(1);

/// Parameters of the walk.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Number of echoes to measure.
    pub(crate) keys: usize,
    /// Credentials for a login prompt.
    pub(crate) login: Option<Login>,
    /// Endings of a shell's prompt.
    pub(crate) prompts: Prompts,
    /// User-defined command for the screenful, instead of the default one.
    pub(crate) command: Option<String>,
    /// Commands whose output is requested before the measurement.
    pub(crate) errands: Vec<String>,
    /// Time limit without any data.
    pub(crate) patience: Duration,
    /// Reads the CPU time of this process.
    pub(crate) cpu_time: fn() -> Duration,
    /// Reads the time that the threads of this process have waited for a CPU.
    pub(crate) run_queue_wait: fn() -> Option<Duration>,
}

/// User name and password.
#[derive(Clone)]
pub(crate) struct Login {
    /// User name.
    pub(crate) user: String,
    /// Password, if there is one.
    pub(crate) password: Option<String>,
}

/// Results of the walk.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Time at which the connection opened.
    pub(crate) opened_at: Option<Instant>,
    /// Time of the first data from the remote host.
    pub(crate) heard_at: Option<Instant>,
    /// Time at which the negotiation was complete.
    pub(crate) negotiated_at: Option<Instant>,
    /// First prompt, and the time of its last character.
    pub(crate) prompt: Option<(Prompt, Instant)>,
    /// Whether no data at all had arrived by then, so that the time is only this side's timeout.
    pub(crate) is_silent: bool,
    /// Commands with their output.
    pub(crate) errands: Vec<(String, Vec<u8>)>,
    /// Echoes.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// Echo times of the keys that erased those.
    pub(crate) erasures: Vec<Duration>,
    /// Empty intervals between two stamps.
    pub(crate) empty: Vec<Spent>,
    /// CPU time per key.
    pub(crate) cpu_per_key: Option<Duration>,
    /// Short outputs before the screenful.
    pub(crate) pieces: Vec<Watch>,
    /// Screenful, and whether a command produced it.
    pub(crate) screenful: Option<(Shown, bool)>,
    /// Echo times of keys typed at a steady pace.
    pub(crate) train: Vec<Duration>,
    /// A screenful with delayed acknowledgments, as in most programs.
    pub(crate) unhurried: Option<Shown>,
    /// Short answers with immediate and with delayed acknowledgments.
    pub(crate) answered: Answered,
    /// A long output, and the echo times of keys typed during it.
    pub(crate) loaded: Option<Loaded>,
    /// Longer outputs after it.
    pub(crate) sustained: Option<Sustained>,
    /// Whether the remote host refused the login.
    pub(crate) is_refused: bool,
    /// Whether the remote host ended the session or stopped answering before all was measured.
    pub(crate) is_cut_off: bool,
    /// Incomplete output.
    pub(crate) unfinished: Option<Unfinished>,
    /// Time from the last answer to a login prompt until the shell's prompt.
    pub(crate) login: Option<Duration>,
    /// Time that this process waited for a CPU from the connection to the first key.
    pub(crate) login_wait: Option<Duration>,
    /// Status of the carrier before and after the echoes.
    pub(crate) status_of_echoes: [Option<CarrierStatus>; 2],
    /// Status of the carrier before and after the screenful.
    pub(crate) status_of_screenful: [Option<CarrierStatus>; 2],
    /// Status of the carrier before the long output.
    pub(crate) status_before: Option<CarrierStatus>,
    /// Status of the carrier after the longest output.
    pub(crate) status_sustained: Option<CarrierStatus>,
    /// Latest status of the carrier, except for the one after the longest output.
    pub(crate) status: Option<CarrierStatus>,
    /// Incomplete parts of the measurement, each a sentence without a full stop.
    pub(crate) notes: Vec<String>,
}

enum Stage {
    Opening,
    FirstPrompt(Wait),
    LoggingIn { wait: Wait, has_said_password: bool, since: Instant },
    Errand { name: String, showing: Showing },
    Echo { echo: Box<Echo>, cpu_before: Duration },
    Train(Train),
    Pieces(Pieces),
    Screenful { showing: Showing, is_command: bool },
    Unhurried(Showing),
    Answers(Answers),
    Load(Box<Load>),
    Sustained(Box<Sustaining>),
    Over,
}

/// The session that measures.
pub(crate) struct Walk {
    console: Console,
    plan: Plan,
    /// Time limit for the first output.
    greeting: Duration,
    stage: Stage,
    is_in_shell: bool,
    /// Key that erases a character, if known.
    eraser: Option<u8>,
    is_owed_answers: bool,
    wants_status: bool,
    deadline: Option<Instant>,
    /// Wait times of this process when the connection was established.
    waited_before: Waits,
    interrupts: Option<UnixStream>,
    progress: ProgressLine,
    findings: Findings,
}

impl Walk {
    /// Creates a walk that ends early when `interrupts` is readable.
    pub(crate) fn new(plan: Plan, interrupts: Option<UnixStream>, progress: ProgressLine) -> Self {
        let mut console = Console::new();
        console.account_run_queue(plan.run_queue_wait);
        Self {
            console,
            greeting: plan.patience,
            plan,
            stage: Stage::Opening,
            is_in_shell: false,
            eraser: None,
            is_owed_answers: true,
            wants_status: false,
            deadline: None,
            waited_before: Waits::default(),
            interrupts,
            progress,
            findings: Findings::default(),
        }
    }

    /// Creates a walk over a serial line, which has no Telnet and sends nothing by itself.
    pub(crate) fn on_line(
        plan: Plan,
        interrupts: Option<UnixStream>,
        progress: ProgressLine,
    ) -> Self {
        let mut console = Console::on_line();
        console.account_run_queue(plan.run_queue_wait);
        let walk = Self::new(plan, interrupts, progress);
        Self { console, greeting: LINE_GREETING, ..walk }
    }

    /// Ends the walk after its connection ended with `outcome`, and returns the findings.
    pub(crate) fn into_findings(mut self, outcome: Outcome) -> Findings {
        if !matches!(self.stage, Stage::Opening | Stage::Over) {
            self.findings.is_cut_off = !matches!(outcome, Outcome::Closed | Outcome::Left);
            match outcome {
                Outcome::Reset | Outcome::Refused => {
                    self.note("the remote host reset the connection");
                }
                Outcome::TimedOut => self.note("the remote host no longer answers"),
                Outcome::Unreachable => self.note("there is no route to the remote host any more"),
                Outcome::Closed | Outcome::Left => {}
            }
        }
        self.keep_echoes();
        self.progress.clear();
        self.findings
    }

    /// Runs the current stage and the following ones as far as possible.
    fn look(&mut self, cx: &mut Cx<'_>) {
        self.deadline = loop {
            match self.look_once(cx) {
                Ok(()) => {}
                Err(until) => break until,
            }
        };
    }

    /// Runs one step of the current stage.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call if the stage has to wait.
    fn look_once(&mut self, cx: &mut Cx<'_>) -> Result<(), Option<Instant>> {
        match &mut self.stage {
            Stage::Opening | Stage::Over => return Err(None),
            Stage::FirstPrompt(wait) => {
                let (prompt, at) = wait.look(&self.console, &self.plan.prompts, cx.now)?;
                self.findings.prompt = Some((prompt, at));
                self.findings.is_silent = self.console.data_at().is_none();
                self.on_prompt(prompt, false, cx);
            }
            Stage::LoggingIn { wait, has_said_password, since } => {
                let (prompt, at) = wait.look(&self.console, &self.plan.prompts, cx.now)?;
                let has_said_password = *has_said_password;
                let took = at - *since;
                self.findings.login = (prompt == Prompt::Shell).then_some(took);
                self.on_prompt(prompt, has_said_password, cx);
            }
            Stage::Errand { name, showing } => {
                let shown = showing.look(&self.plan.prompts, &mut self.console, cx)?;
                let name = std::mem::take(name);
                self.findings.errands.push((name, shown.output));
                self.begin_errand(cx);
            }
            Stage::Echo { echo, .. } => match echo.look(&mut self.console, cx) {
                Progress::Until(until) => return Err(Some(until)),
                Progress::Done => {
                    let erasers = echo.erasers(TRAIN_KEYS);
                    self.on_echoed(erasers, cx);
                }
                Progress::Stopped(why) => self.stop_echoing(why, false),
                Progress::Silent => self.stop_echoing("the remote host stopped echoing", true),
            },
            Stage::Train(train) => {
                self.findings.train = train.look(&mut self.console, cx)?;
                self.begin_pieces(cx);
            }
            Stage::Pieces(pieces) => {
                let (shown, stuck) = pieces.look(&self.plan.prompts, &mut self.console, cx)?;
                self.findings.pieces = shown;
                self.on_pieces(stuck.as_ref(), cx);
            }
            Stage::Screenful { showing, is_command } => {
                let shown = showing.look(&self.plan.prompts, &mut self.console, cx)?;
                let is_command = *is_command;
                self.on_screenful(shown, is_command, cx);
            }
            Stage::Unhurried(showing) => {
                let shown = showing.look(&self.plan.prompts, &mut self.console, cx)?;
                self.on_unhurried(shown, cx);
            }
            Stage::Answers(answers) => {
                self.findings.answered = answers.look(&self.plan.prompts, &mut self.console, cx)?;
                self.begin_load(cx);
            }
            Stage::Load(load) => {
                let loaded = load.look(&self.plan.prompts, &mut self.console, cx)?;
                self.on_loaded(loaded, cx);
            }
            Stage::Sustained(sustaining) => {
                let sustained = sustaining.look(&self.plan.prompts, &mut self.console, cx)?;
                self.findings.sustained = sustained;
                self.end();
            }
        }
        Ok(())
    }

    fn on_prompt(&mut self, prompt: Prompt, has_said_password: bool, cx: &mut Cx<'_>) {
        let is_first = matches!(self.stage, Stage::FirstPrompt(_));
        let login = self.plan.login.clone();
        match (prompt, login) {
            (Prompt::Shell, _) => {
                self.is_in_shell = true;
                return self.begin_errand(cx);
            }
            (Prompt::Login, Some(login)) if is_first => {
                return self.answer(&login.user, false, cx);
            }
            (Prompt::Password, Some(Login { password: Some(password), .. }))
                if !has_said_password =>
            {
                return self.answer(&password, true, cx);
            }
            (Prompt::Password, Some(Login { password: None, .. })) => {
                self.note("the remote host asks for a password: use --password-file");
            }
            (Prompt::Login | Prompt::Password, Some(_)) => {
                self.findings.is_refused = true;
                self.note("the login was refused");
                // Keys typed at this prompt would be taken for a user name.
                return self.end();
            }
            (Prompt::Silence, Some(_)) => {
                self.note("no shell prompt was recognized: specify its ending with --prompt");
            }
            (_, None) => {}
        }
        self.begin_echo(cx);
    }

    fn answer(&mut self, text: &str, is_password: bool, cx: &mut Cx<'_>) {
        self.console.strike(format!("{text}\r").as_bytes(), cx);
        let wait = Wait::for_known(cx.now, self.plan.patience);
        self.stage = Stage::LoggingIn { wait, has_said_password: is_password, since: cx.now };
        self.progress.show("logging in");
    }

    fn begin_errand(&mut self, cx: &mut Cx<'_>) {
        let Some(name) = self.plan.errands.get(self.findings.errands.len()).cloned() else {
            return self.begin_echo(cx);
        };
        self.progress.show(&name);
        let screen = Screen::Command { text: name.clone(), cells: None };
        let showing = Showing::begin(screen, self.plan.patience, &mut self.console, cx);
        self.stage = Stage::Errand { name, showing };
    }

    fn begin_echo(&mut self, cx: &mut Cx<'_>) {
        let echo = Echo::new(self.plan.keys, self.plan.patience, cx.now);
        let cpu_before = (self.plan.cpu_time)();
        // The steps of a login also wait for answers of this program, so the whole wait counts.
        self.findings.login_wait = self.console.waits().run_queue_since(&self.waited_before);
        self.wants_status = true;
        self.stage = Stage::Echo { echo: Box::new(echo), cpu_before };
    }

    /// Continues from the echoes to keys at a steady pace, if `erasers` are available.
    fn on_echoed(&mut self, erasers: Option<Vec<u8>>, cx: &mut Cx<'_>) {
        self.eraser = erasers.as_ref().and_then(|keys| keys.first().copied());
        self.keep_echoes();
        match erasers {
            Some(erasers) => {
                self.wants_status = true;
                self.stage = Stage::Train(Train::begin(erasers, &mut self.console, cx));
            }
            None => self.begin_pieces(cx),
        }
    }

    /// Stores the echo measurements made so far.
    fn keep_echoes(&mut self) {
        let Stage::Echo { echo, cpu_before } = &mut self.stage else { return };
        let cpu = (self.plan.cpu_time)().saturating_sub(*cpu_before);
        let strikes = u32::try_from(echo.strikes).unwrap_or(u32::MAX);
        self.findings.cpu_per_key = cpu.checked_div(strikes);
        self.findings.keystrokes = std::mem::take(&mut echo.keystrokes);
        self.findings.erasures = std::mem::take(&mut echo.erasures);
        self.findings.empty = std::mem::take(&mut echo.empty);
    }

    /// Starts the short outputs, from which the default screenful is predicted.
    fn begin_pieces(&mut self, cx: &mut Cx<'_>) {
        if !self.is_in_shell || self.plan.command.is_some() {
            return self.begin_screenful(cx);
        }
        self.progress.show("short pieces of text");
        let pieces = Pieces::begin(self.plan.patience, &mut self.console, cx);
        self.stage = Stage::Pieces(pieces);
    }

    fn on_pieces(&mut self, stuck: Option<&Watch>, cx: &mut Cx<'_>) {
        match stuck {
            None => self.begin_screenful(cx),
            Some(watch) => self.on_stuck(watch),
        }
    }

    fn begin_screenful(&mut self, cx: &mut Cx<'_>) {
        if self.asks_for_user() {
            self.note("a screenful needs a login: use --login");
            return self.end();
        }
        self.wants_status = true;
        self.progress.show("screenful");
        let screen = match (self.is_in_shell, self.plan.command.clone()) {
            (true, None) => {
                Screen::Command { text: SCREENFUL_COMMAND.to_owned(), cells: Some(SCREENFUL_CELLS) }
            }
            (true, Some(text)) => Screen::Command { text, cells: None },
            (false, _) => Screen::Typed,
        };
        let is_command = screen != Screen::Typed;
        let showing = Showing::begin(screen, self.plan.patience, &mut self.console, cx);
        self.stage = Stage::Screenful { showing, is_command };
    }

    /// Returns whether the remote host waits for a user name or a password, so that many typed keys
    /// would be taken for one.
    fn asks_for_user(&self) -> bool {
        let prompt = self.findings.prompt.map(|(prompt, _)| prompt);
        !self.is_in_shell && matches!(prompt, Some(Prompt::Login | Prompt::Password))
    }

    fn on_screenful(&mut self, shown: Shown, is_command: bool, cx: &mut Cx<'_>) {
        let is_whole = shown.is_whole;
        if shown.is_stuck && is_command {
            self.on_stuck(&shown.watch);
        } else if !is_whole {
            let cells = shown.watch.cells;
            self.findings.notes.push(format!("only {cells} cells of the screenful were received"));
        }
        // An incomplete screenful is not reported.
        if is_whole && shown.watch.first.is_some() {
            self.findings.screenful = Some((shown, is_command));
        }
        // A user-defined command may have side effects, so it runs only once.
        if !is_whole || !is_command || self.plan.command.is_some() {
            return self.end();
        }
        // The echo of Return is sent separately from the screen only if the command starts with a
        // short delay.
        let text = format!("env true; {SCREENFUL_COMMAND}");
        let screen = Screen::Command { text, cells: Some(SCREENFUL_CELLS) };
        let showing = Showing::begin(screen, self.plan.patience, &mut self.console, cx);
        self.stage = Stage::Unhurried(showing);
        self.wants_status = true;
    }

    /// Ends the walk when no more keys can be measured: the characters left on the line would be
    /// sent to the shell with the next command.
    fn stop_echoing(&mut self, why: &str, is_silent: bool) {
        self.note(why);
        self.keep_echoes();
        let silent = Unfinished {
            is_echo: true,
            asked_bytes: 1,
            come_bytes: 0,
            whole_bytes: 1,
            waited_ns: nanos(self.plan.patience),
            is_acknowledged: None,
        };
        self.findings.unfinished = is_silent.then_some(silent);
        self.wants_status = true;
        self.stage = Stage::Over;
    }

    /// Ends the walk after incomplete output: further output would not arrive either.
    fn on_stuck(&mut self, watch: &Watch) {
        let Watch { cells, wanted_cells, .. } = watch;
        self.findings
            .notes
            .push(format!("only {cells} of {wanted_cells} characters of output were received"));
        let whole = self.findings.pieces.iter().map(|piece| piece.bytes).max();
        self.findings.unfinished = Some(Unfinished {
            is_echo: false,
            asked_bytes: *wanted_cells,
            come_bytes: watch.bytes,
            whole_bytes: whole.unwrap_or(0),
            waited_ns: nanos(self.plan.patience),
            is_acknowledged: None,
        });
        self.end();
    }

    fn on_unhurried(&mut self, shown: Shown, cx: &mut Cx<'_>) {
        if shown.is_stuck {
            return self.on_stuck(&shown.watch);
        }
        if !shown.is_whole {
            return self.end();
        }
        self.findings.unhurried = Some(shown);
        self.stage = Stage::Answers(Answers::begin(self.plan.patience, &mut self.console, cx));
    }

    fn begin_load(&mut self, cx: &mut Cx<'_>) {
        // The faster of the two screens was not delayed and gives the better estimate.
        let first = self.findings.screenful.as_ref().map(|(shown, _)| shown);
        let last_at = |shown: &Shown| shown.watch.arrivals.last().map(|last| last.at_ns);
        let both = first.into_iter().chain(&self.findings.unhurried);
        let took = both.filter_map(last_at).min().map(Duration::from_nanos);
        let (patience, console) = (self.plan.patience, &mut self.console);
        match took.and_then(|took| Load::begin(took, patience, console, cx)) {
            Some(load) => {
                self.wants_status = true;
                self.progress.show("echo during other output");
                self.stage = Stage::Load(Box::new(load));
            }
            None => self.end(),
        }
    }

    fn on_loaded(&mut self, loaded: Loaded, cx: &mut Cx<'_>) {
        let patience = self.plan.patience;
        let sustained =
            self.eraser.and_then(|eraser| Sustaining::after(&loaded, eraser, patience, cx));
        let is_whole = loaded.shown.is_whole;
        self.findings.loaded = Some(loaded).filter(|_| is_whole);
        match sustained.filter(|_| is_whole) {
            Some(sustained) => {
                self.wants_status = true;
                self.stage = Stage::Sustained(Box::new(sustained));
            }
            None => self.end(),
        }
    }

    fn end(&mut self) {
        self.wants_status = true;
        self.stage = Stage::Over;
    }

    fn note(&mut self, what: &str) {
        self.findings.notes.push(what.to_owned());
    }

    /// Records the time of the initial negotiation: everything before the first data, and the
    /// answers that are outstanding then. Some hosts leave a few requests unanswered.
    fn on_negotiation(&mut self, now: Instant) {
        let has_prompt = self.findings.prompt.is_some();
        let is_owed = self.console.data_at().is_none() || self.is_owed_answers;
        if is_owed && !has_prompt {
            self.findings.negotiated_at = Some(now);
        }
        self.is_owed_answers = !self.console.negotiation_is_quiet();
    }

    fn is_timing(&self) -> bool {
        match &self.stage {
            Stage::Echo { echo, .. } => echo.is_timing(),
            Stage::Train(_)
            | Stage::Pieces(_)
            | Stage::Screenful { .. }
            | Stage::Unhurried(_)
            | Stage::Answers(_)
            | Stage::Load(_)
            | Stage::Sustained(_) => true,
            _ => false,
        }
    }
}

impl Stream for Walk {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.findings.opened_at = Some(cx.now);
        self.waited_before = self.console.waits();
        self.console.start(cx);
        let patience = self.greeting.min(self.plan.patience);
        self.stage = Stage::FirstPrompt(Wait::new(cx.now, patience));
        self.progress.show("waiting for a prompt");
        self.look(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.findings.heard_at.get_or_insert(cx.now);
        let heard = cx.meter.counted(Counter::TelnetNegotiationsIn);
        self.console.receive(data, cx);
        if cx.meter.counted(Counter::TelnetNegotiationsIn) > heard {
            self.on_negotiation(cx.now);
        }
        self.look(cx);
    }

    fn urgent(&mut self, is_ahead: bool) {
        self.console.urgent(is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.console.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.console.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.console.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        if !matches!(self.stage, Stage::Over) {
            self.findings.is_cut_off = true;
            self.note("the remote host closed the connection");
        }
        self.keep_echoes();
        self.stage = Stage::Over;
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.look(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Session for Walk {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.interrupts.iter().map(AsFd::as_fd).collect()
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.note("interrupted");
        self.keep_echoes();
        self.wants_status = false;
        self.stage = Stage::Over;
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        if !self.is_timing() {
            if let Stage::Echo { echo, .. } = &self.stage {
                let done = echo.keystrokes.len();
                self.progress.show_count("echo", done, self.plan.keys);
            }
            self.progress.paint();
        }
        Ok(())
    }

    fn wants_receive_delays(&self) -> bool {
        true
    }

    fn take_receive_delay(&mut self, delay: Duration) {
        self.console.take_receive_delay(delay);
    }

    fn has_gone_out(&mut self, cx: &mut Cx<'_>) {
        if let Stage::Echo { echo, .. } = &mut self.stage {
            echo.has_gone_out(&self.console, cx);
        }
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        let load = match &mut self.stage {
            Stage::Load(load) => Some(&mut **load),
            Stage::Sustained(sustained) => sustained.load_mut(),
            _ => None,
        };
        load.into_iter().for_each(|load| load.take_status(status));
        if !std::mem::take(&mut self.wants_status) {
            return;
        }
        let [before_echoes, after_echoes] = &mut self.findings.status_of_echoes;
        let [before, after] = &mut self.findings.status_of_screenful;
        match self.stage {
            Stage::Echo { .. } => *before_echoes = Some(status.clone()),
            Stage::Train(_) | Stage::Pieces(_) => *after_echoes = Some(status.clone()),
            Stage::Screenful { .. } => *before = Some(status.clone()),
            Stage::Unhurried(_) => *after = Some(status.clone()),
            Stage::Load(_) => self.findings.status_before = Some(status.clone()),
            // The verdict is about output that ended before this status.
            Stage::Over if self.findings.sustained.is_some() => {
                self.findings.status_sustained = Some(status.clone());
                return;
            }
            _ => {}
        }
        self.findings.status = Some(status.clone());
    }

    fn acknowledging(&self) -> Acknowledging {
        match &self.stage {
            Stage::Unhurried(_) => Acknowledging::Late,
            Stage::Answers(answers) if answers.is_late() => Acknowledging::Late,
            Stage::Answers(_) => Acknowledging::AtOnce,
            _ => Acknowledging::Awaited,
        }
    }

    fn wants_status(&self) -> bool {
        let is_echoed = match &self.stage {
            Stage::Load(load) => load.wants_status(),
            Stage::Sustained(sustained) => sustained.load().is_some_and(Load::wants_status),
            _ => false,
        };
        self.wants_status || is_echoed
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && !self.wants_status
    }
}
