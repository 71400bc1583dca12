//! Duration and number of the measurements.

use net::time::Duration;

/// Duration and number of the measurements in each round.
#[derive(Clone, Debug)]
pub(super) struct Amount {
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
    pub(super) echoes: usize,
    pub(super) idle_connections: &'static [usize],
}

impl Amount {
    pub(super) const FULL: Self = Self {
        warm_up: Duration::from_millis(300),
        window: Duration::from_millis(600),
        echoes: 20_000,
        idle_connections: &[1, 1_000, 10_000],
    };
    pub(super) const QUICK: Self = Self {
        warm_up: Duration::from_millis(100),
        window: Duration::from_millis(200),
        echoes: 4_000,
        idle_connections: &[1, 1_000],
    };
}
