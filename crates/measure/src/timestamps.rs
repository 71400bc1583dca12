//! Stamps of the meter, and the time between two of them.
//!
//! A stamp contains the values of all accounts of the meter at one moment. The time between two
//! stamps is exactly the sum of the increases of the accounts, so it shows the time spent in each
//! layer. A timestamp from another clock would not show this. Time that is charged to no layer of
//! plumb is waiting: for the remote host, the network or a CPU.

use super::nanoseconds::nanos;
use net::Cx;
use net::meter::{Account, Quantity, Work};
use net::time::Duration;
use os::clock::TickRate;
use records::measurement::EchoSample;
use records::{Layer, LayerTime};

/// Values of all accounts of the meter at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    accounts: [u64; Account::COUNT],
    line_bytes: u64,
    data_segments: u64,
}

impl Stamp {
    /// Creates a stamp of the current moment.
    pub(crate) fn now(cx: &mut Cx<'_>) -> Self {
        cx.meter.settle();
        Self {
            accounts: cx.meter.accounts(),
            line_bytes: cx.meter.units(Work::LineByte),
            data_segments: cx.meter.distribution(Quantity::SegmentBytesIn).count(),
        }
    }

    /// Returns the time since `earlier`.
    pub(crate) fn time_since(&self, earlier: &Self) -> SpentTime {
        let mut ticks = self.accounts;
        for (now, before) in ticks.iter_mut().zip(earlier.accounts) {
            *now = now.saturating_sub(before);
        }
        SpentTime {
            ticks,
            line_bytes: self.line_bytes.saturating_sub(earlier.line_bytes),
            data_segments: self.data_segments.saturating_sub(earlier.data_segments),
        }
    }
}

/// Time between two stamps, by account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpentTime {
    ticks: [u64; Account::COUNT],
    /// Bytes sent and received on a serial line.
    pub(crate) line_bytes: u64,
    /// Segments with data received by the user-space TCP.
    pub(crate) data_segments: u64,
}

impl SpentTime {
    /// Returns the sum of `self` and `other`, account by account.
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        for (sum, more) in self.ticks.iter_mut().zip(other.ticks) {
            *sum += more;
        }
        self.line_bytes += other.line_bytes;
        self.data_segments += other.data_segments;
        self
    }

    /// Returns the total time in ticks.
    pub(crate) fn total_ticks(&self) -> u64 {
        self.ticks.iter().sum()
    }

    fn ticks(&self, account: Account) -> u64 {
        self.ticks.get(account as usize).copied().unwrap_or(0)
    }
}

/// Factors for the conversion of ticks and bytes to nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Duration of one tick of the meter's clock.
    pub(crate) tick: TickRate,
    /// Rate of a serial line in bits per second, with 10 bits per byte.
    pub(crate) line_bps: Option<u32>,
}

/// Bits per byte on a serial line: start bit, eight data bits, stop bit.
const BITS_PER_BYTE: u64 = 10;

impl Rates {
    /// Returns the total of `spent` in nanoseconds.
    pub(crate) fn total_ns(&self, spent: &SpentTime) -> u64 {
        self.tick.to_nanos(spent.total_ticks())
    }

    /// Returns the resolution of the meter's clock, rounded up to whole nanoseconds.
    pub(crate) fn resolution_ns(&self) -> u64 {
        1_000_000_000_u64.div_ceil(self.tick.ticks_per_second().max(1))
    }

    /// Returns the time charged to one account, in nanoseconds.
    pub(crate) fn account_ns(&self, spent: &SpentTime, account: Account) -> u64 {
        self.tick.to_nanos(spent.ticks(account))
    }

    /// Returns a copy of `spent` in which up to `time` is moved from account `from` to account
    /// `to`.
    pub(crate) fn with_time_moved(
        &self,
        spent: &SpentTime,
        time: Duration,
        from: Account,
        to: Account,
    ) -> SpentTime {
        let ticks = u128::from(self.tick.ticks_per_second()) * time.as_nanos() / 1_000_000_000;
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX).min(spent.ticks(from));
        let mut adjusted = *spent;
        for (account, is_added) in [(from, false), (to, true)] {
            if let Some(sum) = adjusted.ticks.get_mut(account as usize) {
                *sum = if is_added { *sum + ticks } else { *sum - ticks };
            }
        }
        adjusted
    }

    /// Returns the time of each of plumb's layers, from the lowest to the highest. Layers without
    /// time are omitted, for example plumb's TCP if the kernel's is used.
    pub(crate) fn parts(&self, spent: &SpentTime) -> Vec<LayerTime> {
        let line = self.line_bps.map(|rate_bps| {
            let bits = u128::from(spent.line_bytes * BITS_PER_BYTE);
            let ns = bits * 1_000_000_000 / u128::from(rate_bps.max(1));
            LayerTime { layer: Layer::Line, ns: u64::try_from(ns).unwrap_or(u64::MAX) }
        });
        let charged = LAYERS.into_iter().filter(|(account, _)| spent.ticks(*account) > 0);
        let charged = charged
            .map(|(account, layer)| LayerTime { layer, ns: self.account_ns(spent, account) });
        line.into_iter().chain(charged).collect()
    }

    /// Returns a sample of an echo that took the time `spent`. During `run_queue_wait`, a part of
    /// that time, the process waited for a CPU.
    pub(crate) fn echo_sample(
        &self,
        spent: &SpentTime,
        run_queue_wait: Option<Duration>,
    ) -> EchoSample {
        EchoSample { total_ns: self.total_ns(spent), parts: self.parts_with(spent, run_queue_wait) }
    }

    /// Returns the time by layer, with the wait for a CPU as a separate part. A wait in the middle
    /// of a layer's work is charged to that layer, so the separate part is at most the time charged
    /// to no layer.
    pub(crate) fn parts_with(
        &self,
        spent: &SpentTime,
        run_queue_wait: Option<Duration>,
    ) -> Vec<LayerTime> {
        let run_queue_wait = run_queue_wait.map(|run_queue_wait| LayerTime {
            layer: Layer::RunQueue,
            ns: nanos(run_queue_wait).min(self.account_ns(spent, Account::Outside)),
        });
        self.parts(spent).into_iter().chain(run_queue_wait).collect()
    }
}

/// Accounts of plumb's layers, from the lowest to the highest. Waiting belongs to no layer.
pub(crate) const LAYERS: [(Account, Layer); 7] = [
    (Account::Interrupt, Layer::InterruptOrSystemCall),
    (Account::Link, Layer::Link),
    (Account::Internet, Layer::Internet),
    (Account::TcpFixed, Layer::TcpFixed),
    (Account::TcpByte, Layer::TcpPerByte),
    (Account::Telnet, Layer::Telnet),
    (Account::Terminal, Layer::Terminal),
];

#[cfg(test)]
mod tests {
    use super::*;
    use net::meter::{Clock, Meter};
    use net::rng::Rng;
    use net::time::Instant;
    use records::statistics::split;

    #[test]
    fn the_layers_and_the_remainder_sum_to_the_time_between_two_stamps() {
        let mut meter = Meter::new(Clock::Counter(os::clock::counter()));
        let mut rng = Rng::from_seed(1);
        let mut cx = Cx { now: Instant::ZERO, rng: &mut rng, meter: &mut meter };
        let before = Stamp::now(&mut cx);
        for account in [Account::Telnet, Account::Interrupt, Account::Outside, Account::Terminal] {
            cx.meter.enter(account);
        }
        let spent = Stamp::now(&mut cx).time_since(&before);
        let rates = Rates { tick: TickRate::calibrate(), line_bps: None };
        let sample = rates.echo_sample(&spent, Some(Duration::from_nanos(1)));
        let layers = split(sample.total_ns, &sample.parts);
        assert_eq!(layers.iter().map(|part| part.ns).sum::<u64>(), rates.total_ns(&spent));
    }

    #[test]
    fn at_most_the_time_of_an_account_is_moved_to_another() {
        let rates = Rates { tick: TickRate::calibrate(), line_bps: None };
        let mut spent = SpentTime::default();
        spent.ticks[Account::Interrupt as usize] = rates.tick.ticks_per_second();
        let half = Duration::from_millis(500);
        let move_out =
            |time| rates.with_time_moved(&spent, time, Account::Interrupt, Account::Outside);
        let adjusted = move_out(half);
        assert_eq!(adjusted.total_ticks(), spent.total_ticks());
        assert_eq!(adjusted.ticks(Account::Outside), rates.tick.ticks_per_second() / 2);
        assert_eq!(move_out(Duration::MAX).ticks(Account::Interrupt), 0);
    }

    #[test]
    fn a_layer_that_did_nothing_is_absent() {
        let rates = Rates { tick: TickRate::calibrate(), line_bps: None };
        assert_eq!(rates.parts(&SpentTime::default()), []);
    }

    #[test]
    fn a_byte_on_a_serial_line_is_ten_bits() {
        let rates = Rates { tick: TickRate::calibrate(), line_bps: Some(9_600) };
        let spent = SpentTime { line_bytes: 48, ..SpentTime::default() };
        assert_eq!(rates.parts(&spent), [LayerTime { layer: Layer::Line, ns: 50_000_000 }]);
    }
}
