//! IPCP (RFC 1332): the two IPv4 addresses, header compression, and name servers (RFC 1877).
//!
//! An end without an address requests 0.0.0.0, and the peer suggests an address in a Configure-Nak.
//! The option of header compression describes the receiving capability of an end: its number of
//! slots, and whether it can receive segments without a slot number.

use super::control_packet;
use super::negotiation::{Options, Verdict};
use crate::cx::Cx;
use crate::link::vj;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

mod kind {
    pub(super) const COMPRESSION: u8 = 2;
    pub(super) const ADDRESS: u8 = 3;
    pub(super) const NAME_SERVER: u8 = 129;
    pub(super) const SECOND_NAME_SERVER: u8 = 131;
}

/// The number of Van Jacobson's compression in the option (RFC 1332 §3.2).
const VAN_JACOBSON: [u8; 2] = [0x00, 0x2D];

/// The receiving capability of an end for compressed headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compression {
    /// Number of slots.
    pub(super) slots: u8,
    /// Whether the end can receive segments without a slot number.
    pub(super) may_omit_slot: bool,
}

/// The options of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EndOptions {
    /// IPv4 address of the end.
    pub(super) address: Option<Ipv4Addr>,
    /// Compressed headers that the end can receive; `None` if it can receive none.
    pub(super) compression: Option<Compression>,
    /// The name servers that the end requests. After the negotiation: those that the peer has
    /// provided.
    pub(super) name_servers: [Option<Ipv4Addr>; 2],
}

/// The options that IPCP negotiates.
#[derive(Debug, Default)]
pub(super) struct IpcpOptions {
    desired: EndOptions,
    /// The address that the peer must use; `None` if it may use any address.
    peer_address: Option<Ipv4Addr>,
    /// The address assigned to a peer that requests one, if `peer_address` is `None`.
    spare_address: Option<Ipv4Addr>,
    /// The options of this end's current request.
    pub(super) ours: EndOptions,
    /// The options of the peer's request that this end has accepted.
    pub(super) theirs: EndOptions,
    proposed: EndOptions,
}

impl IpcpOptions {
    /// Returns the options of an end. `address` is its own address, or `None` to request one.
    pub(super) fn new(
        address: Option<Ipv4Addr>,
        peer_address: Option<Ipv4Addr>,
        spare_address: Option<Ipv4Addr>,
        compresses: bool,
        wants_name_servers: bool,
    ) -> Self {
        let compression =
            compresses.then_some(Compression { slots: vj::SLOTS_MAX, may_omit_slot: true });
        let desired = EndOptions {
            address: Some(address.unwrap_or(Ipv4Addr::UNSPECIFIED)),
            compression,
            name_servers: [wants_name_servers.then_some(Ipv4Addr::UNSPECIFIED); 2],
        };
        Self { desired, peer_address, spare_address, ..Self::default() }
    }

    fn evaluate_address(&mut self, address: Ipv4Addr) -> Verdict {
        self.proposed.address = Some(address);
        let requests_address = address.is_unspecified();
        match self.peer_address.or(self.spare_address.filter(|_| requests_address)) {
            Some(given) if given != address => Verdict::Nak(given.octets().to_vec()),
            // No address is available for the peer.
            None if requests_address => Verdict::Reject,
            _ => Verdict::Ack,
        }
    }

    fn evaluate_compression(&mut self, value: &[u8]) -> Verdict {
        match (self.desired.compression, value) {
            (Some(_), &[high, low, max_slot, omits]) if [high, low] == VAN_JACOBSON => {
                let slots = max_slot.saturating_add(1).min(vj::SLOTS_MAX);
                self.proposed.compression = Some(Compression { slots, may_omit_slot: omits != 0 });
                Verdict::Ack
            }
            (Some(ours), _) => Verdict::Nak(ours.option().to_vec()),
            (None, _) => Verdict::Reject,
        }
    }
}

impl Compression {
    fn option(self) -> [u8; 4] {
        let [high, low] = VAN_JACOBSON;
        [high, low, self.slots.saturating_sub(1), u8::from(self.may_omit_slot)]
    }
}

impl Options for IpcpOptions {
    fn request(&mut self, options: &mut Vec<u8>, _cx: &mut Cx<'_>) {
        if let Some(compression) = self.ours.compression {
            control_packet::put_option(kind::COMPRESSION, &compression.option(), options);
        }
        let [first, second] = self.ours.name_servers;
        let addresses = [
            (kind::ADDRESS, self.ours.address),
            (kind::NAME_SERVER, first),
            (kind::SECOND_NAME_SERVER, second),
        ];
        for (kind, address) in addresses {
            if let Some(address) = address {
                control_packet::put_option(kind, &address.octets(), options);
            }
        }
    }

    fn begin(&mut self) {
        self.proposed = EndOptions::default();
    }

    fn evaluate(&mut self, kind: u8, value: &[u8], _cx: &mut Cx<'_>) -> Verdict {
        match (kind, <[u8; 4]>::try_from(value)) {
            (kind::ADDRESS, Ok(octets)) => self.evaluate_address(Ipv4Addr::from(octets)),
            (kind::COMPRESSION, _) => self.evaluate_compression(value),
            // This end provides no name servers.
            _ => Verdict::Reject,
        }
    }

    fn accept(&mut self) {
        self.theirs = self.proposed;
    }

    fn process_nak(&mut self, kind: u8, value: &[u8], _cx: &mut Cx<'_>) {
        let address = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
        let [first, second] = &mut self.ours.name_servers;
        let field = match kind {
            // The peer must not change a configured address.
            kind::ADDRESS if self.desired.address == Some(Ipv4Addr::UNSPECIFIED) => {
                &mut self.ours.address
            }
            kind::NAME_SERVER => first,
            kind::SECOND_NAME_SERVER => second,
            kind::COMPRESSION => return self.process_compression_nak(value),
            _ => return,
        };
        if field.is_some() && address.is_some() {
            *field = address;
        }
    }

    fn process_reject(&mut self, kind: u8) {
        let [first, second] = &mut self.ours.name_servers;
        match kind {
            kind::COMPRESSION => self.ours.compression = None,
            kind::ADDRESS => self.ours.address = None,
            kind::NAME_SERVER => *first = None,
            kind::SECOND_NAME_SERVER => *second = None,
            _ => {}
        }
    }

    fn restart(&mut self, _cx: &mut Cx<'_>) {
        self.ours = self.desired;
        self.theirs = EndOptions::default();
    }
}

impl IpcpOptions {
    fn process_compression_nak(&mut self, value: &[u8]) {
        self.ours.compression = match (self.ours.compression, value) {
            (Some(ours), &[high, low, max_slot, omits]) if [high, low] == VAN_JACOBSON => {
                let slots = max_slot.saturating_add(1).min(ours.slots);
                Some(Compression { slots, may_omit_slot: ours.may_omit_slot && omits != 0 })
            }
            // Other compression protocols are not supported.
            _ => None,
        };
    }

    /// Returns the local address: the negotiated one, or the configured one if the peer rejects the
    /// option.
    pub(super) fn address(&self) -> Option<Ipv4Addr> {
        self.ours.address.or(self.desired.address).filter(|address| !address.is_unspecified())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;

    const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const SPARE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn options(address: Option<Ipv4Addr>, context: &mut OwnedCx) -> IpcpOptions {
        let mut options = IpcpOptions::new(address, None, Some(SPARE), true, true);
        options.restart(&mut context.cx());
        options.begin();
        options
    }

    #[test]
    fn an_end_without_an_address_adopts_the_suggested_values() {
        let mut context = OwnedCx::default();
        let mut options = options(None, &mut context);
        options.process_nak(kind::ADDRESS, &[10, 0, 0, 7], &mut context.cx());
        options.process_nak(kind::NAME_SERVER, &[10, 0, 0, 8], &mut context.cx());
        options.process_reject(kind::SECOND_NAME_SERVER);
        assert_eq!(options.address(), Some(Ipv4Addr::new(10, 0, 0, 7)));
        let server = Some(Ipv4Addr::new(10, 0, 0, 8));
        assert_eq!(options.ours.name_servers, [server, None]);
    }

    #[test]
    fn the_peer_cannot_change_a_configured_address() {
        let mut context = OwnedCx::default();
        let mut options = options(Some(OURS), &mut context);
        options.process_nak(kind::ADDRESS, &[10, 0, 0, 7], &mut context.cx());
        assert_eq!(options.address(), Some(OURS));
        options.process_reject(kind::ADDRESS);
        assert_eq!(options.address(), Some(OURS));
    }

    #[test]
    fn an_address_request_gets_the_spare_address() {
        let mut context = OwnedCx::default();
        let mut options = options(Some(OURS), &mut context);
        let expected = Verdict::Nak(SPARE.octets().to_vec());
        assert_eq!(options.evaluate(kind::ADDRESS, &[0; 4], &mut context.cx()), expected);
        assert_eq!(options.evaluate(kind::ADDRESS, &[9, 9, 9, 9], &mut context.cx()), Verdict::Ack);
        assert_eq!(options.evaluate(1, &[0; 8], &mut context.cx()), Verdict::Reject);
    }

    #[test]
    fn compression_uses_no_more_slots_than_both_ends_have() {
        let mut context = OwnedCx::default();
        let mut options = options(Some(OURS), &mut context);
        let verdict = options.evaluate(kind::COMPRESSION, &[0, 0x2D, 3, 0], &mut context.cx());
        options.accept();
        let few = Compression { slots: 4, may_omit_slot: false };
        assert_eq!((verdict, options.theirs.compression), (Verdict::Ack, Some(few)));
        options.process_nak(kind::COMPRESSION, &[0, 0x2D, 255, 0], &mut context.cx());
        let ours = Compression { slots: vj::SLOTS_MAX, may_omit_slot: false };
        assert_eq!(options.ours.compression, Some(ours));
    }

    #[test]
    fn an_unsupported_compression_is_answered_by_the_supported_one() {
        let mut context = OwnedCx::default();
        let mut options = options(Some(OURS), &mut context);
        let unsupported = [0x00, 0x61, 0, 0, 0, 0];
        let expected = Verdict::Nak(Vec::from([0, 0x2D, 15, 1]));
        assert_eq!(options.evaluate(kind::COMPRESSION, &unsupported, &mut context.cx()), expected);
        options.process_nak(kind::COMPRESSION, &unsupported, &mut context.cx());
        assert_eq!(options.ours.compression, None);
    }
}
