//! The steps until the session is usable.
//!
//! A step takes at least one round trip of the network; time beyond it is charged to the remote
//! host or the name server.

use super::cause::{Cause, CauseKind, Operation};
use super::flow_causes::{is_disordered, line_bps};
use super::losses::has_losses;
use super::observation::{Observation, Steps};
use super::round_trip::{round_trip_ns, tcp_round_trip_ns};
use crate::format::{count, duration};
use crate::statistics;

/// Minimum time until the prompt of a program that is reported, ns. An SSH client takes some
/// hundred milliseconds to exchange keys.
const MIN_PROGRAM_PROMPT_NS: u64 = 1_000_000_000;

/// Returns the causes that delay the steps until the session is usable.
pub(super) fn causes(observed: &Observation) -> Vec<Cause> {
    let steps = &observed.steps;
    let known_steps = [
        steps.resolve_ns,
        steps.connect_ns,
        steps.tls_ns,
        steps.negotiation_ns,
        steps.prompt_ns,
        steps.password_prompt_ns,
        steps.login_ns,
    ];
    let total_ns = known_steps.into_iter().flatten().fold(0_u64, u64::saturating_add);
    let cause = |kind, gain_ns, subject, advice| cause_of(kind, gain_ns, total_ns, subject, advice);
    let mut causes = Vec::new();
    let trip = round_trip_ns(observed).unwrap_or(0);
    let own_ns = own_wait_ns(steps, total_ns, trip);
    let advice = "plumb was runnable but not scheduled for that time. Stop other processes on this \
                  host, or run plumb with a higher priority (nice)";
    let subject = "Waiting for a processor on this host";
    causes.push(cause(CauseKind::LocalProcessor, own_ns, subject, advice));
    causes.extend(greeting_ns(observed).map(|ns| {
        let advice = "it was silent for that time after the connection was established, beyond the \
                      round trips. Check there for a reverse lookup of this host's address that \
                      times out, for a service that starts slowly, and for overload";
        cause(CauseKind::SlowGreeting, ns, "The remote host's late greeting", advice)
    }));
    if let Some(ns) = steps.resolve_ns {
        let advice = "the lookup of the host name took that long. Check the DNS servers in \
                      /etc/resolv.conf, or add the address to /etc/hosts";
        causes.push(cause(CauseKind::NameServer, ns, "Name resolution", advice));
    }
    // A step that waited for a lost packet would be charged to the remote host.
    let delay_ns = packet_delay_ns(observed);
    if let Some(ns) = steps.prompt_ns.filter(|_| steps.is_program) {
        let advice = "it connects, exchanges keys and logs in during that time. Check name servers \
                      and keys here, reverse lookups, PAM and the scripts of the shell there; for \
                      ssh, the option -v shows the slow step";
        let gain_ns = ns.saturating_sub(own_ns);
        let gain_ns = if gain_ns >= MIN_PROGRAM_PROMPT_NS { gain_ns } else { 0 };
        causes.push(cause(CauseKind::SlowPrompt, gain_ns, "The program's late prompt", advice));
    }
    if let Some(ns) = steps.prompt_ns.filter(|_| !steps.is_program) {
        let advice = "it arrived that much later than one round trip. Check there for a reverse \
                      lookup of this host's address that times out, and for a slow login program \
                      or slow scripts of the shell";
        let gain_ns = ns.saturating_sub(trip).saturating_sub(delay_ns).saturating_sub(own_ns);
        causes.push(cause(CauseKind::SlowPrompt, gain_ns, "The remote host's late prompt", advice));
    }
    let other_ns = trip.saturating_add(delay_ns).saturating_add(own_ns);
    causes.extend(late_password_prompt(steps, total_ns, other_ns));
    if let Some(ns) = steps.login_ns {
        let advice = "the response to the credentials arrived that much later than one round trip. \
                      Check the authentication there (PAM, directory service) and the scripts that \
                      run at login";
        let gain_ns = ns.saturating_sub(trip).saturating_sub(delay_ns).saturating_sub(own_ns);
        causes.push(cause(
            CauseKind::SlowLogin,
            gain_ns,
            "The login check on the remote host",
            advice,
        ));
    }
    causes.extend(tls_causes(steps, total_ns, trip));
    causes.extend(lost_connection_request(observed, total_ns));
    causes
}

/// Returns the time of the prompt for a password beyond `other_ns`, which is not due to the remote
/// host.
fn late_password_prompt(steps: &Steps, total_ns: u64, other_ns: u64) -> Option<Cause> {
    let advice = "it arrived that much later than one round trip after the user name. Check there \
                  for a lookup of the user in a directory service that times out";
    let gain_ns = steps.password_prompt_ns?.saturating_sub(other_ns);
    let subject = "The remote host's late prompt for a password";
    Some(cause_of(CauseKind::SlowPrompt, gain_ns, total_ns, subject, advice))
}

/// Returns a cause that delays the login by `gain_ns`, at most by `total_ns`.
fn cause_of(kind: CauseKind, gain_ns: u64, total_ns: u64, subject: &str, advice: &str) -> Cause {
    let gain_ns = gain_ns.min(total_ns);
    Cause {
        kind,
        operation: Operation::Login,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: subject.to_owned(),
        advice: advice.to_owned(),
    }
}

/// Returns the time of TLS on either host beyond the round trips of the handshake.
fn tls_causes(steps: &Steps, total_ns: u64, trip_ns: u64) -> Vec<Cause> {
    let mut causes = Vec::new();
    if let Some(ns) = steps.tls_cpu_ns {
        let advice = "the handshake used that much processor time here. Use a certificate with an \
                      elliptic-curve key, or session resumption";
        let subject = "TLS on this host's processor";
        causes.push(cause_of(CauseKind::Tls, ns, total_ns, subject, advice));
    }
    if let Some(ns) = steps.tls_ns {
        let advice = "it took that long beyond its round trips and the processor time of this \
                      host. Check the load there, and use an elliptic-curve key instead of RSA, \
                      which costs the server most";
        let known_ns =
            steps.tls_cpu_ns.unwrap_or(0).saturating_add(trip_ns.saturating_mul(TLS_TRIPS));
        let gain_ns = ns.saturating_sub(known_ns);
        let subject = "The remote host's TLS handshake";
        causes.push(cause_of(CauseKind::RemoteHost, gain_ns, total_ns, subject, advice));
    }
    causes
}

/// Returns the wait for the local processor, ns: at most the time beyond the round trips, because
/// without this wait each step that waits for the remote host still takes a round trip. The step in
/// which the local host waited is unknown, so no single step is charged.
fn own_wait_ns(steps: &Steps, total_ns: u64, trip_ns: u64) -> u64 {
    let trips = [steps.connect_ns, steps.negotiation_ns, steps.password_prompt_ns, steps.login_ns];
    let trips = trips.into_iter().flatten().filter(|ns| *ns > 0).map(|ns| ns.min(trip_ns));
    let beyond_trips_ns = total_ns.saturating_sub(trips.fold(0, u64::saturating_add));
    steps.own_wait_ns.unwrap_or(0).min(beyond_trips_ns)
}

/// Returns the possible delay of the single packet of a step if packets are lost or reordered, ns:
/// the delay of the latest echo.
fn packet_delay_ns(observed: &Observation) -> u64 {
    let has_losses = has_losses(observed) == Some(true);
    if !has_losses && !is_disordered(observed) {
        return 0;
    }
    let min_ns = if has_losses { RETRANSMISSION_NS } else { 0 };
    let Some(echo) = observed.echo.as_ref() else { return min_ns };
    let max = echo.samples_ns.iter().max().copied().unwrap_or(0);
    let median_ns = statistics::median(&echo.samples_ns).unwrap_or(max);
    max.saturating_sub(median_ns).max(min_ns)
}

/// A lost packet is retransmitted at the earliest after this time plus a round trip (Linux), ns.
const RETRANSMISSION_NS: u64 = 200_000_000;

/// Round trips from the connection to the first byte of the server: the server may wait for the
/// first byte of the client.
const GREETING_TRIPS: u64 = 1;
/// Round trips of the subsequent negotiation.
const NEGOTIATION_TRIPS: u64 = 3;

/// Returns the silence of the server after the connection, beyond the round trips of a greeting and
/// of the negotiation, ns. The wait for the prompt is not included.
fn greeting_ns(observed: &Observation) -> Option<u64> {
    let steps = &observed.steps;
    let trip_ns = round_trip_ns(observed)?;
    let silent_ns = steps.greeting_ns?.min(steps.negotiation_ns?);
    let rest_ns = steps.negotiation_ns?.saturating_sub(silent_ns);
    let beyond_trips = |ns: u64, trips: u64| ns.saturating_sub(trip_ns.saturating_mul(trips));
    let silent_ns = beyond_trips(silent_ns, GREETING_TRIPS);
    let negotiating_ns = beyond_trips(rest_ns, NEGOTIATION_TRIPS);
    let delay_ns = packet_delay_ns(observed).saturating_add(steps.own_wait_ns.unwrap_or(0));
    Some(silent_ns.saturating_add(negotiating_ns).saturating_sub(delay_ns))
}

/// Round trips of a TLS 1.2 handshake (RFC 5246 §7.3); TLS 1.3 needs one.
const TLS_TRIPS: u64 = 2;

/// Initial retransmission timeout of a SYN (RFC 6298, section 2.1), ns; the timeout doubles with
/// each retransmission.
const SYN_TIMEOUT_NS: u64 = 1_000_000_000;
/// Maximum time by which a timer expires early due to its granularity, ns.
const EARLY_NS: u64 = 50_000_000;
/// Maximum time by which a timer expires late, ns.
const TIMER_LATE_NS: u64 = 100_000_000;
/// Default number of SYN retransmissions (Linux, net.ipv4.tcp_syn_retries).
const SYN_RETRIES: u32 = 6;

/// Returns whether a connection that took `delay_ns` longer than a round trip was established by a
/// retransmitted SYN: after 1, 3, 7, ... seconds.
fn matches_syn_timeout(delay_ns: u64) -> bool {
    (1..=SYN_RETRIES).any(|tries| {
        let timers_ns = SYN_TIMEOUT_NS.saturating_mul((1 << tries) - 1);
        let min_ns = timers_ns - EARLY_NS;
        (min_ns..=timers_ns.saturating_add(TIMER_LATE_NS)).contains(&delay_ns)
    })
}

/// Returns the cost of a lost SYN, or of another cause that delayed the connection as much.
fn lost_connection_request(observed: &Observation, total_ns: u64) -> Option<Cause> {
    let connect_ns = observed.steps.connect_ns?;
    let trip_ns = tcp_round_trip_ns(observed)?;
    let min_ns = SYN_TIMEOUT_NS - EARLY_NS;
    let gain_ns = connect_ns.checked_sub(trip_ns).filter(|ns| *ns >= min_ns)?;
    let cause = |kind, subject: &str, advice| Cause {
        kind,
        operation: Operation::Login,
        cost_ns: gain_ns,
        gain_ns,
        total_ns,
        subject: subject.to_owned(),
        advice,
    };
    if matches_syn_timeout(gain_ns) {
        let advice = format!(
            "it was retransmitted after a timeout, and the round-trip time is only {}. Check the \
             links of the path for errors, and the listen backlog of the server",
            duration(trip_ns)
        );
        return Some(cause(CauseKind::Loss, "A lost SYN", advice));
    }
    // Only traffic queued ahead can delay a connection request by this much.
    if let Some(rate_bps) =
        line_bps(observed).filter(|rate| queued_bytes(gain_ns, *rate) <= QUEUE_BYTES)
    {
        let advice = format!(
            "it carries {} bit/s of data, and about {} bytes of other traffic were ahead of the \
             connection request or its reply. Repeat without other traffic, or use a faster link",
            count(rate_bps),
            count(queued_bytes(gain_ns, rate_bps))
        );
        return Some(cause(CauseKind::LineRate, "The slowest link of the path", advice));
    }
    let advice = format!(
        "the connection took {}, the round-trip time is {}, and no TCP timeout explains the \
         difference. To tell them apart, repeat without other traffic on the path",
        duration(connect_ns),
        duration(trip_ns)
    );
    let subject = "Either a lost connection request or other traffic ahead of it";
    Some(cause(CauseKind::Unknown, subject, advice))
}

/// Maximum length of a queue in front of a slow link, bytes.
const QUEUE_BYTES: u64 = 1 << 20;

/// Returns the bytes that a link of `rate_bps` sends in `ns`.
fn queued_bytes(ns: u64, rate_bps: u64) -> u64 {
    let bytes = u128::from(ns) * u128::from(rate_bps) / 8_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
