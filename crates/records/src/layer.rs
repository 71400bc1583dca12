//! Layers that a time is charged to.

use serde::{Deserialize, Serialize};

/// Time of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerTime {
    /// The layer.
    pub layer: Layer,
    /// Time, ns.
    pub ns: u64,
}

/// Layers that the time of an echo or a screenful is charged to, from the bottom of the stack up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Bits on a serial line, in both directions.
    Line,
    /// Interrupt level in 1982; today, system calls that move bytes.
    InterruptOrSystemCall,
    /// LLP, SLIP.
    Link,
    /// IP, ICMP, UDP.
    Internet,
    /// TCP, cost per segment.
    TcpFixed,
    /// TCP, cost per data byte.
    TcpPerByte,
    /// Telnet.
    Telnet,
    /// Terminal emulation and rendering.
    Terminal,
    /// Runnable, but waiting for a local processor.
    RunQueue,
    /// The remainder: the network and the remote host.
    #[serde(alias = "far_side_and_network")]
    RemoteHostAndNetwork,
}

impl Layer {
    /// Every layer, in order.
    pub const ALL: [Self; 10] = [
        Self::Line,
        Self::InterruptOrSystemCall,
        Self::Link,
        Self::Internet,
        Self::TcpFixed,
        Self::TcpPerByte,
        Self::Telnet,
        Self::Terminal,
        Self::RunQueue,
        Self::RemoteHostAndNetwork,
    ];

    /// Returns the text for display, at most 24 characters.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::InterruptOrSystemCall => "interrupt or system call",
            Self::Link => "link",
            Self::Internet => "internet",
            Self::TcpFixed => "TCP, fixed",
            Self::TcpPerByte => "TCP, per byte",
            Self::Telnet => "Telnet",
            Self::Terminal => "terminal",
            Self::RunQueue => "waiting for a processor",
            Self::RemoteHostAndNetwork => "remote host and network",
        }
    }
}
