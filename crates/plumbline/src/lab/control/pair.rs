//! Two hosts in one process, connected without delay: only plumbline's code takes time.

use super::stepped_host::{EndpointRole, Host, SCREEN_KEY, SCREENFUL};
use super::structure::ControlStructure;
use anyhow::{Result, ensure};
use net::meter::Work;
use os::clock::Monotonic;
use std::net::Ipv4Addr;

const USER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 1);
/// Number of operations in one block, between two readings of the clock.
const ECHOES_PER_BLOCK: u64 = 500;
const SCREENFULS_PER_BLOCK: u64 = 100;

/// Connection between two hosts with the same control structure.
pub(super) struct HostPair {
    user: Host,
    server: Host,
    clock: Monotonic,
}

/// Results of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Time in which both hosts process a key and its echo, until both are idle.
    pub(super) echo_ns: u64,
    /// Time in which both hosts process a key and the screenful that answers it, until both are
    /// idle.
    pub(super) screenful_ns: u64,
    /// Changes of control per key, of the user and of the server.
    pub(super) echo_switches: [f64; 2],
}

impl HostPair {
    pub(super) fn connect(structure: ControlStructure) -> Result<Self> {
        let clock = Monotonic::start();
        let host = |role, address| Host::new(structure, role, address, SERVER, clock);
        let user = host(EndpointRole::User, USER)?;
        let server = host(EndpointRole::Server, SERVER)?;
        let mut pair = Self { user, server, clock };
        pair.run_until_idle();
        ensure!(pair.user.tcp_app.is_open(), "the two hosts do not connect: {}", structure.name());
        Ok(pair)
    }

    /// Sends a key, and transfers datagrams until both hosts are idle.
    fn send_key_and_wait(&mut self, key: u8, answer_len: usize) -> Result<()> {
        let bytes_before = self.user.tcp_app.stream.bytes;
        self.user.send_key(key);
        self.run_until_idle();
        let received_bytes = self.user.tcp_app.stream.bytes - bytes_before;
        ensure!(received_bytes == answer_len, "received {received_bytes} of {answer_len} bytes");
        Ok(())
    }

    fn run_until_idle(&mut self) {
        // 64 iterations are more than any exchange of this experiment needs.
        for _ in 0..64 {
            let user_has_sent = deliver(&mut self.user, &mut self.server);
            let server_has_sent = deliver(&mut self.server, &mut self.user);
            if !user_has_sent && !server_has_sent {
                return;
            }
        }
    }

    fn switches(&self) -> [u64; 2] {
        [&self.user, &self.server].map(|host| host.meter.units(Work::Switch))
    }

    /// Measures a block of keys and a block of screenfuls.
    pub(super) fn block(&mut self) -> Result<Block> {
        let before = self.switches();
        let echo_ns = self.time_operations(ECHOES_PER_BLOCK, b'x', 1)?;
        let after = self.switches();
        let screenful_ns = self.time_operations(SCREENFULS_PER_BLOCK, SCREEN_KEY, SCREENFUL)?;
        let [user, server] = [0, 1].map(|side: usize| {
            let pair = after.get(side).zip(before.get(side));
            pair.map_or(0.0, |(after, before)| (after - before) as f64 / ECHOES_PER_BLOCK as f64)
        });
        Ok(Block { echo_ns, screenful_ns, echo_switches: [user, server] })
    }

    fn time_operations(&mut self, count: u64, key: u8, answer_len: usize) -> Result<u64> {
        let started = self.clock.now();
        for _ in 0..count {
            self.send_key_and_wait(key, answer_len)?;
        }
        let elapsed = self.clock.now() - started;
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX) / count)
    }
}

fn deliver(from: &mut Host, to: &mut Host) -> bool {
    from.run();
    let mut has_sent = false;
    while from.transmit() {
        to.receive(&from.wire);
        has_sent = true;
    }
    has_sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_delivers_an_echo_and_a_screenful() {
        for structure in ControlStructure::all() {
            let mut pair = HostPair::connect(structure).unwrap();
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
            let mut pair = HostPair::connect(structure).unwrap();
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
