//! Report of the demonstration: one self-contained HTML file.

use super::laboratory::{
    ECHO_1982_NS, Laboratory, RATE_BPS, SCREENFUL_1982_NS, SCREENFUL_1982_PACKETS,
};
use anyhow::{Context, Result};
use laboratory::table::Origin;
use records::Measurement;
use records::format::{UNKNOWN, count, count_or_unknown, duration, duration_or_unknown};
use report::html::figure_6_1::figure_6_1;
use report::html::waterfall::Waterfall;
use report::html::{Report, Section};
use report::summary;
use report::summary::{FIRST_TO_LAST, REQUEST_TO_LAST};
use report::table::Table;
use std::path::{Path, PathBuf};

/// Returns the table that compares 1982 with today.
pub(crate) fn comparison_table(laboratory: &Laboratory, measured: &Measurement) -> Table {
    let mut table = Table::new()
        .text("")
        .number("plumbline today")
        .number("1982, measured")
        .number("plumbline, 1982 costs")
        .text("origin");
    let output = || Origin::Output.name().to_owned();
    let echo = measured.echo.as_ref().map(|echo| echo.p50_ns);
    let screenful = measured.screenful.as_ref();
    let first_to_last = screenful.map(|screenful| screenful.first_to_last_ns);
    let first_to_last_name = format!("screenful, {FIRST_TO_LAST}");
    for (name, then, virtual_ns, now) in [
        ("echo of one character", ECHO_1982_NS, laboratory.echo_ns, echo),
        (&first_to_last_name, SCREENFUL_1982_NS, laboratory.screenful_ns, first_to_last),
    ] {
        let times = [duration_or_unknown(now), duration(then), duration(virtual_ns)];
        table.row([name.to_owned()].into_iter().chain(times).chain([output()]));
    }
    let request_to_last = screenful.and_then(|screenful| screenful.request_to_last_ns);
    let packets = screenful.and_then(|screenful| screenful.segments_in);
    table.row([
        format!("screenful, {REQUEST_TO_LAST}"),
        duration_or_unknown(request_to_last),
        UNKNOWN.to_owned(),
        UNKNOWN.to_owned(),
        output(),
    ]);
    table.row([
        "packets of a screenful".to_owned(),
        count_or_unknown(packets),
        count(SCREENFUL_1982_PACKETS),
        count(laboratory.screenful_packets),
        output(),
    ]);
    table
}

/// Returns the note on the origins of the figures in the comparison table.
pub(crate) fn origins(table: &Table) -> String {
    format!(
        "All {0} rows are outputs. The figures for plumbline at the costs of 1982 were computed in \
         virtual time, and those of today were measured. The 1982 column holds constants from \
         TM-233.",
        table.rows().len()
    )
}

/// Definition of a screenful, printed below the comparison table.
pub(crate) const SCREENFUL: &str = "A screenful is timed from its first cell to its last, as in \
                                    1982 (TM-233 §6.2.5). If the screenful arrives in one packet, \
                                    this is only the time to display it. The time from the request \
                                    to the last cell also includes the network in both directions \
                                    and the program that prints the screenful.";

/// Returns the page.
pub(crate) fn render(
    laboratory: &Laboratory,
    measured: &Measurement,
    waterfall: Option<Waterfall>,
    server: &str,
) -> String {
    let Report { sections, .. } = summary::report(measured);
    let mut sections = sections.into_iter();
    let mut page: Vec<Section> = sections.by_ref().take(2).collect();
    page.push(Section::Paragraph(format!(
        "The login used plumbline's own TCP/IP to {server}. For comparison, the same protocol \
         layers ran in virtual time: two personal computers of 1982 on a line of {} bit/s, with the \
         CPU times of table 6-1 of TM-233.",
        count(RATE_BPS)
    )));
    let table = comparison_table(laboratory, measured);
    page.push(Section::Paragraph(origins(&table)));
    page.push(Section::Table { title: "Today and 1982".to_owned(), table });
    page.push(Section::Paragraph(SCREENFUL.to_owned()));
    page.extend(waterfall.map(Section::Waterfall));
    page.extend(sections);
    page.push(Section::Chart(figure_6_1(&laboratory.packets)));
    Report { title: "A login through plumbline".to_owned(), sections: page }.render()
}

/// Writes `page` to the requested file, or else to the current directory, or else to the temporary
/// directory. Returns the path, and `false` if it is in the temporary directory.
///
/// # Errors
///
/// Returns an error if none of these paths is writable.
pub(crate) fn write(page: &str, wanted: Option<&Path>) -> Result<(PathBuf, bool)> {
    if let Some(file) = wanted {
        std::fs::write(file, page)
            .with_context(|| format!("cannot write the report to {}", file.display()))?;
        return Ok((file.to_owned(), true));
    }
    let default_path = std::env::current_dir().unwrap_or_default().join(FILE_NAME);
    if std::fs::write(&default_path, page).is_ok() {
        return Ok((default_path, true));
    }
    let fallback_path = std::env::temp_dir().join(format!("{}-{FILE_NAME}", std::process::id()));
    // `create_new`: an existing file of that name may be a symbolic link of another user.
    let mut file = std::fs::File::create_new(&fallback_path)
        .with_context(|| format!("cannot write the report to {}", fallback_path.display()))?;
    std::io::Write::write_all(&mut file, page.as_bytes())?;
    Ok((fallback_path, false))
}

const FILE_NAME: &str = "plumbline-report.html";

#[cfg(test)]
mod tests {
    use super::*;
    use records::measurement::Screenful;
    use records::{Layer, LayerTime};
    use report::bar_chart::{Charset, Style};

    fn laboratory() -> Laboratory {
        Laboratory {
            echo_ns: 72_200_000,
            screenful_ns: 2_630_000_000,
            screenful_packets: 4,
            packets: Vec::new(),
        }
    }

    fn measured() -> Measurement {
        let layers = vec![LayerTime { layer: Layer::Terminal, ns: 3_000_000 }];
        let screenful = Screenful {
            method: None,
            bytes: 1_968,
            cells: 1_920,
            first_to_last_ns: 9_920,
            request_to_last_ns: Some(3_000_000),
            first_byte_wait_ns: None,
            segments_in: Some(1),
            longest_gap_ns: None,
            layers,
            error: None,
            arrivals: Vec::new(),
        };
        let record = include_str!("../../../records/samples/measurement-1.json");
        Measurement { screenful: Some(screenful), ..Measurement::from_json(record).unwrap() }
    }

    #[test]
    fn the_screenful_has_the_same_values_and_names_as_in_the_measurement() {
        let measured = measured();
        let table = comparison_table(&laboratory(), &measured);
        let rows: Vec<(&str, &str)> =
            table.rows().iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
        let expected = [
            ("screenful, first to last cell", "9.92 µs"),
            ("screenful, request to last cell", "3.00 ms"),
            ("packets of a screenful", "1"),
        ];
        assert_eq!(rows[1..], expected);
        // `plumb measure` names the same time in the same words.
        let screenful = measured.screenful.as_ref().unwrap();
        assert_eq!(summary::extent_of(screenful), "request to last cell");
        let style = Style { width: 100, charset: Charset::Ascii, color: false };
        let report = summary::text(&measured, style);
        assert!(report.contains("request to last cell  first to last cell"), "{report}");
    }

    #[test]
    fn every_row_has_its_origin_and_the_page_counts_the_origins_above_the_table() {
        let table = comparison_table(&laboratory(), &measured());
        assert!(table.rows().iter().all(|row| row[4] == "output"), "{:?}", table.rows());
        let page = render(&laboratory(), &measured(), None, "a server");
        let (before, _) = page.split_once("packets of a screenful").unwrap();
        assert!(before.contains("All 4 rows are outputs"), "{before}");
    }

    #[test]
    fn the_page_defines_the_screenful_below_its_table() {
        let page = render(&laboratory(), &measured(), None, "a server");
        assert!(page.contains("timed from its first cell to its last"), "{page}");
    }
}
