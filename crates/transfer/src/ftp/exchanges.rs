//! Commands and replies of a control connection, with their times.

use crate::recorder::nanos;
use records::verdict;
use std::time::Instant;

/// Maximum number of commands recorded per task; later commands are not recorded.
const COMMANDS_MAX: usize = 64;

/// The commands of one task, with their replies.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    greeting: Option<Instant>,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct Command {
    verb: String,
    sent_at: Instant,
    preliminary_at: Option<Instant>,
    replied_at: Option<Instant>,
}

impl Exchanges {
    /// Records a command that is sent now.
    pub(super) fn record_command(&mut self, verb: &str, now: Instant) {
        if self.commands.len() < COMMANDS_MAX {
            let verb = verb.to_owned();
            self.commands.push(Command {
                verb,
                sent_at: now,
                preliminary_at: None,
                replied_at: None,
            });
        }
    }

    /// Records a reply. A server answers commands in order (RFC 959 section 4.2); the greeting
    /// answers no command.
    pub(super) fn record_reply(&mut self, code: u16, now: Instant) {
        let waiting = self.commands.iter_mut().find(|command| command.replied_at.is_none());
        match (waiting, code) {
            (Some(command), 100..200) => _ = command.preliminary_at.get_or_insert(now),
            (Some(command), _) => command.replied_at = Some(now),
            (None, _) => self.greeting = self.greeting.or(Some(now)),
        }
    }

    /// Removes the commands that were answered.
    pub(super) fn remove_answered(&mut self) {
        self.commands.retain(|command| command.replied_at.is_none());
    }

    /// Returns the time from `began` to the greeting.
    pub(super) fn greeting_since(&self, began: Instant) -> Option<std::time::Duration> {
        self.greeting.map(|at| at.saturating_duration_since(began))
    }

    /// Returns the commands, with times since `began`.
    pub(super) fn exchanges_since(&self, began: Instant) -> Vec<verdict::Exchange> {
        let since = |at: Instant| nanos(at.saturating_duration_since(began));
        let exchange = |command: &Command| verdict::Exchange {
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
    use std::time::Duration;

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
