//! The state of a transfer in progress.

use super::event::{Transfer, TransferKind};
use super::settings::ServerSettings;
use crate::ftp::command::Protection;
use crate::ftp::representation::{Mode, Representation, Structure};
use net::time::Instant;

/// The transfer in progress.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) transfer: Transfer,
    pub(super) stage: Stage,
    pub(super) wire_bytes: u64,
    pub(super) progress_at: Instant,
    /// Number of names that are omitted from the listing or altered.
    pub(super) omitted_names: u64,
    /// Whether QUIT has arrived after the data, which proves that the client is alive.
    pub(super) has_quit: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Opening,
    Connecting,
    Moving,
    /// The data has ended without an end mark. If the control connection ends before the deadline,
    /// the client has died.
    Confirming {
        deadline: Instant,
    },
    /// The owner is giving the file its final name, in a way that can be reverted.
    Placing,
    /// The file has its final name, and reply 226 is in the output. The client is considered dead
    /// if the control connection ends before the client acknowledges the reply or sends another
    /// command.
    Placed {
        deadline: Instant,
    },
    Committing,
}

impl Running {
    pub(super) fn deadline(&self, settings: &ServerSettings) -> Option<Instant> {
        match self.stage {
            Stage::Connecting => Some(self.progress_at + settings.data_connect_timeout),
            Stage::Moving => Some(self.progress_at + settings.stall_timeout),
            Stage::Confirming { deadline } | Stage::Placed { deadline } => Some(deadline),
            // No timeout applies while the owner processes a request.
            Stage::Opening | Stage::Placing | Stage::Committing => None,
        }
    }

    pub(super) fn has_started(&self) -> bool {
        self.stage == Stage::Moving
    }

    pub(super) fn is_confirming(&self) -> bool {
        matches!(self.stage, Stage::Confirming { .. })
    }

    pub(super) fn is_placed(&self) -> bool {
        matches!(self.stage, Stage::Placed { .. })
    }

    /// Returns whether all data has arrived and the upload is not being committed yet.
    pub(super) fn has_ended(&self) -> bool {
        self.is_confirming() || self.is_placed() || self.stage == Stage::Placing
    }

    /// Returns whether the received data is known to be the complete upload: the data has an end
    /// mark of its own, or the client announced exactly this length with ALLO.
    pub(super) fn is_known_to_be_complete(&self) -> bool {
        let Transfer { kind, representation, protection, .. } = &self.transfer;
        let Representation { data_type, mode, structure, .. } = *representation;
        // Every other mode and structure marks the end of the data, and TLS has close_notify.
        let has_end_mark = mode != Mode::Stream || structure != Structure::File;
        let is_whole_file = matches!(kind, TransferKind::Store | TransferKind::StoreUnique)
            && self.transfer.offset_bytes == 0;
        // The length of a text on the wire differs from its length in the file, to which ALLO
        // refers.
        let has_announced_length = is_whole_file
            && !data_type.is_text()
            && self.transfer.allocation_bytes == Some(self.wire_bytes);
        has_end_mark || *protection == Protection::Private || has_announced_length
    }
}
