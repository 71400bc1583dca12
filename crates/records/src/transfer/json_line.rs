//! Conversion of a record to and from one line of JSON.
//!
//! The line is flat: `schema`, `record_id`, then each known field under its own name. Control
//! characters in text are escaped twice, by [`Text`] and by JSON, so that no text can end a line. A
//! reader skips fields that it does not know and treats a value of the wrong type as unknown. It
//! accepts the field names of all schemas, and ignores the schema number.

use super::json_writer;
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
pub enum LineError {
    /// The line is not a JSON object: torn, or other text.
    NotJson,
    /// The record has no `record_id`.
    NoRecordId,
}

impl Transfer {
    /// Returns the record as one line of JSON, with its newline, of at most [`LINE_MAX_BYTES`].
    ///
    /// If a record does not fit, its texts are truncated; if it still does not fit, the groups TCP,
    /// host, own stack and NCP are dropped. In both cases the field `truncated` is set.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = Vec::with_capacity(LINE_MAX_BYTES);
        self.push_line(&mut line);
        // JSON is UTF-8.
        String::from_utf8(line).unwrap_or_default()
    }

    /// Appends the line of [`Self::to_line`] to `lines`.
    pub fn push_line(&self, lines: &mut Vec<u8>) {
        let start = lines.len();
        json_writer::push(self, lines);
        if lines.len() - start <= LINE_MAX_BYTES {
            return;
        }
        let mut short_record = self.clone();
        short_record.identity.truncated = Some(true);
        for limit in TEXT_LIMITS {
            lines.truncate(start);
            truncate_texts(&mut short_record, limit);
            json_writer::push(&short_record, lines);
            if lines.len() - start <= LINE_MAX_BYTES {
                return;
            }
        }
        short_record.host = Host::default();
        short_record.tcp = Tcp::default();
        short_record.own_stack = OwnStack::default();
        short_record.ncp = Ncp::default();
        lines.truncate(start);
        json_writer::push(&short_record, lines);
    }

    /// Parses a line of a journal, of this schema or of schema 1.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is torn or not a record.
    pub(crate) fn from_line(line: &str) -> Result<Self, LineError> {
        let read: Self = serde_json::from_str(line).map_err(|_| LineError::NotJson)?;
        if read.record_id == Identifier::default() { Err(LineError::NoRecordId) } else { Ok(read) }
    }
}

/// Truncates every text of `transfer` that is longer than `limit` bytes.
fn truncate_texts(transfer: &mut Transfer, limit: usize) {
    let mut long_texts = Vec::new();
    transfer.visit(|at, _, value| {
        if let Value::Text(bytes) = value
            && let Some(head) = bytes.get(..limit)
        {
            long_texts.push((at, Text::from(head)));
        }
    });
    for (at, text) in long_texts {
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
        while let Some((Key(name), value)) = map.next_entry::<Key<'de>, FieldValue<'de>>()? {
            match value {
                FieldValue::Text(text) if name == "record_id" => {
                    transfer.record_id = Identifier::from_text(&text).unwrap_or_default();
                }
                FieldValue::Text(text) => transfer.set_text(&name, &text),
                FieldValue::Number(number) => transfer.set_number(&name, number),
                FieldValue::Other => {}
            }
        }
        Ok(transfer)
    }
}

/// The name of a field, borrowed if it contains no escapes.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(FieldValueVisitor)? {
            FieldValue::Text(name) => Ok(Self(name)),
            FieldValue::Number(_) | FieldValue::Other => Ok(Self(Cow::Borrowed(""))),
        }
    }
}

/// The value of a field of a line, of any type.
enum FieldValue<'de> {
    Text(Cow<'de, str>),
    /// A number, or a flag as 0 or 1.
    Number(u64),
    Other,
}

impl<'de> Deserialize<'de> for FieldValue<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldValueVisitor)
    }
}

struct FieldValueVisitor;

impl<'de> Visitor<'de> for FieldValueVisitor {
    type Value = FieldValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(FieldValue::Number(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(FieldValue::Number(flag.into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(FieldValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(FieldValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(FieldValue::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(FieldValue::Other)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(FieldValue::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Other)
    }
}
