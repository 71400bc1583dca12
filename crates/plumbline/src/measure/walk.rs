//! The walk through a login: the session without a keyboard that measures.
//!
//! ```text
//! connect ─► prompt ─► name, password ─► errands ─► echo ─► pieces ─► screenful
//!                      (--login alone)   (a shell)          (a shell)
//!         ─► again ─► short answers ─► load ─► sustained load ─► over
//!            (a shell, all four)
//! ```
//!
//! Each part is a small machine that looks at the console whenever something has come or its time
//! has run out, and says until when there is nothing to see. What a part could not do is noted,
//! and the walk goes on with the next; so a report holds all that could be measured. Return is
//! never pressed but where a shell waits for a command, or a name and a password were given.

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

/// How long a line may be quiet at first: whoever is there has said his prompt long ago.
const LINE_GREETING: Duration = Duration::from_secs(1);

/// What the walk is to do.
#[derive(Clone)]
pub(crate) struct Plan {
    /// How many echoes are wanted.
    pub(crate) keys: usize,
    /// Whom to log in as, where a name is asked for.
    pub(crate) login: Option<Login>,
    /// How a shell's prompt ends.
    pub(crate) prompts: Prompts,
    /// The command for the screenful, if not ours.
    pub(crate) command: Option<String>,
    /// Commands whose output is wanted, before anything is measured.
    pub(crate) errands: Vec<String>,
    /// How long nothing at all may come.
    pub(crate) patience: Duration,
    /// Reads the CPU time of this process.
    pub(crate) cpu_time: fn() -> Duration,
    /// Reads for how long the threads of this process have waited for a processor.
    pub(crate) run_queue_wait: fn() -> Option<Duration>,
}

/// A user's name and password.
#[derive(Clone)]
pub(crate) struct Login {
    /// The name.
    pub(crate) user: String,
    /// The password, if there is one.
    pub(crate) password: Option<String>,
}

/// What the walk has found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// When the connection stood.
    pub(crate) opened_at: Option<Instant>,
    /// When the far side said anything at first.
    pub(crate) heard_at: Option<Instant>,
    /// When negotiation had become quiet.
    pub(crate) negotiated_at: Option<Instant>,
    /// The first prompt, and when its last character came.
    pub(crate) prompt: Option<(Prompt, Instant)>,
    /// Whether nothing at all had been said by then: it is only this side that waited.
    pub(crate) is_silent: bool,
    /// Commands and their output.
    pub(crate) errands: Vec<(String, Vec<u8>)>,
    /// The echoes.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// The echoes of the keys that took those back.
    pub(crate) erasures: Vec<Duration>,
    /// Empty intervals between two stamps.
    pub(crate) empty: Vec<Spent>,
    /// CPU time for one key.
    pub(crate) cpu_per_key: Option<Duration>,
    /// Short pieces of text, before the screenful.
    pub(crate) pieces: Vec<Watch>,
    /// The screenful, and whether a command showed it.
    pub(crate) screenful: Option<(Shown, bool)>,
    /// Echoes of keys struck at a steady pace.
    pub(crate) train: Vec<Duration>,
    /// A screenful that was acknowledged as most programs do: late.
    pub(crate) unhurried: Option<Shown>,
    /// Short answers, acknowledged at once and late.
    pub(crate) answered: Answered,
    /// A long output, and the echoes of keys struck beside it.
    pub(crate) loaded: Option<Loaded>,
    /// Longer ones after it.
    pub(crate) sustained: Option<Sustained>,
    /// Whether the far side refused the login.
    pub(crate) is_refused: bool,
    /// Whether the far side ended the session, or fell silent in it, before all was measured.
    pub(crate) is_cut_off: bool,
    /// Output that did not come whole.
    pub(crate) unfinished: Option<Unfinished>,
    /// From the last answer that a login asked for to the shell's prompt.
    pub(crate) login: Option<Duration>,
    /// For how long this program waited for a processor from the connection to the first key.
    pub(crate) login_wait: Option<Duration>,
    /// What the carrier knew before the echoes, and after them.
    pub(crate) status_of_echoes: [Option<CarrierStatus>; 2],
    /// What the carrier knew before the screenful, and after it.
    pub(crate) status_of_screenful: [Option<CarrierStatus>; 2],
    /// What the carrier knew before the long output.
    pub(crate) status_before: Option<CarrierStatus>,
    /// What the carrier knew when the longest output had come.
    pub(crate) status_sustained: Option<CarrierStatus>,
    /// What the carrier knew before that.
    pub(crate) status: Option<CarrierStatus>,
    /// What could not be done, each a sentence without its end.
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
    /// How long the first words may be waited for.
    greeting: Duration,
    stage: Stage,
    is_in_shell: bool,
    /// The key that takes one back, if it is known.
    eraser: Option<u8>,
    is_owed_answers: bool,
    wants_status: bool,
    deadline: Option<Instant>,
    /// For how long this program had waited for a processor when the connection was established.
    waited_before: Waits,
    interrupts: Option<UnixStream>,
    progress: ProgressLine,
    findings: Findings,
}

impl Walk {
    /// Makes a walk that ends early when something can be read from `interrupts`.
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

    /// Makes the same over a serial line, which has no Telnet, and says nothing by itself.
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

    /// Ends the walk, whose connection has ended by `outcome`, and returns what it has found.
    pub(crate) fn into_findings(mut self, outcome: Outcome) -> Findings {
        if !matches!(self.stage, Stage::Opening | Stage::Over) {
            self.findings.is_cut_off = !matches!(outcome, Outcome::Closed | Outcome::Left);
            match outcome {
                Outcome::Reset | Outcome::Refused => self.note("the far side reset the connection"),
                Outcome::TimedOut => self.note("the far side has fallen silent"),
                Outcome::Unreachable => self.note("there is no way to the far side any more"),
                Outcome::Closed | Outcome::Left => {}
            }
        }
        self.keep_echoes();
        self.progress.clear();
        self.findings
    }

    /// Lets the stage look at what has happened, and goes on to the next as long as one is done.
    fn look(&mut self, cx: &mut Cx<'_>) {
        self.deadline = loop {
            match self.look_once(cx) {
                Ok(()) => {}
                Err(until) => break until,
            }
        };
    }

    /// Does one step of the stage.
    ///
    /// # Errors
    ///
    /// When there is nothing more to see: when to look again.
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
                Progress::Silent => self.stop_echoing("the far side stopped echoing", true),
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
                self.note("a password is asked for: give it by --password-file");
            }
            (Prompt::Login | Prompt::Password, Some(_)) => {
                self.findings.is_refused = true;
                self.note("the login was refused");
                // Keys at this prompt would be a name.
                return self.end();
            }
            (Prompt::Silence, Some(_)) => {
                self.note("no shell prompt was recognized: say how it ends by --prompt");
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
        self.findings.login_wait = self.console.waits().since(&self.waited_before);
        self.wants_status = true;
        self.stage = Stage::Echo { echo: Box::new(echo), cpu_before };
    }

    /// Goes on from the echoes to keys at a pace, if `erasers` take those back.
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

    /// Keeps what has been measured of the echo so far.
    fn keep_echoes(&mut self) {
        let Stage::Echo { echo, cpu_before } = &mut self.stage else { return };
        let cpu = (self.plan.cpu_time)().saturating_sub(*cpu_before);
        let strikes = u32::try_from(echo.strikes).unwrap_or(u32::MAX);
        self.findings.cpu_per_key = cpu.checked_div(strikes);
        self.findings.keystrokes = std::mem::take(&mut echo.keystrokes);
        self.findings.erasures = std::mem::take(&mut echo.erasures);
        self.findings.empty = std::mem::take(&mut echo.empty);
    }

    /// Begins what foretells the screenful, where it will be ours.
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
            self.note("at a login prompt no screenful is typed: give --login");
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

    /// Returns whether the far side waits for a name or a password, which many keys typed there would be
    /// taken for.
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
            self.findings.notes.push(format!("only {cells} cells of the screenful came"));
        }
        // What was cut off enters no table.
        if is_whole && shown.watch.first.is_some() {
            self.findings.screenful = Some((shown, is_command));
        }
        // A command of somebody else's may do more than show something: it runs once.
        if !is_whole || !is_command || self.plan.command.is_some() {
            return self.end();
        }
        // The echo of Return leaves before the screen only if the shell takes a moment for that.
        let text = format!("env true; {SCREENFUL_COMMAND}");
        let screen = Screen::Command { text, cells: Some(SCREENFUL_CELLS) };
        let showing = Showing::begin(screen, self.plan.patience, &mut self.console, cx);
        self.stage = Stage::Unhurried(showing);
        self.wants_status = true;
    }

    /// Ends where no key can be measured any more: what is left on the line would go to the shell with the
    /// next command.
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

    /// Ends where output did not come whole: what is asked for next would not come either.
    fn on_stuck(&mut self, watch: &Watch) {
        let Watch { cells, wanted_cells, .. } = watch;
        self.findings
            .notes
            .push(format!("only {cells} of {wanted_cells} characters of output came"));
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
        // Of the two screens, the one that nothing held up says more.
        let first = self.findings.screenful.as_ref().map(|(shown, _)| shown);
        let last_at = |shown: &Shown| shown.watch.arrivals.last().map(|last| last.at_ns);
        let both = first.into_iter().chain(&self.findings.unhurried);
        let took = both.filter_map(last_at).min().map(Duration::from_nanos);
        let (patience, console) = (self.plan.patience, &mut self.console);
        match took.and_then(|took| Load::begin(took, patience, console, cx)) {
            Some(load) => {
                self.wants_status = true;
                self.progress.show("echo beside other data");
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

    /// Takes note of a negotiation that belongs to the first ones: what comes before the first
    /// data, and the answers that are owed to us then. Some hosts leave a few unanswered.
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
            self.note("the far side closed the connection");
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
            // What the verdict is of has ended before it.
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
