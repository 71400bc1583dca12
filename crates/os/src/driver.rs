//! The run-to-completion driver: one device and one station, run by the calling thread.
//!
//! # A turn
//!
//! 1. Wait for a packet until the earliest deadline. If possible, the wait is a blocking read.
//! 2. Read more packets, at most [`BATCH`], directly into packets of the station.
//! 3. Run the timers that are due.
//! 4. Run the application.
//! 5. Write all pending output; a single write gathers the parts of a packet without copying them.
//!
//! Only another read shows whether more packets are waiting. After a short packet for which the
//! driver had to wait, another packet is rarely waiting, so the turn continues without that read:
//! an echo takes one read and one write. A packet that was already waiting, or that is long, is
//! probably part of a stream, so reading continues.
//!
//! # Unfinished packets
//!
//! The device may leave checksums and segmentation to the station, and the station may leave them
//! to the device ([`crate::vnet`]). TCP and UDP accept unfinished super-segments, super-datagrams
//! and checksums. The driver finishes the checksum of any other packet.
//!
//! Packets for a device without offloads are copied and written in batches (see [`crate::batch`]).
//! While packets stream in, they are read in batches too.
//!
//! # Accounts
//!
//! The time of waiting, of a read that waits, and of the application is charged to
//! [`Account::Outside`]. The time of other reads, of writes, and of the driver itself is charged to
//! [`Account::Interrupt`].

use crate::batch::{BATCH_LEN, Batch};
use crate::checksum;
use crate::clock::Monotonic;
use crate::device::Device;
use crate::queue_steering::QueueSteering;
use crate::readiness::{self, PollFd, PollFlags};
use crate::vnet::{Checksum, Header, Received, SegmentKind, Segmentation};
use crate::wait_strategy::{Wait, Waiter};
use net::link::Link;
use net::meter::{Account, Counter, Meter};
use net::packet::{ChecksumState, HEADROOM, Packet};
use net::rng::Rng;
use net::station::{Application, Frame, Settings, Station, Step};
use net::time::Duration;
use net::{Cx, Instant};
use rustix::io::Errno;
use std::io;

/// Maximum number of packets read in a turn before replies are written.
pub const BATCH: usize = 64;

/// A station running on a device.
#[derive(Debug)]
pub struct Driver {
    station: Station,
    device: Device,
    waiter: Waiter,
    outbox: Option<Outbox>,
    /// Queues to the neighboring stations, if this station is one of several on one interface.
    queue_steering: Option<QueueSteering>,
    clock: Monotonic,
    rng: Rng,
    meter: Meter,
    /// Empty packet into which the next packet is read.
    next_packet: Option<Packet>,
    /// Empty packets for a batched read; unused between two reads.
    read_ahead: Vec<Packet>,
    /// True if the device had no space when the last packet was written.
    had_no_space: bool,
}

/// Result of one turn of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnResult {
    /// Time at which the wait of the turn ended.
    pub now: Instant,
    /// Time that the turn spent polling the device.
    pub spin_time: Duration,
    /// Time that the turn spent sleeping.
    pub sleep_time: Duration,
    /// Number of packets read from the device.
    pub packets_in: usize,
    /// Number of packets written to the device.
    pub packets_out: usize,
}

impl Driver {
    /// Creates a station with `link` on `device`. The driver waits for packets with the strategy
    /// `wait`.
    ///
    /// The fields of `settings` for offloads and for the checksum routines are replaced by those of
    /// the device and the processor.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Device::set_blocking`].
    pub fn new(
        device: Device,
        link: Link,
        settings: Settings,
        wait: Wait,
        (mut rng, mut meter): (Rng, Meter),
    ) -> io::Result<Self> {
        let waiter = Waiter::new(wait, &device)?;
        let clock = Monotonic::start();
        let has_offloads = device.has_offloads();
        let settings = Settings {
            tso: has_offloads,
            uso: device.has_uso(),
            checksum_offload: has_offloads,
            routines: checksum::routines(),
            ..settings
        };
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        let station = Station::new(link, settings, &mut cx);
        let is_batched = matches!(device, Device::Tun(_)) && !has_offloads;
        let outbox = is_batched.then(|| Outbox::new(Batch::new()));
        let queue_steering = None;
        let next_packet = None;
        let read_ahead = Vec::new();
        let had_no_space = false;
        Ok(Self {
            station,
            device,
            waiter,
            outbox,
            queue_steering,
            clock,
            rng,
            meter,
            next_packet,
            read_ahead,
            had_no_space,
        })
    }

    /// Makes the station one of several on the queues of one interface ([`crate::queue_steering`]).
    /// From now on the driver sleeps in `ppoll`; with [`Wait::Spin`] it still spins first.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for a device of Ethernet frames, otherwise the errors of
    /// [`Device::set_blocking`].
    pub fn join(&mut self, queue_steering: QueueSteering) -> io::Result<()> {
        if self.device.has_frames() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.waiter.sleep_in_poll(&self.device)?;
        self.station.join_multiqueue(queue_steering.number(), queue_steering.count());
        self.queue_steering = Some(queue_steering);
        Ok(())
    }

    /// Returns the queue steering, whose descriptor is readable when another station has handed
    /// over a packet.
    #[must_use]
    pub fn queue_steering(&self) -> Option<&QueueSteering> {
        self.queue_steering.as_ref()
    }

    /// Returns the station and the context for its calls, at the current time.
    pub fn parts(&mut self) -> (&mut Station, Cx<'_>) {
        let now = self.clock.now();
        let cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        (&mut self.station, cx)
    }

    /// Returns the time at which [`Self::turn`] must run even if no packet arrives, to run the
    /// timers of the station.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.station.deadline()
    }

    /// Writes all pending output now, outside of a turn, and returns the number of packets written.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::turn`].
    pub fn flush(&mut self) -> io::Result<usize> {
        let written = self.write(self.clock.now());
        self.meter.enter(Account::Outside);
        written
    }

    /// Returns whether a packet is waiting for space in the device.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.had_no_space
    }

    /// Returns the device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the meter.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Returns the clock that provides the station's time.
    #[must_use]
    pub fn clock(&self) -> &Monotonic {
        &self.clock
    }

    /// Returns the batch through which packets are written, if the driver uses one.
    #[must_use]
    pub fn batch(&self) -> Option<&Batch> {
        self.outbox.as_ref().map(|outbox| &outbox.batch)
    }

    /// Waits for a packet, a timer or the application, at most until `until`, and processes it.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works: EIO or ENETDOWN while its interface is
    /// down. An error that concerns a single packet is counted instead.
    pub fn turn(
        &mut self,
        application: &mut dyn Application,
        until: Option<Instant>,
    ) -> io::Result<TurnResult> {
        let turn = self.run_turn(application, until);
        self.meter.enter(Account::Outside);
        turn
    }

    fn run_turn(
        &mut self,
        application: &mut dyn Application,
        until: Option<Instant>,
    ) -> io::Result<TurnResult> {
        // A timer set by a packet that arrives in this turn runs in the next turn at the earliest.
        let deadline = self.station.deadline();
        let (mut turn, mut may_have_more) = self.wait(application, (deadline, until))?;
        let mut is_stream = false;
        while may_have_more && turn.packets_in < BATCH {
            if is_stream && self.reads_by_ring() {
                may_have_more = self.read_many(&mut turn)?;
                continue;
            }
            let Some(mut packet) = self.empty_packet(turn.now) else { break };
            let read = self.waiter.read_now(&self.device, packet.spare_mut());
            let length = self.accept(packet, read, &mut turn)?;
            may_have_more = length.is_some();
            // Acknowledgments arrive a few at a time, so only long packets indicate a stream.
            let is_long = length.is_some_and(|length| length > SHORT_LEN);
            is_stream = is_long && turn.packets_in >= STREAM_MIN_PACKETS;
        }
        self.forward_misdelivered(turn.now);
        self.run(application, deadline, turn.now);
        turn.packets_out = self.write(turn.now)?;
        Ok(turn)
    }

    /// Returns whether several packets can be read in one system call, through an io_uring.
    fn reads_by_ring(&self) -> bool {
        let has_ring = self.outbox.as_ref().is_some_and(|outbox| outbox.batch.has_ring());
        has_ring && self.waiter.reads_at_once(&self.device)
    }

    /// Reads several packets in one system call from a device without offloads. Returns whether
    /// more packets may be waiting.
    fn read_many(&mut self, turn: &mut TurnResult) -> io::Result<bool> {
        let mut packets = core::mem::take(&mut self.read_ahead);
        packets.extend(self.next_packet.take());
        while packets.len() < READ_AHEAD_PACKETS {
            let Some(packet) = self.empty_packet(turn.now) else { break };
            packets.push(packet);
        }
        let requested_count = packets.len();
        let mut lengths = [0; READ_AHEAD_PACKETS];
        let read = match (&self.device, &mut self.outbox) {
            (Device::Tun(tun), Some(outbox)) => {
                let buffers = packets.iter_mut().map(Packet::spare_mut);
                outbox.batch.read(tun, buffers).map(|read| {
                    read.zip(&mut lengths).map(|(length, place)| *place = length).count()
                })
            }
            _ => Ok(0),
        };
        let count = *read.as_ref().unwrap_or(&0);
        for (packet, length) in packets.drain(..count).zip(lengths) {
            let received = Received { header: Header::default(), start: 0, length };
            self.accept(packet, Ok(Some(received)), turn)?;
        }
        packets.drain(..).for_each(|packet| self.station.take_back(packet));
        self.read_ahead = packets;
        Ok(read? == requested_count && requested_count > 0)
    }

    /// Takes the packets that another station has handed over, and hands the packets of other
    /// stations to the next station.
    fn forward_misdelivered(&mut self, now: Instant) {
        let Some(queue_steering) = &self.queue_steering else { return };
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        for packet in queue_steering.take() {
            self.station.receive_misdelivered(packet, &mut cx);
        }
        let dropped =
            queue_steering.hand_over(core::iter::from_fn(|| self.station.take_misdelivered()));
        self.meter.add(Counter::MisdeliveredDropped, dropped as u64);
    }

    /// Waits for a packet until the earliest deadline, and passes the packet to the
    /// station. Returns whether another packet may be waiting.
    fn wait(
        &mut self,
        application: &dyn Application,
        (deadline, wait_until): (Option<Instant>, Option<Instant>),
    ) -> io::Result<(TurnResult, bool)> {
        let now = self.clock.now();
        let has_output = self.station.has_output() && !self.had_no_space;
        let deadlines = [deadline, application.deadline(), wait_until];
        let is_ready = self.station.has_events() || self.station.has_input() || has_output;
        let wait_until = if application.wants_to_run() || is_ready {
            Some(now)
        } else {
            deadlines.into_iter().flatten().min()
        };
        let mut turn = TurnResult {
            now,
            spin_time: Duration::ZERO,
            sleep_time: Duration::ZERO,
            packets_in: 0,
            packets_out: 0,
        };
        let packet = if self.had_no_space { None } else { self.empty_packet(now) };
        let Some(mut packet) = packet else {
            self.wait_for_room(wait_until, &mut turn)?;
            return Ok((turn, true));
        };
        let device = &self.device;
        let clock = &self.clock;
        let queue_steering = self.queue_steering.as_ref();
        let buffer = packet.spare_mut();
        let times = (now, wait_until);
        let wait_result = self.waiter.read_or_wake(device, buffer, clock, times, queue_steering);
        self.meter.enter(Account::Interrupt);
        let read = match wait_result {
            Ok(wait_result) => {
                turn.now = wait_result.now;
                turn.spin_time = wait_result.spin_time;
                turn.sleep_time = wait_result.sleep_time;
                Ok(wait_result.packet)
            }
            Err(error) => {
                turn.now = self.clock.now();
                Err(error)
            }
        };
        let was_ready = turn.spin_time + turn.sleep_time < READY_MAX_WAIT;
        let length = self.accept(packet, read, &mut turn)?;
        Ok((turn, length.is_some_and(|length| was_ready || length > SHORT_LEN)))
    }

    /// Waits until the device accepts packets again. If the device is ready but the application has
    /// borrowed all packets, waits for [`RETRY_INTERVAL`], in which the application may return
    /// some.
    fn wait_for_room(&mut self, until: Option<Instant>, turn: &mut TurnResult) -> io::Result<()> {
        let (flags, until) = if self.had_no_space {
            (PollFlags::OUT, until)
        } else {
            let retry_at = turn.now + RETRY_INTERVAL;
            (PollFlags::empty(), Some(until.map_or(retry_at, |until| until.min(retry_at))))
        };
        let mut descriptors = [PollFd::new(&self.device, flags)];
        let wait_start = turn.now;
        let wait_result = readiness::wait(&mut descriptors, &self.clock, until);
        self.meter.enter(Account::Interrupt);
        turn.now = self.clock.now();
        turn.sleep_time = turn.now - wait_start;
        self.had_no_space = false;
        wait_result.map(|_| ())
    }

    /// Returns a packet to read into, or `None` if the station has lent all its packets.
    fn empty_packet(&mut self, now: Instant) -> Option<Packet> {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.next_packet.take().or_else(|| self.station.lend(&mut cx))
    }

    /// Passes the contents read into `packet` to the station. Returns the length, or `None` if no
    /// packet was read.
    fn accept(
        &mut self,
        mut packet: Packet,
        read: io::Result<Option<Received>>,
        turn: &mut TurnResult,
    ) -> io::Result<Option<usize>> {
        let Received { header, start, length } = match read {
            Ok(Some(received)) => received,
            Ok(None) => {
                self.next_packet = Some(packet);
                return Ok(None);
            }
            Err(error) => {
                self.next_packet = Some(packet);
                if error.kind() != io::ErrorKind::InvalidData {
                    return Err(error);
                }
                self.meter.count(Counter::LinkHeadersUnknown);
                turn.packets_in += 1;
                return Ok(Some(0));
            }
        };
        turn.packets_in += 1;
        packet.extend_from_spare(start + length);
        packet.pull(start);
        describe(&mut packet, &header, start);
        let mut cx = Cx { now: turn.now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive_packet(packet, &mut cx);
        Ok(Some(length))
    }

    /// Processes the packets that the station sent to itself, runs timers if the station's
    /// `deadline` is due, and runs the application if it has something to do.
    fn run(&mut self, application: &mut dyn Application, deadline: Option<Instant>, now: Instant) {
        let is_due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let mut network_steps = 0;
        while network_steps < BATCH && self.station.has_input() {
            self.station.step(Step::Network, application, &mut cx);
            network_steps += 1;
        }
        if is_due(deadline) {
            self.station.step(Step::Timer, application, &mut cx);
        }
        let wants_to_run = application.wants_to_run() || is_due(application.deadline());
        if wants_to_run || self.station.has_events() {
            let previous_account = cx.meter.enter(Account::Outside);
            self.station.step(Step::User, application, &mut cx);
            cx.meter.enter(previous_account);
        }
    }

    /// Writes all pending output, and returns the number of packets written.
    fn write(&mut self, now: Instant) -> io::Result<usize> {
        if !self.station.has_output() && !self.has_waiting() {
            return Ok(0);
        }
        let mut packets = 0;
        let mut failure = None;
        let mut had_no_space = false;
        let Self { station, device, outbox, .. } = self;
        let mut write = |frame: Frame<'_>, cx: &mut Cx<'_>| {
            let written = match outbox {
                Some(outbox) => outbox.take(device, &frame),
                None => write_frame(device, &frame),
            };
            match written {
                Ok(true) => packets += 1,
                Ok(false) => had_no_space = true,
                Err(error) if is_device_error(&error) => failure = Some(error),
                Err(_) => cx.meter.count(Counter::LinkPacketsDropped),
            }
            !had_no_space
        };
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        station.transmit_to(&mut write, &mut cx);
        self.had_no_space = had_no_space;
        if let Some(error) = failure {
            return Err(error);
        }
        if let Some(outbox) = outbox {
            outbox.flush(device)?;
            self.meter.add(Counter::LinkPacketsDropped, core::mem::take(&mut outbox.dropped));
        }
        Ok(packets)
    }

    /// Returns whether a packet is waiting for space in the device.
    fn has_waiting(&self) -> bool {
        matches!(self.station.link(), Link::Datagram(_) | Link::Ethernet(_))
            && self.station.link().has_output()
    }
}

/// Records in `packet` the checksum and segmentation that the device has left unfinished. The
/// packet was read `packet_start` bytes after [`HEADROOM`]. If the protocol is neither TCP nor UDP,
/// finishes the checksum.
pub fn describe(packet: &mut Packet, header: &Header, packet_start: usize) {
    packet.offload.segment_size = header.segmentation.map_or(0, |cut| cut.segment_size_bytes);
    packet.offload.checksum = match header.checksum {
        Checksum::None => ChecksumState::InPacket,
        Checksum::Valid => ChecksumState::Verified,
        Checksum::Partial { start, offset: offset @ (TCP_CHECKSUM | UDP_CHECKSUM) } => {
            let start = HEADROOM + packet_start + usize::from(start);
            ChecksumState::Partial { start, field: offset.into() }
        }
        Checksum::Partial { start, offset } => {
            finish_checksum(packet.data_mut(), start.into(), offset.into());
            ChecksumState::Verified
        }
    };
}

/// Writes the checksum of the bytes from `start` on into its field, which contains the sum of the
/// pseudo-header.
fn finish_checksum(packet: &mut [u8], start: usize, offset: usize) {
    let Some(transport) = packet.get_mut(start..) else { return };
    let sum = !(checksum::routines().sum)(transport);
    // RFC 768: a checksum of zero is sent as all ones.
    let sum = if sum == 0 { u16::MAX } else { sum };
    if let Some(field) = transport.get_mut(offset..offset.saturating_add(2)) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// Writes one packet without copying it. Returns `false` if the device has no space for it.
///
/// # Errors
///
/// Returns the errors of [`Device::write_vectored`].
pub fn write_frame(device: &Device, frame: &Frame<'_>) -> io::Result<bool> {
    let [front, back] = frame.tail;
    let header = unfinished(frame, device.has_frames());
    Ok(device.write_vectored(&header, [frame.packet.data(), front, back])?.is_some())
}

/// Describes the checksum and segmentation left for the device.
fn unfinished(frame: &Frame<'_>, has_frames: bool) -> Header {
    let packet = frame.packet;
    let Some((start, field)) = packet.offloaded_checksum() else { return Header::default() };
    let (Ok(start_u16), Ok(offset)) = (u16::try_from(start), u16::try_from(field)) else {
        return Header::default();
    };
    let checksum = Checksum::Partial { start: start_u16, offset };
    let segment_size_bytes = packet.offload.segment_size;
    if segment_size_bytes == 0 {
        return Header { checksum, segmentation: None };
    }
    let ip_start = if has_frames { ETHERNET_HEADER_LEN } else { 0 };
    let byte_at = |place: usize| packet.data().get(place).copied().unwrap_or(0);
    let (kind, transport_len) = match (offset, byte_at(ip_start) >> 4) {
        (TCP_CHECKSUM, 6) => (SegmentKind::Tcp6, usize::from(byte_at(start + 12) >> 4) * 4),
        (TCP_CHECKSUM, _) => (SegmentKind::Tcp4, usize::from(byte_at(start + 12) >> 4) * 4),
        _ => (SegmentKind::Udp, UDP_HEADER_LEN),
    };
    let header_len_bytes = u16::try_from(start + transport_len).unwrap_or(u16::MAX);
    let segmentation = Segmentation { kind, segment_size_bytes, header_len_bytes, has_ecn: false };
    Header { checksum, segmentation: Some(segmentation) }
}

/// Returns whether the error concerns the device itself and not just one packet.
#[must_use]
pub fn is_device_error(error: &io::Error) -> bool {
    let device_errors =
        [Errno::IO, Errno::NETDOWN, Errno::BADFD, Errno::BADF, Errno::NODEV, Errno::NXIO];
    Errno::from_io_error(error).is_some_and(|error| device_errors.contains(&error))
}

/// Packets that are written in one batch: their bytes, copied one after another.
#[derive(Debug)]
struct Outbox {
    batch: Batch,
    bytes: Vec<u8>,
    /// End offset of each packet in `bytes`.
    ends: Vec<usize>,
    /// Number of packets that the device refused.
    dropped: u64,
}

impl Outbox {
    fn new(batch: Batch) -> Self {
        Self { batch, bytes: Vec::new(), ends: Vec::with_capacity(BATCH_LEN), dropped: 0 }
    }

    fn take(&mut self, device: &Device, frame: &Frame<'_>) -> io::Result<bool> {
        if self.ends.len() >= BATCH_LEN {
            self.flush(device)?;
        }
        for part in [frame.packet.data(), frame.tail[0], frame.tail[1]] {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len());
        Ok(true)
    }

    fn flush(&mut self, device: &Device) -> io::Result<()> {
        let Device::Tun(tun) = device else { return Ok(()) };
        let mut packets = [[&[][..]; 3]; BATCH_LEN];
        let mut rest = &self.bytes[..];
        let mut start = 0;
        for (packet, end) in packets.iter_mut().zip(&self.ends) {
            let (first, others) = rest.split_at_checked(end - start).unwrap_or_default();
            packet[0] = first;
            rest = others;
            start = *end;
        }
        let packets = packets.get(..self.ends.len()).unwrap_or_default();
        let written = self.batch.write(tun, packets);
        let written_count = written.as_ref().copied().unwrap_or(0);
        self.dropped += u64::try_from(packets.len().saturating_sub(written_count)).unwrap_or(0);
        self.bytes.clear();
        self.ends.clear();
        if let Some(failure) = self.batch.take_failure().map(io::Error::from)
            && is_device_error(&failure)
        {
            return Err(failure);
        }
        written.map(|_| ())
    }
}

/// Minimum number of packets in a turn before [`READ_AHEAD_PACKETS`] packets are read at once from
/// a device without offloads. After fewer packets, a further read often finds no packet, which
/// costs a tenth of the time of a packet.
const STREAM_MIN_PACKETS: usize = 8;
const READ_AHEAD_PACKETS: usize = 16;
/// A packet that arrives within this time counts as already waiting.
const READY_MAX_WAIT: Duration = Duration::from_nanos(3_000);
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum length in bytes of a short packet; a longer packet counts as part of a stream.
const SHORT_LEN: usize = 512;
const ETHERNET_HEADER_LEN: usize = 14;
const UDP_HEADER_LEN: usize = 8;
/// Offset in bytes of the checksum in the TCP header (RFC 9293 §3.1).
const TCP_CHECKSUM: u16 = 16;
/// Offset in bytes of the checksum in the UDP header (RFC 768).
const UDP_CHECKSUM: u16 = 6;

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
