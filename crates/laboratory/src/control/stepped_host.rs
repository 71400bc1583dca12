//! A host whose protocol steps are called by the measured control structure, with a Telnet
//! application that echoes keys and answers one key with a screenful.

use super::machine_functions::MachineFunctions;
use super::structure::ControlStructure;
use control::SpawnError;
use net::Cx;
use net::application::Stream;
use net::link::{Datagram, Link};
use net::meter::{Clock, Meter, Work};
use net::rng::Rng;
use net::station::{Control, Opening, Settings, Station, TcpStreamApp};
use net::time::Instant;
use net::transport::tcp::Profile;
use protocols::telnet::{Event, ServerSettings, Telnet, UserSettings};
use std::net::{Ipv4Addr, SocketAddr};

/// Maximum datagram length, in bytes.
pub const MTU: usize = 1500;
/// TCP port of the server.
pub const PORT: u16 = 23;
/// Key that is answered with a screenful.
pub const SCREEN_KEY: u8 = b's';
/// Length in bytes of a screen of 24 lines of 80 characters, as in TM-233 §6.2.3.
pub const SCREENFUL: usize = 24 * 82 - 2;

/// Role of an end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointRole {
    /// The end that connects and sends keys.
    User,
    /// The end that answers keys.
    Server,
}

/// Telnet application at one end of the session.
#[derive(Debug)]
struct TelnetEnd {
    telnet: Telnet,
    role: EndpointRole,
    /// Number of received data bytes.
    bytes: usize,
}

/// A host with the resources of its driver. Its methods do the work of one moment, and then return.
pub struct SteppedHost {
    station: Station,
    tcp_app: TcpStreamApp<TelnetEnd>,
    meter: Meter,
    control: Box<dyn Control>,
    rng: Rng,
    /// The datagram most recently created by [`SteppedHost::transmit`].
    wire: Vec<u8>,
}

impl TelnetEnd {
    fn new(role: EndpointRole) -> Self {
        let user = UserSettings { starts_negotiation: false, ..UserSettings::default() };
        let server = ServerSettings { starts_negotiation: false, ..ServerSettings::default() };
        let telnet = match role {
            EndpointRole::User => Telnet::user(&user),
            EndpointRole::Server => Telnet::server(&server),
        };
        Self { telnet, role, bytes: 0 }
    }
}

impl Stream for TelnetEnd {
    fn opened(&mut self, _cx: &mut Cx<'_>) {}

    fn receive(&mut self, mut data: &[u8], cx: &mut Cx<'_>) {
        while let Some(event) = self.telnet.receive(&mut data, cx) {
            let Event::Data(run) = event else { continue };
            self.bytes += run.len();
            let answer = match self.role {
                EndpointRole::User => &[][..],
                EndpointRole::Server if run == [SCREEN_KEY] => &[b'x'; SCREENFUL],
                EndpointRole::Server => run,
            };
            self.telnet.send(answer, cx);
        }
    }

    fn urgent(&mut self, _is_ahead: bool) {}

    fn output(&self) -> &[u8] {
        self.telnet.output()
    }

    fn sent(&mut self, count: usize) {
        self.telnet.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {}

    fn is_closing(&self) -> bool {
        false
    }
}

impl SteppedHost {
    /// Creates a host at `address`. With [`EndpointRole::User`], the host connects to `server`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no memory for a stack of the control structure.
    pub fn new(
        structure: ControlStructure,
        role: EndpointRole,
        address: Ipv4Addr,
        server: Ipv4Addr,
        machine: &MachineFunctions<'_>,
    ) -> Result<Self, SpawnError> {
        let mut meter = Meter::new(Clock::Counter(machine.counter));
        let mut rng = Rng::from_seed(u64::from(address.to_bits()));
        let mut cx = Cx { now: (machine.now)(), rng: &mut rng, meter: &mut meter };
        let routines = machine.routines;
        let settings = Settings { address, prefix_len: 24, routines, ..Settings::default() };
        let station = Station::new(Link::Datagram(Datagram::new(MTU)), settings, &mut cx);
        let opening = match role {
            EndpointRole::User => {
                let remote = SocketAddr::new(server.into(), PORT);
                Opening::Active { local: address.into(), remote }
            }
            EndpointRole::Server => Opening::Passive { port: PORT },
        };
        // Nagle's algorithm or a limit of one segment would hold back the end of a screenful until
        // its beginning is acknowledged. The result would then show only the delayed acknowledgment
        // of the kernel.
        let profile = match role {
            EndpointRole::User => Profile::interactive(32 * 1024),
            EndpointRole::Server => Profile::serving(32 * 1024),
        };
        let tcp_app = TcpStreamApp::new(TelnetEnd::new(role), opening, profile);
        let control = structure.create()?;
        let wire = Vec::new();
        Ok(Self { station, tcp_app, meter, control, rng, wire })
    }

    /// Runs all protocol steps that are ready.
    pub fn run(&mut self, now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.control.run(&mut self.station, &mut self.tcp_app, &mut cx);
    }

    /// Sends a key.
    pub(super) fn send_key(&mut self, key: u8, now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.tcp_app.stream.telnet.send(&[key], &mut cx);
        self.tcp_app.notice();
    }

    /// Returns the next datagram; `None` if no datagram is ready.
    pub fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        self.wire.clear();
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        let count = self.station.transmit_into(&mut self.wire, MTU, &mut cx);
        (count > 0).then_some(self.wire.as_slice())
    }

    /// Receives a datagram at interrupt level.
    pub fn receive(&mut self, datagram: &[u8], now: Instant) {
        let mut cx = Cx { now, rng: &mut self.rng, meter: &mut self.meter };
        self.station.receive(datagram, &mut cx);
    }
    /// Returns the time of the next [`SteppedHost::run`] if no datagram arrives before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.station.deadline()
    }

    /// Returns whether the connection is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tcp_app.is_open()
    }

    /// Returns the number of data bytes that the application has received.
    pub(super) fn received_bytes(&self) -> usize {
        self.tcp_app.stream.bytes
    }

    /// Returns the number of changes of control so far.
    pub(super) fn switches(&self) -> u64 {
        self.meter.units(Work::Switch)
    }
}
