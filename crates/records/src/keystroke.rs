//! The median keystroke of a measurement, split by layer and direction.

use crate::layer::LayerTime;

/// Time of the median keystroke by layer.
#[derive(Clone, Debug)]
pub struct MedianKeystroke {
    /// Times of the layers that sent the key, in the order of their calls.
    pub sending: Vec<LayerTime>,
    /// Time of the remote host and the network, ns.
    pub waiting_ns: u64,
    /// Times of the layers that received the echo, in the order of their calls.
    pub receiving: Vec<LayerTime>,
    /// Number of measured keystrokes.
    pub samples: usize,
}
