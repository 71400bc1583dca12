//! The descriptors of the event loop, and what each belongs to.

use gateway::relay::Key;
use net::Instant;
use net::time::Duration;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, OwnedFd};
use std::{fmt, io};

/// Maximum number of events of one wait.
const EVENTS_MAX: usize = 256;
/// The highest number of a guest or of a descriptor of the program.
pub(crate) const NUMBER_MAX: usize = 0x1FFF;
/// The bits of an index and of a generation in the data of an event.
const FIELD: u64 = 0xFF_FFFF;

/// The owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The device of a guest.
    Device(usize),
    /// The socket of a TCP flow: the guest, and the flow's index and generation.
    Tcp(usize, Slot),
    /// The socket of a UDP flow.
    Udp(usize, Slot),
    /// The socket of an echo flow.
    Echo(usize, Slot),
    /// A socket of a port forward: the guest, and the index of the socket.
    Forward(usize, usize),
    /// The socket of a DNS query: the guest, and the index of the socket.
    Dns(usize, usize),
    /// The timer of the event loop.
    Timer,
    /// A descriptor of the program around the event loop.
    Other(usize),
}

/// The index of a flow and the low bits of its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) index: usize,
    generation: u64,
}

impl Slot {
    pub(crate) fn of(key: Key) -> Self {
        Self { index: key.index(), generation: key.to_bits() >> 32 & FIELD }
    }
}

impl Source {
    fn to_bits(self) -> u64 {
        let (kind, guest, slot) = match self {
            Self::Device(guest) => (0, guest, None),
            Self::Tcp(guest, slot) => (1, guest, Some(slot)),
            Self::Udp(guest, slot) => (2, guest, Some(slot)),
            Self::Echo(guest, slot) => (3, guest, Some(slot)),
            Self::Forward(guest, index) => (4, guest, Some(Slot { index, generation: 0 })),
            Self::Dns(guest, index) => (5, guest, Some(Slot { index, generation: 0 })),
            Self::Timer => (6, 0, None),
            Self::Other(number) => (7, number, None),
        };
        let slot = slot.map_or(0, |slot| slot.generation << 24 | slot.index as u64 & FIELD);
        kind << 61 | (guest as u64 & 0x1FFF) << 48 | slot
    }

    fn from_bits(bits: u64) -> Self {
        let index = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
        let guest = index(bits >> 48 & 0x1FFF);
        let slot = Slot { index: index(bits & FIELD), generation: bits >> 24 & FIELD };
        match bits >> 61 {
            0 => Self::Device(guest),
            1 => Self::Tcp(guest, slot),
            2 => Self::Udp(guest, slot),
            3 => Self::Echo(guest, slot),
            4 => Self::Forward(guest, slot.index),
            5 => Self::Dns(guest, slot.index),
            6 => Self::Timer,
            _ => Self::Other(guest),
        }
    }
}

/// The descriptors of the event loop.
pub(crate) struct Poll {
    epoll: OwnedFd,
    /// Ends a wait at a deadline. It is set again only for an earlier deadline, because a timer that
    /// expires too early costs less than a system call in every wait.
    timer: OwnedFd,
    /// Time at which the timer expires.
    expires_at: Option<Instant>,
    events: Vec<Event>,
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let data = EventData::new_u64(Source::Timer.to_bits());
        epoll::add(&epoll, &timer, data, EventFlags::IN | EventFlags::ET)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Self { epoll, timer, expires_at: None, events })
    }

    /// Registers a descriptor. It is removed when it is closed.
    pub(crate) fn add(
        &self,
        descriptor: impl AsFd,
        source: Source,
        flags: EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(source.to_bits()), flags)?)
    }

    /// Changes the events of a registered descriptor.
    pub(crate) fn modify(
        &self,
        descriptor: impl AsFd,
        source: Source,
        flags: EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(source.to_bits()), flags)?)
    }

    /// Reports the readiness of a registered descriptor for writing instead of for reading, or again for
    /// reading.
    pub(crate) fn watch_output(
        &self,
        descriptor: impl AsFd,
        source: Source,
        is_output: bool,
    ) -> io::Result<()> {
        let flags = if is_output { EventFlags::OUT } else { EventFlags::IN };
        self.modify(descriptor, source, flags)
    }

    /// Waits for events at most until `until`. `now` is the current time. The wait may end early.
    pub(crate) fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        if let Some(until) = until {
            self.expires_at = self.expires_at.filter(|at| *at > now);
            if until > now && self.expires_at.is_none_or(|at| at > until) {
                let left = timespec(until - now);
                let setting = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: left };
                timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
                self.expires_at = Some(until);
            }
        }
        let is_due = until.is_some_and(|until| until <= now);
        let limit = is_due.then(|| timespec(Duration::ZERO));
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns event `number` of the last wait.
    pub(crate) fn event(&self, number: usize) -> Option<(Source, EventFlags)> {
        let event = self.events.get(number)?;
        let data = event.data;
        Some((Source::from_bits(data.u64()), event.flags))
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_survives_its_conversion_to_bits() {
        let slot = Slot { index: 70_000, generation: 0x12_3456 };
        let sources = [
            Source::Device(3),
            Source::Tcp(8000, slot),
            Source::Udp(1, slot),
            Source::Echo(0, slot),
            Source::Forward(2, 9),
            Source::Dns(2, 9),
            Source::Timer,
            Source::Other(NUMBER_MAX),
        ];
        for source in sources {
            assert_eq!(Source::from_bits(source.to_bits()), source);
        }
    }
}
