//! The phases of one transfer, which add up to its time exactly.
//!
//! Each phase ends at a mark, the time of an event, and begins where the previous phase ended.
//! Marks can be out of order, for example if a command is sent while the data connection is still
//! opening, or if a reply is read after the first byte of data. A phase that would end before its
//! predecessor has zero length. The time after the last mark is a phase of its own.

use super::{Direction, Sample};

/// One part of the time of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until a data connection was requested: opening the local file, and commands with their
    /// replies.
    Before,
    /// From the request for a data connection until it was established.
    DataConnection,
    /// From the established data connection until the command, for example while REST awaits its
    /// reply.
    UntilCommand,
    /// From the command to the reply that announces the transfer, or to the first byte if that is
    /// earlier.
    Command,
    /// TLS handshake on the data connection.
    DataTls,
    /// From the end of the previous phase to the first byte; for TFTP from the request.
    FirstByte,
    /// From the first byte to the last.
    Data,
    /// From the last byte to the final reply, or to the last acknowledgment.
    Confirmation,
    /// The remainder: local work at the beginning and end, and gaps between the other phases.
    Rest,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Self; 9] = [
        Self::Before,
        Self::DataConnection,
        Self::UntilCommand,
        Self::Command,
        Self::DataTls,
        Self::FirstByte,
        Self::Data,
        Self::Confirmation,
        Self::Rest,
    ];

    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Before => "before data connection",
            Self::DataConnection => "data connection",
            Self::UntilCommand => "data connection to command",
            Self::Command => "command to its reply",
            Self::DataTls => "TLS of data connection",
            Self::FirstByte => "wait for the first byte",
            Self::Data => "first to last byte",
            Self::Confirmation => "last byte to final reply",
            Self::Rest => "the rest",
        }
    }
}

impl Sample {
    /// Returns the known phases in order, and the remainder; the sum is exactly the total time.
    #[must_use]
    pub fn phases(&self) -> Vec<(Phase, u64)> {
        let connected_at = self.data_connect_ns.map(|ns| after(self.setup_ns.unwrap_or(0), ns));
        let command_at = self.command_at_ns.or(connected_at).unwrap_or(0);
        let first_at = self.first_byte_ns.map(|ns| after(command_at, ns));
        // A reply that is read after the first byte does not delimit the time between command and
        // first byte.
        let reply_at = self.command_ns.map(|ns| after(command_at, ns));
        let reply_at = reply_at.map(|at| at.min(first_at.unwrap_or(at)));
        let reply_or_connected_at = reply_at.max(connected_at).unwrap_or(command_at);
        let secured_at = self.data_tls_ns.map(|ns| after(reply_or_connected_at, ns));
        let secured_at = secured_at.map(|at| at.min(first_at.unwrap_or(at)));
        let data_from = first_at.or(secured_at).unwrap_or(reply_or_connected_at);
        let last_at = self.data_ns.map(|ns| after(data_from, ns));
        let confirmed_at = self.confirmation_ns.map(|ns| after(last_at.unwrap_or(data_from), ns));
        let marks = [
            (Phase::Before, self.setup_ns),
            (Phase::DataConnection, connected_at),
            (Phase::UntilCommand, self.command_at_ns),
            (Phase::Command, reply_at),
            (Phase::DataTls, secured_at),
            (Phase::FirstByte, first_at),
            (Phase::Data, last_at),
            (Phase::Confirmation, confirmed_at),
        ];
        let mut now = 0;
        let mut phases = Vec::new();
        for (phase, mark) in marks {
            let Some(mark) = mark else { continue };
            let mark = mark.clamp(now, self.total_ns);
            phases.push((phase, mark - now));
            now = mark;
        }
        phases.push((Phase::Rest, self.total_ns - now));
        phases
    }
}

fn after(mark_ns: u64, ns: u64) -> u64 {
    mark_ns.saturating_add(ns)
}

/// Returns the transfer of median time among the transfers of `bytes` bytes in `direction`. It
/// represents them: its phases are displayed.
#[must_use]
pub fn median_sample(samples: &[Sample], direction: Direction, bytes: u64) -> Option<&Sample> {
    let mut candidates: Vec<&Sample> = samples
        .iter()
        .filter(|one| one.direction == direction && one.bytes == bytes && !one.is_partial)
        .collect();
    candidates.sort_by_key(|one| one.total_ns);
    crate::statistics::nearest_rank(&candidates, 50).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(total_ns: u64, ns: [Option<u64>; 7]) -> Sample {
        let [before, connect, command_at, command, tls, first_byte, data] = ns;
        Sample {
            direction: Direction::Received,
            bytes: 1_024,
            total_ns,
            setup_ns: before,
            data_connect_ns: connect,
            command_at_ns: command_at,
            command_ns: command,
            data_tls_ns: tls,
            first_byte_ns: first_byte,
            data_ns: data,
            confirmation_ns: Some(40),
            cpu_ns: None,
            is_partial: false,
        }
    }

    #[test]
    fn time_without_a_phase_is_the_rest() {
        let ns = [Some(10), Some(20), None, Some(30), None, Some(45), Some(100)];
        let expected = [
            (Phase::Before, 10),
            (Phase::DataConnection, 20),
            (Phase::Command, 30),
            (Phase::FirstByte, 15),
            (Phase::Data, 100),
            (Phase::Confirmation, 40),
            (Phase::Rest, 5),
        ];
        assert_eq!(sample(220, ns).phases(), expected);
    }

    #[test]
    fn a_command_sent_before_the_data_connection_is_open_is_not_counted_twice() {
        let ns = [Some(10), Some(140), Some(30), Some(200), None, Some(210), Some(50)];
        let expected = [
            (Phase::Before, 10),
            (Phase::DataConnection, 140),
            (Phase::UntilCommand, 0),
            (Phase::Command, 80),
            (Phase::FirstByte, 10),
            (Phase::Data, 50),
            (Phase::Confirmation, 40),
            (Phase::Rest, 20),
        ];
        assert_eq!(sample(350, ns).phases(), expected);
    }

    #[test]
    fn a_reply_that_is_read_after_the_first_byte_does_not_shorten_the_data_phase() {
        let ns = [None, None, None, Some(70), None, Some(50), Some(100)];
        let phases = sample(190, ns).phases();
        assert!(phases.contains(&(Phase::Command, 50)) && phases.contains(&(Phase::Rest, 0)));
    }

    #[test]
    fn a_size_is_represented_by_its_sample_of_median_time() {
        let samples = [300, 100, 200].map(|total| sample(total, [None; 7]));
        let median = median_sample(&samples, Direction::Received, 1_024);
        assert_eq!(median.map(|one| one.total_ns), Some(200));
        assert_eq!(median_sample(&samples, Direction::Sent, 1_024), None);
    }

    proptest! {
        #[test]
        fn phases_add_up_to_the_time_of_the_transfer(
            total in any::<u64>(),
            ns in any::<[Option<u64>; 7]>(),
        ) {
            let phases = sample(total, ns).phases();
            let sum: u128 = phases.iter().map(|(_, ns)| u128::from(*ns)).sum();
            prop_assert_eq!(sum, u128::from(total));
        }
    }
}
