//! Input: arbitrary bytes typed into a line. Checked: canonicalization is idempotent, and the line
//! discipline reads the same text from the typed and the canonical form.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use protocols::terminal::line_discipline::{Conventions, LineDiscipline, canonical};

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    // Beyond the maximum line length, the typed form loses bytes that the shorter canonical form
    // still contains.
    let Some(typed) = input.get(..input.len().min(1000)) else { return };
    let typed: Vec<u8> = typed.iter().copied().filter(|byte| *byte != b'\n').collect();
    let line = canonical(&typed, Conventions::default().tab_distance);
    assert_eq!(canonical(&line, Conventions::default().tab_distance), line);
    assert_eq!(read(&typed), read(&line));
});

fn read(typed: &[u8]) -> Option<Vec<u8>> {
    let mut bench = Bench::default();
    let mut discipline = LineDiscipline::default();
    discipline.receive(typed, &mut bench.cx());
    discipline.receive(b"\n", &mut bench.cx());
    discipline.event()
}

fn seeds() -> Vec<Vec<u8>> {
    let lines: [&[u8]; 4] =
        [b"helo#lo", b"word\r____", b"logn@login \\#\\101\\\\", b"\ta\x08b  \t#x"];
    lines.into_iter().map(<[u8]>::to_vec).collect()
}
