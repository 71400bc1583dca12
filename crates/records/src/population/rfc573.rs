//! The transfers of RFC 573, from 1973.
//!
//! The paper prints sums by type and by program (table II), a page of the listing (table III), and
//! the largest, the smallest and the fastest transfer. The transfers that the paper names are
//! constants here. The paper does not divide the types among the programs: the caller specifies
//! that division as strata. The other transfers of a stratum are synthesized so that all transfers
//! of the stratum add up to its sums.

use crate::calendar::day_start_unix_ns;
use crate::transfer::{
    Command, Format, Identifier, Mode, Outcome, Role, Structure, Text, Transfer, Type,
};

/// The transfers of one program in one direction and one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stratum {
    /// Program that kept the record.
    pub role: Role,
    /// RETR or STOR. Transfers by MLFL belong to STOR.
    pub command: Command,
    /// Image has bytes of 36 bits, every other type bytes of 8 bits.
    pub representation: Type,
    /// Totals of the transfers.
    pub sums: Sums,
    /// Total real time, ms; with `None`, the synthesized transfers have no real time.
    pub real_ms: Option<u64>,
}

/// Totals of the transfers of a stratum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of transfers.
    pub files: u64,
    /// Bits of the files.
    pub bits: u64,
    /// CPU time of the program that kept the record, ms.
    pub cpu_ms: u64,
}

/// Smallest synthesized transfer, in bytes of its type.
const MIN_BYTES: u64 = 20;

impl Stratum {
    /// Returns the smallest sums that [`transfers`] can reproduce: the sums of the transfers that
    /// the paper names, plus one transfer of at least 20 bytes. Each further file of this stratum
    /// adds 20 bytes to the minimum number of bits.
    #[must_use]
    pub fn minimum_sums(&self) -> Sums {
        let named = self.named_sums();
        let others = self.sums.files.saturating_sub(named.files).max(1);
        let bits = named.bits + others * MIN_BYTES * self.byte_bits();
        Sums { files: named.files + 1, bits, cpu_ms: named.cpu_ms }
    }

    const fn byte_bits(&self) -> u64 {
        match self.representation {
            Type::Image => 36,
            _ => 8,
        }
    }

    fn named(&self) -> impl Iterator<Item = &'static NamedTransfer> {
        let Self { role, command, representation, .. } = *self;
        NAMED.iter().filter(move |named| {
            named.program == (role, representation)
                && (named.command == Command::Retr) == (command == Command::Retr)
        })
    }

    /// Returns the sums of the named transfers; the CPU time is rounded up.
    fn named_sums(&self) -> Sums {
        self.named().fold(Sums::default(), |sums, named| Sums {
            files: sums.files + 1,
            bits: sums.bits + named.bits,
            cpu_ms: sums.cpu_ms + named.cpu_ns().div_ceil(1_000_000),
        })
    }
}

/// A transfer that the paper names.
struct NamedTransfer {
    program: (Role, Type),
    host: (u64, &'static str),
    command: Command,
    /// Day of August 1973, and second of the day.
    start: (u8, u64),
    bits: u64,
    real_ms: u64,
    cpu_us_per_bit: u64,
}

impl NamedTransfer {
    const fn cpu_ns(&self) -> u64 {
        self.bits * self.cpu_us_per_bit * 1_000
    }
}

const fn named(
    program: (Role, Type),
    host: (u64, &'static str),
    command: Command,
    start: (u8, u64),
    (bits, real_ms, cpu_us_per_bit): (u64, u64, u64),
) -> NamedTransfer {
    NamedTransfer { program, host, command, start, bits, real_ms, cpu_us_per_bit }
}

const SERVER_IMAGE: (Role, Type) = (Role::Server, Type::Image);
const USER_IMAGE: (Role, Type) = (Role::User, Type::Image);
const USER_TEXT: (Role, Type) = (Role::User, Type::Ascii);

const ML: (u64, &str) = (198, "mit-ml");
const AI: (u64, &str) = (134, "mit-ai");
const NIC: (u64, &str) = (2, "sri-arc");
const BBN: (u64, &str) = (69, "bbn-tenexa");
const ISI: (u64, &str) = (86, "usc-isi");

const NAMED: [NamedTransfer; 30] = [
    // Fastest, largest and smallest transfer; the text has their rates.
    named(SERVER_IMAGE, BBN, Command::Retr, (14, 50_000), (28_008, 1_007, 1)),
    named(USER_IMAGE, AI, Command::Stor, (14, 52_000), (5_029_992, 498_000, 1)),
    named(USER_TEXT, ML, Command::Mlfl, (14, 54_000), (80, 7_000, 60)),
    // Table III, in the row order of the scan. The columns of the scan are shifted. Rates are
    // computed from whole seconds, except in the second row: 5,336 bit/s are 50,688 bits in 9.5 s.
    named(USER_IMAGE, NIC, Command::Stor, (9, 65_989), (121_392, 87_000, 21)),
    named(USER_IMAGE, ML, Command::Stor, (15, 54_030), (50_688, 9_500, 8)),
    named(USER_IMAGE, ML, Command::Retr, (15, 54_074), (50_688, 5_000, 12)),
    named(USER_IMAGE, ML, Command::Stor, (15, 54_153), (255_456, 29_000, 7)),
    named(USER_IMAGE, ML, Command::Retr, (15, 54_238), (258_048, 30_000, 12)),
    named(USER_TEXT, AI, Command::Stor, (15, 54_797), (286_720, 151_000, 29)),
    named(USER_IMAGE, AI, Command::Retr, (15, 55_119), (258_048, 27_000, 14)),
    named(USER_IMAGE, AI, Command::Stor, (15, 55_182), (258_048, 37_000, 7)),
    named(USER_IMAGE, NIC, Command::Retr, (15, 55_880), (7_236, 2_000, 22)),
    named(USER_IMAGE, NIC, Command::Stor, (15, 55_975), (49_428, 6_000, 31)),
    named(USER_IMAGE, NIC, Command::Retr, (15, 56_096), (49_428, 14_000, 15)),
    named(USER_IMAGE, NIC, Command::Stor, (15, 56_289), (49_428, 7_000, 8)),
    named(USER_IMAGE, NIC, Command::Stor, (20, 55_106), (35_460, 15_000, 9)),
    named(USER_TEXT, NIC, Command::Retr, (20, 58_089), (58_832, 138_000, 153)),
    named(USER_TEXT, NIC, Command::Retr, (22, 45_970), (10_512, 63_000, 247)),
    named(USER_TEXT, NIC, Command::Retr, (23, 59_377), (320, 5_000, 369)),
    named(USER_TEXT, NIC, Command::Retr, (24, 44_738), (9_992, 38_000, 254)),
    named(USER_TEXT, NIC, Command::Retr, (24, 44_846), (9_992, 22_000, 250)),
    named(USER_IMAGE, ML, Command::Stor, (29, 38_458), (768_924, 102_000, 7)),
    named(USER_IMAGE, ML, Command::Stor, (29, 38_649), (166_572, 30_000, 7)),
    named(USER_IMAGE, ML, Command::Stor, (29, 39_272), (166_572, 21_000, 7)),
    named(USER_IMAGE, ML, Command::Stor, (29, 49_698), (158_040, 13_000, 7)),
    named(USER_TEXT, BBN, Command::Mlfl, (29, 81_055), (5_600, 3_000, 51)),
    named(USER_TEXT, BBN, Command::Mlfl, (29, 81_102), (5_600, 2_000, 50)),
    named(USER_TEXT, ISI, Command::Mlfl, (29, 81_235), (5_600, 4_000, 54)),
    named(USER_TEXT, BBN, Command::Mlfl, (29, 81_375), (5_600, 2_000, 48)),
    named(USER_TEXT, BBN, Command::Mlfl, (29, 81_414), (5_600, 2_000, 49)),
];

/// Returns the transfers of `strata`, in order of their start.
///
/// Sums below [`Stratum::minimum_sums`] are not reproduced exactly.
#[must_use]
pub fn transfers(strata: &[Stratum]) -> Vec<Transfer> {
    let mut all = Vec::new();
    for (at, stratum) in (0..).zip(strata) {
        for named in stratum.named() {
            let day = day_start_unix_ns(1973, 8, named.start.0).unwrap_or(0);
            let start_s = day / 1_000_000_000 + named.start.1;
            let real_ns = Some(named.real_ms * 1_000_000);
            let figures = Figures { bits: named.bits, real_ns, cpu_ns: named.cpu_ns() };
            all.push(transfer(stratum, named.host, named.command, start_s, figures));
        }
        push_unnamed_transfers(stratum, at, &mut all);
    }
    all.sort_by_key(|transfer| transfer.record_id);
    all
}

/// Recorded values of one transfer.
#[derive(Clone, Copy)]
struct Figures {
    bits: u64,
    real_ns: Option<u64>,
    cpu_ns: u64,
}

/// Adds the transfers of `stratum` that the paper does not name, so that all transfers of the
/// stratum add up to its sums; `at` is the index of the stratum.
///
/// Sizes grow quadratically. One fifth of the total time is divided equally among the transfers,
/// and four fifths in proportion to their bits.
fn push_unnamed_transfers(stratum: &Stratum, at: u64, all: &mut Vec<Transfer>) {
    let sums = stratum.sums;
    let remainder = |sum: u64, of: fn(&NamedTransfer) -> u64| {
        sum.saturating_sub(stratum.named().map(of).sum::<u64>())
    };
    let count = remainder(sums.files, |_| 1);
    let bits = remainder(sums.bits, |named| named.bits);
    let real_ns = stratum.real_ms.map(|ms| remainder(ms, |named| named.real_ms) * 1_000_000);
    let cpu_ns = remainder(sums.cpu_ms * 1_000_000, NamedTransfer::cpu_ns);
    let weights: u64 = (1..=count).map(|place| place * place).sum();
    let unit = stratum.byte_bits();
    let first_day = day_start_unix_ns(1973, 2, 25).unwrap_or(0) / 1_000_000_000;
    let mut remaining = Figures { bits, real_ns, cpu_ns };
    for place in 1..=count {
        let own_share = if place == count {
            remaining
        } else {
            // The transfers after this one need 20 bytes each.
            let max = remaining.bits.saturating_sub((count - place) * MIN_BYTES * unit);
            let target_bits = (bits * place * place / weights).max(MIN_BYTES * unit);
            let own_share = target_bits.min(max) / unit * unit;
            let share = |ns: u64| {
                let by_bits =
                    u128::from(ns) * 4 / 5 * u128::from(own_share) / u128::from(bits.max(1));
                u64::try_from(by_bits).unwrap_or(0) + ns / 5 / count
            };
            Figures { bits: own_share, real_ns: real_ns.map(share), cpu_ns: share(cpu_ns) }
        };
        remaining.bits -= own_share.bits;
        remaining.cpu_ns -= own_share.cpu_ns;
        remaining.real_ns = remaining
            .real_ns
            .zip(own_share.real_ns)
            .map(|(remaining, own_share)| remaining - own_share);
        let host = [ML, AI, NIC, BBN].into_iter().cycle().nth(usize::try_from(place).unwrap_or(0));
        // Spread over half a year; each stratum starts eleven minutes after the previous one.
        let start_s = first_day + place * 160 * 86_400 / count + 36_000 + at * 660;
        all.push(transfer(stratum, host.unwrap_or(ML), stratum.command, start_s, own_share));
    }
}

fn transfer(
    stratum: &Stratum,
    (number, host): (u64, &str),
    command: Command,
    start_s: u64,
    figures: Figures,
) -> Transfer {
    let start_unix_ns = start_s * 1_000_000_000;
    // Transfers of two strata may begin in the same second with the same number of bits.
    let kind = u64::from(stratum.role.code()) << 4 | u64::from(stratum.command.code()) << 1;
    let kind = kind | u64::from(stratum.representation == Type::Image);
    let mut transfer = Transfer::new(Identifier::new(start_unix_ns, figures.bits << 8 | kind));
    transfer.identity.role = Some(stratum.role);
    transfer.identity.remote_name = Some(Text::from(host));
    transfer.identity.ncp_host = Some(number);
    let is_image = stratum.representation == Type::Image;
    transfer.request.command = Some(command);
    transfer.request.representation = Some(stratum.representation);
    transfer.request.format = (!is_image).then_some(Format::NonPrint);
    transfer.request.byte_size = Some(if is_image { 36 } else { 8 });
    transfer.request.mode = Some(Mode::Stream);
    transfer.request.structure = Some(Structure::File);
    transfer.result.outcome = Some(Outcome::Complete);
    transfer.size.bits = Some(figures.bits);
    transfer.time.start_unix_ns = Some(start_unix_ns);
    transfer.time.transfer_ns = figures.real_ns;
    transfer.cpu.cpu_user_ns = Some(figures.cpu_ns);
    transfer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn stratum(
        (role, command, representation): (Role, Command, Type),
        files: u64,
        real_ms: Option<u64>,
    ) -> Stratum {
        let sums = Sums { files, ..Sums::default() };
        let mut stratum = Stratum { role, command, representation, sums, real_ms };
        stratum.sums = Sums { files, ..stratum.minimum_sums() };
        stratum
    }

    const KINDS: [(Role, Command, Type); 8] = [
        (Role::Server, Command::Retr, Type::Image),
        (Role::Server, Command::Stor, Type::Image),
        (Role::User, Command::Retr, Type::Image),
        (Role::User, Command::Stor, Type::Image),
        (Role::Server, Command::Retr, Type::Ascii),
        (Role::Server, Command::Stor, Type::Ascii),
        (Role::User, Command::Retr, Type::Ascii),
        (Role::User, Command::Stor, Type::Ascii),
    ];

    fn sums_of(transfers: &[Transfer]) -> (u64, u64, u64) {
        let sum = |of: fn(&Transfer) -> Option<u64>| transfers.iter().filter_map(of).sum::<u64>();
        let cpu_ns = sum(|one| one.cpu.cpu_user_ns);
        (u64::try_from(transfers.len()).unwrap(), sum(Transfer::bits), cpu_ns / 1_000_000)
    }

    #[test]
    fn the_transfers_of_the_strata_never_change() {
        let strata = KINDS.map(|kind| {
            let mut stratum = stratum(kind, 60, Some(9_000_000));
            stratum.sums.bits += 3_000_000;
            stratum.sums.cpu_ms += 70_000;
            stratum
        });
        let sums = strata.map(|one| (one.minimum_sums().files, one.minimum_sums().bits));
        assert_eq!(sums[0], (2, 28_008 + 59 * 20 * 36));
        assert_eq!(sums[4], (1, 60 * 20 * 8));
        assert_eq!(super::super::tests::checksum(&transfers(&strata)), 0xb0c8_7622_3bc0_c3ab);
    }

    proptest! {
        #[test]
        fn the_transfers_of_a_stratum_have_its_sums_and_at_least_twenty_bytes(
            kind in 0_usize..8,
            others in 1_u64..200,
            more_bits in 0_u64..10_000_000,
            more_ms in 0_u64..1_000_000,
        ) {
            let named = stratum(KINDS[kind], 0, None).named().count() as u64;
            let mut one = stratum(KINDS[kind], named + others, None);
            one.sums.bits += more_bits;
            one.sums.cpu_ms += more_ms;
            let generated_transfers = transfers(&[one]);
            let Sums { files, bits, cpu_ms } = one.sums;
            prop_assert_eq!(sums_of(&generated_transfers), (files, bits, cpu_ms));
            let unnamed = generated_transfers.iter().filter(|one| one.time.transfer_ns.is_none());
            let min = unnamed.filter_map(Transfer::bits).min().unwrap();
            prop_assert!(min >= MIN_BYTES * one.byte_bits(), "{}", min);
        }
    }

    #[test]
    fn the_times_of_a_stratum_add_up_to_its_total_time() {
        let real_ns = |real_ms| -> u64 {
            let generated_transfers = transfers(&[stratum(KINDS[4], 10, real_ms)]);
            generated_transfers.iter().filter_map(|one| one.time.transfer_ns).sum()
        };
        assert_eq!(real_ns(Some(60_000)), 60_000_000_000);
        assert_eq!(real_ns(None), 0);
    }

    #[test]
    fn the_named_transfers_do_not_depend_on_the_sums() {
        let strata = KINDS.map(|kind| stratum(kind, 40, None));
        let generated_transfers = transfers(&strata);
        let named = generated_transfers.iter().filter(|one| one.time.transfer_ns.is_some());
        let named: Vec<_> = named.map(|one| (one.bits().unwrap(), one.time.transfer_ns)).collect();
        assert_eq!(named.len(), NAMED.len());
        for one in &NAMED {
            assert!(named.contains(&(one.bits, Some(one.real_ms * 1_000_000))), "{}", one.bits);
        }
    }

    #[test]
    fn transfers_of_two_strata_with_the_same_second_and_bits_have_different_records() {
        let figures = Figures { bits: 720, real_ns: None, cpu_ns: 0 };
        let ids: BTreeSet<_> = KINDS
            .map(|kind| transfer(&stratum(kind, 40, None), ML, kind.1, 5, figures).record_id)
            .into();
        assert_eq!(ids.len(), KINDS.len());
    }
}
