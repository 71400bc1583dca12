//! Datagrams of a transparent host, which acts for other hosts
//! ([`Internet::set_transparent_for`]).
//!
//! Such a host has no sockets for these datagrams. Its application parses a received datagram by
//! [`Udp::parse_relayed`], and sends datagrams from any address and port by [`Udp::send_between`].

use super::{SendError, Udp, datagram_sizes, strip_header};
use crate::cx::Cx;
use crate::internet::{self, Internet};
use crate::meter::{Account, Counter};
use crate::packet::{Packet, Pool};
use core::net::SocketAddr;

/// A received datagram, or several datagrams of one size.
#[derive(Debug)]
pub struct Relayed {
    /// The sender.
    pub source: SocketAddr,
    /// The destination.
    pub destination: SocketAddr,
    /// The data. `Packet::offload` contains the size of each datagram if there are several.
    pub packet: Packet,
}

impl Udp {
    /// Parses and validates a datagram that the Internet layer has delivered. A damaged datagram is
    /// counted, and its packet is returned to `pool`.
    pub fn parse_relayed(
        &self,
        datagram: internet::Datagram,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Option<Relayed> {
        let Some(parsed) = self.parse(&datagram.header, &datagram.packet) else {
            cx.meter.count(Counter::UdpErrors);
            pool.put(datagram.packet);
            return None;
        };
        let internet::Datagram { header, mut packet, .. } = datagram;
        strip_header(&mut packet, &parsed);
        let count = datagram_sizes::count_of(&packet);
        cx.meter.add(Counter::UdpIn, count);
        cx.meter.add(Counter::UdpSuperIn, u64::from(count > 1));
        let source = SocketAddr::new(header.source, parsed.source_port);
        let destination = SocketAddr::new(header.destination, parsed.destination_port);
        Some(Relayed { source, destination, packet })
    }

    /// Sends the data in `packet` from `source`, as [`Self::send`] does from a socket. The packet
    /// may hold several datagrams of the size in `Packet::offload`, if the device splits them.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::send`] except those of the socket.
    pub fn send_between(
        &self,
        (source, destination): (SocketAddr, SocketAddr),
        packet: Packet,
        internet: &mut Internet,
        pool: &mut Pool,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Packet>, SendError> {
        let caller = cx.meter.enter(Account::Internet);
        let count = datagram_sizes::count_of(&packet);
        let sent = self.make_between((source, destination), packet, internet, pool, cx);
        if sent.is_ok() {
            cx.meter.add(Counter::UdpOut, count);
            cx.meter.add(Counter::UdpSuperOut, u64::from(count > 1));
        }
        cx.meter.enter(caller);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internet::ipv4::Protocol;
    use crate::internet::testing::{Host, OURS, THEIRS, THEIRS_V6, datagram, datagram_v6, header};
    use crate::packet::ChecksumState;
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::vec::Vec;

    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    const OTHER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 1, 0, 0, 0, 0, 7));

    fn transparent() -> Host {
        let mut host = Host::default();
        host.internet.set_transparent_for(internet::testing::everywhere());
        host
    }

    fn parse(host: &mut Host, bytes: &[u8]) -> Option<Relayed> {
        let received = host.receive(bytes).unwrap();
        Udp::default().parse_relayed(received, &mut host.pool, &mut host.context.cx())
    }

    fn send(host: &mut Host, source: SocketAddr, to: SocketAddr, data: &[u8]) -> Vec<u8> {
        let packet = host.packet(data);
        let Host { internet, pool, context } = host;
        let cx = &mut context.cx();
        let sent = Udp::default().send_between((source, to), packet, internet, pool, cx);
        let sent = sent.unwrap().unwrap();
        let bytes = sent.data().to_vec();
        pool.put(sent);
        bytes
    }

    #[test]
    fn a_received_datagram_has_both_ends_and_its_data_without_padding() {
        let mut host = transparent();
        let bytes = [&[0x03, 0xE8, 0, 53, 0, 12, 0, 0][..], b"datapadding"].concat();
        let relayed = parse(&mut host, &datagram(&header(Protocol::Udp), &[], &bytes)).unwrap();
        assert_eq!(relayed.source, SocketAddr::new(THEIRS.into(), 1000));
        assert_eq!(relayed.destination, SocketAddr::new(OURS.into(), 53));
        assert_eq!(relayed.packet.data(), b"data");
        assert_eq!((host.counted(Counter::UdpIn), host.counted(Counter::UdpSuperIn)), (1, 0));
    }

    #[test]
    fn a_damaged_datagram_is_counted_and_its_packet_returned() {
        let mut host = transparent();
        // The checksum, and lengths that exceed the datagram or are less than the header.
        let damaged: [&[u8]; 3] = [
            &[0, 9, 0, 53, 0, 9, 1, 2, 7],
            &[0, 9, 0, 53, 0, 10, 0, 0, 7],
            &[0, 9, 0, 53, 0, 7, 0, 0, 7],
        ];
        for bytes in damaged {
            assert!(parse(&mut host, &datagram(&header(Protocol::Udp), &[], bytes)).is_none());
        }
        let without_checksum = [0, 9, 0, 53, 0, 9, 0, 0, 7];
        assert!(parse(&mut host, &datagram_v6(17, &without_checksum)).is_none());
        assert_eq!((host.counted(Counter::UdpErrors), host.counted(Counter::UdpIn)), (4, 0));
        assert_eq!(host.pool.lent(), 0);
    }

    #[test]
    fn a_super_datagram_counts_its_datagrams_and_a_single_one_has_no_size() {
        for (size, count, kept) in [(100, 3, 100), (250, 1, 0), (1000, 1, 0)] {
            let mut host = transparent();
            let bytes = [&[0, 9, 0, 53, 1, 2, 0, 0][..], &[7; 250]].concat();
            let datagram = datagram(&header(Protocol::Udp), &[], &bytes);
            let mut received = host.receive(&datagram).unwrap();
            received.packet.offload.segment_size = size;
            received.packet.offload.checksum = ChecksumState::Verified;
            let cx = &mut host.context.cx();
            let relayed = Udp::default().parse_relayed(received, &mut host.pool, cx).unwrap();
            assert_eq!(relayed.packet.offload.segment_size, kept);
            assert_eq!(host.counted(Counter::UdpIn), count);
            assert_eq!(host.counted(Counter::UdpSuperIn), u64::from(count > 1));
        }
    }

    #[test]
    fn a_sent_datagram_has_the_given_ends_and_a_valid_checksum() {
        for (source, to) in [(OTHER, IpAddr::V4(THEIRS)), (OTHER_V6, THEIRS_V6.into())] {
            let mut host = transparent();
            let ends = (SocketAddr::new(source, 53), SocketAddr::new(to, 4000));
            let sent = send(&mut host, ends.0, ends.1, b"answer");
            let sliced = etherparse::SlicedPacket::from_ip(&sent).unwrap();
            let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport else {
                panic!("not UDP");
            };
            assert_eq!((udp.source_port(), udp.destination_port()), (53, 4000));
            assert_eq!(udp.payload(), b"answer");
            let (addresses, expected) = match sliced.net.unwrap() {
                etherparse::NetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    let addresses = (IpAddr::from(header.source), IpAddr::from(header.destination));
                    let expected = udp.to_header().calc_checksum_ipv4(&header, b"answer");
                    (addresses, expected.unwrap())
                }
                etherparse::NetSlice::Ipv6(ip) => {
                    let header = ip.header().to_header();
                    let addresses = (IpAddr::from(header.source), IpAddr::from(header.destination));
                    let expected = udp.to_header().calc_checksum_ipv6(&header, b"answer");
                    (addresses, expected.unwrap())
                }
                etherparse::NetSlice::Arp(_) => panic!("not IP"),
            };
            assert_eq!((addresses, udp.checksum()), ((source, to), expected));
            assert_eq!(host.counted(Counter::UdpOut), 1);
        }
    }

    #[test]
    fn a_datagram_that_cannot_be_sent_is_not_counted_and_its_packet_returned() {
        let mut host = transparent();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let loopback = at("127.0.0.1:53");
        let other = SocketAddr::new(OTHER, 53);
        let theirs = SocketAddr::new(THEIRS.into(), 4000);
        let without_port = SocketAddr::new(THEIRS.into(), 0);
        for ((source, to), len) in
            [((loopback, theirs), 1), ((other, without_port), 1), ((other, theirs), 65_530)]
        {
            let packet = host.packet(&std::vec![0; len]);
            let Host { internet, pool, context } = &mut host;
            let cx = &mut context.cx();
            let sent = Udp::default().send_between((source, to), packet, internet, pool, cx);
            assert!(sent.is_err(), "{source} {to} {len}");
        }
        assert_eq!((host.counted(Counter::UdpOut), host.pool.lent()), (0, 0));
    }
}
