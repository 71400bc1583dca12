//! Entries of a TFTP transfer in its record.
//!
//! There is no session and no connection: addresses and sizes are those of the datagrams, and the
//! real time of a transfer lasts from its first block to its end.

use super::transfer::Facts;
use super::trouble::Trouble;
use crate::transfer_recorder::{Record, nanos};
use protocols::application::tftp::{Direction, Mode};
use records::transfer::{Command, Format, Outcome, Text, Type};

impl Record {
    /// Records the request.
    pub(crate) fn note_request(&mut self, direction: Direction, mode: Mode, name: &[u8]) {
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
    pub(crate) fn note_facts(&mut self, facts: &Facts, trouble: Option<&Trouble>, name: &[u8]) {
        let outcome = trouble.map_or(Outcome::Complete, Trouble::outcome);
        let transfer = &mut self.transfer;
        transfer.identity.data_local = facts.local;
        transfer.identity.data_remote = Some(facts.remote);
        transfer.size.file_bytes = Some(facts.file_bytes);
        transfer.size.wire_bytes = Some(facts.wire_bytes);
        transfer.size.crlf_conversions = facts.line_ends;
        transfer.tftp.block_bytes = facts.agreed.map(|agreed| agreed.block_size.into());
        transfer.tftp.window_blocks = facts.agreed.map(|agreed| agreed.window_size.into());
        transfer.tftp.repeated_blocks = Some(facts.repeated_blocks);
        transfer.tftp.timeouts = Some(facts.timeouts);
        self.end(outcome, trouble.map(|trouble| trouble.sentence(facts, name)).as_deref());
        let time = &mut self.transfer.time;
        time.ns_first_byte = facts.first_byte.map(nanos);
        time.ns_transfer = facts.first_byte.map(|first| nanos(facts.total.saturating_sub(first)));
        time.ns_total = Some(nanos(facts.total));
    }
}
