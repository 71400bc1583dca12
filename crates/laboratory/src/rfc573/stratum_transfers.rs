//! Transfers of RFC 573, generated from the totals that the scenario states for each stratum: a
//! program (user or server), a direction and a data type.

use super::strata::{Kind, Strata, Stratum};
use super::transfer_request::{Form, Verb};
use crate::limits::OutOfRange;
use records::population::rfc573::{self as population, Sums};
use records::transfer::{Command, Role, Transfer, Type};
use simulator::Side;

/// Returns an error if the totals of a stratum are too large for an experiment, or less than the
/// totals of the transfers that the paper lists.
pub(crate) fn check(strata: &Strata) -> Result<(), OutOfRange> {
    for (kind, stratum) in strata.all() {
        let Sums { files, bits, cpu_ms } = population_of(kind, stratum).minimum_sums();
        stratum.check(kind.key, Stratum { files, bits, cpu_ms })?;
    }
    Ok(())
}

/// Returns the transfers in the order of their start. Only the transfers that the paper lists have
/// a start time.
pub(super) fn transfers(strata: &Strata) -> Vec<Transfer> {
    population::transfers(&strata.all().map(|(kind, stratum)| population_of(kind, stratum)))
}

fn population_of(kind: Kind, stratum: Stratum) -> population::Stratum {
    let Stratum { files, bits, cpu_ms } = stratum;
    population::Stratum {
        role: if kind.ours == Side::User { Role::User } else { Role::Server },
        command: if kind.verb == Verb::Retrieve { Command::Retr } else { Command::Stor },
        representation: if kind.form == Form::Words { Type::Image } else { Type::Ascii },
        sums: Sums { files, bits, cpu_ms },
        real_ms: None,
    }
}

/// Returns the transfers of `strata` with durations. With the strata of the built-in scenario they
/// are the 304 transfers of table II, and their durations add up to those of the table.
///
/// The experiment computes the durations instead. These are for tests of programs that read
/// records.
#[must_use]
pub fn transfers_of_1973(strata: &Strata) -> Vec<Transfer> {
    const REAL_MS: [u64; 8] =
        [448_000, 2_485_500, 1_656_500, 1_143_500, 60_000, 180_000, 1_226_000, 420_000];
    let strata = strata.all().map(|(kind, stratum)| population_of(kind, stratum));
    let with_times = strata
        .into_iter()
        .zip(REAL_MS)
        .map(|(stratum, real_ms)| population::Stratum { real_ms: Some(real_ms), ..stratum });
    population::transfers(&with_times.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_built_in_strata_have_304_files_of_57_6_megabits() {
        let all = transfers(&built_in().strata);
        let bits: u64 = all.iter().filter_map(Transfer::bits).sum();
        assert_eq!((all.len(), bits / 10_000), (304, 5_758));
        let ids: BTreeSet<_> = all.iter().map(|transfer| transfer.record_id).collect();
        assert_eq!(ids.len(), 304);
    }

    #[test]
    fn the_smallest_and_largest_transfers_are_those_of_the_paper() {
        let all = transfers_of_1973(&built_in().strata);
        let bits: Vec<u64> = all.iter().filter_map(Transfer::bits).collect();
        assert_eq!((bits.iter().min(), bits.iter().max()), (Some(&80), Some(&5_029_992)));
        let lowest_rate = all.iter().filter_map(Transfer::rate_bps).min();
        assert_eq!(lowest_rate, Some(11));
    }

    #[test]
    fn the_fastest_transfer_is_that_of_the_paper() {
        let highest_rate =
            transfers_of_1973(&built_in().strata).iter().filter_map(Transfer::rate_bps).max();
        assert_eq!(highest_rate.map(|rate| rate / 100), Some(278));
    }

    #[test]
    fn a_stratum_must_hold_the_transfers_that_the_paper_lists() {
        let error_after = |change: fn(&mut Strata)| {
            let mut strata = built_in().strata;
            change(&mut strata);
            check(&strata).unwrap_err().to_string()
        };
        let errors = [
            // The paper lists the fastest transfer, so the stratum has at least two files.
            error_after(|strata| strata.server_sends_image.files = 1),
            // The fastest transfer has 28,008 bits, and each of the 51 other files has at least
            // 720.
            error_after(|strata| strata.server_sends_image.bits = 64_727),
            // The fastest transfer alone takes 28,008 µs of CPU time.
            error_after(|strata| strata.server_sends_image.cpu_ms = 28),
            error_after(|strata| strata.user_sends_ascii.files = 1_001),
        ];
        let expected = [
            "strata.server_sends_image.files is 1 and may be 2 to 1000",
            "strata.server_sends_image.bits is 64727 and may be 64728 to 100000000",
            "strata.server_sends_image.cpu_ms is 28 and may be 29 to 10000000",
            "strata.user_sends_ascii.files is 1001 and may be 8 to 1000",
        ];
        assert_eq!(errors, expected);
    }
}
