//! Tickets of TLS that say whose they are.
//!
//! A data connection is the control peer's if its TLS resumes a session of the control connection's
//! (RFC 4217 §7). So each session has a token, and whatever TLS keeps to be resumed, in a ticket of
//! the client's (RFC 8446 §4.6.1, RFC 5077) or in our own room (RFC 5246 §7.3), begins with it. To
//! the far side both are opaque and sealed.

use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::{ProducesTickets, StoresServerSessions};

/// The length of a token.
pub(super) const TOKEN_LEN: usize = 16;

/// Returns TLS that keeps `token` with whatever can be resumed. Where it `is_strict` it resumes
/// nothing that was kept with another, and does a whole handshake instead.
pub(super) fn of_session(
    configuration: &Arc<ServerConfig>,
    token: [u8; TOKEN_LEN],
    is_strict: bool,
) -> Arc<ServerConfig> {
    let mark = Mark { token, is_strict };
    let mut configuration = ServerConfig::clone(configuration);
    let tickets = Arc::clone(&configuration.ticketer);
    configuration.ticketer = Arc::new(Tickets { inner: tickets, mark });
    let sessions = Arc::clone(&configuration.session_storage);
    configuration.session_storage = Arc::new(Sessions { inner: sessions, mark });
    Arc::new(configuration)
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    token: [u8; TOKEN_LEN],
    is_strict: bool,
}

impl Mark {
    fn put(self, content: &[u8]) -> Vec<u8> {
        [&self.token, content].concat()
    }

    /// Returns the content, if it may be resumed.
    fn take(self, mut marked: Vec<u8>) -> Option<Vec<u8>> {
        if marked.len() < TOKEN_LEN {
            return None;
        }
        let content = marked.split_off(TOKEN_LEN);
        // Only what we have sealed comes here: how long a comparison takes tells nobody anything.
        (!self.is_strict || marked == self.token).then_some(content)
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
        self.inner.encrypt(&self.mark.put(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.mark.take(self.inner.decrypt(cipher)?)
    }
}

#[derive(Debug)]
struct Sessions {
    inner: Arc<dyn StoresServerSessions>,
    mark: Mark,
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.inner.put(key, self.mark.put(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.mark.take(self.inner.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.mark.take(self.inner.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.inner.can_cache()
    }
}
