//! A comparison of programs: as text for a terminal, with a column for each program, and as a page,
//! with a bar for each program.

use crate::bar_chart::Style;
use crate::html::program_bars::{BarGroup, ProgramBars};
use crate::html::{Report, Section};
use crate::summary::painted_grade;
use crate::table::{Table, wrap};
use records::assessment::Grade;
use records::comparison::{self, ComparedProgram};
use records::escape;
use records::format::duration_or_unknown;

/// Returns a figure of a program, ns.
type Figure = fn(&ComparedProgram) -> Option<u64>;

/// Returns the figures of the programs side by side, and the failures, which come first.
#[must_use]
pub fn text(programs: &[ComparedProgram], style: Style) -> String {
    let width = style.columns();
    let mut out = String::new();
    if let Some((grade, sentence)) = comparison::verdict(programs, |one| label(&one.program)) {
        let line = format!("{}: {sentence}", grade.text());
        for line in wrap(&escape::terminal(style.in_charset(&line)), width) {
            out += &format!("{}\n", painted_grade(&line, grade, style));
        }
    }
    for program in programs {
        let Some(reason) = &program.failure else { continue };
        let line = format!("{}: {}: {reason}", Grade::Failed.text(), label(&program.program));
        for line in wrap(&escape::terminal(style.in_charset(&line)), width) {
            out += &format!("{}\n", painted_grade(&line, Grade::Failed, style));
        }
    }
    let (labels, legend) = labels(programs, width);
    out += &legend.iter().map(|line| format!("{}\n", style.in_charset(line))).collect::<String>();
    let mut table = labels.iter().fold(Table::new().text(""), |table, label| table.number(label));
    let rows: [(&str, Figure); 7] = [
        ("echo, p50", |program| program.echo_p50_ns),
        ("echo, p95", |program| program.echo_p95_ns),
        ("echo, p99", |program| program.echo_p99_ns),
        ("paced keys", |program| program.paced_echo_ns),
        ("with output", |program| program.echo_during_output_ns),
        ("screenful", |program| program.screenful_ns),
        ("prompt", |program| program.prompt_ns),
    ];
    for (name, get) in rows {
        // A figure that no program has is omitted.
        if programs.iter().any(|program| get(program).is_some()) {
            let values = programs.iter().map(|program| duration_or_unknown(get(program)));
            table.row(std::iter::once(name.to_owned()).chain(values));
        }
    }
    out += &style.in_charset(&table.render(width));
    for line in prediction_note(programs).iter().flat_map(|note| wrap(note, width)) {
        out += &format!("{line}\n");
    }
    out
}

/// Returns the comparison as a page; the caller may add sections.
#[must_use]
pub fn report(programs: &[ComparedProgram]) -> Report {
    let verdict = comparison::verdict(programs, |one| label(&one.program));
    let lead = verdict.map(|(grade, sentence)| format!("{}: {sentence}", grade.text()));
    let failures = programs.iter().filter_map(|program| {
        let reason = program.failure.as_ref()?;
        Some(format!("{}: {}: {reason}", Grade::Failed.text(), label(&program.program)))
    });
    let mut sections: Vec<Section> = lead.into_iter().map(Section::Lead).collect();
    sections.extend(failures.map(Section::Paragraph));
    let groups: [(&str, Figure, Option<u64>); 6] = [
        ("echo, median", |program| program.echo_p50_ns, Some(comparison::NOTICED_ECHO_NS)),
        ("echo, 95th percentile", |program| program.echo_p95_ns, Some(comparison::NOTICED_ECHO_NS)),
        (
            "echo of steady typing",
            |program| program.paced_echo_ns,
            Some(comparison::NOTICED_ECHO_NS),
        ),
        ("echo during other output", |program| program.echo_during_output_ns, None),
        ("screenful", |program| program.screenful_ns, None),
        (
            "from the start to the shell's prompt",
            |program| program.prompt_ns,
            Some(comparison::NOTICED_PROMPT_NS),
        ),
    ];
    let groups = groups.map(|(title, get, noticed_ns)| BarGroup {
        title: title.to_owned(),
        values_ns: programs.iter().map(get).collect(),
        noticed_ns,
    });
    let names = programs.iter().map(|program| program.program.clone()).collect();
    let groups = groups.into_iter().filter(|group| group.values_ns.iter().any(Option::is_some));
    let bars =
        ProgramBars { title: "Programs side by side".to_owned(), names, groups: groups.collect() };
    if !bars.groups.is_empty() {
        sections.push(Section::Programs(bars));
    }
    sections.extend(prediction_note(programs).map(Section::Paragraph));
    Report { title: "Comparison of programs".to_owned(), sections }
}

/// Returns a note about programs that display predicted echoes.
fn prediction_note(programs: &[ComparedProgram]) -> Option<String> {
    let is_predicting = |one: &&ComparedProgram| one.predicts_echoes;
    let mut names: Vec<&str> =
        programs.iter().filter(is_predicting).map(|one| file_name(&one.program)).collect();
    names.sort_unstable();
    names.dedup();
    let verb = if names.len() == 1 { "displays" } else { "display" };
    (!names.is_empty()).then(|| {
        format!(
            "{} {verb} predicted echoes: their time is not that of the host. Use --predict never \
             to compare the hosts.",
            names.join(" and ")
        )
    })
}

/// Maximum length of a header.
const LABEL_MAX: usize = 20;
/// Width of the names of the figures, with the gap behind them.
const NAMES_WIDTH: usize = 13;

/// Returns the headers of the columns, and the lines that explain them. If the programs are too long
/// for headers, the headers are numbers.
fn labels(programs: &[ComparedProgram], width: usize) -> (Vec<String>, Vec<String>) {
    let labels: Vec<String> = programs.iter().map(|program| label(&program.program)).collect();
    let is_unique = |label: &String| labels.iter().filter(|other| *other == label).count() == 1;
    let total: usize = labels.iter().map(|label| label.chars().count() + 2).sum();
    let is_short = |label: &String| label.chars().count() <= LABEL_MAX;
    if labels.iter().all(|label| is_short(label) && is_unique(label))
        && total + NAMES_WIDTH <= width
    {
        return (labels, Vec::new());
    }
    let numbers = (1..=programs.len()).map(|number| number.to_string()).collect();
    let lines = programs.iter().zip(1..).flat_map(|(program, number)| {
        let text = escape::terminal(&program.program);
        let lines = wrap(&text, width.saturating_sub(4));
        let with_number = lines.into_iter().enumerate().map(move |(at, line)| match at {
            0 => format!("{number:>2}  {line}"),
            _ => format!("    {line}"),
        });
        with_number.collect::<Vec<_>>()
    });
    (numbers, lines.collect())
}

/// Returns the file name of a program with its arguments.
fn label(program: &str) -> String {
    let (_, arguments) = program.split_once(' ').unwrap_or((program, ""));
    format!("{} {arguments}", file_name(program)).trim_end().to_owned()
}

/// Returns the file name of the program in a command.
fn file_name(program: &str) -> &str {
    let path = program.split(' ').next().unwrap_or(program);
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, ns: u64) -> ComparedProgram {
        let unmeasured = ComparedProgram::of(name.to_owned(), Vec::new(), None);
        ComparedProgram {
            echo_p50_ns: Some(ns),
            echo_p95_ns: Some(ns * 3 / 2),
            echo_p99_ns: Some(ns * 2),
            screenful_ns: Some(ns * 3),
            ..unmeasured
        }
    }

    #[test]
    fn three_programs_are_side_by_side_at_40_columns() {
        let programs = [
            program("ssh host", 1_210_000),
            program("mosh host", 340_000),
            program("plumb login host", 290_000),
        ];
        let style = Style { width: 40, ..Style::default() };
        insta::assert_snapshot!(text(&programs, style), @r"
        OK: the echoes differ by 920 µs, which
        users do not notice: at most 1.21 ms
        (some echoes are predicted)
         1  ssh host
         2  mosh host
         3  plumb login host
                         1        2       3
        ---------  -------  -------  ------
        echo, p50  1.21 ms   340 µs  290 µs
        echo, p95  1.82 ms   510 µs  435 µs
        echo, p99  2.42 ms   680 µs  580 µs
        screenful  3.63 ms  1.02 ms  870 µs
        mosh and plumb display predicted echoes:
        their time is not that of the host. Use
        --predict never to compare the hosts.
        ");
    }

    #[test]
    fn short_programs_are_headers_at_80_columns() {
        let programs = [program("ssh host", 1_210_000), program("ssh other", 340_000)];
        let text = text(&programs, Style::default());
        assert!(text.contains("ssh host  ssh other\n"), "{text}");
        assert!(!text.contains("predicted"), "{text}");
    }

    #[test]
    fn long_or_equal_programs_are_numbered_and_complete() {
        let ssh = "/usr/bin/ssh -F none -p 2222 -o User=me host";
        let programs = [ssh, "ssh host"].map(|text| program(text, 1));
        let (headers, lines) = labels(&programs, 80);
        assert_eq!(headers, ["1", "2"]);
        assert_eq!(lines, [format!(" 1  {ssh}"), " 2  ssh host".to_owned()]);
        let equal = ["ssh host", "ssh host"].map(|text| program(text, 1));
        assert_eq!(labels(&equal, 80).0, ["1", "2"]);
    }

    #[test]
    fn a_page_begins_with_the_verdict_and_has_the_failures_and_the_bars() {
        let failed = ComparedProgram::of("ssh x".to_owned(), Vec::new(), Some("no".to_owned()));
        let page = report(&[program("ssh y", 1_000), program("ssh z", 90_000_000), failed]);
        let expected =
            "FAILED: an echo takes 90.0 ms with ssh z, 90.0 ms more than with ssh y (1.00 µs)";
        assert_eq!(page.sections[0], Section::Lead(expected.to_owned()));
        assert_eq!(page.sections[1], Section::Paragraph("FAILED: ssh x: no".to_owned()));
        let Section::Programs(bars) = &page.sections[2] else { panic!("{page:?}") };
        let titles: Vec<_> = bars.groups.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(titles, ["echo, median", "echo, 95th percentile", "screenful"]);
    }

    #[test]
    fn a_failure_precedes_the_figures() {
        let failed = ComparedProgram::of("ssh x".to_owned(), Vec::new(), Some("no".to_owned()));
        let text = text(&[failed, program("ssh y", 1_000)], Style::default());
        assert!(text.starts_with("FAILED: ssh x: no\n"), "{text}");
        assert!(text.contains("echo, p50      -  1.00 µs\n"), "{text}");
    }
}
