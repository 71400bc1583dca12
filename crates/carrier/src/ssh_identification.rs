//! Recognition of an SSH server, which a user may reach with the port of another protocol.

/// Maximum length of an identification string, with its line end (RFC 4253 §4.2).
const LEN_MAX: usize = 255;

/// Returns the identification string of an SSH server (RFC 4253 §4.2) without control characters, if
/// `data`, the first data of a connection, begins with one.
#[must_use]
pub fn ssh_identification(data: &[u8]) -> Option<String> {
    let line = data.split(|byte| byte.is_ascii_control()).next().unwrap_or_default();
    let line = line.get(..LEN_MAX).unwrap_or(line);
    line.starts_with(b"SSH-").then(|| String::from_utf8_lossy(line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identification_ends_with_its_line_and_has_a_maximum_length() {
        let found = ssh_identification(b"SSH-2.0-x\r\nmore");
        assert_eq!(found.as_deref(), Some("SSH-2.0-x"));
        assert_eq!(ssh_identification(b"220 SSH-2.0-x\r\n"), None);
        assert_eq!(ssh_identification(b""), None);
        let long = [b"SSH-".as_slice(), &[b'a'; 300]].concat();
        assert_eq!(ssh_identification(&long).map(|text| text.len()), Some(LEN_MAX));
    }
}
