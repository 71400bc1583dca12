//! What a measurement has to say to the verdict.
//!
//! A login at a file server takes one round trip for each of its replies; those are the network's,
//! and only what is left of the time is the server's. TFTP has no round trip of its own: the quickest
//! request for a block stands for it, which holds the opening of the file too.

use super::record::nanos;
use crate::files::ftp::{Found, Moment};
use crate::files::tftp;
use records::Measurement;
use records::arrivals::Arrival;
use records::measurement::NamedCause;
use records::sizes::Direction;
use records::statistics::median;
use records::transfer::{Tcp, Transfer};
use records::verdict::{
    self, Echoes, FileSession, FileTransfer, Flow, FlowCounts, Observation, Origin, Path, Protocol,
    Steps, Whole,
};
use std::collections::BTreeMap;

/// Puts the causes that follow from `observed` before what the verdict of `record` says already.
pub(super) fn conclude(record: &mut Measurement, observed: &Observation) {
    let causes = verdict::causes(observed);
    record.causes = causes.iter().map(NamedCause::from).collect();
    let conclusion = verdict::conclusion(&causes);
    // What all sizes have in common is another rate and another time than those of one transfer.
    let is_of_a_transfer = causes.iter().any(|cause| cause.of == Whole::Transfer);
    if observed.files.is_some() && is_of_a_transfer {
        record.verdict.clear();
    }
    record.verdict = format!("{conclusion} {}", record.verdict).trim().to_owned();
}

/// Returns what was seen of transfers by FTP, of which the largest that came brought `sequence`.
pub(super) fn of_ftp(
    opening: &Moment,
    transfers: &[(Direction, Transfer)],
    sequence: &[Arrival],
) -> Observation {
    let largest = largest(transfers.iter().map(|(direction, one)| (*direction, one)));
    let path = largest.map(|(_, largest)| path(&largest.tcp)).unwrap_or_default();
    let flows = [Direction::Received, Direction::Sent].into_iter().filter_map(|wanted| {
        // Of several as large, `sequence` is of the first.
        let those = transfers.iter().rev().filter(|(direction, _)| *direction == wanted);
        let (_, one) = those.max_by_key(|(_, one)| one.size.file_bytes)?;
        Some(flow(wanted, one, sequence))
    });
    let trip_ns = path.min_rtt_ns.or(path.rtt_ns);
    // One of the round trips is left: the verdict takes that away itself.
    let trips = u64::from(opening.replies.saturating_sub(1));
    let login_ns = opening.login.map(nanos).zip(trip_ns);
    let login_ns = login_ns.map(|(ns, trip)| ns.saturating_sub(trips.saturating_mul(trip)));
    Observation {
        steps: Steps {
            resolve_ns: opening.resolve.map(nanos),
            connect_ns: opening.connect.map(nanos),
            tls_ns: opening.tls.map(nanos),
            login_ns,
            ..Steps::default()
        },
        transfers: flows.collect(),
        sizes: sizes(transfers),
        path,
        ..Observation::default()
    }
}

/// Returns what was seen of a session with an FTP server.
pub(super) fn session_of_ftp(found: &Found) -> FileSession {
    let Moment { resolve, connect, tls, login, greeting, exchanges, own_wait, .. } = &found.opening;
    FileSession {
        protocol: Protocol::Ftp,
        resolve_ns: resolve.map(nanos),
        connect_ns: connect.map(nanos),
        tls_ns: tls.map(nanos),
        greeting_ns: greeting.map(nanos),
        login_ns: login.map(nanos),
        login: exchanges.clone(),
        login_wait_ns: own_wait.map(nanos),
        transfers: found.seen.clone(),
        control: None,
        aborted: found.aborted.clone(),
    }
}

/// Returns what was seen of a session with a TFTP server.
pub(super) fn session_of_tftp(resolve_ns: u64, found: &tftp::probe::Found) -> FileSession {
    let seen = |number: usize, (direction, transfer, arrivals): &tftp::probe::Run| FileTransfer {
        direction: match direction {
            Direction::Received => verdict::Direction::Incoming,
            Direction::Sent => verdict::Direction::Outgoing,
        },
        bytes: transfer.size.file_bytes.unwrap_or(0),
        total_ns: transfer.time.ns_total.unwrap_or(0),
        first_byte_ns: transfer.time.ns_first_byte,
        last_byte_ns: arrivals.last().map(|last| last.at_ns),
        arrivals: arrivals
            .iter()
            .map(|one| verdict::Arrival { at_ns: one.at_ns, bytes: one.bytes })
            .collect(),
        own_wait_ns: found.own_waits_ns.get(number).copied().flatten(),
        connected_ns: found.agreed_ns.get(number).copied().flatten(),
        block_bytes: transfer.tftp.block_bytes,
        window_blocks: transfer.tftp.window_blocks,
        repeated_blocks: transfer.tftp.repeated_blocks,
        timeouts: transfer.tftp.timeouts,
        ..FileTransfer::default()
    };
    let control = found.control.as_ref();
    FileSession {
        protocol: Protocol::Tftp,
        resolve_ns: Some(resolve_ns),
        transfers: found.transfers.iter().enumerate().map(|(at, run)| seen(at, run)).collect(),
        control: control.map(|(run, agreed_ns)| FileTransfer {
            connected_ns: *agreed_ns,
            ..seen(usize::MAX, run)
        }),
        ..FileSession::default()
    }
}

/// Returns the sizes of what came, from the smallest, with the median of their times.
fn sizes(transfers: &[(Direction, Transfer)]) -> Vec<(u64, u64)> {
    let mut times: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (_, one) in transfers.iter().filter(|(direction, _)| *direction == Direction::Received) {
        if let Some((bytes, ns)) = one.size.file_bytes.zip(one.time.ns_total) {
            times.entry(bytes).or_default().push(ns);
        }
    }
    times.into_iter().filter_map(|(bytes, times)| Some((bytes, median(&times)?))).collect()
}

/// Returns what was seen of transfers by TFTP.
pub(super) fn of_tftp(
    resolve_ns: u64,
    transfers: &[(Direction, Transfer, Vec<Arrival>)],
) -> Observation {
    let rtt_ns = transfers
        .iter()
        .filter(|(direction, ..)| *direction == Direction::Received)
        .filter_map(|(_, transfer, _)| transfer.time.ns_first_byte)
        .min();
    let largest = largest(transfers.iter().map(|(direction, one, _)| (*direction, one)));
    let flows = largest.map(|(direction, one)| {
        let found = transfers.iter().find(|(_, other, _)| other.record_id == one.record_id);
        let arrivals = found.map(|(.., arrivals)| arrivals.as_slice()).unwrap_or_default();
        let tftp = &one.tftp;
        let window_bytes = tftp.window_blocks.zip(tftp.block_bytes);
        let mut flow = flow(direction, one, arrivals);
        flow.counts = FlowCounts {
            retransmissions: tftp.repeated_blocks,
            timeouts: tftp.timeouts,
            window_bytes: window_bytes.map(|(blocks, bytes)| blocks.saturating_mul(bytes)),
            ..FlowCounts::default()
        };
        flow
    });
    let mss_bytes = largest.and_then(|(_, one)| one.tftp.block_bytes);
    Observation {
        steps: Steps { resolve_ns: Some(resolve_ns), ..Steps::default() },
        transfers: flows.into_iter().collect(),
        path: Path { rtt_ns, min_rtt_ns: rtt_ns, mss_bytes, ..Path::default() },
        ..Observation::default()
    }
}

/// Returns what can be seen in a recording.
pub(super) fn of_recording(record: &Measurement) -> Observation {
    let echo = record.echo.as_ref();
    let echo = echo.map(|echo| Echoes { samples_ns: echo.times_ns.clone(), layers: Vec::new() });
    // Without keys a wait of the person looks like one of the far side.
    let has_keys = record.recording.as_ref().is_some_and(|recording| recording.keys > 0);
    let screenful = record.screenful.as_ref().filter(|_| has_keys).map(|screenful| Flow {
        direction: verdict::Direction::Incoming,
        origin: Origin::Program,
        bytes: screenful.bytes,
        elapsed_ns: screenful.first_to_last_ns,
        arrivals: arrivals(&screenful.arrivals, 0),
        ..Flow::default()
    });
    Observation { echo, screenful, ..Observation::default() }
}

/// Returns the largest transfer that came, or else the largest that went.
fn largest<'a>(
    transfers: impl Iterator<Item = (Direction, &'a Transfer)>,
) -> Option<(Direction, &'a Transfer)> {
    transfers
        .max_by_key(|(direction, one)| (*direction == Direction::Received, one.size.file_bytes))
}

/// Returns a transfer as a flow, from its command to its last byte.
fn flow(direction: Direction, transfer: &Transfer, sequence: &[Arrival]) -> Flow {
    let (tcp, time) = (&transfer.tcp, &transfer.time);
    let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1_000));
    let is_incoming = direction == Direction::Received;
    let first_ns = time.ns_first_byte.unwrap_or(0);
    let data_ns = time.ns_transfer.or(time.ns_total).unwrap_or(0);
    Flow {
        direction: match is_incoming {
            true => verdict::Direction::Incoming,
            false => verdict::Direction::Outgoing,
        },
        origin: Origin::Program,
        bytes: transfer.size.file_bytes.unwrap_or(0),
        elapsed_ns: if is_incoming { first_ns.saturating_add(data_ns) } else { data_ns },
        // What is written here has not yet been acknowledged.
        arrivals: if is_incoming { arrivals(sequence, first_ns) } else { Vec::new() },
        data_packets: if is_incoming { tcp.data_segs_in } else { tcp.data_segs_out },
        layers: Vec::new(),
        tls_own_ns: None,
        counts: FlowCounts {
            segments_out: tcp.segs_out,
            retransmissions: tcp.total_retrans,
            out_of_order_in: tcp.rcv_ooopack,
            duplicate_reports: tcp.dsack_dups,
            limited_by_window_ns: ns(tcp.rwnd_limited_us),
            limited_by_buffer_ns: ns(tcp.sndbuf_limited_us),
            window_bytes: tcp.rcvbuf.filter(|_| is_incoming).map(|bytes| bytes / BUFFER_PER_WINDOW),
            ..FlowCounts::default()
        },
    }
}

/// Linux reckons half of a receive buffer for its own records (tcp(7), tcp_adv_win_scale).
const BUFFER_PER_WINDOW: u64 = 2;

/// Returns `sequence` with its first arrival at `first_ns`: when that much time had passed since
/// the command.
pub(super) fn arrivals(sequence: &[Arrival], first_ns: u64) -> Vec<verdict::Arrival> {
    let from_ns = sequence.first().map_or(0, |first| first.at_ns);
    let moved = sequence.iter().map(|arrival| verdict::Arrival {
        at_ns: arrival.at_ns.saturating_sub(from_ns).saturating_add(first_ns),
        bytes: arrival.bytes,
    });
    moved.collect()
}

fn path(tcp: &Tcp) -> Path {
    let ns = |us: Option<u64>| us.map(|us| us.saturating_mul(1_000));
    Path {
        rtt_ns: ns(tcp.rtt_us),
        min_rtt_ns: ns(tcp.min_rtt_us),
        // That of what comes is estimated from what has come, which may have been short.
        mss_bytes: tcp.rcv_mss.max(tcp.snd_mss),
        mtu_bytes: tcp.pmtu,
        ..Path::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::transfer::Identifier;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn transfer(bytes: u64, ns_transfer: u64) -> Transfer {
        let mut transfer = Transfer::new(Identifier(u128::from(bytes)));
        transfer.size.file_bytes = Some(bytes);
        transfer.time.ns_first_byte = Some(30 * MS);
        transfer.time.ns_transfer = Some(ns_transfer);
        transfer.tcp.min_rtt_us = Some(20_000);
        transfer
    }

    #[test]
    fn the_replies_of_a_login_are_round_trips_of_the_network() {
        let login = Some(Duration::from_millis(130));
        let opening = Moment { login, replies: 6, ..Moment::default() };
        let transfers = [(Direction::Received, transfer(1_000, MS))];
        let observed = of_ftp(&opening, &transfers, &[]);
        assert_eq!(observed.steps.login_ns, Some(30 * MS));
    }

    #[test]
    fn without_a_round_trip_nothing_is_said_of_a_login() {
        let login = Some(Duration::from_millis(130));
        let opening = Moment { login, replies: 6, ..Moment::default() };
        assert_eq!(of_ftp(&opening, &[], &[]).steps.login_ns, None);
    }

    #[test]
    fn the_largest_that_came_is_the_flow_and_its_bytes_follow_the_command() {
        let transfers = [
            (Direction::Received, transfer(1_000, MS)),
            (Direction::Received, transfer(9_000, 50 * MS)),
            (Direction::Sent, transfer(90_000, MS)),
        ];
        let sequence = [Arrival { at_ns: 70 * MS, bytes: 9_000 }];
        let observed = of_ftp(&Moment::default(), &transfers, &sequence);
        let flow = &observed.transfers[0];
        assert_eq!((flow.bytes, flow.elapsed_ns), (9_000, 80 * MS));
        assert_eq!(flow.arrivals[0].at_ns, 30 * MS);
    }
}
