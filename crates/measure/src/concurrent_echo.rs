//! Echo times of keys that are typed before the echoes of earlier keys have arrived: at a steady
//! pace, or during the output of a command.
//!
//! An echo is recognized by its character, which does not occur in the output of the command.
//! Echoes are assigned to keys in the order of typing.

use super::console::{MeasureConsole, Watch};
use super::prompt::{Prompts, Wait};
use super::screen_output::{
    OutputRequest, OutputSource, ReceivedOutput, SCREENFUL_CELLS, SCREENFUL_COMMAND,
};
use carrier::CarrierStatus;
use net::Cx;
use net::time::{Duration, Instant};

const CHARACTER: u8 = b'x';
/// Interval between two keys of a fast typist.
const KEY_INTERVAL: Duration = Duration::from_nanos(records::verdict::TRAIN_PACE_NS);
/// Number of keys typed at a steady pace.
pub(crate) const PACED_KEYS: usize = 20;
/// Timeout for outstanding echoes after the last key.
const LAST_ECHOES_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which TCP's state is polled while a key is unacknowledged.
const ACK_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Minimum time after which an output during which keys are typed is given up.
const OUTPUT_TIMEOUT_MIN: Duration = Duration::from_secs(10);
/// Target duration of the output during which keys are typed.
const LOAD_DURATION: Duration = Duration::from_millis(1_500);
/// Minimum and maximum length of the output during which keys are typed, in screens.
const LOAD_SCREENS_RANGE: [u32; 2] = [2, 150];

/// Typed keys and their echo times.
#[derive(Debug, Default)]
struct TypedKeys {
    typed_at: Vec<Instant>,
    echo_times: Vec<Duration>,
}

impl TypedKeys {
    fn type_key(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        self.typed_at.push(cx.now);
        console.type_keys(&[CHARACTER], cx);
    }

    /// Records the echoes that have arrived by now.
    fn record_echoes(&mut self, console: &MeasureConsole, now: Instant) {
        let echo_count = console.byte_count();
        let unechoed_keys = self.typed_at.iter().skip(self.echo_times.len());
        let new_echoes = unechoed_keys.take(echo_count.saturating_sub(self.echo_times.len()));
        let new_echoes: Vec<Duration> = new_echoes.map(|typed_at| now - *typed_at).collect();
        self.echo_times.extend(new_echoes);
    }

    fn is_idle(&self) -> bool {
        self.echo_times.len() == self.typed_at.len()
    }
}

/// Keys typed at a steady pace.
#[derive(Debug)]
pub(crate) struct PacedKeys {
    keys: TypedKeys,
    next_at: Instant,
    /// Erase characters that remove all typed keys from the command line.
    erase_keys: Vec<u8>,
    /// Wait for the line to be cleared.
    clearing: Option<Wait>,
}

impl PacedKeys {
    /// Starts to type [`PACED_KEYS`] keys. Afterwards `erase_keys` is typed, which removes them
    /// from the command line.
    pub(crate) fn begin(
        erase_keys: Vec<u8>,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Self {
        console.count_byte(CHARACTER);
        Self { keys: TypedKeys::default(), next_at: cx.now, erase_keys, clearing: None }
    }

    /// Returns the echo times in the order of the keys, once the line is empty again.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while keys or echoes are outstanding.
    pub(crate) fn poll(
        &mut self,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Duration>, Instant> {
        if let Some(wait) = &self.clearing {
            wait.poll_silence(console, cx.now)?;
            return Ok(std::mem::take(&mut self.keys.echo_times));
        }
        self.keys.record_echoes(console, cx.now);
        if self.keys.typed_at.len() < PACED_KEYS {
            if cx.now >= self.next_at {
                self.keys.type_key(console, cx);
                self.next_at = cx.now + KEY_INTERVAL;
            }
            return Err(self.next_at);
        }
        let give_up_at = self.next_at + LAST_ECHOES_TIMEOUT;
        if !self.keys.is_idle() && cx.now < give_up_at {
            return Err(give_up_at);
        }
        console.type_keys(&self.erase_keys, cx);
        let wait = Wait::new(cx.now, LAST_ECHOES_TIMEOUT);
        self.clearing = Some(wait);
        Err(wait.latest(console) + LAST_ECHOES_TIMEOUT)
    }
}

/// Keys typed during a long output.
#[derive(Debug)]
pub(crate) struct KeysUnderLoad {
    request: OutputRequest,
    keys: TypedKeys,
    next_at: Option<Instant>,
    ended_at: Option<Instant>,
    /// Time at which the output is given up. The echoes of the keys would prolong a wait for the
    /// rest of the output indefinitely.
    give_up_at: Instant,
    screens: u32,
    round_trips: RoundTrips,
    /// Time of the last call of [`KeysUnderLoad::poll`].
    polled_at: Instant,
}

/// TCP round-trip times, each from a key to its acknowledgment.
///
/// The smoothed round-trip time does not show the length of a queue. It adapts to a sample by an
/// eighth of the difference (RFC 6298 section 2.3). A retransmitted segment gives no sample
/// (section 3), and each key that is queued for longer than the retransmission timeout is
/// retransmitted.
#[derive(Debug, Default)]
struct RoundTrips {
    /// Time at which the latest key was typed; `None` once it is acknowledged.
    typed_at: Option<Instant>,
    /// Whether the latest key has been passed to TCP.
    is_sent: bool,
    samples: Vec<Duration>,
}

impl RoundTrips {
    fn begin(&mut self, now: Instant) {
        self.typed_at = Some(now);
        self.is_sent = false;
    }

    /// Processes the state of the acknowledgments at `now`: whether TCP's peer has acknowledged all
    /// data sent so far. `None` means that this is unknown.
    fn on_acknowledgment(&mut self, is_acknowledged: Option<bool>, now: Instant) {
        let Some(typed_at) = self.typed_at else { return };
        match is_acknowledged {
            Some(false) => self.is_sent = true,
            Some(true) if self.is_sent => {
                self.samples.push(now - typed_at);
                self.typed_at = None;
            }
            Some(true) => {}
            None => self.typed_at = None,
        }
    }
}

/// Echoes during one long output.
#[derive(Debug)]
pub(crate) struct EchoUnderLoad {
    /// Requested number of screens of output.
    pub(crate) screens: u32,
    /// Output of the command.
    pub(crate) received: ReceivedOutput,
    /// Echo times during the output.
    pub(crate) echoes: Vec<Duration>,
    /// TCP round-trip times during the output, as far as they are known.
    pub(crate) round_trips: Vec<Duration>,
}

impl KeysUnderLoad {
    /// Requests output that takes about [`LOAD_DURATION`], given the time of one `screenful`;
    /// returns `None` if fewer than two screens fit.
    pub(crate) fn begin(
        screenful: Duration,
        timeout: Duration,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Option<Self> {
        let screens = LOAD_DURATION.as_nanos() / screenful.as_nanos().max(1);
        let [min_screens, max_screens] = LOAD_SCREENS_RANGE;
        let screens = u32::try_from(screens).unwrap_or(max_screens).min(max_screens);
        (screens >= min_screens).then(|| Self::of_screens(screens, timeout, console, cx))
    }

    /// Requests output of `screens` screens.
    pub(crate) fn of_screens(
        screens: u32,
        timeout: Duration,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Self {
        let text =
            format!("i=0; while [ $i -lt {screens} ]; do {SCREENFUL_COMMAND}; i=$((i+1)); done");
        let source =
            OutputSource::Command { text, cells: Some(u64::from(screens) * SCREENFUL_CELLS) };
        console.count_byte(CHARACTER);
        let request = OutputRequest::begin(source, timeout, console, cx);
        Self {
            request,
            keys: TypedKeys::default(),
            next_at: None,
            ended_at: None,
            give_up_at: cx.now + timeout.max(OUTPUT_TIMEOUT_MIN),
            screens,
            round_trips: RoundTrips::default(),
            polled_at: cx.now,
        }
    }

    /// Returns whether a key was unacknowledged at the last call of
    /// [`KeysUnderLoad::take_status`].
    pub(crate) fn wants_status(&self) -> bool {
        self.round_trips.typed_at.is_some()
    }

    /// Processes the connection status that the carrier reports.
    pub(crate) fn take_status(&mut self, status: &CarrierStatus) {
        self.round_trips.on_acknowledgment(status.is_acknowledged(), self.polled_at);
    }

    fn finish(&mut self, received: ReceivedOutput) -> EchoUnderLoad {
        EchoUnderLoad {
            screens: self.screens,
            received,
            echoes: std::mem::take(&mut self.keys.echo_times),
            round_trips: std::mem::take(&mut self.round_trips.samples),
        }
    }

    /// Returns the result when the output is complete.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while the output is in progress.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<EchoUnderLoad, Instant> {
        self.polled_at = cx.now;
        self.keys.record_echoes(console, cx.now);
        let is_complete = console.current_watch().is_some_and(Watch::is_complete);
        if is_complete || self.ended_at.is_some() {
            let ended_at = *self.ended_at.get_or_insert(cx.now);
            let give_up_at = ended_at + LAST_ECHOES_TIMEOUT;
            if !self.keys.is_idle() && cx.now < give_up_at {
                return Err(give_up_at);
            }
            let received = self.request.finish(prompts, console);
            return Ok(self.finish(received));
        }
        if cx.now >= self.give_up_at {
            let received = self.request.finish(prompts, console);
            return Ok(self.finish(received));
        }
        // The shell starts the output only after it has received the end of the line.
        if !self.request.is_requested() {
            let poll_result = self.request.poll(prompts, console, cx);
            if !self.request.is_requested() {
                return poll_result.map(|received| self.finish(received));
            }
        }
        let has_begun = console.current_watch().is_some_and(|watch| watch.cells > SCREENFUL_CELLS);
        let next_at = *self.next_at.get_or_insert(cx.now);
        if has_begun && self.keys.is_idle() && cx.now >= next_at {
            self.keys.type_key(console, cx);
            self.round_trips.begin(cx.now);
            self.next_at = Some(cx.now + KEY_INTERVAL);
        }
        match self.request.poll(prompts, console, cx) {
            // The output timed out.
            Ok(received) => Ok(self.finish(received)),
            Err(until) if self.keys.is_idle() && has_begun => {
                Err(self.next_at.unwrap_or(until).min(until))
            }
            // While a segment is missing, no data arrives, so the acknowledgment is noticed only by
            // polling.
            Err(until) if self.wants_status() => Err(until.min(cx.now + ACK_POLL_INTERVAL)),
            Err(until) => Err(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_ends_with_the_acknowledgment_of_a_key_that_was_sent() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut round_trips = RoundTrips::default();
        round_trips.begin(at(0));
        // The key has not been passed to TCP yet.
        round_trips.on_acknowledgment(Some(true), at(0));
        round_trips.on_acknowledgment(Some(false), at(1));
        round_trips.on_acknowledgment(Some(false), at(200));
        round_trips.on_acknowledgment(Some(true), at(400));
        round_trips.on_acknowledgment(Some(true), at(900));
        assert_eq!(round_trips.samples, [Duration::from_millis(400)]);
        // A serial line has no acknowledgments.
        round_trips.begin(at(1_000));
        round_trips.on_acknowledgment(None, at(1_000));
        assert_eq!((round_trips.typed_at, round_trips.samples.len()), (None, 1));
    }
}
