//! Short outputs, from which the time of the screenful is predicted before it is requested.
//!
//! Outputs of one, six and eighteen lines alternate. The time that all sizes have in common is
//! fixed; the additional time of the longer outputs is transmission time. The output of eighteen
//! lines does not fit into one segment, so that it shows whether the remote host delays a short
//! last segment (Nagle's algorithm). All outputs are requested and acknowledged like the screenful.

use super::console::{MeasureConsole, Watch};
use super::prompt::Prompts;
use super::screen_output::{OutputRequest, OutputSource};
use net::Cx;
use net::time::{Duration, Instant};

/// Lengths of the outputs in lines. The sequence repeats.
const OUTPUT_LINES: [u64; 3] = [1, 6, 18];
/// Number of cells in a line.
const COLUMNS: u64 = 80;
/// Maximum number of outputs.
const OUTPUTS_MAX: usize = 12;
/// Time after which no further output is requested, once an output of each length was received.
const OUTPUTS_MAX_DURATION: Duration = Duration::from_secs(2);

/// A sequence of short outputs.
#[derive(Debug)]
pub(crate) struct ShortOutputs {
    request: OutputRequest,
    received: Vec<Watch>,
    started_at: Instant,
    timeout: Duration,
}

impl ShortOutputs {
    /// Requests the first output.
    pub(crate) fn begin(timeout: Duration, console: &mut MeasureConsole, cx: &mut Cx<'_>) -> Self {
        let request = request_output(0, timeout, console, cx);
        Self { request, received: Vec::new(), started_at: cx.now, timeout }
    }

    /// Returns the complete outputs once there are enough or an output was incomplete. Also returns
    /// the incomplete output if its rest may still arrive.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while outputs are outstanding.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<(Vec<Watch>, Option<Watch>), Instant> {
        loop {
            let received = self.request.poll(prompts, console, cx)?;
            let count = self.received.len() + 1;
            let is_time_over =
                cx.now - self.started_at >= OUTPUTS_MAX_DURATION && count >= OUTPUT_LINES.len();
            let is_last = count >= OUTPUTS_MAX || is_time_over;
            if !received.is_complete {
                let stalled = received.is_stalled.then_some(received.watch);
                return Ok((std::mem::take(&mut self.received), stalled));
            }
            self.received.push(received.watch);
            if is_last {
                return Ok((std::mem::take(&mut self.received), None));
            }
            self.request = request_output(count, self.timeout, console, cx);
        }
    }
}

/// Requests the output at `index`.
fn request_output(
    index: usize,
    timeout: Duration,
    console: &mut MeasureConsole,
    cx: &mut Cx<'_>,
) -> OutputRequest {
    let lines = OUTPUT_LINES.iter().cycle().nth(index % OUTPUT_LINES.len()).copied().unwrap_or(1);
    let numbers: String = (1..=lines).map(|line| format!(" {line}")).collect();
    let text = format!("printf '%080d\\n'{numbers}");
    let source = OutputSource::Command { text, cells: Some(lines * COLUMNS) };
    OutputRequest::begin(source, timeout, console, cx)
}
