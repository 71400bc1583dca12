//! The API of slirp4netns: one JSON request per connection at a Unix stream socket.
//!
//! The driver creates an [`ApiConnection`] per client and passes it what it reads, and the end of
//! the input. When the connection returns [`Progress::Request`], the driver writes the reply of [`answer`], shuts
//! down and closes. Its packets are never delayed: it closes a client that sends nothing after
//! [`REQUEST_TIMEOUT`], and does not accept more than [`CLIENTS_MAX`] at once.
//!
//! slirp4netns 1.2.0 differs in three points: it blocks while a client sends nothing, it binds a port
//! above 65,535 modulo 65,536, and it ends at a request `add_hostfwd` without arguments or protocol.

use crate::forwards::{
    BindAddress, Forward, ForwardChange, ForwardId, ForwardTable, PortRange, Transport,
};
use serde_json::{Map, Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Time within which a client must send its request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of clients that are connected at once.
pub const CLIENTS_MAX: usize = 16;
/// Maximum length of a request in bytes, as in slirp4netns.
const REQUEST_MAX_BYTES: usize = 4095;

/// A client of the API.
#[derive(Debug, Default)]
pub struct ApiConnection {
    request: Vec<u8>,
}

/// Progress of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is incomplete: read more.
    Waiting,
    /// The request is complete. It may be invalid, which [`answer`] reports.
    Request(Vec<u8>),
}

impl ApiConnection {
    /// Processes the bytes of one read.
    ///
    /// A request is complete when its JSON is: clients wait for the reply with or without the end
    /// of their output.
    pub fn receive(&mut self, bytes: &[u8]) -> Progress {
        self.request.extend_from_slice(bytes);
        let is_complete = match first_value(&self.request) {
            Ok(_) => true,
            Err(error) => !error.is_eof() || self.request.len() > REQUEST_MAX_BYTES,
        };
        if is_complete { self.end() } else { Progress::Waiting }
    }

    /// Processes the end of the client's output.
    pub fn end(&mut self) -> Progress {
        Progress::Request(std::mem::take(&mut self.request))
    }
}

/// Answers a request, and returns the reply without a newline.
///
/// `guest` is the address of the guest if the request has none. `apply` opens or closes the sockets
/// of a forward, and returns whether this was possible; if not, the forward is not added.
pub fn answer(
    request: &[u8],
    guest: Ipv4Addr,
    table: &mut ForwardTable,
    apply: &mut dyn FnMut(ForwardChange) -> bool,
) -> String {
    match execute(request, guest, table, apply) {
        Ok(reply) => reply,
        Err(reason) => json!({ "error": { "desc": format!("bad request: {reason}") } }).to_string(),
    }
}

fn execute(
    request: &[u8],
    guest: Ipv4Addr,
    table: &mut ForwardTable,
    apply: &mut dyn FnMut(ForwardChange) -> bool,
) -> Result<String, &'static str> {
    if request.len() > REQUEST_MAX_BYTES {
        return Err("too large message");
    }
    let value = first_value(request).map_err(|_| "cannot parse JSON")?;
    let object = value.as_object().ok_or("json_object() failed")?;
    let command = object.get("execute").and_then(Value::as_str).ok_or("no execute found")?;
    let no_arguments = Map::new();
    let arguments = object.get("arguments").and_then(Value::as_object).unwrap_or(&no_arguments);
    match command {
        "add_hostfwd" => {
            let forward = parse_forward(arguments, guest)?;
            let id = add(forward, table, apply).ok_or("add_hostfwd: slirp_add_hostfwd failed")?;
            Ok(json!({ "return": { "id": id.0 } }).to_string())
        }
        "list_hostfwd" => Ok(list(table)),
        "remove_hostfwd" => {
            let id = arguments.get("id").and_then(Value::as_u64).map(ForwardId);
            let id = id.filter(|id| table.remove(*id).is_some());
            apply(ForwardChange::Close(id.ok_or("remove_hostfwd: bad arguments.id")?));
            Ok(json!({ "return": {} }).to_string())
        }
        _ => Err("unknown execute"),
    }
}

fn add(
    forward: Forward,
    table: &mut ForwardTable,
    apply: &mut dyn FnMut(ForwardChange) -> bool,
) -> Option<ForwardId> {
    let id = table.add(forward.clone()).ok()?;
    if apply(ForwardChange::Open(id, forward)) {
        return Some(id);
    }
    table.remove(id);
    None
}

fn parse_forward(arguments: &Map<String, Value>, guest: Ipv4Addr) -> Result<Forward, &'static str> {
    let transport = match arguments.get("proto").and_then(Value::as_str) {
        Some("tcp") => Transport::Tcp,
        Some("udp") => Transport::Udp,
        _ => return Err("add_hostfwd: bad arguments.proto"),
    };
    let host_address = address(arguments.get("host_addr"), Ipv4Addr::UNSPECIFIED)
        .ok_or("add_hostfwd: bad arguments.host_addr")?;
    let host_ports = port(arguments.get("host_port"))
        .and_then(PortRange::single)
        .ok_or("add_hostfwd: bad arguments.host_port")?;
    let guest_address = address(arguments.get("guest_addr"), guest)
        .ok_or("add_hostfwd: bad arguments.guest_addr")?;
    let guest_port =
        port(arguments.get("guest_port")).ok_or("add_hostfwd: bad arguments.guest_port")?;
    let bind = BindAddress::at(host_address.into());
    let guest_address = Some(guest_address.into());
    Ok(Forward { transport, bind, host_ports, guest_address, guest_port })
}

/// Returns the address of an argument, or `default` if it is absent or empty.
fn address(value: Option<&Value>, default: Ipv4Addr) -> Option<Ipv4Addr> {
    match value {
        None => Some(default),
        Some(Value::String(text)) if text.is_empty() => Some(default),
        Some(value) => value.as_str()?.parse().ok(),
    }
}

fn port(value: Option<&Value>) -> Option<u16> {
    value?.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// The reply has no member `return`, unlike the manual of slirp4netns. The members are in the order
/// of slirp4netns.
fn list(table: &ForwardTable) -> String {
    let entry = |(id, forward): (ForwardId, &Forward)| {
        let transport = match forward.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        let unspecified = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let host_address = forward.bind.address.unwrap_or(unspecified);
        let guest_address = forward.guest_address.unwrap_or(unspecified);
        format!(
            r#"{{"id":{},"proto":"{transport}","host_addr":"{host_address}","host_port":{},"guest_addr":"{guest_address}","guest_port":{}}}"#,
            id.0,
            forward.host_ports.first(),
            forward.guest_port,
        )
    };
    let entries: Vec<_> = table.iter().map(entry).collect();
    format!(r#"{{"entries":[{}]}}"#, entries.join(","))
}

/// Parses the first JSON value; slirp4netns ignores what follows it.
fn first_value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    match values.next() {
        Some(value) => value,
        // No value at all: the error of an empty text.
        None => serde_json::from_slice(b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);

    /// Answers a request; ports below 1024 cannot be opened.
    fn reply(table: &mut ForwardTable, request: &str) -> String {
        answer(request.as_bytes(), GUEST, table, &mut |change| match change {
            ForwardChange::Open(_, forward) => forward.host_ports.first() >= 1024,
            ForwardChange::Close(_) => true,
        })
    }

    /// Requests and replies of slirp4netns 1.2.0, as observed in this order.
    #[test]
    fn replies_are_those_of_slirp4netns() {
        let error = |text: &str| format!(r#"{{"error":{{"desc":"bad request: {text}"}}}}"#);
        let add =
            |arguments: &str| format!(r#"{{"execute":"add_hostfwd","arguments":{arguments}}}"#);
        let remove =
            |id: &str| format!(r#"{{"execute":"remove_hostfwd","arguments":{{"id":{id}}}}}"#);
        let list = r#"{"execute":"list_hostfwd"}"#.to_owned();
        let first = r#"{"id":1,"proto":"tcp","host_addr":"0.0.0.0","host_port":18081,"guest_addr":"10.0.2.100","guest_port":80}"#;
        let second = r#"{"id":2,"proto":"udp","host_addr":"127.0.0.1","host_port":15300,"guest_addr":"10.0.2.100","guest_port":53}"#;
        let bad = |name: &str| error(&format!("add_hostfwd: bad arguments.{name}"));
        let failed = error("add_hostfwd: slirp_add_hostfwd failed");
        let bad_id = error("remove_hostfwd: bad arguments.id");
        let cases = [
            (
                add(
                    r#"{"proto":"tcp","host_addr":"0.0.0.0","host_port":18081,"guest_addr":"","guest_port":80}"#,
                ) + "\n",
                r#"{"return":{"id":1}}"#.to_owned(),
            ),
            (
                add(r#"{"proto":"udp","host_addr":"127.0.0.1","host_port":15300,"guest_port":53}"#),
                r#"{"return":{"id":2}}"#.to_owned(),
            ),
            (list.clone(), format!(r#"{{"entries":[{first},{second}]}}"#)),
            (add(r#"{"proto":"sctp","host_port":1,"guest_port":1}"#), bad("proto")),
            (
                add(r#"{"proto":"tcp","host_addr":"x","host_port":18082,"guest_port":1}"#),
                bad("host_addr"),
            ),
            (add(r#"{"proto":"tcp","host_port":0,"guest_port":1}"#), bad("host_port")),
            (add(r#"{"proto":"tcp","host_port":"18083","guest_port":1}"#), bad("host_port")),
            (
                add(r#"{"proto":"tcp","host_port":18084,"guest_addr":"zz","guest_port":1}"#),
                bad("guest_addr"),
            ),
            (add(r#"{"proto":"tcp","host_port":18085,"guest_port":0}"#), bad("guest_port")),
            (add(r#"{"proto":"tcp","host_port":18081,"guest_port":80}"#), failed.clone()),
            (remove("77"), bad_id.clone()),
            (remove(r#""1""#), bad_id.clone()),
            (r#"{"execute":"remove_hostfwd"}"#.to_owned(), bad_id),
            (remove("1"), r#"{"return":{}}"#.to_owned()),
            (list.clone(), format!(r#"{{"entries":[{second}]}}"#)),
            (r#"{"execute":"nope"}"#.to_owned(), error("unknown execute")),
            (r#"{"execute":3}"#.to_owned(), error("no execute found")),
            (r#"{"a":1}"#.to_owned(), error("no execute found")),
            ("[]".to_owned(), error("json_object() failed")),
            ("3".to_owned(), error("json_object() failed")),
            ("{".to_owned(), error("cannot parse JSON")),
            (String::new(), error("cannot parse JSON")),
            (list + " trailing", format!(r#"{{"entries":[{second}]}}"#)),
        ];
        let mut table = ForwardTable::default();
        for (request, expected) in cases {
            assert_eq!(reply(&mut table, &request), expected, "{request}");
        }
    }

    #[test]
    fn faults_of_slirp4netns_are_errors() {
        let mut table = ForwardTable::default();
        for (request, name) in [
            (r#"{"execute":"add_hostfwd"}"#, "proto"),
            (
                r#"{"execute":"add_hostfwd","arguments":{"host_port":8080,"guest_port":80}}"#,
                "proto",
            ),
            (
                r#"{"execute":"add_hostfwd","arguments":{"proto":"tcp","host_port":99999,"guest_port":80}}"#,
                "host_port",
            ),
        ] {
            let expected = format!(
                r#"{{"error":{{"desc":"bad request: add_hostfwd: bad arguments.{name}"}}}}"#
            );
            assert_eq!(reply(&mut table, request), expected);
        }
        assert_eq!(table.iter().count(), 0);
    }

    #[test]
    fn a_forward_whose_port_cannot_be_opened_is_not_added() {
        let mut table = ForwardTable::default();
        let request = r#"{"execute":"add_hostfwd","arguments":{"proto":"tcp","host_port":80,"guest_port":80}}"#;
        let failed = r#"{"error":{"desc":"bad request: add_hostfwd: slirp_add_hostfwd failed"}}"#;
        assert_eq!(reply(&mut table, request), failed);
        assert_eq!(table.iter().count(), 0);
    }

    #[test]
    fn a_request_may_arrive_in_pieces_with_or_without_an_end() {
        let request = br#"{"execute":"list_hostfwd"}"#;
        let mut connection = ApiConnection::default();
        let (last, first) = request.split_last().unwrap();
        for byte in first {
            assert_eq!(connection.receive(&[*byte]), Progress::Waiting);
        }
        assert_eq!(connection.receive(&[*last]), Progress::Request(request.to_vec()));
        let mut connection = ApiConnection::default();
        assert_eq!(connection.receive(b"{"), Progress::Waiting);
        assert_eq!(connection.end(), Progress::Request(b"{".to_vec()));
    }

    #[test]
    fn a_request_that_is_too_long_is_answered_at_once() {
        let mut connection = ApiConnection::default();
        assert_eq!(connection.receive(&[b' '; REQUEST_MAX_BYTES]), Progress::Waiting);
        let Progress::Request(request) = connection.receive(b" ") else { panic!("waiting") };
        let too_large = r#"{"error":{"desc":"bad request: too large message"}}"#;
        let mut table = ForwardTable::default();
        assert_eq!(reply(&mut table, std::str::from_utf8(&request).unwrap()), too_large);
    }
}
