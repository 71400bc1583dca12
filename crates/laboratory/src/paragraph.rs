//! Paragraphs of a report.

use report::table::wrap;

/// Returns `text` with line breaks, at most `width` columns wide, and a final line end.
pub(crate) fn paragraph(text: &str, width: usize) -> String {
    wrap(text, width).join("\n") + "\n"
}
