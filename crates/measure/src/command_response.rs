//! Response times of short shell commands. Their responses are acknowledged alternately with and
//! without delay.
//!
//! A shell echoes the line first, and its command writes a moment later. The output of the command
//! does not fill a segment. If the remote host uses Nagle's algorithm, the output is therefore sent
//! only after the echo is acknowledged (RFC 9293 §3.7.4), and a delayed acknowledgment delays the
//! output. If the remote host is only slow, both kinds of acknowledgment give the same response
//! time. A screenful does not always show this: its first segment is full, is sent at once, and
//! causes an acknowledgment that covers the echo.

use super::console::MeasureConsole;
use super::prompt::{Prompt, Prompts, Wait};
use net::Cx;
use net::time::{Duration, Instant};

/// Command that prints [`OUTPUT_MARK`] after the echo of the line was sent. The mark does not occur
/// in the text of the command.
const COMMAND: &str = "env true; printf '\\170\\n'\r";
/// Output of the command.
const OUTPUT_MARK: u8 = b'x';
/// Total number of commands. Every second response is acknowledged with delay.
const COMMANDS_TOTAL: usize = 10;

/// Times from Return to the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseTimes {
    /// Times with immediate acknowledgments.
    pub(crate) quick_ack: Vec<Duration>,
    /// Times with delayed acknowledgments.
    pub(crate) delayed_ack: Vec<Duration>,
}

/// A sequence of commands with short responses.
#[derive(Debug)]
pub(crate) struct CommandResponses {
    timeout: Duration,
    response_times: ResponseTimes,
    requested_at: Instant,
    /// Wait for the next prompt, once the response to the command has arrived.
    prompt_wait: Option<Wait>,
}

impl CommandResponses {
    /// Types the first command.
    pub(crate) fn begin(timeout: Duration, console: &mut MeasureConsole, cx: &mut Cx<'_>) -> Self {
        let response_times = ResponseTimes::default();
        let mut responses =
            Self { timeout, response_times, requested_at: cx.now, prompt_wait: None };
        responses.request(console, cx);
        responses
    }

    fn request(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        console.count_byte(OUTPUT_MARK);
        console.type_keys(COMMAND.as_bytes(), cx);
        self.requested_at = cx.now;
        self.prompt_wait = None;
    }

    fn response_count(&self) -> usize {
        self.response_times.quick_ack.len() + self.response_times.delayed_ack.len()
    }

    /// Returns whether acknowledgments are delayed during the current command. The command
    /// continues after its response, until the next prompt.
    pub(crate) fn is_delayed_ack(&self) -> bool {
        let current = self.response_count() - usize::from(self.prompt_wait.is_some());
        !current.is_multiple_of(2)
    }

    /// Returns the response times after the last command, or after a command without a response.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while responses are outstanding.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<ResponseTimes, Instant> {
        loop {
            if let Some(wait) = self.prompt_wait {
                let (prompt, _) = wait.poll(console, prompts, cx.now)?;
                if prompt != Prompt::Shell || self.response_count() >= COMMANDS_TOTAL {
                    return Ok(std::mem::take(&mut self.response_times));
                }
                self.request(console, cx);
            }
            if console.byte_count() == 0 {
                let give_up_at = self.requested_at + self.timeout;
                if cx.now < give_up_at {
                    return Err(give_up_at);
                }
                return Ok(std::mem::take(&mut self.response_times));
            }
            let elapsed = cx.now - self.requested_at;
            let times = match self.is_delayed_ack() {
                true => &mut self.response_times.delayed_ack,
                false => &mut self.response_times.quick_ack,
            };
            times.push(elapsed);
            self.prompt_wait = Some(Wait::new(self.requested_at, self.timeout));
        }
    }
}
