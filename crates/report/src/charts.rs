//! The charts of a measurement, made from its record.
//!
//! The charts are a histogram and the distribution of the echoes, the time-sequence graph of a
//! screenful or of the largest transfer, the packets of a screenful, and throughput against size.
//! The waterfall of a keystroke is not made here: a record has no timestamps of the events of a
//! key.

use crate::html::plot::{Plot, PlotAxis, Scale, Series, SeriesShape, Unit, thinned};
use crate::table::Table;
use records::arrivals::{Arrival, sequence};
use records::format::{byte_rate, count, duration, duration_or_unknown, size};
use records::measurement::{Echo, Measurement, Screenful};
use records::measures::{Attempt, AttemptOutcome};
use records::prediction::{Prediction, Quantity};
use records::sizes::{Direction, Transfers};
use records::statistics::nearest_rank;

/// Number of bins of a histogram.
const BINS: u64 = 30;
/// Minimum number of echoes for a histogram.
const MIN_ECHOES: usize = 5;
/// Minimum number of points in any series of a plot.
const MIN_POINTS: usize = 3;
/// Echo times between which a delay is noticed but acceptable (TM-233 3.1), ns.
const NOTICED_NS: f64 = 25e6;
const UNACCEPTABLE_NS: f64 = 250e6;
/// Maximum rows of a table beside a chart.
const ROWS_MAX: usize = 60;

/// Returns all charts of the measurement, in display order.
#[must_use]
pub(crate) fn charts(measured: &Measurement) -> Vec<Plot> {
    let echo = measured.echo.as_ref().filter(|echo| echo.times_ns.len() >= MIN_ECHOES);
    let screenful = measured.screenful.as_ref().filter(|screenful| !screenful.arrivals.is_empty());
    let transfers = measured.transfers.as_ref();
    let mut all: Vec<Plot> =
        echo.into_iter().flat_map(|echo| [histogram(echo), cdf(echo)]).collect();
    if let Some(screenful) = screenful {
        let title = "Time-sequence graph of the screenful";
        all.push(time_sequence(title, &screenful.arrivals));
        all.push(packets(screenful));
    }
    if let Some(transfers) = transfers {
        if !transfers.sequence.is_empty() {
            let title = "Time-sequence graph of the largest transfer";
            all.push(time_sequence(title, &transfers.sequence));
        }
        all.extend(throughput(transfers, &measured.predictions));
    }
    all.extend(tries(&measured.tries));
    let has_points = |plot: &Plot| plot.series.iter().any(|one| one.points.len() >= MIN_POINTS);
    all.retain(has_points);
    all
}

/// Returns the plot of the tries over time: the echo, or else the time until the target was usable.
fn tries(tries: &[Attempt]) -> Option<Plot> {
    let is_echo = tries.iter().any(|one| one.echo_p50_ns.is_some());
    let felt = |one: &Attempt| if is_echo { one.echo_p50_ns } else { one.response_ns };
    let mut table = Table::new().number("time").text("try").number("value");
    for one in thinned(&tries.iter().collect::<Vec<_>>(), ROWS_MAX) {
        let value = duration_or_unknown(felt(one));
        table.row([duration(one.at_ns), one.outcome.text().to_owned(), value]);
    }
    let point = |one: &Attempt| Some((one.at_ns as f64, felt(one)? as f64));
    let good: Vec<_> = tries.iter().filter_map(point).collect();
    let is_failed = |one: &&Attempt| one.outcome != AttemptOutcome::Ok;
    let failed: Vec<_> =
        tries.iter().filter(is_failed).map(|one| (one.at_ns as f64, 0.0)).collect();
    let label = if is_echo { "echo" } else { "time until usable" };
    let mut all = vec![series(label, 1, SeriesShape::Marks, good)];
    if !failed.is_empty() {
        all.push(series("failed try", 0, SeriesShape::Verticals, failed));
    }
    (tries.len() >= MIN_POINTS).then(|| Plot {
        title: "Tries over time".to_owned(),
        x: axis("time since the first try", Unit::Time, Scale::FromZero),
        y: axis(label, Unit::Time, Scale::FromZero),
        series: all,
        note: String::new(),
        figures: table,
    })
}

fn axis(label: &str, unit: Unit, scale: Scale) -> PlotAxis {
    PlotAxis { label: label.to_owned(), unit, scale }
}

fn series(name: &str, hue: usize, shape: SeriesShape, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), points, hue, shape }
}

fn sorted_times(echo: &Echo) -> Vec<u64> {
    let mut times = echo.times_ns.clone();
    times.sort_unstable();
    times
}

/// Returns the histogram of echo times. The histogram ends at the 99th percentile or at four times
/// the median, whichever is less, but not below the 90th percentile. With a longer axis, a few slow
/// echoes would put all other echoes into one bin.
fn histogram(echo: &Echo) -> Plot {
    let times = sorted_times(echo);
    let min = times.first().copied().unwrap_or(0);
    let at = |percent| nearest_rank(&times, percent).copied().unwrap_or(min);
    let max = at(99).min(at(50).saturating_mul(4).max(at(90)));
    let width = ((max - min) / BINS + 1).max(1);
    let mut points = Vec::new();
    let mut table = Table::new().number("from").number("to").number("echoes");
    for bin in 0..BINS {
        let from = min.saturating_add(bin * width);
        let to = from.saturating_add(width);
        let within = times.iter().filter(|time| (from..to).contains(*time)).count();
        points.push((from as f64, within as f64));
        table.row([duration(from), duration(to), within.to_string()]);
        if to > max {
            points.push((to as f64, 0.0));
            break;
        }
    }
    let end = points.last().map_or(0.0, |(end, _)| *end);
    let longer_count = times.iter().filter(|time| **time as f64 >= end).count();
    let note = match longer_count {
        0 => String::new(),
        1 => format!("1 echo is beyond the axis; it took {}.", duration(echo.max_ns)),
        _ => format!(
            "{longer_count} echoes are beyond the axis; the longest took {}.",
            duration(echo.max_ns)
        ),
    };
    Plot {
        title: "Echo histogram".to_owned(),
        x: axis("time of an echo", Unit::Time, Scale::Linear),
        y: axis("echoes", Unit::Count, Scale::FromZero),
        series: vec![series("echoes", 1, SeriesShape::Bars, points)],
        note,
        figures: table,
    }
}

/// Returns the plot of the cumulative distribution of the echo times.
fn cdf(echo: &Echo) -> Plot {
    let times = sorted_times(echo);
    let all = times.len().max(1) as f64;
    let ranked_times =
        times.iter().zip(1_u32..).map(|(time, rank)| (*time as f64, f64::from(rank)));
    let points: Vec<_> = ranked_times.map(|(time, rank)| (time, rank * 100.0 / all)).collect();
    let mut table = Table::new().number("of 100 echoes").number("maximum time");
    for percent in [1, 5, 10, 25, 50, 75, 90, 95, 99, 100] {
        let time = nearest_rank(&times, percent).copied().unwrap_or(0);
        table.row([percent.to_string(), duration(time)]);
    }
    Plot {
        title: "Share of keystrokes echoed within a time".to_owned(),
        x: axis("time of an echo", Unit::Time, Scale::Logarithmic),
        y: axis("echoes up to this time", Unit::Percent, Scale::FromZero),
        series: vec![
            series("", 2, SeriesShape::Band, vec![(NOTICED_NS, 0.0), (UNACCEPTABLE_NS, 0.0)]),
            series("echoes", 1, SeriesShape::Steps, points),
            series("noticed above 25 ms", 2, SeriesShape::Verticals, vec![(NOTICED_NS, 0.0)]),
            series(
                "too slow above 250 ms",
                0,
                SeriesShape::Verticals,
                vec![(UNACCEPTABLE_NS, 0.0)],
            ),
        ],
        note: "An echo of more than 250 ms is unacceptable, and one of less than 25 ms is not \
               noticed (TM-233 3.1)."
            .to_owned(),
        figures: table,
    }
}

/// Returns the time-sequence graph: the plot of cumulative bytes over time.
fn time_sequence(title: &str, arrivals: &[Arrival]) -> Plot {
    let all = sequence(arrivals);
    let mut table = Table::new().number("time").number("bytes so far");
    for (at, bytes) in thinned(&all, ROWS_MAX) {
        table.row([duration(at), count(bytes)]);
    }
    let points = all.iter().map(|(at, bytes)| (*at as f64, *bytes as f64)).collect();
    Plot {
        title: title.to_owned(),
        x: axis("time", Unit::Time, Scale::FromZero),
        y: axis("bytes so far", Unit::Bytes, Scale::FromZero),
        series: vec![series("bytes", 1, SeriesShape::Steps, points)],
        note: match arrivals.len() {
            0 | 1 => "All data arrived at once, so the rate of the path is unknown.".to_owned(),
            _ => "No data arrived where the line is level. The slope of the steepest part of the \
                  line is the rate of the path."
                .to_owned(),
        },
        figures: table,
    }
}

/// Returns the plot of a screenful: the bytes of each read over time.
fn packets(screenful: &Screenful) -> Plot {
    let mut table = Table::new().number("time").number("bytes");
    for arrival in thinned(&screenful.arrivals, ROWS_MAX) {
        table.row([duration(arrival.at_ns), count(arrival.bytes)]);
    }
    let point = |arrival: &Arrival| (arrival.at_ns as f64, arrival.bytes as f64);
    let points: Vec<_> = screenful.arrivals.iter().map(point).collect();
    let reads = match screenful.arrivals.len() {
        1 => "One read received the whole screenful".to_owned(),
        many => format!("{many} reads received the screenful"),
    };
    let segments = screenful.segments_in.map_or_else(String::new, |segments| {
        format!(" It consisted of {} TCP segments.", count(segments))
    });
    Plot {
        title: "Packets of the screenful".to_owned(),
        x: axis("time", Unit::Time, Scale::FromZero),
        y: axis("bytes", Unit::Bytes, Scale::FromZero),
        series: vec![series("one read", 1, SeriesShape::Stems, points)],
        note: format!("{reads}. Packets received by the same read are drawn as one.{segments}"),
        figures: table,
    }
}

/// Returns a plot of rate against size: the measured transfers, the model and the predictions.
fn throughput(transfers: &Transfers, predictions: &[Prediction]) -> Option<Plot> {
    let mut all = Vec::new();
    let mut table =
        Table::new().text("direction").number("size").number("transfers").number("median time");
    table = table.number("rate");
    let directions = [(Direction::Received, 1), (Direction::Sent, 0)];
    for (direction, hue) in directions {
        let sizes = transfers.sizes(direction);
        for one in &sizes {
            let bytes = size(one.bytes);
            let number = count(one.count);
            let cells = [bytes, number, duration(one.total_ns), byte_rate(one.rate_bps())];
            table.row(std::iter::once(direction.text().to_owned()).chain(cells));
        }
        let in_direction = transfers.samples.iter().filter(|one| one.direction == direction);
        let in_direction = in_direction.filter(|one| one.bytes > 0);
        let marks: Vec<_> =
            in_direction.map(|one| (one.bytes as f64, bytes_per_s(one.rate_bps()))).collect();
        if marks.is_empty() {
            continue;
        }
        let medians = sizes.iter().map(|one| (one.bytes as f64, bytes_per_s(one.rate_bps())));
        let name = format!("{}, median of each size", direction.text());
        all.push(series(&name, hue, SeriesShape::Line, medians.collect()));
        all.push(series(direction.text(), hue, SeriesShape::Marks, marks));
    }
    let min = transfers.samples.iter().map(|one| one.bytes).filter(|bytes| *bytes > 0).min()?;
    let max = transfers.samples.iter().map(|one| one.bytes).max()?;
    let mut note = String::new();
    for (direction, dashes) in directions.map(|(direction, _)| direction).into_iter().zip([2, 4]) {
        let Some(model) = transfers.model_of(direction) else { continue };
        let sizes = std::iter::successors(Some(min), |size| size.checked_mul(2));
        let sizes = sizes.take_while(|size| *size < max).chain([max]);
        let at = |size: u64| (size as f64, size as f64 * 1e9 / model.total_ns(size).max(1) as f64);
        let points = sizes.map(at).collect();
        let name = format!("{}, model (fixed time and rate)", direction.text());
        all.push(series(&name, dashes, SeriesShape::Dashed, points));
        note += &format!(
            " The dashed line of {} files has a fixed time of {} and a rate of {}.",
            direction.text(),
            duration(model.fixed_ns),
            byte_rate(model.rate_bps)
        );
    }
    all.extend(predicted(predictions));
    if let Some(knee) = transfers.slower().and_then(|slower| transfers.knee_of(slower)) {
        all.push(series("knee", 3, SeriesShape::Verticals, vec![(knee as f64, 0.0)]));
        note += &format!(
            " The knee is at {}: above this size, the size makes little difference.",
            size(knee)
        );
    }
    Some(Plot {
        title: "Throughput against size".to_owned(),
        x: axis("size", Unit::Bytes, Scale::Logarithmic),
        y: axis("rate", Unit::ByteRate, Scale::Logarithmic),
        series: all,
        note: note.trim().to_owned(),
        figures: table,
    })
}

fn bytes_per_s(rate_bps: u64) -> f64 {
    rate_bps as f64 / 8.0
}

/// Returns the predicted rates of the files that were transferred after the prediction.
fn predicted(predictions: &[Prediction]) -> Option<Series> {
    let is_file = |one: &&Prediction| matches!(one.quantity, Quantity::Received | Quantity::Sent);
    let measured = predictions.iter().filter(|one| one.measured_ns.is_some());
    let rate = |one: &Prediction| {
        (one.bytes as f64, one.bytes as f64 * 1e9 / one.predicted_ns.max(1) as f64)
    };
    let points: Vec<_> = measured.filter(is_file).map(rate).collect();
    let name = "predicted from small files";
    (!points.is_empty()).then(|| series(name, 4, SeriesShape::Marks, points))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Measurement {
        Measurement::from_json(include_str!("../../records/samples/measurement-2.json")).unwrap()
    }

    #[test]
    fn a_complete_record_has_every_chart() {
        let titles: Vec<_> = charts(&sample()).into_iter().map(|plot| plot.title).collect();
        let expected = [
            "Echo histogram",
            "Share of keystrokes echoed within a time",
            "Time-sequence graph of the screenful",
            "Packets of the screenful",
            "Time-sequence graph of the largest transfer",
            "Throughput against size",
        ];
        assert_eq!(titles, expected);
    }

    #[test]
    fn a_histogram_counts_every_echo_once() {
        let echo = sample().echo.unwrap();
        let plot = histogram(&echo);
        let counted: f64 = plot.series[0].points.iter().map(|(_, count)| count).sum();
        let longer_count: usize = plot.note.split(' ').next().unwrap().parse().unwrap_or(0);
        assert_eq!(counted, (echo.times_ns.len() - longer_count) as f64);
    }

    #[test]
    fn failed_tries_are_vertical_lines_in_the_plot_over_time() {
        let good =
            |at_ns| Attempt { echo_p50_ns: Some(1_000), ..Attempt::new(at_ns, AttemptOutcome::Ok) };
        let failed = Attempt::new(2, AttemptOutcome::NoConnection);
        let plot = tries(&[good(0), good(1), failed.clone()]).unwrap();
        assert_eq!(plot.series[0].points, [(0.0, 1_000.0), (1.0, 1_000.0)]);
        assert_eq!(plot.series[1].points, [(2.0, 0.0)]);
        assert_eq!(tries(&[good(0), failed]), None);
    }

    #[test]
    fn a_screenful_of_one_read_has_no_plot() {
        let mut record = sample();
        let screenful = record.screenful.as_mut().unwrap();
        screenful.arrivals.truncate(1);
        let titles: Vec<_> = charts(&record).into_iter().map(|plot| plot.title).collect();
        assert!(!titles.iter().any(|title| title.ends_with("the screenful")), "{titles:?}");
    }

    #[test]
    fn an_old_record_without_samples_has_no_chart() {
        let json = include_str!("../../records/samples/measurement-1.json");
        assert!(charts(&Measurement::from_json(json).unwrap()).is_empty());
    }
}
