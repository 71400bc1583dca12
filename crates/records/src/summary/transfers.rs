//! Transfers of growing sizes as tables: what each size brought, and where its time went.

use crate::figures::{UNKNOWN, count, duration, duration_or_unknown, rate};
use crate::sizes::{Direction, Sample, Transfers};
use crate::statistics::median;
use crate::table::Table;

/// Returns the sizes, from the smallest, each with its rate.
pub(super) fn sizes(transfers: &Transfers) -> Table {
    let headers = ["bytes", "times", "median", "rate", "model"];
    let mut table = headers.into_iter().fold(Table::new().text("direction"), Table::number);
    for direction in [Direction::Received, Direction::Sent] {
        for size in transfers.sizes(direction) {
            let model = transfers.model.map(|model| duration(model.total_ns(size.bytes)));
            table.row([
                direction.text().to_owned(),
                count(size.bytes),
                count(size.count),
                duration(size.total_ns),
                rate(size.rate_bps()),
                model.unwrap_or_else(|| UNKNOWN.to_owned()),
            ]);
        }
    }
    table
}

/// What a step of a transfer took.
type Time = fn(&Sample) -> Option<u64>;

/// Returns the steps of the smallest and of the largest transfer, in medians: of those that were
/// received, or else of those that were sent.
pub(super) fn steps(transfers: &Transfers) -> Table {
    let of_it = |direction| transfers.samples.iter().filter(move |one| one.direction == direction);
    let direction = match of_it(Direction::Received).next() {
        Some(_) => Direction::Received,
        None => Direction::Sent,
    };
    let sizes: Vec<u64> = of_it(direction).map(|one| one.bytes).collect();
    let ends = sizes.iter().min().copied().zip(sizes.iter().max().copied());
    let (least, most) = ends.unwrap_or_default();
    let header = |bytes: u64| format!("{} bytes {}", count(bytes), direction.text());
    let mut table = Table::new().text("step").number(&header(least));
    if most > least {
        table = table.number(&header(most));
    }
    let of = |bytes: u64, time: Time| {
        let times = of_it(direction).filter(|one| one.bytes == bytes).filter_map(time);
        median(&times.collect::<Vec<_>>())
    };
    let steps: [(&str, Time); 6] = [
        ("command to its reply", |one| one.command_ns),
        ("data connection", |one| one.data_connect_ns),
        ("TLS on it", |one| one.data_tls_ns),
        ("first to last byte", |one| one.data_ns),
        ("last byte to its reply", |one| one.confirm_ns),
        ("all", |one| Some(one.total_ns)),
    ];
    for (name, time) in steps {
        let times = [of(least, time), of(most, time)];
        // A step that a protocol does not have is none.
        if times.iter().any(Option::is_some) {
            let times = times.map(duration_or_unknown);
            table.row(std::iter::once(name.to_owned()).chain(times));
        }
    }
    table
}
