//! Runs a script, one instruction after the other, as far as the received output permits.

use super::match_buffer::MatchBuffer;
use super::prompt_watch::PromptWatch;
use super::{Expectation, Instruction, Piece, Script, Template};
use net::time::{Duration, Instant};
use std::collections::BTreeMap;
use std::path::PathBuf;
use transfer::modem::{ModemCommand, ModemProtocol};

/// Default timeout of an `expect`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default exit status after a failed `expect`.
const DEFAULT_FAILURE_STATUS: u8 = 5;

/// Maximum number of characters of the last line in an error message. Our choice.
const LAST_LINE_MAX_CHARS: usize = 60;

/// Action of the session on behalf of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::login) enum ScriptAction {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send a BREAK.
    Break,
    /// Transfer files; [`Runner::transfer_ended`] reports the end.
    Transfer(ModemCommand),
    /// End the file transfer, whose remote program has ended.
    EndTransfer,
    /// Print this line on stderr.
    Say(String),
    /// Hand the session over to the keyboard.
    Interact,
    /// End with this exit status; the text is the reason of a failure.
    Exit(u8, Option<String>),
}

/// A running script.
pub(in crate::login) struct Runner {
    name: String,
    script: Script,
    next_index: usize,
    /// Number of the line whose statement runs.
    line: usize,
    variables: BTreeMap<String, Vec<u8>>,
    buffer: MatchBuffer,
    prompt: PromptWatch,
    has_ended: bool,
    timeout: Duration,
    failure_status: u8,
    /// Deadline of the current `expect` or `if`.
    deadline: Option<Instant>,
    /// Whether the script waits for the end of a file transfer.
    awaits_transfer: bool,
    /// Whether a file transfer runs.
    is_transferring: bool,
    /// Reason why a file transfer failed.
    transfer_failure: Option<String>,
    /// Reason why a file transfer failed that the script has not awaited so far.
    unclaimed_failure: Option<String>,
    is_done: bool,
}

impl Runner {
    /// Starts a script; `name` is used in error messages.
    pub(in crate::login) fn new(script: Script, name: String) -> Self {
        let variables = &script.variables;
        let variables = variables.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        Self {
            name,
            variables: variables.collect(),
            script,
            next_index: 0,
            line: 0,
            buffer: MatchBuffer::default(),
            prompt: PromptWatch::default(),
            has_ended: false,
            timeout: DEFAULT_TIMEOUT,
            failure_status: DEFAULT_FAILURE_STATUS,
            deadline: None,
            awaits_transfer: false,
            is_transferring: false,
            transfer_failure: None,
            unclaimed_failure: None,
            is_done: false,
        }
    }

    /// Processes output of the remote host.
    pub(in crate::login) fn receive(&mut self, text: &[u8]) {
        self.buffer.put(text);
        self.prompt.receive(text);
    }

    /// Processes data of the remote host that a file transfer receives.
    pub(in crate::login) fn observe_transfer(&mut self, data: &[u8]) {
        self.prompt.receive(data);
    }

    /// Records that the remote host has closed the connection.
    pub(in crate::login) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Records the start of a file transfer.
    pub(in crate::login) fn transfer_began(&mut self) {
        self.is_transferring = true;
        if self.awaits_transfer {
            self.deadline = None;
        }
    }

    /// Records the end of a file transfer, and its failure, if any.
    /// Returns whether the script has waited for it.
    pub(in crate::login) fn transfer_ended(&mut self, failure: Option<String>) -> bool {
        self.is_transferring = false;
        let is_awaited = std::mem::take(&mut self.awaits_transfer);
        if is_awaited {
            self.deadline = None;
            self.transfer_failure = failure;
            self.unclaimed_failure = None;
        } else if failure.is_some() {
            self.unclaimed_failure = failure;
        }
        is_awaited
    }

    /// Returns the time at which the script must run even without new output.
    pub(in crate::login) fn deadline(&self) -> Option<Instant> {
        let prompt = self.prompt.deadline().filter(|_| self.awaits_transfer);
        self.deadline.into_iter().chain(prompt).min()
    }

    /// Returns the next action, or `None` while the script waits.
    pub(in crate::login) fn next_action(&mut self, now: Instant) -> Option<ScriptAction> {
        if let Some(action) = self.check_transfer(now) {
            return Some(action);
        }
        while !self.is_done && (!self.awaits_transfer || self.has_ended) {
            let Some((line, instruction)) = self.script.instructions.get(self.next_index).cloned()
            else {
                return self.end_of_script();
            };
            let mut next_index = self.next_index + 1;
            self.line = line;
            if let Some(missing) = self.missing_group(&instruction) {
                self.is_done = true;
                return Some(self.failure(&format!(
                    "${{{missing}}} is not defined: the last pattern has no group {missing}"
                )));
            }
            let action = match instruction {
                Instruction::Expect { expectation, timeout } => {
                    match self.has_occurred(&expectation, timeout, now)? {
                        true => None,
                        false => Some(self.expectation_failure(&expectation, timeout)),
                    }
                }
                Instruction::BranchUnless { expectation, timeout, target } => {
                    if !self.has_occurred(&expectation, timeout, now)? {
                        next_index = target;
                    }
                    None
                }
                Instruction::Jump(target) => {
                    next_index = target;
                    None
                }
                Instruction::Send(text) => {
                    self.prompt.sent();
                    Some(ScriptAction::Send(self.expand(&text)))
                }
                Instruction::Break => Some(ScriptAction::Break),
                Instruction::Transfer { is_sending, file, protocol } => {
                    Some(self.transfer(is_sending, file.as_ref(), protocol, now))
                }
                Instruction::Say(text) => {
                    let text = self.expand(&text);
                    Some(ScriptAction::Say(String::from_utf8_lossy(&text).into_owned()))
                }
                Instruction::Set(name, text) => {
                    let text = self.expand(&text);
                    self.variables.insert(name, text);
                    None
                }
                Instruction::Timeout(timeout) => {
                    self.timeout = timeout;
                    None
                }
                Instruction::OnFailure(code) => {
                    self.failure_status = code;
                    None
                }
                Instruction::Interact => Some(ScriptAction::Interact),
                Instruction::Exit(code) => Some(ScriptAction::Exit(code, None)),
            };
            self.next_index = next_index;
            self.is_done |= matches!(action, Some(ScriptAction::Interact | ScriptAction::Exit(..)));
            if action.is_some() {
                return action;
            }
        }
        None
    }

    /// Returns the exit at the end of the script, or `None` while a file transfer runs. The failure of
    /// a transfer that the remote host has started is a failure of the script.
    fn end_of_script(&mut self) -> Option<ScriptAction> {
        if self.is_transferring && !self.has_ended {
            return None;
        }
        self.is_done = true;
        Some(match self.unclaimed_failure.take() {
            Some(why) => self.failure(&why),
            None => ScriptAction::Exit(0, None),
        })
    }

    /// Returns the exit of the script if the awaited file transfer has failed or has not begun. Returns
    /// the end of the transfer if the remote program has ended.
    fn check_transfer(&mut self, now: Instant) -> Option<ScriptAction> {
        let has_program_ended = self.awaits_transfer && self.prompt.poll(now);
        if has_program_ended && self.is_transferring {
            return Some(ScriptAction::EndTransfer);
        }
        if has_program_ended {
            let output = self.buffer.text().lines().rev().nth(1).unwrap_or_default();
            let why = "the remote program has ended, and no file transfer has begun";
            let why = match output {
                "" => why.to_owned(),
                output => format!("{why}: {}", shortened(output)),
            };
            self.transfer_ended(Some(why));
        } else if self.awaits_transfer && self.deadline.is_some_and(|deadline| deadline <= now) {
            self.transfer_ended(Some("no file transfer has begun in time".to_owned()));
        }
        let why = self.transfer_failure.take()?;
        self.is_done = true;
        Some(self.failure(&why))
    }

    /// Returns the exit after a failure of the statement that runs.
    fn failure(&self, why: &str) -> ScriptAction {
        let message = format!("{} line {}: {why}", self.name, self.line);
        ScriptAction::Exit(self.failure_status, Some(message))
    }

    /// Starts a file transfer, whose end the script awaits.
    fn transfer(
        &mut self,
        is_sending: bool,
        file: Option<&Template>,
        protocol: ModemProtocol,
        now: Instant,
    ) -> ScriptAction {
        self.awaits_transfer = true;
        self.deadline = Some(now + self.timeout);
        let file = file.map(|file| String::from_utf8_lossy(&self.expand(file)).into_owned());
        ScriptAction::Transfer(match is_sending {
            true => ModemCommand::Send(protocol, file.into_iter().map(PathBuf::from).collect()),
            false => ModemCommand::Receive(protocol, file),
        })
    }

    /// Returns `true` if the awaited event has occurred, `false` if it timed out or the connection
    /// has closed, and `None` while the script has to wait.
    fn has_occurred(
        &mut self,
        expectation: &Expectation,
        timeout: Option<Duration>,
        now: Instant,
    ) -> Option<bool> {
        let deadline = *self.deadline.get_or_insert(now + timeout.unwrap_or(self.timeout));
        let has_occurred = match expectation {
            Expectation::End => self.has_ended,
            Expectation::Pattern(pattern) => match self.buffer.find(pattern) {
                None => false,
                Some(groups) => {
                    self.variables.retain(|name, _| !is_group(name));
                    for (number, group) in groups.into_iter().enumerate() {
                        self.variables.insert(number.to_string(), group.into_bytes());
                    }
                    true
                }
            },
        };
        if !has_occurred && !self.has_ended && now < deadline {
            return None;
        }
        self.deadline = None;
        Some(has_occurred)
    }

    fn expectation_failure(
        &self,
        expectation: &Expectation,
        timeout: Option<Duration>,
    ) -> ScriptAction {
        let seconds = timeout.unwrap_or(self.timeout).as_secs_f64();
        let why = match self.has_ended {
            true => "before the remote host closed the connection".to_owned(),
            false => format!("within {seconds} s"),
        };
        let last = shortened(self.buffer.text().lines().last().unwrap_or_default());
        self.failure(&format!("{expectation} was not received {why}; the last line was '{last}'"))
    }

    /// Returns the first capture group that the instruction uses and the last pattern does not
    /// define.
    fn missing_group(&self, instruction: &Instruction) -> Option<String> {
        let (Instruction::Send(text)
        | Instruction::Say(text)
        | Instruction::Set(_, text)
        | Instruction::Transfer { file: Some(text), .. }) = instruction
        else {
            return None;
        };
        let names = text.0.iter().filter_map(|piece| match piece {
            Piece::Variable(name) if is_group(name) => Some(name),
            _ => None,
        });
        names.into_iter().find(|name| !self.variables.contains_key(*name)).cloned()
    }

    fn expand(&self, template: &Template) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &template.0 {
            match piece {
                Piece::Bytes(bytes) => text.extend_from_slice(bytes),
                Piece::Variable(name) => {
                    let value = self.variables.get(name).map(Vec::as_slice);
                    text.extend_from_slice(value.unwrap_or_default());
                }
            }
        }
        text
    }
}

/// Returns the end of a line of the remote host, escaped.
fn shortened(line: &str) -> String {
    let start = line.char_indices().rev().nth(LAST_LINE_MAX_CHARS).map_or(0, |(at, _)| at);
    line.get(start..).unwrap_or_default().escape_debug().to_string()
}

/// Returns whether a variable name denotes a capture group, such as `1` in `${1}`.
fn is_group(name: &str) -> bool {
    name.chars().all(|character| character.is_ascii_digit())
}
