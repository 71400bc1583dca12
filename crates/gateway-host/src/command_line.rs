//! Command lines in the conventions of getopt_long(3), which slirp4netns and pasta use.
//!
//! An option is written `-m 1500`, `-m1500`, `--mtu 1500`, `--mtu=1500`, or `--mt 1500` if no other
//! option begins so; short options without values may share a word (`-46`). `--` ends the options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// An option of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionName<O> {
    /// Value that identifies the option.
    pub(crate) option: O,
    /// Short name, without the hyphen.
    pub(crate) short: Option<u8>,
    /// Long name, without the hyphens.
    pub(crate) long: &'static str,
    pub(crate) has_value: bool,
}

/// Where options may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Before, between and after the operands.
    Any,
    /// Before the first operand only. All words from there on are operands.
    First,
}

/// A part of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word<O> {
    /// An option with its value.
    Option(O, Option<OsString>),
    /// An operand.
    Operand(OsString),
}

/// Splits `arguments`, which do not contain the name of the program.
///
/// # Errors
///
/// Returns the text of getopt_long(3), without the name of the program.
pub(crate) fn split<O: Copy>(
    arguments: &[OsString],
    options: &[OptionName<O>],
    order: Order,
) -> Result<Vec<Word<O>>, String> {
    let mut words = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            words.extend(rest.by_ref().cloned().map(Word::Operand));
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            words.push(long_option(long, options, &mut rest)?);
        } else if bytes.len() > 1
            && let Some(letters) = bytes.strip_prefix(b"-")
        {
            short_options(letters, options, &mut rest, &mut words)?;
        } else {
            words.push(Word::Operand(argument.clone()));
            if order == Order::First {
                words.extend(rest.by_ref().cloned().map(Word::Operand));
            }
        }
    }
    Ok(words)
}

fn long_option<'a, O: Copy>(
    text: &[u8],
    options: &[OptionName<O>],
    rest: &mut impl Iterator<Item = &'a OsString>,
) -> Result<Word<O>, String> {
    let (name, value) = match text.iter().position(|byte| *byte == b'=') {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let display = String::from_utf8_lossy(name).into_owned();
    let is_exact = |option: &&OptionName<O>| option.long.as_bytes() == name;
    let mut abbreviated = options.iter().filter(|option| option.long.as_bytes().starts_with(name));
    let option = match options.iter().find(is_exact) {
        Some(option) => option,
        None => match (abbreviated.next(), abbreviated.next()) {
            (Some(option), None) => option,
            (None, _) => return Err(format!("unrecognized option '--{display}'")),
            (Some(_), Some(_)) => return Err(format!("option '--{display}' is ambiguous")),
        },
    };
    let value = match (option.has_value, value) {
        (false, None) => None,
        (false, Some(_)) => {
            return Err(format!("option '--{}' doesn't allow an argument", option.long));
        }
        (true, Some(value)) => Some(OsString::from_vec(value.to_vec())),
        (true, None) => match rest.next() {
            Some(value) => Some(value.clone()),
            None => return Err(format!("option '--{}' requires an argument", option.long)),
        },
    };
    Ok(Word::Option(option.option, value))
}

fn short_options<'a, O: Copy>(
    letters: &[u8],
    options: &[OptionName<O>],
    rest: &mut impl Iterator<Item = &'a OsString>,
    words: &mut Vec<Word<O>>,
) -> Result<(), String> {
    let mut letters = letters.iter();
    while let Some(letter) = letters.next() {
        let name = char::from(*letter);
        let Some(option) = options.iter().find(|option| option.short == Some(*letter)) else {
            return Err(format!("invalid option -- '{name}'"));
        };
        if !option.has_value {
            words.push(Word::Option(option.option, None));
            continue;
        }
        let value = match letters.as_slice() {
            [] => match rest.next() {
                Some(value) => value.clone(),
                None => return Err(format!("option requires an argument -- '{name}'")),
            },
            value => OsStr::from_bytes(value).to_owned(),
        };
        words.push(Word::Option(option.option, Some(value)));
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [OptionName<char>; 4] = [
        OptionName { option: 'm', short: Some(b'm'), long: "mtu", has_value: true },
        OptionName { option: '4', short: Some(b'4'), long: "ipv4-only", has_value: false },
        OptionName { option: '6', short: Some(b'6'), long: "ipv6-only", has_value: false },
        OptionName { option: 'n', short: None, long: "no-mtu", has_value: false },
    ];

    fn split_text(text: &str, order: Order) -> Result<Vec<Word<char>>, String> {
        let arguments: Vec<OsString> = text.split_ascii_whitespace().map(Into::into).collect();
        split(&arguments, &OPTIONS, order)
    }

    fn mtu(value: &str) -> Word<char> {
        Word::Option('m', Some(value.into()))
    }

    #[test]
    fn a_value_is_in_the_same_word_or_in_the_next() {
        for text in ["-m 1500", "-m1500", "--mtu 1500", "--mtu=1500", "--mt 1500"] {
            assert_eq!(split_text(text, Order::Any), Ok(vec![mtu("1500")]), "{text}");
        }
    }

    #[test]
    fn short_options_share_a_word() {
        let both = vec![Word::Option('4', None), Word::Option('6', None)];
        assert_eq!(split_text("-46", Order::Any), Ok(both));
        assert_eq!(split_text("-4m9", Order::Any), Ok(vec![Word::Option('4', None), mtu("9")]));
    }

    #[test]
    fn operands_end_the_options_only_in_the_order_that_says_so() {
        let operand = |text: &str| Word::Operand(text.into());
        let any = vec![operand("7"), mtu("9"), operand("-")];
        assert_eq!(split_text("7 -m 9 -", Order::Any), Ok(any));
        let first = vec![mtu("9"), operand("sh"), operand("-m"), operand("8")];
        assert_eq!(split_text("-m 9 sh -m 8", Order::First), Ok(first));
        let ended = vec![mtu("9"), operand("-m"), operand("8")];
        assert_eq!(split_text("-m 9 -- -m 8", Order::Any), Ok(ended));
    }

    #[test]
    fn errors_have_the_texts_of_getopt() {
        for (text, error) in [
            ("--bogus", "unrecognized option '--bogus'"),
            ("--ipv", "option '--ipv' is ambiguous"),
            ("--no-mtu=1", "option '--no-mtu' doesn't allow an argument"),
            ("--mtu", "option '--mtu' requires an argument"),
            ("-m", "option requires an argument -- 'm'"),
            ("-x", "invalid option -- 'x'"),
        ] {
            assert_eq!(split_text(text, Order::Any), Err(error.into()), "{text}");
        }
    }
}
