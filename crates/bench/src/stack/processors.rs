//! The processors of the machine.

use anyhow::{Context, Result};
use os::schedule;

/// Returns a processor other than that of the calling thread, if there is one.
pub(super) fn other_processor() -> Result<Option<usize>> {
    let own_processor = schedule::processors()?
        .first()
        .copied()
        .context("cannot determine the current processor")?;
    let other = usize::from(own_processor == 0);
    let is_available =
        schedule::pin_to(other).and_then(|()| schedule::pin_to(own_processor)).is_ok();
    Ok(is_available.then_some(other))
}
