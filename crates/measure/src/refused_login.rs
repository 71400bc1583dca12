//! Sentence about a refused login, with the message of the remote host.

use super::session_parameters::Login;
use records::escape;

/// Maximum number of characters of the message. Our choice.
const MESSAGE_MAX_CHARS: usize = 60;

/// Returns the sentence about a refused login. `answer` is the output of the remote host from the last
/// answer to a prompt up to the next prompt.
pub(super) fn refusal(answer: &[u8], login: Option<&Login>) -> String {
    let quote = message(answer, login).map(|message| format!(": '{message}'")).unwrap_or_default();
    format!("the login was refused{quote}; check --user and --password-file")
}

/// Returns the last line before the prompt, escaped; `None` if there is none, or if it may contain the
/// password.
fn message(answer: &[u8], login: Option<&Login>) -> Option<String> {
    let text = String::from_utf8_lossy(answer);
    // The prompt follows the last line end.
    let (before, _) = text.rsplit_once('\n')?;
    let line = before.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let password = login.and_then(|login| login.password.as_deref());
    if password.is_some_and(|password| !password.is_empty() && line.contains(password)) {
        return None;
    }
    Some(escape::terminal(line.chars().take(MESSAGE_MAX_CHARS).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal_of(answer: &[u8]) -> String {
        let login = Login { user: "ann".to_owned(), password: Some("secret".to_owned()) };
        refusal(answer, Some(&login))
    }

    #[test]
    fn the_message_before_the_prompt_is_quoted() {
        let sentence = refusal_of(b"\r\n\r\nLogin incorrect\r\n\r\nhost login: ");
        let expected = "the login was refused: 'Login incorrect'; check --user and --password-file";
        assert_eq!(sentence, expected);
        let escaped = refusal_of(b"\r\n\x1b[2JNo\xff\x07\r\nlogin: ");
        assert!(escaped.contains(r"'\x1b[2JNo"), "{escaped}");
        assert!(!escaped.contains(['\x1b', '\x07']), "{escaped}");
        let long = refusal_of(&[&[b'x'; 500], b"\r\nlogin: ".as_slice()].concat());
        assert!(long.len() < 140, "{long}");
    }

    #[test]
    fn without_a_message_or_with_the_password_in_it_nothing_is_quoted() {
        let plain = "the login was refused; check --user and --password-file";
        for answer in [b"login: ".as_slice(), b"\r\nlogin: ", b"", b"secret\r\nPassword: "] {
            assert_eq!(refusal_of(answer), plain);
        }
    }
}
