//! Requests at the control socket of a gateway that ends the guests' connections.

use crate::capture_file::{CaptureFormat, SIZE_DEFAULT_BYTES};
use crate::control::{
    ControlReply, ControlRequest, ListedFlow, ListedForward, ListedGuest, ListedOutput,
};
use crate::control_socket::{Controlled, NO_CAPTURE, captured, create_capture, named};
use crate::event_loop::EventLoop;
use crate::forwards::ForwardId;
use crate::guest_drops;
use gateway::Guest;
use gateway::relay::tcp_flows::{Limit, Phase};
use net::Instant;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// A guest that can be named in requests.
#[derive(Clone, Debug)]
pub(crate) struct NamedGuest {
    /// The name; see [`crate::guest_summary::names`].
    pub(crate) name: String,
    /// The addresses of its lease.
    pub(crate) addresses: Vec<IpAddr>,
    /// The length of the longest packet of its device, in bytes.
    pub(crate) mtu_bytes: u16,
}

/// The guests for requests.
#[derive(Debug)]
pub(crate) struct GuestControl<'a> {
    pub(crate) event_loop: &'a mut EventLoop,
    pub(crate) guests: &'a [NamedGuest],
}

impl Controlled for GuestControl<'_> {
    fn watch(&self, descriptor: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        self.event_loop.watch(descriptor, number)
    }

    fn watch_output(
        &self,
        descriptor: BorrowedFd<'_>,
        number: usize,
        is_output: bool,
    ) -> io::Result<()> {
        self.event_loop.watch_output(descriptor, number, is_output)
    }

    fn execute(&mut self, request: &ControlRequest) -> ControlReply {
        execute(request, self.event_loop, self.guests)
    }
}

fn execute(
    request: &ControlRequest,
    event_loop: &mut EventLoop,
    guests: &[NamedGuest],
) -> ControlReply {
    let result = match request {
        ControlRequest::Add { guest, forward } => number_of(guest.as_deref(), guests, event_loop)
            .and_then(|guest| {
                let forward = forward.forward().map_err(|error| error.to_string())?;
                event_loop.add_forward(guest, forward).map_err(|error| error.to_string())
            })
            .map(|ForwardId(id)| ControlReply::Added(id)),
        ControlRequest::Remove { guest, id } => number_of(guest.as_deref(), guests, event_loop)
            .and_then(|guest| {
                let existed = event_loop.remove_forward(guest, ForwardId(*id));
                existed.then_some(ControlReply::DONE).ok_or(format!("there is no forward {id}"))
            }),
        ControlRequest::List { guest } => {
            number_of(guest.as_deref(), guests, event_loop).map(|guest| {
                let forwards = event_loop.forwards(guest);
                ControlReply::Forwards(forwards.map(|(id, f)| ListedForward::of(id, f)).collect())
            })
        }
        ControlRequest::Guests => Ok(ControlReply::Guests(
            guests
                .iter()
                .enumerate()
                .filter_map(|(number, named)| Some((named, event_loop.guest(number)?)))
                .map(|(named, guest)| listed_guest(named, guest))
                .collect(),
        )),
        ControlRequest::Flows { guest: None } => {
            let now = event_loop.now();
            let all = (0..guests.len()).filter_map(|guest| event_loop.guest(guest));
            Ok(ControlReply::Flows(all.flat_map(|guest| listed_flows(guest, now)).collect()))
        }
        ControlRequest::Flows { guest } => {
            number_of(guest.as_deref(), guests, event_loop).map(|guest| {
                let now = event_loop.now();
                let flows = event_loop.guest(guest).map(|guest| listed_flows(guest, now));
                ControlReply::Flows(flows.unwrap_or_default())
            })
        }
        ControlRequest::Capture { guest, file, max_bytes } => {
            number_of(guest.as_deref(), guests, event_loop).and_then(|guest| {
                let limit_bytes = max_bytes.unwrap_or(SIZE_DEFAULT_BYTES);
                start_capture(event_loop, guest, file, limit_bytes)
            })
        }
        ControlRequest::StopCapture { guest } => number_of(guest.as_deref(), guests, event_loop)
            .and_then(|guest| {
                let status = event_loop.stop_capture(guest);
                Ok(captured(status.ok_or(NO_CAPTURE)?))
            }),
        ControlRequest::Router => Err("this gateway does not route: use guests".to_owned()),
    };
    result.unwrap_or_else(ControlReply::Error)
}

fn start_capture(
    event_loop: &mut EventLoop,
    guest: usize,
    path: &Path,
    limit_bytes: u64,
) -> Result<ControlReply, String> {
    let start = |file| event_loop.start_capture(guest, (file, CaptureFormat::PcapNg), limit_bytes);
    create_capture(path, limit_bytes, start)
}

/// Returns the number of the guest that a request names, by its name or by an address.
fn number_of(
    name: Option<&str>,
    guests: &[NamedGuest],
    event_loop: &EventLoop,
) -> Result<usize, String> {
    let present =
        guests.iter().enumerate().filter(|(number, _)| event_loop.guest(*number).is_some());
    let (numbers, present): (Vec<_>, Vec<_>) = present.unzip();
    let address = name.and_then(|name| name.parse::<IpAddr>().ok());
    let has_address =
        |guest: &&NamedGuest| address.is_some_and(|address| guest.addresses.contains(&address));
    let index = match present.iter().position(has_address) {
        Some(index) => index,
        None => {
            let names: Vec<&str> = present.iter().map(|guest| guest.name.as_str()).collect();
            named(name, &names)?
        }
    };
    numbers.get(index).copied().ok_or_else(|| "there is no guest".to_owned())
}

fn listed_guest(named: &NamedGuest, guest: &Guest) -> ListedGuest {
    let tcp = guest.tcp().counters();
    let udp = guest.udp().counters();
    ListedGuest {
        guest: named.name.clone(),
        addresses: named.addresses.clone(),
        flows: (guest.tcp().len() + guest.udp().len()) as u64,
        sent_bytes: tcp.bytes_to_host + udp.bytes_to_host,
        received_bytes: tcp.bytes_to_guest + udp.bytes_to_guest,
        failed_connections: tcp.failed,
        no_descriptor: tcp.no_descriptor + udp.no_descriptor,
        limited_buffers: guest.limited_buffers(),
        denied: tcp.denied + udp.denied + guest.echo().counters().denied,
        errors: guest.error_counters().sent,
        errors_over_rate: guest.error_counters().over_rate,
        dropped: guest_drops::drops(guest)
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect(),
        output: guest.output_counters().map(ListedOutput::of),
    }
}

/// The names of the limits of a flow.
pub(crate) const LIMITS: [&str; 5] = ["host", "guest", "network", "queue", "idle"];

/// Returns the name of a limit, one of [`LIMITS`].
pub(crate) fn name_of(limit: Limit) -> &'static str {
    match limit {
        Limit::RemoteHost => "host",
        Limit::Guest => "guest",
        Limit::Network => "network",
        Limit::Queue => "queue",
        Limit::Application | Limit::Opening => "idle",
    }
}

fn listed_flows(guest: &Guest, now: Instant) -> Vec<ListedFlow> {
    let tcp = guest.tcp_statuses(now).map(|(_, status)| ListedFlow {
        protocol: "tcp".to_owned(),
        guest: status.guest,
        host: status.remote,
        state: match status.phase {
            Phase::Connecting => "connecting",
            Phase::Opening => "opening",
            Phase::Open => "open",
            Phase::HalfClosed => "half-closed",
            Phase::Closing => "closing",
        }
        .to_owned(),
        sent_bytes: status.bytes_to_host,
        received_bytes: status.bytes_to_guest,
        limit: name_of(status.limit).to_owned(),
    });
    let unknown = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
    let udp = guest.udp().statuses().map(|(_, status)| ListedFlow {
        protocol: "udp".to_owned(),
        guest: status.guest,
        host: status.remote.unwrap_or(unknown),
        state: "open".to_owned(),
        sent_bytes: status.bytes_to_host,
        received_bytes: status.bytes_to_guest,
        limit: if status.queued_bytes > 0 { "host" } else { "idle" }.to_owned(),
    });
    tcp.chain(udp).collect()
}
