//! What a measurement has to say to the verdict.
//!
//! Of files it is the session as the client has seen it: commands with their replies, transfers with
//! their data and TCP's counters, and the transfer that ended all of it.

use super::record::nanos;
use crate::files::ftp::{Found, Moment};
use crate::files::tftp;
use records::Measurement;
use records::arrivals::Arrival;
use records::measurement::NamedCause;
use records::verdict::{
    self, Echoes, FileSession, FileTransfer, Flow, Limit, Observation, Origin, Protocol, Whole,
};

/// Makes the causes that follow from `observed` the verdict of `record`. Without one, what the verdict
/// says already stays, behind the statement that there is none.
pub(super) fn conclude(record: &mut Measurement, observed: &Observation) {
    let causes = verdict::causes(observed);
    record.causes = causes.iter().map(NamedCause::from).collect();
    let accuses = matches!(verdict::limit(record), Limit::Retransmissions | Limit::NagleStall);
    let conclusion = verdict::conclusion(&causes);
    let is_of_a_transfer = causes.iter().any(|cause| cause.of == Whole::Transfer);
    match causes.is_empty() {
        true if accuses => {}
        true => record.verdict = format!("{conclusion} {}", record.verdict).trim().to_owned(),
        // What all sizes have in common is another rate and another time than those of one transfer.
        false if observed.files.is_none() || is_of_a_transfer => record.verdict = conclusion,
        false => record.verdict = format!("{conclusion} {}", record.verdict).trim().to_owned(),
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
        direction: (*direction).into(),
        bytes: transfer.size.file_bytes.unwrap_or(0),
        total_ns: transfer.time.ns_total.unwrap_or(0),
        first_byte_ns: transfer.time.ns_first_byte,
        last_byte_ns: arrivals.last().map(|last| last.at_ns),
        arrivals: arrivals.iter().map(verdict::Arrival::from).collect(),
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

/// Returns what can be seen in a recording.
pub(super) fn of_recording(record: &Measurement) -> Observation {
    let echo = record.echo.as_ref();
    let echo = echo.map(|echo| Echoes { samples_ns: echo.times_ns.clone(), ..Echoes::default() });
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
