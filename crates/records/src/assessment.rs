//! Short assessment of a measurement: its grade, the operation that a user waits for, the places
//! where this time is spent, and the remedy.
//!
//! The grade is [`Grade::Failed`] if the target could not be used, else [`Grade::Slow`] if the
//! record names a cause, else [`Grade::Ok`]. The operation is the one that the first cause delays,
//! or else the echo, the screenful or the largest transfer. Its time is split by the layers of the
//! record if they cover the same operation, or else by the costs of the causes.

use crate::layer::{Layer, LayerTime};
use crate::measurement::{Measurement, NamedCause};
use crate::sizes::{Direction, median_sample};
use crate::verdict::{self, CauseKind, LoginLimit, Operation};

/// Grade of a measured target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// No cause of a noticeable delay was found.
    Ok,
    /// A cause delays an operation by more than users notice.
    Slow,
    /// The target could not be used, or not for the whole measurement.
    Failed,
}

impl Grade {
    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Slow => "SLOW",
            Self::Failed => "FAILED",
        }
    }
}

/// Place where a part of a time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// The network, including name servers.
    Network,
    /// Bits on a serial line.
    Line,
    /// The remote host.
    RemoteHost,
    /// The remote host and the network, if they cannot be distinguished.
    RemoteHostAndNetwork,
    /// The host that measures.
    ThisHost,
    /// Time that no cause accounts for.
    Other,
}

impl Location {
    /// Every location, in the order of display.
    pub const ALL: [Self; 6] = [
        Self::Network,
        Self::Line,
        Self::RemoteHost,
        Self::RemoteHostAndNetwork,
        Self::ThisHost,
        Self::Other,
    ];

    /// Returns the text for display.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Line => "line",
            Self::RemoteHost => "remote host",
            Self::RemoteHostAndNetwork => "remote host and network",
            Self::ThisHost => "this host",
            Self::Other => "other",
        }
    }

    /// Returns a text of at most seven characters.
    #[must_use]
    pub const fn short_text(self) -> &'static str {
        match self {
            Self::RemoteHost | Self::RemoteHostAndNetwork => "remote",
            Self::ThisHost => "here",
            location => location.text(),
        }
    }

    const fn of_layer(layer: Layer) -> Self {
        match layer {
            Layer::Line => Self::Line,
            Layer::RemoteHostAndNetwork => Self::RemoteHostAndNetwork,
            _ => Self::ThisHost,
        }
    }

    /// Returns the location of a cause. The record of a window or a buffer names its host only in
    /// the sentence.
    fn of_cause(cause: &NamedCause) -> Self {
        use CauseKind as Kind;
        let Some(kind) = CauseKind::from_name(&cause.name) else { return Self::Other };
        match kind {
            Kind::SmallWindow | Kind::SmallSendBuffer
                if cause.sentence.starts_with("This host's") =>
            {
                Self::ThisHost
            }
            Kind::SlowPrompt if cause.sentence.starts_with("The program's") => {
                Self::RemoteHostAndNetwork
            }
            Kind::Terminal | Kind::Tls | Kind::LocalProcessor => Self::ThisHost,
            Kind::NameServer
            | Kind::Distance
            | Kind::LineRate
            | Kind::Queue
            | Kind::RateLimiter
            | Kind::Loss
            | Kind::RetransmissionTimeouts
            | Kind::Reordering
            | Kind::PathMtuBlackHole
            | Kind::HalfDuplex
            | Kind::LostSyn
            | Kind::LockStep
            | Kind::ShortQueue => Self::Network,
            Kind::Unknown => Self::Other,
            _ => Self::RemoteHost,
        }
    }
}

/// The time of one operation, split by location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The operation.
    pub operation: Operation,
    /// Its total time, ns.
    pub total_ns: u64,
    /// Time at each location, in the order of [`Location::ALL`]; the sum is `total_ns`. Empty if
    /// unknown.
    pub parts: Vec<(Location, u64)>,
}

/// Short assessment of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assessment {
    /// The grade.
    pub grade: Grade,
    /// The operation that the user waits for, if one was measured.
    pub delay: Option<Delay>,
    /// Remedy of the first cause, as a sentence.
    pub remedy: Option<String>,
}

impl Assessment {
    /// Assesses `measured`.
    #[must_use]
    pub fn of(measured: &Measurement) -> Self {
        let limit = || verdict::limit(measured);
        let is_problem = !measured.causes.is_empty()
            || matches!(limit(), LoginLimit::Retransmissions | LoginLimit::NagleStall);
        let grade = match (&measured.failure, is_problem) {
            (Some(_), _) => Grade::Failed,
            (None, true) => Grade::Slow,
            (None, false) => Grade::Ok,
        };
        let remedy = match measured.causes.first() {
            Some(cause) => cause.remedy().map(str::to_owned),
            None if !is_problem => None,
            // Without a cause, the verdict of a problem ends with the remedy.
            None => measured.verdict.rsplit_once(". ").map(|(_, last)| last.to_owned()),
        };
        Self { grade, delay: delay(measured), remedy }
    }
}

fn delay(measured: &Measurement) -> Option<Delay> {
    let Some(first) = measured.causes.first() else { return usual_delay(measured) };
    let operation = Operation::from_name(&first.operation)?;
    let total_ns = first.operation_ns;
    if let Some(delay) = usual_delay(measured)
        && operation == delay.operation
        && is_near(total_ns, delay.total_ns)
        && operation == Operation::Echo
    {
        return Some(delay);
    }
    let mut parts = Parts::default();
    let mut rest_ns = total_ns;
    for cause in measured.causes.iter().filter(|cause| cause.operation == first.operation) {
        let cost_ns = cause.cost_ns.min(rest_ns);
        rest_ns -= cost_ns;
        parts.add(Location::of_cause(cause), cost_ns);
    }
    parts.add(Location::Other, rest_ns);
    Some(Delay { operation, total_ns, parts: parts.in_order() })
}

/// Returns whether two times differ by at most a twentieth.
const fn is_near(a_ns: u64, b_ns: u64) -> bool {
    a_ns.abs_diff(b_ns) <= a_ns / 20
}

/// Returns the delay of the echo, else of the screenful, else of the largest transfer.
fn usual_delay(measured: &Measurement) -> Option<Delay> {
    if let Some(echo) = &measured.echo {
        let parts = by_location(&echo.layers, round_trip_ns(measured));
        return Some(Delay { operation: Operation::Echo, total_ns: echo.p50_ns, parts });
    }
    if let Some(screenful) = &measured.screenful {
        // A screenful takes several round trips or one, so the network is not separated.
        let parts = by_location(&screenful.layers, None);
        let total_ns = screenful.total_ns();
        return Some(Delay { operation: Operation::Screenful, total_ns, parts });
    }
    let samples = &measured.transfers.as_ref()?.samples;
    let complete = || samples.iter().filter(|sample| !sample.is_partial);
    let largest = complete().max_by_key(|one| (one.bytes, one.direction == Direction::Received));
    let largest = largest.or(samples.last())?;
    let sample = median_sample(samples, largest.direction, largest.bytes).unwrap_or(largest);
    let total_ns = sample.total_ns;
    let mut parts = Parts::default();
    if let Some(cpu_ns) = sample.cpu_ns {
        let cpu_ns = cpu_ns.min(total_ns);
        parts.add(Location::ThisHost, cpu_ns);
        parts.add(Location::RemoteHostAndNetwork, total_ns - cpu_ns);
    }
    Some(Delay { operation: Operation::Transfer, total_ns, parts: parts.in_order() })
}

/// Returns the round-trip time of the network, ns: TCP's estimate includes the time of the remote
/// host if echoes carry the acknowledgments, so the connection time is used if it is shorter.
fn round_trip_ns(measured: &Measurement) -> Option<u64> {
    let smoothed_ns = measured.tcp.as_ref().and_then(|tcp| tcp.rtt_ns);
    [smoothed_ns, measured.phases.connect_ns].into_iter().flatten().min()
}

fn by_location(layers: &[LayerTime], round_trip_ns: Option<u64>) -> Vec<(Location, u64)> {
    let mut parts = Parts::default();
    for part in layers {
        match (Location::of_layer(part.layer), round_trip_ns) {
            (Location::RemoteHostAndNetwork, Some(trip_ns)) if is_separable(trip_ns, part.ns) => {
                let trip_ns = trip_ns.min(part.ns);
                parts.add(Location::Network, trip_ns);
                parts.add(Location::RemoteHost, part.ns - trip_ns);
            }
            (location, _) => parts.add(location, part.ns),
        }
    }
    parts.in_order()
}

/// Time below which a round-trip time that is most of a wait may be due to the remote host, ns.
const LOCAL_NS: u64 = 5_000_000;

/// Returns whether a round-trip time separates the network from the remote host in a wait of
/// `remote_ns`. On a near network, TCP's estimate includes the time that the hosts take to wake
/// their processes.
const fn is_separable(round_trip_ns: u64, remote_ns: u64) -> bool {
    remote_ns >= LOCAL_NS || round_trip_ns < remote_ns / 2
}

/// Sums of times by location.
#[derive(Default)]
struct Parts(Vec<(Location, u64)>);

impl Parts {
    fn add(&mut self, location: Location, ns: u64) {
        match self.0.iter_mut().find(|(one, _)| *one == location) {
            Some((_, sum_ns)) => *sum_ns = sum_ns.saturating_add(ns),
            None => self.0.push((location, ns)),
        }
    }

    fn in_order(mut self) -> Vec<(Location, u64)> {
        self.0.retain(|(_, ns)| *ns > 0);
        self.0.sort_by_key(|(location, _)| *location);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Measurement {
        let record = Measurement::from_json(include_str!("../samples/measurement-4.json")).unwrap();
        Measurement { causes: Vec::new(), failure: None, ..record }
    }

    fn cause(name: &str, operation: &str, [cost_ns, operation_ns]: [u64; 2]) -> NamedCause {
        NamedCause {
            name: name.to_owned(),
            cost_ns,
            operation: operation.to_owned(),
            operation_ns,
            gain_ns: cost_ns,
            sentence: "It costs 9 ms: it waits. Set TCP_NODELAY there.".to_owned(),
        }
    }

    #[test]
    fn the_network_and_the_remote_host_of_an_echo_are_separated_by_the_round_trip_time() {
        let mut measured = login();
        let echo = measured.echo.as_mut().unwrap();
        echo.p50_ns = 121_000;
        echo.layers = vec![
            LayerTime { layer: Layer::Telnet, ns: 1_000 },
            LayerTime { layer: Layer::RemoteHostAndNetwork, ns: 120_000 },
        ];
        measured.tcp.as_mut().unwrap().rtt_ns = Some(4_000);
        let delay = Assessment::of(&measured).delay.unwrap();
        let expected = [
            (Location::Network, 4_000),
            (Location::RemoteHost, 116_000),
            (Location::ThisHost, 1_000),
        ];
        assert_eq!((delay.operation, delay.parts), (Operation::Echo, expected.to_vec()));
    }

    #[test]
    fn without_a_round_trip_time_the_remote_host_and_the_network_are_one_part() {
        let mut measured = login();
        measured.tcp = None;
        measured.phases.connect_ns = None;
        let parts = Assessment::of(&measured).delay.unwrap().parts;
        assert!(parts.iter().any(|(location, _)| *location == Location::RemoteHostAndNetwork));
        assert!(parts.iter().all(|(location, _)| *location != Location::Network));
    }

    #[test]
    fn the_first_cause_selects_the_operation_and_the_remedy() {
        let mut measured = login();
        measured.causes = vec![
            cause("Nagle", "a screenful", [40, 50]),
            cause("distance", "a screenful", [4, 50]),
            cause("slow login", "the way to the prompt", [7, 9]),
        ];
        let assessment = Assessment::of(&measured);
        assert_eq!(assessment.grade, Grade::Slow);
        assert_eq!(assessment.remedy.as_deref(), Some("Set TCP_NODELAY there."));
        let delay = assessment.delay.unwrap();
        let parts =
            [(Location::Network, 4), (Location::RemoteHost, 40), (Location::Other, 6)].to_vec();
        assert_eq!(delay, Delay { operation: Operation::Screenful, total_ns: 50, parts });
    }

    #[test]
    fn a_failure_precedes_a_cause() {
        let mut measured = login();
        assert_eq!(Assessment::of(&measured).grade, Grade::Ok);
        measured.causes.push(cause("Nagle", "a screenful", [40, 50]));
        measured.failure = Some("the login was refused".to_owned());
        assert_eq!(Assessment::of(&measured).grade, Grade::Failed);
    }

    #[test]
    fn the_parts_of_a_delay_add_up_to_its_total() {
        for sample in [
            include_str!("../samples/measurement-1.json"),
            include_str!("../samples/measurement-2.json"),
            include_str!("../samples/measurement-4.json"),
        ] {
            let measured = Measurement::from_json(sample).unwrap();
            let Some(delay) = Assessment::of(&measured).delay else { continue };
            let sum: u64 = delay.parts.iter().map(|(_, ns)| ns).sum();
            assert!(delay.parts.is_empty() || sum == delay.total_ns, "{delay:?}");
        }
    }
}
