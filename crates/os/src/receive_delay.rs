//! Time that data spent in a socket's receive queue before it was read.
//!
//! With `SO_TIMESTAMPNS` (socket(7)) the kernel stamps each packet when the network device delivers
//! it. recvmsg(2) returns the stamp of the last byte that it copies, for TCP as well (Linux 4.10).
//! The difference between the stamp and the time of the read is the delay of the reader: its
//! wake-up and its wait for a processor. The time before the arrival of the data is not included.

use crate::readiness::would_block_as_pending;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::task::{Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Size of a control buffer for one message with a `timespec`, in 64-bit words.
const CONTROL_WORDS: usize = 8;

/// Enables arrival stamps for `socket`. If no socket of the machine had stamps before, the kernel
/// starts to stamp some milliseconds later.
///
/// # Errors
///
/// Returns the error of `setsockopt(2)`.
#[expect(clippy::cast_possible_truncation, reason = "the size of an int fits in socklen_t")]
pub fn stamp_arrivals(socket: &impl AsFd) -> io::Result<()> {
    let enabled: libc::c_int = 1;
    // SAFETY: the kernel reads an int of the length passed.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const enabled).cast(),
            size_of_val(&enabled) as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads into `buffer`. Returns the number of bytes read, and the time that the last byte spent in
/// the receive queue; `None` if the kernel has no stamp for that byte. Returns [`Poll::Pending`] if
/// a non-blocking socket has no data.
///
/// A step of the system clock between arrival and read falsifies the delay; it is never negative.
///
/// # Errors
///
/// Returns the error of `recvmsg(2)`.
pub fn read(socket: &impl AsFd, buffer: &mut [u8]) -> Poll<io::Result<(usize, Option<Duration>)>> {
    let mut iovec = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: an all-zero message header is valid and empty.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut iovec;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the pointers point to memory of the given lengths that lives until the end of this
    // function.
    let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error());
    let count = ready!(would_block_as_pending(count))?;
    let read_at = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let arrived_at = stamp(&message);
    let delay = read_at.zip(arrived_at).map(|(read, arrived)| read.saturating_sub(arrived));
    Poll::Ready(Ok((count, delay)))
}

/// Returns the stamp in `message`, as the time since 1970.
fn stamp(message: &libc::msghdr) -> Option<Duration> {
    // SAFETY: recvmsg has filled the header and the control area that it points to.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a header inside the control area.
    while let Some(header) = unsafe { next.as_ref() } {
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: a control message of this type has a timespec, at any alignment.
            let time: libc::timespec =
                unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(next).cast()) };
            let seconds = u64::try_from(time.tv_sec).ok()?;
            return Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?));
        }
        // SAFETY: `next` is a header inside the control area of `message`.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unwrap_ready;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    const ATTEMPTS_MAX: usize = 100;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn the_receive_delay_is_the_time_in_the_queue() {
        let (client, mut peer) = pair();
        stamp_arrivals(&client).unwrap();
        let mut buffer = [0; 8];
        // The kernel starts to stamp with some delay.
        for _ in 0..ATTEMPTS_MAX {
            let written_at = Instant::now();
            peer.write_all(b"x").unwrap();
            while written_at.elapsed() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            let (count, delay) = unwrap_ready(read(&client, &mut buffer)).unwrap();
            assert_eq!((count, buffer[0]), (1, b'x'));
            let elapsed = written_at.elapsed();
            if let Some(delay) = delay {
                // The system clock may be slewed while the test runs.
                assert!(delay >= Duration::from_millis(10), "{delay:?}");
                assert!(delay <= elapsed + Duration::from_millis(1), "{delay:?} of {elapsed:?}");
                return;
            }
        }
        panic!("the kernel has stamped none of {ATTEMPTS_MAX} packets");
    }

    #[test]
    fn without_stamps_a_read_has_no_delay() {
        let (client, mut peer) = pair();
        peer.write_all(b"x").unwrap();
        let read_once = || unwrap_ready(read(&client, &mut [0; 8])).unwrap();
        assert_eq!(read_once(), (1, None), "stamped, though not asked to");
        drop(peer);
        assert_eq!(read_once().0, 0);
    }
}
