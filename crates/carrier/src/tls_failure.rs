//! Failures of TLS, and their messages.

use std::fmt;

/// Reason why TLS was not established or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFailure {
    /// The certificate differs from the pinned certificate.
    CertificateChanged {
        /// Server, as written in the pin file.
        server: String,
        /// Pinned fingerprint.
        pinned: String,
        /// Fingerprint of the presented certificate.
        presented: String,
    },
    /// The verification against the user's certificate authorities failed.
    VerificationFailed(String),
    /// The pin file cannot be read.
    Pins {
        /// Path of the pin file.
        path: String,
        /// Error of the operating system.
        error: String,
    },
    /// The peer does not speak TLS or violates the protocol.
    HandshakeFailed(String),
    /// The TLS session failed after it was established.
    Failed(String),
    /// The peer did not answer for this many seconds.
    HandshakeTimeout(u64),
    /// The peer closed the connection before TLS began.
    Closed,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CertificateChanged { server, pinned, presented } => write!(
                f,
                "the certificate of {server} has changed, and nothing was sent: possible \
                 man-in-the-middle attack; it was {pinned} and is now {presented}; if the change \
                 is expected, run \"plumb certificates remove {server}\""
            ),
            Self::VerificationFailed(why) => write!(
                f,
                "cannot verify the server's certificate with the authorities in the --ca file \
                 ({why}): check the host name, or omit --ca to pin the certificate"
            ),
            Self::Pins { path, error } => {
                write!(f, "cannot read the known certificates in {path}: {error}")
            }
            Self::HandshakeFailed(why) => write!(
                f,
                "the TLS handshake failed ({why}): check that the server uses TLS on this port"
            ),
            Self::Failed(why) => write!(
                f,
                "the TLS session failed ({why}): the data was modified in transit, or the server \
                 violated the TLS protocol; log in again"
            ),
            Self::HandshakeTimeout(seconds) => write!(
                f,
                "no TLS answer from the server within {seconds} s: check that the server uses TLS \
                 on this port"
            ),
            Self::Closed => f.write_str(
                "the server closed the connection before the TLS handshake: check that it supports \
                 TLS",
            ),
        }
    }
}
