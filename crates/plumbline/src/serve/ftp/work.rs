//! What a transfer moves: opened before it begins, and what is said when it failed.

use super::data::Work;
use super::listing::Lister;
use super::tree::Tree;
use protocols::application::ftp::server::{
    FileError, Opened, Transfer, TransferError, TransferKind,
};
use protocols::application::ftp::{ByteSize, Mode, Representation, Type, WordFormat};

/// Returns whether words lie in our file otherwise than on the wire, where offsets of RFC 3659 count.
pub(super) fn converts_words(representation: &Representation) -> bool {
    let is_words = matches!(representation.data_type, Type::Local(size) if size != ByteSize::OCTET);
    is_words && representation.word_format != WordFormat::Packed
}

/// Opens what a transfer moves.
pub(super) fn open(tree: &Tree, transfer: &Transfer) -> Result<(Opened, Work), FileError> {
    match &transfer.kind {
        TransferKind::Retrieve => {
            let (file, len) = tree.read(&transfer.path)?;
            let offset = transfer.offset_bytes;
            let representation = &transfer.representation;
            let is_converted = converts_words(representation);
            if offset > 0 && is_converted && representation.mode != Mode::Stream {
                return Err(FileError::NotSupported);
            }
            // Where words are converted nobody knows yet how many bytes the wire has.
            if offset > len && !is_converted {
                return Err(FileError::BeyondEnd);
            }
            let size_bytes = representation.passes_through().then(|| len.saturating_sub(offset));
            Ok((Opened { size_bytes, name: None }, Work::Send { file, offset, len }))
        }
        TransferKind::List { form, pattern, shows_hidden } => {
            let pattern = pattern.as_ref();
            let lister = Lister::new(tree, &transfer.path, form, pattern, *shows_hidden)?;
            Ok((Opened::default(), Work::List(Box::new(lister))))
        }
        TransferKind::Mail(_) => Err(FileError::NotSupported),
        TransferKind::Store | TransferKind::StoreUnique | TransferKind::Append => {
            if transfer.offset_bytes > 0 && converts_words(&transfer.representation) {
                return Err(FileError::NotSupported);
            }
            let upload = tree.write(transfer)?;
            let last = upload.name().and_then(|name| name.rsplit(|&byte| byte == b'/').next());
            let opened = Opened { size_bytes: None, name: last.map(<[u8]>::to_vec) };
            Ok((opened, Work::Receive(upload)))
        }
    }
}

/// Returns the reason as the line of a log has it.
pub(super) fn why_of(error: TransferError) -> &'static str {
    match error {
        TransferError::NoConnection => "there was no data connection",
        TransferError::Tls => "TLS failed on the data connection",
        TransferError::TlsNotResumed => {
            "TLS of the data connection did not resume this session's (requires-session-reuse)"
        }
        TransferError::ConnectionLost => "the data connection broke",
        TransferError::Stalled => "no byte moved for too long",
        TransferError::Aborted => "the user has aborted it",
        TransferError::ControlLost => "the control connection ended",
        TransferError::Malformed => "the data was not in its representation",
        TransferError::File(FileError::NotFound) => "there is no such file",
        TransferError::File(FileError::Denied) => "it may not be had",
        TransferError::File(FileError::Missing(right)) => right.refusal(),
        TransferError::File(FileError::Quota) => "the quota is used up",
        TransferError::File(FileError::Limit) => "the file is larger than file-max-bytes allows",
        TransferError::File(FileError::BeyondEnd) => "REST was beyond the end of the file",
        TransferError::File(FileError::Exists) => "there is a file of that name",
        TransferError::File(FileError::IsADirectory) => "it is a folder",
        TransferError::File(FileError::NoMailbox) => "there is no such mailbox",
        TransferError::File(FileError::Changed) => "the file has changed while more came for it",
        TransferError::File(FileError::NoSpace) => "the disk is full",
        TransferError::File(_) => "the file system refuses",
    }
}
