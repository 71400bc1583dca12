//! Measured files: transfers of increasing sizes over FTP, with or without TLS, and over TFTP.

use super::arguments::Arguments;
use super::foretold;
use super::observed;
use super::outcome::{Failed, Measured};
use super::progress::ProgressLine;
use super::record::{blank, nanos};
use super::schedule::sizes;
use crate::carry;
use crate::exit::Failure;
use crate::files::ftp::{self, Way, Wish};
use crate::files::tftp::{self, Errand};
use crate::files::url::{Scheme, Url};
use crate::meters::Registry;
use anyhow::Result;
use protocols::application::tftp::Mode;
use protocols::time::Duration;
use records::accuracy::Accuracy;
use records::arrivals::Arrival;
use records::measurement::{Phases, TcpFigures};
use records::measures::TryOutcome;
use records::prediction::Prediction;
use records::sizes::{Direction, Sample, Transfers};
use records::transfer::Transfer;
use records::verdict::Observation;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

/// TFTP options requested, the same as by `plumb get`.
const TFTP_BLOCK_BYTES: u16 = 1428;
const TFTP_WINDOW_BLOCKS: u16 = 16;

/// Measures the files at a URL.
pub(super) struct Files<'a> {
    pub(super) url: &'a Url,
    pub(super) arguments: &'a Arguments,
}

/// Results of either protocol.
struct Found {
    address: Option<SocketAddr>,
    phases: Phases,
    samples: Vec<Sample>,
    sequence: Vec<Arrival>,
    tcp: Option<TcpFigures>,
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
    /// Returns an error if this machine refuses a resource. The inner error is the reason why
    /// nothing could be measured.
    pub(super) fn measure(&self) -> Result<Result<Measured, Failed>> {
        let started_at = SystemTime::now();
        let mut progress = ProgressLine::on_stderr();
        let say = |what: &str| {
            progress.show(what);
            progress.paint();
        };
        let found = match self.url.scheme {
            Scheme::Ftp(..) => self.by_ftp(say),
            Scheme::Tftp(mode) => self.by_tftp(mode, say),
        };
        progress.clear();
        Ok(found?.map(|found| self.measured(found, started_at)))
    }

    /// Determines whether files can be transferred, and returns the time until they could, ns.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Files::measure`].
    pub(super) fn probe_availability(&self) -> Result<Result<u64, Failed>> {
        let began = Instant::now();
        match self.url.scheme {
            Scheme::Ftp(..) => Ok(ftp::probe_availability(self.url, &self.way())
                .map(|found| opening_ns(&found.opening))
                .map_err(Failed::of_files)),
            Scheme::Tftp(mode) => {
                let errand = match self.errand(mode)? {
                    Ok(errand) => errand,
                    Err(failed) => return Ok(Err(failed)),
                };
                Ok(tftp::probe::probe_availability(&errand)
                    .map(|_| nanos(began.elapsed()))
                    .map_err(Failed::of_files))
            }
        }
    }

    fn by_ftp(&self, say: impl FnMut(&str)) -> Result<Result<Found, Failed>> {
        let wish = Wish {
            sizes: sizes(self.arguments.bytes),
            rounds: self.arguments.rounds,
            writes: self.arguments.write,
            compares: self.arguments.pattern,
        };
        let found = match ftp::probe(self.url, &self.way(), &wish, say) {
            Ok(found) => found,
            Err(refused) => return Ok(Err(Failed::of_files(refused))),
        };
        let opening = &found.opening;
        let samples = found.transfers.iter().zip(&found.spans);
        let samples = samples.filter_map(|((way, one), spans)| sample(*way, one, spans)).collect();
        let observed =
            Observation { files: Some(observed::session_of_ftp(&found)), ..Observation::default() };
        let connect_ns = opening.connect.map(nanos);
        let predictions = foretold::of_ftp(&found.seen, connect_ns, self.arguments.foretell);
        Ok(Ok(Found {
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

    fn by_tftp(&self, mode: Mode, say: impl FnMut(&str)) -> Result<Result<Found, Failed>> {
        let errand = match self.errand(mode)? {
            Ok(errand) => errand,
            Err(failed) => return Ok(Err(failed)),
        };
        let (wished, rounds) = (sizes(self.arguments.bytes), self.arguments.rounds);
        let written = self.arguments.write.then_some(wished.as_slice());
        let pattern = self.arguments.pattern;
        let found = match tftp::probe::probe(&errand, written, rounds, pattern, say) {
            Ok(found) => found,
            Err(refused) => return Ok(Err(Failed::of_files(refused))),
        };
        let mut samples = Vec::new();
        for (way, transfer, arrivals) in &found.transfers {
            if !self.arguments.write {
                samples.extend(wished.iter().filter_map(|bytes| beginning(*bytes, arrivals)));
            }
            samples.extend(tftp_sample(*way, transfer, arrivals));
        }
        let largest = found.transfers.iter().max_by_key(|(way, transfer, _)| {
            (transfer.size.file_bytes, *way == Direction::Received)
        });
        let observed = Observation {
            files: Some(observed::session_of_tftp(nanos(errand.resolving), &found)),
            ..Observation::default()
        };
        let resolve_ns = Some(nanos(errand.resolving));
        let response_ns = found.first_block_ns.map(|ns| ns.saturating_add(nanos(errand.resolving)));
        let seen = observed.files.as_ref().map_or(&[][..], |files| &files.transfers);
        let predictions = foretold::of_tftp(seen, &samples, self.arguments.foretell);
        Ok(Ok(Found {
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

    fn way(&self) -> Way {
        Way {
            via: self.arguments.via.clone(),
            family: self.arguments.family,
            timeout_s: u32::try_from(self.arguments.timeout).unwrap_or(u32::MAX),
            user: self.arguments.login.clone(),
            ca: self.arguments.ca.clone(),
        }
    }

    fn errand(&self, mode: Mode) -> Result<Result<Errand, Failed>> {
        let began = Instant::now();
        let (target, via) = (&self.url.target, &self.arguments.via);
        let addresses = match carry::addresses(target, self.arguments.family, via, None)? {
            Ok(addresses) => addresses,
            Err(why) => {
                let why = why.to_string();
                return Ok(Err(Failed::new(TryOutcome::NoAddress, Failure::FarSide, &why)));
            }
        };
        Ok(Ok(Errand {
            host: target.host.clone(),
            addresses,
            name: self.url.name.clone(),
            mode,
            block_size: TFTP_BLOCK_BYTES,
            window_size: TFTP_WINDOW_BLOCKS,
            patience: Duration::from_secs(self.arguments.timeout),
            bytes_per_second: None,
            via: via.clone(),
            resolving: began.elapsed(),
            board: Registry::new(self.url.to_string()),
        }))
    }

    fn measured(&self, found: Found, started_at: SystemTime) -> Measured {
        let transfers = Transfers::of(found.samples, found.sequence);
        let has_measured = !transfers.samples.is_empty();
        let mut record = blank(self.url.to_string(), self.arguments.via.to_string(), started_at);
        record.address = found.address.map(|address| address.to_string());
        record.phases = found.phases;
        record.verdict = transfers.sentence();
        observed::conclude(&mut record, &found.observed);
        record.tcp = found.tcp;
        record.predictions = found.predictions;
        record.transfers = Some(transfers);
        Measured {
            record,
            notes: found.notes,
            sections: Vec::new(),
            accuracy: found.accuracy,
            response_ns: found.response_ns,
            has_measured,
            is_incomplete: found.observed.files.is_some_and(|files| files.aborted.is_some()),
        }
    }
}

fn opening_ns(opening: &ftp::Moment) -> u64 {
    let steps = [opening.resolve, opening.connect, opening.tls, opening.login];
    nanos(steps.into_iter().flatten().sum())
}

/// Returns the measured values of a transfer.
fn sample(direction: Direction, transfer: &Transfer, spans: &ftp::Spans) -> Option<Sample> {
    let time = &transfer.time;
    Some(Sample {
        direction,
        bytes: transfer.size.file_bytes?,
        total_ns: time.ns_total?,
        before_ns: spans.before.map(nanos),
        command_at_ns: spans.command_at.map(nanos),
        first_byte_ns: time.ns_first_byte,
        command_ns: time.ns_cmd_to_150,
        data_connect_ns: time.ns_data_connect,
        data_tls_ns: time.ns_data_tls,
        data_ns: time.ns_transfer,
        confirm_ns: time.ns_last_byte_to_226,
        cpu_ns: transfer.cpu_ns(),
        is_beginning: false,
    })
}

/// Returns the measured values of a TFTP transfer: after its last block it waits for the last
/// acknowledgment.
fn tftp_sample(direction: Direction, transfer: &Transfer, arrivals: &[Arrival]) -> Option<Sample> {
    let sample = sample(direction, transfer, &ftp::Spans::default())?;
    let last_ns = arrivals.last().map(|last| last.at_ns.min(sample.total_ns));
    let (Some(first_ns), Some(last_ns)) = (sample.first_byte_ns, last_ns) else {
        return Some(sample);
    };
    Some(Sample {
        data_ns: Some(last_ns.saturating_sub(first_ns)),
        confirm_ns: Some(sample.total_ns.saturating_sub(last_ns.max(first_ns))),
        ..sample
    })
}

/// Returns the first `bytes` of a transfer, if it was longer.
fn beginning(bytes: u64, arrivals: &[Arrival]) -> Option<Sample> {
    let mut sum = 0_u64;
    let reached = arrivals.iter().find(|arrival| {
        sum = sum.saturating_add(arrival.bytes);
        sum >= bytes
    })?;
    // A beginning that includes the last arrival would be the whole transfer.
    let is_last = arrivals.last() == Some(reached);
    (!is_last).then_some(Sample {
        direction: Direction::Received,
        bytes,
        total_ns: reached.at_ns,
        before_ns: None,
        command_at_ns: None,
        first_byte_ns: None,
        command_ns: None,
        data_connect_ns: None,
        data_tls_ns: None,
        data_ns: None,
        confirm_ns: None,
        cpu_ns: None,
        is_beginning: true,
    })
}

/// Returns TCP's values of a data connection at its end.
fn tcp_figures(transfer: &Transfer) -> TcpFigures {
    let tcp = &transfer.tcp;
    let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1_000));
    TcpFigures {
        rtt_ns: ns(tcp.rtt_us),
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
    fn the_beginning_of_a_transfer_is_looked_at_when_that_much_had_come() {
        let arrivals = [arrival(10, 512), arrival(20, 512), arrival(30, 100)];
        let sample = beginning(600, &arrivals).unwrap();
        assert_eq!((sample.bytes, sample.total_ns, sample.is_beginning), (600, 20, true));
    }

    #[test]
    fn a_transfer_that_ends_there_has_no_such_beginning() {
        let arrivals = [arrival(10, 512), arrival(20, 100)];
        assert_eq!(beginning(600, &arrivals), None);
        assert_eq!(beginning(6_000, &arrivals), None);
    }
}
