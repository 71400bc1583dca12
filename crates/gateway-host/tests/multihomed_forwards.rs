//! UDP ports forwarded at all addresses of a host with several addresses.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod event_loop_harness;

use event_loop_harness::{Gateway, Guest, TIMEOUT, network};
use os::namespace::enter_new_network;
use std::net::{SocketAddr, UdpSocket};
use test_support::{add_loopback_address, in_new_network, ip as run_ip};

const PORT: u16 = 5353;

/// Answers a number of requests by their own data.
fn answer(guest: &Guest, socket: &UdpSocket, requests: usize) {
    let socket = socket.try_clone().unwrap();
    guest.run(move || {
        for _ in 0..requests {
            let mut request = [0; 100];
            let (len, from) = socket.recv_from(&mut request).unwrap();
            socket.send_to(request.get(..len).unwrap(), from).unwrap();
        }
    });
}

fn bind(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

#[test]
fn an_answer_comes_from_the_address_of_the_host_to_which_the_request_was_sent() {
    in_new_network(enter_new_network, || {
        run_ip(&["link", "set", "lo", "up"]);
        let hosts = [
            ("10.99.0.9", ["10.99.0.1", "10.99.0.2", "10.99.0.3"]),
            ("2001:db8::9", ["2001:db8::1", "2001:db8::2", "2001:db8::3"]),
        ];
        for (client, addresses) in hosts {
            [client].into_iter().chain(addresses).for_each(add_loopback_address);
        }
        let guest = Guest::new();
        let mut gateway = Gateway::new(None);
        let number = gateway.add(&guest, &network(0, &[]));
        for any in ["0.0.0.0", "[::]"] {
            gateway.forward(number, &format!("{any}:{PORT}:7/udp"));
        }
        let _gateway = gateway.start();
        let server = guest.run(|| UdpSocket::bind("10.0.2.100:7").unwrap());
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        for (client, addresses) in hosts {
            let client = bind(client);
            // The requests of one port of the client to all addresses wait for their answers at once.
            for address in addresses {
                client.send_to(address.as_bytes(), (address, PORT)).unwrap();
            }
            answer(&guest, &server, addresses.len());
            for _ in addresses {
                let mut data = [0; 100];
                let (len, from) = client.recv_from(&mut data).unwrap();
                let asked = str::from_utf8(&data[..len]).unwrap();
                assert_eq!(from, SocketAddr::new(asked.parse().unwrap(), PORT));
            }
        }
    });
}
