//! The process that uses a port of this machine, from /proc (proc_pid_fd(5), proc_net(5)).

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// TCP; only listening sockets count.
    Tcp,
    /// UDP.
    Udp,
}

/// State of a listening TCP socket in /proc/net/tcp (`TCP_LISTEN`).
const LISTEN: &str = "0A";

/// Returns whether the process `pid` has all sockets that are bound to `port` in the network namespace
/// of the calling process, or `None` if this cannot be determined: there is no such socket, or the
/// process belongs to another user.
#[must_use]
pub fn has_port(pid: u32, protocol: PortProtocol, port: u16) -> Option<bool> {
    let names = match protocol {
        PortProtocol::Tcp => ["tcp", "tcp6"],
        PortProtocol::Udp => ["udp", "udp6"],
    };
    let tables =
        names.iter().filter_map(|name| fs::read_to_string(format!("/proc/net/{name}")).ok());
    let inodes: HashSet<u64> = tables.flat_map(|table| inodes_of(&table, protocol, port)).collect();
    if inodes.is_empty() {
        return None;
    }
    let descriptors = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).ok()?;
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let own: HashSet<u64> = targets.filter_map(|target| inode_of_link(target.to_str()?)).collect();
    Some(inodes.is_subset(&own))
}

/// Returns the inode of a link such as `socket:[4711]`.
fn inode_of_link(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns the inodes of the sockets in `table` that are bound to `port`.
fn inodes_of(table: &str, protocol: PortProtocol, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let is_bound = u16::from_str_radix(local_port, 16).ok()? == port;
        let is_counted = protocol == PortProtocol::Udp || *fields.get(3)? == LISTEN;
        let inode = fields.get(9)?.parse().ok()?;
        (is_bound && is_counted).then_some(inode)
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn the_process_of_a_port_is_found() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("[::1]:0").unwrap();
        for (protocol, port) in [
            (PortProtocol::Tcp, tcp.local_addr().unwrap().port()),
            (PortProtocol::Udp, udp.local_addr().unwrap().port()),
        ] {
            assert_eq!(has_port(std::process::id(), protocol, port), Some(true));
            // A child of this test has no socket of it: the standard library closes them on exec.
            let mut child = std::process::Command::new("cat");
            let child =
                child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
            let mut child = child.spawn().unwrap();
            assert_eq!(has_port(child.id(), protocol, port), Some(false));
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        let free = tcp.local_addr().unwrap().port();
        drop(tcp);
        assert_eq!(has_port(std::process::id(), PortProtocol::Tcp, free), None);
    }

    #[test]
    fn a_connection_from_a_port_does_not_use_it() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             0: 0100007F:0050 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 77 1\n   \
             1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 78 1\n   \
             2: bad\n";
        assert_eq!(inodes_of(table, PortProtocol::Tcp, 80), [78]);
        assert_eq!(inodes_of(table, PortProtocol::Tcp, 81), [0; 0]);
    }
}
