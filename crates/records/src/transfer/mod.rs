//! The record of one transfer: the fields of RFC 573, and those that a modern transfer adds.
//!
//! RFC 573 (1973) recorded for every file the remote host, date and time, bits, real time, CPU
//! time, program, BYTE, TYPE, MODE and STRU, and computed rates and costs for display. Likewise, a
//! [`Transfer`] is written once, at the end of a transfer, by the program that made it; values that
//! can be computed from it ([`derived`]) are not stored. The program sets the fields that it knows
//! and leaves the others `None`. [`Transfer::to_line`] makes one line of JSON of at most
//! [`LINE_MAX_BYTES`] for the journal; [`compact`] is the format in the store; [`xferlog`] is a
//! lossy format for programs that read no other format.
//!
//! ```
//! use records::transfer::{Command, Identifier, Outcome, Role, Text, Transfer};
//!
//! let mut transfer = Transfer::new(Identifier::new(1_795_000_000_000_000_000, 7));
//! transfer.identity.role = Some(Role::Server);
//! transfer.identity.remote_name = Some(Text::from("ml.example"));
//! transfer.request.command = Some(Command::Retr);
//! transfer.result.outcome = Some(Outcome::Complete);
//! transfer.size.bits = Some(50_688);
//! transfer.time.transfer_ns = Some(5_000_000_000);
//! assert_eq!(transfer.rate_bps(), Some(10_137));
//! assert!(transfer.to_line().len() <= records::transfer::LINE_MAX_BYTES);
//! ```

pub mod compact;
pub mod derived;
mod enums;
mod json_line;
mod schema;
mod value;
pub mod xferlog;

pub use enums::{
    Command, DataStyle, Format, Mode, Outcome, Role, Stack, Structure, TransferLimit, Type,
};
pub use json_line::{LINE_MAX_BYTES, LineError};
pub use schema::{
    Completion, Cpu, Host, Identity, Ncp, OwnStack, Request, Size, Tcp, Tftp, Time, Transfer,
};
pub use value::{Field, FieldKind, Identifier, Text, Value};

/// Schema that this version writes. Readers accept schema 1, which had other names for some fields.
pub const SCHEMA: u64 = 2;

impl Transfer {
    /// Makes a record with all fields unknown except its identifier.
    #[must_use]
    pub fn new(record_id: Identifier) -> Self {
        Self { record_id, ..Self::default() }
    }
}

#[cfg(test)]
pub(crate) mod tests;
