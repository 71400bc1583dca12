//! A record as one line of JSON, and back.
//!
//! The line is flat: `schema`, `record_id`, then each field that is known under its own name. A
//! control in a name is escaped twice, by [`Text`] and by JSON, so that no name ends a line. A
//! reader passes over fields that it does not know and takes a value of another type as unknown;
//! the schema's number does not matter to it.

use super::json;
use super::schema::{Host, Ncp, OwnStack, Tcp, Transfer};
use super::value::{Field, Identifier, Text, Value};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The longest line, with its end, in bytes; several lines still go into one write of a page.
pub const LINE_MAX_BYTES: usize = 2048;

/// To how many bytes each text is cut, one after the other, until the line fits.
const TEXT_LIMITS: [usize; 5] = [255, 128, 64, 24, 8];

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRecord {
    /// It is no JSON object: torn, or something else.
    NotJson,
    /// It has no name.
    Nameless,
}

impl Transfer {
    /// Returns the record as one line of JSON, with its end, of at most [`LINE_MAX_BYTES`].
    ///
    /// A record that does not fit has its texts cut, and if that does not help is without TCP and
    /// host; `is_shortened` tells so.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Vec::with_capacity(LINE_MAX_BYTES);
        self.push_line(&mut line);
        // JSON is text.
        String::from_utf8(line).unwrap_or_default()
    }

    /// Adds [`Self::to_line`] to `lines`.
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

    /// Reads a line of a journal.
    ///
    /// # Errors
    ///
    /// If it is torn or no record.
    pub fn from_line(line: &str) -> Result<Self, NoRecord> {
        let read: Self = serde_json::from_str(line).map_err(|_| NoRecord::NotJson)?;
        if read.record_id == Identifier::default() { Err(NoRecord::Nameless) } else { Ok(read) }
    }
}

/// Cuts every text of `transfer` that is longer than `limit` bytes.
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

/// The name of a field, borrowed where it has no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(FoundVisitor)? {
            Found::Text(name) => Ok(Self(name)),
            Found::Number(_) | Found::Other => Ok(Self(Cow::Borrowed(""))),
        }
    }
}

/// What stands in a field of a line, whatever it is.
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
