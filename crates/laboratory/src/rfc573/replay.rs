//! A replayed transfer of RFC 573, with the FTP and TCP of `protocols` between two hosts of 1973.
//!
//! ```text
//! local host ── interface ── IMP ── line ── IMP ── ... ── interface ── remote host
//! ```
//!
//! The inputs are the paper's data of a transfer: the hosts, the command, the number of bits, and
//! the local CPU time per bit, which is also assumed for the remote host. The output is the
//! duration. The slowest part of the path is simulated as a line with its rate, and the other parts
//! delay every datagram by the time of one packet. A TCP window represents an allocation of the
//! NCP, and a segment represents a message. The headers are those of TCP and IP, with 320 bits per
//! message. In 1973 the headers of the NCP had 72 bits per message, and those of the IMPs 152 bits
//! per packet.

use super::endpoint::{Endpoint, EndpointParameters};
use super::scenario::{Allocates, Network, Remote};
use super::transfer_request::{Form, Verb};
use net::link::{Datagram, Link};
use net::meter::{Account, Costs, Work};
use net::station::Settings;
use net::time::{Duration, Instant};
use net::transport::tcp::{Acknowledgment, BlackHoleDetection, Profile, ReceiveWindow, SendLimit};
use protocols::ftp::user::{StoreKind, Task};
use protocols::ftp::{ByteSize, Name, Representation, Type};
use simulator::faults::Faults;
use simulator::transmission_line::{Line, Unit};
use simulator::{Host, Side, Stuck, World, seed_of};
use std::fmt;
use std::net::Ipv4Addr;

const USER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Length of a full packet with its overhead on a line between IMPs, in bits (RFC 594).
const PACKET_BITS: u64 = 1_008 + 152;
const MTU_BYTES: usize = 1_500;
const WORD_BITS: u64 = 36;
/// Retransmission timeout. Acknowledgments do not wait for a program's turn, so a longer delay
/// indicates a loss.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit of a replayed transfer; no transfer of the paper's half year took longer.
const LIMIT: Duration = Duration::from_secs(86_400);

/// The paper's data of a transfer, without its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Script<'a> {
    /// Name of the remote host.
    pub remote: &'a str,
    /// Role of the local host (client or server). Its record of the transfer is compared with the
    /// paper.
    pub ours: Side,
    /// FTP command of the user.
    pub verb: Verb,
    /// Representation of the file on the data connection.
    pub form: Form,
    /// Length of the file in bits, rounded down to whole words or bytes.
    pub bits: u64,
    /// Processor time per bit, in picoseconds.
    pub cpu_ps_per_bit: u64,
    /// Seed of the random number generator.
    pub seed: u64,
}

/// Result of a replayed transfer, from the record of the local host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// Bits transferred on the data connection.
    pub bits: u64,
    /// Time from the command to the final reply.
    pub elapsed: Duration,
    /// CPU time charged to the local program.
    pub cpu: Duration,
}

/// Reason why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The scenario has no host of this name.
    UnknownHost(String),
    /// No event was left before the end of the transfer.
    Stuck(Stuck),
    /// The transfer failed, or the file differs between the two hosts.
    Failed(Instant),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost(name) => {
                write!(f, "no [[network.remotes]] has the name {name}, which a transfer needs")
            }
            Self::Stuck(stuck) => stuck.fmt(f),
            Self::Failed(at) => write!(f, "a transfer has failed at {at}"),
        }
    }
}

impl std::error::Error for Failure {}

impl Network {
    /// Returns a copy of this network in which the hosts have no other work.
    #[must_use]
    pub(crate) fn idle(&self) -> Self {
        Self { turn_ms: 0, ..self.clone() }
    }

    /// Returns a copy of this network in which every host allocates at least `bits`.
    #[must_use]
    pub(crate) fn allocating(&self, bits: u64) -> Self {
        let mut network = self.clone();
        network.allocation_bits = network.allocation_bits.max(bits);
        for remote in &mut network.remotes {
            remote.allocation_bits = remote.allocation_bits.max(bits);
        }
        network
    }

    /// Returns a copy of this network in which every host renews an allocation as soon as a program
    /// has read data.
    #[must_use]
    pub(crate) fn allocating_as_read(&self) -> Self {
        Self { allocates: Allocates::AsRead, ..self.clone() }
    }

    /// Returns a copy of this network in which no host converts text before sending it.
    #[must_use]
    pub(crate) fn converting_nothing(&self) -> Self {
        let mut network = self.clone();
        for remote in &mut network.remotes {
            remote.conversion_ns_per_bit = 0;
        }
        network
    }

    /// Returns a line that models the path to a host `hops` lines away.
    fn line(&self, hops: u64) -> Line {
        let packet = |bps: u64| Duration::from_nanos(PACKET_BITS * 1_000_000_000 / bps.max(1));
        let imps = Duration::from_micros(self.imp_us) * u32::try_from(hops + 1).unwrap_or(1);
        let interface = packet(self.interface_bps);
        let lines = packet(self.line_bps) * u32::try_from(hops.saturating_sub(1)).unwrap_or(0);
        // One part of the path is modeled as the line of the simulation: a line between IMPs if
        // there are hops, otherwise an interface.
        let (rate_bps, interfaces) = if hops == 0 {
            (self.interface_bps, interface)
        } else {
            (self.line_bps, interface * 2)
        };
        let delay = imps + interfaces + lines;
        let unit = Unit::Datagram;
        let faults = Faults::default();
        Line { unit, rate_bps: Some(rate_bps), delay, faults }
    }

    fn profile(&self, allocation_bits: u64) -> Profile {
        let bytes = |bits: u64| usize::try_from(bits / 8).unwrap_or(usize::MAX);
        Profile {
            receive_window: ReceiveWindow::Bytes(bytes(allocation_bits)),
            window_update: self.allocates.rule(),
            acknowledgment: Acknowledgment::AtOutput,
            send_limit: SendLimit::Bytes(bytes(self.buffer_bits)),
            nagle: false,
            mss_max: u16::try_from(self.message_bits / 8).ok(),
            extensions: false,
            pacing: false,
            black_hole_detection: BlackHoleDetection::Off,
            rto_min: TIMEOUT,
            ..Profile::BULK
        }
    }

    /// Replays a transfer.
    ///
    /// # Errors
    ///
    /// See [`Failure`].
    pub(crate) fn replay(&self, script: &Script<'_>) -> Result<Replayed, Failure> {
        let remote = self.remotes.iter().find(|remote| remote.name == script.remote);
        let remote = remote.ok_or_else(|| Failure::UnknownHost(script.remote.to_owned()))?;
        let [user, server] = [Side::User, Side::Server].map(|side| self.host(side, script, remote));
        let mut world = World::new(user, server, self.line(remote.hops), script.seed);
        world
            .drive(|world| {
                let endpoints = [&world.user.application, &world.server.application];
                endpoints.iter().all(|party| party.is_over()) || world.now() > Instant::ZERO + LIMIT
            })
            .map_err(Failure::Stuck)?;
        let failed = Failure::Failed(world.now());
        // The remote host must agree that the transfer succeeded.
        let other = match script.ours {
            Side::User => &world.server,
            Side::Server => &world.user,
        };
        let ours = match script.ours {
            Side::User => &world.user,
            Side::Server => &world.server,
        };
        let (Some((elapsed, bytes)), Some(_)) =
            (ours.application.outcome(), other.application.outcome())
        else {
            return Err(failed);
        };
        let bits = match script.form {
            Form::Words => bytes * 8 / WORD_BITS * WORD_BITS,
            Form::Text => bytes * 8,
        };
        let cpu = Duration::from_nanos(ours.meter.charged(Account::Application));
        Ok(Replayed { bits, elapsed, cpu })
    }

    fn host(&self, side: Side, script: &Script<'_>, remote: &Remote) -> Host<Endpoint> {
        let is_ours = script.ours == side;
        let allocation_bits = if is_ours { self.allocation_bits } else { remote.allocation_bits };
        let addresses = if side == Side::User { [USER, SERVER] } else { [SERVER, USER] };
        let representation = match script.form {
            Form::Words => {
                Representation { data_type: Type::Local(ByteSize::WORD36), ..Representation::IMAGE }
            }
            Form::Text => Representation::default(),
        };
        let part = EndpointParameters {
            addresses,
            task: (side == Side::User).then(|| script.task(representation)).flatten(),
            file: script.file(),
            representation,
            turn: Duration::from_millis(self.turn_ms),
            conversion: if is_ours { Duration::ZERO } else { script.conversion(side, remote) },
            profile: self.profile(allocation_bits),
        };
        let costs = Costs::default().with(Work::FileByte, script.cpu_ps_per_bit * 8 / 1_000);
        let [address, _] = addresses;
        let settings = Settings { address, prefix_len: 24, ..Settings::default() };
        let link = Link::Datagram(Datagram::new(MTU_BYTES));
        Host::new(link, settings, costs, seed_of(script.seed, side), Endpoint::new(part))
    }
}

impl Script<'_> {
    /// Returns the conversion time per byte of the host on `side`. Only a server converts, and only
    /// text that the user retrieves.
    fn conversion(&self, side: Side, remote: &Remote) -> Duration {
        let is_converted =
            side == Side::Server && self.verb == Verb::Retrieve && self.form == Form::Text;
        let ns = if is_converted { remote.conversion_ns_per_bit * 8 } else { 0 };
        Duration::from_nanos(ns)
    }

    fn task(&self, representation: Representation) -> Option<Task> {
        let name = Name::new("calico").ok()?;
        Some(match self.verb {
            Verb::Retrieve => {
                Task::Retrieve { name, representation, offset_bytes: 0, expected_bytes: None }
            }
            Verb::Store => Task::Store {
                name: Some(name),
                kind: StoreKind::Replace,
                representation,
                offset_bytes: 0,
                allocation_bytes: None,
            },
            Verb::Mail => Task::MailFile(Some(name)),
        })
    }

    /// Returns a file with the length of the script.
    fn file(&self) -> Vec<u8> {
        let bytes = match self.form {
            Form::Words => (self.bits / WORD_BITS * WORD_BITS).div_ceil(8),
            Form::Text => self.bits / 8,
        };
        let letter = |at: u64| b'a' + u8::try_from(at % 26).unwrap_or(0);
        let mut file: Vec<u8> = (0..bytes).map(letter).collect();
        let has_half_a_byte = self.form == Form::Words && self.bits / WORD_BITS % 2 == 1;
        if let Some(last) = file.last_mut().filter(|_| has_half_a_byte) {
            *last &= 0xF0;
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario::tests::built_in;
    use super::*;
    use proptest::prelude::*;

    const STORE: Script<'_> = Script {
        remote: "mit-ml",
        ours: Side::User,
        verb: Verb::Store,
        form: Form::Words,
        bits: 100 * 36,
        cpu_ps_per_bit: 3_000_000,
        seed: 573,
    };

    #[test]
    fn a_file_costs_its_bits_times_the_price_per_bit() {
        let replayed = built_in().network.replay(&STORE).unwrap();
        assert_eq!(replayed.bits, 3_600);
        assert_eq!(replayed.cpu, Duration::from_nanos(3_600 * 3_000));
    }

    #[test]
    fn a_delay_injected_into_file_work_is_charged_to_the_application_only() {
        for injected_ns in [100_000, 1_000_000] {
            let cpu_ps_per_bit = injected_ns * 1_000 / 8;
            let replayed = built_in().network.replay(&Script { cpu_ps_per_bit, ..STORE });
            assert_eq!(replayed.unwrap().cpu, Duration::from_nanos(3_600 / 8 * injected_ns));
        }
    }

    #[test]
    fn text_converted_in_transit_adds_elapsed_time_and_no_local_cost() {
        let network = built_in().network.idle();
        let text = Script { verb: Verb::Retrieve, form: Form::Text, remote: "sri-arc", ..STORE };
        let [converted, unconverted] =
            [&network, &network.converting_nothing()].map(|one| one.replay(&text).unwrap());
        let per_bit = network.remotes.iter().find(|remote| remote.name == "sri-arc").unwrap();
        let took = Duration::from_nanos(per_bit.conversion_ns_per_bit * text.bits);
        assert!(converted.elapsed >= took, "{converted:?}");
        assert!(converted.elapsed <= took + unconverted.elapsed, "{converted:?} {unconverted:?}");
        assert_eq!((converted.bits, converted.cpu), (unconverted.bits, unconverted.cpu));
    }

    #[test]
    fn only_text_retrieved_by_the_local_user_is_converted() {
        let network = built_in().network;
        let unconverted = network.converting_nothing();
        let text = Script { form: Form::Text, remote: "sri-arc", ..STORE };
        let server = Script { ours: Side::Server, verb: Verb::Retrieve, ..text };
        for script in [text, Script { verb: Verb::Mail, ..text }, server] {
            assert_eq!(network.replay(&script), unconverted.replay(&script));
        }
        let words = Script { form: Form::Words, verb: Verb::Retrieve, ..text };
        assert_eq!(network.replay(&words), unconverted.replay(&words));
    }

    #[test]
    fn the_same_seed_gives_the_same_transfer_to_the_nanosecond() {
        let network = built_in().network;
        assert_eq!(network.replay(&STORE), network.replay(&STORE));
    }

    #[test]
    fn hosts_without_other_work_are_faster() {
        let network = built_in().network;
        let [busy, idle] = [&network, &network.idle()].map(|one| one.replay(&STORE).unwrap());
        assert!(idle.elapsed * 3 < busy.elapsed, "{idle:?} {busy:?}");
    }

    #[test]
    fn earlier_reallocation_speeds_up_a_large_file() {
        let network = built_in().network;
        let large_file = Script { remote: "bbn-tenexa", bits: 10_000 * 36, ..STORE };
        let all = [Allocates::AsRead, Allocates::WhenHalfUsed, Allocates::WhenUsedUp];
        let [as_read, half, used_up] = all
            .map(|allocates| Network { allocates, ..network.idle() }.replay(&large_file).unwrap());
        assert!(as_read.elapsed < half.elapsed, "{as_read:?} {half:?}");
        assert!(half.elapsed < used_up.elapsed, "{half:?} {used_up:?}");
        assert_eq!(network.idle().allocating_as_read().replay(&large_file).unwrap(), as_read);
    }

    #[test]
    fn an_unknown_host_is_named_in_the_error() {
        let unknown = built_in().network.replay(&Script { remote: "harvard", ..STORE });
        assert_eq!(unknown, Err(Failure::UnknownHost(String::from("harvard"))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        #[test]
        fn every_file_arrives_unchanged_whichever_side_requests_it(
            words in 0..2_000_u64,
            is_text: bool,
            is_ours_the_user: bool,
            verb in 0..3_usize,
            remote in 0..4_usize,
            seed: u64,
        ) {
            let network = built_in().network;
            let verb = [Verb::Retrieve, Verb::Store, Verb::Mail][verb];
            let is_text = is_text || verb == Verb::Mail;
            let form = if is_text { Form::Text } else { Form::Words };
            let bits = if is_text { words * 8 } else { words * 36 };
            let ours = if is_ours_the_user { Side::User } else { Side::Server };
            let remote = &network.remotes[remote].name;
            let script = Script { remote, ours, verb, form, bits, seed, ..STORE };
            prop_assert_eq!(network.replay(&script).map(|replayed| replayed.bits), Ok(bits));
        }
    }
}
