//! Diagnosis of a transfer that did not complete.
//!
//! Long packets vanish on the path if the data connection was established and the server announced
//! data, but none arrived, while shorter transfers or replies passed: path MTU discovery fails if
//! no ICMP arrives (RFC 2923). If nothing short passed either, a hung server shows the same
//! symptoms. If the data connection was not established in time, a firewall drops its packets, or
//! they are lost.

use super::lost_segments::has_losses;
use super::observed::{Aborted, FileSession};
use super::path_impairment::path_impairment;
use super::reply_delays;
use crate::format::{count, duration};
use crate::verdict::cause::{Cause, CauseKind, Operation};

/// Returns the reason why the measurement ended, if a transfer did not complete.
pub(super) fn cause(session: &FileSession) -> Option<Cause> {
    let Aborted { transfer, reason } = session.aborted.as_ref()?;
    let is_connected = transfer.connected_ns.is_some();
    let received_bytes =
        transfer.arrivals.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    let candidates = session.transfers.iter().filter(|one| one.direction == transfer.direction);
    let smallest = candidates.filter(|one| one.bytes > 0).min_by_key(|one| one.bytes);
    let is_hole = is_connected && received_bytes == 0;
    let is_lossy = || {
        reply_delays::trip_ns(session).and_then(|trip| path_impairment(session, trip))
            == Some(CauseKind::Loss)
    };
    let evidence_with_bytes = format!("{reason}, after {} bytes", count(received_bytes));
    let (kind, subject, evidence, remedy) = match (is_hole, smallest) {
        (true, Some(smallest)) => {
            let (evidence, remedy) = black_hole_evidence(smallest.bytes);
            (CauseKind::PathMtuBlackHole, "A path MTU black hole", evidence, remedy)
        }
        (true, None) => (
            CauseKind::PathMtuBlackHole,
            "Either a path MTU black hole or a server program that hangs",
            "the data connection was established and replies arrived, but no data".to_owned(),
            ". To tell them apart, request a file of a few bytes, which passes a black hole, or \
             lower the MTU here (ip link set dev ... mtu 1000) and measure again",
        ),
        (false, _) if !is_connected => (
            CauseKind::Unknown,
            "Either a firewall in front of the data port or packet loss",
            reason.clone(),
            ". To tell them apart, measure again: a firewall blocks each transfer",
        ),
        (false, _) if has_losses(transfer) => (
            CauseKind::Loss,
            "Packet loss",
            format!("{evidence_with_bytes}, and segments were lost before"),
            ". Find the link that loses packets",
        ),
        // The loss of the last segments of a flight leaves no trace.
        (false, _) if is_lossy() => (
            CauseKind::Unknown,
            "Either packet loss or a server program that stopped",
            format!("{evidence_with_bytes}, and other transfers lost packets"),
            ". To tell them apart, measure again: packet loss stops each transfer at another point",
        ),
        (false, _) => (
            CauseKind::Unknown,
            "An unknown cause",
            evidence_with_bytes,
            "; check the server's log and its load, and measure again",
        ),
    };
    Some(Cause {
        kind,
        operation: Operation::Transfer,
        cost_ns: transfer.total_ns,
        gain_ns: transfer.total_ns,
        total_ns: transfer.total_ns,
        subject: subject.to_owned(),
        advice: format!(
            "{evidence}; the transfer was aborted after {}{remedy}",
            duration(transfer.total_ns)
        ),
    })
}

/// Returns the evidence and the remedy for a path MTU black hole, if a transfer of `smallest` bytes
/// in short packets completed.
fn black_hole_evidence(smallest: u64) -> (String, &'static str) {
    let evidence = format!(
        "a transfer of {} bytes in short packets completed, but a longer one brought no packets \
         after the data connection was established",
        count(smallest)
    );
    let remedy = ". Allow ICMP (destination unreachable, packet too big), or lower the MTU to the \
                  size that the path carries";
    (evidence, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Arrival;
    use crate::verdict::files::FileTransfer;

    const MS: u64 = 1_000_000;

    fn session(smallest: &[u64], received_bytes: u64) -> FileSession {
        let transfer = |bytes| FileTransfer { bytes, ..FileTransfer::default() };
        let arrivals = vec![Arrival { at_ns: 50 * MS, bytes: received_bytes }];
        let aborted = FileTransfer {
            connected_ns: Some(20 * MS),
            total_ns: 8_000 * MS,
            arrivals: if received_bytes > 0 { arrivals } else { Vec::new() },
            ..FileTransfer::default()
        };
        FileSession {
            transfers: smallest.iter().map(|bytes| transfer(*bytes)).collect(),
            aborted: Some(Aborted { transfer: aborted, reason: "nothing came in time".to_owned() }),
            ..FileSession::default()
        }
    }

    #[test]
    fn short_transfers_that_pass_show_a_black_hole_for_long_packets() {
        let diagnosis = cause(&session(&[1_024], 0)).unwrap();
        assert_eq!(diagnosis.kind, CauseKind::PathMtuBlackHole);
        let sentence = diagnosis.sentence();
        assert!(sentence.starts_with("A path MTU black hole costs 8.00 s"), "{sentence}");
    }

    #[test]
    fn a_transfer_without_a_data_connection_is_a_firewall_or_loss() {
        let mut blocked = session(&[1_024], 0);
        blocked.aborted.as_mut().unwrap().transfer.connected_ns = None;
        let found = cause(&blocked).unwrap();
        assert_eq!(found.kind, CauseKind::Unknown);
        assert!(found.subject.starts_with("Either a firewall in front of the data port or"));
        assert!(
            found
                .advice
                .ends_with(". To tell them apart, measure again: a firewall blocks each transfer"),
            "{found:?}"
        );
    }

    #[test]
    fn without_any_data_the_server_is_also_named() {
        let found = cause(&session(&[], 0)).unwrap();
        assert!(found.subject.starts_with("Either a path MTU black hole or"), "{found:?}");
    }

    #[test]
    fn a_transfer_that_stops_after_a_lost_segment_failed_due_to_loss() {
        let mut session = session(&[1_024], 9_000);
        session.aborted.as_mut().unwrap().transfer.tcp.rcv_ooopack = Some(3);
        let found = cause(&session).unwrap();
        assert_eq!(found.kind, CauseKind::Loss);
        assert!(found.subject.starts_with("Packet loss"), "{found:?}");
        assert!(found.advice.starts_with("nothing came in time, after 9,000 bytes"), "{found:?}");
    }

    #[test]
    fn a_transfer_that_stops_after_others_lost_packets_has_two_possible_causes() {
        let mut session = session(&[1_024, 4_096], 9_000);
        session.connect_ns = Some(20 * MS);
        for transfer in &mut session.transfers {
            transfer.tcp.rcv_ooopack = Some(1);
            let at = |at_ms, bytes| Arrival { at_ns: at_ms * MS, bytes };
            transfer.arrivals = vec![at(60, 500), at(61, 500), at(62, 500), at(300, 500)];
        }
        let found = cause(&session).unwrap();
        assert!(found.subject.starts_with("Either packet loss or a server"), "{found:?}");
    }

    #[test]
    fn a_transfer_that_stops_in_the_middle_is_not_explained() {
        let found = cause(&session(&[1_024], 9_000)).unwrap();
        assert_eq!(found.kind, CauseKind::Unknown);
        assert!(found.advice.contains("nothing came in time, after 9,000 bytes"), "{found:?}");
    }

    #[test]
    fn each_aborted_transfer_is_described_by_its_evidence() {
        let blocked = |mut session: FileSession| {
            session.aborted.as_mut().unwrap().transfer.connected_ns = None;
            session
        };
        let lossy = |mut session: FileSession| {
            session.aborted.as_mut().unwrap().transfer.tcp.rcv_ooopack = Some(3);
            session
        };
        let all = [
            session(&[4_096, 1_024, 0], 0),
            session(&[0], 0),
            blocked(session(&[1_024], 0)),
            lossy(session(&[1_024], 9_000)),
            session(&[1_024], 9_000),
        ];
        let causes: Vec<Cause> = all.iter().map(|one| cause(one).unwrap()).collect();
        insta::assert_snapshot!(crate::verdict::tests::described(&causes), @"
        path MTU black hole of the transfer: 8000000000 ns, 8000000000 ns of 8000000000 ns
          A path MTU black hole costs 8.00 s of the 8.00 s of the transfer (100 %): a transfer of
          1,024 bytes in short packets completed, but a longer one brought no packets after the
          data connection was established; the transfer was aborted after 8.00 s. Allow ICMP
          (destination unreachable, packet too big), or lower the MTU to the size that the path
          carries.
        path MTU black hole of the transfer: 8000000000 ns, 8000000000 ns of 8000000000 ns
          Either a path MTU black hole or a server program that hangs costs 8.00 s of the 8.00 s
          of the transfer (100 %): the data connection was established and replies arrived, but no
          data; the transfer was aborted after 8.00 s. To tell them apart, request a file of a few
          bytes, which passes a black hole, or lower the MTU here (ip link set dev ... mtu 1000)
          and measure again.
        unknown of the transfer: 8000000000 ns, 8000000000 ns of 8000000000 ns
          Either a firewall in front of the data port or packet loss costs 8.00 s of the 8.00 s of
          the transfer (100 %): nothing came in time; the transfer was aborted after 8.00 s. To
          tell them apart, measure again: a firewall blocks each transfer.
        loss of the transfer: 8000000000 ns, 8000000000 ns of 8000000000 ns
          Packet loss costs 8.00 s of the 8.00 s of the transfer (100 %): nothing came in time,
          after 9,000 bytes, and segments were lost before; the transfer was aborted after 8.00 s.
          Find the link that loses packets.
        unknown of the transfer: 8000000000 ns, 8000000000 ns of 8000000000 ns
          An unknown cause costs 8.00 s of the 8.00 s of the transfer (100 %): nothing came in
          time, after 9,000 bytes; the transfer was aborted after 8.00 s; check the server's log
          and its load, and measure again.
        ");
    }
}
