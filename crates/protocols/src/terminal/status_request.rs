//! The request DECRQSS for a setting, while it is received.

/// A partially received DECRQSS request, which consists of the few characters that identify the
/// setting.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatusRequest {
    /// Number of characters received, or `None` outside a request.
    count: Option<usize>,
    characters: [u8; STATUS_BYTES_MAX],
}

/// Maximum number of characters that identify a known setting.
const STATUS_BYTES_MAX: usize = 2;

impl StatusRequest {
    pub(super) fn begin(&mut self) {
        self.count = Some(0);
    }

    pub(super) fn push(&mut self, byte: u8) {
        let Some(count) = &mut self.count else { return };
        if let Some(place) = self.characters.get_mut(*count) {
            *place = byte;
        }
        *count += 1;
    }

    pub(super) fn end(&mut self) {
        self.count = None;
    }

    /// Returns the characters that identify the requested setting; empty if there are more than
    /// [`STATUS_BYTES_MAX`].
    pub(super) fn requested_setting(&self) -> Option<&[u8]> {
        Some(self.characters.get(..self.count?).unwrap_or_default())
    }
}
