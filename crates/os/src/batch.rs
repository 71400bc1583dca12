//! Reads or writes many packets of one device in one system call, using io_uring(7).
//!
//! A TUN without offloads takes one packet per write, and a fifth of the cost of a write is the
//! system call. A ring performs 64 writes or 64 reads with one system call. For a single packet a
//! ring is slower than a write, so a single packet is written directly. Where the kernel refuses
//! rings (ENOSYS: not implemented; EPERM: forbidden), every packet is written by a separate call,
//! and [`Batch::refused`] returns the reason.
//!
//! All writes of a batch have completed when [`Batch::write`] returns, so packets need not outlive
//! the call. They reach the device in order: a TUN takes or refuses a packet at once, and the
//! kernel defers no write to a non-blocking descriptor.

use crate::tun::Tun;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd};
use std::{fmt, io};

/// Maximum number of packets per system call.
pub const BATCH_LEN: usize = 64;

/// Reads and writes packets in batches.
pub struct Batch {
    ring: Option<IoUring>,
    refused: Option<Errno>,
    failure: Option<Errno>,
    parts: Vec<[libc::iovec; PARTS]>,
    /// Buffers that the current call of [`Self::read`] fills.
    into: Vec<libc::iovec>,
    /// Result of each read of the last call: its length in bytes, or a negated error number.
    read: Vec<i32>,
    counts: Counts,
}

/// Counts of written packets and of system calls, for the meters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets written through an io_uring.
    pub ring_packets: u64,
    /// Packets written by a separate system call each.
    pub written: u64,
    /// System calls for all reads and writes.
    pub calls: u64,
    /// Packets that the device refused.
    pub failed: u64,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut batch = f.debug_struct("Batch");
        batch.field("has_ring", &self.has_ring()).field("refused", &self.refused);
        batch.field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the pointers in `parts` and `into` are used only within the call that stores them.
unsafe impl Send for Batch {}

impl Batch {
    /// Creates a batch with an io_uring, or without one if the kernel refuses it.
    #[must_use]
    pub fn new() -> Self {
        let entries = u32::try_from(BATCH_LEN).unwrap_or(u32::MAX);
        match IoUring::new(entries) {
            Ok(ring) => Self { ring: Some(ring), ..Self::without_ring(None) },
            Err(error) => {
                Self::without_ring(Some(Errno::from_io_error(&error).unwrap_or(Errno::IO)))
            }
        }
    }

    /// Creates a batch without an io_uring: each packet is written with a separate system call.
    #[must_use]
    pub fn plain() -> Self {
        Self::without_ring(None)
    }

    fn without_ring(refused: Option<Errno>) -> Self {
        Self {
            ring: None,
            refused,
            failure: None,
            parts: Vec::with_capacity(BATCH_LEN),
            into: Vec::with_capacity(BATCH_LEN),
            read: Vec::with_capacity(BATCH_LEN),
            counts: Counts::default(),
        }
    }

    /// Returns the error with which the kernel refused to create an io_uring, or with which an
    /// io_uring failed later.
    #[must_use]
    pub fn refused(&self) -> Option<Errno> {
        self.refused
    }

    /// Returns whether packets are read and written through an io_uring.
    #[must_use]
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns the counts since the batch was created.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes the error of the last packet that the device refused.
    pub fn take_failure(&mut self) -> Option<Errno> {
        self.failure.take()
    }

    /// Writes `packets` in order, each in three parts, to a non-blocking device without offloads.
    /// Returns the number of packets that the device took; the others are lost and counted.
    ///
    /// # Errors
    ///
    /// Returns `InvalidInput` for a device with offloads. After any other error some of the packets
    /// may have been sent.
    pub fn write(&mut self, device: &Tun, packets: &[[&[u8]; PARTS]]) -> io::Result<usize> {
        if device.offloads().is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut accepted = 0;
        for packets in packets.chunks(BATCH_LEN) {
            accepted += match &self.ring {
                Some(_) if packets.len() > 1 => self.write_by_ring(device, packets)?,
                _ => self.write_plainly(device, packets),
            };
        }
        Ok(accepted)
    }

    /// Reads a packet into each of `buffers`, in order, at most [`BATCH_LEN`] of them, without
    /// waiting. Returns the lengths of the packets read: fewer than buffers if the device has no
    /// more. Without an io_uring no packet is read.
    ///
    /// # Errors
    ///
    /// Returns the error of the first read that failed; packets read before it are lost.
    pub fn read<'a>(
        &mut self,
        device: &Tun,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<impl Iterator<Item = usize>> {
        self.read.clear();
        if let Some(ring) = &mut self.ring {
            // Run the iterator to its end before pushing the first entry: if it panics, no entry
            // that points to a buffer of this call is left in the ring.
            self.into.clear();
            self.into.extend(buffers.take(BATCH_LEN).map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            }));
            let descriptor = types::Fd(device.as_fd().as_raw_fd());
            for (buffer, place) in self.into.iter().zip(0..) {
                let length = u32::try_from(buffer.iov_len).unwrap_or(u32::MAX);
                let read = opcode::Read::new(descriptor, buffer.iov_base.cast(), length);
                // Without RWF_NOWAIT a ring waits for a packet even on a non-blocking device.
                let read = read.rw_flags(libc::RWF_NOWAIT).build();
                // SAFETY: the buffer is borrowed for 'a, which outlives this call, and no submitted
                // read is still running when `wait_for_all` returns. Entries that were not
                // submitted are dropped with the ring.
                let pushed = unsafe { ring.submission().push(&read.user_data(place)) };
                assert!(pushed.is_ok(), "an io_uring of {BATCH_LEN} entries has space for a batch");
                self.read.push(0);
            }
            let pushed = self.read.len();
            let calls = &mut self.counts.calls;
            if let Err(error) = wait_for_all(ring, pushed, calls, IoUring::submit_and_wait) {
                self.refused = Errno::from_io_error(&error);
                self.ring = None;
                return Err(error);
            }
            for entry in ring.completion() {
                let place = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                if let Some(result) = self.read.get_mut(place) {
                    *result = entry.result();
                }
            }
        }
        let passing = [Errno::AGAIN, Errno::INTR].map(|error| -error.raw_os_error());
        let failed = self.read.iter().find(|result| **result < 0 && !passing.contains(result));
        if let Some(failed) = failed {
            return Err(Errno::from_raw_os_error(-failed).into());
        }
        Ok(self.read.iter().map_while(|result| usize::try_from(*result).ok()))
    }

    fn write_plainly(&mut self, device: &Tun, packets: &[[&[u8]; PARTS]]) -> usize {
        let mut accepted = 0;
        for packet in packets {
            match device.write_vectored(&Default::default(), *packet) {
                Ok(written) => accepted += usize::from(written.is_some()),
                Err(error) => self.failure = Errno::from_io_error(&error),
            }
        }
        self.counts.calls += count(packets.len());
        self.counts.written += count(accepted);
        self.counts.failed += count(packets.len() - accepted);
        accepted
    }

    fn write_by_ring(&mut self, device: &Tun, packets: &[[&[u8]; PARTS]]) -> io::Result<usize> {
        let Some(ring) = &mut self.ring else { return Ok(0) };
        self.parts.clear();
        self.parts.extend(packets.iter().map(|parts| {
            parts.map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            })
        }));
        let descriptor = types::Fd(device.as_fd().as_raw_fd());
        for parts in &self.parts {
            let write = match parts {
                [head, b, c] if b.iov_len == 0 && c.iov_len == 0 => {
                    let length = u32::try_from(head.iov_len).unwrap_or(u32::MAX);
                    opcode::Write::new(descriptor, head.iov_base.cast(), length).build()
                }
                parts => opcode::Writev::new(descriptor, parts.as_ptr(), PARTS_U32).build(),
            };
            // SAFETY: the bytes and the list of parts live until `wait_for_all` below returns,
            // after all writes have ended; `parts` does not grow meanwhile.
            let pushed = unsafe { ring.submission().push(&write) };
            assert!(pushed.is_ok(), "an io_uring of {BATCH_LEN} entries has space for a batch");
        }
        let calls = &mut self.counts.calls;
        let ended = wait_for_all(ring, packets.len(), calls, IoUring::submit_and_wait);
        let mut accepted = 0;
        for entry in ring.completion() {
            match entry.result() {
                1.. => accepted += 1,
                code => self.failure = Some(Errno::from_raw_os_error(-code)),
            }
        }
        self.counts.ring_packets += count(accepted);
        self.counts.failed += count(packets.len().saturating_sub(accepted));
        if let Err(error) = ended {
            // Entries that were not submitted point to memory of this call; drop them with the
            // ring.
            self.refused = Errno::from_io_error(&error);
            self.ring = None;
            return Err(error);
        }
        Ok(accepted)
    }
}

/// Submits the `pushed` entries by calling `enter`, and waits until all of them have completed.
///
/// After an error nothing more is submitted, but the kernel may still be working on entries
/// submitted earlier. Therefore this returns only when each submitted entry has completed: whatever
/// the result, the caller then owns the memory to which the entries point.
///
/// # Errors
///
/// Returns the first error of `enter` that is not transient.
fn wait_for_all(
    ring: &mut IoUring,
    pushed: usize,
    calls: &mut u64,
    mut enter: impl FnMut(&IoUring, usize) -> io::Result<usize>,
) -> io::Result<()> {
    while ring.completion().len() < pushed {
        *calls += 1;
        match enter(ring, pushed) {
            Err(error) if !is_passing(&error) => {
                wait_for_submitted(ring, pushed);
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits until each of the `pushed` entries that was submitted has completed.
fn wait_for_submitted(ring: &mut IoUring, pushed: usize) {
    loop {
        let submitted = pushed.saturating_sub(ring.submission().len());
        let ended = ring.completion().len();
        if ended >= submitted {
            return;
        }
        let wanted = u32::try_from(submitted).unwrap_or(u32::MAX);
        // SAFETY: nothing is submitted, and no argument points to memory.
        let waited =
            unsafe { ring.submitter().enter::<libc::sigset_t>(0, wanted, GET_EVENTS, None) };
        if waited.is_err() {
            // The kernel completes entries even if no call waits for them.
            std::thread::yield_now();
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    Errno::from_io_error(error).is_some_and(|error| passing.contains(&error))
}

fn count(packets: usize) -> u64 {
    u64::try_from(packets).unwrap_or(u64::MAX)
}

const PARTS: usize = 3;
const PARTS_U32: u32 = 3;
/// `IORING_ENTER_GETEVENTS`: wait for completions.
const GET_EVENTS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Interface;
    use crate::testing::{has_ring, in_new_network, readable};
    use std::io::Write;
    use std::net::{Ipv4Addr, UdpSocket};

    const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 1);
    const USERSPACE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 2);
    const PORT: u16 = 7000;
    const HEADERS_LEN: usize = 28;

    fn tun_and_socket() -> (Tun, UdpSocket) {
        let tun = Tun::open(Some("plumb0")).unwrap();
        let interface = Interface::named(tun.name()).unwrap();
        interface.set_address(KERNEL, 24).unwrap();
        interface.bring_up().unwrap();
        (tun, UdpSocket::bind((KERNEL, PORT)).unwrap())
    }

    /// Returns the headers of a UDP datagram to the kernel's socket, with a UDP checksum of 0.
    fn headers(payload_len: u16) -> [u8; HEADERS_LEN] {
        let mut headers = [0; HEADERS_LEN];
        headers[0] = 0x45;
        headers[2..4].copy_from_slice(&(payload_len + 28).to_be_bytes());
        headers[8..10].copy_from_slice(&[64, 17]);
        headers[12..16].copy_from_slice(&USERSPACE.octets());
        headers[16..20].copy_from_slice(&KERNEL.octets());
        let sum = (crate::checksum::Routines::PORTABLE.sum)(&headers[..20]);
        headers[10..12].copy_from_slice(&(!sum).to_be_bytes());
        headers[20..22].copy_from_slice(&9_u16.to_be_bytes());
        headers[22..24].copy_from_slice(&PORT.to_be_bytes());
        headers[24..26].copy_from_slice(&(payload_len + 8).to_be_bytes());
        headers
    }

    #[test]
    fn available_packets_are_read_in_order() {
        in_new_network(|| {
            let (tun, socket) = tun_and_socket();
            let mut batch = Batch::new();
            if !has_ring(&batch) {
                return;
            }
            (0..5_u8).for_each(|number| _ = socket.send_to(&[number], (USERSPACE, PORT)).unwrap());
            let mut buffers = vec![[0; 2048]; 20];
            let lengths: Vec<_> = batch
                .read(&tun, buffers.iter_mut().map(|buffer| &mut buffer[..]))
                .unwrap()
                .collect();
            let packets = buffers.iter().zip(lengths).map(|(buffer, length)| &buffer[..length]);
            // Only IPv4 packets with UDP count; the kernel also sends IPv6 router solicitations.
            let udp_packets = packets.filter(|packet| (packet[0] >> 4, packet[9]) == (4, 17));
            assert!(udp_packets.map(|packet| packet[HEADERS_LEN]).eq(0..5));
            let no_packets =
                batch.read(&tun, buffers.iter_mut().map(|buffer| &mut buffer[..])).unwrap();
            assert_eq!(no_packets.count(), 0);
        });
    }

    /// Reads one packet through a ring. The packet must arrive in `kept`. If an entry of the call
    /// that panicked were left in the ring, that entry would receive the packet instead.
    #[test]
    fn an_iterator_that_panics_leaves_no_entry_in_the_ring() {
        in_new_network(|| {
            let (tun, socket) = tun_and_socket();
            let mut batch = Batch::new();
            if !has_ring(&batch) {
                return;
            }
            let mut stale = [0; 2048];
            let mut kept = [0; 2048];
            let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let buffers = std::iter::once(&mut stale[..]);
                let panics = std::iter::from_fn(|| panic!("no more buffers"));
                _ = batch.read(&tun, buffers.chain(panics)).map(Iterator::count);
            }));
            assert!(interrupted.is_err());
            assert_eq!(batch.ring.as_mut().unwrap().submission().len(), 0);
            socket.send_to(&[7], (USERSPACE, PORT)).unwrap();
            let read = batch.read(&tun, std::iter::once(&mut kept[..])).unwrap().count();
            assert_eq!((read, stale), (1, [0; 2048]));
            assert_ne!(kept[0], 0);
        });
    }

    #[test]
    fn a_failed_wait_returns_only_after_all_submissions_have_completed() {
        let mut batch = Batch::new();
        if !has_ring(&batch) {
            return;
        }
        let ring = batch.ring.as_mut().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let mut buffers = [[0_u8; 4]; 2];
        for buffer in &mut buffers {
            let read = opcode::Read::new(types::Fd(reader.as_raw_fd()), buffer.as_mut_ptr(), 4);
            // SAFETY: the buffers outlive the ring's work, which ends before they are read.
            unsafe { ring.submission().push(&read.build()).unwrap() };
        }
        let mut ended_later = None;
        let waited = wait_for_all(ring, 2, &mut 0, |ring, _| {
            // The kernel takes both reads, neither can complete, and the next call fails.
            assert_eq!(ring.submit().unwrap(), 2);
            let mut writer = writer.try_clone().unwrap();
            ended_later = Some(std::thread::spawn(move || writer.write_all(b"abcdefgh").unwrap()));
            Err(io::Error::from_raw_os_error(libc::ENOMEM))
        });
        let ended = ring.completion().len();
        // Complete both reads before the assertions, so that nothing writes to the buffers after
        // this test.
        writer.write_all(b"abcdefgh").unwrap();
        ended_later.unwrap().join().unwrap();
        while ring.completion().len() < 2 {
            ring.submit_and_wait(2).unwrap();
        }
        assert_eq!(waited.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        // The kernel chooses the order of the two reads.
        buffers.sort_unstable();
        assert_eq!((ended, buffers), (2, [*b"abcd", *b"efgh"]));
    }

    #[test]
    fn entries_that_were_not_submitted_are_not_waited_for() {
        let mut batch = Batch::new();
        if !has_ring(&batch) {
            return;
        }
        let ring = batch.ring.as_mut().unwrap();
        // SAFETY: the entry has no buffer.
        unsafe { ring.submission().push(&opcode::Nop::new().build()).unwrap() };
        let waited =
            wait_for_all(ring, 1, &mut 0, |_, _| Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        assert_eq!(waited.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        assert_eq!(ring.submission().len(), 1);
        assert_eq!(ring.completion().len(), 0);
    }

    fn assert_received_in_order(socket: &UdpSocket, expected: u8) {
        for number in 0..expected {
            let mut received = [0; 16];
            readable(socket);
            assert_eq!(socket.recv(&mut received).unwrap(), 2);
            assert_eq!(received[..2], [number, number]);
        }
    }

    fn write_80(batch: &mut Batch, is_in_parts: bool) {
        let (tun, socket) = tun_and_socket();
        let payloads: Vec<[u8; 2]> = (0..80).map(|number| [number, number]).collect();
        let head = headers(2);
        let complete_packets: Vec<Vec<u8>> =
            payloads.iter().map(|p| [&head[..], &p[..]].concat()).collect();
        let in_parts = payloads
            .iter()
            .map(|[a, b]| [&head[..], core::slice::from_ref(a), core::slice::from_ref(b)]);
        let packets: Vec<[&[u8]; 3]> = if is_in_parts {
            in_parts.collect()
        } else {
            complete_packets.iter().map(|packet| [&packet[..], &[], &[]]).collect()
        };
        assert_eq!(batch.write(&tun, &packets).unwrap(), 80);
        assert_received_in_order(&socket, 80);
    }

    #[test]
    fn packets_of_a_ring_arrive_in_order_64_a_system_call() {
        in_new_network(|| {
            let mut batch = Batch::new();
            if !has_ring(&batch) {
                return;
            }
            write_80(&mut batch, false);
            let expected = Counts { ring_packets: 80, calls: 2, ..Counts::default() };
            assert_eq!(batch.counts(), expected);
        });
    }

    #[test]
    fn packets_in_parts_arrive_complete() {
        in_new_network(|| write_80(&mut Batch::new(), true));
    }

    #[test]
    fn packets_without_a_ring_arrive_in_order_one_a_system_call() {
        in_new_network(|| {
            let mut batch = Batch::plain();
            write_80(&mut batch, false);
            let expected = Counts { written: 80, calls: 80, ..Counts::default() };
            assert_eq!(batch.counts(), expected);
        });
    }

    #[test]
    fn a_single_packet_is_written_without_a_batch() {
        in_new_network(|| {
            let mut batch = Batch::new();
            let (tun, socket) = tun_and_socket();
            assert_eq!(batch.write(&tun, &[[&headers(2), &[0, 0], &[]]]).unwrap(), 1);
            assert_received_in_order(&socket, 1);
            assert_eq!((batch.counts().written, batch.counts().ring_packets), (1, 0));
        });
    }

    #[test]
    fn a_rejected_packet_is_counted_and_the_others_are_written() {
        in_new_network(|| {
            let mut batch = Batch::new();
            let (tun, socket) = tun_and_socket();
            let head = headers(2);
            let no_packet = [0xFF; 40];
            let packets: [[&[u8]; 3]; 3] =
                [[&head, &[0, 0], &[]], [&no_packet, &[], &[]], [&head, &[1, 1], &[]]];
            assert_eq!(batch.write(&tun, &packets).unwrap(), 2);
            assert_received_in_order(&socket, 2);
            assert_eq!(batch.counts().failed, 1);
        });
    }
}
