//! Concurrent echoes: of keys typed at a steady pace, and of keys typed during the output of a
//! command.
//!
//! An echo is recognized by its byte, which the command does not write. Echoes are assigned to keys
//! in the order of typing.

use super::command::{SCREENFUL_CELLS, SCREENFUL_COMMAND, Screen, Showing, Shown};
use super::console::{Console, Watch};
use super::prompt::{Prompts, Wait};
use crate::carry::CarrierStatus;
use protocols::Cx;
use protocols::time::{Duration, Instant};

const CHARACTER: u8 = b'x';
/// Interval between two keys of a fast typist.
const PACE: Duration = Duration::from_nanos(records::verdict::TRAIN_PACE_NS);
/// Number of keys in a train.
pub(crate) const TRAIN_KEYS: usize = 20;
/// Time limit for the last echoes.
const LAST_KEYS: Duration = Duration::from_secs(2);
/// Interval at which TCP is polled for the acknowledgment of a key.
const ACKNOWLEDGED_POLL: Duration = Duration::from_millis(5);
/// Target duration of the output during which keys are typed.
const LOAD: Duration = Duration::from_millis(1_500);
/// Minimum and maximum number of screens in a load.
const LOAD_SCREENS: [u32; 2] = [2, 150];

/// Typed keys and their echo times.
#[derive(Debug, Default)]
struct Keys {
    struck: Vec<Instant>,
    echoed: Vec<Duration>,
}

impl Keys {
    fn strike(&mut self, console: &mut Console, cx: &mut Cx<'_>) {
        self.struck.push(cx.now);
        console.strike(&[CHARACTER], cx);
    }

    /// Records the echoes that have arrived by now.
    fn note(&mut self, console: &Console, now: Instant) {
        let come = console.tallied();
        let waiting = self.struck.iter().skip(self.echoed.len());
        let new = waiting.take(come.saturating_sub(self.echoed.len()));
        let new: Vec<Duration> = new.map(|struck| now - *struck).collect();
        self.echoed.extend(new);
    }

    fn is_quiet(&self) -> bool {
        self.echoed.len() == self.struck.len()
    }
}

/// Keys typed at a steady pace.
#[derive(Debug)]
pub(crate) struct Train {
    keys: Keys,
    next_at: Instant,
    /// Keys that erase the whole train.
    erasers: Vec<u8>,
    /// Wait for the line to be cleared.
    clearing: Option<Wait>,
}

impl Train {
    /// Starts to type [`TRAIN_KEYS`] keys, which `erasers` remove again.
    pub(crate) fn begin(erasers: Vec<u8>, console: &mut Console, cx: &mut Cx<'_>) -> Self {
        console.tally(CHARACTER);
        Self { keys: Keys::default(), next_at: cx.now, erasers, clearing: None }
    }

    /// Returns the echo times in the order of the keys, once the line is clear again.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while the train is in progress.
    pub(crate) fn look(
        &mut self,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Duration>, Instant> {
        if let Some(wait) = &self.clearing {
            wait.settle(console, cx.now)?;
            return Ok(std::mem::take(&mut self.keys.echoed));
        }
        self.keys.note(console, cx.now);
        if self.keys.struck.len() < TRAIN_KEYS {
            if cx.now >= self.next_at {
                self.keys.strike(console, cx);
                self.next_at = cx.now + PACE;
            }
            return Err(self.next_at);
        }
        let give_up_at = self.next_at + LAST_KEYS;
        if !self.keys.is_quiet() && cx.now < give_up_at {
            return Err(give_up_at);
        }
        console.strike(&self.erasers, cx);
        let wait = Wait::new(cx.now, LAST_KEYS);
        self.clearing = Some(wait);
        Err(wait.latest(console) + LAST_KEYS)
    }
}

/// Keys typed during a long output.
#[derive(Debug)]
pub(crate) struct Load {
    showing: Showing,
    keys: Keys,
    next_at: Option<Instant>,
    ended_at: Option<Instant>,
    screens: u32,
    round_trips: RoundTrips,
    /// Time of the last call of [`Load::look`].
    looked_at: Instant,
}

/// TCP round-trip times, each from a key to its acknowledgment.
///
/// The smoothed round-trip time does not show the length of a queue. It adapts to a sample by an
/// eighth of the difference (RFC 6298 section 2.3), and a retransmitted segment gives no sample
/// (section 3), as happens to each key that waits in a queue for longer than the timer.
#[derive(Debug, Default)]
struct RoundTrips {
    /// Time of the latest key, if it is not acknowledged yet.
    struck: Option<Instant>,
    /// Whether TCP has received that key.
    is_sent: bool,
    samples: Vec<Duration>,
}

impl RoundTrips {
    fn strike(&mut self, now: Instant) {
        self.struck = Some(now);
        self.is_sent = false;
    }

    /// Processes the acknowledgment state of all sent data at `now`.
    fn follow(&mut self, is_acknowledged: Option<bool>, now: Instant) {
        let Some(struck) = self.struck else { return };
        match is_acknowledged {
            Some(false) => self.is_sent = true,
            Some(true) if self.is_sent => {
                self.samples.push(now - struck);
                self.struck = None;
            }
            Some(true) => {}
            None => self.struck = None,
        }
    }
}

/// Result of a load.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Requested number of screens of output.
    pub(crate) screens: u32,
    /// Output of the command.
    pub(crate) shown: Shown,
    /// Echo times during the output.
    pub(crate) echoes: Vec<Duration>,
    /// TCP round-trip times during the output, as far as they are known.
    pub(crate) round_trips: Vec<Duration>,
}

impl Load {
    /// Requests output that takes about [`LOAD`], given the time of one `screenful`; returns `None`
    /// if fewer than two screens fit.
    pub(crate) fn begin(
        screenful: Duration,
        patience: Duration,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Option<Self> {
        let screens = LOAD.as_nanos() / screenful.as_nanos().max(1);
        let [least, most] = LOAD_SCREENS;
        let screens = u32::try_from(screens).unwrap_or(most).min(most);
        (screens >= least).then(|| Self::of_screens(screens, patience, console, cx))
    }

    /// Requests output of `screens` screens.
    pub(crate) fn of_screens(
        screens: u32,
        patience: Duration,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Self {
        let text =
            format!("i=0; while [ $i -lt {screens} ]; do {SCREENFUL_COMMAND}; i=$((i+1)); done");
        let screen = Screen::Command { text, cells: Some(u64::from(screens) * SCREENFUL_CELLS) };
        console.tally(CHARACTER);
        let showing = Showing::begin(screen, patience, console, cx);
        Self {
            showing,
            keys: Keys::default(),
            next_at: None,
            ended_at: None,
            screens,
            round_trips: RoundTrips::default(),
            looked_at: cx.now,
        }
    }

    /// Returns whether a key was unacknowledged at the last call of [`Load::take_status`].
    pub(crate) fn wants_status(&self) -> bool {
        self.round_trips.struck.is_some()
    }

    /// Processes the carrier's status of the connection.
    pub(crate) fn take_status(&mut self, status: &CarrierStatus) {
        self.round_trips.follow(status.is_acknowledged(), self.looked_at);
    }

    fn loaded(&mut self, shown: Shown) -> Loaded {
        Loaded {
            screens: self.screens,
            shown,
            echoes: std::mem::take(&mut self.keys.echoed),
            round_trips: std::mem::take(&mut self.round_trips.samples),
        }
    }

    /// Returns the result when the output is complete.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while the load is in progress.
    pub(crate) fn look(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<Loaded, Instant> {
        self.looked_at = cx.now;
        self.keys.note(console, cx.now);
        let is_complete = console.watched().is_some_and(Watch::is_complete);
        if is_complete || self.ended_at.is_some() {
            let ended_at = *self.ended_at.get_or_insert(cx.now);
            let give_up_at = ended_at + LAST_KEYS;
            if !self.keys.is_quiet() && cx.now < give_up_at {
                return Err(give_up_at);
            }
            let shown = self.showing.shown(prompts, console);
            return Ok(self.loaded(shown));
        }
        // The shell must receive the end of the line before there is output.
        if !self.showing.is_showing() {
            let looked = self.showing.look(prompts, console, cx);
            if !self.showing.is_showing() {
                return looked.map(|shown| self.loaded(shown));
            }
        }
        let has_begun = console.watched().is_some_and(|watch| watch.cells > SCREENFUL_CELLS);
        let next_at = *self.next_at.get_or_insert(cx.now);
        if has_begun && self.keys.is_quiet() && cx.now >= next_at {
            self.keys.strike(console, cx);
            self.round_trips.strike(cx.now);
            self.next_at = Some(cx.now + PACE);
        }
        match self.showing.look(prompts, console, cx) {
            // The output timed out.
            Ok(shown) => Ok(self.loaded(shown)),
            Err(until) if self.keys.is_quiet() && has_begun => {
                Err(self.next_at.unwrap_or(until).min(until))
            }
            // While a segment is missing, no data arrives whose processing would reveal the
            // acknowledgment.
            Err(until) if self.wants_status() => Err(until.min(cx.now + ACKNOWLEDGED_POLL)),
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
        round_trips.strike(at(0));
        // TCP does not have the key yet.
        round_trips.follow(Some(true), at(0));
        round_trips.follow(Some(false), at(1));
        round_trips.follow(Some(false), at(200));
        round_trips.follow(Some(true), at(400));
        round_trips.follow(Some(true), at(900));
        assert_eq!(round_trips.samples, [Duration::from_millis(400)]);
        // A serial line has no acknowledgments.
        round_trips.strike(at(1_000));
        round_trips.follow(None, at(1_000));
        assert_eq!((round_trips.struck, round_trips.samples.len()), (None, 1));
    }
}
