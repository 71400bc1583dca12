//! TLS session tickets that identify the FTP session for which they were issued.
//!
//! A data connection belongs to the peer of the control connection if its TLS resumes a session of
//! the control connection (RFC 4217 §7). Each FTP session therefore has a token. All TLS state kept
//! for resumption begins with the token, both in a ticket of the client (RFC 8446 §4.6.1, RFC 5077)
//! and in the server's session cache (RFC 5246 §7.3). The client can neither read nor change the
//! token.
//!
//! A client with several FTP sessions may keep the tickets of all sessions in one cache and resume
//! with any of them (Go's TLS, and therefore rclone). The sessions of one authenticated user from
//! one address are therefore a family, each of which accepts the tickets of the others. The
//! anonymous sessions from one address are a family too.
//!
//! A TLS 1.3 ticket is meant for one connection (RFC 8446 appendix C.4), and OpenSSL and rustls use
//! each ticket once. A client that sends several files without reading its data connections gets no
//! new tickets from them, curl 7.88 keeps only the last ticket of the control connection, and
//! rustls sends no tickets on the control connection after its handshake. In TLS 1.2 a client can
//! resume one session any number of times. If data connections must resume the TLS session, a
//! client that offers TLS 1.2 therefore gets TLS 1.2.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{ProducesTickets, StoresServerSessions};
use tokio_rustls::rustls::version::TLS12;

/// Length of a token in bytes.
pub(super) const TOKEN_LEN: usize = 16;

/// Maximum number of tokens that a family remembers. Our choice.
const FAMILY_MAX: usize = 64;

/// Tokens of the sessions of one user from one address.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionTokens(Arc<Tokens>);

impl SessionTokens {
    fn contains(&self, token: &[u8]) -> bool {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().any(|known| known == token)
    }

    fn add(&self, token: [u8; TOKEN_LEN]) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() == FAMILY_MAX {
            tokens.pop_front();
        }
        tokens.push_back(token);
    }
}

/// Families with at least one session.
#[derive(Debug, Default)]
pub(super) struct Families(HashMap<FamilyKey, Weak<Tokens>>);

/// Address, virtual host, and user; the user is `None` for all anonymous users.
type FamilyKey = (IpAddr, Option<Box<str>>, Option<Vec<u8>>);

/// Tokens of the sessions of one family.
type Tokens = Mutex<VecDeque<[u8; TOKEN_LEN]>>;

impl Families {
    /// Adds a session to its family. A family exists as long as it has sessions. `user` is `None`
    /// for an anonymous user.
    pub(super) fn join(
        &mut self,
        from: IpAddr,
        host: Option<&str>,
        user: Option<&[u8]>,
        token: [u8; TOKEN_LEN],
    ) -> SessionTokens {
        self.0.retain(|_, family| family.strong_count() > 0);
        let user = user.map(<[u8]>::to_vec);
        let tokens = self.0.entry((from.to_canonical(), host.map(Box::from), user)).or_default();
        let family = tokens.upgrade().map_or_else(SessionTokens::default, SessionTokens);
        *tokens = Arc::downgrade(&family.0);
        family.add(token);
        family
    }
}

/// Returns the same configuration without the versions after TLS 1.2.
///
/// # Errors
///
/// Returns an error if the cryptography provider has no cipher suite of TLS 1.2.
pub(super) fn limited_to_tls12(configuration: &ServerConfig) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::clone(configuration.crypto_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS12]);
    let builder = builder.map_err(io::Error::other)?.with_no_client_auth();
    let mut limited_configuration =
        builder.with_cert_resolver(Arc::clone(&configuration.cert_resolver));
    limited_configuration.ticketer = Arc::clone(&configuration.ticketer);
    limited_configuration.session_storage = Arc::clone(&configuration.session_storage);
    Ok(Arc::new(limited_configuration))
}

/// Returns a configuration that marks all resumable state with `token`. With a family, the
/// configuration resumes only state marked with `token` or a token of the family, and does a full
/// handshake otherwise.
pub(super) fn session_configuration(
    configuration: &Arc<ServerConfig>,
    token: [u8; TOKEN_LEN],
    family: Option<&SessionTokens>,
) -> Arc<ServerConfig> {
    let mark = Mark { token, family: family.cloned() };
    let mut configuration = ServerConfig::clone(configuration);
    let tickets = Arc::clone(&configuration.ticketer);
    configuration.ticketer = Arc::new(Tickets { inner: tickets, mark: mark.clone() });
    let sessions = Arc::clone(&configuration.session_storage);
    configuration.session_storage = Arc::new(Sessions { inner: sessions, mark });
    Arc::new(configuration)
}

#[derive(Clone, Debug)]
struct Mark {
    token: [u8; TOKEN_LEN],
    /// Family whose tokens are accepted too; with `None` all tokens are accepted.
    family: Option<SessionTokens>,
}

impl Mark {
    fn prepend(&self, content: &[u8]) -> Vec<u8> {
        [&self.token, content].concat()
    }

    /// Removes the token. Returns the remaining content if the content may be resumed.
    fn strip(&self, mut marked: Vec<u8>) -> Option<Vec<u8>> {
        if marked.len() < TOKEN_LEN {
            return None;
        }
        let content = marked.split_off(TOKEN_LEN);
        // Only sealed content reaches this point, so the time of the comparison reveals nothing.
        let is_accepted = self
            .family
            .as_ref()
            .is_none_or(|family| marked == self.token || family.contains(&marked));
        is_accepted.then_some(content)
    }
}

#[derive(Debug)]
struct Tickets {
    inner: Arc<dyn ProducesTickets>,
    mark: Mark,
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.inner.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.inner.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.inner.encrypt(&self.mark.prepend(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.mark.strip(self.inner.decrypt(cipher)?)
    }
}

#[derive(Debug)]
struct Sessions {
    inner: Arc<dyn StoresServerSessions>,
    mark: Mark,
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, self.mark.prepend(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.mark.strip(self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.mark.strip(self.inner.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: Option<&[u8]> = Some(b"ann");

    // attack row 97
    #[test]
    fn a_family_is_one_user_of_one_host_at_one_address() {
        let mut families = Families::default();
        let [here, there] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let first = families.join(here, None, ANN, [1; TOKEN_LEN]);
        let second = families.join(here, None, ANN, [2; TOKEN_LEN]);
        for token in [[1; TOKEN_LEN], [2; TOKEN_LEN]] {
            assert!(first.contains(&token) && second.contains(&token));
        }
        for other in [
            families.join(there, None, ANN, [3; TOKEN_LEN]),
            families.join(here, Some("host"), ANN, [4; TOKEN_LEN]),
            families.join(here, None, None, [7; TOKEN_LEN]),
            families.join(here, None, Some(b"bob"), [5; TOKEN_LEN]),
        ] {
            assert!(!other.contains(&[1; TOKEN_LEN]));
        }
        drop((first, second));
        assert!(!families.join(here, None, ANN, [6; TOKEN_LEN]).contains(&[1; TOKEN_LEN]));
        assert_eq!(families.0.len(), 1);
    }

    #[test]
    fn a_family_forgets_its_oldest_tokens() {
        let family = SessionTokens::default();
        (0..=FAMILY_MAX).for_each(|n| family.add([u8::try_from(n).unwrap(); TOKEN_LEN]));
        assert!(!family.contains(&[0; TOKEN_LEN]) && family.contains(&[1; TOKEN_LEN]));
    }
}
