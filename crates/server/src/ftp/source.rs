//! Opening of the source or target of a transfer, and reasons for failed transfers.

use super::listing::Lister;
use super::upload::Upload;
use super::user_files::FileView;
use protocols::ftp::server::{FileError, Opened, Transfer, TransferError, TransferKind};
use protocols::ftp::{ByteSize, Mode, Representation, Type, WordFormat};
use std::fs::File;

/// Source or target of a transfer.
#[derive(Debug)]
pub(super) enum Payload {
    /// The file is sent from `offset` to `len`.
    Send { file: File, offset: u64, len: u64 },
    /// A listing is sent.
    List(Box<Lister>),
    /// A file is received.
    Receive(Upload),
}

/// Returns whether the file and the wire have different word formats. Offsets (RFC 3659) count
/// bytes on the wire.
pub(super) fn converts_words(representation: &Representation) -> bool {
    let has_words =
        matches!(representation.data_type, Type::Local(size) if size != ByteSize::OCTET);
    has_words && representation.word_format != WordFormat::Packed
}

/// Opens the source or target of a transfer.
pub(super) fn open(view: &FileView, transfer: &Transfer) -> Result<(Opened, Payload), FileError> {
    match &transfer.kind {
        TransferKind::Retrieve => {
            let (file, len) = view.read(&transfer.path)?;
            let offset = transfer.offset_bytes;
            let representation = &transfer.representation;
            let is_converted = converts_words(representation);
            if offset > 0 && is_converted && representation.mode != Mode::Stream {
                return Err(FileError::NotSupported);
            }
            // With converted words the number of bytes on the wire is not known yet.
            if offset > len && !is_converted {
                return Err(FileError::BeyondEnd);
            }
            let size_bytes = representation.passes_through().then(|| len.saturating_sub(offset));
            Ok((Opened { size_bytes, name: None }, Payload::Send { file, offset, len }))
        }
        TransferKind::List { form, pattern, shows_hidden } => {
            let pattern = pattern.as_ref();
            let lister = Lister::new(view, &transfer.path, form, pattern, *shows_hidden)?;
            Ok((Opened::default(), Payload::List(Box::new(lister))))
        }
        TransferKind::Mail(_) => Err(FileError::NotSupported),
        TransferKind::Store | TransferKind::StoreUnique | TransferKind::Append => {
            if transfer.offset_bytes > 0 && converts_words(&transfer.representation) {
                return Err(FileError::NotSupported);
            }
            let upload = view.write(transfer)?;
            let last = upload.name().and_then(|name| name.rsplit(|&byte| byte == b'/').next());
            let opened = Opened { size_bytes: None, name: last.map(<[u8]>::to_vec) };
            Ok((opened, Payload::Receive(upload)))
        }
    }
}

/// Describes the reason of a failed transfer for the log.
pub(super) fn reason_of(error: TransferError) -> &'static str {
    match error {
        TransferError::NoConnection => "no data connection",
        TransferError::Tls => "TLS failed on the data connection",
        TransferError::TlsNotResumed => {
            "the data connection did not resume the TLS session (requires-session-reuse)"
        }
        TransferError::ConnectionLost => "data connection lost",
        TransferError::Stalled => "no data transferred for too long",
        TransferError::Aborted => "aborted by the client",
        TransferError::ControlLost => "control connection closed",
        TransferError::Malformed => "the data does not match the transfer type",
        TransferError::File(FileError::NotFound) => "file not found",
        TransferError::File(FileError::Denied) => "permission denied",
        TransferError::File(FileError::Missing(right)) => right.refusal(),
        TransferError::File(FileError::Quota) => "quota exceeded",
        TransferError::File(FileError::Limit) => "the file is larger than file-max-bytes",
        TransferError::File(FileError::BeyondEnd) => "REST offset beyond the end of the file",
        TransferError::File(FileError::Exists) => "file already exists",
        TransferError::File(FileError::IsADirectory) => "the path is a directory",
        TransferError::File(FileError::NoMailbox) => "mailbox not found",
        TransferError::File(FileError::Changed) => "the file changed during the upload",
        TransferError::File(FileError::NoSpace) => "disk full",
        TransferError::File(_) => "file system error",
    }
}
