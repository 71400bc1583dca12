//! MSDP: variables of a MUD, whose values may contain lists and tables.
//!
//! VAR begins a name and VAL its value. A value is text, or an array of VALs between ARRAY_OPEN and
//! ARRAY_CLOSE, or a table of VARs with their VALs between TABLE_OPEN and TABLE_CLOSE. If more than
//! one VAL follows a name, its value is the array of them. There is no escape: text cannot contain
//! a byte below 7.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

const VAR: u8 = 1;
const VAL: u8 = 2;
const TABLE_OPEN: u8 = 3;
const TABLE_CLOSE: u8 = 4;
const ARRAY_OPEN: u8 = 5;
const ARRAY_CLOSE: u8 = 6;

/// Maximum nesting depth of arrays and tables (our choice): three levels occur in practice.
const DEPTH_MAX: usize = 8;

/// An MSDP variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsdpVariable {
    /// Name of the variable, never empty.
    pub name: String,
    /// Value of the variable.
    pub value: MsdpValue,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MsdpValue {
    /// Text. Invalid UTF-8 is replaced.
    Text(String),
    /// An array of values.
    Array(Vec<Self>),
    /// A table of named values.
    Table(Vec<MsdpVariable>),
}

pub(super) fn parse(content: &[u8]) -> Option<Vec<MsdpVariable>> {
    let mut rest = content;
    let variables = variables(&mut rest, DEPTH_MAX)?;
    rest.is_empty().then_some(variables)
}

/// Returns the content of the subnegotiation for `variables`, or `None` if a text or a name
/// contains a byte below 7.
pub(in crate::telnet) fn content(variables: &[MsdpVariable]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    put_variables(&mut content, variables, DEPTH_MAX)?;
    Some(content)
}

fn variables(rest: &mut &[u8], depth: usize) -> Option<Vec<MsdpVariable>> {
    let mut variables = Vec::new();
    while let Some((&VAR, after)) = rest.split_first() {
        *rest = after;
        let name = text(rest);
        if name.is_empty() {
            return None;
        }
        let mut values = values(rest, depth)?;
        let value = match (values.pop(), values.is_empty()) {
            (Some(value), true) => value,
            (Some(value), false) => {
                values.push(value);
                MsdpValue::Array(values)
            }
            (None, _) => return None,
        };
        variables.push(MsdpVariable { name, value });
    }
    Some(variables)
}

fn values(rest: &mut &[u8], depth: usize) -> Option<Vec<MsdpValue>> {
    let mut values = Vec::new();
    while let Some((&VAL, after)) = rest.split_first() {
        *rest = after;
        values.push(value(rest, depth)?);
    }
    Some(values)
}

fn value(rest: &mut &[u8], depth: usize) -> Option<MsdpValue> {
    let (open, inside) = match rest.split_first() {
        Some((&open, inside)) if open == TABLE_OPEN || open == ARRAY_OPEN => (open, inside),
        _ => return Some(MsdpValue::Text(text(rest))),
    };
    let depth = depth.checked_sub(1)?;
    *rest = inside;
    let (value, close) = if open == TABLE_OPEN {
        (MsdpValue::Table(variables(rest, depth)?), TABLE_CLOSE)
    } else {
        (MsdpValue::Array(values(rest, depth)?), ARRAY_CLOSE)
    };
    *rest = rest.strip_prefix(&[close])?;
    Some(value)
}

/// Splits off the text before the next marker byte.
fn text(rest: &mut &[u8]) -> String {
    let end = rest.iter().position(|&byte| (VAR..=ARRAY_CLOSE).contains(&byte));
    let (text, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
    *rest = after;
    String::from_utf8_lossy(text).into_owned()
}

fn put_variables(content: &mut Vec<u8>, variables: &[MsdpVariable], depth: usize) -> Option<()> {
    for variable in variables {
        content.push(VAR);
        put_text(content, Some(variable.name.as_str()).filter(|name| !name.is_empty())?)?;
        content.push(VAL);
        put_value(content, &variable.value, depth)?;
    }
    Some(())
}

fn put_value(content: &mut Vec<u8>, value: &MsdpValue, depth: usize) -> Option<()> {
    match value {
        MsdpValue::Text(text) => put_text(content, text),
        MsdpValue::Array(values) => {
            content.push(ARRAY_OPEN);
            for value in values {
                content.push(VAL);
                put_value(content, value, depth.checked_sub(1)?)?;
            }
            content.push(ARRAY_CLOSE);
            Some(())
        }
        MsdpValue::Table(variables) => {
            content.push(TABLE_OPEN);
            put_variables(content, variables, depth.checked_sub(1)?)?;
            content.push(TABLE_CLOSE);
            Some(())
        }
    }
}

fn put_text(content: &mut Vec<u8>, text: &str) -> Option<()> {
    if text.bytes().any(|byte| (VAR..=ARRAY_CLOSE).contains(&byte)) {
        return None;
    }
    content.extend_from_slice(text.as_bytes());
    Some(())
}

impl fmt::Display for MsdpVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name.escape_debug(), self.value)
    }
}

impl fmt::Display for MsdpValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{}\"", text.escape_debug()),
            Self::Array(values) => {
                f.write_str("[")?;
                values.iter().try_for_each(|value| write!(f, " {value}"))?;
                f.write_str(" ]")
            }
            Self::Table(variables) => {
                f.write_str("{")?;
                variables.iter().try_for_each(|variable| write!(f, " {variable}"))?;
                f.write_str(" }")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;

    fn any_value() -> impl Strategy<Value = MsdpValue> {
        let text = "[ -~é]{0,6}".prop_map(MsdpValue::Text);
        text.prop_recursive(4, 20, 4, |inner| {
            let name_and_value = ("[A-Z]{1,4}", inner.clone());
            let variable = name_and_value.prop_map(|(name, value)| MsdpVariable { name, value });
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(MsdpValue::Array),
                prop::collection::vec(variable, 0..4).prop_map(MsdpValue::Table),
            ]
        })
    }

    proptest! {
        #[test]
        fn emitted_variables_are_parsed_back_equal(value in any_value()) {
            let variables = Vec::from([MsdpVariable { name: "A".into(), value }]);
            prop_assert_eq!(parse(&content(&variables).unwrap()), Some(variables));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(content in prop::collection::vec(0..9_u8, 0..300)) {
            _ = parse(&content);
        }
    }

    #[test]
    fn more_than_one_value_is_parsed_as_an_array() {
        let variables = parse(b"\x01REPORT\x02HP\x02MANA").unwrap();
        assert_eq!(format!("{}", variables[0]), "REPORT=[ \"HP\" \"MANA\" ]");
    }

    #[test]
    fn unlimited_nesting_of_arrays_is_refused() {
        let content = [b"\x01A\x02".as_slice(), &b"\x05\x02".repeat(8000)].concat();
        assert_eq!(parse(&content), None);
    }

    #[test]
    fn text_that_contains_a_marker_is_not_reported() {
        let value = MsdpValue::Text("a\u{1}b".into());
        assert_eq!(content(&[MsdpVariable { name: "A".into(), value }]), None);
    }
}
