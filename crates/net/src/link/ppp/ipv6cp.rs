//! IPv6CP (RFC 5072): the interface identifiers, from which the ends form their link-local
//! addresses.

use super::control_packet;
use super::negotiation::{Options, Verdict};
use crate::cx::Cx;
use alloc::vec::Vec;

const INTERFACE_IDENTIFIER: u8 = 1;
/// The universal/local bit. It is cleared, because the identifier is random and not derived from a
/// hardware address (RFC 5072 §4.1).
const UNIVERSAL: u64 = 0x0200_0000_0000_0000;

/// The options that IPv6CP negotiates.
#[derive(Debug, Default)]
pub(super) struct Ipv6cpOptions {
    /// The local identifier; 0 if the peer rejects the option.
    pub(super) ours: u64,
    /// The peer's identifier.
    pub(super) theirs: u64,
    proposed: u64,
    is_rejected: bool,
}

impl Options for Ipv6cpOptions {
    fn request(&mut self, options: &mut Vec<u8>, _cx: &mut Cx<'_>) {
        if !self.is_rejected {
            control_packet::put_option(INTERFACE_IDENTIFIER, &self.ours.to_be_bytes(), options);
        }
    }

    fn begin(&mut self) {
        self.proposed = 0;
    }

    fn evaluate(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) -> Verdict {
        let (INTERFACE_IDENTIFIER, Ok(octets)) = (kind, <[u8; 8]>::try_from(value)) else {
            return Verdict::Reject;
        };
        self.proposed = u64::from_be_bytes(octets);
        if self.proposed == 0 || self.proposed == self.ours {
            return Verdict::Nak(draw(cx).to_be_bytes().to_vec());
        }
        Verdict::Ack
    }

    fn accept(&mut self) {
        self.theirs = self.proposed;
    }

    fn process_nak(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) {
        if let (INTERFACE_IDENTIFIER, Ok(octets)) = (kind, <[u8; 8]>::try_from(value)) {
            let suggested = u64::from_be_bytes(octets);
            // RFC 5072 §4.1: a Configure-Nak with zero or the same value requests that this end
            // choose another identifier.
            self.ours = if suggested == 0 || suggested == self.ours { draw(cx) } else { suggested };
        }
    }

    fn process_reject(&mut self, kind: u8) {
        self.is_rejected |= kind == INTERFACE_IDENTIFIER;
    }

    fn restart(&mut self, cx: &mut Cx<'_>) {
        *self = Self { ours: draw(cx), ..Self::default() };
    }
}

fn draw(cx: &mut Cx<'_>) -> u64 {
    (cx.rng.next_u64() & !UNIVERSAL).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;

    fn options(context: &mut OwnedCx) -> Ipv6cpOptions {
        let mut options = Ipv6cpOptions::default();
        options.restart(&mut context.cx());
        options
    }

    #[test]
    fn the_drawn_identifier_is_not_universal() {
        let mut context = OwnedCx::default();
        let ours = options(&mut context).ours;
        assert!(ours != 0 && ours & UNIVERSAL == 0);
    }

    #[test]
    fn zero_and_our_own_identifier_are_replaced_by_a_suggestion() {
        let mut context = OwnedCx::default();
        let mut options = options(&mut context);
        let ours = options.ours;
        for odd in [0, ours] {
            let value = odd.to_be_bytes();
            let verdict = options.evaluate(INTERFACE_IDENTIFIER, &value, &mut context.cx());
            assert!(matches!(verdict, Verdict::Nak(named) if named != ours.to_be_bytes()));
        }
        let third = ours.wrapping_add(1).to_be_bytes();
        let verdict = options.evaluate(INTERFACE_IDENTIFIER, &third, &mut context.cx());
        assert_eq!(verdict, Verdict::Ack);
    }

    #[test]
    fn a_suggested_identifier_is_adopted_unless_it_is_our_own() {
        let mut context = OwnedCx::default();
        let mut options = options(&mut context);
        options.process_nak(INTERFACE_IDENTIFIER, &7_u64.to_be_bytes(), &mut context.cx());
        assert_eq!(options.ours, 7);
        options.process_nak(INTERFACE_IDENTIFIER, &7_u64.to_be_bytes(), &mut context.cx());
        assert!(options.ours != 7 && options.ours != 0);
    }
}
