//! A complete simulated session, and the observation that the client makes of it.

use crate::impaired_path::{ImpairedPath, PathSettings};
use crate::login_server::{LoginServer, PORT, SCREEN_BYTES, ServerSettings};
use crate::probe::{Probe, Stage};
use net::link::{Datagram, Link};
use net::meter::{Account, Costs, Counter};
use net::station::{Opening, Settings, TcpStreamApp};
use net::time::{Duration, Instant};
use net::transport::tcp::{Acknowledgment, Profile, ReceiveWindow, SendLimit, Status};
use records::statistics::{median, split};
use records::verdict::{Arrival, Direction, Echoes, Flow, FlowCounts, Observation, Origin, Path};
use records::{Layer, LayerTime};
use simulator::transmission_line::Line;
use simulator::{Host, World};
use std::net::{Ipv4Addr, SocketAddr};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MTU_BYTES: usize = 1_500;
/// Time limit of a session in virtual time; every session ends long before it.
const LIMIT: Duration = Duration::from_secs(10_000);

/// A session with at most one defect.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) path: PathSettings,
    pub(crate) client: Profile,
    pub(crate) client_costs: Costs,
    pub(crate) server: ServerSettings,
    pub(crate) lookup: Duration,
    pub(crate) stages: Vec<Stage>,
    pub(crate) seed: u64,
}

/// Delay of delayed acknowledgments on Linux.
const ACK_DELAY: Duration = Duration::from_millis(40);
const WINDOW_BYTES: usize = 128 << 10;

/// Returns the TCP profile of both hosts in a session without a defect.
pub(crate) fn healthy_tcp() -> Profile {
    Profile {
        receive_window: ReceiveWindow::Bytes(WINDOW_BYTES),
        acknowledgment: Acknowledgment::Delayed(ACK_DELAY),
        send_limit: SendLimit::Bytes(32 << 10),
        nagle: false,
        ..Profile::BULK
    }
}

impl Session {
    /// Creates a session without a defect.
    pub(crate) fn healthy(round_trip: Duration, seed: u64) -> Self {
        let file_bytes = 400_000;
        Self {
            path: PathSettings::healthy(round_trip),
            client: healthy_tcp(),
            client_costs: Costs::default(),
            server: ServerSettings {
                profile: healthy_tcp(),
                prompt: Duration::from_millis(5),
                login: Duration::from_millis(30),
                think: Duration::from_millis(1),
                piece_bytes: SCREEN_BYTES,
                pause: None,
            },
            lookup: Duration::from_millis(2),
            stages: vec![
                Stage::Prompt,
                Stage::Login,
                Stage::Echo(60),
                Stage::Train(40),
                Stage::Screenful,
                Stage::Load { bytes: file_bytes },
                Stage::Download { bytes: file_bytes },
                Stage::Upload { bytes: 200_000 },
            ],
            seed,
        }
    }

    /// Returns the session without the stages for which `is_excluded` returns true.
    pub(crate) fn without(mut self, is_excluded: impl Fn(Stage) -> bool) -> Self {
        self.stages.retain(|stage| !is_excluded(*stage));
        self
    }

    fn world(&self) -> World<TcpStreamApp<Probe>, LoginServer> {
        let remote = SocketAddr::new(SERVER.into(), PORT);
        let active = Opening::Active { local: CLIENT.into(), remote };
        let probe = TcpStreamApp::new(Probe::new(self.stages.clone()), active, self.client);
        let link = || Link::Datagram(Datagram::new(MTU_BYTES));
        let settings =
            |address| Settings { address, prefix_len: 24, packets: 1_024, ..Settings::default() };
        let client =
            Host::new(link(), settings(CLIENT), self.client_costs, self.seed * 2 + 1, probe);
        let login_server = LoginServer::new(self.server.clone());
        let server =
            Host::new(link(), settings(SERVER), Costs::default(), self.seed * 2, login_server);
        let mut world = World::new(client, server, Line::path(Duration::ZERO), self.seed);
        world.set_medium(Box::new(ImpairedPath::new(self.path)));
        world
    }

    /// Runs the session, and returns its observation.
    pub(crate) fn observe(&self) -> Observation {
        let mut world = self.world();
        let mut recorder = Recorder::default();
        let drive_result = world.drive(|world| {
            recorder.record(world);
            matches!(world.user.application.stream.stage(), Stage::Done)
                || world.now() > Instant::ZERO + LIMIT
        });
        drive_result.unwrap_or_else(|stuck| panic!("{stuck}: {self:?}"));
        assert!(world.now() < Instant::ZERO + LIMIT, "no end: {self:?}");
        recorder.record(&world);
        self.observation(&world.user.application.stream, &recorder)
    }

    fn observation(&self, probe: &Probe, recorder: &Recorder) -> Observation {
        let mut observation = Observation { path: self.path(recorder), ..Observation::default() };
        observation.steps.resolve_ns = Some(nanos(self.lookup));
        observation.steps.connect_ns = recorder.opened_at.map(|at| nanos(at - Instant::ZERO));
        for (index, stage) in probe.stages().iter().enumerate() {
            let results = &probe.results[index];
            let elapsed_ns = nanos(results.ended.unwrap() - results.began.unwrap());
            let [before, after] = [&recorder.snapshots[index], &recorder.snapshots[index + 1]];
            let flow = |direction, bytes: usize| Flow {
                direction,
                origin: Origin::Program,
                bytes: bytes as u64,
                elapsed_ns,
                arrivals: match direction {
                    Direction::Incoming => results.arrivals.clone(),
                    Direction::Outgoing => recorder.acknowledgments_since(results.began.unwrap()),
                },
                data_packets: None,
                layers: split(elapsed_ns, &parts(before, after, 1)),
                own_wait_ns: None,
                tls_cpu_ns: None,
                counts: counts(before, after, direction),
            };
            let echoes = || {
                let samples_ns = results.keys_ns.clone();
                let keys = samples_ns.len() as u64;
                let middle = median(&samples_ns).unwrap_or(0);
                let layers = split(middle, &parts(before, after, keys));
                let counts = counts(before, after, Direction::Outgoing);
                (keys > 0).then_some(Echoes { samples_ns, counts, layers, ..Echoes::default() })
            };
            match stage {
                Stage::Prompt => observation.steps.prompt_ns = Some(elapsed_ns),
                Stage::Tls(own) => {
                    observation.steps.tls_ns = Some(elapsed_ns);
                    observation.steps.tls_cpu_ns = Some(nanos(*own));
                }
                Stage::Login => observation.steps.login_ns = Some(elapsed_ns),
                Stage::Echo(_) => observation.echo = echoes(),
                Stage::Train(_) => observation.echo_train = echoes(),
                Stage::Load { bytes } => {
                    observation.echo_under_load = echoes().map(without_layers);
                    observation.transfers.push(flow(Direction::Incoming, *bytes));
                }
                Stage::Screenful => {
                    observation.screenful = Some(flow(Direction::Incoming, results.bytes));
                }
                Stage::Download { bytes } => {
                    observation.transfers.push(flow(Direction::Incoming, *bytes));
                }
                Stage::Upload { bytes } => {
                    observation.transfers.push(flow(Direction::Outgoing, *bytes));
                }
                Stage::Done => {}
            }
        }
        observation
    }

    fn path(&self, recorder: &Recorder) -> Path {
        let last = recorder.snapshots.iter().rev().find_map(|mark| mark.status);
        let own_ack_delay = match self.client.acknowledgment {
            Acknowledgment::AtOutput => Duration::ZERO,
            Acknowledgment::Delayed(delay) => delay,
        };
        Path {
            rtt_ns: last.and_then(|status| status.srtt).map(nanos),
            min_rtt_ns: last.and_then(|status| status.recovery.min_rtt).map(nanos),
            mss_bytes: recorder.mss_bytes,
            own_ack_delay_ns: Some(nanos(own_ack_delay)),
            ..Path::default()
        }
    }
}

fn without_layers(echoes: Echoes) -> Echoes {
    Echoes { layers: Vec::new(), ..echoes }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

/// Snapshot of the counters and the state of TCP and the meter.
#[derive(Clone, Debug)]
struct CounterSnapshot {
    status: Option<Status>,
    accounts: [u64; Account::COUNT],
    out_of_order: u64,
    duplicate_bytes: u64,
    duplicates: u64,
    reorderings: u64,
}

#[derive(Debug, Default)]
struct Recorder {
    opened_at: Option<Instant>,
    snapshots: Vec<CounterSnapshot>,
    /// Number of acknowledged bytes at each time.
    acknowledged: Vec<(Instant, u64)>,
    /// Maximum segment size at the start of the connection, in bytes.
    mss_bytes: Option<u64>,
    window_bytes: u32,
}

impl Recorder {
    fn record(&mut self, world: &World<TcpStreamApp<Probe>, LoginServer>) {
        let tcp_app = &world.user.application;
        let probe = &tcp_app.stream;
        if probe.is_open() && self.opened_at.is_none() {
            self.opened_at = Some(world.now());
        }
        let status = tcp_app.status(&world.user.station.layers);
        if let Some(status) = status.filter(|_| probe.is_open()) {
            self.mss_bytes.get_or_insert(status.send_mss.into());
            self.window_bytes = self.window_bytes.max(status.send_window);
            let acknowledged_bytes = status.statistics.bytes_acknowledged;
            if self.acknowledged.last().is_none_or(|(_, before)| *before < acknowledged_bytes) {
                self.acknowledged.push((world.now(), acknowledged_bytes));
            }
        }
        while self.snapshots.len() <= probe.index() {
            let meter = &world.user.meter;
            self.snapshots.push(CounterSnapshot {
                status,
                accounts: meter.accounts(),
                out_of_order: meter.counted(Counter::TcpOutOfOrder),
                duplicate_bytes: meter.counted(Counter::TcpDuplicateBytes),
                duplicates: meter.counted(Counter::TcpOutsideWindow)
                    + meter.counted(Counter::TcpPawsDropped),
                reorderings: meter.counted(Counter::TcpReordered)
                    + meter.counted(Counter::TcpRecoveriesUndone),
            });
        }
    }

    /// Returns the acknowledgments received since `began`.
    fn acknowledgments_since(&self, began: Instant) -> Vec<Arrival> {
        let pairs = self.acknowledged.iter().zip(self.acknowledged.iter().skip(1));
        let since = pairs.filter(|(_, (at, _))| *at > began);
        since
            .map(|((_, before), (at, acknowledged_bytes))| Arrival {
                at_ns: nanos(*at - began),
                bytes: acknowledged_bytes - before,
            })
            .collect()
    }
}

fn parts(before: &CounterSnapshot, after: &CounterSnapshot, keys: u64) -> Vec<LayerTime> {
    let layers = [
        (Account::Link, Layer::Link),
        (Account::Internet, Layer::Internet),
        (Account::TcpFixed, Layer::TcpFixed),
        (Account::TcpByte, Layer::TcpPerByte),
        (Account::Telnet, Layer::Telnet),
        (Account::Terminal, Layer::Terminal),
    ];
    let charged = |account: Account| {
        after.accounts[account as usize].saturating_sub(before.accounts[account as usize])
    };
    let part = |(account, layer)| LayerTime { layer, ns: charged(account) / keys.max(1) };
    layers.map(part).into_iter().filter(|part| part.ns > 0).collect()
}

fn counts(before: &CounterSnapshot, after: &CounterSnapshot, direction: Direction) -> FlowCounts {
    let (Some(old), Some(new)) = (&before.status, &after.status) else {
        return FlowCounts::default();
    };
    let previous = &old.statistics;
    let current = &new.statistics;
    let was_limited = &old.recovery.limited;
    let is_limited = &new.recovery.limited;
    let window = match direction {
        Direction::Incoming => new.receive_buffer as u64,
        Direction::Outgoing => u64::from(new.send_window.max(old.send_window)),
    };
    FlowCounts {
        segments_out: Some(current.segments_out - previous.segments_out),
        retransmissions: Some(current.retransmissions - previous.retransmissions),
        timeouts: Some((current.timeouts - previous.timeouts).into()),
        out_of_order_in: Some(after.out_of_order - before.out_of_order),
        duplicates_in: Some(
            after.duplicates - before.duplicates
                + (after.duplicate_bytes - before.duplicate_bytes).div_ceil(1_460),
        ),
        reorderings: Some(after.reorderings - before.reorderings),
        duplicate_reports: Some((current.duplicate_reports - previous.duplicate_reports).into()),
        window_probes: Some((current.window_probes - previous.window_probes).into()),
        limited_by_window_ns: Some(nanos(is_limited.peer_window - was_limited.peer_window)),
        limited_by_buffer_ns: Some(nanos(is_limited.send_buffer - was_limited.send_buffer)),
        own_window_closed_ns: None,
        window_bytes: Some(window),
        mss_bytes: Some([old.send_mss.into(), new.send_mss.into()]),
    }
}
