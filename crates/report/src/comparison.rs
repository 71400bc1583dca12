//! A comparison of programs as text for a terminal: a column for each program.

use crate::bar_chart::Style;
use crate::summary::painted_grade;
use crate::table::{Table, wrap};
use records::assessment::Grade;
use records::comparison::ComparedProgram;
use records::escape;
use records::format::duration_or_unknown;

/// Returns a figure of a program, ns.
type Figure = fn(&ComparedProgram) -> Option<u64>;

/// Returns the figures of the programs side by side, and the failures, which come first.
#[must_use]
pub fn text(programs: &[ComparedProgram], style: Style) -> String {
    let width = style.columns();
    let mut out = String::new();
    for program in programs {
        let Some(reason) = &program.failure else { continue };
        let line = format!("{}: {}: {reason}", Grade::Failed.text(), label(&program.program));
        for line in wrap(&escape::terminal(style.in_charset(&line)), width) {
            out += &format!("{}\n", painted_grade(&line, Grade::Failed, style));
        }
    }
    let labels = labels(programs);
    let mut table = labels.iter().fold(Table::new().text(""), |table, label| table.number(label));
    let rows: [(&str, Figure); 6] = [
        ("echo, p50", |program| program.echo_p50_ns),
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
    out + &style.in_charset(&table.render(width))
}

/// Maximum length of a program whose arguments are all in its label.
const LABEL_MAX: usize = 20;

/// Returns the headers of the columns. Equal labels are numbered.
fn labels(programs: &[ComparedProgram]) -> Vec<String> {
    let labels: Vec<String> = programs.iter().map(|program| label(&program.program)).collect();
    let numbered = labels.iter().enumerate().map(|(at, label)| {
        let is_unique = labels.iter().filter(|other| *other == label).count() == 1;
        if is_unique { label.clone() } else { format!("{} {label}", at + 1) }
    });
    numbered.collect()
}

/// Returns the file name of a program with its arguments, or with only the last one.
fn label(program: &str) -> String {
    let (path, arguments) = program.split_once(' ').unwrap_or((program, ""));
    let name = path.rsplit('/').next().unwrap_or(path);
    let text = format!("{name} {arguments}");
    match arguments.rsplit(' ').next() {
        Some(last) if text.chars().count() > LABEL_MAX => format!("{name} ... {last}"),
        _ => text.trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, ns: u64) -> ComparedProgram {
        let unmeasured = ComparedProgram::of(name.to_owned(), Vec::new(), None);
        ComparedProgram {
            echo_p50_ns: Some(ns),
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
                   ssh host  mosh host   plumb
                                         login
                                          host
        ---------  --------  ---------  ------
        echo, p50   1.21 ms     340 µs  290 µs
        echo, p99   2.42 ms     680 µs  580 µs
        screenful   3.63 ms    1.02 ms  870 µs
        ");
    }

    #[test]
    fn a_long_command_is_named_by_its_program_and_its_last_argument() {
        let ssh = "/usr/bin/ssh -F none -p 2222 -o User=me host";
        let programs = [ssh, "mosh host", "ssh -o StrictHostKeyChecking=no host"];
        let labels = labels(&programs.map(|text| program(text, 1)));
        assert_eq!(labels, ["1 ssh ... host", "mosh host", "3 ssh ... host"]);
    }

    #[test]
    fn a_failure_precedes_the_figures() {
        let failed = ComparedProgram::of("ssh x".to_owned(), Vec::new(), Some("no".to_owned()));
        let text = text(&[failed, program("ssh y", 1_000)], Style::default());
        assert!(text.starts_with("FAILED: ssh x: no\n"), "{text}");
        assert!(text.contains("echo, p50      -  1.00 µs\n"), "{text}");
    }
}
