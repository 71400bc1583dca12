//! Introduction of `plumb gateway --help`, and the manual page.

use crate::manual::{ManualNote, ManualPage};

/// Introduction, printed before the options.
pub(crate) const ABOUT: &str = "\
Connect guests to the network of this host, without root: network namespaces and containers, \
virtual machines of QEMU, and hosts at serial lines.

A guest is a network namespace (netns:NAME, netns:/PATH or pid:PROCESS), which gets a TAP (tap=NAME); \
a virtual machine (qemu:SOCKET) with -netdev stream; or a host at a serial line \
(serial:DEVICE?baud=19200&link=slip) with llp, slip, cslip or ppp; vj=1 compresses TCP headers. \
Without settings, a line has 9600 bit/s and LLP.

Settings follow a question mark and are separated by '&': address=10.0.2.100, mtu=1500, \
rate=10mbit. Guest N has \
the address 10.0.(1+N).100 in a network of 24 bits; the gateway has .2 in it, and DNS is forwarded \
at .3. Guests on Ethernet also have IPv6, by router advertisements, and may use DHCP. A host at a \
serial line gets its address by LLP or PPP.

A guest reaches public addresses only. --allow permits private networks, and --host-loopback lets \
the gateway's address lead to the loopback address of this host.

With --routed, serial lines are routed without translation through a TUN of this host, which \
requires root. Each line has address= and may have prefix= (IPv6). With --proxy-arp, their hosts are \
neighbors of the hosts at that interface.

The gateway ends when its last guest is gone. With --control, ports are forwarded, flows are listed and \
packets are captured at run time: see the manual page. Started under the name slirp4netns, pasta or \
passt, plumb accepts the arguments of that program.";

/// Manual page of `plumb gateway`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "gateway",
    examples: &[
        "plumb gateway pid:4711 -p 8080:80",
        "plumb gateway qemu:/tmp/vm.sock --allow 192.168.0.0/16 --metrics 9559",
        "plumb gateway 'serial:/dev/ttyUSB0?baud=19200&link=ppp'",
        "plumb gateway --routed --proxy-arp eth0 'serial:/dev/ttyS0?link=slip&address=192.0.2.10'",
    ],
    notes: &[
        ManualNote::Text(
            "Routed lines",
            "The gateway adds routes to a TUN and, with --proxy-arp, entries of the neighbor table. It \
             sets forwarding and proxy_ndp of that interface. At its end it removes and restores all \
             of this. After SIGKILL the entries and settings stay; the next start removes the entries. \
             IPv6 requires net.ipv6.conf.all.forwarding=1.",
        ),
        ManualNote::Text(
            "Control socket",
            "A client sends one JSON object per line and receives one per line: \
             {\"command\":\"add\",\"protocol\":\"tcp\",\"host_ports\":\"8080\",\"guest_port\":80}, \
             {\"command\":\"remove\",\"id\":1}, {\"command\":\"list\"}, {\"command\":\"guests\"} and \
             {\"command\":\"flows\"}. Without the member bind, a port is forwarded at 127.0.0.1 only. \
             With --routed, the requests are {\"command\":\"router\"}, capture and stop-capture. With \
             several guests, a request names one by the member guest, which has its name without \
             settings or its address: {\"command\":\"list\",\"guest\":\"10.0.3.100\"}.",
        ),
        ManualNote::Text(
            "Captured packets",
            "{\"command\":\"capture\",\"file\":\"/tmp/guest.pcapng\"} writes the packets of a guest to a \
             new file, which tcpdump and wireshark read, and {\"command\":\"stop-capture\"} completes \
             it. The member max_bytes limits its size, by default to 256 MiB. A capture ends when the \
             limit is reached or a write fails, and the reply names the reason. A serial line has packets to \
             capture only with --routed.",
        ),
        ManualNote::Text(
            "Metrics",
            "With --metrics, the endpoint has the guests, their flows by protocol and by what limits \
             them, bytes, refusals by reason, refused destinations, dropped packets by reason, the delay \
             of slow outputs, and DNS queries by outcome.",
        ),
    ],
    exit_status: &[
        (0, "All guests are gone"),
        (2, "Invalid arguments, such as two guests with one address"),
        (
            4,
            "Local error, such as permission denied or address in use; or the device of a guest has \
             failed",
        ),
        (
            130,
            "Interrupted; 131 after SIGQUIT, 143 after SIGTERM, 129 after SIGHUP, which nohup prevents",
        ),
    ],
    environment: &[],
    files: &[],
    see_also: &["serve", "login"],
};
