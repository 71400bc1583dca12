//! TLS cipher suites that are offered, in the order of preference.
//!
//! AES with 128-bit keys is preferred to AES with 256-bit keys: both are secure, and a file
//! transfer takes less CPU time with 128-bit keys. plumb's own server follows the client's order of
//! preference.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::{CipherSuite, SupportedCipherSuite};

/// Returns the crypto provider with the ordered cipher suites.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| (suite.tls13().is_none(), !has_short_key(suite)));
    provider
}

fn has_short_key(suite: &SupportedCipherSuite) -> bool {
    matches!(
        suite.suite(),
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_128_suites_come_first_and_no_suite_is_lost() {
        let suites = provider().cipher_suites;
        assert_eq!(suites.len(), ring::default_provider().cipher_suites.len());
        let first = suites.first().map(SupportedCipherSuite::suite);
        assert_eq!(first, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
        assert!(suites.is_sorted_by_key(|suite| suite.tls13().is_none()));
    }
}
