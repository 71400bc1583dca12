//! Safe names for files whose names a remote host has chosen.

/// Name of a file without a usable name.
const DEFAULT_NAME: &str = "download";
/// Maximum length of a name in bytes. Our choice: a suffix must fit into 255 bytes.
const NAME_MAX_BYTES: usize = 200;

/// Returns a safe file name: the last component of `name` without control characters, without a
/// leading dot, which would hide the file, and without a leading hyphen, which programs would take
/// for an option.
pub(super) fn safe_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let name = name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
    let is_visible = |letter: char| !letter.is_control() && letter != char::REPLACEMENT_CHARACTER;
    let mut safe: String = name
        .trim()
        .chars()
        .map(|letter| if is_visible(letter) && !is_directional(letter) { letter } else { '_' })
        .collect();
    while safe.len() > NAME_MAX_BYTES {
        safe.pop();
    }
    match safe.chars().next() {
        None => DEFAULT_NAME.to_owned(),
        Some('.' | '-') => format!("_{}", safe.get(1..).unwrap_or_default()),
        Some(_) => safe,
    }
}

/// Returns whether a character is invisible or changes the direction of adjacent text.
fn is_directional(letter: char) -> bool {
    crate::escaped(letter.to_string().as_bytes()).len() != letter.len_utf8() && letter != '\\'
}

/// Returns `name` with a number before its extension, or `name` itself for the number 0.
pub(super) fn numbered(name: &str, number: u32) -> String {
    match (number, name.rsplit_once('.')) {
        (0, _) => name.to_owned(),
        (_, Some((stem, extension))) if !stem.is_empty() => format!("{stem}-{number}.{extension}"),
        _ => format!("{name}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_the_last_component_remains() {
        assert_eq!(safe_name(b"/etc/passwd"), "passwd");
        assert_eq!(safe_name(b"../../.ssh/authorized_keys"), "authorized_keys");
        assert_eq!(safe_name(b"C:\\DOS\\FORMAT.COM"), "FORMAT.COM");
        assert_eq!(safe_name("grün.txt".as_bytes()), "grün.txt");
    }

    #[test]
    fn hidden_names_options_and_empty_names_are_changed() {
        assert_eq!(safe_name(b".bashrc"), "_bashrc");
        assert_eq!(safe_name(b"-rf"), "_rf");
        assert_eq!(safe_name(b".."), "_.");
        assert_eq!(safe_name(b""), "download");
        assert_eq!(safe_name(b"a\x1b[2J\xff"), "a_[2J_");
        assert_eq!(safe_name("a\u{202e}txt".as_bytes()), "a_txt");
    }

    #[test]
    fn a_number_precedes_the_extension() {
        assert_eq!(numbered("a.txt", 0), "a.txt");
        assert_eq!(numbered("a.txt", 2), "a-2.txt");
        assert_eq!(numbered("README", 1), "README-1");
    }

    proptest! {
        #[test]
        fn any_name_becomes_safe(name: Vec<u8>) {
            let safe = safe_name(&name);
            prop_assert!(!safe.is_empty() && safe.len() <= NAME_MAX_BYTES + 1);
            prop_assert!(!safe.contains('/') && !safe.contains(char::is_control));
            prop_assert!(!safe.starts_with('.') && !safe.starts_with('-'));
        }
    }
}
