//! Reads or writes many packets of one device in one system call, using io_uring(7).
//!
//! A TUN without offloads takes one packet per write, and a fifth of the cost of a write is the
//! system call. A ring performs 64 writes or 64 reads with one system call. For a single packet a
//! ring is slower than a write, so a single packet is written directly. If the kernel refuses to
//! create a ring (ENOSYS: not implemented; EPERM: forbidden), every packet is written by a separate
//! call, and [`Batch::ring_error`] returns the reason.
//!
//! All writes of a batch have completed when [`Batch::write`] returns, so packets need not outlive
//! the call. The packets reach the device in order: a TUN accepts or refuses a packet at once, and
//! the kernel defers no write to a non-blocking descriptor.

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
    ring_error: Option<Errno>,
    failure: Option<Errno>,
    parts: Vec<[libc::iovec; PARTS]>,
    /// Buffers that the current call of [`Self::read`] fills.
    read_buffers: Vec<libc::iovec>,
    /// Result of each read of the last call: its length in bytes, or a negated error number.
    read_results: Vec<i32>,
    counts: Counts,
}

/// Counts of written packets and of system calls, for the meters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets written through an io_uring.
    pub ring_packets: u64,
    /// Packets written without an io_uring, with one system call each.
    pub written: u64,
    /// System calls for all reads and writes.
    pub calls: u64,
    /// Packets that the device refused.
    pub failed: u64,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut batch = f.debug_struct("Batch");
        batch.field("has_ring", &self.has_ring()).field("refused", &self.ring_error);
        batch.field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the pointers in `parts` and `read_buffers` are used only within the call that stores
// them.
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

    fn without_ring(ring_error: Option<Errno>) -> Self {
        Self {
            ring: None,
            ring_error,
            failure: None,
            parts: Vec::with_capacity(BATCH_LEN),
            read_buffers: Vec::with_capacity(BATCH_LEN),
            read_results: Vec::with_capacity(BATCH_LEN),
            counts: Counts::default(),
        }
    }

    /// Returns the error that prevents the use of an io_uring: the kernel refused to create it, or
    /// it failed later.
    #[must_use]
    pub fn ring_error(&self) -> Option<Errno> {
        self.ring_error
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

    /// Returns the error of the last packet that the device refused, and clears it.
    pub fn take_failure(&mut self) -> Option<Errno> {
        self.failure.take()
    }

    /// Writes `packets` in order to a non-blocking device without offloads. Each packet is given in
    /// three parts. Returns the number of packets that the device accepted; the others are lost and
    /// counted.
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
                _ => self.write_one_by_one(device, packets),
            };
        }
        Ok(accepted)
    }

    /// Reads one packet into each of `buffers`, in order and without waiting. At most [`BATCH_LEN`]
    /// buffers are used.
    ///
    /// Returns the length of each packet read. There are fewer lengths than buffers if the device
    /// has no more packets. Without an io_uring no packet is read.
    ///
    /// # Errors
    ///
    /// Returns the error of the first read that failed; packets read before it are lost.
    pub fn read<'a>(
        &mut self,
        device: &Tun,
        buffers: impl Iterator<Item = &'a mut [u8]>,
    ) -> io::Result<impl Iterator<Item = usize>> {
        self.read_results.clear();
        if let Some(ring) = &mut self.ring {
            // Run the iterator to its end before pushing the first entry. If the iterator panics,
            // the ring then has no entry that points to a buffer of this call.
            self.read_buffers.clear();
            self.read_buffers.extend(buffers.take(BATCH_LEN).map(|buffer| libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            }));
            let descriptor = types::Fd(device.as_fd().as_raw_fd());
            for (buffer, place) in self.read_buffers.iter().zip(0..) {
                let length = u32::try_from(buffer.iov_len).unwrap_or(u32::MAX);
                let read = opcode::Read::new(descriptor, buffer.iov_base.cast(), length);
                // Without RWF_NOWAIT a ring waits for a packet even on a non-blocking device.
                let read = read.rw_flags(libc::RWF_NOWAIT).build();
                // SAFETY: the buffer is borrowed for 'a, which outlives this call, and no submitted
                // read is still running when `wait_for_all` returns. Entries that were not
                // submitted are dropped with the ring.
                let pushed = unsafe { ring.submission().push(&read.user_data(place)) };
                assert!(pushed.is_ok(), "an io_uring of {BATCH_LEN} entries has space for a batch");
                self.read_results.push(0);
            }
            let entry_count = self.read_results.len();
            let calls = &mut self.counts.calls;
            if let Err(error) = wait_for_all(ring, entry_count, calls, IoUring::submit_and_wait) {
                self.ring_error = Errno::from_io_error(&error);
                self.ring = None;
                return Err(error);
            }
            for entry in ring.completion() {
                let place = usize::try_from(entry.user_data()).unwrap_or(usize::MAX);
                if let Some(result) = self.read_results.get_mut(place) {
                    *result = entry.result();
                }
            }
        }
        let transient_errors = [Errno::AGAIN, Errno::INTR].map(|error| -error.raw_os_error());
        let mut results = self.read_results.iter();
        let error_code = results.find(|result| **result < 0 && !transient_errors.contains(result));
        if let Some(error_code) = error_code {
            return Err(Errno::from_raw_os_error(-error_code).into());
        }
        Ok(self.read_results.iter().map_while(|result| usize::try_from(*result).ok()))
    }

    fn write_one_by_one(&mut self, device: &Tun, packets: &[[&[u8]; PARTS]]) -> usize {
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
        let result = wait_for_all(ring, packets.len(), calls, IoUring::submit_and_wait);
        let mut accepted = 0;
        for entry in ring.completion() {
            match entry.result() {
                1.. => accepted += 1,
                code => self.failure = Some(Errno::from_raw_os_error(-code)),
            }
        }
        self.counts.ring_packets += count(accepted);
        self.counts.failed += count(packets.len().saturating_sub(accepted));
        if let Err(error) = result {
            // Entries that were not submitted point to memory of this call. Drop the ring to remove
            // these entries.
            self.ring_error = Errno::from_io_error(&error);
            self.ring = None;
            return Err(error);
        }
        Ok(accepted)
    }
}

/// Submits `entry_count` entries by calling `enter`, and waits until all of them have completed.
///
/// After an error nothing more is submitted, but the kernel may still be working on entries
/// submitted earlier. This function waits for these entries before it returns the error. Afterwards
/// the kernel no longer uses the memory to which the entries point.
///
/// # Errors
///
/// Returns the first error of `enter` that is not transient.
fn wait_for_all(
    ring: &mut IoUring,
    entry_count: usize,
    calls: &mut u64,
    mut enter: impl FnMut(&IoUring, usize) -> io::Result<usize>,
) -> io::Result<()> {
    while ring.completion().len() < entry_count {
        *calls += 1;
        match enter(ring, entry_count) {
            Err(error) if !is_transient(&error) => {
                wait_for_submitted(ring, entry_count);
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits until each of the `entry_count` entries that was submitted has completed.
fn wait_for_submitted(ring: &mut IoUring, entry_count: usize) {
    loop {
        let submitted = entry_count.saturating_sub(ring.submission().len());
        let ended = ring.completion().len();
        if ended >= submitted {
            return;
        }
        let minimum = u32::try_from(submitted).unwrap_or(u32::MAX);
        // SAFETY: nothing is submitted, and no argument points to memory.
        let wait_result =
            unsafe { ring.submitter().enter::<libc::sigset_t>(0, minimum, GET_EVENTS, None) };
        if wait_result.is_err() {
            // The kernel completes entries even if no call waits for them.
            std::thread::yield_now();
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    let transient_errors = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    Errno::from_io_error(error).is_some_and(|error| transient_errors.contains(&error))
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
    use crate::testing::{has_ring, in_new_network, wait_until_readable};
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

    /// Reads one packet through a ring. The packet must arrive in `next_buffer`. If an entry of the
    /// call that panicked were left in the ring, that entry would receive the packet instead.
    #[test]
    fn an_iterator_that_panics_leaves_no_entry_in_the_ring() {
        in_new_network(|| {
            let (tun, socket) = tun_and_socket();
            let mut batch = Batch::new();
            if !has_ring(&batch) {
                return;
            }
            let mut stale = [0; 2048];
            let mut next_buffer = [0; 2048];
            let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let buffers = std::iter::once(&mut stale[..]);
                let panics = std::iter::from_fn(|| panic!("no more buffers"));
                _ = batch.read(&tun, buffers.chain(panics)).map(Iterator::count);
            }));
            assert!(interrupted.is_err());
            assert_eq!(batch.ring.as_mut().unwrap().submission().len(), 0);
            socket.send_to(&[7], (USERSPACE, PORT)).unwrap();
            let read = batch.read(&tun, std::iter::once(&mut next_buffer[..])).unwrap().count();
            assert_eq!((read, stale), (1, [0; 2048]));
            assert_ne!(next_buffer[0], 0);
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
            // SAFETY: the buffers exist, and are not accessed, until both reads have completed.
            unsafe { ring.submission().push(&read.build()).unwrap() };
        }
        let mut writer_thread = None;
        let wait_result = wait_for_all(ring, 2, &mut 0, |ring, _| {
            // The kernel accepts both reads. They complete only after the call has failed.
            assert_eq!(ring.submit().unwrap(), 2);
            let mut writer = writer.try_clone().unwrap();
            let write = move || writer.write_all(b"abcdefgh").unwrap();
            writer_thread = Some(std::thread::spawn(write));
            Err(io::Error::from_raw_os_error(libc::ENOMEM))
        });
        let ended = ring.completion().len();
        // Complete both reads before the assertions, so that nothing writes to the buffers after
        // this test.
        writer.write_all(b"abcdefgh").unwrap();
        writer_thread.unwrap().join().unwrap();
        while ring.completion().len() < 2 {
            ring.submit_and_wait(2).unwrap();
        }
        assert_eq!(wait_result.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        // The kernel may complete the two reads in any order.
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
        let wait_result =
            wait_for_all(ring, 1, &mut 0, |_, _| Err(io::Error::from_raw_os_error(libc::ENOMEM)));
        assert_eq!(wait_result.unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        assert_eq!(ring.submission().len(), 1);
        assert_eq!(ring.completion().len(), 0);
    }

    fn assert_received_in_order(socket: &UdpSocket, expected: u8) {
        for number in 0..expected {
            let mut received = [0; 16];
            wait_until_readable(socket);
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
