//! The messages that two simulated stations exchange in a session.

use super::session_scenario::{Scenario, Session};
use super::workload::SessionEndpoint;
use net::link::{Datagram, Link};
use net::meter::Costs;
use net::rng::Rng;
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{Profile, ReceiveWindow, SendLimit};
use simulator::medium::{Arrival, Medium};
use simulator::transmission_line::Line;
use simulator::{Host, Side, World, seed_of};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const MULTICS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 44);
const LOGGER_PORT: u16 = 1;
const MTU: usize = 1_500;

/// Data of one TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) at: Instant,
    /// Sender; [`Side::Server`] is Multics.
    pub(super) from: Side,
    pub(super) chars: usize,
}

/// A network without faults that records the messages it delivers.
#[derive(Debug)]
struct RecordingMedium {
    delay: Duration,
    delivered: Rc<RefCell<Vec<Message>>>,
}

impl Medium for RecordingMedium {
    fn carry(
        &mut self,
        from: Side,
        sent_at: Instant,
        bytes: Vec<u8>,
        _rng: &mut Rng,
    ) -> Vec<Arrival> {
        let chars = data_len(&bytes).unwrap_or(0);
        if chars > 0 {
            self.delivered.borrow_mut().push(Message { at: sent_at, from, chars });
        }
        vec![Arrival { to: from.other(), at: sent_at + self.delay, bytes }]
    }
}

/// Returns the number of data bytes in a TCP datagram, or `None` for any other datagram.
fn data_len(datagram: &[u8]) -> Option<usize> {
    let header = usize::from(datagram.first()? & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([*datagram.get(2)?, *datagram.get(3)?]));
    let tcp = usize::from(datagram.get(header + 12)? >> 4) * 4;
    total.checked_sub(header + tcp)
}

/// Simulates one session and returns its messages.
pub(super) fn messages(scenario: &Scenario, session: &Session, seed: u64) -> Vec<Message> {
    let profile = Profile {
        receive_window: ReceiveWindow::Bytes(16_000),
        send_limit: SendLimit::Bytes(16_000),
        ..Profile::INTERACTIVE
    };
    let host = |address, side, party, opening| {
        let link = Link::Datagram(Datagram::new(MTU));
        let settings = Settings { address, prefix_len: 24, packets: 64, ..Settings::default() };
        let application = TcpStreamApp::new(party, opening, profile);
        Host::new(link, settings, Costs::default(), seed_of(seed, side), application)
    };
    let remote = SocketAddr::new(MULTICS.into(), LOGGER_PORT);
    let active = Opening::Active { local: USER.into(), remote };
    let passive = Opening::Passive { port: LOGGER_PORT };
    let path = Line::path(Duration::from_millis(scenario.network.rfnm_ms / 2));
    let mut world = World::new(
        host(USER, Side::User, SessionEndpoint::typist(session), active),
        host(MULTICS, Side::Server, SessionEndpoint::program(session), passive),
        path,
        seed,
    );
    let delivered = Rc::default();
    world.set_medium(Box::new(RecordingMedium {
        delay: path.delay,
        delivered: Rc::clone(&delivered),
    }));
    world.run_until(Instant::ZERO + Duration::from_secs(scenario.minutes * 60));
    delivered.take()
}

#[cfg(test)]
mod tests {
    use super::super::session_scenario::tests::built_in;
    use super::*;

    #[test]
    fn typed_characters_are_one_message_each_and_answers_one_message_per_line() {
        let mut scenario = built_in();
        scenario.minutes = 5;
        let mut session = scenario.sessions[0].clone();
        session.is_a_character_at_a_time = true;
        session.think_s = 5;
        session.typed_chars = 4;
        session.answer_lines = 3;
        session.answer_chars = 70;
        let delivered = messages(&scenario, &session, 1);
        let first: Vec<_> = delivered.iter().take(7).map(|m| (m.from, m.chars)).collect();
        let typed = (Side::User, 1);
        let answered = (Side::Server, 70);
        assert_eq!(first, [typed, typed, typed, typed, answered, answered, answered]);
    }
}
