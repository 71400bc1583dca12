//! IPv6CP (RFC 5072): the interface identifiers, from which the ends form their link-local
//! addresses.

use super::negotiation::{Options, Verdict};
use super::packet;
use crate::cx::Cx;
use alloc::vec::Vec;

const INTERFACE_IDENTIFIER: u8 = 1;
/// The bit is cleared in an identifier that is random and not derived from a hardware address (RFC
/// 5072 §4.1).
const UNIVERSAL: u64 = 0x0200_0000_0000_0000;

/// The options that IPv6CP negotiates.
#[derive(Debug, Default)]
pub(super) struct Ipv6cpOptions {
    /// The local identifier; 0 if the peer rejects the option.
    pub(super) ours: u64,
    /// The peer's identifier.
    pub(super) theirs: u64,
    judged: u64,
    is_rejected: bool,
}

impl Options for Ipv6cpOptions {
    fn request(&mut self, options: &mut Vec<u8>, _cx: &mut Cx<'_>) {
        if !self.is_rejected {
            packet::put_option(INTERFACE_IDENTIFIER, &self.ours.to_be_bytes(), options);
        }
    }

    fn begin(&mut self) {
        self.judged = 0;
    }

    fn judge(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) -> Verdict {
        let (INTERFACE_IDENTIFIER, Ok(octets)) = (kind, <[u8; 8]>::try_from(value)) else {
            return Verdict::Reject;
        };
        self.judged = u64::from_be_bytes(octets);
        if self.judged == 0 || self.judged == self.ours {
            return Verdict::Nak(draw(cx).to_be_bytes().to_vec());
        }
        Verdict::Ack
    }

    fn accept(&mut self) {
        self.theirs = self.judged;
    }

    fn take_nak(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) {
        if let (INTERFACE_IDENTIFIER, Ok(octets)) = (kind, <[u8; 8]>::try_from(value)) {
            let named = u64::from_be_bytes(octets);
            // RFC 5072 §4.1: the same value again, or zero, requests that this end choose another
            // one.
            self.ours = if named == 0 || named == self.ours { draw(cx) } else { named };
        }
    }

    fn take_reject(&mut self, kind: u8) {
        self.is_rejected |= kind == INTERFACE_IDENTIFIER;
    }

    fn restart(&mut self, cx: &mut Cx<'_>) {
        *self = Self { ours: draw(cx), ..Self::default() };
    }
}

fn draw(cx: &mut Cx<'_>) -> u64 {
    (cx.chance.next_u64() & !UNIVERSAL).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::testing::TestContext;

    fn options(lab: &mut TestContext) -> Ipv6cpOptions {
        let mut options = Ipv6cpOptions::default();
        options.restart(&mut lab.cx());
        options
    }

    #[test]
    fn an_identifier_is_drawn_that_is_not_universal() {
        let mut lab = TestContext::default();
        let ours = options(&mut lab).ours;
        assert!(ours != 0 && ours & UNIVERSAL == 0);
    }

    #[test]
    fn none_and_our_own_are_answered_by_another_and_a_third_is_accepted() {
        let mut lab = TestContext::default();
        let mut options = options(&mut lab);
        let ours = options.ours;
        for odd in [0, ours] {
            let value = odd.to_be_bytes();
            let verdict = options.judge(INTERFACE_IDENTIFIER, &value, &mut lab.cx());
            assert!(matches!(verdict, Verdict::Nak(named) if named != ours.to_be_bytes()));
        }
        let third = ours.wrapping_add(1).to_be_bytes();
        let verdict = options.judge(INTERFACE_IDENTIFIER, &third, &mut lab.cx());
        assert_eq!(verdict, Verdict::Ack);
    }

    #[test]
    fn a_named_identifier_is_taken_and_our_own_named_again_draws_another() {
        let mut lab = TestContext::default();
        let mut options = options(&mut lab);
        options.take_nak(INTERFACE_IDENTIFIER, &7_u64.to_be_bytes(), &mut lab.cx());
        assert_eq!(options.ours, 7);
        options.take_nak(INTERFACE_IDENTIFIER, &7_u64.to_be_bytes(), &mut lab.cx());
        assert!(options.ours != 7 && options.ours != 0);
    }
}
