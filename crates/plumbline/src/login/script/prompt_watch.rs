//! Recognition of the prompt of a shell whose program has ended.
//!
//! The line that the remote host had not ended when the script sent a command is its prompt. If the
//! same text is the last line again, and nothing follows it, the command has ended.

use net::time::{Duration, Instant};

/// Silence after which the prompt is the end of the command. Our choice: longer than most pauses of
/// a network.
const PROMPT_SILENCE: Duration = Duration::from_secs(1);

/// Maximum length of a prompt in bytes; a longer line is none. Our choice.
const PROMPT_MAX_LEN: usize = 256;

/// Recognition of one prompt.
#[derive(Debug, Default)]
pub(super) struct PromptWatch {
    /// Bytes since the last line end; empty if they are too long for a prompt.
    line: Vec<u8>,
    is_long: bool,
    /// Prompt at which the last command was sent.
    prompt: Vec<u8>,
    /// Whether a line has ended since then.
    has_output: bool,
    /// Time at which the prompt has lasted long enough.
    due: Option<Instant>,
}

impl PromptWatch {
    /// Processes output of the remote host.
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.due = None;
        let start = bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        if start.is_some() {
            self.line.clear();
            self.is_long = false;
            self.has_output = true;
        }
        let rest = bytes.get(start.unwrap_or(0)..).unwrap_or_default();
        self.is_long |= self.line.len() + rest.len() > PROMPT_MAX_LEN;
        match self.is_long {
            true => self.line.clear(),
            false => self.line.extend_from_slice(rest),
        }
    }

    /// Records that the script sends text: the current line is the prompt.
    pub(super) fn sent(&mut self) {
        self.prompt.clone_from(&self.line);
        self.has_output = false;
        self.due = None;
    }

    /// Returns whether the prompt is back, and has been the last output for some time.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        if self.prompt.is_empty() || !self.has_output || self.line != self.prompt {
            return false;
        }
        *self.due.get_or_insert(now + PROMPT_SILENCE) <= now
    }

    /// Returns when [`Self::poll`] may return another result without further output.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(output_after_command: &[u8]) -> PromptWatch {
        let mut watch = PromptWatch::default();
        watch.receive(b"Welcome\r\nann@host:~$ ");
        watch.sent();
        watch.receive(b"rz");
        watch.receive(output_after_command);
        watch
    }

    #[test]
    fn the_same_prompt_after_other_output_is_the_end_of_a_command() {
        let mut ended = watch(b"\r\nrz: not found\r\nann@host:~$ ");
        assert!(!ended.poll(Instant::ZERO));
        let due = Instant::ZERO + PROMPT_SILENCE;
        assert_eq!(ended.deadline(), Some(due));
        assert!(ended.poll(due));
        ended.receive(b"a");
        assert!(!ended.poll(due + PROMPT_SILENCE), "the user of another terminal types");
    }

    #[test]
    fn another_last_line_is_not_the_end_of_a_command() {
        let long = [b"\r\nann@host:~$ ".as_slice(), &[b'x'; PROMPT_MAX_LEN]].concat();
        for output in [b"\r\n".as_slice(), b"\r\n**\x18B00", b"\r\nann@host:~# ", b"", &long] {
            let mut running = watch(output);
            assert!(!running.poll(Instant::ZERO) && running.deadline().is_none());
        }
        let mut without_prompt = PromptWatch::default();
        without_prompt.sent();
        without_prompt.receive(b"text\r\n");
        assert!(!without_prompt.poll(Instant::ZERO) && without_prompt.deadline().is_none());
    }
}
