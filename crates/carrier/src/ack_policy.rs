//! Policy of a session for the acknowledgment of received data.

/// When a carrier acknowledges received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPolicy {
    /// Acknowledges data at once if the remote host may hold back more data until the
    /// acknowledgment; acknowledges all other data with an answer or after a delay.
    Awaited,
    /// Acknowledges all data at once.
    Immediate,
    /// Acknowledges data with an answer or after the default delay of TCP.
    Delayed,
}

impl AckPolicy {
    /// Returns a predicate that selects the data to acknowledge at once.
    pub fn predicate(self) -> fn(&[u8]) -> bool {
        match self {
            Self::Awaited => may_withhold,
            Self::Immediate => |_| true,
            Self::Delayed => |_| false,
        }
    }
}

/// Maximum length in bytes of received data that counts as the echo of one key: a character or a
/// rubout.
const ECHO_LEN: usize = 4;

/// Returns whether the remote host may hold back more data until `data` is acknowledged (Nagle's
/// algorithm, RFC 9293 §3.7.4). No data follows the echo of one key. Any other data may be followed
/// by a screen, which a delayed acknowledgment would delay by 40 ms.
pub(super) fn may_withhold(data: &[u8]) -> bool {
    data.len() > ECHO_LEN || data.contains(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_longer_than_an_echo_or_with_a_newline_is_acknowledged_at_once() {
        assert!(!may_withhold(b"a"));
        assert!(!may_withhold(b"\x08\x1b[K"));
        assert!(may_withhold(b"\r\n"));
        assert!(may_withhold(b"total 64"));
    }
}
