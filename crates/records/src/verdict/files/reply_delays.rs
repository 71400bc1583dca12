//! Delays of control connection replies beyond their round trips.

use super::observed::{Exchange, FileSession, FileTransfer};

/// Returns the round-trip time of the path: the shortest response time observed, ns.
///
/// TCP itself answers connections and data segments, so a slow program does not affect the minimum.
pub(super) fn trip_ns(session: &FileSession) -> Option<u64> {
    let of_data = session.transfers.iter().filter_map(|one| one.tcp.min_rtt_ns);
    let aborted = session.aborted.iter().filter_map(|one| one.transfer.tcp.min_rtt_ns);
    let exchanges =
        session.login.iter().chain(session.transfers.iter().flat_map(|one| &one.exchanges));
    let reply_times_ns = exchanges.filter_map(|one| one.replied_ns?.checked_sub(one.sent_ns));
    let all = of_data.chain(aborted).chain(reply_times_ns).chain(session.connect_ns);
    all.filter(|ns| *ns > 0).min()
}

/// Returns the total delay of the replies to the commands selected by `is_included`, ns.
///
/// A delay begins one round trip after the command or, if that is later, at the previous reply,
/// because a server answers in order.
pub(super) fn delay_ns(
    exchanges: &[Exchange],
    trip_ns: u64,
    is_included: impl Fn(&Exchange) -> bool,
) -> u64 {
    let late = exchanges.iter().zip(delays_ns(exchanges, trip_ns));
    let included = late.filter(|(exchange, _)| is_included(exchange));
    included.fold(0, |sum, (_, ns)| sum.saturating_add(ns))
}

/// Returns the delay of each reply up to the first missing one, ns.
pub(super) fn delays_ns(exchanges: &[Exchange], trip_ns: u64) -> Vec<u64> {
    let mut before_ns = 0_u64;
    let mut late = Vec::with_capacity(exchanges.len());
    for exchange in exchanges {
        let Some(replied_ns) = exchange.replied_ns else { break };
        let due_ns = exchange.sent_ns.saturating_add(trip_ns).max(before_ns);
        late.push(replied_ns.saturating_sub(due_ns));
        before_ns = replied_ns;
    }
    late
}

/// Returns the number of round trips of the commands. A pipelined command, sent before the previous
/// reply has arrived, takes no round trip of its own.
pub(super) fn trips(exchanges: &[Exchange]) -> u64 {
    let mut before_ns = 0;
    let mut trips = 0;
    for exchange in exchanges {
        if exchange.sent_ns >= before_ns {
            trips += 1;
        }
        before_ns = exchange.replied_ns.unwrap_or(u64::MAX);
    }
    trips
}

/// Delays of the steps of an FTP transfer before its first byte and after its last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    /// Command with the longest delay before the one that starts the transfer, and the delay, ns.
    pub(super) command: Option<(String, u64)>,
    /// Delay of the data connection, ns.
    pub(super) connection_ns: u64,
    /// Delay of the preliminary reply that held up the end of the transfer, ns.
    pub(super) preliminary_ns: u64,
    /// Delay of the first byte, ns.
    pub(super) first_byte_ns: u64,
    /// Delay of the final reply, ns.
    pub(super) last_reply_ns: u64,
    /// Number of round trips up to the first byte.
    pub(super) trips: u64,
}

/// Computes the steps of `transfer`, whose first bytes need `first_line_ns` on the slowest link.
pub(super) fn steps(transfer: &FileTransfer, trip_ns: u64, first_line_ns: u64) -> Steps {
    let Some((transfer_command, before)) = transfer.exchanges.split_last() else {
        return Steps::default();
    };
    let late =
        |one: &Exchange| delay_ns(&transfer.exchanges, trip_ns, |other| std::ptr::eq(one, other));
    let command = before.iter().map(|one| (one.verb.clone(), late(one)));
    let command = command.max_by_key(|(_, ns)| *ns);
    let command_sent_ns = before.iter().filter_map(|one| one.replied_ns).max().unwrap_or(0);
    let connected_ns = transfer.connected_ns.unwrap_or(command_sent_ns);
    let connection_ns = connected_ns.saturating_sub(command_sent_ns.saturating_add(trip_ns));
    // The server sends once it has the command and the connection is established on both hosts.
    let due_ns = connected_ns.max(transfer_command.sent_ns).saturating_add(trip_ns);
    let is_incoming = transfer.direction == crate::verdict::Direction::Incoming;
    let last_ns = transfer.last_byte_ns.unwrap_or(due_ns);
    // The last bytes written by the local host are acknowledged later.
    let acknowledged_ns = transfer.arrivals.last().filter(|_| !is_incoming).map(|last| last.at_ns);
    let last_ns = last_ns.max(acknowledged_ns.unwrap_or(0));
    let end_ns = transfer_command.replied_ns.unwrap_or(last_ns);
    let first_byte_ns = transfer.first_byte_ns.unwrap_or(due_ns);
    let preliminary_ns = transfer_command.preliminary_ns.unwrap_or(0);
    // The time of a reply that arrives before the data is part of the wait for the data.
    let held_ns = preliminary_ns.saturating_sub(last_ns.max(due_ns));
    let settled_ns = last_ns.saturating_add(trip_ns).max(preliminary_ns);
    let first_ns = first_byte_ns.saturating_sub(due_ns.saturating_add(first_line_ns));
    Steps {
        command,
        connection_ns,
        preliminary_ns: held_ns,
        first_byte_ns: if is_incoming { first_ns } else { 0 },
        last_reply_ns: end_ns.saturating_sub(settled_ns),
        trips: trips(before).saturating_add(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn exchange(verb: &str, sent: u64, preliminary: Option<u64>, replied: u64) -> Exchange {
        Exchange {
            verb: verb.to_owned(),
            sent_ns: sent * MS,
            preliminary_ns: preliminary.map(|ms| ms * MS),
            replied_ns: Some(replied * MS),
        }
    }

    /// Returns a download over a path of 100 ms: EPSV, connection, RETR and first byte in sequence,
    /// 50 ms of data, and the final reply.
    fn distant_download() -> FileTransfer {
        FileTransfer {
            exchanges: vec![exchange("EPSV", 0, None, 100), exchange("RETR", 0, Some(300), 350)],
            connected_ns: Some(200 * MS),
            first_byte_ns: Some(300 * MS),
            last_byte_ns: Some(350 * MS),
            total_ns: 350 * MS,
            ..FileTransfer::default()
        }
    }

    #[test]
    fn a_distant_server_has_no_late_step() {
        let steps = steps(&distant_download(), 100 * MS, 0);
        let expected =
            Steps { command: Some(("EPSV".to_owned(), 0)), trips: 3, ..Steps::default() };
        assert_eq!(steps, expected);
    }

    #[test]
    fn each_step_is_charged_with_its_time_beyond_its_round_trip() {
        let mut slow = distant_download();
        slow.first_byte_ns = Some(900 * MS);
        slow.last_byte_ns = Some(950 * MS);
        slow.exchanges[1] = exchange("RETR", 0, Some(900), 2_050);
        let result = steps(&slow, 100 * MS, 0);
        assert_eq!((result.first_byte_ns, result.last_reply_ns), (600 * MS, 1_000 * MS));
        assert_eq!((result.connection_ns, result.preliminary_ns), (0, 0));
    }

    #[test]
    fn a_preliminary_reply_after_the_data_delays_the_end() {
        let mut late = distant_download();
        late.exchanges[1] = exchange("RETR", 0, Some(1_350), 1_350);
        let result = steps(&late, 100 * MS, 0);
        assert_eq!((result.preliminary_ns, result.last_reply_ns), (1_000 * MS, 0));
    }

    #[test]
    fn the_time_of_the_first_packet_on_a_slow_link_is_not_charged_to_the_server() {
        let mut slow = distant_download();
        slow.first_byte_ns = Some(420 * MS);
        assert_eq!(steps(&slow, 100 * MS, 40 * MS).first_byte_ns, 80 * MS);
    }

    #[test]
    fn commands_that_are_sent_together_take_one_round_trip() {
        let exchanges = [
            exchange("TYPE", 0, None, 20),
            exchange("EPSV", 20, None, 40),
            exchange("RETR", 20, None, 60),
        ];
        assert_eq!(trips(&exchanges), 2);
    }

    #[test]
    fn a_delay_begins_a_round_trip_after_the_command_or_at_the_previous_reply() {
        let exchanges = [
            exchange("USER", 0, None, 150),
            exchange("PASS", 10, None, 160),
            exchange("ACCT", 160, None, 300),
        ];
        assert_eq!(delays_ns(&exchanges, 100 * MS), [50 * MS, 10 * MS, 40 * MS]);
        assert_eq!(delay_ns(&exchanges, 100 * MS, |one| one.verb != "PASS"), 90 * MS);
        let missing = [exchanges[0].clone(), Exchange::default(), exchanges[2].clone()];
        assert_eq!(delays_ns(&missing, 100 * MS), [50 * MS]);
        // A command that is sent when the previous reply arrives takes a round trip.
        assert_eq!((trips(&exchanges), trips(&missing), trips(&[])), (2, 1, 0));
    }

    #[test]
    fn the_round_trip_is_the_shortest_response() {
        let with = |min_rtt_ns, connect_ns| {
            let mut transfer = distant_download();
            transfer.tcp.min_rtt_ns = min_rtt_ns;
            let session =
                FileSession { connect_ns, transfers: vec![transfer], ..FileSession::default() };
            trip_ns(&session)
        };
        assert_eq!(with(None, None), Some(100 * MS));
        assert_eq!(with(Some(90 * MS), Some(80 * MS)), Some(80 * MS));
        assert_eq!(with(Some(0), Some(1)), Some(1));
        assert_eq!(trip_ns(&FileSession::default()), None);
        let mut aborted = crate::verdict::Aborted::default();
        aborted.transfer.tcp.min_rtt_ns = Some(7);
        let session = FileSession { aborted: Some(aborted), ..FileSession::default() };
        assert_eq!(trip_ns(&session), Some(7));
    }

    #[test]
    fn the_steps_of_an_upload_end_with_its_last_acknowledgment() {
        let mut upload = distant_download();
        upload.direction = crate::verdict::Direction::Outgoing;
        upload.first_byte_ns = Some(900 * MS);
        let at = |ms: u64| crate::verdict::Arrival { at_ns: ms * MS, bytes: 1 };
        upload.arrivals = vec![at(400), at(500)];
        upload.exchanges[1] = exchange("STOR", 0, Some(300), 640);
        let result = steps(&upload, 100 * MS, 0);
        assert_eq!((result.first_byte_ns, result.last_reply_ns), (0, 40 * MS));
        upload.direction = crate::verdict::Direction::Incoming;
        assert_eq!(steps(&upload, 100 * MS, 0).last_reply_ns, 190 * MS);
        upload.connected_ns = Some(250 * MS);
        assert_eq!(steps(&upload, 100 * MS, 0).connection_ns, 50 * MS);
        assert_eq!(steps(&upload, 100 * MS, 0).first_byte_ns, 550 * MS);
        upload.connected_ns = None;
        assert_eq!(steps(&upload, 100 * MS, 0).first_byte_ns, 700 * MS);
    }

    proptest! {
        #[test]
        fn no_times_cause_a_panic(
            raw in proptest::collection::vec(any::<(u64, Option<u64>, Option<u64>)>(), 0..6),
            marks: [Option<u64>; 3],
            trip: u64,
            line: u64,
        ) {
            let exchanges: Vec<Exchange> = raw
                .into_iter()
                .map(|(sent_ns, preliminary_ns, replied_ns)| Exchange {
                    verb: "X".to_owned(), sent_ns, preliminary_ns, replied_ns,
                })
                .collect();
            _ = (trips(&exchanges), delay_ns(&exchanges, trip, |_| true));
            let [connected_ns, first_byte_ns, last_byte_ns] = marks;
            let transfer = FileTransfer {
                exchanges, connected_ns, first_byte_ns, last_byte_ns, ..FileTransfer::default()
            };
            _ = steps(&transfer, trip, line);
        }
    }
}
