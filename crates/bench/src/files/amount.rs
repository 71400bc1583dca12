//! Number and size of the measurements.

/// Number and size of the measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Amount {
    pub(in super::super) rounds: usize,
    /// Size of the large file, in MiB.
    pub(in super::super) size_mib: u64,
    /// Number of small files over several connections.
    pub(in super::super) files: u32,
    /// Number of idle logins.
    pub(in super::super) logins: usize,
    /// Names of the selected rows of the report; all rows if empty.
    pub(in super::super) rows: Vec<String>,
}

impl Default for Amount {
    /// Returns the amount of a complete run: a quarter of an hour on an idle machine.
    fn default() -> Self {
        Self { rounds: 5, size_mib: 1024, files: 4_000, logins: 10_000, rows: Vec::new() }
    }
}

impl Amount {
    /// Returns whether this row of the report is selected.
    pub(super) fn wants(&self, row: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|name| name == row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_every_row_is_selected() {
        let some = Amount { rows: vec!["retr".to_owned()], ..Amount::default() };
        assert!(Amount::default().wants("stor") && some.wants("retr") && !some.wants("stor"));
    }
}
