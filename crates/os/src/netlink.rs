//! Netlink requests about interfaces and addresses (netlink(7), rtnetlink(7)).
//!
//! The module covers only operations that the ioctls of netdevice(7) lack. A request is one message
//! with nested attributes, which the kernel acknowledges or answers with messages. Numbers are in native byte order.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

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
    pub(crate) fn send(self) -> Result<(), Errno> {
        let socket = self.send_on_new_socket()?;
        let mut reply = [0; 1024];
        let (_, length) = recv(&socket, &mut reply, RecvFlags::empty())?;
        outcome(reply.get(..length).unwrap_or_default())
    }

    /// Sends the request in the calling thread's network namespace, and returns the kinds and
    /// contents of the messages with which the kernel replies.
    pub(crate) fn ask(self) -> Result<Vec<(u16, Vec<u8>)>, Errno> {
        let socket = self.send_on_new_socket()?;
        let mut messages = Vec::new();
        let mut reply = vec![0; REPLY_LEN];
        loop {
            let (_, length) = recv(&socket, &mut reply[..], RecvFlags::empty())?;
            if collect(reply.get(..length).unwrap_or_default(), &mut messages)? {
                return Ok(messages);
            }
        }
    }

    fn send_on_new_socket(mut self) -> Result<OwnedFd, Errno> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        for (place, byte) in self.bytes.iter_mut().zip(length.to_ne_bytes()) {
            *place = byte;
        }
        // `None` stands for protocol 0, NETLINK_ROUTE.
        let route = None;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, route)?;
        send(&socket, &self.bytes, SendFlags::empty())?;
        Ok(socket)
    }
}

/// Appends the messages of `reply`. Returns whether it ends the answer.
fn collect(mut reply: &[u8], messages: &mut Vec<(u16, Vec<u8>)>) -> Result<bool, Errno> {
    while let Some((head, _)) = reply.split_first_chunk::<HEADER_LEN>() {
        let [length0, length1, length2, length3, kind0, kind1, ..] = *head;
        let length = u32::from_ne_bytes([length0, length1, length2, length3]);
        let length = usize::try_from(length).map_err(|_| Errno::PROTO)?;
        let contents = reply.get(HEADER_LEN..length).ok_or(Errno::PROTO)?;
        match u16::from_ne_bytes([kind0, kind1]) {
            NLMSG_ERROR => return outcome(reply).map(|()| true),
            NLMSG_DONE => return Ok(true),
            kind => messages.push((kind, contents.to_vec())),
        }
        reply = reply.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    if reply.is_empty() { Ok(false) } else { Err(Errno::PROTO) }
}

/// Returns the value of the attribute `kind` among the attributes `bytes`.
pub(crate) fn find_attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let ([length0, length1, kind0, kind1], _) = bytes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([*length0, *length1]));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes([*kind0, *kind1]) == kind {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..)?;
    }
}

/// Parses an address of either family.
pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Returns the number of the family of an address.
pub(crate) fn family_of(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    u8::try_from(family.as_raw()).unwrap_or(0)
}

impl Request {
    /// Appends an address as an attribute.
    pub(crate) fn address_attribute(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
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

/// The originator of our routes and proxy entries (`rtm_protocol`, `NDA_PROTOCOL`): a number that
/// rtnetlink(7) leaves to users and that no routing daemon has registered.
pub(crate) const PROTOCOL: u8 = 112;
/// NLM_F_DUMP: return all objects.
pub(crate) const DUMP: u16 = 0x0300;
/// NLM_F_CREATE and NLM_F_EXCL: create the object, and fail if it exists.
pub(crate) const CREATE: u16 = 0x0400 | 0x0200;

const LENGTH_LEN: usize = 4;
const HEADER_LEN: usize = 16;
const ALIGNMENT: usize = 4;
// <linux/netlink.h>
const NLM_F_REQUEST: u16 = 0x0001;
const NLM_F_ACK: u16 = 0x0004;
const NLMSG_ERROR: u16 = 0x0002;
const NLMSG_DONE: u16 = 0x0003;
/// Size of a buffer for replies; the kernel sends at most 32 KiB at once.
const REPLY_LEN: usize = 32_768;
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

    /// Returns a message of a reply.
    fn message(kind: u16, contents: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_LEN + contents.len()).unwrap().to_ne_bytes();
        let mut bytes = [&length[..], &kind.to_ne_bytes(), &[0; 10], contents].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn the_messages_of_an_answer_are_collected_until_its_end() {
        let mut messages = Vec::new();
        let first = [message(28, b"abc"), message(28, b"defgh")].concat();
        assert_eq!(collect(&first, &mut messages), Ok(false));
        assert_eq!(collect(&message(NLMSG_DONE, &[0; 4]), &mut messages), Ok(true));
        let expected = vec![(28, b"abc".to_vec()), (28, b"defgh".to_vec())];
        assert_eq!(messages, expected);
        let refused = message(NLMSG_ERROR, &(-101_i32).to_ne_bytes());
        assert_eq!(collect(&refused, &mut messages), Err(Errno::NETUNREACH));
        assert_eq!(collect(&first[..HEADER_LEN], &mut messages), Err(Errno::PROTO));
    }

    #[test]
    fn an_attribute_is_found_behind_others() {
        let mut request = Request { bytes: Vec::new() };
        request.attribute(3, b"x");
        request.address_attribute(1, IpAddr::from([10, 0, 0, 1]));
        let value = find_attribute(&request.bytes, 1);
        assert_eq!(value.and_then(address), Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(find_attribute(&request.bytes, 2), None);
        assert_eq!(find_attribute(&request.bytes[..9], 1), None);
    }

    proptest! {
        #[test]
        fn no_reply_causes_a_panic(reply: Vec<u8>) {
            let mut messages = Vec::new();
            _ = collect(&reply, &mut messages);
            prop_assert!(find_attribute(&reply, 1).is_none_or(|value| value.len() < reply.len()));
        }

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
