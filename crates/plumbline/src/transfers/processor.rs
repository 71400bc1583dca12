//! The CPU time of one task among others of its thread.
//!
//! Between two readings of the thread's CPU clock other tasks have run, and to read it around each
//! turn costs more than many a turn. So each turn is taken by the clock of the run, which costs
//! little, and the sum is cut to what the whole thread has used meanwhile: both are never less than
//! what the task has used, and they differ from it only where the thread was interrupted in the
//! midst of a turn and others of its tasks had work too.

use os::clock::thread_cpu_time;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Runs `future`, which stays on this thread, and returns the CPU time of its turns too.
pub(crate) async fn timed<F: Future>(future: F) -> (F::Output, Duration) {
    let mut future = pin!(future);
    let (before, mut spent) = (thread_cpu_time(), Duration::ZERO);
    let output = poll_fn(|context| {
        let began = Instant::now();
        let polled = future.as_mut().poll(context);
        spent += began.elapsed();
        polled
    });
    let output = output.await;
    (output, spent.min(thread_cpu_time().saturating_sub(before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() {
        let before = thread_cpu_time();
        while thread_cpu_time() - before < Duration::from_millis(2) {}
    }

    #[test]
    fn the_work_of_a_task_is_its_own_and_not_that_of_its_neighbour() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mine, idle) = runtime.block_on(async {
            let busy = timed(async {
                for _ in 0..3 {
                    work();
                    tokio::task::yield_now().await;
                }
            });
            let idle = timed(async {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
            let ((_, mine), (_, idle)) = tokio::join!(busy, idle);
            (mine, idle)
        });
        assert!(mine >= Duration::from_millis(6) && idle < mine, "{mine:?} {idle:?}");
    }
}
