//! Login prompt for a name and a password, used when no login program of the system asks for them.
//!
//! Input arrives one byte at a time, as a terminal sends it, because no terminal line discipline is
//! active yet. A line ends with CR, LF or both. Backspace and DEL erase the last character, and ^U
//! erases the line. The name is echoed, the password is not. A line that is too long is read to its
//! end and then rejected.

/// Maximum name length in bytes. Our choice, equal to the limit of the operating system.
const NAME_LEN: usize = 32;
/// Maximum password length in bytes. Our choice.
const PASSWORD_LEN: usize = 256;

const RUBOUT: &[u8] = b"\x08 \x08";

/// Name and password entered by a user. The password is zeroed on drop.
#[derive(PartialEq, Eq)]
pub(super) struct Credentials {
    /// Letters, digits, `.`, `_` and `-`; does not begin with `-` or `.`. `None` matches no user.
    pub(super) name: Option<String>,
    pub(super) password: Vec<u8>,
}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.password.fill(0);
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    #[default]
    Name,
    Password,
}

/// Login prompt of one session.
#[derive(Debug, Default)]
pub(super) struct LoginPrompt {
    field: Field,
    name: Option<String>,
    line: Vec<u8>,
    is_too_long: bool,
    has_cr: bool,
    /// Whether the client echoes typed characters itself, so that the server does not echo the
    /// name.
    is_echo_off: bool,
}

impl LoginPrompt {
    /// Sets whether the server echoes the name. A client that refuses ECHO echoes the name itself.
    pub(super) fn set_echo(&mut self, is_on: bool) {
        self.is_echo_off = !is_on;
    }

    /// Returns whether nothing has been typed at this prompt.
    pub(super) fn is_unused(&self) -> bool {
        self.field == Field::Name && self.line.is_empty() && !self.is_too_long
    }

    /// Starts or restarts the prompt: writes the question for the name to `output`.
    pub(super) fn start(&mut self, output: &mut Vec<u8>) {
        let Self { has_cr, is_echo_off, .. } = *self;
        *self = Self { has_cr, is_echo_off, ..Self::default() };
        output.extend_from_slice(b"login: ");
    }

    /// Processes one typed byte and writes its echo to `output`. Returns the credentials when name
    /// and password are complete.
    pub(super) fn on_byte(&mut self, byte: u8, output: &mut Vec<u8>) -> Option<Credentials> {
        let follows_cr = std::mem::replace(&mut self.has_cr, byte == b'\r');
        match byte {
            b'\n' | 0 if follows_cr => None,
            b'\r' | b'\n' => self.end_line(output),
            0x08 | 0x7f => {
                if self.line.pop().is_some() && self.echoes() {
                    output.extend_from_slice(RUBOUT);
                }
                None
            }
            0x15 => {
                if self.echoes() {
                    self.line.iter().for_each(|_| output.extend_from_slice(RUBOUT));
                }
                self.clear();
                None
            }
            // Other control characters are ignored. The name check rejects further unprintable
            // bytes; a password may contain any other byte.
            0..b' ' => None,
            _ => {
                self.add(byte, output);
                None
            }
        }
    }

    fn add(&mut self, byte: u8, output: &mut Vec<u8>) {
        let limit = if self.field == Field::Name { NAME_LEN } else { PASSWORD_LEN };
        if self.line.len() >= limit {
            self.is_too_long = true;
            return;
        }
        self.line.push(byte);
        if self.echoes() {
            output.push(if byte.is_ascii_graphic() { byte } else { b'?' });
        }
    }

    fn end_line(&mut self, output: &mut Vec<u8>) -> Option<Credentials> {
        if !self.is_echo_off {
            output.extend_from_slice(b"\r\n");
        }
        match self.field {
            Field::Name if self.line.is_empty() => {
                output.extend_from_slice(b"login: ");
                None
            }
            Field::Name => {
                self.name = (!self.is_too_long).then(|| parse_name(&self.line)).flatten();
                self.clear();
                self.field = Field::Password;
                output.extend_from_slice(b"Password: ");
                None
            }
            Field::Password => {
                // A password that is too long fails like an unknown name.
                let name = self.name.take().filter(|_| !self.is_too_long);
                let credentials = Credentials { name, password: std::mem::take(&mut self.line) };
                self.clear();
                Some(credentials)
            }
        }
    }

    fn echoes(&self) -> bool {
        self.field == Field::Name && !self.is_echo_off
    }

    fn clear(&mut self) {
        self.line.fill(0);
        self.line.clear();
        self.is_too_long = false;
    }
}

/// Returns `line` as a user name if it is valid.
pub(super) fn parse_name(line: &[u8]) -> Option<String> {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let has_valid_start =
        line.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'_');
    let is_name = has_valid_start && line.len() <= NAME_LEN && line.iter().all(is_allowed);
    is_name.then(|| line.iter().copied().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn type_keys(typed: &[u8]) -> (Vec<Credentials>, String) {
        let mut prompt = LoginPrompt::default();
        let mut output = Vec::new();
        prompt.start(&mut output);
        let credentials =
            typed.iter().filter_map(|byte| prompt.on_byte(*byte, &mut output)).collect();
        (credentials, String::from_utf8(output).unwrap())
    }

    fn expected(name: Option<&str>, password: &[u8]) -> Credentials {
        Credentials { name: name.map(str::to_owned), password: password.to_vec() }
    }

    #[test]
    fn a_name_is_echoed_and_a_password_is_not() {
        let (credentials, output_text) = type_keys(b"mike\r\nsecret\r\n");
        assert_eq!(credentials, [expected(Some("mike"), b"secret")]);
        assert_eq!(output_text, "login: mike\r\nPassword: \r\n");
    }

    #[test]
    fn a_line_ends_with_cr_nul_or_lf() {
        assert_eq!(type_keys(b"mike\r\0a\r\0").0, [expected(Some("mike"), b"a")]);
        assert_eq!(type_keys(b"mike\na\n").0, [expected(Some("mike"), b"a")]);
        assert_eq!(type_keys(b"mike\ra\r").0, [expected(Some("mike"), b"a")]);
    }

    #[test]
    fn erased_characters_are_not_part_of_the_input() {
        let (credentials, output_text) = type_keys(b"mx\x7fike\r wrong\x15secrex\x08t\r");
        assert_eq!(credentials, [expected(Some("mike"), b"secret")]);
        assert!(output_text.starts_with("login: mx\x08 \x08ike\r\n"));
    }

    #[test]
    fn an_empty_name_is_asked_for_again() {
        assert_eq!(type_keys(b"\r\n\r\n").1, "login: \r\nlogin: \r\nlogin: ");
    }

    // attack row 52
    #[test]
    fn a_name_that_begins_with_a_hyphen_or_is_a_path_matches_no_user() {
        for wrong in ["-f root", "-froot", "--", "a/b", "..", ".profile", "a b", "a\tb", "m\u{e4}"]
        {
            assert_eq!(parse_name(wrong.as_bytes()), None, "{wrong}");
            let typed_keys = format!("{wrong}\rx\r");
            assert!(
                type_keys(typed_keys.as_bytes()).0.iter().all(|entered| entered.name.is_none()
                    || !entered.name.as_deref().unwrap_or_default().starts_with(['-', '.']))
            );
        }
        assert_eq!(parse_name(b"mike.p-2_x").as_deref(), Some("mike.p-2_x"));
    }

    #[test]
    fn a_line_that_is_too_long_is_read_to_its_end_and_matches_no_user() {
        let long = [&[b'a'; 100_000][..], b"\rx\r"].concat();
        assert_eq!(type_keys(&long).0, [expected(None, b"x")]);
        let long = [b"mike\r", &[b'a'; 100_000][..], b"\r"].concat();
        assert_eq!(type_keys(&long).0[0].name, None);
    }

    proptest! {
        #[test]
        fn input_never_echoes_a_control_character(
            typed in prop::collection::vec(any::<u8>(), 0..400)
        ) {
            let (credentials, output_text) = type_keys(&typed);
            prop_assert!(!output_text.contains('\x1b'));
            for entered in &credentials {
                let name = entered.name.clone().unwrap_or_default();
                prop_assert!(name.len() <= NAME_LEN && !name.starts_with('-'));
            }
        }
    }
}
