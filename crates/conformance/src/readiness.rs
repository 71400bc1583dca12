//! poll(2) and epoll(2): the operations that a descriptor can perform without blocking.

use crate::host_under_test::Host;
use crate::socket::{Errno, Phase, Stream};
use crate::world::World;
use net::transport::tcp::State;
use std::collections::BTreeMap;

/// The descriptors that an epoll set watches, with their events.
#[derive(Debug, Default)]
pub(crate) struct Interests(BTreeMap<i32, Interest>);

#[derive(Clone, Copy, Debug)]
struct Interest {
    events: u32,
    data: u64,
    /// Events in the last report, for edge triggering.
    reported: u32,
    /// Whether the event of a one-shot entry (EPOLLONESHOT) has been reported.
    is_spent: bool,
}

const EDGE: u32 = 1 << 31;
const ONE_SHOT: u32 = 1 << 30;

impl Interests {
    /// Implements epoll_ctl(2).
    pub(crate) fn control(
        &mut self,
        operation: i32,
        fd: i32,
        events: u32,
        data: u64,
    ) -> Result<(), Errno> {
        let is_registered = self.0.contains_key(&fd);
        match operation {
            libc::EPOLL_CTL_ADD if is_registered => return Err(Errno(libc::EEXIST)),
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !is_registered => {
                return Err(Errno(libc::ENOENT));
            }
            libc::EPOLL_CTL_DEL => drop(self.0.remove(&fd)),
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
                let interest = Interest { events, data, reported: 0, is_spent: false };
                self.0.insert(fd, interest);
            }
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(())
    }
}

/// Returns at most `limit` pending reports of the epoll set `set`, each with its event bits and
/// user data.
pub(crate) fn collect(world: &mut World, set: i32, limit: usize) -> Result<Vec<(u32, u64)>, Errno> {
    let watched: Vec<i32> = world.interests(set)?.0.keys().copied().collect();
    let ready: Vec<(i32, u32)> =
        watched.into_iter().map(|fd| (fd, u32::from(bits(world.readiness(fd))))).collect();
    let interests = world.interests(set)?;
    let mut reports = Vec::new();
    for (fd, ready) in ready {
        let Some(interest) = interests.0.get_mut(&fd) else { continue };
        let always_reported = u32::from(bits(libc::POLLERR | libc::POLLHUP));
        let events = ready & (interest.events | always_reported);
        let has_new_events = events & !interest.reported != 0;
        let is_edge_triggered = interest.events & EDGE != 0;
        if events == 0
            || interest.is_spent
            || (is_edge_triggered && !has_new_events)
            || reports.len() == limit
        {
            interest.reported &= events;
            continue;
        }
        interest.reported = events;
        interest.is_spent = interest.events & ONE_SHOT != 0;
        reports.push((events, interest.data));
    }
    Ok(reports)
}

/// Converts event bits of poll(2) to those of epoll(2), which have the same values on Linux.
fn bits(events: i16) -> u16 {
    u16::from_ne_bytes(events.to_ne_bytes())
}

/// Returns the readiness of a stream socket as event bits of poll(2).
pub(crate) fn of_stream(stream: &Stream, host: &Host) -> i16 {
    let readable = libc::POLLIN | libc::POLLRDNORM;
    let writable = libc::POLLOUT | libc::POLLWRNORM;
    match stream.phase {
        Phase::Unconnected(_) => writable | libc::POLLHUP,
        Phase::Listening(port) => {
            if host.has_acceptable(port) {
                readable
            } else {
                0
            }
        }
        Phase::Connected(_) => {
            let Some(status) = stream.status(host) else { return libc::POLLHUP };
            if matches!(status.state, State::SynSent | State::SynReceived) {
                return 0;
            }
            let has_end = stream.has_end(&status);
            let is_shut = stream.is_write_shut || !status.state.takes_data();
            let mut events = 0;
            if status.receive_queue > 0 || has_end {
                events |= readable;
            }
            if has_end {
                events |= libc::POLLRDHUP;
            }
            // Linux reports a socket as writable if a third of the buffer is free.
            let queued = usize::try_from(status.send_queue).unwrap_or(usize::MAX);
            if is_shut || queued < stream.options.send_limit() / 3 * 2 {
                events |= writable;
            }
            if has_end && is_shut {
                events |= libc::POLLHUP;
            }
            if stream.error(host).is_some() {
                events |= libc::POLLERR;
            }
            events
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::{ACK, IRS, PORT, accepted, datagram, listener, scheduler};

    const IN: u32 = 1;

    #[test]
    fn a_listener_without_connections_is_not_readable() {
        let scheduler = scheduler();
        let fd = listener(&scheduler);
        assert_eq!(scheduler.call(|world| world.readiness(fd)), 0);
    }

    #[test]
    fn a_connection_is_writable_when_opened_and_readable_with_data() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        let before = scheduler.call(|world| world.readiness(fd));
        assert_eq!(before & (libc::POLLIN | libc::POLLOUT), libc::POLLOUT);
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"x"));
        assert_eq!(scheduler.call(|world| world.readiness(fd)) & libc::POLLIN, libc::POLLIN);
    }

    #[test]
    fn an_edge_is_reported_once() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        let set = scheduler.call(World::epoll_create).unwrap();
        let add = libc::EPOLL_CTL_ADD;
        let added =
            scheduler.call(|world| world.interests(set).unwrap().control(add, fd, IN | EDGE, 7));
        assert_eq!(added, Ok(()));
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"x"));
        assert_eq!(scheduler.call(|world| collect(world, set, 8)), Ok(vec![(IN, 7)]));
        assert_eq!(scheduler.call(|world| collect(world, set, 8)), Ok(vec![]));
    }

    #[test]
    fn a_level_is_reported_as_long_as_it_lasts() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        let set = scheduler.call(World::epoll_create).unwrap();
        let add = libc::EPOLL_CTL_ADD;
        let added = scheduler.call(|world| world.interests(set).unwrap().control(add, fd, IN, 7));
        assert_eq!(added, Ok(()));
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"x"));
        assert_eq!(scheduler.call(|world| collect(world, set, 8)), Ok(vec![(IN, 7)]));
        assert_eq!(scheduler.call(|world| collect(world, set, 8)), Ok(vec![(IN, 7)]));
    }

    #[test]
    fn a_descriptor_cannot_be_added_twice() {
        let mut interests = Interests::default();
        assert_eq!(interests.control(libc::EPOLL_CTL_ADD, 3, IN, 0), Ok(()));
        assert_eq!(interests.control(libc::EPOLL_CTL_ADD, 3, IN, 0), Err(Errno(libc::EEXIST)));
        assert_eq!(interests.control(libc::EPOLL_CTL_DEL, 4, 0, 0), Err(Errno(libc::ENOENT)));
    }
}
