//! The tables of sockets in /proc (proc_net(5)).

use std::fs::File;
use std::io;

/// A table of sockets in /proc (proc_net(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketTable {
    /// `/proc/net/tcp`
    Tcp4,
    /// `/proc/net/tcp6`
    Tcp6,
    /// `/proc/net/udp`
    Udp4,
    /// `/proc/net/udp6`
    Udp6,
}

impl SocketTable {
    /// Opens the table of the calling thread's network namespace. Each read from its start returns
    /// the current content.
    ///
    /// # Errors
    ///
    /// Returns `NotFound` if the kernel lacks this version of IP.
    pub fn open(self) -> io::Result<File> {
        File::open(match self {
            Self::Tcp4 => "/proc/thread-self/net/tcp",
            Self::Tcp6 => "/proc/thread-self/net/tcp6",
            Self::Udp4 => "/proc/thread-self/net/udp",
            Self::Udp6 => "/proc/thread-self/net/udp6",
        })
    }

    /// Returns the sockets of `text`, the content of this table, that listen or, for UDP, that are
    /// bound without a remote end.
    pub fn listening(self, text: &str) -> impl Iterator<Item = ListeningSocket> {
        // TCP_LISTEN, and TCP_CLOSE, which stands for a socket that is not connected.
        let state = match self {
            Self::Tcp4 | Self::Tcp6 => "0A",
            Self::Udp4 | Self::Udp6 => "07",
        };
        text.lines().skip(1).filter_map(move |line| ListeningSocket::parse(line, state))
    }
}

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListeningSocket {
    /// The local port.
    pub port: u16,
    /// The inode, by which links in /proc/PID/fd name the socket.
    pub inode: u64,
}

impl ListeningSocket {
    fn parse(line: &str, state: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let inode = fields.get(9)?.parse().ok()?;
        (*fields.get(3)? == state).then_some(Self { port, inode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_are_returned() {
        let rest = "00000000:00000000 00:00000000 00000000     0        0";
        let any = "00000000000000000000000000000000";
        let text = format!(
            "  sl  local_address rem_address   st tx_queue rx_queue\n\
             0: 0100007F:1F90 00000000:0000 0A {rest} 77 1\n\
             1: 0100007F:1F91 0100007F:0016 01 {rest} 78 1\n\
             2: {any}:0035 {any}:0000 07 {rest} 79 2\n\
             broken\n"
        );
        let socket = |port, inode| ListeningSocket { port, inode };
        assert_eq!(SocketTable::Tcp4.listening(&text).collect::<Vec<_>>(), [socket(8080, 77)]);
        assert_eq!(SocketTable::Udp6.listening(&text).collect::<Vec<_>>(), [socket(53, 79)]);
    }
}
