//! TFTP client: one file, from or to the first address of a host that answers.
//!
//! The addresses are tried in the order of RFC 6724. The next one follows at once if the network
//! reports the current one as unreachable, and otherwise after a second without an answer. They are
//! not tried in parallel: two write requests are two transfers.
//!
//! If a server refuses a request for its options, one more request without options follows (RFC
//! 2347).

use super::transfer::{Facts, Stop, Terms, Transfer, Work};
use super::trouble::Trouble;
use super::wire::Wire;
use crate::carry::{self, Bench, Via};
use crate::files::local::{Sink, Source};
use crate::files::pace::Pace;
use crate::files::shown::shown;
use crate::meters::Registry;
use crate::transfer_recorder::{Record, Recorder, nanos};
use anyhow::Result;
use os::host::Host;
use protocols::application::tftp::{
    BLOCK_SIZE_DEFAULT, Direction, ErrorCode, Mode, Options, Receiver, Request, Sender, Settings,
};
use protocols::time::Duration;
use records::transfer::{Role, Stack, Text};
use std::net::SocketAddr;
use std::sync::Arc;

/// Time without an answer after which the next address is tried.
const NEXT_ADDRESS: Duration = Duration::from_secs(1);
/// Maximum number of bytes that a sender keeps of a window.
const WINDOW_MAX_BYTES: u64 = 16 << 20;

/// A requested transfer.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    /// Host name as it was given, and its addresses.
    pub(crate) host: String,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) name: Vec<u8>,
    pub(crate) mode: Mode,
    pub(crate) block_size: u16,
    pub(crate) window_size: u16,
    pub(crate) patience: Duration,
    pub(crate) bytes_per_second: Option<u64>,
    pub(crate) via: Via,
    /// Duration of the name resolution.
    pub(crate) resolving: Duration,
    /// Registry on which the meters are displayed.
    pub(crate) board: Arc<Registry>,
}

/// Result of a transfer.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) record: Record,
    /// Facts of the last attempt.
    pub(crate) facts: Facts,
    /// Error of the last attempt.
    pub(crate) trouble: Option<Trouble>,
}

/// Direction of a transfer, with its local end.
#[derive(Debug)]
pub(crate) enum Order {
    /// Download.
    Get(Sink),
    /// Upload, with the number of bytes, if known.
    Put(Source, Option<u64>),
}

impl Order {
    fn direction(&self) -> Direction {
        match self {
            Self::Get(_) => Direction::Read,
            Self::Put(..) => Direction::Write,
        }
    }
}

/// Transfers the file, and returns the report.
///
/// # Errors
///
/// Returns an error if a local resource is unavailable, if the file name is too long for a request,
/// or if there is no address.
pub(crate) async fn run(
    errand: &Errand,
    order: Order,
    stop: &Arc<Stop>,
    progress: &Arc<impl Fn(&Facts) + Send + Sync + 'static>,
    recorder: &Recorder,
) -> Result<Report> {
    let cpu_before = os::clock::process_cpu_time();
    let host = carry::host(&errand.via, 1, carry::FILES)?;
    let stack = if host.is_some() { Stack::Plumbline } else { Stack::Kernel };
    let mut record = recorder.begin(Role::User, stack, None);
    record.note_request(order.direction(), errand.mode, &errand.name);
    let (mut order, mut has_options) = (Some(order), true);
    let mut addresses = errand.addresses.iter().copied().peekable();
    let mut last = None;
    while let (Some(address), Some(now)) = (addresses.peek().copied(), order.take()) {
        if let Some(host) = &host {
            host.addressed(address.ip()).await?;
        }
        let is_last = errand.addresses.last() == Some(&address);
        let opening = (!is_last).then_some(NEXT_ADDRESS);
        let attempt = Attempt { errand, address, opening, has_options, host: host.as_ref() };
        let (facts, trouble, work, size) = attempt.run(now, stop, progress).await?;
        let is_unopened = facts.agreed.is_none();
        let is_options = matches!(
            trouble,
            Some(Trouble::Refused(
                ErrorCode::OptionsRefused | ErrorCode::IllegalOperation | ErrorCode::NotDefined,
                _
            ))
        );
        let is_of_the_address = trouble.as_ref().is_some_and(Trouble::is_of_the_address);
        last = Some((facts, trouble));
        if is_unopened && is_options && std::mem::take(&mut has_options) {
            order = returned(work, size);
        } else if is_unopened && is_of_the_address {
            addresses.next();
            order = returned(work, size);
        }
    }
    let (facts, trouble) = last.ok_or_else(|| anyhow::anyhow!("no address to send to"))?;
    record.transfer.identity.remote_name = Some(Text::from(&errand.host));
    record.transfer.time.ns_resolve = Some(nanos(errand.resolving));
    record.transfer.host = recorder.host();
    record.note_facts(&facts, trouble.as_ref(), &errand.name);
    // This process does nothing else.
    record.transfer.cpu.cpu_ns = None;
    record.add_cpu(os::clock::process_cpu_time().saturating_sub(cpu_before));
    Ok(Report { record, facts, trouble })
}

/// Returns the local end that an attempt has not used.
fn returned(work: Work, size: Option<u64>) -> Option<Order> {
    match work {
        Work::Send(_, source) => Some(Order::Put(source, size)),
        Work::Receive(_, sink) => sink.map(Order::Get),
    }
}

/// One attempt at one address.
struct Attempt<'a> {
    errand: &'a Errand,
    address: SocketAddr,
    opening: Option<Duration>,
    has_options: bool,
    host: Option<&'a Host>,
}

impl Attempt<'_> {
    async fn run(
        self,
        order: Order,
        stop: &Arc<Stop>,
        progress: &Arc<impl Fn(&Facts) + Send + Sync + 'static>,
    ) -> Result<(Facts, Option<Trouble>, Work, Option<u64>)> {
        let errand = self.errand;
        let wire = Wire::to(self.address, self.host)?;
        let bench = Bench::shown_on(&errand.board, "TFTP")?;
        let pace = Pace::new(errand.bytes_per_second);
        let size = match &order {
            Order::Get(_) => None,
            Order::Put(_, size) => *size,
        };
        let options = self.options(&order, &wire, pace);
        let request = Request {
            direction: order.direction(),
            name: errand.name.clone(),
            mode: errand.mode,
            options: if self.has_options { options } else { Options::default() },
        };
        let (settings, now) = (Settings { patience: errand.patience }, bench.clock.now());
        let work = match order {
            Order::Get(sink) => Receiver::of_user(&request, &settings, now)
                .map(|receiver| Work::Receive(receiver, Some(sink))),
            Order::Put(source, _) => {
                Sender::of_user(&request, &settings, now).map(|sender| Work::Send(sender, source))
            }
        };
        let work = work.ok_or_else(|| {
            anyhow::anyhow!("'{}' is too long for a TFTP request", shown(&errand.name))
        })?;
        let terms = Terms {
            direction: request.direction,
            mode: errand.mode,
            patience: errand.patience,
            opening: self.opening,
            unanswered_max: None,
            pace,
            lingers: false,
            file_max_bytes: u64::MAX,
        };
        let transfer = Transfer::new(work, wire, self.address, terms, bench);
        let progress = Arc::clone(progress);
        let ran = transfer.run(Arc::clone(stop), move |facts| progress(facts)).await;
        let (facts, trouble, work) = ran?;
        Ok((facts, trouble, work, size))
    }

    /// Returns the options to request, within the buffer of the socket and the burst of the rate
    /// limit. Default values are not requested: some servers know no options.
    fn options(&self, order: &Order, wire: &Wire, pace: Pace) -> Options {
        let burst = pace.burst_bytes().unwrap_or(WINDOW_MAX_BYTES).min(WINDOW_MAX_BYTES);
        let fits = u16::try_from(burst).unwrap_or(u16::MAX);
        let block_size = self.errand.block_size.min(fits.max(BLOCK_SIZE_DEFAULT));
        let blocks = u16::try_from(burst / u64::from(block_size)).unwrap_or(u16::MAX).max(1);
        let holds = match order {
            Order::Get(_) => wire.window_size_max(block_size),
            Order::Put(..) => u16::MAX,
        };
        let window_size = self.errand.window_size.min(blocks).min(holds);
        let is_octet = self.errand.mode == Mode::Octet;
        Options {
            block_size: (block_size != BLOCK_SIZE_DEFAULT).then_some(block_size),
            window_size: (window_size > 1).then_some(window_size),
            transfer_size: match order {
                Order::Get(_) => is_octet.then_some(0),
                Order::Put(_, size) => size.filter(|_| is_octet),
            },
            timeout_s: None,
        }
    }
}
