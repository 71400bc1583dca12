//! Security parameters of an established TLS connection.

/// Security parameters of a connection.
#[derive(Clone, Debug)]
pub struct TlsParameters {
    /// TLS version and cipher suite.
    pub protocol: String,
    /// SHA-256 of the server's certificate.
    pub fingerprint: String,
    /// Basis of the trust in the certificate.
    pub trusted_by: TrustedBy,
}

/// Basis of the trust in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedBy {
    /// The certificate matches the pinned certificate.
    Pin,
    /// The certificate is the first certificate of the server, and was pinned.
    FirstUse,
    /// The certificate is the first certificate of the server, and could not be pinned for the
    /// given reason.
    FirstUseNotPinned(String),
    /// The user's file of certificate authorities contains the certificate itself or the
    /// certificate of its issuer.
    Authority,
    /// The certificate is not verified, as the user has requested.
    NotVerified,
}
