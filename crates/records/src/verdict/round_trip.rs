//! The round-trip time of the network, from an observation.

use super::observation::Observation;

/// Returns the minimum round-trip time of the network, ns. The connection time may include a wait
/// for the local processor, and TCP's estimate may include the remote host.
pub(super) fn round_trip_ns(observed: &Observation) -> Option<u64> {
    let path = &observed.path;
    [path.min_rtt_ns, path.rtt_ns, observed.steps.connect_ns].into_iter().flatten().min()
}

/// Returns the round-trip time of TCP alone, ns: the connection time may include a lost packet.
pub(super) fn tcp_round_trip_ns(observed: &Observation) -> Option<u64> {
    let path = &observed.path;
    let shortest = observed.echo.as_ref().and_then(|echo| echo.samples_ns.iter().min().copied());
    [path.min_rtt_ns, path.rtt_ns, shortest].into_iter().flatten().min()
}
