//! The mode `auto` of port specifications: ports at which a program listens on one side are
//! forwarded from the other side.

use os::namespace_sockets::NamespaceSockets;
use os::socket_table::SocketTable;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Maximum number of bytes that are read of a table: about 10,000 sockets. The table of a busy host
/// is longer, and ports after this number of bytes are not forwarded.
const TABLE_MAX_BYTES: u64 = 1 << 21;

/// The tables of one protocol and one network namespace.
#[derive(Debug)]
pub(super) struct PortScan {
    tables: Vec<(SocketTable, File)>,
}

impl PortScan {
    /// Opens the tables of the host.
    pub(super) fn of_host(is_tcp: bool) -> Self {
        Self::open(is_tcp, SocketTable::open)
    }

    /// Opens the tables of the namespace in which `sockets` are opened.
    pub(super) fn of_guest(is_tcp: bool, sockets: &NamespaceSockets) -> Self {
        Self::open(is_tcp, |table| sockets.table(table))
    }

    fn open(is_tcp: bool, open: impl Fn(SocketTable) -> io::Result<File>) -> Self {
        let tables = if is_tcp {
            [SocketTable::Tcp4, SocketTable::Tcp6]
        } else {
            [SocketTable::Udp4, SocketTable::Udp6]
        };
        // A kernel without IPv6 has only one of them.
        let opened = tables.into_iter().filter_map(|table| Some((table, open(table).ok()?)));
        Self { tables: opened.collect() }
    }

    /// Returns the ports at which programs listen now.
    pub(super) fn ports(&mut self) -> BTreeSet<u16> {
        let mut ports = BTreeSet::new();
        for (table, file) in &mut self.tables {
            let mut text = String::new();
            let read = file.seek(SeekFrom::Start(0));
            let read =
                read.and_then(|_| file.by_ref().take(TABLE_MAX_BYTES).read_to_string(&mut text));
            if read.is_ok() {
                ports.extend(table.listening(&text).map(|socket| socket.port));
            }
        }
        ports
    }
}
