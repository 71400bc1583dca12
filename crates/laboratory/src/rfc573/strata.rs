//! The division of RFC 573's transfers by program, direction and type.
//!
//! Table II has totals by type, and totals by program and direction, but no totals by all three
//! properties together. The division is therefore part of the scenario.

use super::transfer_request::{Form, Verb};
use crate::limits::{OutOfRange, within};
use serde::Deserialize;
use simulator::Side;

/// Totals of the transfers of each program, direction and type.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strata {
    /// Transfers of type image (words of 36 bits) sent by the local server.
    pub server_sends_image: Stratum,
    /// Transfers of type image (words of 36 bits) received by the local server.
    pub server_receives_image: Stratum,
    /// Transfers of type image (words of 36 bits) received by the local user program.
    pub user_receives_image: Stratum,
    /// Transfers of type image (words of 36 bits) sent by the local user program.
    pub user_sends_image: Stratum,
    /// ASCII transfers sent by the local server.
    pub server_sends_ascii: Stratum,
    /// ASCII transfers received by the local server.
    pub server_receives_ascii: Stratum,
    /// ASCII transfers received by the local user program.
    pub user_receives_ascii: Stratum,
    /// ASCII transfers sent by the local user program, with STOR or MLFL.
    pub user_sends_ascii: Stratum,
}

/// Totals of the transfers of one program, direction and type.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Stratum {
    /// Number of transfers.
    pub files: u64,
    /// Total length of the files, in bits.
    pub bits: u64,
    /// Total CPU time of the local program, in milliseconds.
    pub cpu_ms: u64,
}

/// Common properties of the transfers of a stratum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Key of the stratum in the scenario file.
    pub key: &'static str,
    /// Role of the local program (client or server).
    pub ours: Side,
    /// FTP command of the transfers.
    pub verb: Verb,
    /// Representation of the files on the data connection.
    pub form: Form,
}

/// Maximum number of transfers of a stratum.
const FILES_MAX: u64 = 1_000;
/// Maximum number of bits of a stratum. A single file of this size takes hours of virtual time.
const BITS_MAX: u64 = 100_000_000;
/// Maximum CPU time of a stratum, in milliseconds. Both hosts spend this time, and a transfer must
/// end within one day.
const CPU_MS_MAX: u64 = 10_000_000;

impl Strata {
    /// Returns the strata in a fixed order.
    #[must_use]
    pub(crate) const fn all(&self) -> [(Kind, Stratum); 8] {
        const fn kind(key: &'static str, ours: Side, verb: Verb, form: Form) -> Kind {
            Kind { key, ours, verb, form }
        }
        use Form::{Text, Words};
        use Side::{Server, User};
        use Verb::{Retrieve, Store};
        [
            (kind("server_sends_image", Server, Retrieve, Words), self.server_sends_image),
            (kind("server_receives_image", Server, Store, Words), self.server_receives_image),
            (kind("user_receives_image", User, Retrieve, Words), self.user_receives_image),
            (kind("user_sends_image", User, Store, Words), self.user_sends_image),
            (kind("server_sends_ascii", Server, Retrieve, Text), self.server_sends_ascii),
            (kind("server_receives_ascii", Server, Store, Text), self.server_receives_ascii),
            (kind("user_receives_ascii", User, Retrieve, Text), self.user_receives_ascii),
            (kind("user_sends_ascii", User, Store, Text), self.user_sends_ascii),
        ]
    }
}

impl Stratum {
    /// Returns an error if a value of the stratum `key` is below `least`, or so large that the
    /// experiment might not terminate.
    ///
    /// # Errors
    ///
    /// Returns the key of the value and its range.
    pub(crate) fn check(&self, key: &str, least: Self) -> Result<(), OutOfRange> {
        let within = |name: &str, value, least, most| {
            within(&format!("strata.{key}.{name}"), value, least..=most)
        };
        within("files", self.files, least.files, FILES_MAX)?;
        within("bits", self.bits, least.bits, BITS_MAX)?;
        within("cpu_ms", self.cpu_ms, least.cpu_ms, CPU_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_out_of_range_value_of_a_stratum_is_named_with_its_table() {
        let least = Stratum { files: 2, bits: 28_728, cpu_ms: 29 };
        let refused = |stratum: Stratum| stratum.check("server_sends_image", least).unwrap_err();
        let found = [
            Stratum { files: 1, ..least },
            Stratum { bits: 100_000_001, ..least },
            Stratum { cpu_ms: 28, ..least },
        ];
        let found = found.map(|stratum| refused(stratum).to_string());
        let expected = [
            "strata.server_sends_image.files is 1 and may be 2 to 1000",
            "strata.server_sends_image.bits is 100000001 and may be 28728 to 100000000",
            "strata.server_sends_image.cpu_ms is 28 and may be 29 to 10000000",
        ];
        assert_eq!(found, expected);
        assert_eq!(least.check("server_sends_image", least), Ok(()));
    }
}
