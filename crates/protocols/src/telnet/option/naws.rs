//! NAWS (RFC 1073): the user reports its window size, at the start and at every change.
//!
//! Columns and rows are 16 bits each; 0 means unknown. There is no request: enabling the option is
//! sufficient.

use crate::telnet::command::{OptionCode, Side};
use crate::telnet::option::definition::{Definition, Role};
use crate::telnet::option::handler::{Context, Handler, Invalid, Received};
use crate::telnet::settings_and_events::{Event, Settings};
use alloc::string::ToString;
use core::fmt;

impl OptionCode {
    /// Negotiate About Window Size (RFC 1073).
    pub const NAWS: Self = Self(31);
}

pub(super) const DEFINITION: Definition = Definition {
    content_max_bytes: 4,
    describe: |content| Some(Message::parse(content)?.to_string()),
    ..Definition::new(OptionCode::NAWS, Role::User)
};

/// State of NAWS.
#[derive(Debug)]
pub(in crate::telnet) struct Naws {
    /// Columns and rows of the user's window; `None` at a server.
    window: Option<(u16, u16)>,
}

impl Naws {
    /// Sets the size of the user's window. Returns the content of the subnegotiation that reports
    /// it; `None` if the size has not changed, or if this is a server.
    pub(in crate::telnet) fn resize(&mut self, size: (u16, u16)) -> Option<[u8; 4]> {
        let window = self.window.as_mut()?;
        let has_changed = core::mem::replace(window, size) != size;
        has_changed.then(|| report_size(size))
    }
}

impl Handler for Naws {
    fn from_settings(settings: Settings<'_>) -> Self {
        match settings {
            Settings::User(settings) => Self { window: Some(settings.window) },
            Settings::Server(_) => Self { window: None },
        }
    }

    fn on_enabled(&mut self, _side: Side, context: &mut Context<'_, '_>) {
        if let Some(size) = self.window {
            context.send(&report_size(size));
        }
    }

    fn receive(&mut self, content: &[u8], context: &mut Context<'_, '_>) -> Received {
        let Message { columns, rows } = Message::parse(content).ok_or(Invalid)?;
        if !context.row.is_enabled(Side::Remote) {
            return Err(Invalid);
        }
        Ok(Some(Event::WindowSize { columns, rows }))
    }
}

/// The size that a NAWS subnegotiation reports.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    columns: u16,
    rows: u16,
}

impl Message {
    fn parse(content: &[u8]) -> Option<Self> {
        let &[columns_high, columns_low, rows_high, rows_low] = content else { return None };
        let columns = u16::from_be_bytes([columns_high, columns_low]);
        let rows = u16::from_be_bytes([rows_high, rows_low]);
        Some(Self { columns, rows })
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} columns, {} rows", self.columns, self.rows)
    }
}

/// Returns the content of a NAWS subnegotiation that reports this size.
fn report_size((columns, rows): (u16, u16)) -> [u8; 4] {
    let [c0, c1] = columns.to_be_bytes();
    let [r0, r1] = rows.to_be_bytes();
    [c0, c1, r0, r1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_emitted_window_size_is_parsed_back_equal(columns: u16, rows: u16) {
            let read = Message::parse(&report_size((columns, rows)));
            prop_assert_eq!(read, Some(Message { columns, rows }));
        }
    }
}
