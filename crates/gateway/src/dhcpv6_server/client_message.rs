//! The messages of DHCPv6 that a server receives (RFC 8415 §8, §21).
//!
//! A message is parsed completely or rejected: an option that extends beyond the message or beyond
//! the option that contains it makes the message invalid. Unknown options are skipped.

use std::net::Ipv6Addr;

/// Maximum length of a DUID in bytes, with its type (RFC 8415 §11.1).
const DUID_MAX_LEN: usize = 130;
/// Minimum length of a DUID in bytes, with its type (RFC 8415 §11.1).
const DUID_MIN_LEN: usize = 3;
/// Maximum number of identity associations that are read from one message.
const ASSOCIATIONS_MAX: usize = 4;
/// Maximum number of addresses that are read from one identity association.
const ADDRESSES_MAX: usize = 4;

pub(super) const CLIENT_ID: u16 = 1;
pub(super) const SERVER_ID: u16 = 2;
pub(super) const IA_NA: u16 = 3;
pub(super) const IA_ADDRESS: u16 = 5;
pub(super) const STATUS_CODE: u16 = 13;
pub(super) const RAPID_COMMIT: u16 = 14;
pub(super) const DNS_SERVERS: u16 = 23;
pub(super) const DOMAIN_LIST: u16 = 24;

/// Types of the messages of clients (RFC 8415 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Solicit,
    Request,
    Confirm,
    Renew,
    Rebind,
    Release,
    Decline,
    InformationRequest,
}

impl Kind {
    fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Solicit),
            3 => Some(Self::Request),
            4 => Some(Self::Confirm),
            5 => Some(Self::Renew),
            6 => Some(Self::Rebind),
            8 => Some(Self::Release),
            9 => Some(Self::Decline),
            11 => Some(Self::InformationRequest),
            _ => None,
        }
    }
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) kind: Kind,
    pub(super) transaction: [u8; 3],
    pub(super) client_id: Option<&'a [u8]>,
    pub(super) server_id: Option<&'a [u8]>,
    pub(super) has_rapid_commit: bool,
    /// Identity associations for addresses that are not temporary; at most four.
    pub(super) associations: Vec<Association>,
}

/// An identity association (RFC 8415 §21.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Association {
    pub(super) id: [u8; 4],
    /// Addresses that the client has or prefers; at most four.
    pub(super) addresses: Vec<Ipv6Addr>,
}

impl<'a> Message<'a> {
    /// Parses the message of a client, or returns `None` if it is malformed or of another type.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let ([kind, transaction @ ..], options) = bytes.split_first_chunk::<4>()?;
        let mut message = Self {
            kind: Kind::from_code(*kind)?,
            transaction: *transaction,
            client_id: None,
            server_id: None,
            has_rapid_commit: false,
            associations: Vec::new(),
        };
        for_each_option(options, |code, value| message.set_option(code, value))?;
        Some(message)
    }

    fn set_option(&mut self, code: u16, value: &'a [u8]) -> Option<()> {
        match code {
            CLIENT_ID => set_once(&mut self.client_id, duid(value)?)?,
            SERVER_ID => set_once(&mut self.server_id, duid(value)?)?,
            RAPID_COMMIT => self.has_rapid_commit = true,
            IA_NA => {
                let association = Association::parse(value)?;
                if self.associations.len() < ASSOCIATIONS_MAX {
                    self.associations.push(association);
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl Association {
    fn parse(value: &[u8]) -> Option<Self> {
        // T1 and T2 are hints, which the server ignores.
        let ([i0, i1, i2, i3, ..], options) = value.split_first_chunk::<12>()?;
        let mut association = Self { id: [*i0, *i1, *i2, *i3], addresses: Vec::new() };
        for_each_option(options, |code, value| {
            if code == IA_ADDRESS {
                // The address is followed by two lifetimes and options.
                let (address, _) = value.split_first_chunk::<24>()?;
                let address = Ipv6Addr::from(*address.first_chunk::<16>()?);
                if association.addresses.len() < ADDRESSES_MAX {
                    association.addresses.push(address);
                }
            }
            Some(())
        })?;
        Some(association)
    }
}

/// Calls `process` with code and value of each option. Returns `None` if an option is truncated, or
/// if `process` returns `None`.
fn for_each_option<'a>(
    mut bytes: &'a [u8],
    mut process: impl FnMut(u16, &'a [u8]) -> Option<()>,
) -> Option<()> {
    while !bytes.is_empty() {
        let ([c0, c1, l0, l1], rest) = bytes.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_be_bytes([*l0, *l1]));
        let (value, rest) = rest.split_at_checked(len)?;
        process(u16::from_be_bytes([*c0, *c1]), value)?;
        bytes = rest;
    }
    Some(())
}

fn duid(value: &[u8]) -> Option<&[u8]> {
    (DUID_MIN_LEN..=DUID_MAX_LEN).contains(&value.len()).then_some(value)
}

fn set_once<'a>(field: &mut Option<&'a [u8]>, value: &'a [u8]) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

/// Appends an option. A value that is too long for an option is left out.
pub(super) fn push_option(bytes: &mut Vec<u8>, code: u16, value: &[u8]) {
    let Ok(len) = u16::try_from(value.len()) else { return };
    bytes.extend(code.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend(value);
}
