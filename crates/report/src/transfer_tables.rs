//! The tables of `plumb stats`, from the subsets and transfers of a store.
//!
//! RFC 573 has table II (totals of subsets) and table III (the transfers one by one). RFC 594 has
//! the table of get and send by byte size and type. The other tables are not in these papers:
//! percentiles, limiting factors, rate by size with the knee, cost, and outcomes.

mod knee;
mod size_class;
mod units;

use crate::table::{COSTS, CPU_TIMES_PER_BIT, Cell, Grid, PRICES, RATES};
use knee::knee_sentence;
use records::aggregate::{Aggregate, MIN_FASTEST_NS};
use records::calendar::Moment;
use records::histogram::Histogram;
use records::store::{Key, Subset};
use records::transfer::{Command, Outcome, Role, Transfer, TransferLimit, Type, derived};
use size_class::size_text;

pub use units::Units;

/// Prices of an hour of CPU time and of a gigabyte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Price of an hour of CPU time.
    pub cpu_hour: f64,
    /// Price of a transferred gigabyte.
    pub gigabyte: f64,
}

/// Returns RFC 573's table II, and below it the directory listings, which are not files.
#[must_use]
pub fn summary(subsets: &[Subset], listings: Option<&Aggregate>, units: Units) -> Grid {
    let mut grid = Grid::new("summary", "Transfers")
        .text("subset", "subset")
        .number("files", "files")
        .figure("bits", "size", units.sizes)
        .figure("bits_per_file", "average", units.sizes)
        .figure("rate_bps", "rate", units.rates)
        .figure("cpu_s_per_bit", "CPU", units.costs);
    let labeled_aggregates =
        subsets.iter().map(|Subset { key, aggregate }| (label(key), aggregate));
    for (label, aggregate) in
        labeled_aggregates.chain(listings.map(|aggregate| ("listings".to_owned(), aggregate)))
    {
        let average = (aggregate.size.files > 0)
            .then(|| aggregate.size.bits as f64 / aggregate.size.files as f64);
        grid.row([
            Cell::Text(label),
            Cell::Count(aggregate.files),
            Cell::figure((aggregate.size.files > 0).then_some(aggregate.size.bits as f64)),
            Cell::figure(average),
            Cell::figure(aggregate.rate.bits_per_s()),
            cost(aggregate),
        ]);
    }
    grid
}

/// Returns the `transfers` one by one: protocol and direction, host, size, rate, duration, user,
/// outcome and file.
#[must_use]
pub fn list(transfers: &[(u64, Transfer)]) -> Grid {
    let grid = Grid::new("list", "Newest transfers")
        .text("began", "began (UTC)")
        .text("transfer", "transfer")
        .optional_text("host", "host")
        .number("bytes", "size")
        .optional_number("bytes_per_s", "rate")
        .optional_number("duration_ns", "duration")
        .optional_text("user", "user");
    let is_complete = |transfer: &Transfer| transfer.result.outcome == Some(Outcome::Complete);
    let mut grid = match transfers.iter().all(|(_, transfer)| is_complete(transfer)) {
        true => grid.optional_text("outcome", "outcome"),
        false => grid.text("outcome", "outcome"),
    }
    .text("path", "file");
    for (_, transfer) in transfers {
        grid.row([
            transfer.time.start_unix_ns.map_or(Cell::Unknown, Cell::Moment),
            transfer.request.command.map(operation_text).map_or(Cell::Unknown, Cell::Text),
            Cell::bytes(transfer.remote_host().as_deref()),
            transfer.size.file_bytes.map_or(Cell::Unknown, Cell::Size),
            byte_rate(transfer).map_or(Cell::Unknown, Cell::ByteRate),
            Cell::duration(transfer.time.total_ns),
            Cell::bytes(transfer.identity.user.as_ref().map(|user| user.as_bytes())),
            Cell::text(transfer.result.outcome.map(Outcome::text)),
            Cell::bytes(path_of(transfer)),
        ]);
    }
    grid
}

/// Returns the protocol and the direction of a command, as seen by the user of the server.
fn operation_text(command: Command) -> String {
    let direction = match command {
        _ if command.is_listing() => "list",
        _ if command.is_to_server() => "put",
        _ => "get",
    };
    format!("{} {direction}", command.protocol_text())
}

/// Returns the size divided by the duration, bytes per second.
fn byte_rate(transfer: &Transfer) -> Option<u64> {
    let bytes = u128::from(transfer.size.file_bytes?);
    u64::try_from((bytes * 1_000_000_000).checked_div(u128::from(transfer.time.total_ns?))?).ok()
}

/// Returns the path of the transferred file.
fn path_of(transfer: &Transfer) -> Option<&[u8]> {
    let request = &transfer.request;
    let path = match request.command {
        // STOU: the server chooses the name of the file.
        Some(Command::Stou) => request.path_real.as_ref().or(request.path_requested.as_ref()),
        _ => request.path_requested.as_ref().or(request.path_real.as_ref()),
    };
    path.map(|path| path.as_bytes())
}

/// Returns RFC 573's table III: the `transfers` one by one.
#[must_use]
pub fn rfc573_list(transfers: &[(u64, Transfer)]) -> Grid {
    let mut grid = Grid::new("list", "Newest transfers (RFC 573, table III)")
        .optional_number("number", "number")
        .text("host", "host")
        .text("command", "command")
        .text("began", "began (UTC)")
        .number("bits", "bits")
        .figure("rate_bps", "speed", RATES)
        .figure("cpu_s_per_bit", "CPU", CPU_TIMES_PER_BIT)
        .text("type", "type")
        .number("byte_size", "byte")
        .optional_text("program", "role")
        .optional_text("limit", "limit");
    let is_complete = |transfer: &Transfer| transfer.result.outcome == Some(Outcome::Complete);
    let are_complete = transfers.iter().all(|(_, transfer)| is_complete(transfer));
    if !are_complete {
        grid = grid.text("outcome", "outcome");
    }
    grid = grid.optional_text("path", "path");
    for (number, transfer) in transfers {
        let identity = &transfer.identity;
        let request = &transfer.request;
        let rate = transfer.rate_bps().map(|rate| rate as f64);
        let mut cells = vec![
            Cell::Count(*number),
            Cell::bytes(transfer.remote_host().as_deref()),
            Cell::text(request.command.map(Command::text)),
            transfer.time.start_unix_ns.map_or(Cell::Unknown, Cell::Moment),
            Cell::count(transfer.bits()),
            Cell::figure(rate),
            Cell::figure(transfer.cpu_fs_per_bit().map(|fs| fs as f64 / 1e15)),
            Cell::text(request.representation.map(Type::text)),
            Cell::count(request.byte_size),
            Cell::text(identity.role.map(|role| match role {
                Role::User => "U",
                Role::Server => "S",
            })),
            Cell::text(transfer.limit().map(TransferLimit::text)),
        ];
        if !are_complete {
            cells.push(Cell::text(transfer.result.outcome.map(Outcome::text)));
        }
        cells.push(Cell::bytes(path_of(transfer)));
        grid.row(cells);
    }
    grid
}

/// Returns RFC 594's table: rate and CPU time of get and send, by byte size and type.
#[must_use]
pub fn operations(subsets: &[Subset], units: Units) -> Grid {
    let mut grid = Grid::new("operations", "Get and send (RFC 594)")
        .text("operation", "operation")
        .number("byte_size", "byte size")
        .text("type", "type")
        .number("files", "files")
        .figure("rate_bps", "rate", units.rates)
        .figure("cpu_s_per_bit", "CPU", units.costs);
    for Subset { key, aggregate } in subsets {
        let Key::Operation(is_get, byte_size, representation) = key else { continue };
        grid.row([
            Cell::text(is_get.map(|is_get| if is_get { "get" } else { "send" })),
            Cell::count(*byte_size),
            Cell::text(representation.map(type_text)),
            Cell::Count(aggregate.files),
            Cell::figure(aggregate.rate.bits_per_s()),
            cost(aggregate),
        ]);
    }
    grid
}

/// Returns the rate by size, and the position of the knee.
#[must_use]
pub fn sizes(subsets: &[Subset], units: Units) -> Grid {
    let mut grid = Grid::new("sizes", "Rate by size of the file")
        .text("size", "size")
        .number("files", "files")
        .figure("rate_bps", "rate", units.rates)
        .figure("rate_bps_p50", "median rate", units.rates)
        .figure("cpu_s_per_bit", "CPU", units.costs);
    for Subset { key, aggregate } in subsets {
        grid.row([
            Cell::Text(label(key)),
            Cell::Count(aggregate.files),
            Cell::figure(aggregate.rate.bits_per_s()),
            Cell::figure(aggregate.rate_bps.percentile(50).map(|rate| rate as f64)),
            cost(aggregate),
        ]);
    }
    grid.note(knee_sentence(subsets, units));
    grid
}

/// Returns the percentiles of times, rates and costs for a reader: one row per quantity.
#[must_use]
pub fn percentiles_by_quantity(subsets: &[Subset], units: Units) -> Grid {
    let mut grid = Grid::new("percentiles", "Percentiles")
        .text("subset", "subset")
        .optional_number("files", "files")
        .text("quantity", "quantity")
        .number("p50", "p50")
        .number("p90", "p90")
        .number("p99", "p99");
    for Subset { key, aggregate } in subsets {
        let figures = |histogram: &Histogram, unit: f64, units| {
            [50, 90, 99].map(|percent| match histogram.percentile(percent) {
                Some(value) => Cell::FigureIn(value as f64 * unit, units),
                None => Cell::Unknown,
            })
        };
        let times =
            [50, 90, 99].map(|percent| Cell::duration(aggregate.real_ns.percentile(percent)));
        let quantities = [
            ("time", times),
            ("rate", figures(&aggregate.rate_bps, 1.0, units.rates)),
            ("CPU", figures(&aggregate.cpu_fs_per_bit, 1e-15, units.costs)),
        ];
        for (at, (name, cells)) in quantities.into_iter().enumerate() {
            // The subset is named in the first of its rows.
            let first = match at {
                0 => [Cell::Text(label(key)), Cell::Count(aggregate.files)],
                _ => [Cell::Text(String::new()), Cell::Text(String::new())],
            };
            grid.row(first.into_iter().chain([Cell::Text(name.to_owned())]).chain(cells));
        }
    }
    grid
}

/// Returns the percentiles of times, rates and costs for programs: one row per subset.
#[must_use]
pub fn percentiles(subsets: &[Subset]) -> Grid {
    let mut grid = Grid::new("percentiles", "Percentiles 50, 90 and 99")
        .text("subset", "subset")
        .number("files", "files")
        .number("real_ns_p50", "time p50")
        .number("real_ns_p90", "p90")
        .number("real_ns_p99", "p99")
        .figure("rate_bps_p50", "speed p50", RATES)
        .figure("rate_bps_p90", "p90", RATES)
        .figure("rate_bps_p99", "p99", RATES)
        .figure("cpu_s_per_bit_p50", "CPU p50", COSTS)
        .figure("cpu_s_per_bit_p99", "p99", COSTS);
    for Subset { key, aggregate } in subsets {
        let time = |percent| Cell::duration(aggregate.real_ns.percentile(percent));
        let scaled = |histogram: &Histogram, percent, unit: f64| {
            Cell::figure(histogram.percentile(percent).map(|value| value as f64 * unit))
        };
        let rate = |percent| scaled(&aggregate.rate_bps, percent, 1.0);
        let cost = |percent| scaled(&aggregate.cpu_fs_per_bit, percent, 1e-15);
        grid.row([
            Cell::Text(label(key)),
            Cell::Count(aggregate.files),
            time(50),
            time(90),
            time(99),
            rate(50),
            rate(90),
            rate(99),
            cost(50),
            cost(99),
        ]);
    }
    grid
}

/// Returns the number of transfers that each factor has limited.
#[must_use]
pub fn limits(subsets: &[Subset]) -> Grid {
    let mut grid = Grid::new("limits", "Limiting factors")
        .text("subset", "subset")
        .number("files", "files")
        .number("peer", "peer")
        .number("net", "net")
        .number("cpu", "CPU")
        .number("disk", "disk")
        .number("app", "program")
        .number("unknown", "none or unknown");
    for Subset { key, aggregate } in subsets {
        let limited_files: u64 = aggregate.limited.iter().sum();
        let counts = aggregate
            .limited
            .iter()
            .copied()
            .chain([aggregate.files.saturating_sub(limited_files)]);
        let shares = counts.map(|count| Cell::Share(count, aggregate.files));
        grid.row([Cell::Text(label(key)), Cell::Count(aggregate.files)].into_iter().chain(shares));
    }
    grid
}

/// Returns the cost of the transfers at `prices`.
#[must_use]
pub fn costs(subsets: &[Subset], prices: Prices) -> Grid {
    let title = format!(
        "Cost at {} per hour of CPU time and {} per GB",
        format_price(prices.cpu_hour),
        format_price(prices.gigabyte)
    );
    let mut grid = Grid::new("cost", title)
        .text("subset", "subset")
        .number("files", "files")
        .figure("cpu_s", "CPU", &[("h", 3_600.0), ("s", 1.0), ("ms", 1e-3)])
        .figure("cpu_cost", "CPU cost", &[])
        .figure("line_cost", "line cost", &[])
        .figure("cost", "cost", &[])
        .figure("cost_per_bit", "cost", PRICES);
    for Subset { key, aggregate } in subsets {
        let seconds = (aggregate.cost.files > 0).then(|| aggregate.cost.ns as f64 / 1e9);
        let cpu = seconds.map(|seconds| seconds / 3_600.0 * prices.cpu_hour);
        let bits = (aggregate.size.files > 0).then_some(aggregate.size.bits as f64);
        let line = bits.map(|bits| bits / 8e9 * prices.gigabyte);
        // Some transfers have a known CPU time but no known size, or the reverse. Therefore the
        // cost of a bit is the sum of the CPU cost of a bit and the price for carrying a bit.
        let per_bit = aggregate
            .cost
            .s_per_megabit()
            .map(|cost| cost / 1e6 / 3_600.0 * prices.cpu_hour + prices.gigabyte / 8e9);
        grid.row([
            Cell::Text(label(key)),
            Cell::Count(aggregate.files),
            Cell::figure(seconds),
            Cell::figure(cpu),
            Cell::figure(line),
            Cell::figure(cpu.zip(line).map(|(cpu, line)| cpu + line)),
            Cell::figure(per_bit),
        ]);
    }
    grid
}

/// Returns the largest, the smallest, the fastest and the slowest transfer.
#[must_use]
pub fn extremes(found: &[(&'static str, u64, Transfer)], units: Units) -> Grid {
    let mut grid = Grid::new("extremes", "Largest, smallest, fastest, slowest")
        .text("which", "which")
        .text("host", "host")
        .text("command", "command")
        .figure("bits", "size", units.sizes)
        .number("real_ns", "time")
        .figure("rate_bps", "rate", units.rates)
        .optional_text("program", "program")
        .optional_text("type", "type")
        .optional_number("byte_size", "byte size")
        .optional_number("number", "number");
    for (kind, number, transfer) in found {
        let rate = transfer.bits().zip(transfer.real_ns());
        let rate = rate.and_then(|(bits, ns)| derived::rate_bps(bits, ns));
        grid.row([
            Cell::Text((*kind).to_owned()),
            Cell::bytes(transfer.remote_host().as_deref()),
            Cell::text(transfer.request.command.map(Command::text)),
            Cell::figure(transfer.bits().map(|bits| bits as f64)),
            Cell::duration(transfer.real_ns()),
            Cell::figure(rate.map(|rate| rate as f64)),
            Cell::text(transfer.program_text()),
            Cell::text(transfer.request.representation.map(Type::text)),
            Cell::count(transfer.request.byte_size),
            Cell::Count(*number),
        ]);
    }
    let minimum = records::format::duration(MIN_FASTEST_NS);
    grid.note(format!("The fastest transfer is chosen among those that took {minimum} or more."));
    grid
}

/// Returns the outcomes of the transfers.
#[must_use]
pub fn outcomes(subsets: &[Subset]) -> Grid {
    let total_files: u64 = subsets.iter().map(|subset| subset.aggregate.files).sum();
    let mut grid = Grid::new("outcomes", "Outcomes")
        .text("outcome", "outcome")
        .number("files", "files")
        .number("share", "share");
    for Subset { key, aggregate } in subsets {
        let share = Cell::Share(aggregate.files, total_files);
        grid.row([Cell::Text(label(key)), Cell::Count(aggregate.files), share]);
    }
    grid
}

fn cost(aggregate: &Aggregate) -> Cell {
    Cell::figure(aggregate.cost.s_per_megabit().map(|cost| cost / 1e6))
}

/// Formats a price without rounding.
fn format_price(price: f64) -> String {
    format!("{price}")
}

/// Returns the name of a subset.
fn label(key: &Key) -> String {
    let unknown = |quantity: &str| format!("{quantity} not known");
    let name = |name: &Option<Vec<u8>>, quantity: &str| match name {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => unknown(quantity),
    };
    match key {
        Key::All => "total".to_owned(),
        Key::Type(Some(representation), Some(bits)) => {
            format!("{} {bits}", type_text(*representation))
        }
        Key::Type(Some(representation), None) => type_text(*representation).to_owned(),
        Key::Type(None, _) => unknown("type"),
        Key::Program(Some(role), Some(is_sending)) => {
            derived::program_text(*role, *is_sending).to_owned()
        }
        Key::Program(..) => unknown("program"),
        Key::Operation(..) => unknown("operation"),
        Key::Host(host) => name(host, "host"),
        Key::User(user) => name(user, "user"),
        Key::Day(day) => day.map_or_else(|| unknown("day"), |began| Moment::of(began).date()),
        Key::Size(digits) => digits.map_or_else(|| unknown("size"), size_text),
        Key::Command(command) => {
            command.map_or_else(|| unknown("command"), |command| command.text().to_owned())
        }
        Key::Outcome(outcome) => {
            outcome.map_or_else(|| unknown("outcome"), |outcome| outcome.text().to_owned())
        }
    }
}

const fn type_text(representation: Type) -> &'static str {
    match representation {
        Type::Ascii => "ASCII",
        Type::Ebcdic => "EBCDIC",
        Type::Image => "image",
        Type::Local => "local byte",
    }
}
