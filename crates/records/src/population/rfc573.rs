//! RFC 573's 304 transfers of 1973, as far as the paper tells of them.
//!
//! It prints sums by type and by program (table II), a page of the listing (table III), and the
//! largest, the smallest and the fastest. The transfers here are those that it names, and others
//! that bring every subset to its sums. How the types divide among the programs it does not say;
//! the division here is one that fits. Its average of the files that the user received, 276 kbit,
//! does not follow from its own 22.8 Mbit in 83 files, which are 275; nor does its 225 kbit of those
//! that the user sent.

use crate::calendar::day_began_unix_ns;
use crate::transfer::{
    Command, Format, Identifier, Mode, Outcome, Role, Structure, Text, Transfer, Type,
};

/// One type of one program: how many transfers, and what they add up to.
struct Stratum {
    role: Role,
    command: Command,
    representation: Type,
    files: u64,
    bits: u64,
    real_ms: u64,
    cpu_ms: u64,
}

/// A transfer that the paper tells of.
struct Told {
    stratum: usize,
    host: (u64, &'static str),
    command: Command,
    /// Day of August 1973, and second of the day.
    began: (u8, u64),
    bits: u64,
    real_ms: u64,
    cpu_us_per_bit: u64,
}

const fn stratum(
    (role, command, representation): (Role, Command, Type),
    files: u64,
    bits: u64,
    real_ms: u64,
    cpu_ms: u64,
) -> Stratum {
    Stratum { role, command, representation, files, bits, real_ms, cpu_ms }
}

const IMAGE: Type = Type::Image;
const ASCII: Type = Type::Ascii;

const STRATA: [Stratum; 8] = [
    stratum((Role::Server, Command::Retr, IMAGE), 52, 3_610_000, 448_000, 6_000),
    stratum((Role::Server, Command::Stor, IMAGE), 95, 19_340_000, 2_485_500, 18_000),
    stratum((Role::User, Command::Retr, IMAGE), 47, 20_390_000, 1_656_500, 91_000),
    stratum((Role::User, Command::Stor, IMAGE), 29, 10_290_000, 1_143_500, 31_000),
    stratum((Role::Server, Command::Retr, ASCII), 10, 200_000, 60_000, 2_000),
    stratum((Role::Server, Command::Stor, ASCII), 15, 500_000, 180_000, 6_000),
    stratum((Role::User, Command::Retr, ASCII), 36, 2_450_000, 1_226_000, 49_000),
    stratum((Role::User, Command::Stor, ASCII), 20, 800_000, 420_000, 18_000),
];

const fn told(
    stratum: usize,
    host: (u64, &'static str),
    command: Command,
    began: (u8, u64),
    (bits, real_ms, cpu_us_per_bit): (u64, u64, u64),
) -> Told {
    Told { stratum, host, command, began, bits, real_ms, cpu_us_per_bit }
}

const ML: (u64, &str) = (198, "mit-ml");
const AI: (u64, &str) = (134, "mit-ai");
const NIC: (u64, &str) = (2, "sri-arc");
const BBN: (u64, &str) = (69, "bbn-tenexa");
const ISI: (u64, &str) = (86, "usc-isi");

const TOLD: [Told; 30] = [
    // Fastest, largest, smallest; the text has their rates.
    told(0, BBN, Command::Retr, (14, 50_000), (28_008, 1_007, 1)),
    told(3, AI, Command::Stor, (14, 52_000), (5_029_992, 498_000, 1)),
    told(7, ML, Command::Mlfl, (14, 54_000), (80, 7_000, 60)),
    // Table III, its rows as they lie in the scan, where the columns have come apart. A rate is that
    // of whole seconds, but for the second: 5,336 bit/s are 50,688 bits in 9.5.
    told(3, NIC, Command::Stor, (9, 65_989), (121_392, 87_000, 21)),
    told(3, ML, Command::Stor, (15, 54_030), (50_688, 9_500, 8)),
    told(2, ML, Command::Retr, (15, 54_074), (50_688, 5_000, 12)),
    told(3, ML, Command::Stor, (15, 54_153), (255_456, 29_000, 7)),
    told(2, ML, Command::Retr, (15, 54_238), (258_048, 30_000, 12)),
    told(7, AI, Command::Stor, (15, 54_797), (286_720, 151_000, 29)),
    told(2, AI, Command::Retr, (15, 55_119), (258_048, 27_000, 14)),
    told(3, AI, Command::Stor, (15, 55_182), (258_048, 37_000, 7)),
    told(2, NIC, Command::Retr, (15, 55_880), (7_236, 2_000, 22)),
    told(3, NIC, Command::Stor, (15, 55_975), (49_428, 6_000, 31)),
    told(2, NIC, Command::Retr, (15, 56_096), (49_428, 14_000, 15)),
    told(3, NIC, Command::Stor, (15, 56_289), (49_428, 7_000, 8)),
    told(3, NIC, Command::Stor, (20, 55_106), (35_460, 15_000, 9)),
    told(6, NIC, Command::Retr, (20, 58_089), (58_832, 138_000, 153)),
    told(6, NIC, Command::Retr, (22, 45_970), (10_512, 63_000, 247)),
    told(6, NIC, Command::Retr, (23, 59_377), (320, 5_000, 369)),
    told(6, NIC, Command::Retr, (24, 44_738), (9_992, 38_000, 254)),
    told(6, NIC, Command::Retr, (24, 44_846), (9_992, 22_000, 250)),
    told(3, ML, Command::Stor, (29, 38_458), (768_924, 102_000, 7)),
    told(3, ML, Command::Stor, (29, 38_649), (166_572, 30_000, 7)),
    told(3, ML, Command::Stor, (29, 39_272), (166_572, 21_000, 7)),
    told(3, ML, Command::Stor, (29, 49_698), (158_040, 13_000, 7)),
    told(7, BBN, Command::Mlfl, (29, 81_055), (5_600, 3_000, 51)),
    told(7, BBN, Command::Mlfl, (29, 81_102), (5_600, 2_000, 50)),
    told(7, ISI, Command::Mlfl, (29, 81_235), (5_600, 4_000, 54)),
    told(7, BBN, Command::Mlfl, (29, 81_375), (5_600, 2_000, 48)),
    told(7, BBN, Command::Mlfl, (29, 81_414), (5_600, 2_000, 49)),
];

/// Returns the 304 transfers, in the order in which they began.
#[must_use]
pub fn transfers() -> Vec<Transfer> {
    let mut all = Vec::new();
    for (at, stratum) in STRATA.iter().enumerate() {
        let told: Vec<&Told> = TOLD.iter().filter(|told| told.stratum == at).collect();
        for told in &told {
            let day = day_began_unix_ns(1973, 8, told.began.0).unwrap_or(0);
            let began_s = day / 1_000_000_000 + told.began.1;
            let cpu_ns = told.bits * told.cpu_us_per_bit * 1_000;
            let figures = (told.bits, told.real_ms * 1_000_000, cpu_ns);
            all.push(transfer(stratum, told.host, told.command, began_s, figures));
        }
        others(stratum, at, &told, &mut all);
    }
    all.sort_by_key(|transfer| transfer.record_id);
    all
}

/// Adds the transfers of `stratum` of which only the sums are told.
///
/// Sizes grow as squares. A fifth of the time is the same for each, and the rest goes by bits.
fn others(stratum: &Stratum, at: usize, told: &[&Told], all: &mut Vec<Transfer>) {
    let count = stratum.files - u64::try_from(told.len()).unwrap_or(0);
    let less =
        |sum: u64, of: &dyn Fn(&Told) -> u64| sum - told.iter().map(|told| of(told)).sum::<u64>();
    let bits = less(stratum.bits, &|told| told.bits);
    let real_ns = less(stratum.real_ms, &|told| told.real_ms) * 1_000_000;
    let cpu_ns = stratum.cpu_ms * 1_000_000
        - told.iter().map(|told| told.bits * told.cpu_us_per_bit * 1_000).sum::<u64>();
    let weights: u64 = (1..=count).map(|place| place * place).sum();
    let unit = if stratum.representation == Type::Image { 36 } else { 8 };
    let first_day = day_began_unix_ns(1973, 2, 25).unwrap_or(0) / 1_000_000_000;
    let (mut left_bits, mut left_ns, mut left_cpu_ns) = (bits, real_ns, cpu_ns);
    for place in 1..=count {
        let is_last = place == count;
        let mut mine = bits * place * place / weights / unit * unit;
        mine = if is_last { left_bits } else { mine.max(20 * unit) };
        let by_bits = |ns: u64| u128::from(ns) * 4 / 5 * u128::from(mine) / u128::from(bits);
        let time = |ns: u64, left: u64| {
            let share = u64::try_from(by_bits(ns)).unwrap_or(0) + ns / 5 / count;
            if is_last { left } else { share }
        };
        let (mine_ns, mine_cpu_ns) = (time(real_ns, left_ns), time(cpu_ns, left_cpu_ns));
        (left_bits, left_ns) = (left_bits - mine, left_ns - mine_ns);
        left_cpu_ns -= mine_cpu_ns;
        let host = [ML, AI, NIC, BBN].into_iter().cycle().nth(usize::try_from(place).unwrap_or(0));
        // Spread over the half year, a stratum eleven minutes behind the one before it.
        let began_s = first_day
            + place * 160 * 86_400 / count
            + 36_000
            + u64::try_from(at).unwrap_or(0) * 660;
        let figures = (mine, mine_ns, mine_cpu_ns);
        all.push(transfer(stratum, host.unwrap_or(ML), stratum.command, began_s, figures));
    }
}

fn transfer(
    stratum: &Stratum,
    (number, host): (u64, &str),
    command: Command,
    began_s: u64,
    (bits, real_ns, cpu_ns): (u64, u64, u64),
) -> Transfer {
    let began_unix_ns = began_s * 1_000_000_000;
    // Two may begin in one second; their bits tell them apart.
    let mut transfer = Transfer::new(Identifier::new(began_unix_ns, bits));
    transfer.identity.role = Some(stratum.role);
    transfer.identity.remote_name = Some(Text::from(host));
    transfer.identity.ncp_host = Some(number);
    let is_image = stratum.representation == Type::Image;
    transfer.request.command = Some(command);
    transfer.request.representation = Some(stratum.representation);
    transfer.request.format = (!is_image).then_some(Format::NonPrint);
    transfer.request.byte_size = Some(if is_image { 36 } else { 8 });
    transfer.request.mode = Some(Mode::Stream);
    transfer.request.stru = Some(Structure::File);
    transfer.result.outcome = Some(Outcome::Complete);
    transfer.size.bits = Some(bits);
    transfer.time.t_start_unix_ns = Some(began_unix_ns);
    transfer.time.ns_transfer = Some(real_ns);
    transfer.cpu.cpu_user_ns = Some(cpu_ns);
    transfer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn they_are_304_files_of_57_6_megabits() {
        let all = transfers();
        let bits: u64 = all.iter().filter_map(Transfer::bits).sum();
        assert_eq!((all.len(), bits / 10_000), (304, 5_758));
        let names: BTreeSet<_> = all.iter().map(|transfer| transfer.record_id).collect();
        assert_eq!(names.len(), 304);
    }

    #[test]
    fn the_smallest_and_the_largest_are_those_of_which_the_paper_says_so() {
        let bits: Vec<u64> = transfers().iter().filter_map(Transfer::bits).collect();
        assert_eq!((bits.iter().min(), bits.iter().max()), (Some(&80), Some(&5_029_992)));
        let slowest = transfers().iter().filter_map(Transfer::rate_bps).min();
        assert_eq!(slowest, Some(11));
    }

    #[test]
    fn the_fastest_is_the_one_of_which_the_paper_says_so() {
        let fastest = transfers().iter().filter_map(Transfer::rate_bps).max();
        assert_eq!(fastest.map(|rate| rate / 100), Some(278));
    }
}
