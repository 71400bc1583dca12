//! Starves a processor: a real-time thread keeps it busy for a part of each period, or ordinary
//! threads keep it busy all the time.
//!
//! Another program on this processor then waits in the run queue, as it would with competing
//! programs of higher priority.

use super::setup::Busy;
use super::stop::Stop;
use anyhow::{Context, Result};
use os::schedule;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Real-time priority of the busy thread: above every ordinary program, below the relay.
const PRIORITY: u8 = 5;

/// Keeps the processor busy until the returned value is dropped.
pub(super) fn start(processor: usize, busy: Busy) -> Result<Stop> {
    let (sender, receiver) = mpsc::channel();
    let stop = Stop::start(move |stop| {
        let set = schedule::pin_to(processor).and_then(|()| schedule::set_real_time(PRIORITY));
        let is_set = set.is_ok();
        // The caller waits for this result.
        _ = sender.send(set);
        while is_set && !stop.is_set() {
            let until = Instant::now() + Duration::from_millis(busy.busy_ms);
            while Instant::now() < until && !stop.is_set() {
                std::hint::spin_loop();
            }
            thread::sleep(Duration::from_millis(busy.idle_ms.max(1)));
        }
    });
    receiver.recv()?.context("no real-time thread to starve a processor with")?;
    Ok(stop)
}

/// Keeps the processor busy with `count` ordinary threads until the returned values are dropped.
pub(super) fn start_loops(processor: usize, count: u64) -> Result<Vec<Stop>> {
    let start_one = || {
        let (sender, receiver) = mpsc::channel();
        let stop = Stop::start(move |stop| {
            let set = schedule::pin_to(processor).and_then(|()| schedule::set_nice(0));
            let is_set = set.is_ok();
            // The caller waits for this result.
            _ = sender.send(set);
            while is_set && !stop.is_set() {
                std::hint::spin_loop();
            }
        });
        receiver.recv()?.context("no thread to keep a processor busy with")?;
        Ok(stop)
    };
    (0..count).map(|_| start_one()).collect()
}
