//! The resolvers of the host, from /etc/resolv.conf (resolv.conf(5)).

use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::SystemTime;

const PATH: &str = "/etc/resolv.conf";
const DOMAIN_PORT: u16 = 53;
/// Maximum length of the file. Our choice; the rest of a longer file is ignored.
const TEXT_MAX_BYTES: u64 = 64 * 1024;
/// Maximum number of resolvers, that of the C library.
const RESOLVERS_MAX: usize = 3;

/// Returns the resolvers, in the order in which they are asked.
pub(crate) fn read() -> Vec<SocketAddr> {
    // Without the file, the C library asks the local host, which a guest must not reach unasked.
    read_text(PATH).map(|text| parse(&text)).unwrap_or_default()
}

/// Identifies the content of the file without reading it. The path may be a link that is replaced,
/// and the files to which it leads may have been written at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    device: u64,
    inode: u64,
    modified: SystemTime,
    len: u64,
}

/// Returns the version of the file, or `None` if it cannot be read.
pub(crate) fn version() -> Option<Version> {
    let metadata = fs::metadata(PATH).ok()?;
    let modified = metadata.modified().ok()?;
    let [device, inode] = [metadata.dev(), metadata.ino()];
    Some(Version { device, inode, modified, len: metadata.len() })
}

/// Returns the search list: the names of the last `search` or `domain` line.
pub(crate) fn search_list() -> Vec<String> {
    read_text(PATH).map(|text| parse_search_list(&text)).unwrap_or_default()
}

/// Returns the complete lines of the file at `path`. All guests wait meanwhile: a FIFO would wait for
/// a writer, and a device may have no end.
fn read_text(path: &str) -> io::Result<String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    let len = file.take(TEXT_MAX_BYTES).read_to_end(&mut text)?;
    if len as u64 == TEXT_MAX_BYTES {
        let complete = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        text.truncate(complete);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn parse_search_list(text: &str) -> Vec<String> {
    let last = text.lines().rev().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        matches!(words.next(), Some("search" | "domain")).then_some(words)
    });
    last.map(|names| names.map(str::to_owned).collect()).unwrap_or_default()
}

fn parse(text: &str) -> Vec<SocketAddr> {
    let resolvers = text.lines().filter_map(|line| {
        let address = line.trim_start().strip_prefix("nameserver")?;
        let address = address.strip_prefix([' ', '\t'])?.split_whitespace().next()?;
        // A link-local address has its interface after a percent sign, for which a socket address
        // needs its number.
        address.parse::<IpAddr>().ok()
    });
    resolvers.map(|address| SocketAddr::new(address, DOMAIN_PORT)).take(RESOLVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_name_servers_are_used() {
        let text = "# comment\nsearch example.net\nnameserver 127.0.0.53\n nameserver\t::1 x\n\
                    nameservers 10.0.0.1\nnameserver fe80::1%eth0\nnameserver 10.0.0.2\n\
                    nameserver 10.0.0.3\n";
        let resolvers: Vec<String> = parse(text).iter().map(ToString::to_string).collect();
        assert_eq!(resolvers, ["127.0.0.53:53", "[::1]:53", "10.0.0.2:53"]);
    }

    #[test]
    fn the_last_search_list_is_used() {
        let text = "domain example.org\nsearch a.example b.example\nnameserver 10.0.0.1\n";
        assert_eq!(parse_search_list(text), ["a.example", "b.example"]);
        assert!(parse_search_list("searching x\n").is_empty());
    }
}
