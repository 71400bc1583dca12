//! The process that uses a port of this machine, from /proc (proc_pid_fd(5), proc_net(5)).

use crate::socket_table::SocketTable;
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortProtocol {
    /// TCP; only listening sockets count.
    Tcp,
    /// UDP; only sockets that are not connected count.
    Udp,
}

/// Returns whether the process `pid` has all sockets that are bound to `port` in the network namespace
/// of the calling process, or `None` if this cannot be determined: there is no such socket, or the
/// process belongs to another user.
#[must_use]
pub fn has_port(pid: u32, protocol: PortProtocol, port: u16) -> Option<bool> {
    let tables = match protocol {
        PortProtocol::Tcp => [SocketTable::Tcp4, SocketTable::Tcp6],
        PortProtocol::Udp => [SocketTable::Udp4, SocketTable::Udp6],
    };
    let mut inodes = HashSet::new();
    for table in tables {
        let mut text = String::new();
        // The kernel may lack a version of IP.
        if table.open().and_then(|mut file| file.read_to_string(&mut text)).is_ok() {
            let sockets = table.listening(&text).filter(|socket| socket.port == port);
            inodes.extend(sockets.map(|socket| socket.inode));
        }
    }
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
}
