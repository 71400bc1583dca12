//! The control protocol of a gateway: one JSON request per line of a Unix stream socket, and one
//! JSON reply per request.
//!
//! ```text
//! > {"command":"add","protocol":"tcp","bind":"127.0.0.1","host_ports":"8080-8089","guest_port":80}
//! < {"added":1}
//! > {"command":"list"}
//! < {"forwards":[{"id":1,"protocol":"tcp","bind":"127.0.0.1","host_ports":"8080-8089",...}]}
//! > {"command":"remove","id":7}
//! < {"error":"there is no forward 7"}
//! ```
//!
//! The driver collects lines by [`ControlLines`], parses them by [`ControlRequest::parse`], carries
//! them out and writes [`ControlReply::line`]. A request names its guest by its name or address, unless
//! there is only one.

use crate::forwards::{BindAddress, Forward, ForwardId, PortRange, Transport};
use gateway::queue::QueueCounters;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::{error, fmt};

/// Maximum length of a request in bytes, without the end of the line.
pub const LINE_MAX_BYTES: usize = 4096;
/// Maximum number of complete requests of one client that are queued.
const QUEUED_LINES_MAX: usize = 64;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Adds a port forward.
    Add {
        /// Name of the guest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
        /// The forward. The members of this object are those of the request.
        #[serde(flatten)]
        forward: ForwardMembers,
    },
    /// Removes a port forward. Open connections are kept.
    Remove {
        /// Name of the guest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
        /// ID of the forward.
        id: u64,
    },
    /// Lists the port forwards of a guest.
    List {
        /// Name of the guest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
    },
    /// Lists the guests.
    Guests,
    /// Lists the lines of a routed gateway, with its counters.
    Router,
    /// Lists the flows of a guest, or of all guests.
    Flows {
        /// Name of the guest; all guests if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
    },
    /// Writes the packets of a guest to a new file in the format of pcapng.
    Capture {
        /// Name of the guest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
        /// Absolute path of the file.
        file: PathBuf,
        /// Limit of the size of the file in bytes; 256 MiB if it is absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_bytes: Option<u64>,
    },
    /// Completes the file of the packets of a guest.
    StopCapture {
        /// Name of the guest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guest: Option<String>,
    },
}

/// Members of a port forward in requests and replies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ForwardMembers {
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Address of the host. If it is absent: 127.0.0.1, or with an interface all addresses of IPv4
    /// and IPv6 of that interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<IpAddr>,
    /// Interface of the host; all if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// A port of the host, or a range like `8080-8089`.
    pub host_ports: String,
    /// Address of the guest; that of its lease if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_address: Option<IpAddr>,
    /// First port of the guest; the first port of the host if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_port: Option<u16>,
}

/// A reply to one request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlReply {
    /// The request was carried out.
    Done(bool),
    /// A forward was added with this ID.
    Added(u64),
    /// The port forwards.
    Forwards(Vec<ListedForward>),
    /// The guests.
    Guests(Vec<ListedGuest>),
    /// The lines and counters of a routed gateway.
    Router(ListedRouter),
    /// The flows.
    Flows(Vec<ListedFlow>),
    /// The file of the packets is complete.
    Captured(CaptureSummary),
    /// The request was not carried out, for this reason.
    Error(String),
}

/// A port forward in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedForward {
    /// ID for a request to remove it.
    pub id: u64,
    /// Its other members.
    #[serde(flatten)]
    pub forward: ForwardMembers,
}

/// A guest in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedGuest {
    /// Name for requests.
    pub guest: String,
    /// Addresses of its lease.
    pub addresses: Vec<IpAddr>,
    /// Number of open flows.
    pub flows: u64,
    /// Bytes that the guest has sent to hosts.
    pub sent_bytes: u64,
    /// Bytes that hosts have sent to the guest.
    pub received_bytes: u64,
    /// Connections that a host has refused or that could not reach it.
    pub failed_connections: u64,
    /// Connections and UDP flows refused because the gateway had no free descriptor.
    #[serde(default)]
    pub no_descriptor: u64,
    /// Number of times that a buffer of a TCP connection was small at first or did not grow, because of
    /// the limits of the guest's memory in the gateway.
    #[serde(default)]
    pub limited_buffers: u64,
    /// Connections and datagrams to destinations that the guest may not reach.
    pub denied: u64,
    /// ICMP errors sent to the guest.
    pub errors: u64,
    /// ICMP errors not sent because of the limit per second.
    pub errors_over_rate: u64,
    /// Packets from and to the guest that were dropped, by reason. Reasons without packets are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped: BTreeMap<String, u64>,
    /// The fair queue of the output, if the guest is at a serial line or has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ListedOutput>,
}

/// The fair queue of an output in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedOutput {
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Packets dropped because the packets of their flow have waited too long.
    pub dropped_for_delay: u64,
    /// Packets dropped because the queue was full.
    pub dropped_when_full: u64,
    /// Packets dropped because they closely followed another one: the discipline of 1982.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_in_burst: u64,
    /// Packets marked with Congestion Experienced instead of dropped.
    pub marked: u64,
}

impl ListedOutput {
    pub(crate) fn of(counters: &QueueCounters) -> Self {
        Self {
            packets: counters.packets_out,
            bytes: counters.bytes_out,
            dropped_for_delay: counters.dropped_for_delay,
            dropped_when_full: counters.dropped_when_full,
            dropped_in_burst: counters.dropped_in_burst,
            marked: counters.marked,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The lines and counters of a routed gateway in a reply. Packets are counted since its start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedRouter {
    /// The lines.
    pub lines: Vec<ListedLine>,
    /// Packets received from the lines and from the host.
    pub received: u64,
    /// Packets sent on a line or passed to the host.
    pub transmitted: u64,
    /// ICMP errors sent.
    pub errors: u64,
    /// ICMP errors not sent because of the limit per second.
    pub errors_over_rate: u64,
    /// TCP segments whose window was lowered.
    pub windows_lowered: u64,
    /// Packets dropped outside of the outputs of the lines, by reason. Reasons without packets are
    /// absent.
    pub dropped: BTreeMap<String, u64>,
}

/// A line of a routed gateway in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedLine {
    /// Name for requests.
    pub guest: String,
    /// Addresses and prefixes of the host at the line.
    pub addresses: Vec<String>,
    /// Whether datagrams can be exchanged.
    pub is_up: bool,
    /// The output queue.
    pub output: ListedOutput,
    /// Median and 99th percentile of the time that sent packets have waited in the output queue, in
    /// nanoseconds; absent before the first packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_ns: Option<[u64; 2]>,
}

/// A flow in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct ListedFlow {
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// Address and port of the guest.
    pub guest: SocketAddr,
    /// Address and port of the host.
    pub host: SocketAddr,
    /// State of the flow, in words of the protocol.
    pub state: String,
    /// Bytes that the guest has sent.
    pub sent_bytes: u64,
    /// Bytes that the host has sent.
    pub received_bytes: u64,
    /// Limit of the flow in the last seconds: `host`, `guest`, `network`, `queue` or `idle`.
    pub limit: String,
}

/// A file of packets in a reply.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct CaptureSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Size of the file.
    pub size_bytes: u64,
    /// Packets that the file does not contain.
    pub dropped: u64,
    /// The reason why the file ended before the request, such as a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Reason for which a request is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The line is longer than [`LINE_MAX_BYTES`]. The rest of it is skipped.
    TooLong,
    /// The client sends requests without reading replies.
    TooMany,
    /// The line is not a request.
    Syntax(String),
    /// The protocol is neither `tcp` nor `udp`.
    Protocol(String),
    /// The text is not a port or a range of ports.
    Ports(String),
}

impl ControlRequest {
    /// Parses one line.
    ///
    /// # Errors
    ///
    /// Returns [`ControlError::Syntax`].
    pub fn parse(line: &[u8]) -> Result<Self, ControlError> {
        if line.trim_ascii_start().first().is_none_or(|first| *first != b'{') {
            let form = "a request is a JSON object with the member command";
            return Err(ControlError::Syntax(form.to_owned()));
        }
        serde_json::from_slice(line).map_err(|error| ControlError::Syntax(error.to_string()))
    }
}

impl ControlReply {
    /// The reply to a request that needs no value.
    pub const DONE: Self = Self::Done(true);

    /// Returns the reply as a line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let text = serde_json::to_string(self);
        text.unwrap_or_else(|error| format!(r#"{{"error":"{error}"}}"#)) + "\n"
    }
}

impl From<ControlError> for ControlReply {
    fn from(error: ControlError) -> Self {
        Self::Error(error.to_string())
    }
}

impl ForwardMembers {
    /// Returns the forward.
    ///
    /// # Errors
    ///
    /// Returns [`ControlError::Protocol`] or [`ControlError::Ports`].
    pub fn forward(&self) -> Result<Forward, ControlError> {
        let transport = match self.protocol.as_str() {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            other => return Err(ControlError::Protocol(other.into())),
        };
        let (first, last) =
            self.host_ports.split_once('-').unwrap_or((&self.host_ports, &self.host_ports));
        let host_ports = first.parse().ok().zip(last.parse().ok());
        let host_ports = host_ports.and_then(|(first, last)| PortRange::new(first, last));
        let host_ports = host_ports.ok_or_else(|| ControlError::Ports(self.host_ports.clone()))?;
        Ok(Forward {
            transport,
            bind: self.bind_address(),
            host_ports,
            guest_address: self.guest_address,
            guest_port: self.guest_port.unwrap_or(host_ports.first()),
        })
    }

    fn bind_address(&self) -> BindAddress {
        let address = match (self.bind, &self.interface) {
            (Some(address), _) => Some(address),
            (None, Some(_)) => None,
            (None, None) => Some(Ipv4Addr::LOCALHOST.into()),
        };
        BindAddress { address, interface: self.interface.clone() }
    }
}

impl ListedForward {
    /// Returns the members of a forward.
    #[must_use]
    pub fn of(ForwardId(id): ForwardId, forward: &Forward) -> Self {
        let protocol = match forward.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        let forward = ForwardMembers {
            protocol: protocol.into(),
            bind: forward.bind.address,
            interface: forward.bind.interface.clone(),
            host_ports: forward.host_ports.to_string(),
            guest_address: forward.guest_address,
            guest_port: Some(forward.guest_port),
        };
        Self { id, forward }
    }
}

/// The lines of one client.
#[derive(Debug, Default)]
pub struct ControlLines {
    line: Vec<u8>,
    /// True until the end of a line that is too long.
    is_skipping: bool,
    complete: VecDeque<Result<Vec<u8>, ControlError>>,
}

impl ControlLines {
    /// Processes the bytes of one read.
    ///
    /// # Errors
    ///
    /// Returns [`ControlError::TooMany`]: close the connection.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        for byte in bytes {
            let is_end = *byte == b'\n';
            if is_end && !std::mem::take(&mut self.is_skipping) {
                self.push(Ok)?;
            } else if !is_end && !self.is_skipping {
                self.line.push(*byte);
                if self.line.len() > LINE_MAX_BYTES {
                    self.is_skipping = true;
                    self.push(|_| Err(ControlError::TooLong))?;
                }
            }
        }
        Ok(())
    }

    /// Processes the end of the input: a last line may lack its end.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`].
    pub fn end(&mut self) -> Result<(), ControlError> {
        let has_rest = !self.line.is_empty() && !self.is_skipping;
        if has_rest { self.push(Ok) } else { Ok(()) }
    }

    fn push(
        &mut self,
        line: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, ControlError>,
    ) -> Result<(), ControlError> {
        if self.complete.len() >= QUEUED_LINES_MAX {
            return Err(ControlError::TooMany);
        }
        self.complete.push_back(line(std::mem::take(&mut self.line)));
        Ok(())
    }

    /// Returns the next request, or the reason for which it is not valid.
    pub fn next_request(&mut self) -> Option<Result<ControlRequest, ControlError>> {
        let line = self.complete.pop_front()?;
        Some(line.and_then(|line| ControlRequest::parse(&line)))
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "the request has more than {LINE_MAX_BYTES} bytes"),
            Self::TooMany => write!(f, "more than {QUEUED_LINES_MAX} requests are waiting"),
            Self::Syntax(error) => write!(f, "invalid request: {error}"),
            Self::Protocol(name) => write!(f, "unknown protocol '{name}': use tcp or udp"),
            Self::Ports(text) => {
                write!(f, "invalid ports '{text}': use a port or a range like 8080-8089")
            }
        }
    }
}

impl error::Error for ControlError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests(bytes: &[u8]) -> Vec<Result<ControlRequest, ControlError>> {
        let mut lines = ControlLines::default();
        lines.receive(bytes).unwrap();
        std::iter::from_fn(|| lines.next_request()).collect()
    }

    #[test]
    fn every_request_is_parsed() {
        let guest = || Some("vm1".to_owned());
        let forward = ForwardMembers {
            protocol: "tcp".into(),
            bind: Some([127, 0, 0, 1].into()),
            interface: None,
            host_ports: "8080-8089".into(),
            guest_address: None,
            guest_port: Some(80),
        };
        let text = concat!(
            r#"{"command":"add","protocol":"tcp","bind":"127.0.0.1","host_ports":"8080-8089","#,
            r#""guest_port":80}"#,
            "\n",
            r#"{"command":"remove","guest":"vm1","id":7}"#,
            "\n",
            r#"{"command":"list"}"#,
            "\n",
            r#"{"command":"guests"}"#,
            "\n",
            r#"{"command":"flows","guest":"vm1"}"#,
            "\n",
            r#"{"command":"capture","file":"/tmp/vm1.pcapng","max_bytes":1000000}"#,
            "\n",
            r#"{"command":"stop-capture","guest":"vm1"}"#,
            "\n",
        );
        let expected = [
            ControlRequest::Add { guest: None, forward },
            ControlRequest::Remove { guest: guest(), id: 7 },
            ControlRequest::List { guest: None },
            ControlRequest::Guests,
            ControlRequest::Flows { guest: guest() },
            ControlRequest::Capture {
                guest: None,
                file: "/tmp/vm1.pcapng".into(),
                max_bytes: Some(1_000_000),
            },
            ControlRequest::StopCapture { guest: guest() },
        ];
        assert_eq!(requests(text.as_bytes()), expected.map(Ok));
    }

    #[test]
    fn a_forward_without_an_address_is_at_the_loopback_address_unless_it_has_an_interface() {
        for (members, address) in [
            ("", Some("127.0.0.1")),
            (r#","bind":"0.0.0.0""#, Some("0.0.0.0")),
            (r#","bind":"::""#, Some("::")),
            (r#","interface":"eth0""#, None),
        ] {
            let line =
                format!(r#"{{"command":"add","protocol":"tcp","host_ports":"80"{members}}}"#);
            let Ok(ControlRequest::Add { forward, .. }) = ControlRequest::parse(line.as_bytes())
            else {
                panic!("{line}");
            };
            let bind = forward.forward().unwrap().bind;
            assert_eq!(bind.address, address.map(|address| address.parse().unwrap()), "{line}");
        }
    }

    #[test]
    fn a_last_line_without_its_end_is_a_request() {
        let mut lines = ControlLines::default();
        lines.receive(b"{\"command\":\"guests\"}").unwrap();
        assert_eq!(lines.next_request(), None);
        lines.end().unwrap();
        assert_eq!(lines.next_request(), Some(Ok(ControlRequest::Guests)));
        lines.end().unwrap();
        assert_eq!(lines.next_request(), None);
    }

    #[test]
    fn a_forward_is_listed_as_it_was_added() {
        let text = br#"{"command":"add","protocol":"udp","interface":"eth0","host_ports":"53"}"#;
        let Ok(ControlRequest::Add { forward, .. }) = ControlRequest::parse(text) else {
            panic!("no request to add");
        };
        let forward = forward.forward().unwrap();
        assert_eq!((forward.guest_port, forward.transport), (53, Transport::Udp));
        let listed = ListedForward::of(ForwardId(3), &forward);
        assert_eq!(listed.forward.forward(), Ok(forward));
        let expected = concat!(
            r#"{"forwards":[{"id":3,"protocol":"udp","interface":"eth0","host_ports":"53","#,
            r#""guest_port":53}]}"#,
            "\n",
        );
        assert_eq!(ControlReply::Forwards(vec![listed]).line(), expected);
    }

    #[test]
    fn replies_are_lines() {
        for (reply, line) in [
            (ControlReply::DONE, r#"{"done":true}"#),
            (ControlReply::Added(1), r#"{"added":1}"#),
            (ControlReply::Guests(Vec::new()), r#"{"guests":[]}"#),
            (
                ControlError::Protocol("sctp".into()).into(),
                r#"{"error":"unknown protocol 'sctp': use tcp or udp"}"#,
            ),
        ] {
            assert_eq!(reply.line(), format!("{line}\n"));
        }
    }

    #[test]
    fn invalid_requests_are_errors() {
        let members = |protocol: &str, ports: &str| ForwardMembers {
            protocol: protocol.into(),
            bind: None,
            interface: None,
            host_ports: ports.into(),
            guest_address: None,
            guest_port: None,
        };
        assert_eq!(members("sctp", "1").forward(), Err(ControlError::Protocol("sctp".into())));
        for ports in ["", "0", "9-8", "65536", "1-", "x"] {
            assert_eq!(members("tcp", ports).forward(), Err(ControlError::Ports(ports.into())));
        }
        for line in ["", "{}", "[]", r#"{"command":"reboot"}"#, r#"{"command":"remove"}"#] {
            let parsed = ControlRequest::parse(line.as_bytes());
            assert!(matches!(parsed, Err(ControlError::Syntax(_))), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped() {
        let text = ["x".repeat(LINE_MAX_BYTES + 100), r#"{"command":"guests"}"#.into()].join("\n");
        let expected = [Err(ControlError::TooLong), Ok(ControlRequest::Guests)];
        assert_eq!(requests(format!("{text}\n").as_bytes()), expected);
    }

    #[test]
    fn the_number_of_queued_requests_is_limited() {
        let mut lines = ControlLines::default();
        lines.receive(&[b'\n'; QUEUED_LINES_MAX]).unwrap();
        assert_eq!(lines.receive(b"\n"), Err(ControlError::TooMany));
    }

    proptest! {
        #[test]
        fn any_line_is_parsed_or_rejected(line: Vec<u8>) {
            if let Ok(request) = ControlRequest::parse(&line) {
                let text = serde_json::to_vec(&request).unwrap();
                prop_assert_eq!(ControlRequest::parse(&text), Ok(request));
            }
        }
    }
}
