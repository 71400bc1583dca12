//! Test environment: a host whose link input comes from the test, and functions that build
//! datagrams for it.

use super::icmp::Unreachable;
use super::ipv4::{HEADER_LEN, Header, Protocol};
use super::*;
use crate::checksum::Sum;
use crate::cx::OwnedCx;
use std::vec::Vec;

pub(crate) const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(crate) const OURS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1);
pub(crate) const THEIRS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 2);

/// A host with 32 buffers and two addresses: [`OURS`] (prefix of 24 bits) and [`OURS_V6`] (prefix
/// of 64 bits).
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) internet: Internet,
    pub(crate) pool: Pool,
    pub(crate) context: OwnedCx,
}

impl Default for Host {
    fn default() -> Self {
        Self::with_seed(1)
    }
}

impl Host {
    pub(crate) fn with_seed(seed: u64) -> Self {
        let mut internet = Internet::new(OURS, 24, 1500);
        internet.add_address(Address::permanent(OURS_V6.into(), 64)).unwrap();
        Self { internet, pool: Pool::new(32, 1600), context: OwnedCx::with_seed(seed) }
    }

    /// Allocates a packet with the content `bytes` from the pool.
    pub(crate) fn packet(&mut self, bytes: &[u8]) -> Packet {
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(bytes);
        packet
    }

    /// Passes `bytes` from the link to the host.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Option<Datagram> {
        let packet = self.packet(bytes);
        self.internet.receive(packet, &mut self.pool, &mut self.context.cx())
    }

    /// Passes a datagram for a transport to the host, and reports its port as closed.
    pub(crate) fn refuse(&mut self, bytes: &[u8]) {
        if let Some(datagram) = self.receive(bytes) {
            let cx = &mut self.context.cx();
            self.internet.report(datagram, Unreachable::Port, &mut self.pool, cx);
        }
    }

    /// Returns the next answer.
    pub(crate) fn transmit(&mut self) -> Option<Vec<u8>> {
        let packet = self.internet.transmit(&mut self.pool, &mut self.context.cx())?;
        let bytes = packet.data().to_vec();
        self.pool.put(packet);
        Some(bytes)
    }

    /// Sends `data` and returns all resulting datagrams for the link.
    pub(crate) fn send(
        &mut self,
        data: &[u8],
        destination: IpAddr,
        protocol: Protocol,
    ) -> Vec<Vec<u8>> {
        let packet = self.packet(data);
        let header = super::Header::to(destination, protocol);
        let pool = &mut self.pool;
        let cx = &mut self.context.cx();
        let unfragmented = self.internet.send(packet, header, pool, cx).unwrap();
        let mut sent: Vec<Vec<u8>> =
            unfragmented.iter().map(|packet| packet.data().to_vec()).collect();
        unfragmented.into_iter().for_each(|packet| self.pool.put(packet));
        sent.extend(core::iter::from_fn(|| self.transmit()));
        sent
    }

    pub(crate) fn counted(&self, counter: Counter) -> u64 {
        self.context.counted(counter)
    }
}

/// Returns a header from [`THEIRS`] to [`OURS`].
pub(crate) fn header(protocol: Protocol) -> Header {
    Header {
        source: THEIRS,
        destination: OURS,
        protocol,
        time_to_live: 64,
        identification: 0,
        dscp_ecn: 0,
        dont_fragment: true,
    }
}

/// Returns a datagram with a correct checksum. The options are padded to whole words.
pub(crate) fn datagram(header: &Header, options: &[u8], data: &[u8]) -> Vec<u8> {
    let words = options.len().div_ceil(4);
    let len = HEADER_LEN + words * 4;
    let mut bytes = header.emit(u16::try_from(len + data.len()).unwrap()).to_vec();
    bytes[0] += u8::try_from(words).unwrap();
    bytes.extend_from_slice(options);
    bytes.resize(len, 0);
    bytes.extend_from_slice(data);
    reseal(&mut bytes);
    bytes
}

/// Returns an IPv6 datagram from [`THEIRS_V6`] to [`OURS_V6`] whose payload begins with
/// `next_header`.
pub(crate) fn datagram_v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let header = header_v6();
    let mut bytes = header.emit(next_header, u16::try_from(payload.len()).unwrap()).to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns an IPv6 header from [`THEIRS_V6`] to [`OURS_V6`].
pub(crate) fn header_v6() -> ipv6::Header {
    ipv6::Header {
        source: THEIRS_V6,
        destination: OURS_V6,
        hop_limit: 64,
        dscp_ecn: 0,
        flow_label: 0,
    }
}

/// Returns an ICMPv6 message from [`THEIRS_V6`] to [`OURS_V6`] with a correct checksum.
pub(crate) fn message_v6(header: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut message = [&header, body].concat();
    icmpv6::seal(THEIRS_V6, OURS_V6, &mut message);
    message
}

/// Corrects the checksum of a header that was changed.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let len = usize::from(bytes[0] & 0x0F) * 4;
    bytes[10..12].fill(0);
    let sum = Sum::default().bytes(&bytes[..len]).finish();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Returns an ICMP message with a correct checksum.
pub(crate) fn message(header: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut message = [&header, body].concat();
    icmp::seal(&mut message);
    message
}

/// Returns the networks of all hosts.
pub(crate) fn everywhere() -> Option<Vec<(IpAddr, u8)>> {
    let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    Some(all.map(|network| (network, 0)).to_vec())
}
