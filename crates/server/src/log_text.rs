//! Texts of log events: names that clients have sent, errors of connections, and directions.

use crate::log_line::Level;
use serde::Serialize;
use std::fmt;
use std::io;
use tokio_rustls::rustls::{self, PeerIncompatible};

/// Direction of a transfer as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TransferAction {
    Download,
    Upload,
    Listing,
}

impl fmt::Display for TransferAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Listing => "listing",
        })
    }
}

/// Returns a name for the log: text in UTF-8 unchanged, and control characters, quotes, backslashes and
/// other bytes escaped (attack 92).
pub(super) fn escape_name(name: &[u8]) -> String {
    let mut escaped = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match u8::try_from(c).ok().filter(u8::is_ascii) {
                Some(byte) => escaped += &byte.escape_ascii().to_string(),
                // Invisible characters are escaped.
                None => escaped.extend(c.escape_debug()),
            }
        }
        escaped += &chunk.invalid().escape_ascii().to_string();
    }
    escaped
}

/// Describes the error of a connection. The text of rustls contains the address of its manual, which
/// this omits.
pub(super) fn connection_error(error: &io::Error) -> String {
    if let Some(text) = old_tls_version(error) {
        return text.to_owned();
    }
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "the client reset the connection".to_owned()
        }
        io::ErrorKind::UnexpectedEof => {
            "the client closed the connection without notice".to_owned()
        }
        _ => without_address(&error.to_string()),
    }
}

/// Describes the error of a TLS handshake with a client that offers only versions of TLS that rustls does
/// not implement. Such a client does not send the extension signature_algorithms of TLS 1.2.
pub(super) fn old_tls_version(error: &io::Error) -> Option<&'static str> {
    let rustls::Error::PeerIncompatible(reason) = error.get_ref()?.downcast_ref()? else {
        return None;
    };
    let is_old = matches!(
        reason,
        PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired
    );
    is_old.then_some("the client offers only old versions of TLS; the minimum is TLS 1.2")
}

/// Returns the level of the error of a connection: a client that ends its connection is no failure.
pub(super) fn connection_error_level(error: &io::Error) -> Level {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::UnexpectedEof => Level::Info,
        // The server stops.
        io::ErrorKind::ConnectionAborted => Level::Notice,
        _ => Level::Warning,
    }
}

/// Returns a text without an address of documentation at its end.
pub(super) fn without_address(text: &str) -> String {
    text.split(": https://").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    // attack row 92
    #[test]
    fn a_name_in_utf_8_is_readable_and_all_other_bytes_are_escaped() {
        assert_eq!(escape_name("/\u{dc}bung.txt".as_bytes()), "/\u{dc}bung.txt");
        assert_eq!(escape_name(b"a\x1b[2J\n'b\\"), "a\\x1b[2J\\n\\'b\\\\");
        assert_eq!(escape_name(b"\xdcbung"), "\\xdcbung");
        assert_eq!(escape_name("\u{202e}".as_bytes()), "\\u{202e}");
    }

    #[test]
    fn an_error_of_a_connection_has_no_address_of_a_manual() {
        let rustls = "peer closed connection without sending TLS close_notify: \
                      https://docs.rs/rustls/latest/rustls/manual/_03_howto/index.html#unexpected-eof";
        let text = |kind| connection_error(&io::Error::new(kind, rustls));
        assert_eq!(
            text(ErrorKind::UnexpectedEof),
            "the client closed the connection without notice"
        );
        assert_eq!(
            text(ErrorKind::Other),
            "peer closed connection without sending TLS close_notify"
        );
        assert_eq!(text(ErrorKind::BrokenPipe), "the client reset the connection");
    }

    #[test]
    fn the_error_of_a_client_with_an_old_version_of_tls_names_the_minimum() {
        let text = |reason: PeerIncompatible| {
            let error = rustls::Error::PeerIncompatible(reason);
            connection_error(&io::Error::new(ErrorKind::InvalidData, error))
        };
        for old in [
            PeerIncompatible::Tls12NotOffered,
            PeerIncompatible::Tls12NotOfferedOrEnabled,
            PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ] {
            let expected = "the client offers only old versions of TLS; the minimum is TLS 1.2";
            assert_eq!(text(old), expected);
        }
        let other = text(PeerIncompatible::NoCipherSuitesInCommon);
        assert_eq!(other, "peer is incompatible: NoCipherSuitesInCommon");
    }
}
