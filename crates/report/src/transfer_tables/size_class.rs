//! Size classes: a class contains the files whose number of bits has the same number of binary
//! digits.

/// Returns the file sizes whose number of bits has `digits` binary digits: `4 to 8 KiB`.
pub(super) fn size_text(digits: u32) -> String {
    match digits {
        0 => "empty".to_owned(),
        1..=3 => "below 1 B".to_owned(),
        _ => {
            let power = digits - 4;
            let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
            let unit_index = usize::try_from(power / 10).unwrap_or(0);
            let lower_bound = 1_u64 << (power % 10);
            let unit = unit.get(unit_index).copied().unwrap_or("EiB");
            format!("{lower_bound} to {} {unit}", lower_bound * 2)
        }
    }
}
