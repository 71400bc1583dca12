//! Conversion of a record to and from one line of JSON.
//!
//! The line is flat: `schema`, `record_id`, then each known field under its own name. Control
//! characters in text are escaped twice, by [`Text`] and by JSON, so that no text can end a line. A
//! reader skips fields that it does not know and treats a value of the wrong type as unknown. It
//! accepts the field names of all schemas, and ignores the schema number.

use super::SCHEMA;
use super::schema::{Host, Ncp, OwnStack, Tcp, Transfer};
use super::value::{Field, Identifier, Text, Value, escaped};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
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
        push(self, lines);
        if lines.len() - start <= LINE_MAX_BYTES {
            return;
        }
        let mut short_record = self.clone();
        short_record.identity.truncated = Some(true);
        for limit in TEXT_LIMITS {
            lines.truncate(start);
            truncate_texts(&mut short_record, limit);
            push(&short_record, lines);
            if lines.len() - start <= LINE_MAX_BYTES {
                return;
            }
        }
        short_record.host = Host::default();
        short_record.tcp = Tcp::default();
        short_record.own_stack = OwnStack::default();
        short_record.ncp = Ncp::default();
        lines.truncate(start);
        push(&short_record, lines);
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

/// Appends `transfer` to `lines` as one line, with its newline.
fn push(transfer: &Transfer, lines: &mut Vec<u8>) {
    // Writing to a Vec cannot fail, and every key is a string.
    _ = serde_json::to_writer(&mut *lines, transfer);
    lines.push(b'\n');
}

impl Serialize for Transfer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("schema", &SCHEMA)?;
        object.serialize_entry("record_id", &self.record_id.value())?;
        let mut result = Ok(());
        self.visit(|_, name, value| {
            if result.is_ok() {
                result = object.serialize_entry(name, &value);
            }
        });
        result?;
        object.end()
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Enum(word, _) => serializer.serialize_str(word),
            Self::Text(bytes) => serializer.serialize_str(&escaped(bytes)),
            Self::Identifier(_) | Self::Address(_) => serializer.collect_str(self),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::any_transfer;
    use proptest::prelude::*;

    #[test]
    fn an_address_with_a_scope_is_formatted_by_display() {
        let address = "[fe80::1%3]:21".parse().unwrap();
        let text = serde_json::to_string(&Value::Address(address)).unwrap();
        assert_eq!(text, "\"[fe80::1%3]:21\"");
    }

    proptest! {
        #[test]
        fn any_record_is_an_object_with_the_displayed_values(
            transfer in any_transfer(),
        ) {
            let mut line = Vec::new();
            push(&transfer, &mut line);
            let object: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let mut fields = 2;
            transfer.visit(|_, name, value| {
                fields += 1;
                let member = &object[name];
                let member = member.as_str().map_or_else(|| member.to_string(), str::to_owned);
                assert_eq!(member, value.to_string());
            });
            prop_assert_eq!(object.as_object().unwrap().len(), fields);
        }
    }
}
