//! Outcome of a session, and the error message of a failed session.

use anyhow::{Context, Result};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Outcome of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The remote host, or both ends, closed the connection.
    Closed,
    /// The local user or program ended the session.
    LocalClosed,
    /// The remote host refused the connection: nothing listens on the port.
    Refused,
    /// The remote host reset the connection.
    Reset,
    /// The connection timed out.
    TimedOut,
    /// The network reports the host as unreachable.
    Unreachable,
}

impl Outcome {
    /// Returns the error message for a failed connection to `address`; `None` if the outcome is not
    /// a failure. `was_open` distinguishes the loss of an open connection from a failure to open a
    /// connection. The message of a timeout contains `timeout_s` and the number of the host's
    /// other addresses.
    pub fn failure(
        self,
        was_open: bool,
        address: SocketAddr,
        other_address_count: usize,
        timeout_s: u64,
    ) -> Option<String> {
        match (self, was_open) {
            (Self::Closed | Self::LocalClosed, _) => None,
            (Self::Refused, _) => Some(format!(
                "{address} refuses the connection: check the port, and that a server runs there"
            )),
            (Self::Reset, false) => {
                Some(format!("{address} reset the connection before it was open: try again later"))
            }
            (Self::Reset, true) => Some(format!(
                "{address} reset the connection: the server program or its host went down"
            )),
            (Self::TimedOut, false) => {
                let others_text = match other_address_count {
                    0 => String::new(),
                    1 => " and the host's other address".to_owned(),
                    _ => format!(" and the host's {other_address_count} other addresses"),
                };
                Some(format!(
                    "{address}{others_text} did not answer within {timeout_s} s: check that it is \
                     up and that no firewall blocks it, or wait longer with --timeout"
                ))
            }
            (Self::TimedOut, true) => Some(format!(
                "{address} no longer answers: check that it is up, and the network path to it"
            )),
            (Self::Unreachable, _) => {
                Some(format!("no route to {address}: check the address and your routes"))
            }
        }
    }

    /// Returns the rank of a failure by its evidence about the host. From high to low: the host
    /// answered; the host may exist; no route leads to the host.
    fn rank(self) -> u8 {
        match self {
            Self::Closed | Self::LocalClosed => 3,
            Self::Refused | Self::Reset => 2,
            Self::TimedOut => 1,
            Self::Unreachable => 0,
        }
    }
}

/// Combined result of the attempts at the addresses of one host: the failure with the highest rank;
/// among failures of equal rank, the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    highest_ranked: Option<(Outcome, SocketAddr)>,
}

impl Failures {
    pub(super) fn add(&mut self, outcome: Outcome, address: SocketAddr) {
        if self.highest_ranked.is_none_or(|(previous, _)| outcome.rank() > previous.rank()) {
            self.highest_ranked = Some((outcome, address));
        }
    }

    pub(super) fn highest_ranked(&self) -> Option<(Outcome, SocketAddr)> {
        self.highest_ranked
    }
}

/// Maps the error of a socket to an outcome of the connection; errors of the local host are
/// returned as errors.
pub fn outcome_of(error: io::Error) -> Result<Outcome> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Ok(Outcome::Refused),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => {
            Ok(Outcome::Reset)
        }
        ErrorKind::TimedOut => Ok(Outcome::TimedOut),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Ok(Outcome::Unreachable),
        _ => Err(error).context("the kernel cannot open the connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn test_address(last: u8) -> SocketAddr {
        (Ipv4Addr::new(192, 0, 2, last), 23).into()
    }

    #[test]
    fn each_failure_message_is_one_line_that_names_the_address() {
        let failed_outcomes =
            [Outcome::Refused, Outcome::Reset, Outcome::TimedOut, Outcome::Unreachable];
        for (outcome, was_open) in failed_outcomes.into_iter().flat_map(|o| [(o, false), (o, true)])
        {
            let message = outcome.failure(was_open, test_address(6), 0, 30).unwrap();
            assert!(message.contains("192.0.2.6:23") && !message.contains('\n'));
        }
        assert_eq!(Outcome::Closed.failure(true, test_address(6), 0, 30), None);
    }

    #[test]
    fn a_timeout_message_has_the_number_of_other_addresses() {
        let message = |count| Outcome::TimedOut.failure(false, test_address(6), count, 30).unwrap();
        assert!(message(0).starts_with("192.0.2.6:23 did not answer within 30 s"));
        assert!(message(1).starts_with("192.0.2.6:23 and the host's other address did not answer"));
        assert!(message(3).starts_with("192.0.2.6:23 and the host's 3 other addresses did not"));
    }

    #[test]
    fn the_failure_with_the_highest_rank_is_reported() {
        let mut failures = Failures::default();
        failures.add(Outcome::Unreachable, test_address(1));
        failures.add(Outcome::Refused, test_address(2));
        failures.add(Outcome::TimedOut, test_address(3));
        failures.add(Outcome::Reset, test_address(4));
        assert_eq!(failures.highest_ranked(), Some((Outcome::Refused, test_address(2))));
    }
}
