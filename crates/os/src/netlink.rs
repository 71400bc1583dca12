//! Netlink requests about interfaces and addresses (netlink(7), rtnetlink(7)).
//!
//! The module covers only operations that the ioctls of netdevice(7) lack. A request is one message
//! with nested attributes, which the kernel acknowledges. Numbers are in native byte order.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Creates a request of `kind` that asks for an acknowledgment.
    pub(crate) fn new(kind: u16, flags: u16) -> Self {
        let mut request = Self { bytes: vec![0; LENGTH_LEN] };
        request.push(&kind.to_ne_bytes());
        request.push(&(NLM_F_REQUEST | NLM_F_ACK | flags).to_ne_bytes());
        // Sequence number and port are 0: each request uses its own socket.
        request.push(&[0; 8]);
        request
    }

    /// Appends `bytes` unchanged.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends an attribute.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |request| request.push(value));
    }

    /// Appends an attribute whose value is written by `write`.
    pub(crate) fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.push(&[0; 2]);
        self.push(&kind.to_ne_bytes());
        write(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        for (place, byte) in self.bytes.iter_mut().skip(start).zip(length.to_ne_bytes()) {
            *place = byte;
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }

    /// Sends the request in the calling thread's network namespace, and waits for the
    /// acknowledgment.
    pub(crate) fn send(mut self) -> Result<(), Errno> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        for (place, byte) in self.bytes.iter_mut().zip(length.to_ne_bytes()) {
            *place = byte;
        }
        // `None` stands for protocol 0, NETLINK_ROUTE.
        let route = None;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, route)?;
        send(&socket, &self.bytes, SendFlags::empty())?;
        let mut reply = [0; 1024];
        let (_, length) = recv(&socket, &mut reply, RecvFlags::empty())?;
        outcome(reply.get(..length).unwrap_or_default())
    }
}

/// Parses NLMSG_ERROR, which carries the negated error number, or 0 for success.
fn outcome(reply: &[u8]) -> Result<(), Errno> {
    let (head, rest) = reply.split_first_chunk::<HEADER_LEN>().ok_or(Errno::PROTO)?;
    let [_, _, _, _, kind0, kind1, ..] = *head;
    let number = rest.first_chunk::<4>().map(|number| i32::from_ne_bytes(*number));
    match (u16::from_ne_bytes([kind0, kind1]), number) {
        (NLMSG_ERROR, Some(0)) => Ok(()),
        (NLMSG_ERROR, Some(number @ ERRNO_MIN..0)) => Err(Errno::from_raw_os_error(-number)),
        _ => Err(Errno::PROTO),
    }
}

/// NLM_F_CREATE and NLM_F_EXCL: create the object, and fail if it exists.
pub(crate) const CREATE: u16 = 0x0400 | 0x0200;

const LENGTH_LEN: usize = 4;
const HEADER_LEN: usize = 16;
const ALIGNMENT: usize = 4;
// <linux/netlink.h>
const NLM_F_REQUEST: u16 = 0x0001;
const NLM_F_ACK: u16 = 0x0004;
const NLMSG_ERROR: u16 = 0x0002;
/// Least value that the kernel uses as a negated error number (MAX_ERRNO of <linux/err.h>).
const ERRNO_MIN: i32 = -4095;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nested_attributes_have_the_length_of_their_contents() {
        let mut request = Request::new(16, 0);
        request.nested(1, |request| request.attribute(2, b"abcde"));
        let expected = [
            &16_u16.to_ne_bytes()[..],
            &1_u16.to_ne_bytes(),
            &9_u16.to_ne_bytes(),
            &2_u16.to_ne_bytes(),
            b"abcde\0\0\0",
        ];
        assert_eq!(request.bytes[HEADER_LEN..], expected.concat());
    }

    proptest! {
        #[test]
        fn the_error_number_of_any_reply_is_read_or_rejected(
            length: [u8; 4], rest: [u8; 10], number in prop_oneof![-4095..=0_i32, any::<i32>()],
            request: Vec<u8>,
        ) {
            let kind = NLMSG_ERROR.to_ne_bytes();
            let reply = [&length[..], &kind, &rest, &number.to_ne_bytes(), &request].concat();
            let expected = match number {
                0 => Ok(()),
                -4095..0 => Err(Errno::from_raw_os_error(-number)),
                _ => Err(Errno::PROTO),
            };
            prop_assert_eq!(outcome(&reply), expected);
            let end = HEADER_LEN + number.to_ne_bytes().len() - 1;
            prop_assert_eq!(outcome(&reply[..end]), Err(Errno::PROTO));
        }
    }
}
