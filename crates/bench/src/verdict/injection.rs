//! Settings of the relay, the kernels, the interposer and the servers for a case: a pure function
//! of the case and of the cause that is removed, if any.
//!
//! A run without one of the causes has the same path, peers and sizes. A deep queue is replaced by
//! a queue of suitable length at the same rate, a half-duplex link by a full-duplex link, and small
//! segments by full segments.

use super::case::Case;
use super::cause::{Cause, Kind};
use super::impairment::{BlockDelay, Bucket, Loss, Medium, Settings};
use super::link::Link;
use super::second::{self, Conditions};
use super::service::Service;
use super::service_address::{FTP_PORT, LOGIN_PORT};
use super::setup::{Busy, Delays, Setup};

/// Size of a full packet of a TUN.
const FULL_PACKET: u64 = 1_500;

impl Setup {
    /// Returns the settings for `case`, without the cause number `removed`.
    pub(super) fn for_case(case: &Case, removed: Option<usize>) -> Self {
        let path = &case.path;
        let direction = Settings {
            delay_ns: path.rtt_us * 500,
            jitter_ns: path.jitter_us * 1_000,
            duplication: path.duplicates_per_mille as f64 / 1e3,
            ..Settings::default()
        };
        let mut setup = Self {
            to_client: direction,
            to_server: direction,
            medium: None,
            client_receive: None,
            server_receive: None,
            server_send: None,
            server_mtu: None,
            control: path.control.name(),
            resolver_ms: 0,
            delays: Delays::default(),
            has_nagle: false,
            prompt_ms: 0,
            password_ms: 0,
            client_busy: None,
            server_busy: None,
            bytes_per_second: None,
            second: Conditions::default(),
        };
        if let Some(rate) = path.rate_kbps {
            setup.limit(rate, rate * path.queue_ms / 8);
        }
        if let Some(rate) = path.uplink_kbps {
            let queue_bytes = rate * path.queue_ms / 8;
            setup.to_server.link = Some(Link { bits_per_second: rate * 1_000, queue_bytes });
        }
        for (number, cause) in case.causes.iter().enumerate() {
            if removed == Some(number) {
                setup.set_lasting_properties(*cause, path.rtt_us);
            } else {
                setup.inject(*cause, case);
            }
        }
        setup
    }

    fn limit(&mut self, kbps: u64, queue_bytes: u64) {
        let link = Some(Link { bits_per_second: kbps * 1_000, queue_bytes });
        self.to_client.link = link;
        self.to_server.link = link;
        self.bytes_per_second = Some(kbps * 125);
    }

    /// Sets the properties that remain if a cause is removed, for example the rate of a link with a
    /// deep queue.
    fn set_lasting_properties(&mut self, cause: Cause, rtt_us: u64) {
        let right = |kbps: u64, packets: u64| (kbps * rtt_us / 8_000).max(packets * FULL_PACKET);
        match cause.kind {
            Kind::Second(fault) => second::set_lasting_properties(self, fault, cause, rtt_us),
            Kind::DeepQueue => self.limit(cause.size, right(cause.size, 5)),
            Kind::ShortQueue => self.limit(cause.size, right(cause.size, 40)),
            Kind::HalfDuplex => self.limit(cause.second, right(cause.second, 10)),
            Kind::SmallSegments => self.limit(cause.second, right(cause.second, 20)),
            _ => {}
        }
    }

    fn inject(&mut self, cause: Cause, case: &Case) {
        let Cause { kind, size, second } = cause;
        let rtt_us = case.path.rtt_us;
        match kind {
            Kind::Second(fault) => second::inject(self, fault, cause, case),
            Kind::SlowResolver => self.resolver_ms = size,
            Kind::LostSyn => {
                let is_login = case.service.is_login();
                let port = if is_login { LOGIN_PORT } else { FTP_PORT };
                self.to_server.drops_first_syn_to = Some(port);
            }
            Kind::SlowGreeting => self.delays.greeting_ms = size,
            Kind::SlowPrompt => self.prompt_ms = size,
            Kind::SlowLogin if case.service.is_login() => self.password_ms = size,
            Kind::SlowLogin => self.delays.login_ms = size,
            Kind::SlowReplies => self.delays.reply_ms = size,
            Kind::Stalls => self.delays.stall = Some((second, size)),
            Kind::SlowFirstByte if case.service == Service::TftpGet => {
                self.to_client.blocks.first_ns = size * 1_000_000;
            }
            Kind::SlowFirstByte => self.delays.first_byte_ms = size,
            Kind::SlowCommand => self.delays.command_ms = size,
            Kind::SlowDisk if case.service == Service::TftpGet => {
                // The time per 16 KiB is reduced in proportion to a TFTP block of 1,428 bytes.
                let each_ns = size * 1_000_000 * 1_428 / 16_384;
                self.to_client.blocks = BlockDelay { each_ns, ..self.to_client.blocks };
            }
            Kind::SlowDisk => self.delays.read_block_ms = size,
            Kind::LateLastReply => self.delays.last_reply_ms = size,
            Kind::SlowReader => self.delays.write_block_ms = size,
            Kind::ServerProcessor => self.server_busy = Some(busy(size)),
            Kind::OwnProcessor => self.client_busy = Some(busy(size)),
            Kind::Nagle => self.has_nagle = true,
            Kind::ReceiveWindow => self.client_receive = Some(size),
            Kind::ServerWindow => self.server_receive = Some(size),
            Kind::SendBuffer => self.server_send = Some(size),
            _ => self.inject_path_cause(cause, rtt_us),
        }
    }

    /// Injects a cause of the path.
    fn inject_path_cause(&mut self, cause: Cause, rtt_us: u64) {
        let Cause { kind, size, second } = cause;
        let both = [&mut self.to_client, &mut self.to_server];
        match kind {
            Kind::Distance => both.into_iter().for_each(|one| one.delay_ns += size * 500_000),
            Kind::Loss => {
                let loss = Loss::Random(size as f64 / 1e3);
                both.into_iter().for_each(|one| one.loss = loss);
            }
            Kind::BurstLoss => {
                let loss = Loss::Burst { share: size as f64 / 1e3, length: second as f64 };
                both.into_iter().for_each(|one| one.loss = loss);
            }
            Kind::Reordering => {
                let reordering = Some((size as f64 / 1e3, second * 1_000_000));
                both.into_iter().for_each(|one| one.reordering = reordering);
            }
            Kind::BlackHole => {
                let size_limit = usize::try_from(size).ok();
                both.into_iter().for_each(|one| one.size_limit = size_limit);
            }
            Kind::Shaper | Kind::Policer => {
                let bits_per_second = size * 1_000;
                let drops = kind == Kind::Policer;
                let bucket = Some(Bucket { bits_per_second, bytes: second * 1_000, drops });
                both.into_iter().for_each(|one| one.policer_or_shaper = bucket);
                self.bytes_per_second = Some(size * 125);
            }
            Kind::HalfDuplex => {
                self.medium = Some(Medium {
                    bits_per_second: second * 1_000,
                    turnaround_ns: size * 1_000_000,
                    queue_bytes: 20 * FULL_PACKET,
                });
                self.bytes_per_second = Some(second * 125);
            }
            Kind::Rate => self.limit(size, (size * rtt_us / 8_000).max(15 * FULL_PACKET)),
            Kind::DeepQueue => self.limit(size, size * second / 8),
            Kind::ShortQueue => self.limit(size, second * FULL_PACKET),
            Kind::SmallSegments => {
                self.server_mtu = Some(size);
                self.limit(second, 20 * FULL_PACKET);
            }
            _ => {}
        }
    }
}

/// Returns a duty cycle: busy for `busy_ms`, then idle for a sixth of this time.
const fn busy(busy_ms: u64) -> Busy {
    Busy { busy_ms, idle_ms: busy_ms / 6 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::generate;

    fn first_with(kind: Kind) -> Case {
        let mut cases = (0..).map(|number| generate::case(1, number));
        cases.find(|case| case.causes.len() == 1 && case.has(kind)).unwrap()
    }

    #[test]
    fn a_cause_changes_the_setup_and_its_removal_leaves_the_path() {
        for row in &super::super::cause::ROWS {
            let case = first_with(row.kind);
            let with = Setup::for_case(&case, None);
            let without = Setup::for_case(&case, Some(0));
            assert_ne!(with, without, "{case}");
            assert_eq!(with.control, without.control);
        }
    }

    #[test]
    fn a_deep_queue_becomes_a_short_one_at_the_same_rate() {
        let case = first_with(Kind::DeepQueue);
        let with = Setup::for_case(&case, None);
        let without = Setup::for_case(&case, Some(0));
        let deep = with.to_client.link.unwrap();
        let short = without.to_client.link.unwrap();
        assert_eq!(deep.bits_per_second, short.bits_per_second);
        assert!(deep.queue_bytes > 2 * short.queue_bytes, "{deep:?} {short:?}");
    }

    #[test]
    fn distance_is_added_to_both_directions() {
        let case = first_with(Kind::Distance);
        let with = Setup::for_case(&case, None);
        let without = Setup::for_case(&case, Some(0));
        let added = with.to_client.delay_ns - without.to_client.delay_ns;
        assert_eq!(added, case.causes[0].size * 500_000);
        assert_eq!(with.to_client.delay_ns, with.to_server.delay_ns);
    }

    #[test]
    fn a_healthy_case_needs_nothing_but_its_path() {
        let mut cases = (0..).map(|number| generate::case(1, number));
        let case = cases.find(|case| case.healthy.is_some()).unwrap();
        let setup = Setup::for_case(&case, None);
        assert!(!setup.needs_interposer() && !setup.has_nagle && setup.resolver_ms == 0);
        assert_eq!(setup.to_client.loss, Loss::None);
    }
}
