//! TLS policy of FTP sessions.

use serde::{Deserialize, Serialize};

/// TLS policy of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// TLS is not available.
    Off,
    /// Clients may use TLS.
    Offered,
    /// TLS is required for logins and for data connections.
    Required,
}
