//! Times of the commands and replies of an FTP client session.
//!
//! The session records the time of each sent command, of each reply, and of the data connection.
//! The thread that moves the data reports its observations at its end ([`DataStats`]).

use crate::ftp_data::DataStats;
use crate::recorder::{self, nanos};
use records::transfer::{Command, DataStyle, Field};
use records::verdict;
use std::time::{Duration, Instant};

/// Offsets from the start of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandOffsets {
    /// Time at which the command for a data connection was sent.
    pub data_command_at: Option<Duration>,
    /// Time at which the transfer command was sent.
    pub command_at: Option<Duration>,
}

/// Durations of the steps that open a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    pub(crate) resolve: Option<Duration>,
    pub(crate) connect: Option<Duration>,
    pub(crate) tls: Option<Duration>,
    pub(crate) login: Option<Duration>,
    /// Time from the connection to the greeting.
    pub(crate) greeting: Option<Duration>,
    /// The commands of the login.
    pub(crate) exchanges: Vec<verdict::Exchange>,
}

/// Observations of a session.
#[derive(Debug)]
pub(crate) struct SessionTiming {
    pub(crate) opening: Opening,
    pub(super) session: recorder::RecordedSession,
    pub(super) steps: StepTimes,
    exchanges: Exchanges,
}

/// Times of the events of one task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepTimes {
    pub(super) command: Option<(Command, Instant)>,
    pub(super) preliminary: Option<Instant>,
    pub(super) data_requested: Option<(DataStyle, Instant)>,
    pub(super) data_connected: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) reply: Option<u16>,
}

impl SessionTiming {
    pub(crate) fn new(session: recorder::RecordedSession) -> Self {
        Self {
            opening: Opening::default(),
            session,
            steps: StepTimes::default(),
            exchanges: Exchanges::default(),
        }
    }

    /// Starts a task.
    pub(crate) fn begin(&mut self) {
        self.steps = StepTimes::default();
        self.exchanges.remove_answered();
    }

    /// Stores the times of the login, which began at `began`.
    pub(crate) fn end_login(&mut self, began: Instant) {
        self.opening.greeting = self.exchanges.greeting_since(began);
        self.opening.exchanges = self.exchanges.exchanges_since(began);
    }

    /// Returns the observations of the last transfer, with times since `began`.
    pub(crate) fn transfer_since(
        &self,
        began: Instant,
        data: Option<&DataStats>,
    ) -> verdict::FileTransfer {
        let since = |at: Instant| nanos(at.saturating_duration_since(began));
        verdict::FileTransfer {
            exchanges: self.exchanges.exchanges_since(began),
            connected_ns: self.steps.data_connected.map(since),
            first_byte_ns: data.and_then(|data| data.first_byte_at).map(since),
            last_byte_ns: data.and_then(|data| data.ended_at).map(since),
            ..verdict::FileTransfer::default()
        }
    }

    /// Records the commands that are sent now.
    pub(crate) fn record_commands(&mut self, output: &[u8]) {
        let now = Instant::now();
        for line in output.split(|byte| *byte == b'\n') {
            let end = line.iter().position(|byte| matches!(byte, b' ' | b'\r'));
            let verb =
                end.and_then(|end| line.get(..end)).and_then(|verb| str::from_utf8(verb).ok());
            let Some(verb) = verb else { continue };
            self.exchanges.record_command(verb, now);
            if let Some(style) = DataStyle::from_text(verb) {
                self.steps.data_requested = Some((style, now));
            } else if let Some(command) = Command::from_text(verb) {
                self.steps.command = Some((command, now));
            }
        }
    }

    /// Records a reply.
    pub(crate) fn record_reply(&mut self, code: u16) {
        let now = Instant::now();
        self.exchanges.record_reply(code, now);
        match code {
            100..200 => _ = self.steps.preliminary.get_or_insert(now),
            _ => (self.steps.ended, self.steps.reply) = (Some(now), Some(code)),
        }
    }

    /// Returns the command times of a task, relative to its start `began`.
    pub(crate) fn command_offsets_since(&self, began: Instant) -> CommandOffsets {
        let since = |at: Instant| at.saturating_duration_since(began);
        CommandOffsets {
            data_command_at: self.steps.data_requested.map(|(_, at)| since(at)),
            command_at: self.steps.command.map(|(_, at)| since(at)),
        }
    }

    pub(crate) fn data_connected(&mut self) {
        self.steps.data_connected = Some(Instant::now());
    }
}

/// Maximum number of commands recorded per task; later commands are not recorded.
const COMMANDS_MAX: usize = 64;

/// The commands of one task, with their replies.
#[derive(Debug, Default)]
struct Exchanges {
    greeting: Option<Instant>,
    commands: Vec<SentCommand>,
}

#[derive(Debug)]
struct SentCommand {
    verb: String,
    sent_at: Instant,
    preliminary_at: Option<Instant>,
    replied_at: Option<Instant>,
}

impl Exchanges {
    /// Records a command that is sent now.
    fn record_command(&mut self, verb: &str, now: Instant) {
        if self.commands.len() < COMMANDS_MAX {
            let verb = verb.to_owned();
            self.commands.push(SentCommand {
                verb,
                sent_at: now,
                preliminary_at: None,
                replied_at: None,
            });
        }
    }

    /// Records a reply. A server answers commands in order (RFC 959 section 4.2); the greeting
    /// answers no command.
    fn record_reply(&mut self, code: u16, now: Instant) {
        let waiting = self.commands.iter_mut().find(|command| command.replied_at.is_none());
        match (waiting, code) {
            (Some(command), 100..200) => _ = command.preliminary_at.get_or_insert(now),
            (Some(command), _) => command.replied_at = Some(now),
            (None, _) => self.greeting = self.greeting.or(Some(now)),
        }
    }

    /// Removes the commands that were answered.
    fn remove_answered(&mut self) {
        self.commands.retain(|command| command.replied_at.is_none());
    }

    /// Returns the time from `began` to the greeting.
    fn greeting_since(&self, began: Instant) -> Option<Duration> {
        self.greeting.map(|at| at.saturating_duration_since(began))
    }

    /// Returns the commands, with times since `began`.
    fn exchanges_since(&self, began: Instant) -> Vec<verdict::Exchange> {
        let since = |at: Instant| nanos(at.saturating_duration_since(began));
        let exchange = |command: &SentCommand| verdict::Exchange {
            verb: command.verb.clone(),
            sent_ns: since(command.sent_at),
            preliminary_ns: command.preliminary_at.map(since),
            replied_ns: command.replied_at.map(since),
        };
        self.commands.iter().map(exchange).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::TransferRecorder;

    #[test]
    fn only_the_verb_of_a_command_determines_the_step() {
        let mut timing = SessionTiming::new(TransferRecorder::open(None, |_| {}).session());
        timing.record_commands(b"TYPE I\r\nEPSV\r\n");
        timing.record_commands(b"RETR a STOR b\r\n");
        let steps = timing.steps;
        assert_eq!(steps.data_requested.map(|(style, _)| style), Some(DataStyle::Epsv));
        assert_eq!(steps.command.map(|(command, _)| command), Some(Command::Retr));
    }

    #[test]
    fn a_preliminary_reply_is_not_the_final_one() {
        let mut timing = SessionTiming::new(TransferRecorder::open(None, |_| {}).session());
        timing.record_reply(150);
        assert!(timing.steps.preliminary.is_some() && timing.steps.reply.is_none());
        timing.record_reply(226);
        assert_eq!(timing.steps.reply, Some(226));
    }

    #[test]
    fn replies_are_matched_to_commands_in_order_after_the_greeting() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut exchanges = Exchanges::default();
        exchanges.record_reply(220, at(10));
        exchanges.record_command("EPSV", at(20));
        exchanges.record_command("RETR", at(20));
        exchanges.record_reply(229, at(30));
        exchanges.record_reply(150, at(40));
        exchanges.record_reply(226, at(50));
        assert_eq!(exchanges.greeting_since(began), Some(Duration::from_millis(10)));
        let [epsv, retr] = exchanges.exchanges_since(began).try_into().unwrap();
        assert_eq!((epsv.verb.as_str(), epsv.replied_ns), ("EPSV", Some(30_000_000)));
        assert_eq!(retr.preliminary_ns, Some(40_000_000));
        assert_eq!(retr.replied_ns, Some(50_000_000));
        exchanges.remove_answered();
        assert!(exchanges.exchanges_since(began).is_empty());
    }
}
