//! CPU time of one task among others of the same thread.
//!
//! Other tasks run between two readings of the thread's CPU clock, and reading this clock at each
//! poll would cost more than many polls. Therefore each poll is timed by the monotonic clock, which
//! is cheap, and the sum is limited to the CPU time of the whole thread in the same period.
//!
//! Neither the sum nor the limit is less than the CPU time of the task. The result is too large
//! only if the thread was preempted during a poll and other tasks of the thread also ran.

use os::clock::thread_cpu_time;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Runs `future` on this thread. Returns its output and the CPU time of its polls.
pub async fn timed<F: Future>(future: F) -> (F::Output, Duration) {
    let mut future = pin!(future);
    let thread_time_before = thread_cpu_time();
    let mut poll_time = Duration::ZERO;
    let output = poll_fn(|context| {
        let began = Instant::now();
        let poll_result = future.as_mut().poll(context);
        poll_time += began.elapsed();
        poll_result
    });
    let output = output.await;
    (output, poll_time.min(thread_cpu_time().saturating_sub(thread_time_before)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() {
        let before = thread_cpu_time();
        while thread_cpu_time() - before < Duration::from_millis(2) {}
    }

    #[test]
    fn the_cpu_time_of_a_task_excludes_that_of_other_tasks() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (busy, idle) = runtime.block_on(async {
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
            let ((_, busy), (_, idle)) = tokio::join!(busy, idle);
            (busy, idle)
        });
        assert!(busy >= Duration::from_millis(6) && idle < busy, "{busy:?} {idle:?}");
    }
}
