//! The parts of DNS messages that a forwarder checks (RFC 1035 §4.1).
//!
//! A message is parsed to its last record. A count that exceeds the records, a record that extends
//! beyond the message, or an invalid name makes the message malformed (row 107 of the attack table).
//! Names in the data of NS, CNAME, SOA, PTR, MX, SRV and DNAME records are checked, too, because
//! guests with weaker parsers expand them. Bytes after the last record are removed.

use crate::domain_name::{HEADER_LEN, skip_name, skip_plain_name};

/// Message size in bytes that every client accepts (RFC 1035 §4.2.1).
const SIZE_DEFAULT: usize = 512;
/// Type and class after the name of a question, in bytes.
const QUESTION_FIXED_LEN: usize = 4;
/// Type, class, lifetime and data length after the name of a record, in bytes.
const RECORD_FIXED_LEN: usize = 10;

/// QR: the message is a response.
const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
/// TC: the message is truncated.
const TRUNCATED: u8 = 0x02;
/// RD: the client desires recursion.
const RECURSION_DESIRED: u8 = 0x01;
/// RA: recursion is available.
const RECURSION_AVAILABLE: u8 = 0x80;
const RCODE: u8 = 0x0F;

const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const SRV: u16 = 33;
const DNAME: u16 = 39;
/// EDNS (RFC 6891 §6.1.1). The class of the record is the maximum size of a response.
const OPT: u16 = 41;

/// Response codes (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseCode(pub(super) u8);

impl ResponseCode {
    pub(super) const FORMAT_ERROR: Self = Self(1);
    pub(super) const SERVER_FAILURE: Self = Self(2);
    pub(super) const NOT_IMPLEMENTED: Self = Self(4);
    pub(super) const REFUSED: Self = Self(5);

    /// Returns whether another resolver may have an answer.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::SERVER_FAILURE | Self::NOT_IMPLEMENTED | Self::REFUSED)
    }
}

/// A query of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// The message without the bytes after the last record.
    message: Vec<u8>,
    /// Offset after the question.
    question_end: usize,
    /// Maximum length of the response in bytes.
    size_max: usize,
}

/// Reasons why a query is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryError {
    /// The message has no complete header, or is a response: it must not be answered.
    NotAQuery,
    /// The message is malformed.
    Format,
    /// The operation is not a query.
    Operation,
}

/// A response to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) code: ResponseCode,
    /// The response as it is sent to the guest, without the guest's identifier.
    pub(super) message: Vec<u8>,
    /// Whether records were removed, because the response is too long for the guest.
    pub(super) is_shortened: bool,
}

/// Reasons why a message is not the response to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseError {
    /// The message is malformed, or not a response.
    Format,
    /// The identifier differs from that of the query.
    Identifier,
    /// The question differs from that of the query.
    Question,
}

impl Query {
    /// Parses a query.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, QueryError> {
        let header = Header::parse(bytes).ok_or(QueryError::NotAQuery)?;
        if header.is_response() {
            return Err(QueryError::NotAQuery);
        }
        if header.flags.0 & OPCODE != 0 {
            return Err(QueryError::Operation);
        }
        let question_end = question_end(bytes, &header).ok_or(QueryError::Format)?;
        let records = walk_records(bytes, question_end, &header).ok_or(QueryError::Format)?;
        let message = bytes.get(..records.end).ok_or(QueryError::Format)?.to_vec();
        let size_max = records.size_max.map_or(SIZE_DEFAULT, |size| size.max(SIZE_DEFAULT));
        Ok(Self { message, question_end, size_max })
    }

    /// Returns the identifier that the guest has chosen.
    pub(super) fn id(&self) -> u16 {
        Header::parse(&self.message).map_or(0, |header| header.id)
    }

    /// Returns the question: name, type and class.
    pub(super) fn question(&self) -> &[u8] {
        self.message.get(HEADER_LEN..self.question_end).unwrap_or_default()
    }

    /// Returns the query with another identifier.
    pub(super) fn with_id(&self, id: u16) -> Vec<u8> {
        with_id(self.message.clone(), id)
    }

    /// Parses the response to this query, which was sent with the identifier `id`. The response to
    /// the guest is limited to `len_max` bytes and to the size that the guest accepts.
    pub(super) fn parse_response(
        &self,
        bytes: &[u8],
        id: u16,
        len_max: usize,
    ) -> Result<Response, ResponseError> {
        let header = Header::parse(bytes).ok_or(ResponseError::Format)?;
        if !header.is_response() || header.flags.0 & OPCODE != 0 {
            return Err(ResponseError::Format);
        }
        if header.id != id {
            return Err(ResponseError::Identifier);
        }
        let code = ResponseCode(header.flags.1 & RCODE);
        // A server that cannot parse a query, or does not serve the client, may omit the question.
        if header.counts == [0; 4] && (code.is_failure() || code == ResponseCode::FORMAT_ERROR) {
            return Ok(Response { code, message: self.error(code), is_shortened: false });
        }
        let question_end = question_end(bytes, &header).ok_or(ResponseError::Format)?;
        // The case of letters is compared, too: a forged response has to guess it.
        if bytes.get(HEADER_LEN..question_end) != Some(self.question()) {
            return Err(ResponseError::Question);
        }
        let is_truncated = header.flags.0 & TRUNCATED != 0;
        let records = walk_records(bytes, question_end, &header);
        let message = records.and_then(|records| bytes.get(..records.end));
        match message {
            Some(message) if message.len() <= self.size_max.min(len_max) => {
                Ok(Response { code, message: message.to_vec(), is_shortened: false })
            }
            // A truncated response may end inside a record.
            None if !is_truncated => Err(ResponseError::Format),
            _ => {
                let message = self.truncated(header.flags);
                Ok(Response { code, message, is_shortened: !is_truncated })
            }
        }
    }

    /// Returns a response with this code and the question alone.
    pub(super) fn error(&self, code: ResponseCode) -> Vec<u8> {
        let flags = (self.echoed_flags(), RECURSION_AVAILABLE | code.0);
        self.response_without_records(flags)
    }

    /// Returns a response without records, which makes the guest repeat its query over TCP.
    fn truncated(&self, flags: (u8, u8)) -> Vec<u8> {
        self.response_without_records((flags.0 | TRUNCATED, flags.1))
    }

    fn response_without_records(&self, flags: (u8, u8)) -> Vec<u8> {
        let [i0, i1] = self.id().to_be_bytes();
        let header = [i0, i1, flags.0, flags.1, 0, 1, 0, 0, 0, 0, 0, 0];
        [&header, self.question()].concat()
    }

    fn echoed_flags(&self) -> u8 {
        let flags = Header::parse(&self.message).map_or(0, |header| header.flags.0);
        RESPONSE | flags & RECURSION_DESIRED
    }
}

/// Returns the response to a query that cannot be parsed, or `None` if its header is incomplete.
pub(super) fn error_without_question(query: &[u8], code: ResponseCode) -> Option<Vec<u8>> {
    let header = Header::parse(query)?;
    let [i0, i1] = header.id.to_be_bytes();
    let flags = RESPONSE | header.flags.0 & (OPCODE | RECURSION_DESIRED);
    Some(vec![i0, i1, flags, RECURSION_AVAILABLE | code.0, 0, 0, 0, 0, 0, 0, 0, 0])
}

/// Replaces the identifier of a message.
pub(super) fn with_id(mut message: Vec<u8>, id: u16) -> Vec<u8> {
    if let Some(field) = message.first_chunk_mut() {
        *field = id.to_be_bytes();
    }
    message
}

/// The header of a message.
#[derive(Clone, Copy, Debug)]
struct Header {
    id: u16,
    /// The two bytes of flags, operation and response code.
    flags: (u8, u8),
    /// Numbers of questions, answers, authorities and additional records.
    counts: [u16; 4],
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [i0, i1, f0, f1, q0, q1, a0, a1, n0, n1, r0, r1] =
            *bytes.first_chunk::<HEADER_LEN>()?;
        let counts = [[q0, q1], [a0, a1], [n0, n1], [r0, r1]].map(u16::from_be_bytes);
        Some(Self { id: u16::from_be_bytes([i0, i1]), flags: (f0, f1), counts })
    }

    fn is_response(&self) -> bool {
        self.flags.0 & RESPONSE != 0
    }
}

/// Returns the offset after the only question of a message.
fn question_end(bytes: &[u8], header: &Header) -> Option<usize> {
    let [1, ..] = header.counts else { return None };
    let name_end = skip_plain_name(bytes, HEADER_LEN).ok()?;
    let end = name_end + QUESTION_FIXED_LEN;
    (end <= bytes.len()).then_some(end)
}

/// The records of a message.
#[derive(Clone, Copy, Debug)]
struct Records {
    /// Offset after the last record.
    end: usize,
    /// Maximum size of a response, from the OPT record.
    size_max: Option<usize>,
}

/// Checks the records that begin at `at`. Returns `None` if they are malformed.
fn walk_records(bytes: &[u8], at: usize, header: &Header) -> Option<Records> {
    let [_, answers, authorities, additional] = header.counts.map(u32::from);
    let mut records = Records { end: at, size_max: None };
    // Each record has at least eleven bytes, so a large count ends at the end of the message.
    for _ in 0..answers + authorities + additional {
        let name_end = skip_name(bytes, records.end).ok()?;
        let (fixed, _) = bytes.get(name_end..)?.split_first_chunk::<RECORD_FIXED_LEN>()?;
        let [t0, t1, c0, c1, _, _, _, _, l0, l1] = *fixed;
        let kind = u16::from_be_bytes([t0, t1]);
        let data = name_end + RECORD_FIXED_LEN;
        let end = data + usize::from(u16::from_be_bytes([l0, l1]));
        let message = bytes.get(..end)?;
        has_valid_names(message, kind, data).then_some(())?;
        if kind == OPT {
            records.size_max = Some(u16::from_be_bytes([c0, c1]).into());
        }
        records.end = end;
    }
    Some(records)
}

/// Returns whether the names in the data of a record are valid. The data begins at `at` and occupies
/// the rest of `message`.
fn has_valid_names(message: &[u8], kind: u16, at: usize) -> bool {
    // The length of the fields before and after the names, and the number of names.
    let (before, names, after) = match kind {
        NS | CNAME | PTR | DNAME => (0, 1, 0),
        MX => (2, 1, 0),
        SRV => (6, 1, 0),
        SOA => (0, 2, 20),
        _ => return true,
    };
    let end = (0..names).try_fold(at + before, |at, _| skip_name(message, at));
    end.is_ok_and(|end| end + after == message.len())
}
