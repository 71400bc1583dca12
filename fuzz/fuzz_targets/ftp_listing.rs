//! Any bytes as a listing, in any dialect: what is read has a name, and a name that may become a
//! file of ours leads nowhere else. Any pattern is held against any name.
#![no_main]

use fuzz::corpus::plant;
use libfuzzer_sys::fuzz_target;
use protocols::application::ftp::listing::{FactSet, ListForm, ListReader, Pattern, parse_facts};
use protocols::application::ftp::{LocalName, Timestamp};

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanos: 0 };

fuzz_target!(init: plant(&seeds()), |input: &[u8]| {
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
            // One line each, whatever is in the name.
            assert!(out.iter().filter(|&&byte| byte == b'\n').count() <= 2);
        }
        _ = Timestamp::parse(line);
    }
    let (pattern, name) = input.split_at(input.len() / 2);
    if let Some(pattern) = Pattern::parse(pattern) {
        _ = pattern.matches(name);
    }
});

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 7] = [
        b"total 1\n-rw-r--r-- 1 ann staff 280 Feb 27 12:00 name\nlrwxrwxrwx 1 a 7 Jan 1 2000 a -> b",
        b"04-27-00  09:09PM  <DIR>  x\n11-18-2003  12:16AM  44,328 x.exe",
        b"+i8388621.48594,m825718503,r,s280,\tdjb.html",
        b"CORE.DIR;1  1  8-SEP-1996 16:09 [SYSTEM] (RWE)\n.DIR;1  1  8-SEP-1996 16:09 [SY]\nA.TXT;1\n 2/3 1-JAN-1996 03:33 [A,B] ()",
        b"Volume Dsname\nWYOSPT 3420   2003/05/21  1  200  FB      80  8053  PS  A.B\n",
        b"QSYS 77824 02/23/00 15:09:55 *FILE X\n 36611 A 04-23-97 10:57 Y\n",
        b"type=file;size=9;modify=20200101000000;unix.mode=0644; x\n*a?[b-d]*x",
    ];
    texts.map(<[u8]>::to_vec).into()
}
