//! Goodput of bulk transfers over lossy paths, and over a link that several flows share.
//!
//! The definitions are those of smoltcp's published simulation, so that the results are comparable:
//!
//! - The time of a flow includes opening its connection, and the sender always has data.
//! - Each datagram has the same loss probability in both directions. The MTU is 1500 bytes.
//! - Both ends have buffers of the same size.
//! - The run ends when the last flow has delivered its bytes. The other flows continue to send
//!   until then.
//! - Goodput is the total number of bytes received, divided by the duration of the run.

use crate::dumbbell::{Bottleneck, Dumbbell, Path};
use crate::faults::Faults;
use crate::host::{Host, seed_of};
use crate::side::Side;
use crate::world::Stuck;
use net::Cx;
use net::application::Stream;
use net::link::{Datagram, Link};
use net::meter::Costs;
use net::packet::Pool;
use net::rng::Rng;
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{Congestion, Profile, ReceiveWindow, SendLimit};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

const MTU_BYTES: usize = 1500;
const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PORT: u16 = 20;
/// Time limit of a run in virtual time. A run exceeds it only if no more data gets through.
const LIMIT: Duration = Duration::from_secs(1_000_000);
static ZEROS: [u8; 65_536] = [0; 65_536];

/// Parameters of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Path of each flow.
    pub paths: Vec<Path>,
    /// The shared link.
    pub bottleneck: Bottleneck,
    /// Initial size of the sender's and the receiver's buffer, in bytes. If it is less than
    /// `buffer_bytes`, the buffers grow.
    pub buffer_start_bytes: usize,
    /// Maximum size of the sender's and the receiver's buffer, in bytes.
    pub buffer_bytes: usize,
    /// Number of bytes that each flow delivers.
    pub flow_bytes: u64,
    /// Congestion control of the senders.
    pub congestion: Congestion,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Duration of the run in virtual time.
    pub elapsed: Duration,
    /// Number of bytes delivered by each flow.
    pub received: Vec<u64>,
    /// Number of datagrams that the shared link carried.
    pub carried: u64,
    /// Number of datagrams that the shared link dropped.
    pub dropped: u64,
}

/// Reason why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No event was left before the end of the run.
    Stuck(Stuck),
    /// A connection ended at this time, before all bytes of its flow were delivered.
    Ended(Instant),
    /// The run exceeded the time limit.
    TooLong,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::Ended(at) => write!(f, "a connection has ended at {at}"),
            Self::TooLong => write!(f, "the run has not ended after {} s", LIMIT.as_secs()),
        }
    }
}

impl std::error::Error for Failure {}

impl Trial {
    /// Creates a trial with one flow of 10 MiB over a path with the given round-trip time and loss.
    #[must_use]
    pub fn lossy(round_trip: Duration, loss_ppm: u32, buffer_bytes: usize, seed: u64) -> Self {
        let faults = Faults { loss_ppm, ..Faults::default() };
        let path = Path { delay_to_server: round_trip / 2, delay_to_user: round_trip / 2, faults };
        let flow_bytes = 10 << 20;
        Self {
            paths: vec![path],
            bottleneck: Bottleneck::NONE,
            buffer_start_bytes: buffer_bytes,
            buffer_bytes,
            flow_bytes,
            congestion: Congestion::default(),
            seed,
        }
    }

    /// Creates a trial with one flow of `flow_bytes` on a link of `rate_bps`, with a queue of half
    /// the bandwidth-delay product. The buffers grow from the first to the second size in
    /// `buffers_bytes`.
    #[must_use]
    pub fn alone(
        round_trip: Duration,
        rate_bps: u64,
        buffers_bytes: [usize; 2],
        flow_bytes: u64,
    ) -> Self {
        let path_bytes = u128::from(rate_bps) * round_trip.as_nanos() / 8_000_000_000;
        let queue_bytes = usize::try_from(path_bytes / 2).unwrap_or(usize::MAX);
        let [buffer_start_bytes, buffer_bytes] = buffers_bytes;
        Self {
            bottleneck: Bottleneck { rate_bps: Some(rate_bps), queue_bytes },
            buffer_start_bytes,
            flow_bytes,
            ..Self::lossy(round_trip, 0, buffer_bytes, 1)
        }
    }

    /// Creates a trial with flows that share a link of 200 Mbit/s with a queue of 64 KiB. The delay
    /// of each direction is random, so that every round-trip time is between `min` and `max`.
    #[must_use]
    pub fn shared(flows: usize, [min, max]: [Duration; 2], flow_bytes: u64, seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let one_way_ns = |round_trip: Duration| u64::try_from(round_trip.as_nanos() / 2);
        let min_delay_ns = one_way_ns(min).unwrap_or(u64::MAX);
        let delay_range = one_way_ns(max).unwrap_or(u64::MAX).saturating_sub(min_delay_ns);
        let mut delay =
            || Duration::from_nanos(min_delay_ns + rng.below(delay_range.saturating_add(1)));
        let path = |_| Path {
            delay_to_server: delay(),
            delay_to_user: delay(),
            faults: Faults::default(),
        };
        Self {
            paths: (0..flows).map(path).collect(),
            bottleneck: Bottleneck { rate_bps: Some(200_000_000), queue_bytes: 64 << 10 },
            buffer_start_bytes: 256 << 10,
            buffer_bytes: 256 << 10,
            flow_bytes,
            congestion: Congestion::default(),
            seed,
        }
    }

    /// Runs the trial.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub fn run(&self) -> Result<Outcome, Failure> {
        let mut dumbbell = Dumbbell::new(self.bottleneck, self.seed);
        for (number, path) in (0..).zip(&self.paths) {
            let (user, server) = self.hosts(number);
            dumbbell.add(user, server, *path);
        }
        let mut failure = None;
        let drive_result = dumbbell.drive(|dumbbell| {
            let mut pairs = dumbbell.pairs.iter();
            let has_ended = pairs.any(|pair| pair.user.application.is_over());
            failure = if has_ended {
                Some(Failure::Ended(dumbbell.now()))
            } else if dumbbell.now() > Instant::ZERO + LIMIT {
                Some(Failure::TooLong)
            } else {
                None
            };
            let mut pairs = dumbbell.pairs.iter();
            failure.is_some()
                || pairs.all(|pair| pair.server.application.stream.received >= self.flow_bytes)
        });
        drive_result.map_err(Failure::Stuck)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let received = dumbbell.pairs.iter().map(|pair| pair.server.application.stream.received);
        let (carried, dropped) = dumbbell.carried_and_dropped();
        let elapsed = dumbbell.now() - Instant::ZERO;
        Ok(Outcome { elapsed, received: received.collect(), carried, dropped })
    }

    fn hosts(&self, number: u64) -> (Host<TcpStreamApp<Source>>, Host<TcpStreamApp<Sink>>) {
        let start = self.buffer_start_bytes;
        let limit = self.buffer_bytes;
        let profile = Profile {
            receive_window: ReceiveWindow::Tuned { start, limit },
            send_limit: SendLimit::Tuned { start, limit },
            congestion: self.congestion,
            ..Profile::BULK
        };
        let remote = SocketAddr::new(SERVER.into(), PORT);
        let active = Opening::Active { local: USER.into(), remote };
        let source = TcpStreamApp::new(Source, active, profile);
        let sink = TcpStreamApp::new(Sink::default(), Opening::Passive { port: PORT }, profile);
        let seed = |side| seed_of(self.seed.wrapping_add(number << 32), side);
        let link = || Link::Datagram(Datagram::new(MTU_BYTES));
        let settings = |address| {
            // A whole window of data may be queued.
            let packets = Pool::DEFAULT_LIMIT.max(2 * self.buffer_bytes / MTU_BYTES);
            Settings { address, prefix_len: 24, packets, ..Settings::default() }
        };
        let costs = Costs::default();
        let user = Host::new(link(), settings(USER), costs, seed(Side::User), source);
        let server = Host::new(link(), settings(SERVER), costs, seed(Side::Server), sink);
        (user, server)
    }
}

impl Outcome {
    /// Returns the goodput of all flows together, in bytes per second.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.received.iter().sum::<u64>() as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns Jain's fairness index: 1 if all of the n flows received the same number of bytes,
    /// 1/n if one flow received all of them.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let (sum, squares) = self.received.iter().fold((0.0, 0.0), |(sum, squares), bytes| {
            let bytes = *bytes as f64;
            (sum + bytes, squares + bytes * bytes)
        });
        sum * sum / (self.received.len() as f64 * squares)
    }
}

/// A sender that always has data.
#[derive(Debug)]
struct Source;

impl Stream for Source {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, _data: &[u8], _cx: &mut Cx<'_>) {}

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &ZEROS
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

/// A receiver that counts and discards data.
#[derive(Debug, Default)]
struct Sink {
    received: u64,
}

impl Stream for Sink {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        self.received += data.len() as u64;
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        &[]
    }

    fn sent(&mut self, _count: usize) {}

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn short_path_trial(loss_ppm: u32, buffer_bytes: usize, seed: u64) -> Trial {
        let flow_bytes = 200_000;
        Trial { flow_bytes, ..Trial::lossy(ROUND_TRIP, loss_ppm, buffer_bytes, seed) }
    }

    #[test]
    fn without_loss_at_most_one_buffer_arrives_per_round_trip() {
        let goodput = short_path_trial(0, 8_192, 1).run().unwrap().goodput();
        assert!(goodput <= 81_920.0 && goodput > 40_000.0, "{goodput}");
    }

    /// Returns the goodput with growing buffers, and the goodput with buffers of the maximum size
    /// from the start.
    fn growing_and_large(rate_bps: u64, limit_bytes: usize, flow_bytes: u64) -> [f64; 2] {
        [16 << 10, limit_bytes].map(|start_bytes| {
            let buffers_bytes = [start_bytes, limit_bytes];
            let trial = Trial::alone(ROUND_TRIP, rate_bps, buffers_bytes, flow_bytes);
            trial.run().unwrap().goodput()
        })
    }

    #[test]
    fn tuned_buffers_fill_a_link_of_ten_megabits_per_second() {
        let [growing, large] = growing_and_large(10_000_000, 1 << 22, 25_000_000);
        assert!(growing >= 0.95 * large, "{growing} {large}");
        assert!(growing * 8.0 >= 0.85 * 10e6, "{growing}");
    }

    #[test]
    fn tuned_buffers_fill_a_link_of_a_gigabit_per_second() {
        let [short, long] = [150_000_000, 300_000_000].map(|flow_bytes| {
            let buffers_bytes = [16 << 10, 0xFFFF << 9];
            let trial = Trial::alone(ROUND_TRIP, 1_000_000_000, buffers_bytes, flow_bytes);
            trial.run().unwrap().elapsed.as_secs_f64()
        });
        let bits_per_s = 150e6 * 8.0 / (long - short);
        assert!(bits_per_s >= 0.85e9, "{bits_per_s}");
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome_to_the_nanosecond() {
        let trial = short_path_trial(50_000, 16_384, 7);
        assert_eq!(trial.run().unwrap(), trial.run().unwrap());
    }

    #[test]
    fn a_shared_link_carries_no_more_than_its_rate() {
        let trial = Trial::shared(4, [ROUND_TRIP / 2, ROUND_TRIP], 500_000, 3);
        let outcome = trial.run().unwrap();
        assert!(outcome.goodput() * 8.0 <= 200e6, "{outcome:?}");
        assert!(outcome.received.iter().all(|bytes| *bytes >= 500_000), "{outcome:?}");
    }

    #[test]
    fn fairness_is_one_for_equal_rates_and_one_nth_for_a_single_flow() {
        let outcome = |received: [u64; 4]| Outcome {
            elapsed: Duration::from_secs(1),
            received: received.into(),
            carried: 0,
            dropped: 0,
        };
        assert_eq!(outcome([5; 4]).fairness(), 1.0);
        assert_eq!(outcome([9, 0, 0, 0]).fairness(), 0.25);
    }
}
