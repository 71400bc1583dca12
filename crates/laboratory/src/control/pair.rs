//! Two hosts in one process, connected without delay: only plumbline's code takes time.

use super::control_error::ControlError;
use super::interleaved_rounds::BlockTimes;
use super::machine_functions::MachineFunctions;
use super::stepped_host::{EndpointRole, SCREEN_KEY, SCREENFUL, SteppedHost};
use super::structure::ControlStructure;
use net::time::Instant;
use std::net::Ipv4Addr;

const USER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 1);
/// Number of operations in one block, between two readings of the clock.
const ECHOES_PER_BLOCK: u64 = 500;
const SCREENFULS_PER_BLOCK: u64 = 100;

/// Connection between two hosts with the same control structure.
pub(super) struct HostPair<'a> {
    user: SteppedHost,
    server: SteppedHost,
    now: &'a dyn Fn() -> Instant,
}

impl<'a> HostPair<'a> {
    /// Creates two hosts with `structure`, and connects them.
    pub(super) fn connect(
        structure: ControlStructure,
        machine: &MachineFunctions<'a>,
    ) -> Result<Self, ControlError> {
        let host = |role, address| SteppedHost::new(structure, role, address, SERVER, machine);
        let user = host(EndpointRole::User, USER)?;
        let server = host(EndpointRole::Server, SERVER)?;
        let mut pair = Self { user, server, now: machine.now };
        pair.run_until_idle();
        if !pair.user.is_open() {
            return Err(ControlError::NotConnected(structure.name()));
        }
        Ok(pair)
    }

    /// Sends a key, and transfers datagrams until both hosts are idle.
    fn send_key_and_wait(&mut self, key: u8, expected_bytes: usize) -> Result<(), ControlError> {
        let bytes_before = self.user.received_bytes();
        self.user.send_key(key, (self.now)());
        self.run_until_idle();
        let received_bytes = self.user.received_bytes() - bytes_before;
        if received_bytes != expected_bytes {
            return Err(ControlError::WrongAnswer { received_bytes, expected_bytes });
        }
        Ok(())
    }

    fn run_until_idle(&mut self) {
        // 64 iterations are more than any exchange of this experiment needs.
        for _ in 0..64 {
            let user_has_sent = deliver(&mut self.user, &mut self.server, self.now);
            let server_has_sent = deliver(&mut self.server, &mut self.user, self.now);
            if !user_has_sent && !server_has_sent {
                return;
            }
        }
    }

    fn switches(&self) -> [u64; 2] {
        [&self.user, &self.server].map(SteppedHost::switches)
    }

    /// Measures a block of keys and a block of screenfuls: the times in which both hosts process a
    /// key and its answer, until both are idle.
    pub(super) fn measure_block(&mut self) -> Result<BlockTimes, ControlError> {
        let before = self.switches();
        let echo_ns = self.time_operations(ECHOES_PER_BLOCK, b'x', 1)?;
        let after = self.switches();
        let screenful_ns = self.time_operations(SCREENFULS_PER_BLOCK, SCREEN_KEY, SCREENFUL)?;
        let [user, server] = [0, 1].map(|side: usize| {
            let pair = after.get(side).zip(before.get(side));
            pair.map_or(0.0, |(after, before)| (after - before) as f64 / ECHOES_PER_BLOCK as f64)
        });
        Ok(BlockTimes { echo_ns, screenful_ns, echo_switches: Some([user, server]) })
    }

    fn time_operations(
        &mut self,
        count: u64,
        key: u8,
        answer_len: usize,
    ) -> Result<u64, ControlError> {
        let started = (self.now)();
        for _ in 0..count {
            self.send_key_and_wait(key, answer_len)?;
        }
        let elapsed = (self.now)() - started;
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / count)
    }
}

fn deliver(from: &mut SteppedHost, to: &mut SteppedHost, now: &dyn Fn() -> Instant) -> bool {
    from.run(now());
    let mut has_sent = false;
    while let Some(datagram) = from.transmit(now()) {
        to.receive(datagram, now());
        has_sent = true;
    }
    has_sent
}

#[cfg(test)]
mod tests {
    use super::super::tests::MACHINE;
    use super::*;

    #[test]
    fn every_structure_delivers_an_echo_and_a_screenful() {
        for structure in ControlStructure::all() {
            let mut pair = HostPair::connect(structure, &MACHINE).unwrap();
            for _ in 0..50 {
                pair.send_key_and_wait(b'x', 1).unwrap();
                pair.send_key_and_wait(SCREEN_KEY, SCREENFUL).unwrap();
            }
        }
    }

    #[test]
    fn sending_in_the_user_step_saves_one_control_change_per_key() {
        let switches = |name| {
            let structure = ControlStructure::all()
                .into_iter()
                .find(|structure| structure.name() == name)
                .unwrap();
            let mut pair = HostPair::connect(structure, &MACHINE).unwrap();
            (0..10).for_each(|_| pair.send_key_and_wait(b'x', 1).unwrap());
            let before = pair.switches();
            (0..100).for_each(|_| pair.send_key_and_wait(b'x', 1).unwrap());
            let after = pair.switches();
            after[1] - before[1]
        };
        // Each of 100 keys takes three changes of control, and the acknowledgment of its echo,
        // which carries no data, takes three more.
        assert_eq!(switches("tasking"), 600);
        assert_eq!(switches("tasking, user sends"), 400);
    }
}
