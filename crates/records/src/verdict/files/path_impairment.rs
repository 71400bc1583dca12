//! Loss and reordering that affect all transfers of a session.

use super::lost_segments::has_losses;
use super::observed::{Exchange, FileSession, FileTransfer};
use super::reply_delays;
use super::shape::{FULL_PERCENT, TransferShape, alike_percent};
use crate::verdict::Direction;
use crate::verdict::cause::CauseKind;

/// Minimum number of duplicates; fewer may be occasional spurious retransmissions.
const MIN_DUPLICATES: u64 = 3;

/// Nothing was lost if at least the number of retransmitted segments divided by this number were
/// duplicates.
const MIN_SPURIOUS_DIVISOR: u64 = 2;

/// Segments were late rather than lost if at least the number of out-of-order segments divided by
/// this number were duplicates.
const MIN_DUPLICATE_DIVISOR: u64 = 40;

/// Returns whether packets of the session were reordered: retransmitted segments had not been lost.
pub(super) fn is_disordered(session: &FileSession) -> bool {
    let sum = |of: fn(&FileTransfer) -> Option<u64>, direction| {
        let candidates = session.transfers.iter().filter(|one| one.direction == direction);
        candidates.filter_map(of).fold(0_u64, u64::saturating_add)
    };
    let retransmitted_count = sum(|one| one.tcp.total_retrans, Direction::Outgoing);
    let spurious_count = sum(|one| one.tcp.dsack_dups, Direction::Outgoing);
    let reordered_count = sum(|one| one.tcp.reord_seen, Direction::Outgoing);
    let out_of_order_count = sum(|one| one.tcp.rcv_ooopack, Direction::Incoming);
    let duplicate_count = sum(|one| one.duplicates_in, Direction::Incoming);
    let has_spurious_retransmissions = spurious_count >= MIN_DUPLICATES
        && spurious_count * MIN_SPURIOUS_DIVISOR >= retransmitted_count;
    let has_reordering =
        reordered_count >= MIN_DUPLICATES && reordered_count >= retransmitted_count;
    let has_duplicates = duplicate_count >= MIN_DUPLICATES
        && duplicate_count.saturating_mul(MIN_DUPLICATE_DIVISOR) >= out_of_order_count;
    has_spurious_retransmissions || has_reordering || (out_of_order_count > 0 && has_duplicates)
}

/// Lateness that indicates a delayed packet, ns. Below it, the packet may have waited for a
/// processor; above it, it may be a retransmission, which Linux sends after 200 ms at the earliest.
pub(super) const DELAYED_NS: std::ops::Range<u64> = 20_000_000..190_000_000;

/// Minimum number of late replies; fewer may be coincidence.
const MIN_DELAYED_REPLIES: usize = 3;

/// Minimum percentage of late replies with about the same delay.
const DELAYED_ALIKE_PERCENT: u64 = 75;

/// Returns the commands before the one that starts the transfer.
pub(super) fn preliminary_exchanges(exchanges: &[Exchange]) -> &[Exchange] {
    exchanges.split_last().map_or(&[], |(_, before)| before)
}

/// Returns whether the path delays some packets by about the same time, in a session in which data
/// arrived out of order.
///
/// A slow server would be slow each time. Therefore there are three conditions: at most half of the
/// replies are late, several commands have late replies, and at least one of these commands also
/// has a reply in time elsewhere in the session.
fn has_delayed_replies(session: &FileSession, trip: u64) -> bool {
    let is_late = |one: &FileTransfer| one.tcp.rcv_ooopack.max(one.tcp.reord_seen) > Some(0);
    if !session.transfers.iter().any(is_late) {
        return false;
    }
    // The reply to the command that starts the transfer waits for the data connection.
    let of_transfers = session.transfers.iter().map(|one| preliminary_exchanges(&one.exchanges));
    let all = of_transfers.chain([session.login.as_slice()]);
    let late: Vec<(&str, u64)> = all
        .flat_map(|exchanges| {
            let verbs = exchanges.iter().map(|one| one.verb.as_str());
            verbs.zip(reply_delays::delays_ns(exchanges, trip))
        })
        .collect();
    let delayed_replies: Vec<(&str, u64)> =
        late.iter().copied().filter(|(_, ns)| DELAYED_NS.contains(ns)).collect();
    let Some((first, _)) = delayed_replies.first() else { return false };
    let affects_several_commands = delayed_replies.iter().any(|(verb, _)| verb != first);
    let is_in_time =
        |verb: &str| late.iter().any(|(other, ns)| *other == verb && *ns < DELAYED_NS.start);
    let is_occasional = delayed_replies.iter().any(|(verb, _)| is_in_time(verb));
    let times: Vec<u64> = delayed_replies.iter().map(|(_, ns)| *ns).collect();
    let is_alike = alike_percent(&times).is_some_and(|(_, alike)| alike >= DELAYED_ALIKE_PERCENT);
    let count = delayed_replies.len();
    let is_minority = count >= MIN_DELAYED_REPLIES && count * 2 <= late.len();
    affects_several_commands && is_occasional && is_alike && is_minority
}

/// Maximum size of a short transfer, bytes. Longer transfers fill the queue in front of the slowest
/// link, and lose packets when the queue overflows.
const SHORT_BYTES: u64 = 262_144;

/// Minimum number of short transfers with losses that exclude coincidence.
const MIN_LOSSY_TRANSFERS: usize = 2;

/// Returns the impairment of the path that affects the whole session, if it loses or delays many
/// packets even where no link is full.
pub(super) fn path_impairment(session: &FileSession, trip: u64) -> Option<CauseKind> {
    if is_disordered(session) || has_delayed_replies(session, trip) {
        return Some(CauseKind::Reordering);
    }
    let short = session.transfers.iter().filter(|one| one.bytes <= SHORT_BYTES && has_losses(one));
    let lossy = short.filter(|one| {
        let shape = TransferShape::of(one, trip);
        let full_ns = shape.span_ns.saturating_mul(FULL_PERCENT) / 100;
        shape.line_ns() < full_ns
    });
    (lossy.count() >= MIN_LOSSY_TRANSFERS).then_some(CauseKind::Loss)
}
