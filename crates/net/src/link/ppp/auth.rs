//! Authentication of both ends: PAP (RFC 1334 §2) and CHAP with MD5 (RFC 1994), each in both roles.
//!
//! With PAP the end that authenticates repeats its name and password in plaintext until the peer
//! answers. With CHAP the peer sends a challenge, and the response is the MD5 of the packet's
//! identifier, the secret and the challenge. Challenges may be repeated at any time. If both ends
//! must authenticate, the link proceeds when both have succeeded. After a failed authentication the
//! link is closed, without a second attempt.
//!
//! MD5 does not protect a weak secret against eavesdroppers. The challenge comes from
//! [`Rng`](crate::rng::Rng), which is not cryptographically secure. On a line that others can
//! access, the protocols above must provide their own protection.

use super::control_packet::{self, Packet};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use md5::{Digest, Md5};

/// Protocol number of PAP.
pub(super) const PAP: u16 = 0xC023;
/// Protocol number of CHAP.
pub(super) const CHAP: u16 = 0xC223;

/// Time to wait for an answer before a packet is repeated.
const REPEAT_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum number of transmissions of a packet.
const TRIES_MAX: u32 = 10;
/// Maximum time until the peer starts its authentication, or answers.
const AUTH_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of queued packets. Each of them answers one received packet.
const OUTPUT_LIMIT: usize = 4;

/// Authentication methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A password in plaintext (RFC 1334).
    Pap,
    /// An MD5 digest of the secret and a challenge (RFC 1994).
    Chap,
}

impl Method {
    /// Returns the value of LCP's authentication option for the method.
    pub(super) fn option(self) -> &'static [u8] {
        match self {
            Self::Pap => &[0xC0, 0x23],
            Self::Chap => &[0xC2, 0x23, 5],
        }
    }

    /// Parses the value of LCP's authentication option.
    pub(super) fn from_option(value: &[u8]) -> Option<Self> {
        [Self::Pap, Self::Chap].into_iter().find(|method| method.option() == value)
    }
}

/// A name and its secret. `Debug` does not print the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub name: String,
    /// The password, or the secret that both ends share.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The authentication that this end requires of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredAuthentication {
    /// The required method.
    pub method: Method,
    /// The accepted names and secrets.
    pub accepted: Vec<Credentials>,
}

mod pap {
    pub(super) const REQUEST: u8 = 1;
    pub(super) const ACK: u8 = 2;
    pub(super) const NAK: u8 = 3;
}

mod chap {
    pub(super) const CHALLENGE: u8 = 1;
    pub(super) const RESPONSE: u8 = 2;
    pub(super) const SUCCESS: u8 = 3;
    pub(super) const FAILURE: u8 = 4;
}

/// The state of this end's authentication to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Prover {
    /// No authentication is required.
    #[default]
    Idle,
    /// PAP: the password is sent repeatedly until the peer answers.
    Asking {
        tries: u32,
        repeat_at: Instant,
    },
    /// CHAP: waits for a challenge of the peer, or for the result of the response.
    Waiting {
        until: Instant,
    },
    /// The peer has accepted this end's authentication.
    Accepted(Method),
    Failed,
}

/// The state of the peer's authentication to this end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verifier {
    /// No authentication is required.
    #[default]
    Idle,
    /// PAP: waits for the password of the peer.
    Waiting {
        until: Instant,
    },
    Challenged {
        challenge: [u8; 16],
        tries: u32,
        repeat_at: Instant,
    },
    /// This end has accepted the peer's authentication.
    Verified(Method),
    Failed,
}

/// The state of the authentication phase, and of the CHAP challenges that are repeated after it.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    own: Option<Credentials>,
    accepted: Vec<Credentials>,
    prover: Prover,
    verifier: Verifier,
    /// The identifier of the last PAP request sent.
    request_identifier: u8,
    /// The identifier of the challenge sent.
    challenge_identifier: u8,
    output: VecDeque<(u16, Vec<u8>)>,
}

impl Authentication {
    /// Returns the authentication of an end. `own` are its credentials, and `accepted` are the
    /// credentials that it accepts from the peer.
    pub(super) fn new(own: Option<Credentials>, accepted: Vec<Credentials>) -> Self {
        Self { own, accepted, ..Self::default() }
    }

    /// Starts the authentication phase: this end authenticates with the method `ours`, and the peer
    /// with `theirs`.
    pub(super) fn start(&mut self, ours: Option<Method>, theirs: Option<Method>, cx: &mut Cx<'_>) {
        self.reset();
        match ours {
            None => {}
            Some(Method::Pap) => self.send_password(0, cx),
            Some(Method::Chap) => self.prover = Prover::Waiting { until: cx.now + AUTH_TIMEOUT },
        }
        match theirs {
            None => {}
            Some(Method::Pap) => self.verifier = Verifier::Waiting { until: cx.now + AUTH_TIMEOUT },
            Some(Method::Chap) => {
                let high = cx.rng.next_u64();
                let low = cx.rng.next_u64();
                let challenge = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
                self.challenge(challenge, 0, cx);
            }
        }
    }

    /// Resets the state because the link is down. Queued packets are still sent.
    pub(super) fn went_down(&mut self) {
        self.prover = Prover::Idle;
        self.verifier = Verifier::Idle;
    }

    /// Resets the state and drops queued packets, because the line hung up.
    pub(super) fn reset(&mut self) {
        self.went_down();
        self.output.clear();
    }

    /// Returns whether no authentication is pending.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.prover, Prover::Idle | Prover::Accepted(_))
            && matches!(self.verifier, Verifier::Idle | Verifier::Verified(_))
    }

    /// Returns whether an authentication was rejected, or timed out.
    pub(super) fn has_failed(&self) -> bool {
        self.prover == Prover::Failed || self.verifier == Verifier::Failed
    }

    /// Processes a PAP or CHAP packet.
    pub(super) fn receive(&mut self, protocol: u16, bytes: &[u8], cx: &mut Cx<'_>) {
        let Some(packet) = Packet::read(bytes) else {
            return cx.meter.count(Counter::PppControlErrors);
        };
        let is_processed = match (protocol, packet.code) {
            (PAP, pap::REQUEST) => self.process_password(&packet, cx),
            (PAP, pap::ACK | pap::NAK) => self.process_pap_answer(&packet, cx),
            (CHAP, chap::CHALLENGE) => self.respond(&packet, cx),
            (CHAP, chap::RESPONSE) => self.process_response(&packet, cx),
            (CHAP, chap::SUCCESS | chap::FAILURE) => self.process_chap_answer(&packet, cx),
            _ => false,
        };
        if !is_processed {
            cx.meter.count(Counter::PppControlErrors);
        }
    }

    fn send_password(&mut self, tries: u32, cx: &mut Cx<'_>) {
        let Some(Credentials { name, secret }) = &self.own else {
            return self.fail_prover(cx);
        };
        let mut data = Vec::new();
        for text in [name, secret] {
            put_text(text.as_bytes(), &mut data);
        }
        self.request_identifier = self.request_identifier.wrapping_add(1);
        let request = control_packet::emit(pap::REQUEST, self.request_identifier, &data);
        self.prover = Prover::Asking { tries: tries + 1, repeat_at: cx.now + REPEAT_INTERVAL };
        self.queue(PAP, request, cx);
    }

    fn process_pap_answer(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) -> bool {
        let Prover::Asking { .. } = self.prover else { return false };
        if packet.identifier != self.request_identifier {
            return false;
        }
        if packet.code == pap::ACK {
            self.prover = Prover::Accepted(Method::Pap);
        } else {
            self.fail_prover(cx);
        }
        true
    }

    fn respond(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) -> bool {
        let is_expected =
            matches!(self.prover, Prover::Waiting { .. } | Prover::Accepted(Method::Chap));
        let (true, Some(own), Some((challenge, _))) =
            (is_expected, &self.own, parse_text(packet.data))
        else {
            return false;
        };
        // The peer has reflected this end's own challenge, to obtain a response that it can reuse.
        if let Verifier::Challenged { challenge: ours, .. } = &self.verifier
            && ours == challenge
        {
            return false;
        }
        let response = proof(packet.identifier, &own.secret, challenge);
        let mut data = Vec::new();
        put_text(&response, &mut data);
        data.extend_from_slice(own.name.as_bytes());
        let response = control_packet::emit(chap::RESPONSE, packet.identifier, &data);
        self.queue(CHAP, response, cx);
        if let Prover::Waiting { until } = &mut self.prover {
            *until = cx.now + AUTH_TIMEOUT;
        }
        true
    }

    fn process_chap_answer(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) -> bool {
        match (self.prover, packet.code) {
            (Prover::Waiting { .. }, chap::SUCCESS) => self.prover = Prover::Accepted(Method::Chap),
            (Prover::Waiting { .. } | Prover::Accepted(Method::Chap), chap::FAILURE) => {
                self.fail_prover(cx);
            }
            (Prover::Accepted(Method::Chap), _) => {}
            _ => return false,
        }
        true
    }

    fn challenge(&mut self, challenge: [u8; 16], tries: u32, cx: &mut Cx<'_>) {
        // A response is valid no matter which transmission of the challenge it answers.
        if tries == 0 {
            self.challenge_identifier = self.challenge_identifier.wrapping_add(1);
        }
        let mut data = Vec::new();
        put_text(&challenge, &mut data);
        let name = self.own.as_ref().map_or("plumb", |own| &own.name);
        data.extend_from_slice(name.as_bytes());
        let packet = control_packet::emit(chap::CHALLENGE, self.challenge_identifier, &data);
        let repeat_at = cx.now + REPEAT_INTERVAL;
        self.verifier = Verifier::Challenged { challenge, tries: tries + 1, repeat_at };
        self.queue(CHAP, packet, cx);
    }

    fn process_response(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) -> bool {
        // RFC 1994 §4.1: an answer that may have been lost is repeated.
        if self.verifier == Verifier::Verified(Method::Chap) {
            self.queue(CHAP, control_packet::emit(chap::SUCCESS, packet.identifier, b""), cx);
            return true;
        }
        let Verifier::Challenged { challenge, .. } = self.verifier else { return false };
        let Some((response, name)) = parse_text(packet.data) else { return false };
        if packet.identifier != self.challenge_identifier {
            return false;
        }
        let is_correct = self.accepted.iter().any(|one| {
            one.name.as_bytes() == name
                && is_equal(response, &proof(packet.identifier, &one.secret, &challenge))
        });
        self.decide(is_correct, Method::Chap, packet.identifier, cx);
        true
    }

    fn process_password(&mut self, packet: &Packet<'_>, cx: &mut Cx<'_>) -> bool {
        if self.verifier == Verifier::Verified(Method::Pap) {
            self.queue(PAP, control_packet::emit(pap::ACK, packet.identifier, &[0]), cx);
            return true;
        }
        let Verifier::Waiting { .. } = self.verifier else { return false };
        let Some((name, rest)) = parse_text(packet.data) else { return false };
        let Some((secret, _)) = parse_text(rest) else { return false };
        let mut accepted = self.accepted.iter();
        let is_correct = accepted
            .any(|one| one.name.as_bytes() == name && is_equal(secret, one.secret.as_bytes()));
        self.decide(is_correct, Method::Pap, packet.identifier, cx);
        true
    }

    fn decide(&mut self, is_correct: bool, method: Method, identifier: u8, cx: &mut Cx<'_>) {
        let (protocol, code, data) = match (method, is_correct) {
            (Method::Pap, true) => (PAP, pap::ACK, &[0][..]),
            (Method::Pap, false) => (PAP, pap::NAK, &[0][..]),
            (Method::Chap, true) => (CHAP, chap::SUCCESS, &[][..]),
            (Method::Chap, false) => (CHAP, chap::FAILURE, &[][..]),
        };
        self.queue(protocol, control_packet::emit(code, identifier, data), cx);
        if is_correct {
            self.verifier = Verifier::Verified(method);
        } else {
            self.fail_verifier(cx);
        }
    }

    fn fail_prover(&mut self, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::PppAuthenticationsFailed);
        self.prover = Prover::Failed;
    }

    fn fail_verifier(&mut self, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::PppAuthenticationsFailed);
        self.verifier = Verifier::Failed;
    }

    fn queue(&mut self, protocol: u16, packet: Vec<u8>, cx: &mut Cx<'_>) {
        if self.output.len() >= OUTPUT_LIMIT {
            return cx.meter.count(Counter::PppControlDropped);
        }
        self.output.push_back((protocol, packet));
    }

    /// Returns the next packet for the line, with its protocol.
    pub(super) fn transmit(&mut self) -> Option<(u16, Vec<u8>)> {
        self.output.pop_front()
    }

    /// Returns whether a packet is queued for the line.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns when to call [`Self::timeout`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.prover_deadline().into_iter().chain(self.verifier_deadline()).min()
    }

    fn prover_deadline(&self) -> Option<Instant> {
        match self.prover {
            Prover::Asking { repeat_at: at, .. } | Prover::Waiting { until: at } => Some(at),
            Prover::Idle | Prover::Accepted(_) | Prover::Failed => None,
        }
    }

    fn verifier_deadline(&self) -> Option<Instant> {
        match self.verifier {
            Verifier::Waiting { until: at } | Verifier::Challenged { repeat_at: at, .. } => {
                Some(at)
            }
            Verifier::Idle | Verifier::Verified(_) | Verifier::Failed => None,
        }
    }

    /// Repeats a packet, or gives up.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.prover_deadline()) {
            cx.meter.count(Counter::PppTimeouts);
            match self.prover {
                Prover::Asking { tries, .. } if tries < TRIES_MAX => self.send_password(tries, cx),
                _ => self.fail_prover(cx),
            }
        }
        if is_due(self.verifier_deadline()) {
            cx.meter.count(Counter::PppTimeouts);
            match self.verifier {
                Verifier::Challenged { challenge, tries, .. } if tries < TRIES_MAX => {
                    self.challenge(challenge, tries, cx);
                }
                _ => self.fail_verifier(cx),
            }
        }
    }
}

fn proof(identifier: u8, secret: &str, challenge: &[u8]) -> [u8; 16] {
    let digest = Md5::new_with_prefix([identifier]).chain_update(secret).chain_update(challenge);
    digest.finalize().into()
}

/// Returns whether `a` and `b` are equal. The comparison takes constant time.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

/// Appends the length of a string as one byte, and the string. A string longer than 255 bytes is
/// truncated.
fn put_text(text: &[u8], data: &mut Vec<u8>) {
    let len = u8::try_from(text.len()).unwrap_or(u8::MAX);
    data.push(len);
    data.extend_from_slice(text.get(..usize::from(len)).unwrap_or_default());
}

/// Parses a length byte and the string after it. Returns the string and the remaining data.
fn parse_text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first()?;
    rest.split_at_checked(usize::from(*len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use proptest::prelude::*;

    fn credentials(secret: &str) -> Credentials {
        Credentials { name: String::from("guest"), secret: String::from(secret) }
    }

    /// Returns two ends: one that authenticates, and one that verifies.
    fn ends(method: Method, secret: &str, context: &mut OwnedCx) -> [Authentication; 2] {
        let mut prover = Authentication::new(Some(credentials(secret)), Vec::new());
        let mut verifier = Authentication::new(None, Vec::from([credentials("right")]));
        prover.start(Some(method), None, &mut context.cx());
        verifier.start(None, Some(method), &mut context.cx());
        [prover, verifier]
    }

    fn exchange([a, b]: &mut [Authentication; 2], context: &mut OwnedCx) {
        while a.has_output() || b.has_output() {
            if let Some((protocol, packet)) = a.transmit() {
                b.receive(protocol, &packet, &mut context.cx());
            }
            if let Some((protocol, packet)) = b.transmit() {
                a.receive(protocol, &packet, &mut context.cx());
            }
        }
    }

    #[test]
    fn the_right_password_is_accepted_in_plaintext() {
        let mut context = OwnedCx::default();
        let mut ends = ends(Method::Pap, "right", &mut context);
        let (protocol, attempt) = ends[0].transmit().unwrap();
        assert_eq!((protocol, &attempt[4..]), (PAP, &b"\x05guest\x05right"[..]));
        ends[1].receive(protocol, &attempt, &mut context.cx());
        exchange(&mut ends, &mut context);
        assert!(ends.iter().all(|end| end.is_done() && end.deadline().is_none()));
    }

    #[test]
    fn the_right_secret_answers_the_challenge_without_being_sent() {
        let mut context = OwnedCx::default();
        let mut ends = ends(Method::Chap, "right", &mut context);
        exchange(&mut ends, &mut context);
        assert!(ends.iter().all(Authentication::is_done));
    }

    #[test]
    fn a_wrong_secret_fails_at_both_ends() {
        for method in [Method::Pap, Method::Chap] {
            let mut context = OwnedCx::default();
            let mut ends = ends(method, "wrong", &mut context);
            exchange(&mut ends, &mut context);
            assert!(ends.iter().all(Authentication::has_failed), "{method:?}");
            assert_eq!(context.counted(Counter::PppAuthenticationsFailed), 2);
        }
    }

    #[test]
    fn a_response_is_the_md5_of_identifier_secret_and_challenge() {
        let response = proof(1, "secret", b"challenge");
        assert_eq!(response, <[u8; 16]>::from(Md5::digest(b"\x01secretchallenge")));
    }

    #[test]
    fn an_unanswered_proof_is_repeated_and_then_fails() {
        let mut context = OwnedCx::default();
        let [mut prover, mut verifier] = ends(Method::Pap, "right", &mut context);
        for attempt in 1..=TRIES_MAX {
            assert!(prover.transmit().is_some(), "{attempt}");
            context.now = prover.deadline().unwrap();
            prover.timeout(&mut context.cx());
        }
        assert!(prover.has_failed() && !prover.has_output());
        context.now = context.now + AUTH_TIMEOUT;
        verifier.timeout(&mut context.cx());
        assert!(verifier.has_failed());
    }

    #[test]
    fn a_challenge_is_repeated_and_any_copy_may_be_answered() {
        let mut context = OwnedCx::default();
        let mut ends = ends(Method::Chap, "right", &mut context);
        let first = ends[1].transmit().unwrap();
        context.advance(REPEAT_INTERVAL);
        ends[1].timeout(&mut context.cx());
        assert_eq!(ends[1].transmit().unwrap(), first);
        ends[0].receive(CHAP, &first.1, &mut context.cx());
        exchange(&mut ends, &mut context);
        assert!(ends.iter().all(Authentication::is_done));
    }

    #[test]
    fn a_challenge_after_the_proof_is_answered_too() {
        let mut context = OwnedCx::default();
        let mut ends = ends(Method::Chap, "right", &mut context);
        exchange(&mut ends, &mut context);
        ends[0].receive(CHAP, &[1, 77, 0, 6, 1, 9], &mut context.cx());
        assert_eq!(ends[0].transmit().unwrap().1[..2], [chap::RESPONSE, 77]);
        assert!(ends[0].is_done());
    }

    #[test]
    fn a_reflected_challenge_is_not_answered() {
        let mut context = OwnedCx::default();
        let own_credentials = Some(credentials("right"));
        let mut end = Authentication::new(own_credentials, Vec::from([credentials("right")]));
        end.start(Some(Method::Chap), Some(Method::Chap), &mut context.cx());
        let (_, challenge) = end.transmit().unwrap();
        end.receive(CHAP, &challenge, &mut context.cx());
        assert!(!end.has_output());
    }

    #[test]
    fn debug_does_not_print_the_secret() {
        let debug_text = alloc::format!("{:?}", credentials("right"));
        assert!(debug_text.contains("guest") && !debug_text.contains("right"));
    }

    proptest! {
        #[test]
        fn any_packet_is_processed_or_counted_and_none_authenticates(
            packets in prop::collection::vec(
                (any::<bool>(), 0..6_u8, 0..3_u8, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
            method in prop_oneof![Just(Method::Pap), Just(Method::Chap)],
        ) {
            let mut context = OwnedCx::default();
            let [_, mut end] = ends(method, "right", &mut context);
            for (is_pap, code, identifier, data) in packets {
                let packet = control_packet::emit(code, identifier, &data);
                end.receive(if is_pap { PAP } else { CHAP }, &packet, &mut context.cx());
            }
            prop_assert!(!end.is_done());
        }
    }
}
