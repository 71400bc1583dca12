//! Files of captured packets, in the formats of libpcap and of pcapng
//! (draft-ietf-opsawg-pcapng), in little-endian byte order.
//!
//! A packet is written by one call. If the disk is full or the size limit is reached, the capture
//! ends, and the file ends with the last complete packet.

use gateway::capture::{CapturedPacket, Direction};
use net::Instant;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::SystemTime;

/// Default limit of the size of a file, in bytes.
pub(crate) const SIZE_DEFAULT_BYTES: u64 = 256 << 20;
/// Minimum limit of the size of a file, in bytes: the headers and a long packet.
pub(crate) const SIZE_MIN_BYTES: u64 = 128 << 10;
/// Maximum length of a packet in the file, with headers. A super-segment is shorter.
const SNAP_BYTES: u32 = 256 << 10;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureFormat {
    /// The format of libpcap, with microseconds.
    Pcap,
    /// The format of pcapng, with nanoseconds, directions and the number of dropped packets.
    PcapNg,
}

/// Content of the packets (LINKTYPE of libpcap).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureLink {
    /// Ethernet frames.
    Ethernet,
    /// IPv4 and IPv6 datagrams.
    Datagrams,
}

/// A file of captured packets.
#[derive(Debug)]
pub(crate) struct CaptureFile {
    file: File,
    format: CaptureFormat,
    /// Wall-clock time at the origin of [`Instant`], in nanoseconds since 1970.
    origin_ns: u64,
    size_bytes: u64,
    limit_bytes: u64,
    packets: u64,
    /// Packets that the file does not contain.
    omitted: u64,
    /// The reason why the capture has ended.
    failure: Option<String>,
}

/// The state of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaptureStatus {
    pub(crate) packets: u64,
    pub(crate) size_bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) failure: Option<String>,
}

impl CaptureFile {
    /// Creates a file that only the user can read. An existing file is an error unless
    /// `is_replacing`.
    ///
    /// # Errors
    ///
    /// Returns the error of `open(2)`.
    pub(crate) fn create(path: &Path, is_replacing: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).mode(0o600);
        options.create(is_replacing).truncate(is_replacing).create_new(!is_replacing);
        options.open(path)
    }

    /// Writes the header of `format` to an empty file. `now` is the current time.
    ///
    /// # Errors
    ///
    /// Returns the error of `write(2)`.
    pub(crate) fn begin(
        file: File,
        format: CaptureFormat,
        link: CaptureLink,
        limit_bytes: u64,
        now: Instant,
    ) -> io::Result<Self> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_1970 = since_1970.map_or(0, |time| time.as_nanos());
        let origin_ns =
            u64::try_from(since_1970).unwrap_or(u64::MAX).saturating_sub(now.as_nanos());
        let header = match format {
            CaptureFormat::Pcap => pcap_header(link),
            CaptureFormat::PcapNg => [section_header(), interface_description(link)].concat(),
        };
        let mut capture = Self {
            file,
            format,
            origin_ns,
            size_bytes: 0,
            limit_bytes,
            packets: 0,
            omitted: 0,
            failure: None,
        };
        capture.write(&header)?;
        Ok(capture)
    }

    /// Writes the packets that were captured since the last call: those that `next` returns.
    pub(crate) fn drain(&mut self, next: &mut dyn FnMut() -> Option<CapturedPacket>) {
        while let Some(packet) = next() {
            self.add(&packet);
        }
    }

    /// Returns whether the file has ended, because it is full or a write has failed.
    pub(crate) fn has_ended(&self) -> bool {
        self.failure.is_some()
    }

    fn add(&mut self, packet: &CapturedPacket) {
        let block = match self.format {
            CaptureFormat::Pcap => self.pcap_record(packet),
            CaptureFormat::PcapNg => self.enhanced_packet(packet),
        };
        if self.failure.is_none() && self.size_bytes + block.len() as u64 > self.limit_bytes {
            self.failure = Some(format!("the file has reached {} bytes", self.limit_bytes));
        }
        if self.failure.is_none()
            && let Err(error) = self.write(&block)
        {
            self.failure = Some(error.to_string());
        }
        match self.failure {
            None => self.packets += 1,
            Some(_) => self.omitted += 1,
        }
    }

    /// Writes a block completely or not at all.
    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        match self.file.write_all(block) {
            Ok(()) => {
                self.size_bytes += block.len() as u64;
                Ok(())
            }
            Err(error) => {
                // If this fails too, readers report the last packet as truncated.
                _ = self.file.set_len(self.size_bytes);
                Err(error)
            }
        }
    }

    /// Completes the file. `dropped` packets were not queued for it.
    pub(crate) fn end(mut self, dropped: u64, now: Instant) -> CaptureStatus {
        let dropped = dropped + self.omitted;
        if self.format == CaptureFormat::PcapNg && self.failure.is_none() {
            let block = self.statistics(dropped, now);
            self.failure = self.write(&block).err().map(|error| error.to_string());
        }
        let Self { packets, size_bytes, failure, .. } = self;
        CaptureStatus { packets, size_bytes, dropped, failure }
    }

    fn time_ns(&self, at: Instant) -> u64 {
        self.origin_ns.saturating_add(at.as_nanos())
    }

    fn pcap_record(&self, packet: &CapturedPacket) -> Vec<u8> {
        let micros = self.time_ns(packet.at) / 1000;
        let (data, len) = snapped(&packet.data);
        let seconds = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
        let micros = u32::try_from(micros % 1_000_000).unwrap_or(0);
        let mut record = Vec::with_capacity(16 + data.len());
        for number in [seconds, micros, length(data), len] {
            record.extend(number.to_le_bytes());
        }
        record.extend(data);
        record
    }

    fn enhanced_packet(&self, packet: &CapturedPacket) -> Vec<u8> {
        let [high, low] = halves(self.time_ns(packet.at));
        let (data, len) = snapped(&packet.data);
        let direction: u32 = match packet.direction {
            Direction::FromGuest => 1,
            Direction::ToGuest => 2,
        };
        let mut body = Vec::with_capacity(48 + data.len());
        for number in [0, high, low, length(data), len] {
            body.extend(number.to_le_bytes());
        }
        push_padded(&mut body, data);
        push_option(&mut body, EPB_FLAGS, &direction.to_le_bytes());
        push_option(&mut body, END_OF_OPTIONS, &[]);
        block(ENHANCED_PACKET, &body)
    }

    fn statistics(&self, dropped: u64, now: Instant) -> Vec<u8> {
        let [high, low] = halves(self.time_ns(now));
        let mut body = Vec::new();
        for number in [0, high, low] {
            body.extend(number.to_le_bytes());
        }
        push_option(&mut body, ISB_RECEIVED, &(self.packets + dropped).to_le_bytes());
        push_option(&mut body, ISB_DROPPED, &dropped.to_le_bytes());
        push_option(&mut body, END_OF_OPTIONS, &[]);
        block(INTERFACE_STATISTICS, &body)
    }
}

fn snapped(data: &[u8]) -> (&[u8], u32) {
    let limit = usize::try_from(SNAP_BYTES).unwrap_or(usize::MAX);
    (data.get(..limit).unwrap_or(data), length(data))
}

fn length(data: &[u8]) -> u32 {
    u32::try_from(data.len()).unwrap_or(u32::MAX)
}

fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

fn pcap_header(link: CaptureLink) -> Vec<u8> {
    let mut header = Vec::with_capacity(24);
    header.extend(0xA1B2_C3D4_u32.to_le_bytes());
    header.extend(2_u16.to_le_bytes());
    header.extend(4_u16.to_le_bytes());
    // Zone and accuracy are unused.
    for number in [0, 0, SNAP_BYTES, u32::from(link.number())] {
        header.extend(number.to_le_bytes());
    }
    header
}

fn section_header() -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(0x1A2B_3C4D_u32.to_le_bytes());
    body.extend(1_u16.to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    // The length of the section is unknown.
    body.extend(u64::MAX.to_le_bytes());
    let application = concat!("plumb ", env!("CARGO_PKG_VERSION"));
    push_option(&mut body, SHB_APPLICATION, application.as_bytes());
    push_option(&mut body, END_OF_OPTIONS, &[]);
    block(SECTION_HEADER, &body)
}

fn interface_description(link: CaptureLink) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(link.number().to_le_bytes());
    body.extend(0_u16.to_le_bytes());
    body.extend(SNAP_BYTES.to_le_bytes());
    push_option(&mut body, IF_TIME_RESOLUTION, &[NANOSECONDS]);
    push_option(&mut body, END_OF_OPTIONS, &[]);
    block(INTERFACE_DESCRIPTION, &body)
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = length(body).saturating_add(12);
    let mut block = Vec::with_capacity(body.len() + 12);
    block.extend(kind.to_le_bytes());
    block.extend(len.to_le_bytes());
    block.extend(body);
    block.extend(len.to_le_bytes());
    block
}

fn push_option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
    push_padded(body, value);
}

fn push_padded(body: &mut Vec<u8>, value: &[u8]) {
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

impl CaptureLink {
    fn number(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::Datagrams => 101,
        }
    }
}

// Blocks and options of pcapng.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const END_OF_OPTIONS: u16 = 0;
const SHB_APPLICATION: u16 = 4;
const IF_TIME_RESOLUTION: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_RECEIVED: u16 = 4;
const ISB_DROPPED: u16 = 5;
/// Exponent of the time resolution: 10^-9 s.
const NANOSECONDS: u8 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("plumb-capture-{name}-{}", std::process::id()))
    }

    fn packet(data: &[u8]) -> CapturedPacket {
        let at = Instant::from_nanos(2_000);
        CapturedPacket { at, direction: Direction::ToGuest, data: data.to_vec() }
    }

    fn capture(name: &str, format: CaptureFormat, limit: u64) -> (PathBuf, CaptureFile) {
        let path = path(name);
        let file = CaptureFile::create(&path, true).unwrap();
        let now = Instant::from_nanos(1_000);
        let link = CaptureLink::Ethernet;
        (path, CaptureFile::begin(file, format, link, limit, now).unwrap())
    }

    #[test]
    fn blocks_have_their_length_at_both_ends_and_options_are_padded() {
        let (path, mut capture) = capture("blocks", CaptureFormat::PcapNg, SIZE_MIN_BYTES);
        capture.add(&packet(&[7; 61]));
        let status = capture.end(2, Instant::from_nanos(3_000));
        assert_eq!((status.packets, status.dropped, status.failure), (1, 2, None));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, status.size_bytes);
        let mut rest = &bytes[..];
        let mut kinds = Vec::new();
        while !rest.is_empty() {
            let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            let len = number(4) as usize;
            assert!(len.is_multiple_of(4) && number(len - 4) as usize == len);
            kinds.push(number(0));
            rest = &rest[len..];
        }
        let expected =
            [SECTION_HEADER, INTERFACE_DESCRIPTION, ENHANCED_PACKET, INTERFACE_STATISTICS];
        assert_eq!(kinds, expected);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_has_reached_its_limit_ends_with_a_complete_packet() {
        let (path, mut capture) = capture("limit", CaptureFormat::Pcap, 24 + 2 * (16 + 100));
        for _ in 0..4 {
            capture.add(&packet(&[1; 100]));
        }
        assert!(capture.has_ended());
        let status = capture.end(0, Instant::ZERO);
        assert_eq!((status.packets, status.dropped, status.size_bytes), (2, 2, 256));
        assert_eq!(status.failure.unwrap(), "the file has reached 256 bytes");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 256);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_full_disk_ends_the_capture() {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let link = CaptureLink::Datagrams;
        let begun =
            CaptureFile::begin(file, CaptureFormat::Pcap, link, SIZE_MIN_BYTES, Instant::ZERO);
        assert_eq!(begun.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn an_existing_file_is_replaced_only_if_this_is_asked_for() {
        let path = path("existing");
        std::fs::write(&path, "data").unwrap();
        let error = CaptureFile::create(&path, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
        CaptureFile::create(&path, true).unwrap();
        assert!(std::fs::read(&path).unwrap().is_empty());
        std::fs::remove_file(path).unwrap();
    }
}
