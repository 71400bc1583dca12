//! poll(2): the operations that a descriptor can perform without blocking.

use crate::host_under_test::Host;
use crate::socket::{Phase, Stream};
use net::transport::tcp::State;

/// Returns the readiness of a stream socket as event bits of poll(2).
pub(crate) fn of_stream(stream: &Stream, host: &Host) -> i16 {
    let readable = libc::POLLIN | libc::POLLRDNORM;
    let writable = libc::POLLOUT | libc::POLLWRNORM;
    match stream.phase {
        Phase::Unconnected(_) => writable | libc::POLLHUP,
        Phase::Listening(port) => {
            if host.has_acceptable(port) {
                readable
            } else {
                0
            }
        }
        Phase::Connected(_) => {
            let Some(status) = stream.status(host) else { return libc::POLLHUP };
            if matches!(status.state, State::SynSent | State::SynReceived) {
                return 0;
            }
            let has_end = stream.has_end(&status);
            let is_shut = stream.is_write_shut || !status.state.takes_data();
            let mut events = 0;
            if status.receive_queue > 0 || has_end {
                events |= readable;
            }
            if has_end {
                events |= libc::POLLRDHUP;
            }
            // Linux reports a socket as writable if a third of the buffer is free.
            let queued = usize::try_from(status.send_queue).unwrap_or(usize::MAX);
            if is_shut || queued < stream.options.send_limit() / 3 * 2 {
                events |= writable;
            }
            if has_end && is_shut {
                events |= libc::POLLHUP;
            }
            if stream.error(host).is_some() {
                events |= libc::POLLERR;
            }
            events
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_peer::{ACK, IRS, PORT, accepted, datagram, listener, scheduler};

    #[test]
    fn a_listener_without_connections_is_not_readable() {
        let scheduler = scheduler();
        let fd = listener(&scheduler);
        assert_eq!(scheduler.call(|world| world.readiness(fd)), 0);
    }

    #[test]
    fn a_connection_is_writable_when_opened_and_readable_with_data() {
        let scheduler = scheduler();
        let (fd, local_seq) = accepted(&scheduler);
        let before = scheduler.call(|world| world.readiness(fd));
        assert_eq!(before & (libc::POLLIN | libc::POLLOUT), libc::POLLOUT);
        scheduler.inject(&datagram(PORT, ACK, IRS + 1, local_seq, b"x"));
        assert_eq!(scheduler.call(|world| world.readiness(fd)) & libc::POLLIN, libc::POLLIN);
    }
}
