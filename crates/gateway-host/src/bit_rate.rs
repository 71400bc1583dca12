//! A bit rate on the command line, in the units of tc(8): `9600`, `128kbit`, `10mbit`, `1.5gbit`.

const UNITS: [(&str, f64); 4] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9), ("bit", 1.0)];
/// Minimum and maximum rate in bits per second.
const MIN: f64 = 300.0;
const MAX: f64 = 1e12;

/// Parses a rate and returns it in bits per second. A number without a unit is in bits per second.
///
/// # Errors
///
/// Returns a message that names the valid units.
pub fn parse(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((&lower, 1.0));
    let is_number = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rate = number.parse::<f64>().ok().filter(|_| is_number).map(|number| number * factor);
    rate.filter(|rate| (MIN..=MAX).contains(rate)).map(to_integer).ok_or_else(|| {
        format!(
            "invalid rate '{}': use bits per second with the units bit, kbit, mbit or gbit, such \
             as 10mbit; at least 300bit",
            text.escape_debug()
        )
    })
}

#[expect(clippy::cast_possible_truncation, reason = "the caller has checked the range")]
#[expect(clippy::cast_sign_loss, reason = "the caller has checked the range")]
fn to_integer(rate: f64) -> u64 {
    rate.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_the_units_of_tc() {
        let rates =
            ["9600", "9600bit", "128kbit", "10Mbit", "1.5gbit"].map(|text| parse(text).unwrap());
        assert_eq!(rates, [9600, 9600, 128_000, 10_000_000, 1_500_000_000]);
    }

    #[test]
    fn bytes_negative_numbers_and_words_are_refused() {
        for text in ["", "mbit", "10mbps", "-1mbit", "10 mbit", "1e9", "inf", "299", "9999gbit"] {
            assert!(parse(text).unwrap_err().contains("10mbit"), "{text}");
        }
    }
}
