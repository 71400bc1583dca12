//! Validity period of a certificate (RFC 5280 §4.1.2.5), for the warnings of `plumb serve --check`.
//!
//! Only the fields of DER up to the validity period are parsed. rustls checks the rest.

use protocols::ftp::Timestamp;
use std::fmt;

/// Remaining time at which a certificate is reported, in seconds: 30 days.
const WARNING_S: i64 = 30 * SECONDS_PER_DAY;
const SECONDS_PER_DAY: i64 = 86_400;

/// Tags of DER (X.690 §8).
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// Explicit tag of the version (RFC 5280 §4.1).
const VERSION: u8 = 0xA0;

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Reason for a warning about a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValidityWarning {
    NotYetValid(Timestamp),
    Expired(Timestamp),
    /// The certificate expires within the given number of days.
    ExpiresSoon(Timestamp, i64),
}

impl Validity {
    /// Returns the validity period of a certificate in DER, or `None` if it is malformed.
    pub(super) fn of(mut certificate: &[u8]) -> Option<Self> {
        let mut certificate = take(&mut certificate, SEQUENCE)?;
        let mut fields = take(&mut certificate, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            take(&mut fields, VERSION)?;
        }
        // serialNumber, signature and issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            take(&mut fields, tag)?;
        }
        let mut validity = take(&mut fields, SEQUENCE)?;
        Some(Self { not_before: take_time(&mut validity)?, not_after: take_time(&mut validity)? })
    }

    /// Returns the warning at `now`, in seconds of Unix time.
    pub(super) fn warning(self, now: i64) -> Option<ValidityWarning> {
        let remaining_s = self.not_after.seconds - now;
        if now < self.not_before.seconds {
            Some(ValidityWarning::NotYetValid(self.not_before))
        } else if remaining_s < 0 {
            Some(ValidityWarning::Expired(self.not_after))
        } else if remaining_s < WARNING_S {
            let days = remaining_s / SECONDS_PER_DAY;
            Some(ValidityWarning::ExpiresSoon(self.not_after, days))
        } else {
            None
        }
    }
}

impl fmt::Display for ValidityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYetValid(at) => write!(f, "is not valid before {}", date(*at)),
            Self::Expired(at) => write!(f, "expired on {}", date(*at)),
            Self::ExpiresSoon(at, 0) => write!(f, "expires on {}, within a day", date(*at)),
            Self::ExpiresSoon(at, 1) => write!(f, "expires on {}, in 1 day", date(*at)),
            Self::ExpiresSoon(at, days) => write!(f, "expires on {}, in {days} days", date(*at)),
        }
    }
}

fn date(at: Timestamp) -> String {
    let civil = at.civil();
    format!("{:04}-{:02}-{:02}", civil.year, civil.month, civil.day)
}

/// Removes an element with `tag` from the start of `from`, and returns its content.
fn take<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (found_tag, content) = take_any(from)?;
    (found_tag == tag).then_some(content)
}

fn take_any<'a>(from: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let tag = *from.split_off_first()?;
    let first = *from.split_off_first()?;
    let len = match first.checked_sub(0x80) {
        None => usize::from(first),
        // No length in a certificate needs more bytes.
        Some(count @ 1..=4) => {
            let bytes = from.split_off(..usize::from(count))?;
            bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte))
        }
        Some(_) => return None,
    };
    Some((tag, from.split_off(..len)?))
}

/// Removes a time in UTC. A year of two digits is in 1950 to 2049 (RFC 5280 §4.1.2.5.1).
fn take_time(from: &mut &[u8]) -> Option<Timestamp> {
    let (tag, content) = take_any(from)?;
    let digits = content.strip_suffix(b"Z")?;
    match tag {
        UTC_TIME => {
            let century: &[u8] = if *digits.first()? < b'5' { b"20" } else { b"19" };
            Timestamp::parse(&[century, digits].concat())
        }
        GENERALIZED_TIME => Timestamp::parse(digits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    const NOW: i64 = 1_795_543_773; // 2026-11-24

    fn certificate(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(["host".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn warning(from: (i32, u8, u8), until: (i32, u8, u8)) -> Option<String> {
        let validity = Validity::of(&certificate(from, until)).unwrap();
        validity.warning(NOW).map(|warning| warning.to_string())
    }

    #[test]
    fn a_certificate_is_reported_outside_of_its_validity_and_30_days_before_its_end() {
        let text = |from, until| warning(from, until).unwrap_or_default();
        assert_eq!(text((2020, 1, 1), (2026, 11, 23)), "expired on 2026-11-23");
        assert_eq!(text((1949, 12, 31), (1999, 12, 31)), "expired on 1999-12-31");
        assert_eq!(text((2026, 11, 26), (2050, 1, 1)), "is not valid before 2026-11-26");
        assert_eq!(text((2020, 1, 1), (2026, 11, 25)), "expires on 2026-11-25, within a day");
        assert_eq!(text((2020, 1, 1), (2026, 12, 24)), "expires on 2026-12-24, in 29 days");
        assert_eq!(text((2020, 1, 1), (2026, 12, 25)), "");
        assert_eq!(text((1975, 1, 1), (4096, 1, 1)), "");
    }

    #[test]
    fn every_truncated_certificate_is_malformed_until_its_validity() {
        let complete = certificate((2020, 1, 1), (2050, 1, 1));
        for len in 0..complete.len() {
            assert_eq!(Validity::of(&complete[..len]), None, "{len}");
        }
        assert!(Validity::of(&complete).is_some());
    }
}
