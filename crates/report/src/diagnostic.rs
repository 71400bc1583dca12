//! Messages of a command on the standard error: results without a label, and notes, warnings and
//! errors with the name of the program and a label.

use crate::table::wrap;
use records::severity::Severity;

/// Returns the message of the program `plumb` without a line end, wrapped at `columns` if these are
/// known. With `has_color`, the label is in the color that other programs use for it.
#[must_use]
pub fn diagnostic(
    severity: Severity,
    sentence: &str,
    columns: Option<usize>,
    has_color: bool,
) -> String {
    let prefix = severity.label().map(|label| format!("plumb: {label}:"));
    let text = match &prefix {
        Some(prefix) => format!("{prefix} {sentence}"),
        None => sentence.to_owned(),
    };
    let text = match columns {
        Some(columns) if columns > 0 => wrap(&text, columns).join("\n"),
        _ => text,
    };
    let color = match severity {
        Severity::Info => return text,
        Severity::Note => 36,
        Severity::Warning => 33,
        Severity::Error => 31,
    };
    match prefix.as_ref().and_then(|prefix| Some((prefix, text.strip_prefix(prefix)?))) {
        Some((prefix, rest)) if has_color => {
            let label = prefix.trim_start_matches("plumb: ");
            format!("plumb: \x1b[1;{color}m{label}\x1b[0m{rest}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_no_label_and_other_messages_have_their_severity() {
        let text = |severity| diagnostic(severity, "x", None, false);
        let all = [Severity::Info, Severity::Note, Severity::Warning, Severity::Error].map(text);
        assert_eq!(all, ["x", "plumb: note: x", "plumb: warning: x", "plumb: error: x"]);
    }

    #[test]
    fn a_message_is_wrapped_at_words_only_on_a_terminal() {
        let sentence = "10.0.0.1:99 refuses the connection: check the port";
        let text = |columns| diagnostic(Severity::Error, sentence, columns, false);
        let expected = "plumb: error: 10.0.0.1:99 refuses the\nconnection: check the port";
        assert_eq!(text(Some(40)), expected);
        assert_eq!(text(None), format!("plumb: error: {sentence}"));
    }

    #[test]
    fn only_the_label_is_colored() {
        let text = |severity| diagnostic(severity, "x", Some(80), true);
        assert_eq!(text(Severity::Info), "x");
        assert_eq!(text(Severity::Note), "plumb: \x1b[1;36mnote:\x1b[0m x");
        assert_eq!(text(Severity::Warning), "plumb: \x1b[1;33mwarning:\x1b[0m x");
        assert_eq!(text(Severity::Error), "plumb: \x1b[1;31merror:\x1b[0m x");
        let narrow = diagnostic(Severity::Error, "x", Some(7), true);
        assert!(!narrow.contains("\x1b[0m x"), "{narrow:?}");
    }
}
