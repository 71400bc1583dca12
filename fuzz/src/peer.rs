//! The peer of a TCP under test. The peer tracks the connection, so that a script can describe a
//! segment as a deviation from the correct segment instead of guessing sequence numbers.

use crate::datagrams::{PEER, US, repair_transport};
use crate::script::Script;
use net::internet::ipv4::Protocol;
use net::transport::tcp::header::{Flags, Header, MAX_HEADER_LEN, Options};
use net::transport::tcp::seq::Seq;

/// The peer's end of one connection.
pub struct Peer {
    /// Port of the TCP under test.
    pub our_port: u16,
    /// Port of the peer.
    pub port: u16,
    /// Next sequence number that the TCP under test expects from the peer.
    seq: Seq,
    /// Sequence number that follows the data, SYN and FIN that the TCP under test has sent.
    ack: Seq,
    /// The peer's timestamp clock, and the last timestamp of the TCP under test.
    timestamps: (u32, u32),
    /// `true` once timestamps are negotiated; every segment then has them (RFC 7323 §3.2).
    has_timestamps: bool,
}

impl Peer {
    /// Returns a peer that has received nothing yet.
    pub fn new(our_port: u16, port: u16) -> Self {
        Self {
            our_port,
            port,
            seq: Seq(0xFFFF_FFF0),
            ack: Seq(0),
            timestamps: (1, 0),
            has_timestamps: false,
        }
    }

    /// Processes a segment from the TCP under test.
    pub fn process_segment(&mut self, header: &Header, data_len: usize) {
        if header.destination_port != self.port {
            return;
        }
        self.our_port = header.source_port;
        if header.flags.has(Flags::RST) {
            return;
        }
        let is_syn = header.flags.has(Flags::SYN);
        let controls = u32::from(is_syn) + u32::from(header.flags.has(Flags::FIN));
        let end = header.seq + u32::try_from(data_len).unwrap_or(0) + controls;
        self.ack = if is_syn { end } else { self.ack.max(end) };
        if header.flags.has(Flags::ACK) {
            self.seq = header.ack;
            self.has_timestamps = header.options.timestamps.is_some();
        }
        self.timestamps.1 = header.options.timestamps.map_or(0, |(value, _)| value);
        self.timestamps.0 += 1;
    }

    /// Returns the segment that a correct peer would send now.
    pub fn expected_segment(&self, flags: Flags, data: &[u8]) -> Vec<u8> {
        self.segment(&self.header(flags), data)
    }

    /// Returns a correct segment that acknowledges every sequence number except the last one.
    pub fn all_but_one(&self, flags: Flags) -> Vec<u8> {
        let header = self.header(flags);
        self.segment(&Header { ack: header.ack - 1, ..header }, &[])
    }

    /// Returns a SYN or, depending on `flags`, a SYN-ACK.
    pub fn synchronize(&self, flags: Flags, with_options: bool) -> Vec<u8> {
        let options = Options {
            mss: Some(400),
            window_scale: Some(3),
            sack_permitted: true,
            timestamps: Some(self.timestamps),
            ..Options::default()
        };
        let header = self.header(flags.with(Flags::SYN));
        let options = if with_options { options } else { Options::default() };
        self.segment(&Header { options, ..header }, &[])
    }

    /// Returns the segment that a script describes: flags, deviating fields, and the size of each
    /// deviation.
    pub fn scripted(&self, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let mut header = self.header(flags(script.byte()?));
        let deviates = script.byte()?;
        let has = |bit: u8| deviates & (1 << bit) != 0;
        if has(0) {
            header.seq = displaced(header.seq, script.word()?, has(7));
        }
        if has(1) {
            header.ack = displaced(header.ack, script.word()?, has(7));
        }
        if has(2) {
            header.window = script.word()?;
        }
        if has(3) {
            header.urgent = script.word()?;
        }
        if has(4) {
            let (value, echo) = self.timestamps;
            let by = script.word()?;
            let value = displaced(Seq(value), by, has(7)).0;
            header.options.timestamps = (by != 0).then_some((value, echo));
        }
        if has(5) {
            header.options.mss = Some(script.word()?);
            header.options.window_scale = Some(script.byte()?);
        }
        if script.0.len() > 8 && has(2) && has(3) {
            for _ in 0..2 {
                let start = header.ack + u32::from(script.word()?);
                header.options.sack.push((start, start + u32::from(script.word()?)));
            }
            header.window = 0xFFFF;
        }
        let len = if has(6) { usize::from(script.word()? % 1400) } else { 0 };
        Some(self.segment(&header, &vec![b'd'; len]))
    }

    fn header(&self, flags: Flags) -> Header {
        Header {
            source_port: self.port,
            destination_port: self.our_port,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: 0xFFFF,
            urgent: 0,
            options: Options {
                timestamps: self.has_timestamps.then_some(self.timestamps),
                ..Options::default()
            },
        }
    }

    fn segment(&self, header: &Header, data: &[u8]) -> Vec<u8> {
        let mut bytes = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut bytes);
        let mut segment = [&bytes[..len], data].concat();
        repair_transport(Protocol::Tcp, PEER, US, &mut segment);
        segment
    }
}

/// Returns `number` displaced by `by` − 2^15, or by `by` · 2^16 if `is_far`.
fn displaced(number: Seq, by: u16, is_far: bool) -> Seq {
    let by = u32::from(by);
    if is_far { number + (by << 16) } else { number + by.wrapping_sub(0x8000) }
}

fn flags(bits: u8) -> Flags {
    let all = [Flags::FIN, Flags::SYN, Flags::RST, Flags::PSH, Flags::ACK, Flags::URG];
    let set = all.into_iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    set.fold(Flags::default(), |flags, (_, flag)| flags.with(flag))
}
