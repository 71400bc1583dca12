//! Short assessment of a measurement: its grade, the operation that a user waits for, the places
//! where this time is spent, and the remedy.
//!
//! The grade is [`Grade::Failed`] if the target could not be used, else [`Grade::Slow`] if the
//! record names a cause or the echo is slow, else [`Grade::Ok`]. The operation is the one that the
//! first cause delays, or else the echo, the screenful or the largest transfer. Its time is split
//! by the layers of the record if they cover the same operation, or else by the costs of the
//! causes.

use crate::layer::{Layer, LayerTime};
use crate::measurement::{Measurement, NamedCause, Phases};
use crate::sizes::{Direction, median_sample};
use crate::verdict::{self, CauseKind, LoginLimit, Operation};

pub use crate::grade::{Assessment, Delay, Grade, Location, LocationTime, SlowEcho};

impl Location {
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

impl Assessment {
    /// Assesses `measured`.
    #[must_use]
    pub fn of(measured: &Measurement) -> Self {
        let limit = || verdict::limit(measured);
        let is_problem = !measured.causes.is_empty()
            || matches!(limit(), LoginLimit::Retransmissions | LoginLimit::NagleStall);
        let grade = match &measured.failure {
            Some(_) => Grade::Failed,
            None if is_problem || has_slow_echo(measured) => Grade::Slow,
            None => Grade::Ok,
        };
        let remedy = match measured.causes.first() {
            Some(cause) => cause.remedy().map(str::to_owned),
            None if !is_problem => None,
            // Without a cause, the verdict of a problem ends with the remedy.
            None => measured.verdict.rsplit_once(". ").map(|(_, last)| last.to_owned()),
        };
        Self { grade, delay: delay(measured), remedy, slow_echo: slow_echo(measured) }
    }
}

/// Echo that users notice (TM-233 3.1), ns.
const NOTICED_ECHO_NS: u64 = 25_000_000;
/// Echo that users do not accept (TM-233 3.1), ns.
const UNACCEPTABLE_ECHO_NS: u64 = 250_000_000;
/// Round-trip time of an echo above which it is slow, ns, as for the causes of a verdict.
const SLOW_ROUND_TRIP_NS: u64 = 50_000_000;

/// Returns whether the echo is slow by itself, also if too few keys were typed for a verdict.
fn has_slow_echo(measured: &Measurement) -> bool {
    let Some(echo) = &measured.echo else { return false };
    let parts = echo_parts(measured);
    let is_slow = |part: &LocationTime| match part.location {
        Location::Network => part.ns >= SLOW_ROUND_TRIP_NS,
        Location::RemoteHostAndNetwork => part.ns >= SLOW_ROUND_TRIP_NS + NOTICED_ECHO_NS,
        _ => part.ns >= NOTICED_ECHO_NS,
    };
    echo.p50_ns >= UNACCEPTABLE_ECHO_NS || parts.iter().any(is_slow)
}

/// Returns the echo with its own remedy, if users notice it and the first cause is not a cause of
/// the echo. Of several causes of one kind, a verdict names only that of the slowest operation, so
/// the echo may have none.
fn slow_echo(measured: &Measurement) -> Option<SlowEcho> {
    let echo = measured.echo.as_ref().filter(|echo| echo.p50_ns >= NOTICED_ECHO_NS)?;
    let is_of_echo =
        |cause: &&NamedCause| Operation::from_name(&cause.operation) == Some(Operation::Echo);
    if measured.causes.first().is_some_and(|first| is_of_echo(&first)) {
        return None;
    }
    let total_ns = echo.p50_ns;
    if let Some(cause) = measured.causes.iter().find(is_of_echo) {
        let remedy = cause.remedy()?.to_owned();
        let location = Location::of_cause(cause);
        return Some(SlowEcho { total_ns, location, ns: cause.cost_ns, remedy });
    }
    let LocationTime { location, ns } =
        echo_parts(measured).into_iter().max_by_key(|part| part.ns)?;
    let remedy = match location {
        Location::Network => {
            "Use a shorter path, or predict echoes (plumb login --predict always)."
        }
        Location::Line => "Use a faster line.",
        Location::RemoteHost => {
            "Check the load there, and proxies between its network interface and the program."
        }
        Location::ThisHost => "Stop other processes on this host.",
        Location::RemoteHostAndNetwork | Location::Other => {
            "Measure the network with ping; the rest of the echo is the remote host."
        }
    };
    Some(SlowEcho { total_ns, location, ns, remedy: remedy.to_owned() })
}

/// Returns the median echo, split by location; empty if it is unknown.
#[must_use]
pub fn echo_parts(measured: &Measurement) -> Vec<LocationTime> {
    let layers = measured.echo.as_ref().map_or(&[][..], |echo| &echo.layers);
    by_location(layers, round_trip_ns(measured))
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
    match (operation, round_trip_ns(measured)) {
        (Operation::Login, Some(trip_ns)) => {
            // The rest, without a cause, is one round trip per step, and less than users notice.
            let network_ns = trips_ns(&measured.phases, trip_ns).min(rest_ns);
            parts.add(Location::Network, network_ns);
            parts.add(Location::RemoteHost, rest_ns - network_ns);
        }
        _ => parts.add(Location::Other, rest_ns),
    }
    Some(Delay { operation, total_ns, parts: parts.in_order() })
}

/// Returns the time of the network in the steps of a login, ns: the name resolution, and at most one
/// round trip per further step, but two for the handshake of TLS.
fn trips_ns(phases: &Phases, trip_ns: u64) -> u64 {
    let trips = [
        (phases.resolve_ns, u64::MAX),
        (phases.connect_ns, trip_ns),
        (phases.tls_ns, trip_ns.saturating_mul(2)),
        (phases.negotiation_ns, trip_ns),
        (phases.login_prompt_ns, trip_ns),
        (phases.password_prompt_ns, trip_ns),
        (phases.login_ns, trip_ns),
    ];
    let known = trips.into_iter().filter_map(|(ns, most_ns)| Some(ns?.min(most_ns)));
    known.fold(0, u64::saturating_add)
}

/// Returns whether two times differ by at most a twentieth.
const fn is_near(a_ns: u64, b_ns: u64) -> bool {
    a_ns.abs_diff(b_ns) <= a_ns / 20
}

/// Returns the delay of the echo, else of the screenful, else of the largest transfer.
fn usual_delay(measured: &Measurement) -> Option<Delay> {
    if let Some(echo) = &measured.echo {
        let parts = echo_parts(measured);
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

/// Returns the minimum round-trip time of the network, ns: TCP's estimate includes the time of the
/// remote host if echoes carry the acknowledgments, so the connection time is used if it is shorter.
#[must_use]
pub fn round_trip_ns(measured: &Measurement) -> Option<u64> {
    let tcp = measured.tcp.as_ref();
    let of_tcp = tcp.map_or([None; 2], |tcp| [tcp.rtt_min_ns, tcp.rtt_ns]);
    of_tcp.into_iter().chain([measured.phases.connect_ns]).flatten().min()
}

/// Returns the time of a wait for the remote host that the network takes, and the rest, which the
/// remote host takes; `None` if the two cannot be distinguished.
#[must_use]
pub fn split_wait(wait_ns: u64, round_trip_ns: Option<u64>) -> Option<(u64, u64)> {
    let trip_ns = round_trip_ns.filter(|trip_ns| is_separable(*trip_ns, wait_ns))?.min(wait_ns);
    Some((trip_ns, wait_ns - trip_ns))
}

fn by_location(layers: &[LayerTime], round_trip_ns: Option<u64>) -> Vec<LocationTime> {
    let mut parts = Parts::default();
    for part in layers {
        match (Location::of_layer(part.layer), split_wait(part.ns, round_trip_ns)) {
            (Location::RemoteHostAndNetwork, Some((network_ns, remote_host_ns))) => {
                parts.add(Location::Network, network_ns);
                parts.add(Location::RemoteHost, remote_host_ns);
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
struct Parts(Vec<LocationTime>);

impl Parts {
    fn add(&mut self, location: Location, ns: u64) {
        match self.0.iter_mut().find(|part| part.location == location) {
            Some(part) => part.ns = part.ns.saturating_add(ns),
            None => self.0.push(LocationTime { location, ns }),
        }
    }

    fn in_order(mut self) -> Vec<LocationTime> {
        self.0.retain(|part| part.ns > 0);
        self.0.sort_by_key(|part| part.location);
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

    fn parts(times: &[(Location, u64)]) -> Vec<LocationTime> {
        times.iter().map(|&(location, ns)| LocationTime { location, ns }).collect()
    }

    /// Returns a login with an echo of which the network takes `network_ns`.
    fn login_with_echo(echo_ns: u64, network_ns: u64) -> Measurement {
        let mut measured = login();
        let echo = measured.echo.as_mut().unwrap();
        echo.p50_ns = echo_ns;
        echo.layers = vec![LayerTime { layer: Layer::RemoteHostAndNetwork, ns: echo_ns }];
        measured.phases.connect_ns = Some(network_ns);
        measured.tcp = None;
        measured
    }

    #[test]
    fn a_slow_echo_has_its_own_remedy_beside_the_first_cause() {
        let mut measured = login_with_echo(121_000_000, 4_000_000);
        measured.causes = vec![cause("remote host", "a screenful", [300_000_000, 400_000_000])];
        let echo = Assessment::of(&measured).slow_echo.unwrap();
        assert_eq!((echo.location, echo.ns), (Location::RemoteHost, 117_000_000));
        assert!(echo.remedy.starts_with("Check the load there"), "{}", echo.remedy);
        measured.causes.push(cause("distance", "an echo", [90_000_000, 121_000_000]));
        let echo = Assessment::of(&measured).slow_echo.unwrap();
        assert_eq!((echo.location, echo.ns), (Location::Network, 90_000_000));
        measured.causes.swap(0, 1);
        assert_eq!(Assessment::of(&measured).slow_echo, None);
    }

    #[test]
    fn a_slow_echo_of_few_keys_is_slow_without_a_cause() {
        let grade = |echo_ns, network_ns| {
            let mut measured = login_with_echo(echo_ns, network_ns);
            measured.echo.as_mut().unwrap().samples = 5;
            Assessment::of(&measured).grade
        };
        assert_eq!(grade(24_000_000, 4_000_000), Grade::Ok);
        assert_eq!(grade(48_000_000, 46_000_000), Grade::Ok);
        assert_eq!(grade(30_000_000, 4_000_000), Grade::Slow);
        assert_eq!(grade(60_000_000, 58_000_000), Grade::Slow);
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
        assert_eq!((delay.operation, delay.parts), (Operation::Echo, parts(&expected)));
    }

    #[test]
    fn without_a_round_trip_time_the_remote_host_and_the_network_are_one_part() {
        let mut measured = login();
        measured.tcp = None;
        measured.phases.connect_ns = None;
        let parts = Assessment::of(&measured).delay.unwrap().parts;
        assert!(parts.iter().any(|part| part.location == Location::RemoteHostAndNetwork));
        assert!(parts.iter().all(|part| part.location != Location::Network));
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
            parts(&[(Location::Network, 4), (Location::RemoteHost, 40), (Location::Other, 6)]);
        assert_eq!(delay, Delay { operation: Operation::Screenful, total_ns: 50, parts });
    }

    #[test]
    fn the_rest_of_a_login_is_that_of_the_network_and_the_remote_host() {
        let mut measured = login();
        measured.phases = Phases {
            connect_ns: Some(40),
            negotiation_ns: Some(50),
            login_prompt_ns: Some(20),
            login_ns: Some(900),
            ..Phases::default()
        };
        measured.tcp = None;
        measured.causes = vec![cause("slow login", Operation::Login.name(), [850, 1_010])];
        let delay = Assessment::of(&measured).delay.unwrap();
        // Round trips of the connection, the negotiation and the login, and the whole prompt.
        let expected = parts(&[(Location::Network, 140), (Location::RemoteHost, 870)]);
        assert_eq!(delay, Delay { operation: Operation::Login, total_ns: 1_010, parts: expected });
        measured.phases.connect_ns = None;
        let parts = Assessment::of(&measured).delay.unwrap().parts;
        assert_eq!(parts.last().unwrap(), &LocationTime { location: Location::Other, ns: 160 });
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
            let sum: u64 = delay.parts.iter().map(|part| part.ns).sum();
            assert!(delay.parts.is_empty() || sum == delay.total_ns, "{delay:?}");
        }
    }
}
