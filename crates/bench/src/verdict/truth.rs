//! The ground truth: the waiting times of a user, measured by the bench's own clients over the
//! kernel's TCP. No value comes from `plumb`.

mod ftp;
mod telnet_client;
mod tftp;

use super::case::{Case, Service};
use super::network::SERVER;
use super::resolver;
use super::setup::Setup;
use super::trial_servers::port_of;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Kind of time that a user waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum UserWait {
    /// From the name lookup to the first usable prompt; for FTP to the reply 230.
    Login,
    Echo,
    /// An echo while a long output arrives.
    EchoUnderLoad,
    /// A short answer to a command.
    Answer,
    Screenful,
    /// Transfer of the largest file, from EPSV to the final reply; for a login a long output.
    Transfer,
    /// Transfer of the file that `plumb` only predicts.
    Large,
}

impl UserWait {
    pub(super) const ALL: [Self; 7] = [
        Self::Login,
        Self::Echo,
        Self::EchoUnderLoad,
        Self::Answer,
        Self::Screenful,
        Self::Transfer,
        Self::Large,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Echo => "echo",
            Self::EchoUnderLoad => "echo under load",
            Self::Answer => "short answer",
            Self::Screenful => "screenful",
            Self::Transfer => "transfer",
            Self::Large => "large transfer",
        }
    }

    /// Returns the time below which no user notices a difference, ms (TM-233 section 3.1 for an
    /// echo).
    pub(super) const fn unnoticed_ms(self) -> f64 {
        match self {
            Self::Echo | Self::Answer | Self::Screenful => 20.0,
            Self::EchoUnderLoad => 50.0,
            Self::Transfer | Self::Large | Self::Login => 100.0,
        }
    }

    /// Parses the name of a waiting time as printed in a report.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["echo", "key"]) {
            let is_loaded = has(&["beside", "load", "while", "during"]);
            return Some(if is_loaded { Self::EchoUnderLoad } else { Self::Echo });
        }
        match () {
            () if has(&["screen"]) => Some(Self::Screenful),
            () if has(&["answer"]) => Some(Self::Answer),
            () if has(&["transfer", "file", "download", "upload"]) => Some(Self::Transfer),
            () if has(&["prompt", "login", "connect"]) => Some(Self::Login),
            () => None,
        }
    }
}

/// One measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Time {
    pub(super) ms: f64,
    /// Whether the time limit was reached, so that the time is a lower bound.
    pub(super) timed_out: bool,
}

/// The times of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Truth {
    pub(super) times: BTreeMap<UserWait, Time>,
}

/// Maximum wait for a single event.
const LIMIT: Duration = Duration::from_secs(15);
/// Total time after which no further transfer or screen is measured.
const MEASUREMENT_TIME_LIMIT: Duration = Duration::from_secs(4);

impl Truth {
    /// Uses the service like a user, in the network namespace of the calling thread, and measures
    /// the waiting times. `is_random` is `true` for a cause that affects packets or replies at
    /// random; the results are then means instead of medians.
    pub(super) fn measure(case: &Case, setup: &Setup, is_random: bool) -> Result<Self> {
        let mut truth = Self::default();
        let started_at = Instant::now();
        if case.by_name {
            let timeout = setup.second.query_timeout_s.map_or(LIMIT, Duration::from_secs);
            resolver::resolve_server(timeout)?;
        }
        let run = Run { case, setup, started_at, is_random };
        match case.service {
            Service::Login | Service::LoginOwnTcp => telnet_client::measure(&run, &mut truth)?,
            Service::FtpGet | Service::FtpPut => ftp::measure(&run, &mut truth)?,
            Service::TftpGet => tftp::measure(&run, &mut truth)?,
        }
        Ok(truth)
    }

    /// Returns the time by which the waiting time in `without` is shorter. `timed_out` is set if
    /// one of the two times reached its limit.
    pub(super) fn gain(&self, without: &Self, user_wait: UserWait) -> Option<Time> {
        let with = self.times.get(&user_wait)?;
        let without = without.times.get(&user_wait)?;
        let timed_out = with.timed_out || without.timed_out;
        Some(Time { ms: with.ms - without.ms, timed_out })
    }

    fn set(&mut self, user_wait: UserWait, times: &[f64], is_random: bool) {
        let ms = if is_random { mean(times) } else { median(times) };
        if let Some(ms) = ms {
            self.times.insert(user_wait, Time { ms, timed_out: false });
        }
    }

    fn set_limit(&mut self, user_wait: UserWait) {
        self.times.insert(user_wait, Time { ms: millis(LIMIT), timed_out: true });
    }
}

/// Error: no answer arrived within the time limit.
#[derive(Clone, Copy, Debug)]
struct NoAnswer;

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no answer for {} s", LIMIT.as_secs())
    }
}

impl std::error::Error for NoAnswer {}

/// Converts the error [`NoAnswer`] to `None`.
fn none_if_silent<T>(result: Result<T>) -> Result<Option<T>> {
    let is_silent = |error: &anyhow::Error| {
        let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let is_of_a_socket =
            matches!(io, Some(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
        error.is::<NoAnswer>() || is_of_a_socket
    };
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_silent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Inputs of a client.
struct Run<'a> {
    case: &'a Case,
    setup: &'a Setup,
    started_at: Instant,
    is_random: bool,
}

impl Run<'_> {
    /// Connects to the service.
    fn connect(&self) -> Result<TcpStream> {
        let address: SocketAddr = format!("{SERVER}:{}", port_of(self.case.service)).parse()?;
        let stream = TcpStream::connect_timeout(&address, LIMIT).context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mean(times: &[f64]) -> Option<f64> {
    (!times.is_empty()).then(|| times.iter().sum::<f64>() / times.len() as f64)
}

/// Returns the median of `times`: for an even number the smaller of the two middle values.
pub(super) fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_quantity_is_recognized_in_the_text_of_a_report() {
        let user_waits = [
            ("the way to the prompt", UserWait::Login),
            ("an echo", UserWait::Echo),
            ("an echo beside other data", UserWait::EchoUnderLoad),
            ("echo under load", UserWait::EchoUnderLoad),
            ("a short answer", UserWait::Answer),
            ("a screenful", UserWait::Screenful),
            ("the transfer", UserWait::Transfer),
            ("the download", UserWait::Transfer),
        ];
        for (text, user_wait) in user_waits {
            assert_eq!(UserWait::from_name(text), Some(user_wait), "{text}");
        }
        assert_eq!(UserWait::from_name(""), None);
    }

    #[test]
    fn a_gain_is_the_difference_of_two_runs_and_a_limit_makes_it_a_lower_bound() {
        let mut with = Truth::default();
        with.set(UserWait::Echo, &[30.0, 20.0, 400.0], false);
        with.set_limit(UserWait::Screenful);
        let mut without = Truth::default();
        without.set(UserWait::Echo, &[10.0], false);
        without.set(UserWait::Screenful, &[40.0], false);
        assert_eq!(with.gain(&without, UserWait::Echo), Some(Time { ms: 20.0, timed_out: false }));
        let gain = with.gain(&without, UserWait::Screenful).unwrap();
        assert!(gain.timed_out && gain.ms > 14_000.0);
        assert_eq!(with.gain(&without, UserWait::Transfer), None);
    }
}
