//! Waiting for the next packet of a device: by a blocking read, by polling, or by spinning first.
//!
//! | strategy | system calls per packet after a wait | processor during the wait |
//! |---|---|---|
//! | [`Wait::Block`] | one: the read, which a read timer interrupts at the deadline | idle |
//! | [`Wait::Yield`] | two: `sched_yield`, and the read of `Block` | other threads, then idle |
//! | [`Wait::Poll`] | two: `ppoll` with the deadline, and the read | idle |
//! | [`Wait::Spin`] | repeated reads, then as with `Block` | busy while spinning, then idle |
//!
//! If both ends share a processor and a real-time priority, the other end runs as soon as this
//! thread yields, and may have sent its next request when this thread continues. Then neither
//! thread is put to sleep and woken, which would cost more than the call of `sched_yield`. Under
//! the ordinary policy, yielding may cost a whole time slice of another thread.
//!
//! A non-waiting read of a packet of 1400 bytes takes 0.65 µs if the TUN is blocking, and 0.56 µs
//! if it is non-blocking. Therefore a TUN is non-blocking while packets stream in, until no packet
//! is left and the next wait begins.
//!
//! The result of a wait contains the time spent spinning and sleeping. The caller charges it to its
//! meter's `Account::Outside`.

use crate::clock::Monotonic;
use crate::device::Device;
use crate::queue_steering::QueueSteering;
use crate::read_timer::ReadTimer;
use crate::readiness::{self, PollFd, PollFlags};
use crate::vnet::Received;
use net::Instant;
use net::time::Duration;
use std::io;

/// Wait strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Sleep in the read itself. This strategy takes the least processor time, and uses a real-time
    /// signal of the process.
    Block,
    /// Yield to threads of equal priority, then sleep in the read. This is for a thread of
    /// real-time priority (sched(7)) that shares its processor with its peer.
    Yield,
    /// Sleep in `ppoll`.
    #[default]
    Poll,
    /// Read repeatedly for a limited time, then sleep in the read.
    Spin {
        /// Maximum time of spinning, in nanoseconds.
        nanos: u32,
    },
}

/// Waits for packets of one device with a given strategy.
#[derive(Debug)]
pub struct Waiter {
    wait: Wait,
    sleep: Sleep,
    /// Number of packets since the last sleep.
    packets_since_sleep: u32,
}

#[derive(Debug)]
enum Sleep {
    /// Sleep in `ppoll`; the device is non-blocking.
    InPoll,
    /// Sleep in the read of a blocking device. The first thread that waits creates the read timer.
    InRead(Option<ReadTimer>),
}

/// Minimum number of consecutive packets without a wait that count as a stream.
const STREAM_PACKETS: u32 = 16;

/// Result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitResult {
    /// Position and unfinished parts of the packet; `None` if no packet arrived in time.
    pub packet: Option<Received>,
    /// Time at the end of the wait.
    pub now: Instant,
    /// Time spent spinning.
    pub spin_time: Duration,
    /// Time spent sleeping.
    pub sleep_time: Duration,
}

impl Waiter {
    /// Creates a waiter for `device`, and sets the device to blocking or non-blocking as needed.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::set_blocking`].
    pub fn new(wait: Wait, device: &Device) -> io::Result<Self> {
        let sleep = match wait {
            Wait::Poll => Sleep::InPoll,
            Wait::Block | Wait::Yield | Wait::Spin { .. } => Sleep::InRead(None),
        };
        device.set_blocking(matches!(sleep, Sleep::InRead(_)))?;
        Ok(Self { wait, sleep, packets_since_sleep: 0 })
    }

    /// Makes the waiter sleep in `ppoll` from now on, independent of its strategy: the eventfd of
    /// [`QueueSteering`] cannot interrupt a read.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::set_blocking`].
    pub(crate) fn sleep_in_poll(&mut self, device: &Device) -> io::Result<()> {
        self.sleep = Sleep::InPoll;
        device.set_blocking(false)
    }

    /// Returns the wait strategy.
    #[must_use]
    pub fn wait(&self) -> Wait {
        self.wait
    }

    /// Returns whether the waiter sleeps in the read itself. It sleeps in `ppoll` instead if the
    /// program handles the signal of the read timer, which is detected at the first wait.
    #[must_use]
    pub fn sleeps_in_read(&self) -> bool {
        matches!(self.sleep, Sleep::InRead(_))
    }

    /// Reads the next packet of `device` into `packet`; waits for it from `now` until `until`, or
    /// indefinitely without a deadline. It may return early without a packet.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::receive`] and of `ppoll(2)`.
    pub fn read(
        &mut self,
        device: &Device,
        packet: &mut [u8],
        clock: &Monotonic,
        now: Instant,
        until: Option<Instant>,
    ) -> io::Result<WaitResult> {
        self.read_or_wake(device, packet, clock, (now, until), None)
    }

    /// Reads like [`Self::read`]; a packet handed over through `queue_steering` ends the wait too.
    /// Such a wait uses `ppoll` for the device and the eventfd, and the device must be
    /// non-blocking.
    pub(crate) fn read_or_wake(
        &mut self,
        device: &Device,
        packet: &mut [u8],
        clock: &Monotonic,
        (now, until): (Instant, Option<Instant>),
        queue_steering: Option<&QueueSteering>,
    ) -> io::Result<WaitResult> {
        let is_woken = || queue_steering.is_some_and(QueueSteering::is_signaled);
        let mut waited =
            WaitResult { packet: None, now, spin_time: Duration::ZERO, sleep_time: Duration::ZERO };
        if until.is_some_and(|until| until <= now) || is_woken() {
            waited.packet = self.read_now(device, packet)?;
            return Ok(waited);
        }
        if let Wait::Spin { nanos } = self.wait {
            let end = now + Duration::from_nanos(nanos.into());
            let end = until.map_or(end, |until| until.min(end));
            while waited.packet.is_none() && waited.now < end && !is_woken() {
                waited.packet = self.read_now(device, packet)?;
                waited.now = clock.now();
            }
            waited.spin_time = waited.now - now;
            let is_late = until.is_some_and(|until| until <= waited.now);
            if waited.packet.is_some() || is_late || is_woken() {
                return Ok(waited);
            }
        }
        let wait_start = waited.now;
        if self.wait == Wait::Yield {
            std::thread::yield_now();
        }
        waited.packet = self.sleep(device, packet, clock, (wait_start, until), queue_steering)?;
        waited.now = clock.now();
        waited.sleep_time = waited.now - wait_start;
        Ok(waited)
    }

    /// Reads the next packet of `device` into `packet` if one is waiting.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::receive_now`].
    pub fn read_now(&mut self, device: &Device, packet: &mut [u8]) -> io::Result<Option<Received>> {
        let is_blocking = matches!(self.sleep, Sleep::InRead(_)) && !self.is_stream(device);
        let received =
            if is_blocking { device.receive_now(packet) } else { device.receive(packet) };
        if is_blocking && matches!(received, Ok(Some(_))) {
            self.packets_since_sleep += 1;
            if self.is_stream(device) {
                device.set_blocking(false)?;
            }
        }
        received
    }

    /// Returns whether a read of `device` returns at once even if no packet is waiting.
    pub(crate) fn reads_at_once(&self, device: &Device) -> bool {
        !self.sleeps_in_read() || self.is_stream(device)
    }

    /// Returns whether the device is non-blocking now because packets stream in.
    fn is_stream(&self, device: &Device) -> bool {
        self.packets_since_sleep >= STREAM_PACKETS && matches!(device, Device::Tun(_))
    }

    fn sleep(
        &mut self,
        device: &Device,
        packet: &mut [u8],
        clock: &Monotonic,
        (now, until): (Instant, Option<Instant>),
        queue_steering: Option<&QueueSteering>,
    ) -> io::Result<Option<Received>> {
        if self.is_stream(device) {
            device.set_blocking(matches!(self.sleep, Sleep::InRead(_)))?;
        }
        self.packets_since_sleep = 0;
        if let Some(queue_steering) = queue_steering {
            let wanted = PollFlags::IN;
            let mut descriptors =
                [PollFd::new(device, wanted), PollFd::new(queue_steering, wanted)];
            readiness::wait(&mut descriptors, clock, until)?;
            let [of_device, _] = descriptors;
            // This check costs less than a read that returns no packet.
            return if of_device.revents().is_empty() { Ok(None) } else { device.receive(packet) };
        }
        if let Some(read_timer) = self.read_timer(device)? {
            read_timer.expire_by(until, now, clock)?;
            return device.receive(packet);
        }
        readiness::wait(&mut [PollFd::new(device, PollFlags::IN)], clock, until)?;
        device.receive(packet)
    }

    /// Returns the read timer of the calling thread, or `None` if the waiter must sleep in `ppoll`.
    fn read_timer(&mut self, device: &Device) -> io::Result<Option<&mut ReadTimer>> {
        let Sleep::InRead(read_timer) = &mut self.sleep else { return Ok(None) };
        if read_timer.as_ref().is_none_or(|read_timer| !read_timer.belongs_to_this_thread()) {
            let Ok(new) = ReadTimer::for_this_thread() else {
                self.sleep = Sleep::InPoll;
                device.set_blocking(false)?;
                return Ok(None);
            };
            *read_timer = Some(new);
        }
        match &mut self.sleep {
            Sleep::InRead(read_timer) => Ok(read_timer.as_mut()),
            Sleep::InPoll => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::testing::in_new_network;
    use crate::tun::Tun;
    use std::net::{Ipv4Addr, UdpSocket};

    const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
    const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);

    /// Returns a TUN that delivers no packet until the socket is written to.
    fn quiet_tun() -> (Device, UdpSocket) {
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(KERNEL, 24).unwrap();
        interface.bring_up().unwrap();
        let socket = UdpSocket::bind((KERNEL, 0)).unwrap();
        socket.connect((USERSPACE, 7)).unwrap();
        (Device::Tun(tun), socket)
    }

    fn wait_for_a_packet_that_is_there(wait: Wait) -> WaitResult {
        let (device, socket) = quiet_tun();
        let mut waiter = Waiter::new(wait, &device).unwrap();
        let clock = Monotonic::start();
        let mut packet = [0; 2048];
        loop {
            socket.send(b"x").unwrap();
            let until = clock.now() + Duration::from_secs(10);
            let now = clock.now();
            let waited = waiter.read(&device, &mut packet, &clock, now, Some(until)).unwrap();
            if waited.packet.is_some_and(|received| received.length == 29) {
                return waited;
            }
        }
    }

    fn wait_for_a_deadline(wait: Wait) -> WaitResult {
        let (device, _socket) = quiet_tun();
        let mut waiter = Waiter::new(wait, &device).unwrap();
        let clock = Monotonic::start();
        let mut packet = [0; 2048];
        let until = clock.now() + Duration::from_millis(2);
        let mut spin_time = Duration::ZERO;
        let mut sleep_time = Duration::ZERO;
        loop {
            let now = clock.now();
            let waited = waiter.read(&device, &mut packet, &clock, now, Some(until)).unwrap();
            spin_time += waited.spin_time;
            sleep_time += waited.sleep_time;
            if waited.now >= until {
                return WaitResult { spin_time, sleep_time, ..waited };
            }
        }
    }

    #[test]
    fn an_available_packet_is_read_with_any_wait_strategy() {
        in_new_network(|| _ = wait_for_a_packet_that_is_there(Wait::Block));
        in_new_network(|| _ = wait_for_a_packet_that_is_there(Wait::Yield));
        in_new_network(|| _ = wait_for_a_packet_that_is_there(Wait::Poll));
        in_new_network(|| _ = wait_for_a_packet_that_is_there(Wait::Spin { nanos: u32::MAX }));
    }

    #[test]
    fn a_wait_without_a_packet_ends_after_its_deadline() {
        in_new_network(|| _ = wait_for_a_deadline(Wait::Block));
        in_new_network(|| _ = wait_for_a_deadline(Wait::Yield));
        in_new_network(|| _ = wait_for_a_deadline(Wait::Poll));
        in_new_network(|| _ = wait_for_a_deadline(Wait::Spin { nanos: 500_000 }));
    }

    #[test]
    fn a_wait_that_spins_to_its_deadline_has_not_slept() {
        in_new_network(|| {
            let waited = wait_for_a_deadline(Wait::Spin { nanos: u32::MAX });
            assert_eq!(waited.sleep_time, Duration::ZERO);
            assert_ne!(waited.spin_time, Duration::ZERO);
        });
    }

    #[test]
    fn a_deadline_in_the_past_polls_without_waiting() {
        in_new_network(|| {
            let (device, _socket) = quiet_tun();
            let mut waiter = Waiter::new(Wait::Block, &device).unwrap();
            let clock = Monotonic::start();
            let mut packet = [0; 2048];
            while waiter.read_now(&device, &mut packet).unwrap().is_some() {}
            let now = clock.now();
            let waited = waiter.read(&device, &mut packet, &clock, now, Some(now)).unwrap();
            assert_eq!((waited.now, waited.sleep_time), (now, Duration::ZERO));
        });
    }

    #[test]
    fn a_wait_after_a_stream_sleeps_in_the_read_again() {
        in_new_network(|| {
            let (device, socket) = quiet_tun();
            let mut waiter = Waiter::new(Wait::Block, &device).unwrap();
            let clock = Monotonic::start();
            let mut packet = [0; 2048];
            (0..40).for_each(|_| _ = socket.send(b"x").unwrap());
            let mut packets_since_sleep = 0;
            while waiter.read_now(&device, &mut packet).unwrap().is_some() {
                packets_since_sleep += 1;
            }
            assert!(packets_since_sleep >= 40);
            assert!(waiter.is_stream(&device));
            let now = clock.now();
            let until = now + Duration::from_millis(1);
            let waited = waiter.read(&device, &mut packet, &clock, now, Some(until)).unwrap();
            assert!(waited.packet.is_some() || waited.now >= until);
            assert!(!waiter.is_stream(&device) && waiter.sleeps_in_read());
        });
    }

    #[test]
    fn a_waiter_that_moves_to_another_thread_keeps_its_deadlines() {
        in_new_network(|| {
            let (device, _socket) = quiet_tun();
            let mut waiter = Waiter::new(Wait::Block, &device).unwrap();
            let clock = Monotonic::start();
            let mut packet = [0; 2048];
            let until = Some(clock.now() + Duration::from_millis(1));
            waiter.read(&device, &mut packet, &clock, Instant::ZERO, until).unwrap();
            std::thread::spawn(move || {
                let until = clock.now() + Duration::from_millis(1);
                while clock.now() < until {
                    let now = clock.now();
                    waiter.read(&device, &mut packet, &clock, now, Some(until)).unwrap();
                }
                assert!(waiter.sleeps_in_read());
            })
            .join()
            .unwrap();
        });
    }
}
