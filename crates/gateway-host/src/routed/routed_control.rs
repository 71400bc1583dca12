//! Requests at the control socket of a routed gateway.

use super::routed_line::RoutedLine;
use crate::capture_file::{CaptureFile, CaptureFormat, CaptureLink, SIZE_DEFAULT_BYTES};
use crate::control::{ControlReply, ControlRequest, ListedLine, ListedOutput, ListedRouter};
use crate::control_socket::{Controlled, NO_CAPTURE, captured, create_capture, named};
use crate::poll::{Poll, Source};
use gateway::router::{Router, RouterDrops};
use net::Instant;
use rustix::event::epoll::EventFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The parts of a routed gateway that requests read and change.
#[derive(Debug)]
pub(super) struct RoutedControl<'a> {
    pub(super) router: &'a mut Router,
    pub(super) lines: &'a mut [RoutedLine],
    pub(super) poll: &'a Poll,
    pub(super) now: Instant,
}

impl Controlled for RoutedControl<'_> {
    fn watch(&self, descriptor: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        self.poll.add(descriptor, Source::Other(number), EventFlags::IN)
    }

    fn watch_output(
        &self,
        descriptor: BorrowedFd<'_>,
        number: usize,
        is_output: bool,
    ) -> io::Result<()> {
        self.poll.watch_output(descriptor, Source::Other(number), is_output)
    }

    fn execute(&mut self, request: &ControlRequest) -> ControlReply {
        let result = match request {
            ControlRequest::Router => Ok(ControlReply::Router(self.listed())),
            ControlRequest::Capture { guest, file, max_bytes } => {
                let limit_bytes = max_bytes.unwrap_or(SIZE_DEFAULT_BYTES);
                let line = self.line_of(guest.as_deref());
                line.and_then(|line| self.capture(line, file, limit_bytes))
            }
            ControlRequest::StopCapture { guest } => {
                self.line_of(guest.as_deref()).and_then(|line| self.stop_capture(line))
            }
            ControlRequest::Add { .. }
            | ControlRequest::Remove { .. }
            | ControlRequest::List { .. } => {
                Err("the hosts at routed lines are reached at their own addresses".to_owned())
            }
            ControlRequest::Guests | ControlRequest::Flows { .. } => {
                Err("a routed gateway has no flows: use router".to_owned())
            }
        };
        result.unwrap_or_else(ControlReply::Error)
    }
}

impl RoutedControl<'_> {
    /// Returns the number of the line with a name or an address.
    fn line_of(&self, name: Option<&str>) -> Result<usize, String> {
        let address = name.and_then(|name| name.parse::<IpAddr>().ok());
        if let Some(address) = address
            && let Some(number) = self.lines.iter().position(|line| line.has_address(address))
        {
            return Ok(number);
        }
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        named(name, &names)
    }

    fn capture(
        &mut self,
        number: usize,
        path: &Path,
        limit_bytes: u64,
    ) -> Result<ControlReply, String> {
        let Self { router, lines, now, .. } = self;
        let start = |file: File| {
            let line = lines.get_mut(number).ok_or(io::ErrorKind::NotFound)?;
            if line.capture.as_ref().is_some_and(|capture| !capture.has_ended()) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let format = CaptureFormat::PcapNg;
            let link = CaptureLink::Datagrams;
            let file = CaptureFile::begin(file, format, link, limit_bytes, *now)?;
            // A line whose device has failed has no datagrams.
            if !router.start_capture(line.id) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            line.capture = Some(file);
            Ok(())
        };
        create_capture(path, limit_bytes, start)
    }

    fn stop_capture(&mut self, number: usize) -> Result<ControlReply, String> {
        let Self { router, lines, now, .. } = self;
        let line = lines.get_mut(number).ok_or(NO_CAPTURE)?;
        let mut file = line.capture.take().ok_or(NO_CAPTURE)?;
        file.drain(&mut || router.captured(line.id));
        Ok(captured(file.end(router.stop_capture(line.id), *now)))
    }

    fn listed(&self) -> ListedRouter {
        let counters = self.router.counters();
        let dropped = reasons(&counters.drops).into_iter().filter(|(_, count)| *count > 0);
        ListedRouter {
            lines: self.lines.iter().filter_map(|line| listed_line(line, self.router)).collect(),
            received: counters.received,
            transmitted: counters.transmitted,
            errors: counters.errors_sent,
            errors_over_rate: counters.errors_limited,
            windows_lowered: counters.windows_lowered,
            dropped: dropped
                .map(|(reason, count)| (reason.to_owned(), count))
                .chain(dropped_for_host(self.router))
                .collect::<BTreeMap<_, _>>(),
        }
    }
}

fn listed_line(line: &RoutedLine, router: &Router) -> Option<ListedLine> {
    let counters = router.line_counters(line.id)?;
    let percentile = |percent| counters.sojourn_ns.percentile(percent);
    Some(ListedLine {
        guest: line.name.clone(),
        addresses: line.addresses.clone(),
        is_up: router.is_up(line.id),
        output: ListedOutput::of(counters),
        queue_delay_ns: percentile(50).zip(percentile(99)).map(|(median, p99)| [median, p99]),
    })
}

fn dropped_for_host(router: &Router) -> Option<(String, u64)> {
    let count = router.host_counters().dropped();
    (count > 0).then(|| ("host_queue".to_owned(), count))
}

const fn reasons(drops: &RouterDrops) -> [(&'static str, u64); 13] {
    [
        ("malformed", drops.malformed),
        ("source", drops.source),
        ("destination", drops.destination),
        ("source_route", drops.source_route),
        ("no_route", drops.no_route),
        ("line_down", drops.line_down),
        ("time_exceeded", drops.time_exceeded),
        ("too_big", drops.too_big),
        ("above_mtu", drops.above_mtu),
        ("local", drops.local),
        ("no_buffer", drops.no_buffer),
        ("link", drops.link),
        ("removed", drops.removed),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway::router::{LineId, RouterSettings};
    use net::OwnedCx;

    fn line(number: u32, name: &str, networks: &[&str]) -> RoutedLine {
        RoutedLine {
            name: name.to_owned(),
            id: LineId(number),
            addresses: Vec::new(),
            networks: networks.iter().map(|network| network.parse().unwrap()).collect(),
            line: None,
            last_counters: None,
            capture: None,
        }
    }

    #[test]
    fn a_request_names_a_line_by_its_name_or_its_address() {
        let mut lines = [
            line(0, "serial:/dev/ttyS0", &["192.0.2.10/32"]),
            line(1, "serial:/dev/ttyS1", &["192.0.2.11/32", "2001:db8:1::/64"]),
        ];
        let mut router = Router::new(RouterSettings::default(), &mut OwnedCx::default().cx());
        let poll = Poll::new().unwrap();
        let control = RoutedControl {
            router: &mut router,
            lines: &mut lines,
            poll: &poll,
            now: Instant::ZERO,
        };
        for (name, number) in [
            ("serial:/dev/ttyS0", 0),
            ("serial:/dev/ttyS1", 1),
            ("192.0.2.10", 0),
            ("192.0.2.11", 1),
            ("2001:db8:1::7", 1),
        ] {
            assert_eq!(control.line_of(Some(name)), Ok(number), "{name}");
        }
        for name in [None, Some("192.0.2.12"), Some("serial:/dev/ttyS2")] {
            assert!(control.line_of(name).is_err(), "{name:?}");
        }
    }
}
