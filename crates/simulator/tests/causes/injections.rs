//! Sessions with exactly one of twenty-one injected causes, each in several sizes.

use crate::observed_session::Session;
use crate::probe::Stage;
use net::meter::{Costs, Work};
use net::time::Duration;
use net::transport::tcp::{Acknowledgment, ReceiveWindow, SendLimit};
use records::verdict::CauseKind;

/// Sizes of an injected cause, as indices into lists that begin with the smallest size.
pub(crate) const SIZES: [usize; 3] = [0, 1, 2];
/// Round-trip times of the network in ms, for causes that do not require a particular one.
pub(crate) const TRIPS_MS: [u64; 3] = [4, 12, 25];
/// Seeds of the repetitions of each trial.
pub(crate) const SEEDS: [u64; 3] = [1, 20, 300];

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn is_bulk(stage: Stage) -> bool {
    matches!(stage, Stage::Load { .. } | Stage::Download { .. } | Stage::Upload { .. })
}

/// Returns a session with the cause, and the same session without it.
pub(crate) fn inject(kind: CauseKind, size: usize, trip_ms: u64, seed: u64) -> (Session, Session) {
    let healthy = Session::healthy(ms(trip_ms), seed);
    match kind {
        CauseKind::Distance
        | CauseKind::LineRate
        | CauseKind::Queue
        | CauseKind::RateLimiter
        | CauseKind::Loss
        | CauseKind::RetransmissionTimeouts
        | CauseKind::Reordering
        | CauseKind::PathMtuBlackHole
        | CauseKind::HalfDuplex => inject_into_path(kind, size, &healthy),
        CauseKind::Nagle
        | CauseKind::DelayedAck
        | CauseKind::SmallWindow
        | CauseKind::ZeroWindow
        | CauseKind::SmallPackets => inject_into_tcp(kind, size, &healthy),
        _ => inject_into_host(kind, size, &healthy),
    }
}

fn inject_into_path(kind: CauseKind, size: usize, healthy: &Session) -> (Session, Session) {
    let mut injected = healthy.clone();
    let mut control = healthy.clone();
    let path = &mut injected.path;
    match kind {
        CauseKind::Distance => {
            path.delay = [ms(50), ms(120), ms(300)][size];
            for session in [&mut injected, &mut control] {
                // Hosts on a long path have buffers for its bandwidth-delay product.
                for profile in [&mut session.client, &mut session.server.profile] {
                    profile.send_limit = SendLimit::Bytes(4 << 20);
                    profile.receive_window = ReceiveWindow::Bytes(1 << 20);
                }
                session.path.queue_bytes = 1 << 20;
                *session = session.clone().without(|stage| matches!(stage, Stage::Load { .. }));
            }
        }
        CauseKind::LineRate => {
            path.rate_bps = [9_600, 19_200, 56_000][size];
            control = control.without(is_bulk);
            injected = injected.without(is_bulk);
        }
        CauseKind::Queue => {
            path.rate_bps = [2_000_000, 4_000_000, 5_000_000][size];
            control.path.rate_bps = path.rate_bps;
            control.path.queue_bytes = path.rate_bps / 8 / 60;
            path.queue_bytes = [250_000, 400_000, 1_000_000][size];
            for session in [&mut injected, &mut control] {
                session.server.profile.send_limit =
                    SendLimit::Tuned { start: 16 << 10, limit: 4 << 20 };
                session.client.receive_window = ReceiveWindow::Bytes(1 << 20);
                session.set_file_bytes(2_000_000);
            }
        }
        CauseKind::RateLimiter => {
            path.bucket =
                Some([(60_000, 500_000), (100_000, 1_000_000), (150_000, 2_000_000)][size]);
        }
        CauseKind::Loss => {
            path.loss_ppm = [30_000, 50_000, 80_000][size];
            // On a short path a loss costs almost nothing.
            path.delay *= 2;
            control.path.delay = path.delay;
        }
        CauseKind::RetransmissionTimeouts => {
            path.loss_ppm = [30_000, 40_000, 60_000][size];
            for session in [&mut injected, &mut control] {
                for profile in [&mut session.client, &mut session.server.profile] {
                    profile.extensions = false;
                    profile.receive_window = ReceiveWindow::Bytes(60_000);
                    profile.rto_min = ms(1_000);
                }
            }
        }
        CauseKind::Reordering => {
            // The delayed packet arrives after the window is full. With less reordering, TCP
            // recovers without cost.
            path.reordering_ppm = [40_000, 50_000, 60_000][size];
            path.reordering_delay = [ms(120), ms(140), ms(160)][size];
        }
        CauseKind::PathMtuBlackHole => path.hole_bytes = Some([1_400, 1_280, 1_000][size]),
        _ => path.turnaround = Some([ms(30), ms(60), ms(120)][size]),
    }
    (injected, control)
}

fn inject_into_tcp(kind: CauseKind, size: usize, healthy: &Session) -> (Session, Session) {
    let mut injected = healthy.clone();
    let mut control = healthy.clone();
    match kind {
        CauseKind::Nagle => {
            injected.server.profile.nagle = true;
            let delay = Acknowledgment::Delayed([ms(40), ms(100), ms(200)][size]);
            injected.client.acknowledgment = delay;
            control.client.acknowledgment = delay;
        }
        CauseKind::DelayedAck => {
            injected.server.profile.acknowledgment =
                Acknowledgment::Delayed([ms(40), ms(100), ms(200)][size]);
            control.server.profile.acknowledgment = Acknowledgment::AtOutput;
            for session in [&mut injected, &mut control] {
                session.client.send_limit = SendLimit::OneSegment;
                session.set_upload_bytes(40_000);
            }
        }
        CauseKind::SmallWindow => {
            for session in [&mut injected, &mut control] {
                session.path.delay = [ms(15), ms(20), ms(20)][size];
            }
            let window = ReceiveWindow::Bytes([3_000, 4_500, 6_000][size]);
            if size == 1 {
                injected.client.receive_window = window;
            } else {
                injected.server.profile.receive_window = window;
            }
        }
        CauseKind::ZeroWindow => {
            let pause = [ms(800), ms(2_000), ms(6_000)][size];
            injected.server.pause = Some((60_000, pause));
            let window = ReceiveWindow::Bytes(32 << 10);
            injected.server.profile.receive_window = window;
            control.server.profile.receive_window = window;
        }
        _ => {
            injected.server.piece_bytes = [98, 80, 60][size];
            for session in [&mut injected, &mut control] {
                session.path.rate_bps = [19_200, 38_400, 64_000][size];
            }
            injected = injected.without(is_bulk);
            control = control.without(is_bulk);
        }
    }
    (injected, control)
}

fn inject_into_host(kind: CauseKind, size: usize, healthy: &Session) -> (Session, Session) {
    let mut injected = healthy.clone();
    let costs = |work, ns| Costs::default().with(work, ns);
    match kind {
        CauseKind::NameServer => injected.lookup = [ms(300), ms(1_500), ms(5_000)][size],
        CauseKind::SlowPrompt => injected.server.prompt = [ms(500), ms(2_000), ms(10_000)][size],
        CauseKind::SlowLogin => injected.server.login = [ms(500), ms(1_500), ms(3_000)][size],
        CauseKind::RemoteHost => injected.server.think = [ms(60), ms(120), ms(400)][size],
        CauseKind::Terminal => {
            injected.client_costs = costs(Work::TerminalByte, [20_000, 100_000, 692_000][size]);
            injected = injected.without(is_bulk);
        }
        CauseKind::LocalProcessor => {
            injected.client_costs =
                costs(Work::Segment, [20_000_000, 30_000_000, 60_000_000][size]);
            injected = injected.without(is_bulk);
        }
        _ => {
            let own = [ms(250), ms(700), ms(2_000)][size];
            injected.stages.insert(1, Stage::Tls(own));
        }
    }
    let mut control = injected.clone();
    control.lookup = healthy.lookup;
    control.client_costs = healthy.client_costs;
    control.server = healthy.server.clone();
    for stage in &mut control.stages {
        if let Stage::Tls(own) = stage {
            *own = ms(1);
        }
    }
    (injected, control)
}

impl Session {
    fn set_file_bytes(&mut self, count: usize) {
        for stage in &mut self.stages {
            match stage {
                Stage::Load { bytes } | Stage::Download { bytes } => *bytes = count,
                _ => {}
            }
        }
    }

    fn set_upload_bytes(&mut self, count: usize) {
        for stage in &mut self.stages {
            if let Stage::Upload { bytes } = stage {
                *bytes = count;
            }
        }
    }
}
