//! Twenty-one causes, each injected alone, in several sizes.

use crate::probe::Stage;
use crate::scene::Scene;
use protocols::meter::{Costs, Work};
use protocols::time::Duration;
use protocols::transport::tcp::{Acknowledgment, ReceiveWindow, SendLimit};
use records::verdict::Kind;

/// Sizes of an injected cause, smallest first.
pub(crate) const SIZES: [usize; 3] = [0, 1, 2];
/// Round-trip times of the network, if the cause does not require its own, ms.
pub(crate) const TRIPS_MS: [u64; 3] = [4, 12, 25];
/// Seeds of the repetitions.
pub(crate) const SEEDS: [u64; 3] = [1, 20, 300];

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn is_long(stage: Stage) -> bool {
    matches!(stage, Stage::Load { .. } | Stage::Download { .. } | Stage::Upload { .. })
}

/// Returns a session with the cause, and the same session without it.
pub(crate) fn plant(kind: Kind, size: usize, trip_ms: u64, seed: u64) -> (Scene, Scene) {
    let healthy = Scene::healthy(ms(trip_ms), seed);
    match kind {
        Kind::Distance
        | Kind::LineRate
        | Kind::Queue
        | Kind::RateLimiter
        | Kind::Loss
        | Kind::RetransmissionTimeouts
        | Kind::Reordering
        | Kind::PathMtuBlackHole
        | Kind::HalfDuplex => on_the_way(kind, size, &healthy),
        Kind::Nagle
        | Kind::DelayedAck
        | Kind::SmallWindow
        | Kind::ZeroWindow
        | Kind::SmallPackets => in_tcp(kind, size, &healthy),
        _ => at_the_ends(kind, size, &healthy),
    }
}

fn on_the_way(kind: Kind, size: usize, healthy: &Scene) -> (Scene, Scene) {
    let mut planted = healthy.clone();
    let mut control = healthy.clone();
    let way = &mut planted.way;
    match kind {
        Kind::Distance => {
            way.delay = [ms(50), ms(120), ms(300)][size];
            for scene in [&mut planted, &mut control] {
                // A host for long paths has buffers for them.
                for profile in [&mut scene.near, &mut scene.far.profile] {
                    profile.send_limit = SendLimit::Bytes(4 << 20);
                    profile.receive_window = ReceiveWindow::Bytes(1 << 20);
                }
                scene.way.queue_bytes = 1 << 20;
                *scene = scene.clone().without(|stage| matches!(stage, Stage::Load { .. }));
            }
        }
        Kind::LineRate => {
            way.rate_bps = [9_600, 19_200, 56_000][size];
            control = control.without(is_long);
            planted = planted.without(is_long);
        }
        Kind::Queue => {
            way.rate_bps = [2_000_000, 4_000_000, 5_000_000][size];
            control.way.rate_bps = way.rate_bps;
            control.way.queue_bytes = way.rate_bps / 8 / 60;
            way.queue_bytes = [250_000, 400_000, 1_000_000][size];
            for scene in [&mut planted, &mut control] {
                scene.far.profile.send_limit = SendLimit::Tuned { start: 16 << 10, limit: 4 << 20 };
                scene.near.receive_window = ReceiveWindow::Bytes(1 << 20);
                scene.set_file_bytes(2_000_000);
            }
        }
        Kind::RateLimiter => {
            way.bucket =
                Some([(60_000, 500_000), (100_000, 1_000_000), (150_000, 2_000_000)][size]);
        }
        Kind::Loss => {
            way.loss_ppm = [30_000, 50_000, 80_000][size];
            // On a short path a loss costs almost nothing.
            way.delay *= 2;
            control.way.delay = way.delay;
        }
        Kind::RetransmissionTimeouts => {
            way.loss_ppm = [30_000, 40_000, 60_000][size];
            for scene in [&mut planted, &mut control] {
                for profile in [&mut scene.near, &mut scene.far.profile] {
                    profile.extensions = false;
                    profile.receive_window = ReceiveWindow::Bytes(60_000);
                    profile.rto_min = ms(1_000);
                }
            }
        }
        Kind::Reordering => {
            // The window is full before the delayed packet arrives: with less reordering, TCP
            // recovers without cost.
            way.reordering_ppm = [40_000, 50_000, 60_000][size];
            way.held_back = [ms(120), ms(140), ms(160)][size];
        }
        Kind::PathMtuBlackHole => way.hole_bytes = Some([1_400, 1_280, 1_000][size]),
        _ => way.turnaround = Some([ms(30), ms(60), ms(120)][size]),
    }
    (planted, control)
}

fn in_tcp(kind: Kind, size: usize, healthy: &Scene) -> (Scene, Scene) {
    let mut planted = healthy.clone();
    let mut control = healthy.clone();
    match kind {
        Kind::Nagle => {
            planted.far.profile.nagle = true;
            let delay = Acknowledgment::Delayed([ms(40), ms(100), ms(200)][size]);
            (planted.near.acknowledgment, control.near.acknowledgment) = (delay, delay);
        }
        Kind::DelayedAck => {
            planted.far.profile.acknowledgment =
                Acknowledgment::Delayed([ms(40), ms(100), ms(200)][size]);
            control.far.profile.acknowledgment = Acknowledgment::AtOutput;
            for scene in [&mut planted, &mut control] {
                scene.near.send_limit = SendLimit::OneSegment;
                scene.set_upload_bytes(40_000);
            }
        }
        Kind::SmallWindow => {
            for scene in [&mut planted, &mut control] {
                scene.way.delay = [ms(15), ms(20), ms(20)][size];
            }
            let window = ReceiveWindow::Bytes([3_000, 4_500, 6_000][size]);
            if size == 1 {
                planted.near.receive_window = window;
            } else {
                planted.far.profile.receive_window = window;
            }
        }
        Kind::ZeroWindow => {
            let pause = [ms(800), ms(2_000), ms(6_000)][size];
            planted.far.pause = Some((60_000, pause));
            let window = ReceiveWindow::Bytes(32 << 10);
            planted.far.profile.receive_window = window;
            control.far.profile.receive_window = window;
        }
        _ => {
            planted.far.piece_bytes = [98, 80, 60][size];
            for scene in [&mut planted, &mut control] {
                scene.way.rate_bps = [19_200, 38_400, 64_000][size];
            }
            (planted, control) = (planted.without(is_long), control.without(is_long));
        }
    }
    (planted, control)
}

fn at_the_ends(kind: Kind, size: usize, healthy: &Scene) -> (Scene, Scene) {
    let mut planted = healthy.clone();
    let costs = |work, ns| Costs::default().with(work, ns);
    match kind {
        Kind::NameServer => planted.lookup = [ms(300), ms(1_500), ms(5_000)][size],
        Kind::SlowPrompt => planted.far.prompt = [ms(500), ms(2_000), ms(10_000)][size],
        Kind::SlowLogin => planted.far.login = [ms(500), ms(1_500), ms(3_000)][size],
        Kind::FarHost => planted.far.think = [ms(60), ms(120), ms(400)][size],
        Kind::Terminal => {
            planted.near_costs = costs(Work::TerminalByte, [20_000, 100_000, 692_000][size]);
            planted = planted.without(is_long);
        }
        Kind::OwnProcessor => {
            planted.near_costs = costs(Work::Segment, [20_000_000, 30_000_000, 60_000_000][size]);
            planted = planted.without(is_long);
        }
        _ => {
            let own = [ms(250), ms(700), ms(2_000)][size];
            planted.stages.insert(1, Stage::Tls(own));
        }
    }
    let mut control = planted.clone();
    control.lookup = healthy.lookup;
    control.near_costs = healthy.near_costs;
    control.far = healthy.far.clone();
    for stage in &mut control.stages {
        if let Stage::Tls(own) = stage {
            *own = ms(1);
        }
    }
    (planted, control)
}

impl Scene {
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
