//! MSSP: properties of a MUD, for programs that compile lists of MUDs.
//!
//! VAR begins a name and VAL one of its values, all of which are text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

const VAR: u8 = 1;
const VAL: u8 = 2;

/// An MSSP variable and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MsspVariable {
    /// Name of the variable, never empty.
    pub name: String,
    /// Values, at least one. Invalid UTF-8 is replaced.
    pub values: Vec<String>,
}

pub(super) fn parse(content: &[u8]) -> Option<Vec<MsspVariable>> {
    let mut variables: Vec<MsspVariable> = Vec::new();
    let mut rest = content;
    while let Some((&marker, after)) = rest.split_first() {
        let end = after.iter().position(|&byte| byte == VAR || byte == VAL);
        let (text, more) = after.split_at_checked(end.unwrap_or(after.len()))?;
        let text = String::from_utf8_lossy(text).into_owned();
        match marker {
            VAR if !text.is_empty() => {
                variables.push(MsspVariable { name: text, values: Vec::new() });
            }
            VAL => variables.last_mut()?.values.push(text),
            _ => return None,
        }
        rest = more;
    }
    variables.iter().all(|variable| !variable.values.is_empty()).then_some(variables)
}

/// Returns the content of the subnegotiation for `variables`. Returns `None` if a variable has no
/// name or no value, or if a text contains a marker byte.
pub(in crate::telnet) fn content(variables: &[MsspVariable]) -> Option<Vec<u8>> {
    let is_text = |text: &str| !text.bytes().any(|byte| byte == VAR || byte == VAL);
    let mut content = Vec::new();
    for MsspVariable { name, values } in variables {
        if name.is_empty() || values.is_empty() || !is_text(name) {
            return None;
        }
        content.push(VAR);
        content.extend_from_slice(name.as_bytes());
        for value in values {
            content.push(VAL);
            content.extend_from_slice(Some(value).filter(|value| is_text(value))?.as_bytes());
        }
    }
    Some(content)
}

impl fmt::Display for MsspVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.name.escape_debug())?;
        self.values.iter().try_for_each(|value| write!(f, "\"{}\"", value.escape_debug()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn emitted_variables_are_parsed_back_equal(
            names in prop::collection::vec("[ -~é]{1,9}", 0..5),
            values in prop::collection::vec("[ -~é]{0,9}", 1..5)
        ) {
            let variable = |name| MsspVariable { name, values: values.clone() };
            let variables: Vec<_> = names.into_iter().map(variable).collect();
            prop_assert_eq!(parse(&content(&variables).unwrap()), Some(variables));
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(content in prop::collection::vec(0..5_u8, 0..100)) {
            _ = parse(&content);
        }
    }

    #[test]
    fn a_value_without_a_name_and_a_name_without_a_value_are_invalid() {
        assert_eq!(parse(b"\x02a"), None);
        assert_eq!(parse(b"\x01a\x01b\x02c"), None);
        assert_eq!(parse(b"\x01\x02c"), None);
    }
}
