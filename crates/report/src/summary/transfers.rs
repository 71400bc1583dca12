//! Tables of transfers of growing sizes: times and rates by size, and the phases of a transfer.

use crate::table::Table;
use records::format::{UNKNOWN, byte_rate, count, duration, share, size};
use records::sizes::{Direction, Phase, Sample, Transfers, median_sample};

/// Returns the sizes, smallest first, each with its rate.
pub(super) fn sizes(transfers: &Transfers) -> Table {
    let headers = ["size", "times", "median", "rate", "model"];
    let mut table = headers.into_iter().fold(Table::new().text("direction"), Table::number);
    for direction in [Direction::Received, Direction::Sent] {
        let model = transfers.model_of(direction);
        for one in transfers.sizes(direction) {
            let model = model.map(|model| duration(model.total_ns(one.bytes)));
            table.row([
                direction.text().to_owned(),
                size(one.bytes),
                count(one.count),
                duration(one.total_ns),
                byte_rate(one.rate_bps()),
                model.unwrap_or_else(|| UNKNOWN.to_owned()),
            ]);
        }
    }
    table
}

/// Returns the phases of the smallest and the largest transfer of each direction. The phases are
/// those of the transfer of median time, and add up to its time.
pub(super) fn phases(transfers: &Transfers) -> Vec<(String, Table)> {
    let directions = [Direction::Received, Direction::Sent];
    let tables = directions.into_iter().filter_map(|direction| {
        let table = phases_of(transfers, direction)?;
        Some((format!("Where the time of a transfer went, {}", direction.text()), table))
    });
    tables.collect()
}

fn phases_of(transfers: &Transfers, direction: Direction) -> Option<Table> {
    let complete_samples = transfers.samples.iter().filter(|one| !one.is_partial);
    let sizes: Vec<u64> =
        complete_samples.filter(|one| one.direction == direction).map(|one| one.bytes).collect();
    let min = *sizes.iter().min()?;
    let max = *sizes.iter().max()?;
    let extreme_sizes = if min == max { vec![max] } else { vec![min, max] };
    let typical_samples: Vec<&Sample> = extreme_sizes
        .into_iter()
        .filter_map(|bytes| median_sample(&transfers.samples, direction, bytes))
        .collect();
    let headers = typical_samples.iter().map(|one| size(one.bytes));
    let mut table = headers.fold(Table::new().text("phase"), |table, header| table.number(&header));
    let split: Vec<_> = typical_samples.iter().map(|one| (one.total_ns, one.phases())).collect();
    for phase in Phase::ALL {
        let in_direction = |phases: &[(Phase, u64)]| {
            phases.iter().find(|(one, _)| *one == phase).map(|(_, ns)| *ns)
        };
        // Omit phases that the protocol does not have.
        if split.iter().all(|(_, phases)| in_direction(phases).is_none()) {
            continue;
        }
        let times = split.iter().map(|(total_ns, phases)| match in_direction(phases) {
            Some(ns) => format!("{} {:>6}", duration(ns), share(ns, *total_ns)),
            None => UNKNOWN.to_owned(),
        });
        table.row(std::iter::once(phase.text().to_owned()).chain(times));
    }
    let totals =
        split.iter().map(|(total_ns, _)| format!("{} {:>6}", duration(*total_ns), "100 %"));
    table.row(std::iter::once("all".to_owned()).chain(totals));
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::measurement::Measurement;

    #[test]
    fn phases_of_the_smallest_and_largest_transfer_are_printed_with_the_rest() {
        let record =
            Measurement::from_json(include_str!("../../../records/samples/measurement-2.json"));
        let tables = phases(&record.unwrap().transfers.unwrap());
        assert_eq!(tables.len(), 1);
        let (title, table) = &tables[0];
        assert_eq!(title, "Where the time of a transfer went, received");
        let names: Vec<&str> = table.rows().iter().map(|row| row[0].as_str()).collect();
        assert!(names.ends_with(&["the rest", "all"]), "{names:?}");
    }
}
