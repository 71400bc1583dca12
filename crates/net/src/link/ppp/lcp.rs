//! LCP, the link control protocol (RFC 1661 §5, §6; RFC 1662 §7): it negotiates the properties of
//! the link, and checks that the peer still answers.
//!
//! Each end announces what it can receive: the maximum length of the information (MRU), the control
//! characters that must be escaped, and whether address, control and a leading zero of the protocol
//! may be omitted. Each end also announces the authentication that it requires. A magic number
//! distinguishes this end's packets from the peer's. If an end repeatedly receives requests with
//! its own magic number, the line is looped back.
//!
//! While the link is up, echo requests are sent at an interval. The link is closed after
//! [`ECHOES_LOST_MAX`] consecutive unanswered requests, because the line below may not report a
//! disconnection.

use super::auth::Method;
use super::control_packet::{self, Code, Packet};
use super::framing::{ACCM_DEFAULT, Format};
use super::negotiation::{Negotiation, Options, Verdict};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;

/// The default maximum length of the information (RFC 1661 §6.1).
pub(super) const MRU_DEFAULT: u16 = 1500;
/// The smallest accepted MRU: no link may fragment an IPv4 datagram of this length (RFC 791 §3.2).
const MRU_MIN: u16 = 68;
/// Number of consecutive unanswered echo requests after which the link is closed.
pub(super) const ECHOES_LOST_MAX: u32 = 4;
/// Number of received packets with this end's own magic number after which the link is closed. If
/// two ends have the same magic number by coincidence, each draws another one.
const LOOPBACKS_MAX: u32 = 3;

mod kind {
    pub(super) const MRU: u8 = 1;
    pub(super) const ACCM: u8 = 2;
    pub(super) const AUTHENTICATION: u8 = 3;
    pub(super) const MAGIC: u8 = 5;
    pub(super) const OMIT_ZERO: u8 = 7;
    pub(super) const OMIT_ADDRESS: u8 = 8;
}

/// The options of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndOptions {
    /// The maximum length of the information that the end receives.
    pub(super) mru: u16,
    /// The format of frames sent to the end.
    pub(super) format: Format,
    /// The authentication that the end requires of the peer.
    pub(super) authentication: Option<Method>,
    /// Magic number of the end; 0 if it has none.
    pub(super) magic: u32,
}

impl Default for EndOptions {
    fn default() -> Self {
        Self { mru: MRU_DEFAULT, format: Format::default(), authentication: None, magic: 0 }
    }
}

/// The options that LCP negotiates.
#[derive(Debug, Default)]
pub(super) struct LcpOptions {
    /// The preferred options of this end.
    desired: EndOptions,
    /// The options of this end's current request, after the peer's rejections.
    pub(super) ours: EndOptions,
    /// The options of the peer's request that this end has accepted.
    pub(super) theirs: EndOptions,
    proposed: EndOptions,
    /// Whether this end has credentials with which it can authenticate.
    can_authenticate: bool,
    /// Whether the peer refuses to authenticate.
    pub(super) is_authentication_refused: bool,
    loopbacks: u32,
}

impl LcpOptions {
    /// Counts a packet that contains this end's own magic number.
    fn count_loopback(&mut self, cx: &mut Cx<'_>) {
        self.loopbacks += 1;
        cx.meter.count(Counter::PppLoopbacks);
    }
}

impl Options for LcpOptions {
    fn request(&mut self, options: &mut Vec<u8>, _cx: &mut Cx<'_>) {
        let EndOptions { mru, format, authentication, magic } = self.ours;
        if mru != MRU_DEFAULT {
            control_packet::put_option(kind::MRU, &mru.to_be_bytes(), options);
        }
        if format.accm != ACCM_DEFAULT {
            control_packet::put_option(kind::ACCM, &format.accm.to_be_bytes(), options);
        }
        if let Some(method) = authentication {
            control_packet::put_option(kind::AUTHENTICATION, method.option(), options);
        }
        if magic != 0 {
            control_packet::put_option(kind::MAGIC, &magic.to_be_bytes(), options);
        }
        if format.omits_zero {
            control_packet::put_option(kind::OMIT_ZERO, &[], options);
        }
        if format.omits_address {
            control_packet::put_option(kind::OMIT_ADDRESS, &[], options);
        }
    }

    fn begin(&mut self) {
        self.proposed = EndOptions::default();
    }

    fn evaluate(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) -> Verdict {
        match (kind, value) {
            (kind::MRU, &[high, low]) => {
                self.proposed.mru = u16::from_be_bytes([high, low]);
                if self.proposed.mru < MRU_MIN {
                    return Verdict::Nak(MRU_MIN.to_be_bytes().to_vec());
                }
            }
            (kind::ACCM, &[a, b, c, d]) => {
                self.proposed.format.accm = u32::from_be_bytes([a, b, c, d]);
            }
            (kind::AUTHENTICATION, _) if !self.can_authenticate => return Verdict::Reject,
            (kind::AUTHENTICATION, value) => match Method::from_option(value) {
                Some(method) => self.proposed.authentication = Some(method),
                None => return Verdict::Nak(Method::Chap.option().to_vec()),
            },
            (kind::MAGIC, &[a, b, c, d]) => {
                self.proposed.magic = u32::from_be_bytes([a, b, c, d]);
                if self.proposed.magic != 0 && self.proposed.magic != self.ours.magic {
                    self.loopbacks = 0;
                    return Verdict::Ack;
                }
                // RFC 1661 §6.4: if both magic numbers are the same, the peer must select another
                // one.
                if self.proposed.magic != 0 {
                    self.count_loopback(cx);
                }
                return Verdict::Nak(draw_magic(cx).to_be_bytes().to_vec());
            }
            (kind::OMIT_ZERO, []) => self.proposed.format.omits_zero = true,
            (kind::OMIT_ADDRESS, []) => self.proposed.format.omits_address = true,
            _ => return Verdict::Reject,
        }
        Verdict::Ack
    }

    fn accept(&mut self) {
        self.theirs = self.proposed;
    }

    fn process_nak(&mut self, kind: u8, value: &[u8], cx: &mut Cx<'_>) {
        match (kind, value) {
            // The MRU never exceeds the preferred value, because the local buffers limit it.
            (kind::MRU, &[high, low]) => {
                let better = u16::from_be_bytes([high, low]);
                self.ours.mru = better.clamp(MRU_MIN.min(self.desired.mru), self.desired.mru);
            }
            (kind::ACCM, &[a, b, c, d]) => {
                self.ours.format.accm |= u32::from_be_bytes([a, b, c, d]);
            }
            (kind::AUTHENTICATION, value) => match (self.ours.authentication, value) {
                // A method weaker than the required one is not accepted.
                (Some(Method::Pap), value) if Method::from_option(value).is_some() => {
                    self.ours.authentication = Method::from_option(value);
                }
                (Some(_), _) => self.is_authentication_refused = true,
                (None, _) => {}
            },
            (kind::MAGIC, _) => self.ours.magic = draw_magic(cx),
            _ => {}
        }
    }

    fn process_reject(&mut self, kind: u8) {
        match kind {
            kind::MRU => self.ours.mru = MRU_DEFAULT,
            kind::ACCM => self.ours.format.accm = ACCM_DEFAULT,
            kind::AUTHENTICATION => self.is_authentication_refused = true,
            kind::MAGIC => self.ours.magic = 0,
            kind::OMIT_ZERO => self.ours.format.omits_zero = false,
            kind::OMIT_ADDRESS => self.ours.format.omits_address = false,
            _ => {}
        }
    }

    fn restart(&mut self, cx: &mut Cx<'_>) {
        self.ours = EndOptions { magic: draw_magic(cx), ..self.desired };
        self.theirs = EndOptions::default();
        self.loopbacks = 0;
        self.is_authentication_refused = false;
    }
}

fn draw_magic(cx: &mut Cx<'_>) -> u32 {
    cx.rng.next_u32().max(1)
}

/// LCP: its negotiation, and the echo requests while the link is up.
#[derive(Debug)]
pub(super) struct Lcp {
    /// The negotiation.
    pub(super) negotiation: Negotiation<LcpOptions>,
    echo_interval: Option<Duration>,
    echo: Option<Echo>,
}

/// State of the echo requests while the link is up.
#[derive(Clone, Copy, Debug)]
struct Echo {
    next_at: Instant,
    unanswered: u32,
}

/// The effect of an LCP packet on the other protocols of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketEffect {
    /// No effect.
    Nothing,
    /// The peer does not support this protocol.
    ProtocolRejected(u16),
}

impl Lcp {
    /// Returns the LCP of an end with the preferred options `desired`.
    pub(super) fn new(
        desired: EndOptions,
        can_authenticate: bool,
        echo_interval: Option<Duration>,
    ) -> Self {
        let options = LcpOptions { desired, can_authenticate, ..LcpOptions::default() };
        Self { negotiation: Negotiation::new(options), echo_interval, echo: None }
    }

    /// Processes a packet.
    pub(super) fn receive(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> PacketEffect {
        let Some(packet) = self.negotiation.receive(bytes, cx) else {
            return PacketEffect::Nothing;
        };
        match packet.code {
            Code::PROTOCOL_REJECT => {
                if let (true, Some((&protocol, _))) =
                    (self.negotiation.is_opened(), packet.data.split_first_chunk())
                {
                    return PacketEffect::ProtocolRejected(u16::from_be_bytes(protocol));
                }
            }
            Code::ECHO_REQUEST => self.answer_echo(&packet, cx),
            Code::ECHO_REPLY => self.process_reply(&packet, cx),
            Code::DISCARD_REQUEST => self.negotiation.echoed(&packet, None, cx),
            _ => {
                let mru = usize::from(self.negotiation.options.theirs.mru);
                self.negotiation.refuse(&packet, mru, cx);
            }
        }
        PacketEffect::Nothing
    }

    fn answer_echo(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) {
        let Some((magic, data)) = packet.data.split_first_chunk() else {
            return cx.meter.count(Counter::PppControlErrors);
        };
        if self.is_ours(u32::from_be_bytes(*magic)) {
            return self.negotiation.options.count_loopback(cx);
        }
        let ours = self.negotiation.options.ours.magic.to_be_bytes();
        let answer =
            control_packet::emit(Code::ECHO_REPLY, packet.identifier, &[&ours, data].concat());
        self.negotiation.echoed(packet, Some(answer), cx);
    }

    fn process_reply(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) {
        let Some((magic, _)) = packet.data.split_first_chunk() else {
            return cx.meter.count(Counter::PppControlErrors);
        };
        if self.is_ours(u32::from_be_bytes(*magic)) {
            return self.negotiation.options.count_loopback(cx);
        }
        if let Some(echo) = &mut self.echo {
            echo.unanswered = 0;
        }
        self.negotiation.echoed(packet, None, cx);
    }

    fn is_ours(&self, magic: u32) -> bool {
        magic != 0 && magic == self.negotiation.options.ours.magic
    }

    /// Reports to the peer that `protocol` is not supported (RFC 1661 §5.7).
    pub(super) fn reject_protocol(&mut self, protocol: u16, data: &[u8], cx: &mut Cx<'_>) {
        if !self.negotiation.is_opened() {
            return;
        }
        let mru = usize::from(self.negotiation.options.theirs.mru);
        let quoted_max = mru.saturating_sub(control_packet::HEADER_LEN + 2);
        let quoted = data.get(..quoted_max).unwrap_or(data);
        let information = [&protocol.to_be_bytes(), quoted].concat();
        self.negotiation.send(Code::PROTOCOL_REJECT, &information, cx);
    }

    /// Starts to send echo requests, because the link is up.
    pub(super) fn went_up(&mut self, cx: &Cx<'_>) {
        let next_at = self.echo_interval.map(|interval| cx.now + interval);
        self.echo = next_at.map(|next_at| Echo { next_at, unanswered: 0 });
    }

    /// Stops sending echo requests, because the link is down.
    pub(super) fn went_down(&mut self) {
        self.echo = None;
    }

    /// Drops everything in progress, because the line hung up.
    pub(super) fn reset(&mut self) {
        self.negotiation.reset();
        self.echo = None;
    }

    /// Returns whether the line is looped back.
    pub(super) fn is_looped(&self) -> bool {
        self.negotiation.options.loopbacks >= LOOPBACKS_MAX
    }

    /// Returns when to call [`Self::timeout`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        let echo = self.echo.map(|echo| echo.next_at);
        self.negotiation.deadline().into_iter().chain(echo).min()
    }

    /// Processes the timers that are due. Returns false if the peer no longer answers echo
    /// requests.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) -> bool {
        self.negotiation.timeout(cx);
        let (Some(echo), Some(interval)) = (&mut self.echo, self.echo_interval) else {
            return true;
        };
        if cx.now < echo.next_at {
            return true;
        }
        if echo.unanswered > 0 {
            cx.meter.count(Counter::PppEchoesLost);
        }
        if echo.unanswered >= ECHOES_LOST_MAX {
            self.echo = None;
            return false;
        }
        echo.unanswered += 1;
        echo.next_at = cx.now + interval;
        let magic = self.negotiation.options.ours.magic.to_be_bytes();
        self.negotiation.send(Code::ECHO_REQUEST, &magic, cx);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;

    fn options(desired: EndOptions, can_authenticate: bool, context: &mut OwnedCx) -> LcpOptions {
        let mut options = LcpOptions { desired, can_authenticate, ..LcpOptions::default() };
        options.restart(&mut context.cx());
        options.begin();
        options
    }

    fn requested(options: &mut LcpOptions, context: &mut OwnedCx) -> Vec<u8> {
        let mut request = Vec::new();
        options.request(&mut request, &mut context.cx());
        request
    }

    #[test]
    fn default_options_are_not_requested() {
        let mut context = OwnedCx::default();
        let mut options = options(EndOptions::default(), false, &mut context);
        let request = requested(&mut options, &mut context);
        assert_eq!((request.len(), request[0]), (6, kind::MAGIC));
    }

    #[test]
    fn each_option_is_accepted_corrected_or_rejected() {
        let mut context = OwnedCx::default();
        let mut options = options(EndOptions::default(), true, &mut context);
        let mut evaluate = |kind, value: &[u8]| options.evaluate(kind, value, &mut context.cx());
        assert_eq!(evaluate(kind::MRU, &[2, 0]), Verdict::Ack);
        assert_eq!(evaluate(kind::MRU, &[0, 67]), Verdict::Nak(Vec::from([0, 68])));
        assert_eq!(evaluate(kind::ACCM, &[0, 10, 0, 0]), Verdict::Ack);
        assert_eq!(evaluate(kind::AUTHENTICATION, &[0xC0, 0x23]), Verdict::Ack);
        // MS-CHAP (0x80) is requested, and MD5 (5, RFC 1994) is suggested instead.
        let better = Verdict::Nak(Vec::from([0xC2, 0x23, 5]));
        assert_eq!(evaluate(kind::AUTHENTICATION, &[0xC2, 0x23, 0x80]), better);
        assert_eq!(evaluate(kind::OMIT_ZERO, &[]), Verdict::Ack);
        assert_eq!(evaluate(4, &[0xC0, 0x25, 0, 0, 0, 0]), Verdict::Reject);
        assert_eq!(evaluate(kind::MRU, &[1]), Verdict::Reject);
        options.accept();
        assert_eq!(options.theirs.format.accm, 0x000A_0000);
    }

    #[test]
    fn an_end_without_credentials_rejects_every_authentication_request() {
        let mut context = OwnedCx::default();
        let mut options = options(EndOptions::default(), false, &mut context);
        let verdict = options.evaluate(kind::AUTHENTICATION, &[0xC0, 0x23], &mut context.cx());
        assert_eq!(verdict, Verdict::Reject);
    }

    #[test]
    fn a_nak_never_enlarges_the_mru_or_shrinks_the_map() {
        let mut context = OwnedCx::default();
        let format = Format { accm: 1, ..Format::default() };
        let desired = EndOptions { mru: 576, format, ..EndOptions::default() };
        let mut options = options(desired, false, &mut context);
        let before = options.ours.magic;
        options.process_nak(kind::MRU, &[5, 220], &mut context.cx());
        options.process_nak(kind::ACCM, &[0, 0, 0, 2], &mut context.cx());
        options.process_nak(kind::MAGIC, &[1, 2, 3, 4], &mut context.cx());
        assert_eq!((options.ours.mru, options.ours.format.accm), (576, 3));
        assert_ne!(options.ours.magic, before);
    }

    #[test]
    fn a_rejected_option_is_not_requested_again() {
        let mut context = OwnedCx::default();
        let format = Format { accm: 0, omits_address: true, omits_zero: true };
        let mut options =
            options(EndOptions { mru: 576, format, ..EndOptions::default() }, false, &mut context);
        let kinds = [kind::MRU, kind::ACCM, kind::MAGIC, kind::OMIT_ZERO, kind::OMIT_ADDRESS];
        kinds.into_iter().for_each(|kind| options.process_reject(kind));
        assert_eq!(requested(&mut options, &mut context), []);
        assert!(!options.is_authentication_refused);
    }

    #[test]
    fn the_peer_cannot_weaken_required_authentication() {
        let mut context = OwnedCx::default();
        let desired = EndOptions { authentication: Some(Method::Chap), ..EndOptions::default() };
        let mut options = options(desired, false, &mut context);
        options.process_nak(kind::AUTHENTICATION, Method::Pap.option(), &mut context.cx());
        assert_eq!(options.ours.authentication, Some(Method::Chap));
        assert!(options.is_authentication_refused);
    }
}
