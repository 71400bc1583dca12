//! epoll_wait(2): the pending reports of an epoll set.

use crate::errno::Errno;
use crate::world::World;

/// Returns at most `limit` pending reports of the epoll set `set`, each with its event bits and
/// user data.
pub(crate) fn collect(world: &mut World, set: i32, limit: usize) -> Result<Vec<(u32, u64)>, Errno> {
    let watched = world.interests(set)?.descriptors();
    let ready: Vec<_> = watched.into_iter().map(|fd| (fd, world.readiness(fd))).collect();
    Ok(world.interests(set)?.report(&ready, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_peer::{ACK, IRS, PORT, accepted, datagram, scheduler};

    const IN: u32 = 1;
    const EDGE: u32 = 1 << 31;

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
}
