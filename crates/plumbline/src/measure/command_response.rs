//! Short answers of a shell, alternately acknowledged at once and with the usual delay.
//!
//! A shell echoes the line first, and its command writes a moment later. If the remote host uses
//! Nagle's algorithm, that second piece, which does not fill a segment, waits until the echo is
//! acknowledged (RFC 9293 §3.7.4). It therefore arrives only after the acknowledgment was sent; a
//! host that is merely slow takes equally long in both cases. A screenful does not always show
//! this: its first segment is full, leaves at once, and causes an acknowledgment of itself and of
//! the echo.

use super::console::Console;
use super::prompt::{Prompt, Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// Command that prints [`MARK`] after the echo of the line was sent. The mark does not occur in the
/// text of the command.
const COMMAND: &str = "env true; printf '\\170\\n'\r";
/// Output of the command.
const MARK: u8 = b'x';
/// Total number of answers; every second one is acknowledged with delay.
const TRIES: usize = 10;

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
    /// Wait for the next prompt, after the answer has arrived.
    ending: Option<Wait>,
}

impl CommandResponses {
    /// Types the first command.
    pub(crate) fn begin(timeout: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Self {
        let response_times = ResponseTimes::default();
        let mut responses = Self { timeout, response_times, requested_at: cx.now, ending: None };
        responses.request(console, cx);
        responses
    }

    fn request(&mut self, console: &mut Console, cx: &mut Cx<'_>) {
        console.count_byte(MARK);
        console.type_keys(COMMAND.as_bytes(), cx);
        self.requested_at = cx.now;
        self.ending = None;
    }

    fn response_count(&self) -> usize {
        self.response_times.quick_ack.len() + self.response_times.delayed_ack.len()
    }

    /// Returns whether acknowledgments are delayed in the current try. Data after the answer still
    /// belongs to that try.
    pub(crate) fn is_delayed_ack(&self) -> bool {
        let current = self.response_count() - usize::from(self.ending.is_some());
        !current.is_multiple_of(2)
    }

    /// Returns the times when all answers have arrived or one is missing.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while answers are outstanding.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<ResponseTimes, Instant> {
        loop {
            if let Some(wait) = self.ending {
                let (prompt, _) = wait.poll(console, prompts, cx.now)?;
                if prompt != Prompt::Shell || self.response_count() >= TRIES {
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
            self.ending = Some(Wait::new(self.requested_at, self.timeout));
        }
    }
}
