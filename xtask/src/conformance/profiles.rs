//! The scores with each set of TCP policies, and the changes that the adapter makes for the tuned
//! policies.
//!
//! The list of expected results is for policies tuned to each suite, with an adapter that changes
//! segments to the format of the system for which a script was written. plumb's programs do not use
//! these policies. So the same scripts run again with the policies of the programs and without the
//! adapter: once with a strict comparison, and once without comparing windows and the options of
//! SYNs, which RFC 9293 leaves to each system.

use super::expected::{Comparison, Policies, Suite};
use super::play::{PlayOptions, Player};
use super::scripts::{Script, play_all};
use anyhow::Result;
use std::io::Write;

/// Changes that the adapter makes and features that it omits, each with the affected scripts.
const ADAPTER: [(&str, &str); 6] = [
    ("options of SYNs", "in FreeBSD's order: tcp-testsuite, tuned only"),
    ("PSH", "also on the end of each two new segments: packetdrill, tuned only"),
    ("SO_SNDBUF, SO_RCVBUF", "computed like each system with its sysctls: tuned only"),
    ("TCP_USER_TIMEOUT", "supported; counts from the first retransmission timeout"),
    ("MSG_PEEK", "returns all readable data"),
    ("tcpi_reordering", "largest reordering extent in segments, at least 3"),
];

/// Plays the listed `scripts` with all policies, and prints the scores.
pub(super) fn report(player: &Player, scripts: &[Script]) -> Result<()> {
    let listed: Vec<Script> =
        scripts.iter().filter(|script| script.expectation.is_some()).cloned().collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nadaptations between our TCP and the scripts:")?;
    for (subject, change) in ADAPTER {
        writeln!(out, "  {subject:<21} {change}")?;
    }
    writeln!(out, "\nlisted scripts that pass, by TCP policies:")?;
    writeln!(
        out,
        "  policies  {:>13}  {:>13}  {:>13}",
        "packetdrill", "tcp-testsuite", "...relaxed"
    )?;
    for policies in Policies::ALL {
        let strict =
            play_all(player, &listed, PlayOptions { policies, comparison: Comparison::Strict }, 1);
        let freebsd: Vec<Script> =
            listed.iter().filter(|script| script.suite == Suite::TcpTestsuite).cloned().collect();
        let options = PlayOptions { policies, comparison: Comparison::Relaxed };
        let relaxed = play_all(player, &freebsd, options, 1);
        let passed = |suite: Suite| {
            let of_suite = listed.iter().zip(&strict).filter(|(script, _)| script.suite == suite);
            of_suite.filter(|(_, outcomes)| outcomes.iter().all(|one| one.has_passed())).count()
        };
        let total = |suite: Suite| listed.iter().filter(|script| script.suite == suite).count();
        let relaxed = relaxed.iter().flatten().filter(|one| one.has_passed()).count();
        let score = |passed: usize, suite: Suite| format!("{passed} of {}", total(suite));
        writeln!(
            out,
            "  {:<8}  {:>13}  {:>13}  {:>13}",
            policies.name(),
            score(passed(Suite::Packetdrill), Suite::Packetdrill),
            score(passed(Suite::TcpTestsuite), Suite::TcpTestsuite),
            score(relaxed, Suite::TcpTestsuite),
        )?;
    }
    writeln!(out, "relaxed: neither options of SYNs nor windows are compared")?;
    Ok(())
}
