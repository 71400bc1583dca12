//! Comparison of a local file with the remote file by HASH (draft-bryan-ftp-hash).
//!
//! The server chooses the algorithm: SHA-1, SHA-256 and SHA-512 are supported. Without HASH, or
//! with another algorithm, nothing is compared.

use super::client::FtpClient;
use super::error::FtpError;
use super::remote_path::name_of;
use crate::escaped;
use crate::recorder::Record;
use anyhow::{Context, anyhow};
use protocols::ftp::user::Task;
use ring::digest;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Compares a local file with the remote file by HASH, if the server supports HASH.
pub(super) async fn compare(
    client: &mut FtpClient,
    path: &[u8],
    file: &File,
    record: &mut Record,
) -> Result<(), FtpError> {
    let Some(remote) = remote_hash(client, path).await? else { return Ok(()) };
    let local = remote.hash_local(file, None).await?;
    record.note_hash(&remote.name, &local);
    if local == remote.digest {
        return Ok(());
    }
    Err(FtpError::Differs(format!(
        "the local and the remote file '{}' have different hashes: try again without --continue",
        escaped(path)
    )))
}

/// Compares the remote file with the first `len` bytes of the local file; `None` if the server does
/// not support HASH.
pub(super) async fn compare_prefix(
    client: &mut FtpClient,
    path: &[u8],
    file: &File,
    len: u64,
) -> Result<Option<bool>, FtpError> {
    let Some(remote) = remote_hash(client, path).await? else { return Ok(None) };
    Ok(Some(remote.hash_local(file, Some(len)).await? == remote.digest))
}

/// Hash of a remote file (draft-bryan-ftp-hash).
struct RemoteHash {
    name: String,
    algorithm: &'static digest::Algorithm,
    digest: String,
}

/// Asks the server for the hash of a file; `None` if the server returns no hash of a supported
/// algorithm.
async fn remote_hash(client: &mut FtpClient, path: &[u8]) -> Result<Option<RemoteHash>, FtpError> {
    client.ready().await?;
    if !client.advertises("HASH") {
        return Ok(None);
    }
    let context = format!("cannot query the hash of '{}'", escaped(path));
    let done = match client.run(&context, Task::Hash(name_of(path)?)).await {
        Ok(done) => done,
        Err(error) if error.is_refusal() => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(done.reply.text()).into_owned();
    let mut words = text.split_ascii_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let algorithm = match name.as_str() {
        "SHA-1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "SHA-256" => &digest::SHA256,
        "SHA-512" => &digest::SHA512,
        // Other algorithms are not supported.
        _ => return Ok(None),
    };
    let digest = words.nth(1).unwrap_or_default().to_ascii_lowercase();
    Ok(Some(RemoteHash { name, algorithm, digest }))
}

impl RemoteHash {
    /// Returns the hash of the local file, or of its first `len` bytes, by the server's algorithm.
    async fn hash_local(&self, file: &File, len: Option<u64>) -> Result<String, FtpError> {
        let file = file.try_clone().map_err(anyhow::Error::new)?;
        let algorithm = self.algorithm;
        let hash_result = tokio::task::spawn_blocking(move || hash(&file, algorithm, len)).await;
        Ok(hash_result.map_err(|error| anyhow!(error))?.context("cannot read the local file")?)
    }
}

fn hash(
    file: &File,
    algorithm: &'static digest::Algorithm,
    len: Option<u64>,
) -> io::Result<String> {
    let mut context = digest::Context::new(algorithm);
    let mut piece = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        let count = file.read_at(&mut piece, offset)?;
        let remaining_bytes = len.map(|len| usize::try_from(len - offset).unwrap_or(usize::MAX));
        let count = count.min(remaining_bytes.unwrap_or(usize::MAX));
        if count == 0 {
            break;
        }
        context.update(piece.get(..count).unwrap_or_default());
        offset += u64::try_from(count).unwrap_or(0);
    }
    let hex_bytes: Vec<_> =
        context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex_bytes.concat())
}
