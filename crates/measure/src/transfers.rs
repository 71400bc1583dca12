//! Measured files: transfers of increasing sizes over FTP, with or without TLS, and over TFTP.

use super::forecast;
use super::measure_options::MeasureOptions;
use super::nanoseconds::nanos;
use super::observed;
use super::outcome::{FailureKind, TryFailure, TryResults, Usable};
use super::progress::ProgressLine;
use super::record::empty_record;
use anyhow::Result;
use carrier::meters::MeterRegistry;
use protocols::tftp::Mode;
use records::accuracy::Accuracy;
use records::arrivals::Arrival;
use records::measurement::{Phases, TcpStats};
use records::measures::AttemptOutcome;
use records::prediction::Prediction;
use records::sizes::{Direction, Sample, Transfers};
use records::transfer::Transfer;
use records::verdict::Observation;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};
use transfer::ftp::CommandOffsets;
use transfer::ftp::probe::{self, ProbeOptions, ProbePlan, SetupTimes};
use transfer::tftp::{self, TransferSpec};
use transfer::url::{Url, UrlScheme};

/// Block size and window requested by TFTP options; `plumb get` requests the same values.
const TFTP_BLOCK_BYTES: u16 = 1428;
const TFTP_WINDOW_BLOCKS: u16 = 16;

/// Measures the files at a URL.
pub(super) struct Files<'a> {
    pub(super) url: &'a Url,
    pub(super) options: &'a MeasureOptions,
}

/// Results of a measurement over FTP or TFTP.
struct FileResults {
    address: Option<SocketAddr>,
    phases: Phases,
    samples: Vec<Sample>,
    sequence: Vec<Arrival>,
    tcp: Option<TcpStats>,
    accuracy: Option<Accuracy>,
    notes: Vec<String>,
    response_ns: Option<u64>,
    observed: Observation,
    predictions: Vec<Prediction>,
}

impl Files<'_> {
    /// Transfers files of increasing sizes.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a resource. The inner error is the reason
    /// why nothing could be measured.
    pub(super) fn measure(&self) -> Result<Result<TryResults, TryFailure>> {
        let started_at = SystemTime::now();
        let mut progress = ProgressLine::new(self.options.progress);
        let show_progress = |status: &str| {
            progress.show(status);
            progress.paint();
        };
        let found = match self.url.scheme {
            UrlScheme::Ftp(..) => self.by_ftp(show_progress),
            UrlScheme::Tftp(mode) => self.by_tftp(mode, show_progress),
        };
        progress.clear();
        Ok(found?.map(|found| self.results_of_try(found, started_at)))
    }

    /// Determines whether the file server is usable.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Files::measure`].
    pub(super) fn probe_availability(&self) -> Result<Result<Usable, TryFailure>> {
        let started_at = Instant::now();
        match self.url.scheme {
            UrlScheme::Ftp(..) => {
                let options = match self.probe_options() {
                    Ok(options) => options,
                    Err(failed) => return Ok(Err(failed)),
                };
                Ok(probe::probe_availability(self.url, &options)
                    .map(|found| Usable::without_echo(opening_ns(&found.opening)))
                    .map_err(TryFailure::of_files))
            }
            UrlScheme::Tftp(mode) => {
                let spec = match self.spec(mode)? {
                    Ok(spec) => spec,
                    Err(failed) => return Ok(Err(failed)),
                };
                Ok(tftp::probe::probe_availability(&spec)
                    .map(|_| Usable::without_echo(nanos(started_at.elapsed())))
                    .map_err(TryFailure::of_files))
            }
        }
    }

    fn by_ftp(&self, show_progress: impl FnMut(&str)) -> Result<Result<FileResults, TryFailure>> {
        let plan = ProbePlan {
            sizes: sizes(self.options.files.largest_bytes),
            rounds: self.options.files.rounds,
            writes: self.options.files.writes,
            compares: self.options.compares_pattern,
        };
        let options = match self.probe_options() {
            Ok(options) => options,
            Err(failed) => return Ok(Err(failed)),
        };
        let found = match probe::probe(self.url, &options, &plan, show_progress) {
            Ok(found) => found,
            Err(error) => return Ok(Err(TryFailure::of_files(error))),
        };
        let opening = &found.opening;
        let samples = found.transfers.iter().zip(&found.command_offsets);
        let samples = samples
            .filter_map(|((direction, transfer), spans)| sample(*direction, transfer, spans))
            .collect();
        let observed =
            Observation { files: Some(observed::session_of_ftp(&found)), ..Observation::default() };
        let connect_ns = opening.connect.map(nanos);
        let predictions =
            forecast::of_ftp(&found.observations, connect_ns, self.options.files.estimate_bytes);
        Ok(Ok(FileResults {
            observed,
            predictions,
            address: found.address,
            phases: Phases {
                resolve_ns: opening.resolve.map(nanos),
                connect_ns: opening.connect.map(nanos),
                tls_ns: opening.tls.map(nanos),
                login_ns: opening.login.map(nanos),
                ..Phases::default()
            },
            samples,
            sequence: found.sequence,
            tcp: found.transfers.last().map(|(_, last)| tcp_figures(last)),
            accuracy: found.accuracy,
            notes: found.notes,
            response_ns: Some(opening_ns(&found.opening)),
        }))
    }

    fn by_tftp(
        &self,
        mode: Mode,
        show_progress: impl FnMut(&str),
    ) -> Result<Result<FileResults, TryFailure>> {
        let spec = match self.spec(mode)? {
            Ok(spec) => spec,
            Err(failed) => return Ok(Err(failed)),
        };
        let file_sizes = sizes(self.options.files.largest_bytes);
        let rounds = self.options.files.rounds;
        let written_sizes = self.options.files.writes.then_some(file_sizes.as_slice());
        let pattern = self.options.compares_pattern;
        let found = match tftp::probe::probe(&spec, written_sizes, rounds, pattern, show_progress) {
            Ok(found) => found,
            Err(error) => return Ok(Err(TryFailure::of_files(error))),
        };
        let mut samples = Vec::new();
        for (direction, transfer, arrivals) in &found.transfers {
            if !self.options.files.writes {
                samples.extend(file_sizes.iter().filter_map(|bytes| beginning(*bytes, arrivals)));
            }
            samples.extend(tftp_sample(*direction, transfer, arrivals));
        }
        let largest = found.transfers.iter().max_by_key(|(direction, transfer, _)| {
            (transfer.size.file_bytes, *direction == Direction::Received)
        });
        let observed = Observation {
            files: Some(observed::session_of_tftp(nanos(spec.resolve_time), &found)),
            ..Observation::default()
        };
        let resolve_ns = Some(nanos(spec.resolve_time));
        let response_ns =
            found.first_block_ns.map(|ns| ns.saturating_add(nanos(spec.resolve_time)));
        let observed_transfers = observed.files.as_ref().map_or(&[][..], |files| &files.transfers);
        let predictions =
            forecast::of_tftp(observed_transfers, &samples, self.options.files.estimate_bytes);
        Ok(Ok(FileResults {
            observed,
            predictions,
            address: found.address,
            phases: Phases { resolve_ns, ..Phases::default() },
            samples,
            sequence: largest.map(|(_, _, arrivals)| arrivals.clone()).unwrap_or_default(),
            tcp: None,
            accuracy: found.accuracy,
            notes: found.notes,
            response_ns,
        }))
    }

    fn probe_options(&self) -> Result<ProbeOptions, TryFailure> {
        let credentials = (self.options.files.credentials)(self.url).map_err(|error| {
            let reason = format!("{error:#}");
            TryFailure::new(AttemptOutcome::ThisMachine, FailureKind::ThisMachine, &reason)
        })?;
        Ok(ProbeOptions {
            via: self.options.via.clone(),
            family: self.options.families,
            timeout_s: u32::try_from(self.options.timeout.as_secs()).unwrap_or(u32::MAX),
            credentials,
            ca: self.options.ca.clone(),
            message: self.options.files.message,
        })
    }

    fn spec(&self, mode: Mode) -> Result<Result<TransferSpec, TryFailure>> {
        let started_at = Instant::now();
        let target = &self.url.target;
        let via = &self.options.via;
        let addresses = match carrier::addresses(target, self.options.families, via, None)? {
            Ok(addresses) => addresses,
            Err(reason) => {
                let reason = reason.to_string();
                return Ok(Err(TryFailure::new(
                    AttemptOutcome::NoAddress,
                    FailureKind::RemoteHost,
                    &reason,
                )));
            }
        };
        Ok(Ok(TransferSpec {
            host: target.host.clone(),
            addresses,
            name: self.url.name.clone(),
            mode,
            block_size: TFTP_BLOCK_BYTES,
            window_size: TFTP_WINDOW_BLOCKS,
            answer_timeout: self.options.timeout,
            bytes_per_second: None,
            via: via.clone(),
            resolve_time: started_at.elapsed(),
            registry: MeterRegistry::new(self.url.to_string()),
        }))
    }

    fn results_of_try(&self, found: FileResults, started_at: SystemTime) -> TryResults {
        let transfers = Transfers::of(found.samples, found.sequence);
        let has_measured = !transfers.samples.is_empty();
        let mut record =
            empty_record(self.url.to_string(), self.options.via.to_string(), started_at);
        record.address = found.address.map(|address| address.to_string());
        record.phases = found.phases;
        record.verdict = transfers.sentence();
        observed::conclude(&mut record, &found.observed);
        record.tcp = found.tcp;
        record.predictions = found.predictions;
        record.transfers = Some(transfers);
        TryResults {
            record,
            notes: found.notes,
            keystroke: None,
            accuracy: found.accuracy,
            response_ns: found.response_ns,
            has_measured,
            is_refused: false,
            is_incomplete: found.observed.files.is_some_and(|files| files.aborted.is_some()),
        }
    }
}

/// First size of a sequence, in bytes.
const SMALLEST_SIZE: u64 = 1024;
/// Ratio of consecutive sizes.
const SIZE_FACTOR: u64 = 4;

/// Returns the sizes of a sequence in bytes: [`SMALLEST_SIZE`] and its multiples by powers of
/// [`SIZE_FACTOR`] below `largest_bytes`, and `largest_bytes` as the last size.
fn sizes(largest_bytes: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(SMALLEST_SIZE), |size| size.checked_mul(SIZE_FACTOR));
    powers.take_while(|size| *size < largest_bytes).chain([largest_bytes]).collect()
}

fn opening_ns(opening: &SetupTimes) -> u64 {
    let steps = [opening.resolve, opening.connect, opening.tls, opening.login];
    nanos(steps.into_iter().flatten().sum())
}

/// Returns the measured values of a transfer.
fn sample(direction: Direction, transfer: &Transfer, offsets: &CommandOffsets) -> Option<Sample> {
    let time = &transfer.time;
    Some(Sample {
        direction,
        bytes: transfer.size.file_bytes?,
        total_ns: time.total_ns?,
        setup_ns: offsets.data_command_at.map(nanos),
        command_at_ns: offsets.command_at.map(nanos),
        first_byte_ns: time.first_byte_ns,
        command_ns: time.command_to_150_ns,
        data_connect_ns: time.data_connect_ns,
        data_tls_ns: time.data_tls_ns,
        data_ns: time.transfer_ns,
        confirmation_ns: time.last_byte_to_226_ns,
        cpu_ns: transfer.cpu_ns(),
        is_partial: false,
    })
}

/// Returns the measured values of a TFTP transfer. The time includes the wait for the
/// acknowledgment of the last block.
fn tftp_sample(direction: Direction, transfer: &Transfer, arrivals: &[Arrival]) -> Option<Sample> {
    let sample = sample(direction, transfer, &CommandOffsets::default())?;
    let last_ns = arrivals.last().map(|last| last.at_ns.min(sample.total_ns));
    let (Some(first_ns), Some(last_ns)) = (sample.first_byte_ns, last_ns) else {
        return Some(sample);
    };
    Some(Sample {
        data_ns: Some(last_ns.saturating_sub(first_ns)),
        confirmation_ns: Some(sample.total_ns.saturating_sub(last_ns.max(first_ns))),
        ..sample
    })
}

/// Returns a sample of the first `bytes` bytes of a transfer. Returns `None` if the transfer was
/// not longer.
fn beginning(bytes: u64, arrivals: &[Arrival]) -> Option<Sample> {
    let mut sum = 0_u64;
    let last_arrival = arrivals.iter().find(|arrival| {
        sum = sum.saturating_add(arrival.bytes);
        sum >= bytes
    })?;
    // If the last arrival is needed, the result would be the whole transfer.
    let is_last = arrivals.last() == Some(last_arrival);
    (!is_last).then_some(Sample {
        direction: Direction::Received,
        bytes,
        total_ns: last_arrival.at_ns,
        setup_ns: None,
        command_at_ns: None,
        first_byte_ns: None,
        command_ns: None,
        data_connect_ns: None,
        data_tls_ns: None,
        data_ns: None,
        confirmation_ns: None,
        cpu_ns: None,
        is_partial: true,
    })
}

/// Returns TCP's statistics of a data connection when it was closed.
fn tcp_figures(transfer: &Transfer) -> TcpStats {
    let tcp = &transfer.tcp;
    let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1_000));
    TcpStats {
        rtt_ns: ns(tcp.rtt_us),
        rtt_min_ns: ns(tcp.min_rtt_us),
        rtt_deviation_ns: ns(tcp.rttvar_us),
        retransmissions: tcp.total_retrans,
        segments_in: tcp.segs_in,
        segments_out: tcp.segs_out,
        bytes_in: tcp.bytes_received,
        bytes_out: tcp.bytes_acked,
        mss: tcp.snd_mss,
        cwnd: tcp.snd_cwnd.zip(tcp.snd_mss).map(|(segments, mss)| segments.saturating_mul(mss)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(at_ns: u64, bytes: u64) -> Arrival {
        Arrival { at_ns, bytes }
    }

    #[test]
    fn the_first_bytes_of_a_transfer_are_a_sample_at_the_time_of_their_arrival() {
        let arrivals = [arrival(10, 512), arrival(20, 512), arrival(30, 100)];
        let sample = beginning(600, &arrivals).unwrap();
        assert_eq!((sample.bytes, sample.total_ns, sample.is_partial), (600, 20, true));
    }

    #[test]
    fn a_transfer_that_is_not_longer_gives_no_sample_of_its_beginning() {
        let arrivals = [arrival(10, 512), arrival(20, 100)];
        assert_eq!(beginning(600, &arrivals), None);
        assert_eq!(beginning(6_000, &arrivals), None);
    }

    #[test]
    fn sizes_grow_by_powers_of_four_up_to_the_last() {
        assert_eq!(sizes(100_000), [1_024, 4_096, 16_384, 65_536, 100_000]);
        assert_eq!(sizes(1_024), [1_024]);
        assert_eq!(sizes(10), [10]);
    }
}
