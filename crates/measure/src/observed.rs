//! Observations of a measurement, as the input of the verdict.
//!
//! For file transfers, these are the events of the session at the client: commands with their
//! replies, transfers with their data and TCP counters, and the transfer that ended the session.

use super::nanoseconds::nanos;
use records::Measurement;
use records::arrivals::Arrival;
use records::measurement::NamedCause;
use records::verdict::{
    self, Echoes, FileSession, FileTransfer, Flow, LoginLimit, Observation, Operation, Origin,
    Protocol,
};
use transfer::ftp::probe::{ProbeResult, SetupTimes};
use transfer::tftp;

/// Sets the verdict of `record` to the causes that `observed` implies. If there is no cause, a
/// statement of this result is added before the existing verdict.
pub(super) fn conclude(record: &mut Measurement, observed: &Observation) {
    let causes = verdict::causes(observed);
    // The verdict names a kind once; the record also has the cause of a slow echo.
    let of_echo = verdict::further_cause_of_echo(observed, &causes);
    record.causes = causes.iter().chain(&of_echo).map(NamedCause::from).collect();
    let is_problem =
        matches!(verdict::limit(record), LoginLimit::Retransmissions | LoginLimit::NagleStall);
    let conclusion = verdict::conclusion(&causes);
    let is_of_a_transfer = causes.iter().any(|cause| cause.operation == Operation::Transfer);
    match causes.is_empty() {
        true if is_problem => {}
        true => record.verdict = format!("{conclusion} {}", record.verdict).trim().to_owned(),
        // The existing verdict covers files of all sizes, so its rates and times do not match a
        // cause found in a single transfer.
        false if observed.files.is_none() || is_of_a_transfer => record.verdict = conclusion,
        false => record.verdict = format!("{conclusion} {}", record.verdict).trim().to_owned(),
    }
}

/// Adds the causes that delayed the steps up to the prompt, and no others, to `record`, and states
/// them before its verdict.
pub(super) fn conclude_on_steps(record: &mut Measurement, observed: &Observation) {
    let mut causes = verdict::causes(observed);
    causes.retain(|cause| cause.operation == Operation::Login);
    if !causes.is_empty() {
        record.causes = causes.iter().map(NamedCause::from).collect();
        record.verdict = format!("{} {}", verdict::conclusion(&causes), record.verdict);
    }
}

/// Returns the observations of a session with an FTP server.
pub(super) fn session_of_ftp(found: &ProbeResult) -> FileSession {
    let SetupTimes { resolve, connect, tls, login, greeting, exchanges, own_wait, .. } =
        &found.opening;
    FileSession {
        protocol: Protocol::Ftp,
        resolve_ns: resolve.map(nanos),
        connect_ns: connect.map(nanos),
        tls_ns: tls.map(nanos),
        greeting_ns: greeting.map(nanos),
        login_ns: login.map(nanos),
        login: exchanges.clone(),
        login_wait_ns: own_wait.map(nanos),
        transfers: found.observations.clone(),
        control: None,
        aborted: found.aborted.clone(),
    }
}

/// Returns the observations of a session with a TFTP server.
pub(super) fn session_of_tftp(resolve_ns: u64, found: &tftp::probe::ProbeResult) -> FileSession {
    let seen = |number: usize, (direction, transfer, arrivals): &tftp::probe::Run| FileTransfer {
        direction: (*direction).into(),
        bytes: transfer.size.file_bytes.unwrap_or(0),
        total_ns: transfer.time.total_ns.unwrap_or(0),
        first_byte_ns: transfer.time.first_byte_ns,
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

/// Returns the observations in a recording.
pub(super) fn of_recording(record: &Measurement) -> Observation {
    let echo = record.echo.as_ref();
    let echo = echo.map(|echo| Echoes { samples_ns: echo.times_ns.clone(), ..Echoes::default() });
    // Without recorded keys, a pause of the user looks like one of the remote host.
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

/// Returns `sequence` shifted so that its first arrival is at `first_ns` after the command.
pub(super) fn arrivals(sequence: &[Arrival], first_ns: u64) -> Vec<verdict::Arrival> {
    let from_ns = sequence.first().map_or(0, |first| first.at_ns);
    let shifted = sequence.iter().map(|arrival| verdict::Arrival {
        at_ns: arrival.at_ns.saturating_sub(from_ns).saturating_add(first_ns),
        bytes: arrival.bytes,
    });
    shifted.collect()
}
