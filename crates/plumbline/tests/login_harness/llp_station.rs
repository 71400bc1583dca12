//! A station at the other end of a serial line. It assigns an address to its peer with LLP (the low
//! level protocol of TM-233 §5.3), and echoes over Telnet.

use net::Cx;
use net::application::Stream;
use net::link::{Link, Llp};
use net::meter::Meter;
use net::rng::Rng;
use net::station::{Opening, Scheduler, Settings, Station, TcpStreamApp};
use net::time::Duration;
use net::transport::tcp::{CloseReason, Profile};
use os::clock::Monotonic;
use os::pty::Pty;
use os::readiness::{PollFd, PollFlags, wait};
use protocols::telnet::{Event, ServerSettings, Telnet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

/// Address of the station at the other end of the line.
pub(crate) const HOST: &str = "10.0.0.6";
const MTU: usize = 576;

/// A serial line with a station at its other end.
pub(crate) struct SerialLine {
    device: PathBuf,
    /// Further settings of the `--via` argument.
    settings: &'static str,
    station: JoinHandle<Option<CloseReason>>,
}

impl SerialLine {
    /// Starts the station, which accepts one connection and runs until that connection ends.
    pub(crate) fn start() -> Self {
        Self::start_with(Llp::new(MTU), "")
    }

    /// Like [`Self::start`], with header compression.
    pub(crate) fn with_header_compression() -> Self {
        Self::start_with(Llp::new(MTU).with_header_compression(), "&vj=1")
    }

    fn start_with(llp: Llp, settings: &'static str) -> Self {
        let pty = Pty::open(super::SIZE).unwrap();
        let device = pty.path().to_owned();
        Self { device, settings, station: thread::spawn(move || serve(&pty, llp)) }
    }

    /// Returns the `--via` argument that leads to the station.
    pub(crate) fn via(&self) -> String {
        format!("serial:{}?baud=19200&link=llp{}", self.device.display(), self.settings)
    }

    /// Waits until the connection has ended, and returns its outcome.
    pub(crate) fn close_reason(self) -> Option<CloseReason> {
        self.station.join().unwrap()
    }
}

fn serve(pty: &Pty, llp: Llp) -> Option<CloseReason> {
    let clock = Monotonic::start();
    let mut rng = Rng::from_seed(os::entropy::seed().unwrap());
    let mut meter = Meter::off();
    let limit = clock.now() + Duration::from_secs(20);
    let mut llp = llp;
    llp.set_peer_address(Some([10, 0, 0, 2]));
    let address = Ipv4Addr::new(10, 0, 0, 6);
    let settings = Settings { address, prefix_len: 24, ..Settings::default() };
    let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
    let mut station = Station::new(Link::Llp(llp), settings, &mut cx);
    let echo = Echo(Telnet::server(&ServerSettings::default()));
    let mut tcp_app = TcpStreamApp::new(echo, Opening::Passive { port: 23 }, Profile::INTERACTIVE);
    let mut scheduler = Scheduler::default();
    let mut wire = Vec::new();
    let mut bytes = [0; 4096];
    while clock.now() < limit {
        let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
        scheduler.run(&mut station, &mut tcp_app, &mut cx);
        while station.transmit_into(&mut wire, usize::MAX, &mut cx) > 0 {}
        let written = pty.write(&wire).unwrap().unwrap_or(0);
        wire.drain(..written);
        if tcp_app.is_over() {
            break;
        }
        let mut ready = [PollFd::new(pty, PollFlags::IN)];
        let deadline = station.deadline().map_or(limit, |at| at.min(limit));
        wait(&mut ready, &clock, Some(deadline)).unwrap();
        if let Some(count) = pty.read(&mut bytes).unwrap() {
            let mut cx = Cx { now: clock.now(), rng: &mut rng, meter: &mut meter };
            station.receive(&bytes[..count], &mut cx);
        }
    }
    tcp_app.close_reason()
}

/// A Telnet server that echoes.
struct Echo(Telnet);

impl Stream for Echo {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.0.start(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let mut input = data;
        while let Some(event) = self.0.receive(&mut input, cx) {
            if let Event::Data(run) = event {
                self.0.send(run, cx);
            }
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.0.output()
    }

    fn sent(&mut self, count: usize) {
        self.0.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}
