//! Text of the commands that a session sends, for display. Passwords and accounts are masked.

use crate::escaped;

/// Returns the commands in the bytes of a control connection, one text per line.
pub(super) fn command_lines(output: &[u8]) -> Vec<String> {
    let lines = output.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| command_text(line.strip_suffix(b"\r").unwrap_or(line))).collect()
}

fn command_text(line: &[u8]) -> String {
    // The Telnet signals before ABOR (RFC 959 §4.1.3) are not part of the command.
    let start = line.iter().position(u8::is_ascii).unwrap_or(line.len());
    let command = line.get(start..).unwrap_or_default();
    let verb = command.split(|&byte| byte == b' ').next().unwrap_or_default();
    if verb.eq_ignore_ascii_case(b"PASS") || verb.eq_ignore_ascii_case(b"ACCT") {
        return format!("{} ****", escaped(verb));
    }
    escaped(command).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_command_is_a_line_without_its_line_end() {
        let lines = command_lines(b"EPSV\r\nRETR a b\x1b\r\n\xff\xf4\xff\xf2ABOR\r\n");
        assert_eq!(lines, ["EPSV", "RETR a b\\x1b", "ABOR"]);
    }

    proptest! {
        #[test]
        fn a_password_and_an_account_are_masked(
            secret in "[ -~]{1,20}", verb in "PASS|ACCT|pass|Acct"
        ) {
            let lines = command_lines(format!("{verb} {secret}\r\n").as_bytes());
            prop_assert_eq!(lines, [format!("{verb} ****")]);
        }
    }
}
