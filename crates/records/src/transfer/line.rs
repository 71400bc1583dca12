//! Conversion of a record to and from one line of JSON.
//!
//! The line is flat: `schema`, `record_id`, then each known field under its own name. Control
//! characters in text are escaped twice, by [`Text`] and by JSON, so that no text can end a line. A
//! reader skips fields that it does not know and treats a value of the wrong type as unknown; it
//! ignores the schema number.

use super::json;
use super::schema::{Host, Ncp, OwnStack, Tcp, Transfer};
use super::value::{Field, Identifier, Text, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Maximum length of a line with its newline, bytes; several lines still fit into a write of one
/// page.
pub const LINE_MAX_BYTES: usize = 2048;

/// Lengths to which texts are truncated, tried in order until the line fits, bytes.
const TEXT_LIMITS: [usize; 5] = [255, 128, 64, 24, 8];

/// Reason why a line is not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// The line is not a JSON object: torn, or other text.
    NotJson,
    /// The record has no `record_id`.
    Nameless,
}

impl Transfer {
    /// Returns the record as one line of JSON, with its newline, of at most [`LINE_MAX_BYTES`].
    ///
    /// If a record does not fit, its texts are truncated; if it still does not fit, the groups TCP,
    /// host, own stack and NCP are dropped. `is_shortened` marks both.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Vec::with_capacity(LINE_MAX_BYTES);
        self.push_line(&mut line);
        // JSON is UTF-8.
        String::from_utf8(line).unwrap_or_default()
    }

    /// Appends the line of [`Self::to_line`] to `lines`.
    pub fn push_line(&self, lines: &mut Vec<u8>) {
        let began = lines.len();
        json::push(self, lines);
        if lines.len() - began <= LINE_MAX_BYTES {
            return;
        }
        let mut short = self.clone();
        short.identity.is_shortened = Some(true);
        for limit in TEXT_LIMITS {
            lines.truncate(began);
            cut_texts(&mut short, limit);
            json::push(&short, lines);
            if lines.len() - began <= LINE_MAX_BYTES {
                return;
            }
        }
        (short.host, short.tcp) = (Host::default(), Tcp::default());
        (short.own_stack, short.ncp) = (OwnStack::default(), Ncp::default());
        lines.truncate(began);
        json::push(&short, lines);
    }

    /// Parses a line of a journal.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is torn or not a record.
    pub fn from_line(line: &str) -> Result<Self, NoRecord> {
        let read: Self = serde_json::from_str(line).map_err(|_| NoRecord::NotJson)?;
        if read.record_id == Identifier::default() { Err(NoRecord::Nameless) } else { Ok(read) }
    }
}

/// Truncates every text of `transfer` that is longer than `limit` bytes.
fn cut_texts(transfer: &mut Transfer, limit: usize) {
    let mut long = Vec::new();
    transfer.visit(|at, _, value| {
        if let Value::Text(bytes) = value
            && let Some(head) = bytes.get(..limit)
        {
            long.push((at, Text::from(head)));
        }
    });
    for (at, text) in long {
        transfer.put_bytes(at.into(), text.as_bytes());
    }
}

impl<'de> Deserialize<'de> for Transfer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TransferVisitor)
    }
}

struct TransferVisitor;

impl<'de> Visitor<'de> for TransferVisitor {
    type Value = Transfer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transfer record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Transfer, A::Error> {
        let mut transfer = Transfer::default();
        while let Some((Key(name), found)) = map.next_entry::<Key<'de>, Found<'de>>()? {
            match found {
                Found::Text(text) if name == "record_id" => {
                    transfer.record_id = Identifier::from_text(&text).unwrap_or_default();
                }
                Found::Text(text) => transfer.set_text(&name, &text),
                Found::Number(number) => transfer.set_number(&name, number),
                Found::Other => {}
            }
        }
        Ok(transfer)
    }
}

/// The name of a field, borrowed if it contains no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(FoundVisitor)? {
            Found::Text(name) => Ok(Self(name)),
            Found::Number(_) | Found::Other => Ok(Self(Cow::Borrowed(""))),
        }
    }
}

/// The value of a field of a line, of any type.
enum Found<'de> {
    Text(Cow<'de, str>),
    /// A number, or a flag as 0 or 1.
    Number(u64),
    Other,
}

impl<'de> Deserialize<'de> for Found<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FoundVisitor)
    }
}

struct FoundVisitor;

impl<'de> Visitor<'de> for FoundVisitor {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Found::Number(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Found::Number(flag.into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Found::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Found::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Found::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Found::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Found::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Found::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Found::Other)
    }
}
