//! Processor affinity, scheduling class and processor time of threads and processes.
//!
//! Measurements need these settings: on a shared machine, other programs may preempt the measured
//! thread, and their time is then included in the result. Programs that a thread starts later
//! inherit its settings.

use net::time::Duration;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// Returns the numbers of the processors on which the calling thread may run.
///
/// # Errors
///
/// Returns the error of `sched_getaffinity(2)`.
pub fn processors() -> io::Result<Vec<usize>> {
    let cpu_set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| cpu_set.is_set(*processor)).collect())
}

/// Pins the calling thread to `processor`.
///
/// # Errors
///
/// Returns EINVAL if the processor does not exist or may not be used.
pub fn pin_to(processor: usize) -> io::Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}

/// Pins all current threads of the process `id` to `processors`.
///
/// # Errors
///
/// Returns ESRCH if the process has ended; EINVAL if a processor number is too large, or if none of
/// the processors may be used; EPERM if the process belongs to another user.
pub fn pin_process_to(id: u32, processors: &[usize]) -> io::Result<()> {
    if processors.iter().any(|processor| *processor >= CpuSet::MAX_CPU) {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    processors.iter().for_each(|processor| set.set(*processor));
    threads_of(id)?.into_iter().try_for_each(|thread| Ok(sched_setaffinity(Some(thread), &set)?))
}

/// Sets all current threads of the process `id` to real-time scheduling, like [`set_real_time`].
///
/// # Errors
///
/// Returns ESRCH if the process has ended; EPERM without the privilege; EINVAL for an invalid
/// priority.
pub fn set_process_real_time(id: u32, priority: u8) -> io::Result<()> {
    threads_of(id)?.into_iter().try_for_each(|thread| {
        set_class_of(thread.as_raw_nonzero().get(), libc::SCHED_FIFO, priority)
    })
}

fn threads_of(id: u32) -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir(format!("/proc/{id}/task"))?;
    let number = |name: &OsStr| name.to_str()?.parse().ok().and_then(Pid::from_raw);
    entries.map(|entry| number(&entry?.file_name()).ok_or(Errno::SRCH.into())).collect()
}

/// Sets the calling thread to real-time scheduling (`SCHED_FIFO`) with `priority` 1 to 99; it runs
/// before every ordinary thread.
///
/// The thread then keeps its processor until it waits, so busy loops must be bounded in time.
///
/// # Errors
///
/// Returns EPERM without the privilege; EINVAL for an invalid priority.
pub fn set_real_time(priority: u8) -> io::Result<()> {
    set_class(libc::SCHED_FIFO, priority)
}

/// Sets the calling thread back to ordinary scheduling (`SCHED_OTHER`).
///
/// # Errors
///
/// Returns EPERM without the privilege.
pub fn set_ordinary() -> io::Result<()> {
    set_class(libc::SCHED_OTHER, 0)
}

/// Sets the nice value of the calling thread (setpriority(2)). A thread with -20 gets the largest
/// share of the processor, and one with 19 the smallest.
///
/// # Errors
///
/// Returns EACCES if the value is lowered without the privilege.
pub fn set_nice(nice: i8) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, nice.into())?)
}

fn set_class(class: libc::c_int, priority: u8) -> io::Result<()> {
    set_class_of(0, class, priority)
}

/// Sets the scheduling class of `thread`; 0 is the calling thread.
fn set_class_of(thread: libc::pid_t, class: libc::c_int, priority: u8) -> io::Result<()> {
    // SAFETY: all fields are integers, so all zeros are a valid value. musl has further fields.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority.into();
    // SAFETY: the struct is initialized and lives through the call, which only reads it.
    match unsafe { libc::sched_setscheduler(thread, class, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the time that the runnable threads of this process have waited for a processor, or
/// `None` if the kernel does not record that time.
///
/// The times of all live threads are added, so two threads that wait at the same time count twice.
/// Threads that have ended are not counted: the difference of two readings is a lower bound.
#[must_use]
pub fn run_queue_wait() -> Option<Duration> {
    let accounts = fs::read_dir("/proc/self/task").ok()?.filter_map(|thread| {
        let account = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        parse_waiting_nanos(&account)
    });
    Some(Duration::from_nanos(accounts.reduce(u64::saturating_add)?))
}

/// Returns the time that the calling thread has waited for a processor while runnable, or `None` if
/// the kernel does not record that time.
#[must_use]
pub fn thread_run_queue_wait() -> Option<Duration> {
    thread_local! {
        // Opened only once per thread, so that a reading during an echo measurement takes little
        // time.
        static SCHEDSTAT: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    SCHEDSTAT.with(|account| {
        let mut text = [0; SCHEDSTAT_LEN_MAX];
        let len = account.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(text.get(..len)?).ok()?;
        parse_waiting_nanos(text).map(Duration::from_nanos)
    })
}

/// Maximum length of a schedstat file: three 64-bit numbers in decimal, with separators.
const SCHEDSTAT_LEN_MAX: usize = 64;

/// Parses the second of the three numbers in a thread's schedstat: nanoseconds on a run queue.
fn parse_waiting_nanos(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the processor time of all live threads of the process `id`, or `None` if the process has
/// ended or the kernel does not record the time.
#[must_use]
pub fn processor_time(id: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?;
    // Skip threads that end between the listing and the reading.
    let accounts = threads.filter_map(|thread| {
        let account = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        parse_running_nanos(&account)
    });
    Some(Duration::from_nanos(accounts.reduce(u64::saturating_add)?))
}

/// Parses the first of the three numbers in a thread's schedstat: nanoseconds of run time.
fn parse_running_nanos(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    proptest! {
        #[test]
        fn both_times_of_schedstat_are_parsed_back(
            running: u64, waiting: u64, rest in "( .{0,20})?"
        ) {
            let text = format!("{running} {waiting}{rest}");
            prop_assert_eq!(parse_running_nanos(&text), Some(running));
            prop_assert_eq!(parse_waiting_nanos(&text), Some(waiting));
        }
    }

    #[test]
    fn the_run_time_of_a_thread_is_the_first_number_of_schedstat() {
        assert_eq!(parse_running_nanos("527519 12 1\n"), Some(527_519));
        assert_eq!(parse_running_nanos(""), None);
    }

    #[test]
    fn the_wait_for_a_processor_is_the_second_number_of_schedstat() {
        assert_eq!(parse_waiting_nanos("527519 12 1\n"), Some(12));
        assert_eq!(parse_waiting_nanos("527519"), None);
    }

    #[test]
    fn the_wait_of_this_process_includes_that_of_each_of_its_threads() {
        // The sum over the process is read second, so it cannot be smaller.
        let own = thread_run_queue_wait().unwrap();
        let of_all = run_queue_wait().unwrap();
        assert!(of_all >= own, "{of_all:?} and {own:?}");
    }

    #[test]
    fn only_the_calling_thread_is_pinned() {
        let previous_processors = processors().unwrap();
        let first_processor = previous_processors[0];
        let pin = move || pin_to(first_processor).and_then(|()| processors());
        let pinned_thread = thread::spawn(pin);
        assert_eq!(pinned_thread.join().unwrap().unwrap(), [first_processor]);
        assert_eq!(processors().unwrap(), previous_processors);
    }

    #[test]
    fn a_processor_that_does_not_exist_is_refused() {
        assert!(pin_to(usize::MAX).is_err());
    }

    #[test]
    fn a_process_that_has_exited_cannot_be_pinned() {
        assert!(pin_process_to(u32::MAX, &[0]).is_err());
        assert!(pin_process_to(std::process::id(), &[usize::MAX]).is_err());
    }

    #[test]
    fn a_priority_that_does_not_exist_is_refused() {
        assert!(set_real_time(200).is_err());
    }

    #[test]
    fn a_thread_can_be_set_back_to_ordinary_scheduling_and_a_higher_nice_value() {
        let thread = thread::spawn(|| set_ordinary().and_then(|()| set_nice(19)));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn an_exited_program_has_no_processor_time() {
        assert_eq!(processor_time(u32::MAX), None);
        assert!(processor_time(std::process::id()).is_some());
    }
}
