//! The scores with each set of policies, and the changes that the adapter makes for the tuned one.
//!
//! The list of expected results is for policies tuned to each suite, behind a device that adapts
//! segments to the system for which a script was written. No user has those. So the same scripts
//! run again with the policies that users get and without adaptation: strictly, and without
//! comparing the options of SYNs and windows, whose layout and size RFC 9293 leaves open.

use super::expected::{Comparison, Policies, Suite};
use super::play::{How, Player};
use super::{Script, play_all};
use anyhow::Result;
use std::io::Write;

/// Changes and omissions of the adapter, each with the affected scripts.
const ADAPTER: [(&str, &str); 6] = [
    ("options of SYNs", "laid out in FreeBSD's order: tcp-testsuite, tuned only"),
    ("PSH", "also on the end of each two new segments: packetdrill, tuned only"),
    ("SO_SNDBUF, SO_RCVBUF", "by the rules and sysctls of each system: tuned only"),
    ("TCP_USER_TIMEOUT", "honored; counts from the first timeout on, not from the first sending"),
    ("MSG_PEEK", "sees all that can be read"),
    ("tcpi_reordering", "bytes of the largest extent seen, in segments, 3 at least"),
];

/// Plays the listed `scripts` with all policies, and prints the scores.
pub(super) fn report(player: &Player, scripts: &[Script]) -> Result<()> {
    let listed: Vec<Script> =
        scripts.iter().filter(|script| script.expectation.is_some()).cloned().collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nwhat the adapter does between our TCP and the scripts:")?;
    for (what, how) in ADAPTER {
        writeln!(out, "  {what:<21} {how}")?;
    }
    writeln!(out, "\nscripts of the list that pass, by the policies of the connections:")?;
    writeln!(
        out,
        "  policies  {:>13}  {:>13}  {:>13}",
        "packetdrill", "tcp-testsuite", "...relaxed"
    )?;
    for policies in Policies::ALL {
        let strict = play_all(player, &listed, How { policies, comparison: Comparison::Strict }, 1);
        let freebsd: Vec<Script> =
            listed.iter().filter(|script| script.suite == Suite::TcpTestsuite).cloned().collect();
        let how = How { policies, comparison: Comparison::Relaxed };
        let relaxed = play_all(player, &freebsd, how, 1);
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
