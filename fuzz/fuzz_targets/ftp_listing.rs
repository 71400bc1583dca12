//! Input: arbitrary bytes as a listing in any dialect. Checked: each parsed entry has a name, and a
//! name accepted for a local file cannot leave the directory. However the listing is split, the
//! collector returns the same entries within its limits. Any pattern is matched against any name.
#![no_main]

use fuzz::corpus::write_seeds;
use libfuzzer_sys::fuzz_target;
use protocols::ftp::listing::{
    Collector, Dialect, Entry, FactSet, LINE_MAX_BYTES, ListForm, ListReader, Pattern,
    UnknownLines, parse_facts,
};
use protocols::ftp::{LocalName, Timestamp};

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 0 };

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut reader = ListReader::new(NOW);
    for line in input.split(|&byte| byte == b'\n') {
        for entry in [reader.line(line), parse_facts(line)].into_iter().flatten() {
            assert!(!entry.name.is_empty());
            if let Ok(name) = LocalName::new(&entry.name) {
                assert!(!name.as_bytes().contains(&b'/') && name.as_bytes() != b"..");
            }
            let mut out = Vec::new();
            ListForm::Unix.write(&entry, NOW, &mut out);
            ListForm::Facts(FactSet::ALL).write(&entry, NOW, &mut out);
            // Each format writes one line per entry, whatever the name contains.
            assert!(out.iter().filter(|&&byte| byte == b'\n').count() <= 2);
        }
        _ = Timestamp::parse(line);
    }
    for dialect in [Dialect::Facts, Dialect::Long, Dialect::Names] {
        let cut = usize::from(input.first().copied().unwrap_or(0)) + 1;
        assert_eq!(collect_entries(dialect, input, cut), collect_entries(dialect, input, input.len().max(1)));
    }
    let (pattern, name) = input.split_at(input.len() / 2);
    if let Some(pattern) = Pattern::parse(pattern) {
        _ = pattern.matches(name);
    }
});

/// Collects a listing that arrives in pieces, up to the first error.
fn collect_entries(
    dialect: Dialect,
    input: &[u8],
    cut: usize,
) -> (Vec<Entry>, Option<UnknownLines>) {
    let mut collector = Collector::new(dialect, NOW, 100);
    let is_whole =
        input.chunks(cut).all(|piece| collector.push(piece).is_ok()) && collector.finish().is_ok();
    assert!(collector.entries() <= 100 && collector.held_bytes() <= LINE_MAX_BYTES);
    let (entries, unread) = collector.into_entries();
    for entry in &entries {
        assert!(!entry.name.contains(&b'/') && entry.name != b"." && entry.name != b"..");
    }
    (entries, is_whole.then_some(unread))
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 9] = [
        b"total 1\n-rw-r--r-- 1 ann staff 280 Feb 27 12:00 name\nlrwxrwxrwx 1 a 7 Jan 1 2000 a -> b",
        b"04-27-00  09:09PM  <DIR>  x\n11-18-2003  12:16AM  44,328 x.exe",
        b"+i8388621.48594,m825718503,r,s280,\tdjb.html",
        b"CORE.DIR;1  1  8-SEP-1996 16:09 [SYSTEM] (RWE)\n.DIR;1  1  8-SEP-1996 16:09 [SY]\nA.TXT;1\n 2/3 1-JAN-1996 03:33 [A,B] ()",
        b"Volume Dsname\nWYOSPT 3420   2003/05/21  1  200  FB      80  8053  PS  A.B\n",
        b"QSYS 77824 02/23/00 15:09:55 *FILE X\n 36611 A 04-23-97 10:57 Y\n",
        "-rw-r--r-- 1 a b 1 f\u{e9}vr. 24 2020 x\n-rw-r--r-- 1 a b 1 12\u{6708} 31 2014 y\n\
          -rw-r--r-- 1 a b 1 2012-06-06 14:31:05.123456789 +0200 z\n"
            .as_bytes(),
        b"512 JAN-01-2003 00:00:10 D <DIR>\nA.B.3;P777700 2 25(7) 24-Feb-1988 12:34:56 S\n\
          A/B DATA 48 02/23/2000 15:09:55\nQ *MEM A/B\n11-29-23 09:07PM <SYMLINKD> l [C:\\x]\n",
        b"type=file;size=9;modify=20200101000000;unix.mode=0644; x\n*a?[b-d]*x",
    ];
    texts.map(<[u8]>::to_vec).into()
}
