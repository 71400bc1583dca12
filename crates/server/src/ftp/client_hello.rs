//! The ClientHello of TLS (RFC 8446 §4.1.2), read before the version is negotiated.
//!
//! rustls reports the cipher suites of a ClientHello but not the offered TLS versions, and a client
//! that supports only TLS 1.3 may list TLS 1.2 suites too. [`read`] therefore keeps the TLS records
//! that it passes to rustls, and [`Hello::offers_tls12`] parses the versions: from the extension
//! supported_versions (RFC 8446 §4.2.1) or, if the extension is missing, from the legacy version.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::rustls::server::{Accepted, Acceptor};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 4096;
/// Maximum size of a ClientHello including record headers; rustls has the same limit.
const HELLO_MAX_BYTES: usize = 1 << 16;
/// Content type handshake (RFC 8446 §5.1), message type client_hello (§4) and extension type
/// supported_versions (§4.2).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SUPPORTED_VERSIONS: u16 = 43;
/// Version number of TLS 1.2 (RFC 5246 §6.2.1).
const TLS12: u16 = 0x0303;
/// Length of the random value (RFC 8446 §4.1.2).
const RANDOM_LEN: usize = 32;

/// ClientHello accepted by rustls.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) accepted: Accepted,
    records: Vec<u8>,
}

/// Reads a ClientHello. Sends an alert if the peer sends anything else.
///
/// # Errors
///
/// Returns an error if the connection fails or ends, or if the bytes are not a ClientHello of at
/// most 64 KiB.
pub(super) async fn read<S>(stream: &mut S) -> io::Result<Hello>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut acceptor = Acceptor::default();
    let mut records = Vec::new();
    while records.len() < HELLO_MAX_BYTES {
        let start = records.len();
        records.reserve(READ_BYTES);
        if (&mut *stream).take(READ_BYTES as u64).read_buf(&mut records).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut new_records = records.get(start..).unwrap_or_default();
        while !new_records.is_empty() {
            acceptor.read_tls(&mut new_records)?;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Ok(Hello { accepted, records }),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                alert.write_all(&mut bytes)?;
                stream.write_all(&bytes).await?;
                stream.flush().await?;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

impl Hello {
    /// Returns whether the client offers TLS 1.2.
    pub(super) fn offers_tls12(&self) -> bool {
        offers_tls12(&self.records).unwrap_or(false)
    }
}

/// Returns whether the ClientHello in `records` offers TLS 1.2, or `None` if it is malformed.
fn offers_tls12(mut records: &[u8]) -> Option<bool> {
    let mut message = Vec::new();
    while !records.is_empty() {
        let content_type = take_int(&mut records, 1)?;
        take(&mut records, 2)?;
        let fragment = take_vector(&mut records, 2)?;
        if content_type == usize::from(HANDSHAKE) {
            message.extend_from_slice(fragment);
        }
    }
    let mut message = message.as_slice();
    if take_int(&mut message, 1)? != usize::from(CLIENT_HELLO) {
        return None;
    }
    let mut hello = take_vector(&mut message, 3)?;
    let legacy_version = take_int(&mut hello, 2)?;
    take(&mut hello, RANDOM_LEN)?;
    // legacy_session_id, cipher_suites and legacy_compression_methods.
    for length_bytes in [1, 2, 1] {
        take_vector(&mut hello, length_bytes)?;
    }
    let mut extensions = if hello.is_empty() { hello } else { take_vector(&mut hello, 2)? };
    while !extensions.is_empty() {
        let extension = take_int(&mut extensions, 2)?;
        let mut content = take_vector(&mut extensions, 2)?;
        if extension == usize::from(SUPPORTED_VERSIONS) {
            let versions = take_vector(&mut content, 1)?;
            return Some(versions.chunks_exact(2).any(|version| version == TLS12.to_be_bytes()));
        }
    }
    Some(legacy_version >= usize::from(TLS12))
}

/// Removes the first `len` bytes of `from` and returns them.
fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    from.split_off(..len)
}

/// Removes a big-endian integer of `len` bytes.
fn take_int(from: &mut &[u8], len: usize) -> Option<usize> {
    let bytes = take(from, len)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte)))
}

/// Removes a vector whose length precedes it in `length_bytes` bytes (RFC 8446 §3.4).
fn take_vector<'a>(from: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let len = take_int(from, length_bytes)?;
    take(from, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    use tokio_rustls::rustls::{
        ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
    };

    fn hello_of(versions: &[&'static SupportedProtocolVersion], fragment: usize) -> Vec<u8> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(versions).unwrap();
        let builder = builder.with_root_certificates(RootCertStore::empty());
        let mut configuration = builder.with_no_client_auth();
        configuration.max_fragment_size = Some(fragment);
        let name = ServerName::try_from("host").unwrap();
        let mut client = ClientConnection::new(Arc::new(configuration), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn tls_1_2_is_detected_in_a_client_hello() {
        for fragment in [32, 1000] {
            assert_eq!(offers_tls12(&hello_of(&[&TLS13], fragment)), Some(false));
            assert_eq!(offers_tls12(&hello_of(&[&TLS12], fragment)), Some(true));
            assert_eq!(offers_tls12(&hello_of(&[&TLS12, &TLS13], fragment)), Some(true));
        }
    }

    #[test]
    fn without_extensions_the_legacy_version_decides() {
        for (version, expected) in [(0x0301_u16, false), (0x0303, true)] {
            let mut hello = version.to_be_bytes().to_vec();
            hello.extend([0; RANDOM_LEN]);
            hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
            let len = u8::try_from(hello.len()).unwrap();
            let mut records = vec![HANDSHAKE, 3, 1, 0, len + 4, CLIENT_HELLO, 0, 0, len];
            records.extend(hello);
            assert_eq!(offers_tls12(&records), Some(expected));
        }
    }

    #[test]
    fn every_truncated_client_hello_is_malformed() {
        let complete_hello = hello_of(&[&TLS12, &TLS13], 1000);
        for len in 0..complete_hello.len() {
            assert_eq!(offers_tls12(&complete_hello[..len]), None, "{len}");
        }
    }

    #[tokio::test]
    async fn a_client_hello_in_pieces_is_read_and_other_bytes_get_an_alert() {
        let bytes = hello_of(&[&TLS12, &TLS13], 64);
        let (mut server, mut client) = tokio::io::duplex(7);
        let write = async { client.write_all(&bytes).await.unwrap() };
        let (hello, ()) = tokio::join!(read(&mut server), write);
        assert!(hello.unwrap().offers_tls12());

        let (mut server, mut client) = tokio::io::duplex(100);
        client.write_all(b"USER anonymous\r\n").await.unwrap();
        assert_eq!(read(&mut server).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(server);
        let mut alert = Vec::new();
        client.read_to_end(&mut alert).await.unwrap();
        assert_eq!(alert.first(), Some(&21));

        let (mut server, client) = tokio::io::duplex(100);
        drop(client);
        assert_eq!(read(&mut server).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
