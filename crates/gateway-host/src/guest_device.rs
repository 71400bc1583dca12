//! The device of a guest: a TUN or TAP, a virtual machine at a Unix socket, or a serial line.

use crate::poll::{Poll, Source};
use crate::qemu_framing::{self, FrameReader};
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
/// A packet of at most this length, for which the loop had to wait, is probably not followed by
/// another one, so that the attempt to read one is omitted.
const SHORT_LEN: usize = 512;
/// Time that the bytes in the kernel's output queue of a line take. A longer queue would delay
/// every flow; a shorter one could leave the line idle.
const LINE_QUEUE_TIME: Duration = Duration::from_millis(20);
/// Bits of a byte on a serial line: start bit, eight bits and stop bit.
const BITS_PER_BYTE: u64 = 10;
const NANOS_PER_S: u64 = 1_000_000_000;
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
    listener: UnixListener,
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
        Ok(Self { listener, stream: None, reader: FrameReader::new(), unsent: Vec::new() })
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
            Self::Machine(machine) => poll.add(&machine.listener, source, EventFlags::IN),
            Self::Line(line) => poll.add(&line.serial, source, EventFlags::IN),
        }
    }

    /// Returns when output can be written that the device could not take before.
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
                machine.accept(guest, number, poll, cx);
                state.has_more = machine.read(guest, cx);
                Ok(())
            }
            Self::Line(line) => line.read(&mut |bytes, cx| guest.receive_bytes(bytes, cx), cx),
        }
    }

    /// Writes the output of the guest.
    ///
    /// # Errors
    ///
    /// Returns the error of a device that no longer works.
    pub(crate) fn write(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> io::Result<()> {
        match self {
            Self::Packets(device) => write_packets(device, guest, cx),
            Self::Machine(machine) => {
                machine.write(guest, cx);
                Ok(())
            }
            Self::Line(line) => {
                line.write(&mut |wire, limit, cx| guest.transmit_into(wire, limit, cx), cx)
            }
        }
    }
}

fn read_packets(
    device: &Device,
    guest: &mut Guest,
    state: &mut ReadState,
    waited: bool,
    cx: &mut Cx<'_>,
) -> io::Result<()> {
    for number in 0..BATCH {
        let packet = state.next_packet.take().or_else(|| guest.lend(cx));
        let Some(mut packet) = packet else { return Ok(()) };
        match device.receive_now(packet.spare_mut()) {
            Ok(Some(received)) => {
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

fn write_packets(device: &Device, guest: &mut Guest, cx: &mut Cx<'_>) -> io::Result<()> {
    let mut failure = None;
    let mut write = |frame: Frame<'_>, cx: &mut Cx<'_>| match write_frame(device, &frame) {
        Ok(is_accepted) => is_accepted,
        Err(error) => {
            if is_device_error(&error) {
                failure = Some(error);
            } else {
                cx.meter.count(Counter::LinkPacketsDropped);
            }
            true
        }
    };
    guest.transmit_to(&mut write, cx);
    failure.map_or(Ok(()), Err)
}

impl Machine {
    /// Accepts a virtual machine. While one is connected, others are refused.
    fn accept(&mut self, guest: &mut Guest, number: usize, poll: &Poll, cx: &mut Cx<'_>) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if self.stream.is_some()
            || stream.set_nonblocking(true).is_err()
            || poll.add(&stream, Source::Device(number), flags).is_err()
        {
            return;
        }
        self.stream = Some(stream);
        self.reader = FrameReader::new();
        self.unsent.clear();
        if let Some(segment) = guest.segment_mut() {
            segment.reset(cx);
        }
    }

    /// Reads frames. Returns whether more may wait.
    fn read(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) -> bool {
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

    fn write(&mut self, guest: &mut Guest, cx: &mut Cx<'_>) {
        let Self { stream, unsent, .. } = self;
        let Some(stream) = stream else {
            // Without a machine, the output is lost, as on a cable without a host.
            return guest.transmit_to(&mut |_, _| true, cx);
        };
        if !flush(stream, unsent) {
            return;
        }
        let mut write = |frame: Frame<'_>, _: &mut Cx<'_>| {
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
        };
        guest.transmit_to(&mut write, cx);
    }
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
        let queue_time = u64::try_from(LINE_QUEUE_TIME.as_nanos()).unwrap_or(0);
        Instant::from_nanos(nanos.saturating_sub(queue_time))
    }

    /// Passes the bytes of one read to `receive`.
    ///
    /// # Errors
    ///
    /// Returns the error of a line that no longer works.
    pub(crate) fn read(&self, receive: WireReader<'_>, cx: &mut Cx<'_>) -> io::Result<()> {
        let mut buffer = [0; LINE_BUFFER_LEN];
        match self.serial.read(&mut buffer)? {
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(len) => {
                receive(buffer.get(..len).unwrap_or_default(), cx);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes the bytes that the line transmits in [`LINE_QUEUE_TIME`].
    ///
    /// # Errors
    ///
    /// Returns the error of a line that no longer works.
    pub(crate) fn write(&mut self, transmit: WireWriter<'_>, cx: &mut Cx<'_>) -> io::Result<()> {
        let bytes_per_s = u64::from(self.serial.bits_per_second()) / BITS_PER_BYTE;
        let byte_time = Duration::from_nanos(NANOS_PER_S / bytes_per_s.max(1));
        while self.busy_until <= cx.now + LINE_QUEUE_TIME {
            let free_time = cx.now + LINE_QUEUE_TIME - self.busy_until.max(cx.now);
            let limit = free_time.as_nanos() / byte_time.as_nanos().max(1) + 1;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            if self.wire.is_empty() && transmit(&mut self.wire, limit, cx) == 0 {
                return Ok(());
            }
            let Some(written) = self.serial.write(&self.wire)? else {
                // The line is slower than its rate: try again after the time of the queue.
                self.busy_until = cx.now + LINE_QUEUE_TIME + LINE_QUEUE_TIME;
                return Ok(());
            };
            self.wire.drain(..written);
            let count = u32::try_from(written).unwrap_or(u32::MAX);
            self.busy_until = self.busy_until.max(cx.now) + byte_time * count;
        }
        Ok(())
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.serial.as_fd()
    }
}

impl AsFd for GuestDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Packets(device) => device.as_fd(),
            Self::Machine(machine) => machine.listener.as_fd(),
            Self::Line(line) => line.serial.as_fd(),
        }
    }
}
