//! The FTP command and the representation of a transfer of RFC 573.

/// FTP command of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Retrieve a file (RETR).
    Retrieve,
    /// Store a file (STOR).
    Store,
    /// Send a file as mail (MLFL).
    Mail,
}

/// Representation of the file on the data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Words of 36 bits, which RFC 354 calls TYPE I BYTE 36 and RFC 959 TYPE L 36.
    Words,
    /// ASCII, in bytes of 8 bits.
    Text,
}
