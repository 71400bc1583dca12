//! How a session ended, and the error message of a failed one.

use std::net::SocketAddr;

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The remote host closed the connection, or both ends did.
    Closed,
    /// The local user or program ended the session.
    Left,
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
    /// Returns the error message for an outcome that is a failure, at `address`; `None` for other
    /// outcomes. `was_open` distinguishes a lost connection from one that, like those to `others`
    /// further addresses, did not open within `timeout_s` seconds.
    pub(crate) fn failure(
        self,
        was_open: bool,
        address: SocketAddr,
        others: usize,
        timeout_s: u64,
    ) -> Option<String> {
        match (self, was_open) {
            (Self::Closed | Self::Left, _) => None,
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
                let too = match others {
                    0 => String::new(),
                    1 => " and the host's other address".to_owned(),
                    _ => format!(" and the host's {others} other addresses"),
                };
                Some(format!(
                    "{address}{too} did not answer within {timeout_s} s: check that it is up and \
                     that no firewall stands between, or wait longer with --timeout"
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

    /// Returns the rank of a failure by its evidence about the host: that it answered, that it may
    /// exist, that no route leads to it.
    fn says(self) -> u8 {
        match self {
            Self::Closed | Self::Left => 3,
            Self::Refused | Self::Reset => 2,
            Self::TimedOut => 1,
            Self::Unreachable => 0,
        }
    }
}

/// Combined result of the attempts at the addresses of one host: the failure with the highest rank;
/// among equals, the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    told: Option<(Outcome, SocketAddr)>,
}

impl Failures {
    pub(super) fn add(&mut self, outcome: Outcome, address: SocketAddr) {
        if self.told.is_none_or(|(told, _)| outcome.says() > told.says()) {
            self.told = Some((outcome, address));
        }
    }

    pub(super) fn told(&self) -> Option<(Outcome, SocketAddr)> {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(last: u8) -> SocketAddr {
        (Ipv4Addr::new(192, 0, 2, last), 23).into()
    }

    #[test]
    fn each_failure_of_the_far_side_is_one_sentence_that_names_it() {
        let all = [Outcome::Refused, Outcome::Reset, Outcome::TimedOut, Outcome::Unreachable];
        for (outcome, was_open) in all.into_iter().flat_map(|o| [(o, false), (o, true)]) {
            let sentence = outcome.failure(was_open, at(6), 0, 30).unwrap();
            assert!(sentence.contains("192.0.2.6:23") && !sentence.contains('\n'));
        }
        assert_eq!(Outcome::Closed.failure(true, at(6), 0, 30), None);
    }

    #[test]
    fn of_addresses_that_are_silent_it_is_said_how_many_there_are() {
        let said = |others| Outcome::TimedOut.failure(false, at(6), others, 30).unwrap();
        assert!(said(0).starts_with("192.0.2.6:23 did not answer within 30 s"));
        assert!(said(1).starts_with("192.0.2.6:23 and the host's other address did not answer"));
        assert!(said(3).starts_with("192.0.2.6:23 and the host's 3 other addresses did not"));
    }

    #[test]
    fn of_several_failures_the_one_that_tells_most_is_told() {
        let mut failures = Failures::default();
        failures.add(Outcome::Unreachable, at(1));
        failures.add(Outcome::Refused, at(2));
        failures.add(Outcome::TimedOut, at(3));
        failures.add(Outcome::Reset, at(4));
        assert_eq!(failures.told(), Some((Outcome::Refused, at(2))));
    }
}
