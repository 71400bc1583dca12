//! A series of tries: one line per try, and a line with the recent echoes.

use super::short::painted_grade;
use crate::bar_chart::{Charset, Style};
use crate::table::wrap;
use records::assessment::Grade;
use records::escape;
use records::format::{count, counted, duration};
use records::measures::{Attempt, AttemptOutcome};
use records::statistics;

/// Maximum number of tries in the line of recent echoes.
const RECENT_MAX: usize = 40;

/// Returns the line of a try that ended at `time`.
#[must_use]
pub fn try_line(attempt: &Attempt, time: &str, style: Style) -> String {
    let width = style.width.saturating_sub(time.len() + 2);
    let (text, grade) = try_text(attempt, style, width);
    let first = first_line(&text, width);
    let first = match grade {
        Some(grade) => painted_grade(&first, grade, style),
        None => first,
    };
    format!("{time}  {first}\n")
}

/// Returns the grade of a try and the values that fit into `width` characters, and the grade.
pub(super) fn try_text(attempt: &Attempt, style: Style, width: usize) -> (String, Option<Grade>) {
    let grade = match attempt.outcome {
        AttemptOutcome::Ok => attempt.grade,
        _ => Some(Grade::Failed),
    };
    let mut text = format!("{:<6}", grade.map_or("", Grade::text));
    let values = match (&attempt.error, attempt.outcome) {
        (Some(reason), _) => return (format!("{text}  {}", clean(reason, style)), grade),
        (None, outcome @ AttemptOutcome::NotUsable) => vec![outcome.text().to_owned()],
        (None, _) => {
            let echo = attempt.echo_p50_ns.map(|ns| format!("echo {:>7}", duration(ns)));
            let lost = attempt.retransmissions.map(|lost| format!("lost {}", count(lost)));
            let usable = attempt.response_ns.map(|ns| format!("usable after {}", duration(ns)));
            let login = attempt.login_total_ns.map(|ns| format!("login {}", duration(ns)));
            [echo, login, lost, usable].into_iter().flatten().collect()
        }
    };
    for value in values {
        if text.chars().count() + 2 + value.chars().count() > width {
            break;
        }
        text += &format!("  {value}");
    }
    (clean(&text, style), grade)
}

fn clean(text: &str, style: Style) -> String {
    escape::terminal(style.in_charset(text))
}

/// Returns the first line of `text` wrapped to `width` characters, with its leading spaces.
pub(super) fn first_line(text: &str, width: usize) -> String {
    let rest = text.trim_start();
    let indent = text.len() - rest.len();
    let first = wrap(rest.trim_end(), width.saturating_sub(indent)).into_iter().next();
    format!("{}{}", " ".repeat(indent.min(width)), first.unwrap_or_default())
}

/// Returns the time of a try that a user notices, ns.
pub(super) fn felt_ns(one: &Attempt) -> Option<u64> {
    one.echo_p50_ns.or(one.response_ns)
}

/// Returns one line without a line end: the number of tries, the median, and the recent echoes as
/// bars scaled to the longest one.
#[must_use]
pub(super) fn recent_line(tries: &[Attempt], style: Style) -> String {
    let failed = tries.iter().filter(|one| one.outcome != AttemptOutcome::Ok).count();
    let known: Vec<u64> = tries.iter().filter_map(felt_ns).collect();
    let median = statistics::median(&known).map_or_else(String::new, |ns| {
        let name =
            if tries.iter().any(|one| one.echo_p50_ns.is_some()) { "echo" } else { "usable" };
        format!(", {name} {}", duration(ns))
    });
    let count = u64::try_from(tries.len()).unwrap_or(u64::MAX);
    let count = counted(count, "try", "tries");
    let text = style.in_charset(&format!("{count}, {failed} failed{median}"));
    let free = style.columns().saturating_sub(text.chars().count() + 2);
    let recent = tries.get(tries.len().saturating_sub(free.min(RECENT_MAX))..).unwrap_or(tries);
    let longest = recent.iter().filter_map(felt_ns).max().unwrap_or(0).max(1);
    let marks: String =
        recent.iter().map(|one| mark(felt_ns(one), longest, style.charset)).collect();
    format!("{text}  {marks}").trim_end().to_owned()
}

fn mark(ns: Option<u64>, longest: u64, charset: Charset) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const ASCII: [char; 8] = ['_', '_', '.', '.', '-', '-', '=', '#'];
    let Some(ns) = ns else { return 'x' };
    let step = u128::from(ns) * 7 / u128::from(longest);
    let step = usize::try_from(step).unwrap_or(7).min(7);
    let marks = if charset == Charset::Unicode { BLOCKS } else { ASCII };
    marks.get(step).copied().unwrap_or('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(echo_ns: u64) -> Attempt {
        Attempt {
            echo_p50_ns: Some(echo_ns),
            retransmissions: Some(2),
            response_ns: Some(35_100_000),
            grade: Some(Grade::Ok),
            ..Attempt::new(0, AttemptOutcome::Ok)
        }
    }

    fn failed() -> Attempt {
        let error = Some("192.0.2.1:23 refuses the connection: check the port".to_owned());
        Attempt { error, ..Attempt::new(0, AttemptOutcome::NoConnection) }
    }

    #[test]
    fn a_try_is_one_line_at_each_width() {
        for width in [40, 80, 120] {
            let style = Style { width, ..Style::default() };
            for attempt in [good(1_210_000), failed()] {
                let line = try_line(&attempt, "14:03:22", style);
                assert_eq!(line.lines().count(), 1);
                assert!(line.trim_end().chars().count() <= width, "{line}");
            }
        }
        let line = try_line(&good(1_210_000), "14:03:22", Style::default());
        assert_eq!(line, "14:03:22  OK      echo 1.21 ms  lost 2  usable after 35.1 ms\n");
        assert!(try_line(&failed(), "14:03:32", Style::default()).contains("FAILED  192.0.2.1:23"));
    }

    #[test]
    fn a_try_has_its_own_grade_or_none() {
        let line = |grade| {
            let attempt = Attempt { grade, ..good(1_210_000) };
            try_line(&attempt, "14:03:22", Style::default())
        };
        assert!(line(Some(Grade::Slow)).starts_with("14:03:22  SLOW    echo 1.21 ms"));
        // The first measurement was slow in an operation that this try did not measure.
        assert!(line(None).starts_with("14:03:22          echo 1.21 ms"), "{}", line(None));
    }

    #[test]
    fn the_reason_of_a_failed_try_is_complete_in_a_pipe() {
        let reason =
            "192.0.2.1:24 refuses the connection: check the port, and that a server listens";
        let attempt = Attempt { error: Some(reason.to_owned()), ..failed() };
        let style = Style { width: usize::MAX, ..Style::default() };
        let line = try_line(&attempt, "14:03:22", style);
        assert_eq!(line, format!("14:03:22  FAILED  {reason}\n"));
    }

    #[test]
    fn recent_echoes_are_scaled_to_the_longest() {
        let tries = [good(1_000), failed(), good(8_000), good(4_000)];
        let line = recent_line(&tries, Style::default());
        assert_eq!(line, "4 tries, 1 failed, echo 4.00 µs  ▁x█▄");
    }
}
