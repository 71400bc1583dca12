//! The request packet: file name, direction and mode (RFC 1350 §5).

use super::options::{Options, next_string};
use super::tftp_packet::{ErrorCode, Fault, OP_READ, OP_WRITE, take_u16};
use alloc::vec::Vec;

/// Maximum length of a request in bytes (RFC 2347).
pub const REQUEST_MAX_LEN: usize = 512;

/// Direction of the transfer, from the user's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the server (RRQ).
    Read,
    /// To the server (WRQ).
    Write,
}

/// Representation of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Text: a line ends with CR LF on the wire, and with LF in the file.
    Netascii,
    /// Bytes without conversion.
    Octet,
}

/// A request for a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Direction of the transfer.
    pub direction: Direction,
    /// The file's name: any bytes but NUL, at least one.
    pub name: Vec<u8>,
    /// Representation of the file.
    pub mode: Mode,
    /// Options that the user requests.
    pub options: Options,
}

/// Reason why a datagram is not a request that can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The datagram is another packet or a truncated request, and is not answered.
    NoRequest,
    /// The request is invalid, and is answered with this ERROR.
    Refused(Fault),
}

const MALFORMED: Fault =
    Fault { code: ErrorCode::IllegalOperation, text: "The request is malformed." };
// RFC 1123 §4.2.2.1: mail SHOULD NOT be supported.
const MAIL: Fault = Fault { code: ErrorCode::NoSuchUser, text: "TFTP mail is not supported." };
const UNKNOWN_MODE: Fault =
    Fault { code: ErrorCode::IllegalOperation, text: "The mode must be netascii or octet." };

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    ///
    /// Returns [`RequestError`] if the datagram is not a request, or a request that cannot be
    /// served.
    pub fn parse(datagram: &[u8]) -> Result<Self, RequestError> {
        let (op, rest) = take_u16(datagram).ok_or(RequestError::NoRequest)?;
        let direction = match op {
            OP_READ => Direction::Read,
            OP_WRITE => Direction::Write,
            _ => return Err(RequestError::NoRequest),
        };
        let malformed = RequestError::Refused(MALFORMED);
        let (name, rest) = next_string(rest).ok_or(malformed)?;
        let (mode, rest) = next_string(rest).ok_or(malformed)?;
        let mode = match mode.to_ascii_lowercase().as_slice() {
            b"netascii" => Mode::Netascii,
            // Some clients that predate RFC 1350 send "binary".
            b"octet" | b"binary" => Mode::Octet,
            b"mail" => return Err(RequestError::Refused(MAIL)),
            _ => return Err(RequestError::Refused(UNKNOWN_MODE)),
        };
        if name.is_empty() {
            return Err(malformed);
        }
        // Unparsable options are ignored, since some clients pad their requests.
        let options = Options::parse(rest).unwrap_or_default();
        Ok(Self { direction, name: name.to_vec(), mode, options })
    }

    /// Returns the packet, or `None` if the name is empty, contains a NUL or makes the request
    /// longer than [`REQUEST_MAX_LEN`].
    #[must_use]
    pub fn emit(&self) -> Option<Vec<u8>> {
        if self.name.is_empty() || self.name.contains(&0) {
            return None;
        }
        let op = match self.direction {
            Direction::Read => OP_READ,
            Direction::Write => OP_WRITE,
        };
        let mut packet = op.to_be_bytes().to_vec();
        packet.extend_from_slice(&self.name);
        packet.push(0);
        packet.extend_from_slice(match self.mode {
            Mode::Netascii => b"netascii\0",
            Mode::Octet => b"octet\0",
        });
        self.options.emit(&mut packet);
        (packet.len() <= REQUEST_MAX_LEN).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_mode_of_a_request_ignores_case() {
        let request = Request::parse(b"\0\x01boot/kernel\0OcTeT\0tsize\x000\0").unwrap();
        assert_eq!(request.direction, Direction::Read);
        assert_eq!(request.name, b"boot/kernel");
        assert_eq!(request.mode, Mode::Octet);
        assert_eq!(request.options.transfer_size, Some(0));
    }

    #[test]
    fn mail_is_refused_with_a_reason() {
        let error = Request::parse(b"\0\x02someone\0mail\0").unwrap_err();
        assert_eq!(error, RequestError::Refused(MAIL));
    }

    #[test]
    fn only_requests_are_answered() {
        for datagram in [&b""[..], b"\0", b"\0\x03\0\x01", b"\x01\0a\0octet\0"] {
            assert_eq!(Request::parse(datagram), Err(RequestError::NoRequest));
        }
    }

    #[test]
    fn padding_after_the_mode_is_ignored() {
        let request = Request::parse(b"\0\x01a\0octet\0\0\0\0").unwrap();
        assert!(request.options.is_empty());
    }

    #[test]
    fn a_name_that_does_not_fit_into_a_request_is_refused() {
        let options = Options::default();
        let request = |name: Vec<u8>| Request {
            direction: Direction::Read,
            name,
            mode: Mode::Octet,
            options,
        };
        assert_eq!(request(alloc::vec![b'a'; REQUEST_MAX_LEN]).emit(), None);
        assert_eq!(request(b"a\0b".to_vec()).emit(), None);
        assert_eq!(request(Vec::new()).emit(), None);
    }

    proptest! {
        #[test]
        fn an_emitted_request_is_parsed_back_equal(
            name in proptest::collection::vec(1_u8.., 1..100),
            is_read: bool,
            is_text: bool,
            window_size in proptest::option::of(1_u16..),
        ) {
            let request = Request {
                direction: if is_read { Direction::Read } else { Direction::Write },
                name,
                mode: if is_text { Mode::Netascii } else { Mode::Octet },
                options: Options { window_size, ..Options::default() },
            };
            prop_assert_eq!(Request::parse(&request.emit().unwrap()), Ok(request));
        }
    }
}
