//! The layers of a time that are local software.

use crate::layer::{Layer, LayerTime};

/// Returns the sum of the `layers` for which `is_included` is true.
pub(super) fn sum_of(layers: &[LayerTime], is_included: impl Fn(Layer) -> bool) -> u64 {
    let included = layers.iter().filter(|part| is_included(part.layer));
    included.fold(0, |sum, part| sum.saturating_add(part.ns))
}

/// Returns whether a layer is local software. System calls are excluded, because the kernel may
/// work for a remote host on the same machine in them.
pub(super) const fn is_local_software(layer: Layer) -> bool {
    !matches!(
        layer,
        Layer::Line | Layer::InterruptOrSystemCall | Layer::RunQueue | Layer::RemoteHostAndNetwork
    )
}
