//! One TCP instance, and a peer whose segments the test writes.

use super::*;
use std::string::String;

/// The peer's initial sequence number, unless a script sets all initial sequence numbers.
const PEER_ISN: Seq = Seq(5_000_000);
/// Represents arbitrary initial sequence numbers in [`ScriptAt`].
pub(super) const ANYWHERE: u64 = u64::MAX;
/// The port of the peer.
const PEER_PORT: u16 = 4000;

/// The timers of [`Profile::BULK`] without extensions, to keep scripts short.
pub(super) const PLAIN: Profile =
    Profile { extensions: false, congestion: Congestion::NewReno, pacing: false, ..Profile::BULK };

/// A sent segment. Sequence numbers are relative to the initial ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) millis: u64,
    pub(super) flags: Flags,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) len: usize,
    pub(super) header: Header,
    /// The ECN bits of its datagram.
    pub(super) ecn: u8,
}

impl Sent {
    pub(super) fn text(&self) -> String {
        let flags = flags_text(self.flags);
        let ack = if self.flags.has(Flags::ACK) {
            std::format!(" ack {}", self.ack)
        } else {
            String::new()
        };
        std::format!("<{flags} seq {}{ack} len {}>", self.seq, self.len)
    }
}

pub(super) fn flags_text(flags: Flags) -> String {
    let names = [
        (Flags::SYN, "SYN"),
        (Flags::FIN, "FIN"),
        (Flags::RST, "RST"),
        (Flags::PSH, "PSH"),
        (Flags::URG, "URG"),
        (Flags::ACK, "ACK"),
    ];
    let set: Vec<_> = names.iter().filter(|(flag, _)| flags.has(*flag)).map(|n| n.1).collect();
    set.join(",")
}

/// A script in which the sequence numbers of both sides begin at `ISN`. If `ISN` is [`ANYWHERE`],
/// they begin at arbitrary numbers.
pub(super) struct ScriptAt<const ISN: u64> {
    pub(super) context: OwnedCx,
    pub(super) tcp: Tcp,
    pool: Pool,
    pub(super) id: Option<ConnectionId>,
    /// Further connections reported to the user.
    others: Vec<ConnectionId>,
    pub(super) port: u16,
    pub(super) iss: Seq,
    pub(super) irs: Seq,
    /// The window of the next segments of the peer.
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Options,
    pub(super) ecn: u8,
    /// Whether the data of the next segments may stay in the packets.
    pub(super) may_keep: bool,
    /// Events reported to the user.
    pub(super) events: Vec<Event>,
}

impl<const ISN: u64> ScriptAt<ISN> {
    pub(super) fn new() -> Self {
        let mut context = OwnedCx::with_seed(1);
        let tcp = Tcp::new(LOWER, &mut context.cx());
        Self {
            context,
            tcp,
            pool: Pool::new(4, 2000),
            id: None,
            others: Vec::new(),
            port: PORT,
            iss: Seq(0),
            irs: u32::try_from(ISN).map_or(PEER_ISN, Seq),
            window: 60_000,
            urgent: 0,
            options: Options::default(),
            ecn: 0,
            may_keep: false,
            events: Vec::new(),
        }
    }

    fn set_initial_numbers(&mut self, ends: (SocketAddr, SocketAddr)) {
        if let Ok(isn) = u32::try_from(ISN) {
            begin_at(&mut self.tcp, ends, self.context.now, Seq(isn));
        }
    }

    pub(super) fn listening(profile: Profile) -> Self {
        let mut script = Self::new();
        script.tcp.listen(PORT, profile).unwrap();
        script.set_initial_numbers((
            SocketAddr::new(SERVER, PORT),
            SocketAddr::new(CLIENT, PEER_PORT),
        ));
        script
    }

    /// Returns a TCP that queues at most `limit` opens for its user.
    pub(super) fn deferring(limit: usize) -> Self {
        let mut script = Self::new();
        script.tcp.defer_opens(limit);
        script.set_initial_numbers((
            SocketAddr::new(SERVER, PORT),
            SocketAddr::new(CLIENT, PEER_PORT),
        ));
        script
    }

    /// Returns a connection after an active open. The SYN has been sent.
    pub(super) fn syn_sent(profile: Profile) -> Self {
        let mut script = Self::new();
        let remote = SocketAddr::new(CLIENT, PEER_PORT);
        let local = next_local_end(&script.tcp, SERVER, remote, &script.context);
        script.set_initial_numbers((local, remote));
        let id = script.tcp.open(SERVER, remote, profile, &mut script.context.cx()).unwrap();
        script.id = Some(id);
        let syn = script.output();
        script.port = syn[0].header.source_port;
        script.iss = syn[0].header.seq;
        script
    }

    /// Returns a connection that the peer has opened. The answer to the peer's SYN has been sent.
    pub(super) fn syn_received(profile: Profile) -> Self {
        Self::asked_for_options(profile, Options { mss: Some(1000), ..Options::default() })
    }

    pub(super) fn asked_for_options(profile: Profile, options: Options) -> Self {
        let mut script = Self::listening(profile);
        script.options = options;
        let answer = script.peer(Flags::SYN, 0, 0, b"");
        script.iss = answer[0].header.seq;
        script.options = Options::default();
        script
    }

    /// Returns an open connection that sends segments of at most 1000 bytes.
    pub(super) fn established(profile: Profile) -> Self {
        let mut script = Self::syn_received(profile);
        script.peer(Flags::ACK, 1, 1, b"");
        assert_eq!(script.state(), Some(State::Established));
        script
    }

    /// Delivers a segment of the peer, and returns the segments sent in response. Sequence numbers
    /// are relative to the initial ones.
    pub(super) fn peer(&mut self, flags: Flags, seq: u32, ack: u32, data: &[u8]) -> Vec<Sent> {
        self.deliver(flags, seq, ack, data);
        self.output()
    }

    /// Delivers a segment of the peer without output.
    pub(super) fn deliver(&mut self, flags: Flags, seq: u32, ack: u32, data: &[u8]) {
        let header = Header {
            source_port: PEER_PORT,
            destination_port: self.port,
            seq: self.irs + seq,
            ack: if flags.has(Flags::ACK) { self.iss + ack } else { Seq(0) },
            flags,
            window: self.window,
            urgent: self.urgent,
            options: self.options,
        };
        let ends = (SocketAddr::new(CLIENT, PEER_PORT), SocketAddr::new(SERVER, self.port));
        let packet = make(header, ends, data);
        let to = internet::Header::to(SERVER, Protocol::Tcp);
        let lower = internet::Header { source: CLIENT, dscp_ecn: self.ecn, ..to };
        let returned = self.tcp.receive(&lower, packet, self.may_keep, &mut self.context.cx());
        assert!(returned.is_some() || self.may_keep);
    }

    /// Delivers the next segment of the peer, with the four bytes `options` in its header.
    pub(super) fn deliver_raw(&mut self, options: &[u8], data: &[u8]) {
        let header = Header {
            source_port: PEER_PORT,
            destination_port: self.port,
            seq: self.irs + 1,
            ack: self.iss + 1,
            flags: Flags::ACK,
            window: self.window,
            ..Header::default()
        };
        let mut bytes = [0; header::MAX_HEADER_LEN];
        let len = header.emit(&mut bytes);
        let mut segment = [&bytes[..len], options, data].concat();
        segment[12] = 6 << 4;
        let sum = LOWER.sum(CLIENT, SERVER, &segment).finish();
        segment[header::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        deliver_bytes(&mut self.tcp, (CLIENT, SERVER), &segment, &mut self.context.cx());
    }

    /// Waits longer than any timer. Timers may expire, but must have no effect.
    pub(super) fn assert_no_timer_runs(&mut self) {
        assert_eq!(self.wait(Duration::from_secs(3600)), []);
        assert_eq!(self.tcp.deadline(), None);
    }

    /// Returns the segments that are ready to be sent.
    pub(super) fn output(&mut self) -> Vec<Sent> {
        let mut segments = Vec::new();
        while let Some(segment) = self.tcp.transmit(&mut self.pool, &mut self.context.cx()) {
            let bytes = segment.packet.data().to_vec();
            let ecn = segment.lower.dscp_ecn;
            self.pool.put(segment.packet);
            let (header, len) = read(SERVER, CLIENT, &bytes);
            segments.push(Sent {
                millis: self.context.now.as_nanos() / 1_000_000,
                flags: header.flags,
                seq: header.seq.since(self.iss),
                ack: header.ack.since(self.irs),
                len: bytes.len() - len,
                header,
                ecn,
            });
        }
        while let Some((id, event)) = self.tcp.event() {
            if *self.id.get_or_insert(id) != id {
                self.others.push(id);
            }
            self.events.push(event);
        }
        assert_eq!(self.pool.lent(), 0, "no packet leaks");
        segments
    }

    /// Discards the segments that are ready to be sent, and returns their number.
    pub(super) fn discard_output(&mut self) -> usize {
        let mut count = 0;
        while let Some(segment) = self.tcp.transmit(&mut self.pool, &mut self.context.cx()) {
            self.pool.put(segment.packet);
            count += 1;
        }
        count
    }

    /// Advances time and returns the segments sent meanwhile.
    pub(super) fn wait(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.context.now + time;
        let mut segments = self.output();
        while let Some(at) = self.tcp.deadline().filter(|at| *at <= end) {
            self.context.now = self.context.now.max(at);
            self.tcp.timeout(&mut self.context.cx());
            segments.extend(self.output());
        }
        self.context.now = end;
        segments
    }

    pub(super) fn wait_millis(&mut self, millis: u64) -> Vec<Sent> {
        self.wait(Duration::from_millis(millis))
    }

    pub(super) fn send(&mut self, data: &[u8]) -> Vec<Sent> {
        assert_eq!(self.tcp.send(self.id.unwrap(), data).unwrap(), data.len());
        self.output()
    }

    pub(super) fn consume(&mut self, count: usize) -> Vec<Sent> {
        self.tcp.consume(self.id.unwrap(), count).unwrap();
        self.output()
    }

    pub(super) fn close(&mut self) -> Vec<Sent> {
        self.tcp.close(self.id.unwrap()).unwrap();
        self.output()
    }

    pub(super) fn release(&mut self) -> Vec<Sent> {
        self.tcp.release(self.id.unwrap());
        self.wait_millis(0)
    }

    /// Releases all connections.
    pub(super) fn release_all(&mut self) {
        self.id.into_iter().chain(self.others.drain(..)).for_each(|id| self.tcp.release(id));
        self.tcp.stop_listening(PORT);
        self.output();
    }

    /// Returns the connection that was reported last to the user.
    pub(super) fn newest(&self) -> ConnectionId {
        self.others.last().copied().or(self.id).unwrap()
    }

    pub(super) fn status(&self) -> Status {
        self.tcp.status(self.id.unwrap()).unwrap()
    }

    pub(super) fn close_reason(&self) -> Option<CloseReason> {
        self.status().close_reason
    }

    /// Returns the state of the connection between the two ends, even if it was not reported to the
    /// user.
    pub(super) fn state(&mut self) -> Option<State> {
        let ends = (SocketAddr::new(SERVER, self.port), SocketAddr::new(CLIENT, PEER_PORT));
        self.tcp.table.find(ends).map(|(_, connection)| connection.state())
    }

    pub(super) fn counted(&self, counter: Counter) -> u64 {
        self.context.counted(counter)
    }
}

/// Returns the segments as text.
pub(super) fn texts(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(Sent::text).collect()
}

/// Returns the times at which the segments were sent, in seconds.
pub(super) fn seconds(sent: &[Sent]) -> Vec<u64> {
    sent.iter().map(|sent| sent.millis / 1000).collect()
}

/// Returns the first sequence number and the length of the segments.
pub(super) fn extents(sent: &[Sent]) -> Vec<(u32, usize)> {
    sent.iter().map(|sent| (sent.seq, sent.len)).collect()
}

pub(super) const SYN_ACK: Flags = Flags::SYN.with(Flags::ACK);
pub(super) const FIN_ACK: Flags = Flags::FIN.with(Flags::ACK);
pub(super) const RST_ACK: Flags = Flags::RST.with(Flags::ACK);
