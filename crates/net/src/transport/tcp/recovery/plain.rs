//! Header prediction for the sender: a short path for acknowledgments while nothing is lost.
//!
//! Van Jacobson observed that nearly all segments are exactly as expected, and that a TCP needs
//! only a page of code for them (his note of 1990 to the tcp-ip list; RFC 7323 appendix A describes
//! such receivers). Here the expected acknowledgment has no blocks, acknowledges all outstanding
//! data, and arrives while nothing is missing. Nothing can then be lost, and there is no recovery
//! to end or to undo. Only two steps remain: measuring the round trip, and growing the window. Both
//! use the same functions as the general path.
//!
//! A property test compares the resulting state with that of the general path.

use super::{Acknowledged, Outcome, Phase, Recovery, Undo};
use crate::time::Instant;

impl Recovery {
    /// Returns whether the short path applies to an acknowledgment.
    pub(super) fn is_plain(&self, report: &Acknowledged<'_>) -> bool {
        let is_open = self.phase == Phase::Open && self.prr.is_none();
        // Only reports of duplicates can affect a recovery that may still prove spurious.
        let may_be_spurious = |undo: Undo| undo.since.is_some() && undo.unreported_bytes == 0;
        let is_settled = is_open && !self.undo.is_some_and(may_be_spurious);
        let has_timer =
            self.tail_probe.is_some() || self.duplicates > 0 || self.retransmitted_up_to.is_some();
        let is_odd = report.is_duplicate || !report.blocks.is_empty() || self.window.has_model();
        is_settled && !has_timer && !is_odd && self.flight.is_plain_acknowledgment(report.ack)
    }

    /// Processes an acknowledgment to which the short path applies.
    pub(super) fn acknowledged_plainly(
        &mut self,
        report: &Acknowledged<'_>,
        now: Instant,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let delivery = self.flight.acknowledge_all(now);
        self.record_times_and_reordering(&delivery, report, &mut outcome, now);
        if self.has_blocks {
            // Nothing is outstanding, so no data can have been reordered.
            self.reordering_at = None;
        }
        self.grow_window(&delivery, report.srtt, now);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::profile::Congestion;
    use super::super::super::sack::Block;
    use super::super::super::seq::Seq;
    use super::*;
    use crate::time::Duration;
    use proptest::prelude::*;
    use std::format;
    use std::vec::Vec;

    const MSS: u32 = 1000;
    const SRTT: Option<Duration> = Some(Duration::from_millis(20));

    /// An event at the sender.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Sends(u32),
        SendsAgain,
        /// The peer acknowledges a part of the outstanding data, in thousandths.
        Acknowledges(u32),
        AcknowledgesAll,
        /// A duplicate acknowledgment with a block. Start and end are in thousandths of the
        /// outstanding data.
        Reports(u32, u32),
        IsMarked,
        TimesOut,
        ProbesTail,
        FindsItsWindowFull(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..5000_u32).prop_map(Step::Sends),
            1 => Just(Step::SendsAgain),
            1 => (1..1000_u32).prop_map(Step::Acknowledges),
            3 => Just(Step::AcknowledgesAll),
            1 => (0..1000_u32, 0..1000_u32).prop_map(|(from, to)| Step::Reports(from, to)),
            1 => prop_oneof![
                Just(Step::IsMarked),
                Just(Step::TimesOut),
                Just(Step::ProbesTail),
                any::<bool>().prop_map(Step::FindsItsWindowFull),
            ],
        ]
    }

    fn congestion() -> impl Strategy<Value = Congestion> {
        prop_oneof![Just(Congestion::NewReno), Just(Congestion::Cubic), Just(Congestion::Bbr)]
    }

    /// Processes an acknowledgment. If the short path applies, also compares it with the general
    /// path. Returns whether the short path applies.
    fn acknowledge(recovery: &mut Recovery, report: &Acknowledged<'_>, now: Instant) -> bool {
        let is_plain = recovery.is_plain(report);
        let mut general = recovery.clone();
        let outcome = recovery.acknowledged(report, now);
        if is_plain {
            let expected = general.acknowledged_in_steps(report, now);
            assert_eq!(format!("{outcome:?}"), format!("{expected:?}"));
            assert_eq!(format!("{recovery:?}"), format!("{general:?}"));
        }
        is_plain
    }

    fn take(recovery: &mut Recovery, step: Step, now: Instant) -> bool {
        let flight = &recovery.flight;
        let seq_at = |thousandths: u32| {
            let offset = flight.outstanding() * u64::from(thousandths) / 1000;
            flight.seq(flight.una() + offset)
        };
        let una = seq_at(0);
        let nxt = seq_at(1000);
        let report = |ack: Seq, blocks: &'static [Block]| Acknowledged {
            ack,
            blocks,
            is_duplicate: ack == una && blocks.is_empty(),
            is_ack_of_original: false,
            srtt: SRTT,
        };
        let acknowledged = match step {
            Step::Acknowledges(thousandths) => seq_at(thousandths),
            Step::AcknowledgesAll => nxt,
            _ => una,
        };
        match step {
            Step::Sends(len) => recovery.sent(len, now),
            Step::SendsAgain => {
                if let Some((seq, len)) = recovery.next_lost(MSS) {
                    recovery.sent_again(seq, len, now);
                }
            }
            Step::Acknowledges(_) | Step::AcknowledgesAll => {
                return una != nxt && acknowledge(recovery, &report(acknowledged, &[]), now);
            }
            Step::Reports(from, to) => {
                let block: Vec<Block> = [(seq_at(from.min(to)), seq_at(from.max(to)))].into();
                let blocks = if recovery.has_blocks { &block[..] } else { &[] };
                let report = Acknowledged { blocks, ..report(una, &[]) };
                return una != nxt && acknowledge(recovery, &report, now);
            }
            Step::IsMarked => _ = recovery.process_mark(),
            Step::TimesOut => {
                _ = recovery.timeout(SRTT, now);
                if una != nxt {
                    recovery.timed_out(true);
                }
            }
            Step::ProbesTail if una != nxt => recovery.tail_probe_sent(true),
            Step::ProbesTail => {}
            Step::FindsItsWindowFull(is_full) => recovery.record_limit(is_full),
        }
        recovery.start_probe_timer(SRTT, None, now);
        false
    }

    proptest! {
        #[test]
        fn the_state_is_the_same_as_after_all_steps(
            congestion in congestion(), has_blocks: bool, start: u32,
            steps in prop::collection::vec((step(), 0..30_u64), 1..60),
        ) {
            let mut recovery = Recovery::new(congestion, MSS, Seq(start), has_blocks);
            let mut now = Instant::ZERO;
            for (step, millis) in steps {
                now = now + Duration::from_millis(millis);
                take(&mut recovery, step, now);
            }
        }
    }

    #[test]
    fn the_answer_to_each_keystroke_is_plain() {
        let mut recovery = Recovery::new(Congestion::Cubic, MSS, Seq(u32::MAX - 5), true);
        for key in 0..20 {
            let now = Instant::ZERO + Duration::from_millis(100 * key);
            recovery.sent(1, now);
            assert!(take(&mut recovery, Step::AcknowledgesAll, now + Duration::from_millis(10)));
        }
    }

    #[test]
    fn a_partial_acknowledgment_is_not_plain() {
        let mut recovery = Recovery::new(Congestion::Cubic, MSS, Seq(0), true);
        recovery.sent(2000, Instant::ZERO);
        assert!(!take(&mut recovery, Step::Acknowledges(500), Instant::ZERO));
        assert!(take(&mut recovery, Step::AcknowledgesAll, Instant::ZERO));
    }
}
