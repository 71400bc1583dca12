//! Values of a TFTP transfer in its record.
//!
//! TFTP has no session and no connection. The record has the addresses and sizes of the datagrams.
//! The real time of a transfer lasts from its first block to its end.

use super::error::TftpError;
use super::transfer_stats::TftpTransferStats;
use crate::recorder::{Record, nanos};
use protocols::tftp::{Direction, Mode};
use records::transfer::{Command, Format, Outcome, Text, Type};

impl Record {
    /// Records the request.
    pub fn note_request(&mut self, direction: Direction, mode: Mode, name: &[u8]) {
        let request = &mut self.transfer.request;
        request.command = Some(match direction {
            Direction::Read => Command::TftpRrq,
            Direction::Write => Command::TftpWrq,
        });
        (request.representation, request.format) = match mode {
            Mode::Octet => (Some(Type::Image), None),
            Mode::Netascii => (Some(Type::Ascii), Some(Format::NonPrint)),
        };
        request.byte_size = Some(8);
        request.path_requested = Some(Text::from(name));
    }

    /// Records the result.
    pub fn note_stats(
        &mut self,
        stats: &TftpTransferStats,
        error: Option<&TftpError>,
        name: &[u8],
    ) {
        let outcome = error.map_or(Outcome::Complete, TftpError::outcome);
        let transfer = &mut self.transfer;
        transfer.identity.data_local = stats.local;
        transfer.identity.data_remote = Some(stats.remote);
        transfer.size.file_bytes = Some(stats.file_bytes);
        transfer.size.wire_bytes = Some(stats.wire_bytes);
        transfer.size.crlf_conversions = stats.line_ends;
        transfer.tftp.block_bytes = stats.agreed.map(|agreed| agreed.block_size.into());
        transfer.tftp.window_blocks = stats.agreed.map(|agreed| agreed.window_size.into());
        transfer.tftp.repeated_blocks = Some(stats.repeated_blocks);
        transfer.tftp.timeouts = Some(stats.timeouts);
        self.end(outcome, error.map(|error| error.sentence(stats, name)).as_deref());
        let time = &mut self.transfer.time;
        time.first_byte_ns = stats.first_byte.map(nanos);
        time.transfer_ns = stats.first_byte.map(|first| nanos(stats.total.saturating_sub(first)));
        time.total_ns = Some(nanos(stats.total));
    }
}
