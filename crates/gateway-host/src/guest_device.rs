//! The device of a guest: a TUN or TAP, a virtual machine at a Unix socket, or a serial line.

use crate::poll::{Poll, Source};
use crate::qemu_framing::{self, FrameReader};
use crate::spare_descriptor::SpareDescriptor;
use gateway::Guest;
use net::meter::Counter;
use net::packet::Packet;
use net::station::Frame;
use net::time::Duration;
use net::{Cx, Instant};
use os::device::Device;
use os::driver::{describe, is_device_error, write_frame};
use os::serial::Serial;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

/// Maximum number of packets read from a device in a turn.
const BATCH: usize = 64;
/// Number of bytes after which reading a device stops in a turn: the window of a connection in
/// super-segments. The data is then in the caches of the processor when the sockets take it, and the
/// attempt to read another packet is omitted.
const BATCH_BYTES: usize = 4 * 65_000;
/// A packet of at most this length, for which the loop had to wait, is probably not followed by
/// another one, so that the attempt to read one is omitted.
const SHORT_LEN: usize = 512;
/// Time that the bytes in the kernel's output queue of a line take. A longer queue would delay
/// every flow; a shorter one could leave the line idle.
const LINE_QUEUE_TIME: Duration = Duration::from_millis(20);
/// The queue is filled again when its bytes take no more than this time, so that a write has many
/// bytes.
const LINE_REFILL_TIME: Duration = Duration::from_millis(10);
/// Bits of a byte on a serial line: start bit, eight bits and stop bit.
const BITS_PER_BYTE: u64 = 10;
/// Bits of a byte of a datagram.
const BITS_PER_OCTET: u64 = 8;
const NANOS_PER_S: u64 = 1_000_000_000;
/// Events of the socket of a virtual machine, edge-triggered.
const STREAM_EVENTS: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
/// Size of the buffer for a read from a line, in bytes.
const LINE_BUFFER_LEN: usize = 4096;

/// The device of a guest.
#[derive(Debug)]
pub enum GuestDevice {
    /// A TUN or a TAP.
    Packets(Device),
    /// A virtual machine that connects to a Unix socket.
    Machine(Machine),
    /// A serial line.
    Line(Line),
}

/// A Unix socket to which a virtual machine connects, one at a time. Its network device uses the
/// framing of [`qemu_framing`].
#[derive(Debug)]
pub struct Machine {
    /// `None` if the only connection was passed to the gateway.
    listener: Option<UnixListener>,
    spare: SpareDescriptor,
    /// Whether the device ends with its first connection.
    is_one_off: bool,
    stream: Option<UnixStream>,
    reader: FrameReader,
    /// The rest of a frame that the socket has accepted only in part.
    unsent: Vec<u8>,
}

/// A serial line, which is given no more bytes than it transmits.
#[derive(Debug)]
pub struct Line {
    serial: Serial,
    /// Time at which the line will have transmitted all bytes that it was given.
    busy_until: Instant,
    wire: Vec<u8>,
}

impl Machine {
    /// Waits for a virtual machine at `listener`.
    ///
    /// # Errors
    ///
    /// Returns the error of making the socket non-blocking.
    pub fn new(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self::with(Some(listener), None, false))
    }

    /// Waits for one virtual machine at `listener`. The device is lost when it disconnects, with
    /// [`io::ErrorKind::UnexpectedEof`].
    ///
    /// # Errors
    ///
    /// Returns the error of making the socket non-blocking.
    pub fn one_off(listener: UnixListener) -> io::Result<Self> {
        Ok(Self { is_one_off: true, ..Self::new(listener)? })
    }

    /// Uses the connection of a virtual machine, like [`Self::one_off`].
    ///
    /// # Errors
    ///
    /// Returns the error of making the socket non-blocking.
    pub fn connected(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::with(None, Some(stream), true))
    }

    fn with(listener: Option<UnixListener>, stream: Option<UnixStream>, is_one_off: bool) -> Self {
        Self {
            listener,
            spare: SpareDescriptor::reserve(),
            is_one_off,
            stream,
            reader: FrameReader::new(),
            unsent: Vec::new(),
        }
    }

    fn register(&self, source: Source, poll: &Poll) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            poll.add(listener, source, EventFlags::IN)?;
        }
        self.stream.as_ref().map_or(Ok(()), |stream| poll.add(stream, source, STREAM_EVENTS))
    }
}

impl Line {
    /// Uses an open line.
    #[must_use]
    pub fn new(serial: Serial) -> Self {
        Self { serial, busy_until: Instant::ZERO, wire: Vec::new() }
    }
}

/// The state of reading from a device.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    /// Empty packet into which the next packet is read.
    next_packet: Option<Packet>,
    /// Whether input may wait for which there will be no further event.
    pub(crate) has_more: bool,
}

impl GuestDevice {
    /// Registers the device of guest `number`.
    pub(crate) fn register(&self, number: usize, poll: &Poll) -> io::Result<()> {
        let source = Source::Device(number);
        match self {
            Self::Packets(device) => {
                device.set_blocking(false)?;
                poll.add(device, source, EventFlags::IN)
            }
            Self::Machine(machine) => machine.register(source, poll),
            Self::Line(line) => poll.add(&line.serial, source, EventFlags::IN),
        }
    }

    /// Reports also when the device accepts output again (`true`), or only its input.
    ///
    /// # Errors
    ///
    /// Returns the error of `epoll_ctl(2)`.
    pub(crate) fn watch_output(
        &self,
        is_watched: bool,
        number: usize,
        poll: &Poll,
    ) -> io::Result<()> {
        let output = if is_watched { EventFlags::OUT } else { EventFlags::empty() };
        let source = Source::Device(number);
        let events = EventFlags::IN | output;
        match self {
            // The stream is edge-triggered and reports its output already.
            Self::Machine(_) => Ok(()),
            Self::Packets(device) => poll.modify(device, source, events),
            Self::Line(line) => poll.modify(&line.serial, source, events),
        }
    }

    /// Returns the rate of a line for datagrams, in bits per second.
    pub(crate) fn line_rate(&self) -> Option<u64> {
        match self {
            Self::Line(line) => {
                Some(u64::from(line.serial.bits_per_second()) * BITS_PER_OCTET / BITS_PER_BYTE)
            }
            Self::Packets(_) | Self::Machine(_) => None,
        }
    }

    /// Returns when a line can be given output that it could not take before.
    pub(crate) fn deadline(&self, guest: &Guest) -> Option<Instant> {
        match self {
            Self::Line(line) if guest.has_output() => Some(line.writable_at()),
            Self::Packets(_) | Self::Machine(_) | Self::Line(_) => None,
        }
    }

    /// Reads from the device. `waited` tells whether the loop had to wait for the current events.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works.
    pub(crate) fn read(
        &mut self,
        guest: &mut Guest,
        state: &mut ReadState,
        (number, waited, poll): (usize, bool, &Poll),
        cx: &mut Cx<'_>,
    ) -> io::Result<()> {
        state.has_more = false;
        match self {
            Self::Packets(device) => read_packets(device, guest, state, waited, cx),
            Self::Machine(machine) => {
                let was_connected = machine.stream.is_some();
                // The end of the last machine makes room for the next one.
                state.has_more = machine.read(guest, cx);
                let has_ended = was_connected && machine.stream.is_none();
                if has_ended && machine.is_one_off {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if machine.accept(guest, number, poll, cx) {
                    state.has_more = machine.read(guest, cx);
                }
                Ok(())
            }
            Self::Line(line) => line.read(&mut |bytes, cx| guest.receive_bytes(bytes, cx), cx),
        }
    }

    /// Writes the output of the guest. Returns whether the device is full.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works.
    pub(crate) fn write(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> io::Result<bool> {
        match self {
            Self::Packets(device) => {
                let mut writer = PacketWriter::new(device);
                guest.transmit_to(&mut |frame, cx| writer.write(&frame, cx), cx);
                writer.finish()
            }
            Self::Machine(machine) => Ok(machine.write(guest, cx)),
            Self::Line(line) => {
                let is_full =
                    line.write(&mut |wire, limit, cx| guest.transmit_into(wire, limit, cx), cx)?;
                if !is_full && guest.has_output() {
                    line.postpone(cx.now);
                }
                Ok(is_full)
            }
        }
    }

    /// Writes one packet to a device of packets. Returns its length, if there was one and the device
    /// has accepted it, and whether the device is full.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works.
    pub(crate) fn write_one(
        &mut self,
        guest: &mut Guest,
        cx: &mut Cx<'_>,
    ) -> io::Result<(Option<usize>, bool)> {
        match self {
            Self::Packets(device) => {
                let mut writer = PacketWriter::new(device);
                let sent = guest.transmit_one(&mut |frame, cx| writer.write(&frame, cx), cx);
                Ok((sent, writer.finish()?))
            }
            Self::Machine(machine) => Ok(machine.write_one(guest, cx)),
            Self::Line(_) => Ok((None, false)),
        }
    }
}

/// Writes packets to a device until it is full or fails.
struct PacketWriter<'a> {
    device: &'a Device,
    is_full: bool,
    failure: Option<io::Error>,
}

impl<'a> PacketWriter<'a> {
    fn new(device: &'a Device) -> Self {
        Self { device, is_full: false, failure: None }
    }

    /// Writes a packet. Returns false if the device has no space for it.
    fn write(&mut self, frame: &Frame<'_>, cx: &mut Cx<'_>) -> bool {
        match write_frame(self.device, frame) {
            Ok(is_accepted) => {
                self.is_full = !is_accepted;
                return is_accepted;
            }
            // The guest has set its interface down; it may set it up again.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => {}
            Err(error) if is_device_error(&error) => self.failure = Some(error),
            Err(_) => {}
        }
        cx.meter.count(Counter::LinkPacketsDropped);
        true
    }

    fn finish(self) -> io::Result<bool> {
        self.failure.map_or(Ok(self.is_full), Err)
    }
}

fn read_packets(
    device: &Device,
    guest: &mut Guest,
    state: &mut ReadState,
    waited: bool,
    cx: &mut Cx<'_>,
) -> io::Result<()> {
    let mut bytes = 0;
    for number in 0..BATCH {
        if bytes >= BATCH_BYTES {
            // The event is not edge-triggered.
            return Ok(());
        }
        let packet = state.next_packet.take().or_else(|| guest.lend(cx));
        let Some(mut packet) = packet else { return Ok(()) };
        match device.receive(packet.spare_mut()) {
            Ok(Some(received)) => {
                bytes += received.length;
                packet.extend_from_spare(received.start + received.length);
                packet.pull(received.start);
                describe(&mut packet, &received.header, received.start);
                guest.receive_packet(packet, cx);
                if waited && number == 0 && received.length <= SHORT_LEN {
                    return Ok(());
                }
            }
            Ok(None) => {
                state.next_packet = Some(packet);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                cx.meter.count(Counter::LinkHeadersUnknown);
                state.next_packet = Some(packet);
            }
            Err(error) => {
                state.next_packet = Some(packet);
                return Err(error);
            }
        }
    }
    Ok(())
}

impl Machine {
    /// Accepts a virtual machine, and returns whether there is a new one. While one is connected,
    /// others are refused.
    fn accept(&mut self, guest: &mut Guest, number: usize, poll: &Poll, cx: &mut Cx<'_>) -> bool {
        let Some(listener) = &self.listener else { return false };
        let Some((stream, _)) = self.spare.accept(|| listener.accept()) else { return false };
        if self.stream.is_some()
            || stream.set_nonblocking(true).is_err()
            || poll.add(&stream, Source::Device(number), STREAM_EVENTS).is_err()
        {
            return false;
        }
        self.stream = Some(stream);
        self.reader = FrameReader::new();
        self.unsent.clear();
        if let Some(segment) = guest.segment_mut() {
            segment.reset(cx);
        }
        true
    }

    /// Reads frames. Returns whether more may wait.
    fn read(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> bool {
        let was_connected = self.stream.is_some();
        let has_more = self.read_frames(guest, cx);
        if was_connected && self.stream.is_none() {
            guest.end_flows(cx);
        }
        has_more
    }

    fn read_frames(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> bool {
        for _ in 0..BATCH {
            let Some(stream) = &self.stream else { return false };
            let space = self.reader.space();
            match rustix::net::recv(stream, &mut *space, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    self.stream = None;
                    return false;
                }
                Ok((_, len)) => self.reader.filled(len),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => {
                    self.stream = None;
                    return false;
                }
            }
            loop {
                match self.reader.next_frame() {
                    Ok(Some(frame)) => {
                        let Some(mut packet) = guest.lend(cx) else { continue };
                        packet.extend(frame);
                        guest.receive_packet(packet, cx);
                    }
                    Ok(None) => break,
                    Err(_) => {
                        self.stream = None;
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Writes the output of the guest. Returns whether the socket is full.
    fn write(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> bool {
        let Self { stream, unsent, .. } = self;
        let Some(stream) = stream else {
            // Without a machine, the output is lost, as on a cable without a host.
            guest.transmit_to(&mut |_, _| true, cx);
            return false;
        };
        if flush(stream, unsent) {
            guest.transmit_to(&mut |frame, _| write_to_stream(&frame, stream, unsent), cx);
        }
        !unsent.is_empty()
    }

    /// Writes one packet, as [`GuestDevice::write_one`] does.
    fn write_one(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> (Option<usize>, bool) {
        let Self { stream, unsent, .. } = self;
        let Some(stream) = stream else {
            return (guest.transmit_one(&mut |_, _| true, cx), false);
        };
        if !flush(stream, unsent) {
            return (None, true);
        }
        let sent = guest.transmit_one(&mut |frame, _| write_to_stream(&frame, stream, unsent), cx);
        (sent, !unsent.is_empty())
    }
}

/// Sends a frame, or as much of it as the socket accepts; the rest is in `unsent`. Returns false if
/// there was a rest before.
fn write_to_stream(frame: &Frame<'_>, stream: &UnixStream, unsent: &mut Vec<u8>) -> bool {
    if !unsent.is_empty() {
        return false;
    }
    let len = frame.packet.len() + frame.tail.iter().map(|part| part.len()).sum::<usize>();
    let Some(header) = qemu_framing::header(len) else { return true };
    unsent.extend_from_slice(&header);
    unsent.extend_from_slice(frame.packet.data());
    frame.tail.iter().for_each(|part| unsent.extend_from_slice(part));
    flush(stream, unsent);
    true
}

/// Sends as much of `unsent` as the socket accepts. Returns whether nothing is left.
fn flush(stream: &UnixStream, unsent: &mut Vec<u8>) -> bool {
    while !unsent.is_empty() {
        match rustix::net::send(stream, unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => drop(unsent.drain(..sent)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            // The next read reports the end of the connection.
            Err(_) => unsent.clear(),
        }
    }
    true
}

/// Takes bytes from the wire of a line.
pub(crate) type WireReader<'a> = &'a mut dyn FnMut(&[u8], &mut Cx<'_>);
/// Appends at most a number of bytes for the wire of a line, and returns their number.
pub(crate) type WireWriter<'a> = &'a mut dyn FnMut(&mut Vec<u8>, usize, &mut Cx<'_>) -> usize;

impl Line {
    /// Returns when the line accepts further bytes.
    pub(crate) fn writable_at(&self) -> Instant {
        let nanos = self.busy_until.as_nanos();
        let refill_time = u64::try_from(LINE_REFILL_TIME.as_nanos()).unwrap_or(0);
        Instant::from_nanos(nanos.saturating_sub(refill_time))
    }

    /// Returns whether bytes wait that the line did not accept.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.wire.is_empty()
    }

    /// Passes the bytes of one read to `receive`.
    ///
    /// # Errors
    ///
    /// Returns the error of a line that no longer works.
    pub(crate) fn read(&self, receive: WireReader<'_>, cx: &mut Cx<'_>) -> io::Result<()> {
        let mut buffer = [0; LINE_BUFFER_LEN];
        match self.serial.read(&mut buffer).map_err(line_error)? {
            Some(0) => Err(hung_up()),
            Some(len) => {
                receive(buffer.get(..len).unwrap_or_default(), cx);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes the bytes that the line transmits in [`LINE_QUEUE_TIME`]. Returns whether the line
    /// accepts no more bytes, because it is slower than its rate or stopped by flow control.
    ///
    /// # Errors
    ///
    /// Returns the error of a line that no longer works.
    pub(crate) fn write(&mut self, transmit: WireWriter<'_>, cx: &mut Cx<'_>) -> io::Result<bool> {
        let bytes_per_s = u64::from(self.serial.bits_per_second()) / BITS_PER_BYTE;
        let byte_time = Duration::from_nanos(NANOS_PER_S / bytes_per_s.max(1));
        if self.busy_until > cx.now + LINE_REFILL_TIME {
            return Ok(false);
        }
        while self.busy_until <= cx.now + LINE_QUEUE_TIME {
            let free_time = cx.now + LINE_QUEUE_TIME - self.busy_until.max(cx.now);
            let limit = free_time.as_nanos() / byte_time.as_nanos().max(1) + 1;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            if self.wire.is_empty() && transmit(&mut self.wire, limit, cx) == 0 {
                return Ok(false);
            }
            let written = self.serial.write(&self.wire).map_err(line_error)?;
            let Some(written) = written else { return Ok(true) };
            self.wire.drain(..written);
            let count = u32::try_from(written).unwrap_or(u32::MAX);
            self.busy_until = self.busy_until.max(cx.now) + byte_time * count;
        }
        Ok(false)
    }

    /// Delays output that could not be taken yet: the link is not open, or no packet is free.
    pub(crate) fn postpone(&mut self, now: Instant) {
        if self.busy_until <= now + LINE_REFILL_TIME {
            self.busy_until = now + LINE_QUEUE_TIME + LINE_QUEUE_TIME;
        }
    }
}

fn hung_up() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the line has hung up")
}

/// Returns the error of a line for the error of a system call. EIO means that it has hung up.
fn line_error(error: io::Error) -> io::Error {
    if Errno::from_io_error(&error) == Some(Errno::IO) { hung_up() } else { error }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.serial.as_fd()
    }
}
