//! Settings of the relay, the kernels, the interposer and the servers for a cause of the second
//! generator, and the settings that remain if the cause is removed.

use super::super::case::Case;
use super::super::cause::Cause;
use super::super::impairment::{Bucket, Loss};
use super::super::link::Link;
use super::super::service::Service;
use super::super::service_address::FTP_PORT;
use super::super::setup::Setup;
use super::super::variation::{Periodic, RadioSleep, Red};
use super::cause::Fault;
use super::conditions::CompetingPrograms;

const MS: u64 = 1_000_000;
/// Port of ident (RFC 1413).
const IDENT_PORT: u16 = 113;
/// Size of a full packet of a TUN.
const FULL_PACKET: u64 = 1_500;
/// Ratio of the downlink's rate to the rate of a saturated uplink.
const DOWNLINK_FACTOR: u64 = 8;
/// Ratio of the higher to the lower of two alternating rates.
const RATE_FACTOR: u64 = 8;
/// Rate of the slow radio, kbit/s: a full packet takes 6 ms.
const RADIO_KBPS: u64 = 2_000;
/// Range of queue lengths in which random early detection drops some packets, in packets.
const RED_PACKETS: (u64, u64) = (1, 6);

/// Injects a cause.
pub(in super::super) fn inject(setup: &mut Setup, fault: Fault, cause: Cause, case: &Case) {
    let Cause { size, second, .. } = cause;
    let rtt_us = case.path.rtt_us;
    set_lasting_properties(setup, fault, cause, rtt_us);
    let conditions = &mut setup.second;
    match fault {
        Fault::LostQuery => {
            conditions.drops_first_query = true;
            conditions.query_timeout_s = Some(size);
        }
        Fault::ReverseLookup => conditions.server_resolver_ms = Some(size),
        Fault::IdentLookup => {
            setup.to_client.variation.held_port = Some((IDENT_PORT, size * MS));
        }
        Fault::SlowProfile => conditions.profile_ms = size,
        Fault::BusyLoops => {
            let server_nice = i8::try_from(second).unwrap_or(0);
            conditions.loops = Some(CompetingPrograms { count: size, server_nice });
        }
        Fault::PlainTftp => conditions.has_no_options = true,
        Fault::ChattyOutput => {
            setup.delays.pieces = Some((second, size));
            setup.bytes_per_second = Some(second * 1_000 / size.max(1));
        }
        Fault::SlowReplies => setup.delays.each_reply_ms = size,
        Fault::DiskPauses => setup.delays.read_pause = Some((second * 1_000, size)),
        Fault::PeriodicSync => setup.delays.write_pause = Some((second * 1_000, size)),
        Fault::ClientWindow => setup.client_receive = Some(size),
        Fault::ServerWindow => setup.server_receive = Some(size),
        Fault::ClampedSegments => setup.server_mtu = Some(size),
        _ => inject_path_cause(setup, fault, cause, case.service),
    }
}

/// Injects a cause of the path.
fn inject_path_cause(setup: &mut Setup, fault: Fault, cause: Cause, service: Service) {
    let Cause { size, second, .. } = cause;
    let loss = Loss::Random(size as f64 / 1e3);
    match fault {
        Fault::LossToServer => setup.to_server.loss = loss,
        Fault::LossToClient => setup.to_client.loss = loss,
        Fault::BlockedData => setup.to_server.variation.drops_first_syn_beside = Some(FTP_PORT),
        Fault::RadioWake => {
            let wake = RadioSleep { idle_ns: second * MS, delay_ns: size * MS };
            setup.to_server.variation.wake = Some(wake);
        }
        Fault::SaturatedUplink => setup.to_server.variation.cross = Some(ALWAYS),
        // The competing flow transfers one object after the other, with pauses between them.
        Fault::BusyDownlink => {
            let busy = Periodic { every_ns: 1_800 * MS, for_ns: 1_300 * MS };
            setup.to_client.variation.cross = Some(busy);
        }
        Fault::SmallPolicer | Fault::LargeShaper => {
            let drops = fault == Fault::SmallPolicer;
            let bits_per_second = size * 1_000;
            let bucket = Some(Bucket { bits_per_second, bytes: second * 1_000, drops });
            let data = match service {
                Service::FtpPut => &mut setup.to_server,
                _ => &mut setup.to_client,
            };
            data.policer_or_shaper = bucket;
            setup.bytes_per_second = Some(size * 125);
        }
        _ => inject_symmetric_cause(setup, fault, cause),
    }
}

/// Injects a cause that affects both directions alike.
fn inject_symmetric_cause(setup: &mut Setup, fault: Fault, Cause { size, second, .. }: Cause) {
    for one in [&mut setup.to_client, &mut setup.to_server] {
        let variation = &mut one.variation;
        let alternation = Periodic { every_ns: 2 * second * MS, for_ns: second * MS };
        let interruption = Periodic { every_ns: second * MS, for_ns: size * MS };
        match fault {
            Fault::Satellite => one.delay_ns += size * MS / 2,
            // The longer route applies to both directions.
            Fault::RouteFlap => variation.longer_route = Some((alternation, size * MS / 2)),
            Fault::WifiPauses => variation.pauses = Some(interruption),
            Fault::Outages => variation.outages = Some(interruption),
            Fault::LossOfLarge => {
                let length = usize::try_from(second).unwrap_or(usize::MAX);
                variation.loss_above = Some((length, size));
            }
            Fault::AlternatingRate => variation.slow_phase = Some((alternation, size * 1_000)),
            Fault::EarlyDetection => {
                variation.red = Some(Red {
                    least_bytes: RED_PACKETS.0 * FULL_PACKET,
                    most_bytes: RED_PACKETS.1 * FULL_PACKET,
                    most_per_mille: second,
                });
            }
            _ => {}
        }
    }
}

/// A period without gaps.
const ALWAYS: Periodic = Periodic { every_ns: 1, for_ns: 1 };

/// Sets the properties that the path and the peers have with and without the cause, such as the
/// rate of a link. If the cause is a slow lookup, the server also makes this lookup without the
/// cause, and gets its answer at once.
pub(in super::super) fn set_lasting_properties(
    setup: &mut Setup,
    fault: Fault,
    cause: Cause,
    rtt_us: u64,
) {
    let Cause { size, second, .. } = cause;
    let link =
        |kbps: u64, queue_bytes: u64| Some(Link { bits_per_second: kbps * 1_000, queue_bytes });
    let queue_bytes_for =
        |kbps: u64, packets: u64| (kbps * rtt_us / 8_000).max(packets * FULL_PACKET);
    match fault {
        Fault::ReverseLookup => setup.second.server_resolver_ms = Some(0),
        Fault::IdentLookup => setup.second.asks_ident = true,
        Fault::SaturatedUplink => {
            let downlink = DOWNLINK_FACTOR * size;
            setup.to_server.link = link(size, size * second / 8);
            setup.to_client.link = link(downlink, queue_bytes_for(downlink, 40));
            setup.bytes_per_second = Some(downlink * 125);
        }
        Fault::BusyDownlink => {
            let queue = link(size, size * second / 8);
            setup.to_client.link = queue;
            setup.to_server.link = queue;
            setup.bytes_per_second = Some(size * 125);
        }
        Fault::AlternatingRate => {
            let rate = RATE_FACTOR * size;
            let queue = link(rate, queue_bytes_for(rate, 40));
            setup.to_client.link = queue;
            setup.to_server.link = queue;
            setup.bytes_per_second = Some(rate * 125);
        }
        Fault::EarlyDetection => {
            let queue = link(size, queue_bytes_for(size, 40));
            setup.to_client.link = queue;
            setup.to_server.link = queue;
            setup.bytes_per_second = Some(size * 125);
        }
        Fault::ClampedSegments => {
            let queue = link(RADIO_KBPS, queue_bytes_for(RADIO_KBPS, 40));
            for one in [&mut setup.to_client, &mut setup.to_server] {
                one.link = queue;
                one.variation.packet_ns = second * MS;
            }
            // A full packet takes the fixed time per packet and the time of its bits.
            let packet_ms = FULL_PACKET * 8 / RADIO_KBPS + second;
            setup.bytes_per_second = Some(FULL_PACKET * 1_000 / packet_ms);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;
    use crate::verdict::cause::Kind;
    use crate::verdict::second;

    fn first_with(kind: Kind) -> Case {
        let mut cases = (0..).map(|number| second::case(1, number));
        cases.find(|case| case.causes.len() == 1 && case.has(kind)).unwrap()
    }

    #[test]
    fn a_cause_changes_the_setup_and_its_removal_leaves_the_rates() {
        for row in &ROWS {
            let case = first_with(row.kind);
            let with = Setup::for_case(&case, None);
            let without = Setup::for_case(&case, Some(0));
            assert_ne!(with, without, "{case}");
            assert_eq!(with.control, without.control);
            assert_eq!(with.to_client.link, without.to_client.link, "{case}");
            assert_eq!(with.to_server.link, without.to_server.link, "{case}");
        }
    }

    #[test]
    fn a_loss_in_one_direction_leaves_the_other_one() {
        let setup = |fault| Setup::for_case(&first_with(Kind::Second(fault)), None);
        let server = setup(Fault::LossToServer);
        let client = setup(Fault::LossToClient);
        assert_eq!((server.to_client.loss, client.to_server.loss), (Loss::None, Loss::None));
        assert!(server.to_server.loss != Loss::None && client.to_client.loss != Loss::None);
    }

    #[test]
    fn a_saturated_uplink_has_a_faster_downlink_without_other_traffic() {
        let setup = Setup::for_case(&first_with(Kind::Second(Fault::SaturatedUplink)), None);
        let up = setup.to_server.link.unwrap();
        let downlink = setup.to_client.link.unwrap();
        assert_eq!(downlink.bits_per_second, 8 * up.bits_per_second);
        assert!(setup.to_server.variation.cross.is_some());
        assert_eq!(setup.to_client.variation.cross, None);
    }

    #[test]
    fn a_server_with_lookups_makes_them_with_and_without_the_cause() {
        let case = first_with(Kind::Second(Fault::ReverseLookup));
        let resolver = |removed| Setup::for_case(&case, removed).second.server_resolver_ms;
        assert_eq!(resolver(Some(0)), Some(0));
        assert_eq!(resolver(None), Some(case.causes[0].size));
    }
}
