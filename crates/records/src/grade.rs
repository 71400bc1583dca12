//! Grade of a measured target, and the places where a time is spent.
//!
//! In JSON, grades, operations and locations have the names that the text reports display.

use crate::verdict::Operation;
use serde::{Deserialize, Serialize};

/// Grade of a measured target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Grade {
    /// No cause of a noticeable delay was found.
    Ok,
    /// A cause delays an operation by more than users notice.
    Slow,
    /// The target could not be used, or not for the whole measurement.
    Failed,
}

impl Grade {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Slow => "SLOW",
            Self::Failed => "FAILED",
        }
    }
}

/// Place where a part of a time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// The network, including name servers.
    Network,
    /// Bits on a serial line.
    Line,
    /// The remote host.
    #[serde(rename = "remote host")]
    RemoteHost,
    /// The remote host and the network, if they cannot be distinguished.
    #[serde(rename = "remote host and network")]
    RemoteHostAndNetwork,
    /// The host that measures.
    #[serde(rename = "this host")]
    ThisHost,
    /// Time that no cause accounts for.
    Other,
}

impl Location {
    /// Every location, in the order of display.
    pub const ALL: [Self; 6] = [
        Self::Network,
        Self::Line,
        Self::RemoteHost,
        Self::RemoteHostAndNetwork,
        Self::ThisHost,
        Self::Other,
    ];

    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Line => "line",
            Self::RemoteHost => "remote host",
            Self::RemoteHostAndNetwork => "remote host and network",
            Self::ThisHost => "this host",
            Self::Other => "other",
        }
    }

    /// Returns a text of at most seven characters.
    #[must_use]
    pub const fn short_text(self) -> &'static str {
        match self {
            Self::RemoteHost | Self::RemoteHostAndNetwork => "remote",
            Self::ThisHost => "here",
            location => location.text(),
        }
    }
}

/// A part of a time, and the place where it is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocationTime {
    /// The place.
    pub location: Location,
    /// Time, ns.
    pub ns: u64,
}

/// The time of one operation, split by location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The operation.
    pub operation: Operation,
    /// Its total time, ns.
    pub total_ns: u64,
    /// Time at each location, in the order of [`Location::ALL`]; the sum is `total_ns`. Empty if
    /// unknown.
    pub parts: Vec<LocationTime>,
}

/// A slow echo that is not the operation of [`Assessment::delay`], or has no cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowEcho {
    /// Median of the echo, ns.
    pub total_ns: u64,
    /// Place where most of it is spent.
    pub location: Location,
    /// Time at this place, ns.
    pub ns: u64,
    /// Remedy, as a sentence.
    pub remedy: String,
}

/// Short assessment of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assessment {
    /// The grade.
    pub grade: Grade,
    /// The operation that the user waits for, if one was measured.
    pub delay: Option<Delay>,
    /// Remedy of the first cause, as a sentence.
    pub remedy: Option<String>,
    /// The echo, if it is slow and another operation is the first problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_echo: Option<SlowEcho>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_json_are_those_of_the_text() {
        let name = |value: serde_json::Value| value.as_str().unwrap().to_owned();
        for grade in [Grade::Ok, Grade::Slow, Grade::Failed] {
            assert_eq!(name(serde_json::to_value(grade).unwrap()), grade.text());
        }
        for location in Location::ALL {
            assert_eq!(name(serde_json::to_value(location).unwrap()), location.text());
        }
        for operation in Operation::ALL {
            let json = serde_json::to_value(operation).unwrap();
            assert_eq!(serde_json::from_value::<Operation>(json.clone()).unwrap(), operation);
            assert_eq!(name(json), operation.text());
        }
    }
}
