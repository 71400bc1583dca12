//! Two hosts in one process, connected without delay: only plumbline's code takes time.

use super::host::{Host, Role, SCREEN_KEY, SCREENFUL};
use super::structure::Which;
use anyhow::{Result, ensure};
use os::clock::Monotonic;
use protocols::meter::Work;
use std::net::Ipv4Addr;

const USER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 83, 255, 1);
/// Number of operations in one block, between two readings of the clock.
const ECHOES: u64 = 500;
const SCREENFULS: u64 = 100;

/// Connection between two hosts with the same control structure.
pub(super) struct Pair {
    user: Host,
    server: Host,
    clock: Monotonic,
}

/// Results of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Time from a key to its echo, until both hosts are idle; the sum of both hosts.
    pub(super) echo_ns: u64,
    /// The same for a key that is answered with a screenful.
    pub(super) screenful_ns: u64,
    /// Changes of control for each key, of user and server.
    pub(super) echo_switches: [f64; 2],
}

impl Pair {
    pub(super) fn connect(which: Which) -> Result<Self> {
        let clock = Monotonic::start();
        let host = |role, address| Host::new(which, role, address, SERVER, clock);
        let (user, server) = (host(Role::User, USER)?, host(Role::Server, SERVER)?);
        let mut pair = Self { user, server, clock };
        pair.settle();
        ensure!(pair.user.carried.is_open(), "the two hosts do not connect: {}", which.name());
        Ok(pair)
    }

    /// Sends a key and carries datagrams until both hosts are idle.
    fn key(&mut self, key: u8, answer_len: usize) -> Result<()> {
        let before = self.user.carried.stream.bytes;
        self.user.strike(key);
        self.settle();
        let came = self.user.carried.stream.bytes - before;
        ensure!(came == answer_len, "received {came} of {answer_len} bytes");
        Ok(())
    }

    fn settle(&mut self) {
        // No exchange here takes more turns than this.
        for _ in 0..64 {
            let sent = carry(&mut self.user, &mut self.server);
            let answered = carry(&mut self.server, &mut self.user);
            if !sent && !answered {
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
        let echo_ns = self.time(ECHOES, b'x', 1)?;
        let after = self.switches();
        let screenful_ns = self.time(SCREENFULS, SCREEN_KEY, SCREENFUL)?;
        let [user, server] = [0, 1].map(|side: usize| {
            let pair = after.get(side).zip(before.get(side));
            pair.map_or(0.0, |(after, before)| (after - before) as f64 / ECHOES as f64)
        });
        Ok(Block { echo_ns, screenful_ns, echo_switches: [user, server] })
    }

    fn time(&mut self, count: u64, key: u8, answer_len: usize) -> Result<u64> {
        let started = self.clock.now();
        for _ in 0..count {
            self.key(key, answer_len)?;
        }
        let passed = self.clock.now() - started;
        Ok(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX) / count)
    }
}

fn carry(from: &mut Host, to: &mut Host) -> bool {
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
    fn a_key_comes_back_and_a_screenful_comes_by_every_structure() {
        for which in Which::all() {
            let mut pair = Pair::connect(which).unwrap();
            for _ in 0..50 {
                pair.key(b'x', 1).unwrap();
                pair.key(SCREEN_KEY, SCREENFUL).unwrap();
            }
        }
    }

    #[test]
    fn to_send_in_the_user_step_saves_a_change_of_control_for_a_key() {
        let switches = |name| {
            let which = Which::all().into_iter().find(|which| which.name() == name).unwrap();
            let mut pair = Pair::connect(which).unwrap();
            (0..10).for_each(|_| pair.key(b'x', 1).unwrap());
            let before = pair.switches();
            (0..100).for_each(|_| pair.key(b'x', 1).unwrap());
            let after = pair.switches();
            after[1] - before[1]
        };
        // Three for the key, and three for the acknowledgment of its echo, which carries no data.
        assert_eq!(switches("tasking"), 600);
        assert_eq!(switches("tasking, user sends"), 400);
    }
}
