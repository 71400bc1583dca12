//! A measured login: the session without a keyboard that performs the measurement.
//!
//! ```text
//! connect ─► prompt ─► name, password ─► commands ─► echo ─► short outputs ─► screenful
//!                      (only --user)     (a shell)           (a shell)
//!         ─► screenful with delayed acknowledgments ─► command responses
//!         ─► keys during an output ─► keys during longer outputs ─► over
//!            (a shell, all four)
//! ```
//!
//! Each stage is a small state machine. It processes the console whenever data has arrived or its
//! deadline has passed, and returns its next deadline. If a stage fails, a note is recorded and the
//! next stage runs, so that the report contains everything that could be measured. Return is
//! pressed only at a shell prompt, or if a user name and a password were specified.

use super::command_response::CommandResponses;
use super::concurrent_echo::{EchoUnderLoad, KeysUnderLoad, PACED_KEYS, PacedKeys};
use super::console::{MeasureConsole, WaitTimes, Watch};
use super::echo::{Echo, Progress};
use super::long_output::LongOutputs;
use super::nanoseconds::nanos;
use super::progress::ProgressLine;
use super::prompt::{Prompt, Wait};
use super::refused_login::refusal;
use super::screen_output::{
    OutputRequest, OutputSource, ReceivedOutput, SCREENFUL_CELLS, SCREENFUL_COMMAND,
};
use super::session_parameters::{Login, SessionParameters};
use super::session_results::SessionResults;
use super::short_output::ShortOutputs;
use anyhow::Result;
use carrier::{AckPolicy, CarrierStatus, Outcome, StreamSession};
use net::Cx;
use net::application::Stream;
use net::meter::Counter;
use net::time::{Duration, Instant};
use records::format::duration;
use records::verdict::Unfinished;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Initial silence on a serial line after which keys are typed: the prompt may have been printed
/// before the session started.
const SERIAL_LINE_SILENCE: Duration = Duration::from_secs(1);

enum Stage {
    Opening,
    FirstPrompt(Wait),
    LoggingIn { wait: Wait, has_sent_password: bool, since: Instant },
    InitialCommand { name: String, request: OutputRequest },
    Echo { echo: Box<Echo>, cpu_before: Duration },
    PacedKeys(PacedKeys),
    ShortOutputs(ShortOutputs),
    Screenful { request: OutputRequest, is_command: bool },
    DelayedAckScreenful(OutputRequest),
    CommandResponses(CommandResponses),
    KeysUnderLoad(Box<KeysUnderLoad>),
    LongOutputs(Box<LongOutputs>),
    Over,
}

/// The session that performs the measurement.
pub struct MeasureSession {
    console: MeasureConsole,
    plan: SessionParameters,
    /// Timeout for the first output.
    greeting_timeout: Duration,
    stage: Stage,
    is_in_shell: bool,
    /// Key that erases a character, if known.
    eraser: Option<u8>,
    has_outstanding_answers: bool,
    /// Whether the carrier is a serial line or a pseudo-terminal, without Telnet.
    is_on_line: bool,
    /// Whether the carrier is a program on a pseudo-terminal.
    is_program: bool,
    /// Whether the session ends after the echoes of single keys.
    ends_after_echo: bool,
    wants_status: bool,
    deadline: Option<Instant>,
    /// Wait times of this process when the connection was established.
    waits_at_opening: WaitTimes,
    interrupts: Option<UnixStream>,
    progress: ProgressLine,
    findings: SessionResults,
}

impl MeasureSession {
    /// Creates a session that ends early when `interrupts` is readable.
    pub fn new(
        plan: SessionParameters,
        interrupts: Option<UnixStream>,
        progress: ProgressLine,
    ) -> Self {
        let mut console = MeasureConsole::new();
        console.set_run_queue_reader(plan.run_queue_wait);
        Self {
            console,
            greeting_timeout: plan.timeout,
            plan,
            stage: Stage::Opening,
            is_in_shell: false,
            eraser: None,
            has_outstanding_answers: true,
            is_on_line: false,
            is_program: false,
            ends_after_echo: false,
            wants_status: false,
            deadline: None,
            waits_at_opening: WaitTimes::default(),
            interrupts,
            progress,
            findings: SessionResults::default(),
        }
    }

    /// Creates a session over a serial line, which does not use Telnet and may send nothing before
    /// a key is typed.
    pub(crate) fn on_line(
        plan: SessionParameters,
        interrupts: Option<UnixStream>,
        progress: ProgressLine,
    ) -> Self {
        let mut console = MeasureConsole::on_line();
        console.set_run_queue_reader(plan.run_queue_wait);
        let session = Self::new(plan, interrupts, progress);
        Self { console, greeting_timeout: SERIAL_LINE_SILENCE, is_on_line: true, ..session }
    }

    /// Creates a session over a program on a pseudo-terminal. The program may connect for some time
    /// before it prints anything.
    pub(crate) fn on_program(
        plan: SessionParameters,
        interrupts: Option<UnixStream>,
        progress: ProgressLine,
    ) -> Self {
        let greeting_timeout = plan.timeout;
        Self { greeting_timeout, is_program: true, ..Self::on_line(plan, interrupts, progress) }
    }

    /// Makes the session end after the echoes of single keys.
    pub(crate) fn until_echo(self) -> Self {
        Self { ends_after_echo: true, ..self }
    }

    /// Returns the last line of text on the screen.
    pub(crate) fn last_line(&self) -> Option<String> {
        self.console.last_line()
    }

    /// Returns the number of single keys whose echo has arrived.
    #[cfg(test)]
    pub(crate) fn echoed_keys(&self) -> usize {
        match &self.stage {
            Stage::Echo { echo, .. } => echo.keystrokes.len(),
            _ => self.findings.keystrokes.len(),
        }
    }

    /// Ends the session after its connection ended with `outcome`, and returns the findings.
    pub fn into_findings(mut self, outcome: Outcome) -> SessionResults {
        if !matches!(self.stage, Stage::Opening | Stage::Over) {
            self.findings.is_cut_off = !matches!(outcome, Outcome::Closed | Outcome::LocalClosed);
            match outcome {
                Outcome::Reset | Outcome::Refused => {
                    self.note("the remote host reset the connection");
                }
                Outcome::TimedOut => self.note("the remote host no longer answers"),
                Outcome::Unreachable => self.note("there is no route to the remote host any more"),
                Outcome::Closed | Outcome::LocalClosed => {}
            }
        }
        self.store_echoes();
        self.progress.clear();
        self.findings
    }

    /// Runs the current stage and the following stages as far as possible.
    fn poll(&mut self, cx: &mut Cx<'_>) {
        self.deadline = loop {
            match self.step(cx) {
                Ok(()) => {}
                Err(until) => break until,
            }
        };
        let display_at = self.show_wait(cx.now);
        self.deadline = self.deadline.into_iter().chain(display_at).min();
    }

    /// Displays the wait for a prompt, and returns the time at which the display changes.
    fn show_wait(&mut self, now: Instant) -> Option<Instant> {
        let (wait, what) = match &self.stage {
            Stage::FirstPrompt(wait) => (wait, "waiting for a prompt"),
            Stage::LoggingIn { wait, .. } => (wait, "logging in"),
            _ => return None,
        };
        let (started_at, timeout) = wait.limits();
        let step = self.progress.show_wait(what, now - started_at, timeout)?;
        Some(now + step)
    }

    /// Runs one step of the current stage.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call if the stage has to wait.
    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Option<Instant>> {
        match &mut self.stage {
            Stage::Opening | Stage::Over => return Err(None),
            Stage::FirstPrompt(wait) => {
                let (prompt, at) = wait.poll(&self.console, &self.plan.prompts, cx.now)?;
                if prompt == Prompt::Silence && self.is_before_prompt() {
                    self.end_without_prompt();
                    return Ok(());
                }
                self.findings.prompt = Some((prompt, at));
                self.findings.is_silent = self.console.data_at().is_none();
                self.on_prompt(prompt, false, cx);
            }
            Stage::LoggingIn { wait, has_sent_password, since } => {
                let (prompt, at) = wait.poll(&self.console, &self.plan.prompts, cx.now)?;
                let has_sent_password = *has_sent_password;
                self.findings.store_login_step(prompt, has_sent_password, at - *since);
                self.on_prompt(prompt, has_sent_password, cx);
            }
            Stage::InitialCommand { name, request } => {
                let received = request.poll(&self.plan.prompts, &mut self.console, cx)?;
                let name = std::mem::take(name);
                self.findings.initial_commands.push((name, received.output));
                self.begin_initial_command(cx);
            }
            Stage::Echo { echo, .. } => match echo.poll(&mut self.console, cx) {
                Progress::Until(until) => return Err(Some(until)),
                Progress::Done => {
                    let erasers = echo.erasers(PACED_KEYS);
                    self.on_echoed(erasers, cx);
                }
                Progress::Stopped(reason) => self.stop_echoing(reason, false),
                Progress::Silent => self.stop_echoing("the remote host stopped echoing", true),
            },
            Stage::PacedKeys(paced_keys) => {
                self.findings.paced_echoes = paced_keys.poll(&mut self.console, cx)?;
                self.begin_short_outputs(cx);
            }
            Stage::ShortOutputs(outputs) => {
                let (received, stalled) =
                    outputs.poll(&self.plan.prompts, &mut self.console, cx)?;
                self.findings.short_outputs = received;
                self.on_short_outputs(stalled.as_ref(), cx);
            }
            Stage::Screenful { request, is_command } => {
                let received = request.poll(&self.plan.prompts, &mut self.console, cx)?;
                let is_command = *is_command;
                self.on_screenful(received, is_command, cx);
            }
            Stage::DelayedAckScreenful(request) => {
                let received = request.poll(&self.plan.prompts, &mut self.console, cx)?;
                self.on_delayed_ack_screenful(received, cx);
            }
            Stage::CommandResponses(responses) => {
                let times = responses.poll(&self.plan.prompts, &mut self.console, cx)?;
                self.findings.response_times = times;
                self.begin_load(cx);
            }
            Stage::KeysUnderLoad(load) => {
                let under_load = load.poll(&self.plan.prompts, &mut self.console, cx)?;
                self.on_echo_under_load(under_load, cx);
            }
            Stage::LongOutputs(outputs) => {
                let sustained = outputs.poll(&self.plan.prompts, &mut self.console, cx)?;
                self.findings.sustained = sustained;
                self.end();
            }
        }
        Ok(())
    }

    fn on_prompt(&mut self, prompt: Prompt, has_sent_password: bool, cx: &mut Cx<'_>) {
        let is_first = matches!(self.stage, Stage::FirstPrompt(_));
        let login = self.plan.login.clone();
        match (prompt, login) {
            (Prompt::Shell, _) => {
                self.is_in_shell = true;
                return self.begin_initial_command(cx);
            }
            (Prompt::Login, Some(login)) if is_first => {
                return self.answer(&login.user, false, cx);
            }
            (Prompt::Password, Some(Login { password: Some(password), .. }))
                if !has_sent_password =>
            {
                return self.answer(&password, true, cx);
            }
            (Prompt::Password, Some(Login { password: None, .. })) => {
                // Keys typed at this prompt would be taken for a password.
                return self
                    .end_at_question("the remote host asks for a password: use --password-file");
            }
            (Prompt::Login | Prompt::Password, Some(_)) => {
                self.findings.is_refused = true;
                let answer = self.console.end_capture();
                self.findings.notes.push(refusal(&answer, self.plan.login.as_ref()));
                // Keys typed at this prompt would be taken for a user name.
                return self.end();
            }
            (Prompt::Confirmation, _) => {
                return self.end_at_question(
                    "a question must be answered before the login: answer it once in a terminal, \
                     or for a host key use ssh -o StrictHostKeyChecking=accept-new",
                );
            }
            (Prompt::Password, None) if self.is_program => {
                return self.end_at_question(
                    "the program asks for a password: use --user with --password-file",
                );
            }
            (Prompt::Silence, Some(_)) => {
                self.note("no shell prompt was recognized: specify its ending with --prompt");
            }
            (_, None) => {}
        }
        self.begin_echo(cx);
    }

    /// Returns whether a remote host that speaks Telnet has printed at most a greeting. Keys typed
    /// now would be discarded or become a part of the user name.
    fn is_before_prompt(&self) -> bool {
        let has_answered =
            self.console.data_at().is_some() || self.findings.negotiated_at.is_some();
        !self.is_on_line && has_answered && self.console.line().trim().is_empty()
    }

    fn end_without_prompt(&mut self) {
        self.findings.is_cut_off = true;
        let timeout = duration(nanos(self.plan.timeout));
        self.note(&format!("no login prompt within {timeout}; use a longer --timeout"));
        self.end();
    }

    /// Returns the note on an interrupt: before a prompt, the wait for it.
    fn interruption(&self, now: Instant) -> String {
        let (wait, prompt) = match &self.stage {
            Stage::FirstPrompt(wait) => (wait, "login prompt"),
            Stage::LoggingIn { wait, .. } => (wait, "shell prompt"),
            _ => return "interrupted".to_owned(),
        };
        let (started_at, _) = wait.limits();
        format!("no {prompt} after {}", duration(nanos(now - started_at)))
    }

    /// Ends the session at a question that it must not answer.
    fn end_at_question(&mut self, sentence: &str) {
        self.findings.is_cut_off = true;
        self.note(sentence);
        self.end();
    }

    fn answer(&mut self, text: &str, is_password: bool, cx: &mut Cx<'_>) {
        self.console.capture();
        self.console.type_keys(format!("{text}\r").as_bytes(), cx);
        let wait = Wait::for_known(cx.now, self.plan.timeout);
        self.stage = Stage::LoggingIn { wait, has_sent_password: is_password, since: cx.now };
    }

    fn begin_initial_command(&mut self, cx: &mut Cx<'_>) {
        let Some(name) =
            self.plan.initial_commands.get(self.findings.initial_commands.len()).cloned()
        else {
            return self.begin_echo(cx);
        };
        self.progress.show(&name);
        let source = OutputSource::Command { text: name.clone(), cells: None };
        let request = OutputRequest::begin(source, self.plan.timeout, &mut self.console, cx);
        self.stage = Stage::InitialCommand { name, request };
    }

    fn begin_echo(&mut self, cx: &mut Cx<'_>) {
        let echo = Echo::new(&self.plan, cx.now);
        let cpu_before = (self.plan.cpu_time)();
        // During a login the remote host also waits for this process, so every wait for a CPU
        // counts, even without unread data.
        self.findings.login_wait = self.console.waits().run_queue_since(&self.waits_at_opening);
        self.wants_status = true;
        self.stage = Stage::Echo { echo: Box::new(echo), cpu_before };
    }

    /// Continues from the echoes to keys at a steady pace, if `erasers` are available.
    fn on_echoed(&mut self, erasers: Option<Vec<u8>>, cx: &mut Cx<'_>) {
        self.eraser = erasers.as_ref().and_then(|keys| keys.first().copied());
        self.store_echoes();
        if self.ends_after_echo {
            return self.end();
        }
        match erasers {
            Some(erasers) => {
                self.wants_status = true;
                self.progress.announce("echo of steady typing");
                self.stage = Stage::PacedKeys(PacedKeys::begin(erasers, &mut self.console, cx));
            }
            None => self.begin_short_outputs(cx),
        }
    }

    /// Stores the echo measurements made so far.
    fn store_echoes(&mut self) {
        let Stage::Echo { echo, cpu_before } = &mut self.stage else { return };
        let cpu = (self.plan.cpu_time)().saturating_sub(*cpu_before);
        let typed_keys = u32::try_from(echo.typed_keys).unwrap_or(u32::MAX);
        self.findings.cpu_per_key = cpu.checked_div(typed_keys);
        self.findings.reduced_from = echo.is_reduced.then_some(self.plan.keys);
        self.findings.keystrokes = std::mem::take(&mut echo.keystrokes);
        self.findings.erasures = std::mem::take(&mut echo.erasures);
        self.findings.stamp_overheads = std::mem::take(&mut echo.stamp_overheads);
    }

    /// Starts the short outputs, from which the default screenful is predicted.
    fn begin_short_outputs(&mut self, cx: &mut Cx<'_>) {
        // Without a round-trip time, nothing can be predicted from short outputs.
        if !self.is_in_shell || self.plan.command.is_some() || self.is_program {
            return self.begin_screenful(cx);
        }
        self.progress.announce("short outputs");
        let short_outputs = ShortOutputs::begin(self.plan.timeout, &mut self.console, cx);
        self.stage = Stage::ShortOutputs(short_outputs);
    }

    fn on_short_outputs(&mut self, stalled: Option<&Watch>, cx: &mut Cx<'_>) {
        match stalled {
            None => self.begin_screenful(cx),
            Some(watch) => self.on_stalled(watch),
        }
    }

    fn begin_screenful(&mut self, cx: &mut Cx<'_>) {
        if self.asks_for_user() {
            self.note("a screenful needs a login: use --user");
            return self.end();
        }
        self.wants_status = true;
        self.progress.announce("screenful");
        let source = match (self.is_in_shell, self.plan.command.clone()) {
            // A program such as mosh draws only the cells that change.
            (true, None) => OutputSource::Command {
                text: SCREENFUL_COMMAND.to_owned(),
                cells: (!self.is_program).then_some(SCREENFUL_CELLS),
            },
            (true, Some(text)) => OutputSource::Command { text, cells: None },
            (false, _) => OutputSource::Typed,
        };
        let is_command = source != OutputSource::Typed;
        let request = OutputRequest::begin(source, self.plan.timeout, &mut self.console, cx);
        self.stage = Stage::Screenful { request, is_command };
    }

    /// Returns whether the remote host prompts for a user name or a password, and would take typed
    /// keys as the answer.
    fn asks_for_user(&self) -> bool {
        let prompt = self.findings.prompt.map(|(prompt, _)| prompt);
        !self.is_in_shell && matches!(prompt, Some(Prompt::Login | Prompt::Password))
    }

    fn on_screenful(&mut self, received: ReceivedOutput, is_command: bool, cx: &mut Cx<'_>) {
        let is_complete = received.is_complete;
        if received.is_stalled && is_command {
            self.on_stalled(&received.watch);
        } else if !is_complete {
            let cells = received.watch.cells;
            self.findings.notes.push(format!("only {cells} cells of the screenful were received"));
        }
        // An incomplete screenful is not reported.
        if is_complete && received.watch.first_cell_at.is_some() {
            self.findings.screenful = Some((received, is_command));
        }
        // A user-defined command may have side effects, so it runs only once.
        if !is_complete || !is_command || self.plan.command.is_some() {
            return self.end();
        }
        if self.is_program {
            // The acknowledgments of the program cannot be delayed.
            return self.begin_load(cx);
        }
        // With a short delay before the output, the echo of Return is sent separately.
        let text = format!("env true; {SCREENFUL_COMMAND}");
        let source = OutputSource::Command { text, cells: Some(SCREENFUL_CELLS) };
        let request = OutputRequest::begin(source, self.plan.timeout, &mut self.console, cx);
        self.stage = Stage::DelayedAckScreenful(request);
        self.wants_status = true;
    }

    /// Ends the session because no more keys can be measured. The characters on the command line
    /// could not be erased, so a further command would be preceded by them.
    fn stop_echoing(&mut self, reason: &str, is_silent: bool) {
        self.note(reason);
        self.store_echoes();
        let silent = Unfinished {
            is_echo: true,
            expected_bytes: 1,
            received_bytes: 0,
            largest_complete_bytes: 1,
            waited_ns: nanos(self.plan.timeout),
            is_acknowledged: None,
        };
        self.findings.unfinished = is_silent.then_some(silent);
        self.wants_status = true;
        self.stage = Stage::Over;
    }

    /// Ends the session after incomplete output, because the remote host has stopped sending.
    fn on_stalled(&mut self, watch: &Watch) {
        let Watch { cells, wanted_cells, .. } = watch;
        self.findings
            .notes
            .push(format!("only {cells} of {wanted_cells} characters of output were received"));
        let complete_bytes = self.findings.short_outputs.iter().map(|output| output.bytes).max();
        self.findings.unfinished = Some(Unfinished {
            is_echo: false,
            expected_bytes: *wanted_cells,
            received_bytes: watch.bytes,
            largest_complete_bytes: complete_bytes.unwrap_or(0),
            waited_ns: nanos(self.plan.timeout),
            is_acknowledged: None,
        });
        self.end();
    }

    fn on_delayed_ack_screenful(&mut self, received: ReceivedOutput, cx: &mut Cx<'_>) {
        if received.is_stalled {
            return self.on_stalled(&received.watch);
        }
        if !received.is_complete {
            return self.end();
        }
        self.findings.screenful_delayed_ack = Some(received);
        self.progress.announce("short answers");
        self.stage = Stage::CommandResponses(CommandResponses::begin(
            self.plan.timeout,
            &mut self.console,
            cx,
        ));
    }

    fn begin_load(&mut self, cx: &mut Cx<'_>) {
        // The faster of the two screenfuls was not delayed, so it gives the better estimate.
        let first = self.findings.screenful.as_ref().map(|(received, _)| received);
        let last_at =
            |received: &ReceivedOutput| received.watch.arrivals.last().map(|last| last.at_ns);
        let screenfuls = first.into_iter().chain(&self.findings.screenful_delayed_ack);
        let screenful = screenfuls.filter_map(last_at).min().map(Duration::from_nanos);
        // A program such as mosh skips a part of a long output, whose end is then not recognized.
        let has_all_cells = first.is_some_and(|received| received.watch.cells >= SCREENFUL_CELLS);
        let screenful = screenful.filter(|_| has_all_cells || !self.is_program);
        let timeout = self.plan.timeout;
        let console = &mut self.console;
        match screenful.and_then(|screenful| KeysUnderLoad::begin(screenful, timeout, console, cx))
        {
            Some(load) => {
                self.wants_status = true;
                self.progress.announce("echo during other output");
                self.stage = Stage::KeysUnderLoad(Box::new(load));
            }
            None => self.end(),
        }
    }

    fn on_echo_under_load(&mut self, under_load: EchoUnderLoad, cx: &mut Cx<'_>) {
        let timeout = self.plan.timeout;
        let long_outputs =
            self.eraser.and_then(|eraser| LongOutputs::after(&under_load, eraser, timeout, cx));
        let is_complete = under_load.received.is_complete;
        self.findings.under_load = Some(under_load).filter(|_| is_complete);
        match long_outputs.filter(|_| is_complete) {
            Some(long_outputs) => {
                self.wants_status = true;
                self.progress.announce("echo during longer output");
                self.stage = Stage::LongOutputs(Box::new(long_outputs));
            }
            None => self.end(),
        }
    }

    fn end(&mut self) {
        self.wants_status = true;
        self.stage = Stage::Over;
    }

    fn note(&mut self, sentence: &str) {
        self.findings.notes.push(sentence.to_owned());
    }

    /// Records the end of the initial negotiation. The negotiation ends with the first data. If
    /// answers to requests are outstanding at that time, it ends with these answers. Some hosts
    /// leave a few requests unanswered.
    fn on_negotiation(&mut self, now: Instant) {
        let has_prompt = self.findings.prompt.is_some();
        let is_initial = self.console.data_at().is_none() || self.has_outstanding_answers;
        if is_initial && !has_prompt {
            self.findings.negotiated_at = Some(now);
        }
        self.has_outstanding_answers = !self.console.negotiation_is_quiet();
    }

    fn is_timing(&self) -> bool {
        match &self.stage {
            Stage::Echo { echo, .. } => echo.is_timing(),
            Stage::PacedKeys(_)
            | Stage::ShortOutputs(_)
            | Stage::Screenful { .. }
            | Stage::DelayedAckScreenful(_)
            | Stage::CommandResponses(_)
            | Stage::KeysUnderLoad(_)
            | Stage::LongOutputs(_) => true,
            _ => false,
        }
    }
}

impl Stream for MeasureSession {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.findings.opened_at = Some(cx.now);
        self.waits_at_opening = self.console.waits();
        self.console.start(cx);
        let timeout = self.greeting_timeout.min(self.plan.timeout);
        let wait = Wait::new(cx.now, timeout).with_silence_at_most(self.plan.timeout);
        self.stage = Stage::FirstPrompt(wait);
        self.poll(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let is_first = self.findings.first_data_at.is_none();
        self.findings.first_data_at.get_or_insert(cx.now);
        let ssh = carrier::ssh_identification(data).filter(|_| is_first && !self.is_program);
        if let Some(banner) = ssh {
            self.note(&format!("this is an SSH server ({banner}): use --exec 'ssh HOST'"));
            self.findings.is_cut_off = true;
            self.stage = Stage::Over;
            return;
        }
        let negotiations_before = cx.meter.counted(Counter::TelnetNegotiationsIn);
        self.console.receive(data, cx);
        if cx.meter.counted(Counter::TelnetNegotiationsIn) > negotiations_before {
            self.on_negotiation(cx.now);
        }
        self.poll(cx);
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
            if !self.is_program {
                self.note("the remote host closed the connection");
            }
        }
        self.store_echoes();
        self.stage = Stage::Over;
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.poll(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl StreamSession for MeasureSession {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.interrupts.iter().map(AsFd::as_fd).collect()
    }

    fn take_input(&mut self, _index: usize, cx: &mut Cx<'_>) -> Result<()> {
        self.note(&self.interruption(cx.now));
        self.store_echoes();
        self.wants_status = false;
        self.stage = Stage::Over;
        Ok(())
    }

    fn flush(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if !self.is_timing() {
            if let Stage::Echo { echo, .. } = &self.stage {
                let done = echo.keystrokes.len();
                self.progress.show_count("echo", [done, self.plan.keys], echo.remaining(cx.now));
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

    fn output_written(&mut self, cx: &mut Cx<'_>) {
        if let Stage::Echo { echo, .. } = &mut self.stage {
            echo.output_written(&self.console, cx);
        }
    }

    fn take_status(&mut self, status: &CarrierStatus) {
        let load = match &mut self.stage {
            Stage::KeysUnderLoad(load) => Some(&mut **load),
            Stage::LongOutputs(outputs) => outputs.load_mut(),
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
            Stage::PacedKeys(_) | Stage::ShortOutputs(_) => *after_echoes = Some(status.clone()),
            Stage::Screenful { .. } => *before = Some(status.clone()),
            Stage::DelayedAckScreenful(_) => *after = Some(status.clone()),
            Stage::KeysUnderLoad(_) => self.findings.status_before = Some(status.clone()),
            // The verdict refers to output that ended before this status was read.
            Stage::Over if self.findings.sustained.is_some() => {
                self.findings.status_sustained = Some(status.clone());
                return;
            }
            _ => {}
        }
        self.findings.status = Some(status.clone());
    }

    fn ack_policy(&self) -> AckPolicy {
        match &self.stage {
            Stage::DelayedAckScreenful(_) => AckPolicy::Delayed,
            Stage::CommandResponses(responses) if responses.is_delayed_ack() => AckPolicy::Delayed,
            Stage::CommandResponses(_) => AckPolicy::Immediate,
            _ => AckPolicy::Awaited,
        }
    }

    fn wants_status(&self) -> bool {
        let load_wants_status = match &self.stage {
            Stage::KeysUnderLoad(load) => load.wants_status(),
            Stage::LongOutputs(outputs) => outputs.load().is_some_and(KeysUnderLoad::wants_status),
            _ => false,
        };
        self.wants_status || load_wants_status
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over) && !self.wants_status
    }
}
