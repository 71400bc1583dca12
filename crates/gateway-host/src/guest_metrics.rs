//! The metrics of a gateway: guests, flows, bytes, and what was refused or dropped and why.
//!
//! The only label that is not one of a few fixed texts is the guest, which the user names.

use crate::event_loop::EventLoop;
use crate::guest_control::{self, LIMITS, NamedGuest};
use crate::guest_drops;
use gateway::Guest;
use gateway::dns;
use gateway::policy::Refused;
use gateway::relay::{echo_flows, tcp_flows, udp_flows};
use net::Instant;
use open_metrics::{Exposition, MetricKind};

/// The guests with their names, in the order of their numbers.
type Guests<'a> = Vec<(&'a str, &'a Guest)>;
/// Value of a label, and the function that returns its count.
type Count<C> = (&'static str, fn(&C) -> u64);

/// Returns the response to a scrape.
pub(crate) fn exposition(event_loop: &EventLoop, names: &[NamedGuest]) -> String {
    let guests = names.iter().enumerate();
    let guests = guests.filter_map(|(number, named)| {
        event_loop.guest(number).map(|guest| (named.name.as_str(), guest))
    });
    let guests: Guests<'_> = guests.collect();
    let mut out = Exposition::default();
    out.head("plumb_gateway_guests", MetricKind::Gauge, "Guests.");
    out.sample("plumb_gateway_guests", &[], guests.len() as u64);
    write_flows(&mut out, &guests, event_loop.now());
    write_bytes(&mut out, &guests);
    write_refusals(&mut out, &guests);
    write_drops(&mut out, &guests);
    write_limited_buffers(&mut out, &guests);
    write_queues(&mut out, &guests);
    write_dns(&mut out, &guests);
    out.finish()
}

fn write_flows(out: &mut Exposition, guests: &Guests<'_>, now: Instant) {
    out.head("plumb_gateway_flows", MetricKind::Gauge, "Open flows.");
    for (name, guest) in guests {
        for (protocol, flows) in [("tcp", guest.tcp().len()), ("udp", guest.udp().len())] {
            let labels = [("guest", *name), ("protocol", protocol)];
            out.sample("plumb_gateway_flows", &labels, flows as u64);
        }
    }
    let help = "Open TCP flows by what has limited their rate in the last seconds.";
    out.head("plumb_gateway_flows_by_limit", MetricKind::Gauge, help);
    for (name, guest) in guests {
        let mut counts = LIMITS.map(|limit| (limit, 0));
        for (_, status) in guest.tcp_statuses(now) {
            let limit = guest_control::name_of(status.limit);
            let found = counts.iter_mut().find(|(name, _)| *name == limit);
            found.into_iter().for_each(|(_, count)| *count += 1);
        }
        for (limit, count) in counts {
            let labels = [("guest", *name), ("limit", limit)];
            out.sample("plumb_gateway_flows_by_limit", &labels, count);
        }
    }
    let help = "Flows opened by guests (outgoing), and to forwarded ports (incoming).";
    out.head("plumb_gateway_flows_opened", MetricKind::Counter, help);
    for (name, guest) in guests {
        let tcp = guest.tcp().counters();
        let udp = guest.udp().counters();
        for (protocol, direction, flows) in [
            ("tcp", "outgoing", tcp.outgoing),
            ("tcp", "incoming", tcp.incoming),
            ("udp", "outgoing", udp.outgoing),
            ("udp", "incoming", udp.incoming),
        ] {
            let labels = [("guest", *name), ("protocol", protocol), ("direction", direction)];
            out.sample("plumb_gateway_flows_opened_total", &labels, flows);
        }
    }
}

fn write_bytes(out: &mut Exposition, guests: &Guests<'_>) {
    let help = "Bytes that guests have sent to hosts, and received from them. Datagrams that the host \
                refused are included.";
    out.head("plumb_gateway_bytes", MetricKind::Counter, help);
    for (name, guest) in guests {
        let tcp = guest.tcp().counters();
        let udp = guest.udp().counters();
        for (protocol, direction, bytes) in [
            ("tcp", "sent", tcp.bytes_to_host),
            ("tcp", "received", tcp.bytes_to_guest),
            ("udp", "sent", udp.bytes_to_host),
            ("udp", "received", udp.bytes_to_guest),
        ] {
            let labels = [("guest", *name), ("protocol", protocol), ("direction", direction)];
            out.sample("plumb_gateway_bytes_total", &labels, bytes);
        }
    }
}

fn write_refusals(out: &mut Exposition, guests: &Guests<'_>) {
    let tcp: [Count<tcp_flows::Counters>; 5] = [
        ("policy", |counters| counters.denied),
        ("flow limit", |counters| counters.over_limit),
        ("rate limit", |counters| counters.over_rate),
        ("host", |counters| counters.failed),
        ("descriptor limit", |counters| counters.no_descriptor),
    ];
    let udp: [Count<udp_flows::Counters>; 5] = [
        ("policy", |counters| counters.denied),
        ("flow limit", |counters| counters.over_limit),
        ("rate limit", |counters| counters.over_rate),
        ("host", |counters| counters.unsent),
        ("descriptor limit", |counters| counters.no_descriptor),
    ];
    let icmp: [Count<echo_flows::Counters>; 3] = [
        ("policy", |counters| counters.denied),
        ("limit", |counters| counters.over_limit),
        ("host", |counters| counters.unsent),
    ];
    let help = "Flows and datagrams refused to guests, by reason.";
    out.head("plumb_gateway_refusals", MetricKind::Counter, help);
    for (name, guest) in guests {
        write_counts(out, (name, "tcp"), &tcp, &guest.tcp().counters());
        write_counts(out, (name, "udp"), &udp, &guest.udp().counters());
        write_counts(out, (name, "icmp"), &icmp, &guest.echo().counters());
    }
    let reasons: [Count<Refused>; 9] = [
        ("rule", |refused| refused.rule),
        ("loopback", |refused| refused.loopback),
        ("unspecified", |refused| refused.unspecified),
        ("link-local", |refused| refused.link_local),
        ("metadata", |refused| refused.metadata),
        ("private", |refused| refused.private),
        ("multicast", |refused| refused.multicast),
        ("broadcast", |refused| refused.broadcast),
        ("reserved", |refused| refused.reserved),
    ];
    let help = "Destinations that the policy refused, by reason.";
    out.head("plumb_gateway_refused_destinations", MetricKind::Counter, help);
    for (name, guest) in guests {
        for (reason, count) in reasons {
            let labels = [("guest", *name), ("reason", reason)];
            let name = "plumb_gateway_refused_destinations_total";
            out.sample(name, &labels, count(&guest.refused()));
        }
    }
}

fn write_counts<C>(
    out: &mut Exposition,
    (guest, protocol): (&str, &str),
    reasons: &[Count<C>],
    counters: &C,
) {
    for (reason, count) in reasons {
        let labels = [("guest", guest), ("protocol", protocol), ("reason", *reason)];
        out.sample("plumb_gateway_refusals_total", &labels, count(counters));
    }
}

fn write_drops(out: &mut Exposition, guests: &Guests<'_>) {
    let help = "Packets dropped, by reason.";
    out.head("plumb_gateway_dropped_packets", MetricKind::Counter, help);
    for (name, guest) in guests {
        for (reason, count) in guest_drops::drops(guest) {
            let labels = [("guest", *name), ("reason", reason)];
            out.sample("plumb_gateway_dropped_packets_total", &labels, count);
        }
    }
}

fn write_limited_buffers(out: &mut Exposition, guests: &Guests<'_>) {
    let metric = "plumb_gateway_limited_buffers";
    let help = "Times that a buffer was small at first or did not grow, to save memory.";
    out.head(metric, MetricKind::Counter, help);
    for (name, guest) in guests {
        let labels = [("guest", *name)];
        out.sample("plumb_gateway_limited_buffers_total", &labels, guest.limited_buffers());
    }
}

/// Writes the waits of packets for slow outputs.
fn write_queues(out: &mut Exposition, guests: &Guests<'_>) {
    let metric = "plumb_gateway_queue_delay_seconds";
    out.head(metric, MetricKind::Gauge, "Wait of packets for a slow output, by quantile.");
    for (name, guest) in guests {
        let Some(counters) = guest.output_counters() else { continue };
        for (quantile, percent) in [("0.5", 50), ("0.99", 99)] {
            let Some(ns) = counters.sojourn_ns.percentile(percent) else { continue };
            out.sample_ns(metric, &[("guest", name), ("quantile", quantile)], ns);
        }
    }
}

fn write_dns(out: &mut Exposition, guests: &Guests<'_>) {
    let outcomes: [Count<dns::Counters>; 7] = [
        ("answered", |counters| counters.answered),
        ("unanswered", |counters| counters.unanswered),
        ("refused", |counters| counters.refused_queries),
        ("malformed", |counters| counters.malformed_queries + counters.ignored_queries),
        ("unsupported", |counters| counters.unsupported_queries),
        ("repeated", |counters| counters.repeated_queries),
        ("reply dropped", |counters| counters.replies_dropped),
    ];
    let help = "DNS queries forwarded, by outcome.";
    out.head("plumb_gateway_dns_queries", MetricKind::Counter, help);
    for (name, guest) in guests {
        for (outcome, count) in outcomes {
            let labels = [("guest", *name), ("outcome", outcome)];
            out.sample("plumb_gateway_dns_queries_total", &labels, count(&guest.dns().counters()));
        }
    }
}
