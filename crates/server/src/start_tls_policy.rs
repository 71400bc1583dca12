//! Policy for the Telnet option START_TLS.

use serde::{Deserialize, Serialize};

/// Policy of a cleartext listener for the Telnet option START_TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartTls {
    /// START_TLS is not offered.
    #[default]
    Off,
    /// START_TLS is offered; clients that do not support it continue in cleartext.
    Offered,
    /// Clients that do not support START_TLS are rejected.
    Required,
}
