//! Malformed frames of a virtual machine: the gateway answers with no byte that it has not received
//! or does not own, and continues to serve.

use super::gateway_harness::in_host_network;
use super::raw_machine::{
    ICMP, ICMPV6, MACHINE, MACHINE_MAC, RawMachine, UDP, arp, datagram, echo, icmpv6, ip, ipv4, udp,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const DHCP_CLIENT: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 68);
const DHCP_SERVER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::BROADCAST), 67);

/// Returns a DHCPDISCOVER of the machine.
fn discover() -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..8].copy_from_slice(&[1, 1, 6, 0, 0x12, 0x34, 0x56, 0x78]);
    message[28..34].copy_from_slice(&MACHINE_MAC);
    // The magic cookie, the message type, and the end.
    message.extend([99, 130, 83, 99, 53, 1, 1, 255]);
    message
}

fn dhcp_frame(message: &[u8]) -> Vec<u8> {
    let datagram = udp([DHCP_CLIENT, DHCP_SERVER], message);
    ip(UDP, DHCP_CLIENT.0, DHCP_SERVER.0, &datagram)
}

/// Returns the data of the UDP datagrams among `frames`.
fn udp_data(frames: &[Vec<u8>]) -> Vec<&[u8]> {
    let datagrams = frames.iter().filter_map(|frame| datagram(frame));
    datagrams.filter(|(protocol, _)| *protocol == UDP).map(|(_, payload)| &payload[8..]).collect()
}

// attack row 101
#[test]
fn dhcp_messages_cut_at_each_byte_are_not_answered_and_an_offer_repeats_no_other_data() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&[]);
        machine.send(&dhcp_frame(&discover()));
        let frames = machine.responses();
        let offers = udp_data(&frames);
        let [offer] = offers.as_slice() else { panic!("{frames:?}") };
        assert_eq!(offer[..8], [2, 1, 6, 0, 0x12, 0x34, 0x56, 0x78]);
        assert_eq!(offer[16..20], MACHINE.octets());
        for len in 0..discover().len() - 1 {
            // The lengths of IP and UDP are those of the message, or of the complete message.
            machine.send(&dhcp_frame(&discover()[..len]));
            let complete = dhcp_frame(&discover());
            machine.send(&complete[..complete.len() - discover().len() + len]);
            assert_eq!(udp_data(&machine.responses()), [&[] as &[u8]; 0], "{len} bytes");
        }
        // Buffers of the gateway have held other data meanwhile.
        let other_data = [0xA5; 1400];
        (0..200).for_each(|_| machine.send(&dhcp_frame(&other_data)));
        machine.send(&dhcp_frame(&discover()));
        let later_frames = machine.responses();
        assert_eq!(udp_data(&later_frames), offers);
    });
}

// attack row 102
#[test]
fn arp_cut_at_each_byte_is_not_answered() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&[]);
        let request = arp(1);
        machine.send(&request);
        assert_eq!(machine.responses().len(), 1);
        for len in 14..request.len() {
            machine.send(&request[..len]);
            let mut false_lengths = request.clone();
            // The lengths of the hardware and protocol addresses.
            false_lengths[18] = u8::try_from(len).unwrap();
            false_lengths[19] = 255 - false_lengths[18];
            machine.send(&false_lengths);
            assert_eq!(machine.responses(), [[0; 0]; 0], "{len} bytes");
        }
    });
}

// attack row 102
#[test]
fn neighbor_solicitations_cut_at_each_byte_are_not_answered() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&[]);
        let source: IpAddr = "fd00::5054:ff:fe12:3456".parse().unwrap();
        let gateway: Ipv6Addr = "fd00::2".parse().unwrap();
        let solicitation =
            [&[135, 0, 0, 0, 0, 0, 0, 0][..], &gateway.octets(), &[1, 1], &MACHINE_MAC].concat();
        let frame = |message: &[u8]| {
            ip(ICMPV6, source, gateway.into(), &icmpv6(source, gateway.into(), message))
        };
        machine.send(&frame(&solicitation));
        assert_eq!(advertisements(&machine.responses()), 1);
        for len in 4..solicitation.len() {
            // A solicitation without the option is complete, too.
            if len != solicitation.len() - 8 {
                machine.send(&frame(&solicitation[..len]));
                assert_eq!(advertisements(&machine.responses()), 0, "{len} bytes");
            }
        }
    });
}

/// Returns the number of neighbor advertisements.
fn advertisements(frames: &[Vec<u8>]) -> usize {
    let is_advertisement = |frame: &&Vec<u8>| matches!(datagram(frame), Some((ICMPV6, [136, ..])));
    frames.iter().filter(is_advertisement).count()
}

// attack row 102
#[test]
fn an_echo_response_contains_only_the_bytes_of_the_request() {
    in_host_network(|| {
        let mut machine = RawMachine::start(&[]);
        let data = [0x5A; 64];
        for len in 0..=data.len() {
            // The length of the IP header is that of the whole message; the frame is shorter.
            let request = echo(8, 1, &data);
            let frame = ipv4(ICMP, MACHINE, Ipv4Addr::new(10, 0, 2, 2), &request);
            machine.send(&frame[..frame.len() - len]);
            let frames = machine.responses();
            let responses: Vec<&[u8]> =
                frames.iter().filter_map(|frame| datagram(frame)).map(|(_, data)| data).collect();
            match len {
                0 => assert_eq!(responses, [&echo(0, 1, &data)[..]]),
                _ => assert_eq!(responses, [&[] as &[u8]; 0], "{len} bytes are missing"),
            }
        }
    });
}
