//! The Internet layer: IPv4 and ICMP.
