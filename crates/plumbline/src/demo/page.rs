//! The report of the demonstration: one HTML file that needs nothing else.

use super::laboratory::{ECHO_1982_NS, Laboratory, RATE_BPS, SCREENFUL_1982_NS};
use anyhow::{Context, Result};
use records::figures::{count, duration, duration_or_unknown};
use records::html::figure_6_1::figure_6_1;
use records::html::waterfall::Waterfall;
use records::html::{Report, Section};
use records::table::Table;
use records::{Measurement, summary};
use std::path::{Path, PathBuf};

/// Returns the table of then and now.
pub(crate) fn then_and_now(laboratory: &Laboratory, measured: &Measurement) -> Table {
    let mut table = Table::new()
        .text("")
        .number("1982, measured")
        .number("ours at the costs of 1982")
        .number("ours today");
    let echo = measured.echo.as_ref().map(|echo| echo.p50_ns);
    let screenful = measured.screenful.as_ref().map(|screenful| screenful.first_to_last_ns);
    for (name, then, virtual_ns, now) in [
        ("echo of one character", ECHO_1982_NS, laboratory.echo_ns, echo),
        ("screenful", SCREENFUL_1982_NS, laboratory.screenful_ns, screenful),
    ] {
        let times = [duration(then), duration(virtual_ns), duration_or_unknown(now)];
        table.row([name.to_owned()].into_iter().chain(times));
    }
    table
}

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
        "The login went through our own TCP/IP to {server}. Beside it stand two personal computers \
         of 1982 on a line of {} bit/s, in virtual time: the same engines, charged with the costs \
         of table 6-1 of TM-233.",
        count(RATE_BPS)
    )));
    page.push(Section::Table {
        title: "Then and now".to_owned(),
        table: then_and_now(laboratory, measured),
    });
    page.extend(waterfall.map(Section::Waterfall));
    page.extend(sections);
    page.push(Section::Chart(figure_6_1(&laboratory.packets)));
    Report { title: "A login through plumbline".to_owned(), sections: page }.render()
}

/// Writes `page` where it was asked for, or else here, or else in the temporary folder. Returns
/// where it is, and whether that is the place that was wanted.
///
/// # Errors
///
/// If it can be written nowhere.
pub(crate) fn write(page: &str, wanted: Option<&Path>) -> Result<(PathBuf, bool)> {
    if let Some(file) = wanted {
        std::fs::write(file, page)
            .with_context(|| format!("the report cannot be written to {}", file.display()))?;
        return Ok((file.to_owned(), true));
    }
    let here = std::env::current_dir().unwrap_or_default().join(FILE_NAME);
    if std::fs::write(&here, page).is_ok() {
        return Ok((here, true));
    }
    let elsewhere = std::env::temp_dir().join(format!("{}-{FILE_NAME}", std::process::id()));
    // A file of that name that is there already may lead where another user wants it.
    let mut file = std::fs::File::create_new(&elsewhere)
        .with_context(|| format!("the report cannot be written to {}", elsewhere.display()))?;
    std::io::Write::write_all(&mut file, page.as_bytes())?;
    Ok((elsewhere, false))
}

const FILE_NAME: &str = "plumbline-report.html";
