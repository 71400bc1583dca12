//! The descriptors that an epoll set watches (epoll(7)).

use crate::errno::Errno;
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

    /// Returns the registered descriptors.
    pub(crate) fn descriptors(&self) -> Vec<i32> {
        self.0.keys().copied().collect()
    }

    /// Returns at most `limit` pending reports, each with its event bits and user data. `ready` has
    /// the readiness of each descriptor as event bits of poll(2).
    pub(crate) fn report(&mut self, ready: &[(i32, i16)], limit: usize) -> Vec<(u32, u64)> {
        let mut reports = Vec::new();
        for (fd, ready) in ready {
            let Some(interest) = self.0.get_mut(fd) else { continue };
            let ready = u32::from(bits(*ready));
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
        reports
    }
}

/// Converts event bits of poll(2) to those of epoll(2), which have the same values on Linux.
fn bits(events: i16) -> u16 {
    u16::from_ne_bytes(events.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = 1;

    #[test]
    fn a_descriptor_cannot_be_added_twice() {
        let mut interests = Interests::default();
        assert_eq!(interests.control(libc::EPOLL_CTL_ADD, 3, IN, 0), Ok(()));
        assert_eq!(interests.control(libc::EPOLL_CTL_ADD, 3, IN, 0), Err(Errno(libc::EEXIST)));
        assert_eq!(interests.control(libc::EPOLL_CTL_DEL, 4, 0, 0), Err(Errno(libc::ENOENT)));
    }
}
