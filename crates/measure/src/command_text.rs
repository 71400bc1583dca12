//! The command line of a report, quoted for a shell, without passwords.

use std::ffi::OsStr;
use std::path::Path;

/// Replacement of a password.
const MASK: &str = "***";
/// Options whose value is a password.
const PASSWORD_OPTIONS: &[&str] = &["--password"];

/// Returns a command line that a shell splits into the same `arguments`. The program is reduced to
/// its file name. Passwords of options and URLs are replaced by asterisks.
pub fn command_text<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> String {
    let mut words = Vec::new();
    let mut is_password = false;
    for (at, argument) in arguments.into_iter().enumerate() {
        let file_name = Path::new(argument).file_name().unwrap_or(argument);
        let text = if at == 0 { file_name } else { argument }.to_string_lossy();
        let word = match (is_password, text.split_once('=')) {
            (true, _) => MASK.to_owned(),
            (false, Some((option, _))) if PASSWORD_OPTIONS.contains(&option) => {
                format!("{option}={MASK}")
            }
            (false, _) => without_password(&text),
        };
        is_password = PASSWORD_OPTIONS.contains(&text.as_ref());
        // A word with a null byte cannot be quoted, and cannot be an argument.
        words
            .push(shlex::try_quote(&word).map_or_else(|_| String::new(), |text| text.into_owned()));
    }
    words.join(" ")
}

/// Returns `text` with the passwords of its URLs masked.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority_len = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at_checked(authority_len).unwrap_or((rest, ""));
    let authority = match authority.rsplit_once('@') {
        Some((user_info, host)) => match user_info.split_once(':') {
            Some((user, _)) => format!("{user}:{MASK}@{host}"),
            None => authority.to_owned(),
        },
        None => authority.to_owned(),
    };
    format!("{scheme}://{authority}{}", without_password(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &[&str]) -> String {
        command_text(words.iter().map(OsStr::new))
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["/usr/bin/plumb", "measure", "--exec", "ssh host", "a'b"];
        let text = text(&words);
        assert_eq!(shlex::split(&text).unwrap()[1..], words[1..]);
        assert!(text.starts_with("plumb measure --exec 'ssh host' "), "{text}");
    }

    #[test]
    fn passwords_are_masked() {
        let masked = text(&["plumb", "--password", "secret", "--password=secret", "--user", "me"]);
        assert_eq!(masked, "plumb --password '***' '--password=***' --user me");
        for url in
            ["ftp://me:secret@host/a@b", "ftp://me:se@cret@host:21", "ftpes://me:secret@[::1]/"]
        {
            let masked = text(&["plumb", url]);
            assert!(!masked.contains("secret") && !masked.contains("cret@"), "{masked}");
            assert!(masked.contains("://me:***@"), "{masked}");
        }
        let plain = "ftp://me@host/dir;type=i";
        assert_eq!(without_password(plain), plain);
    }
}
