//! Tests of the journal with files on a real disk.

use super::*;
use crate::transfer::Identifier;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that is removed when the test ends.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-journal-{}-{next}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn transfer(name: u128) -> Transfer {
    Transfer::new(Identifier(name))
}

/// Returns the identifiers of the records in the journal, in order, and the number of other lines.
fn names(directory: &Path) -> (Vec<u128>, usize) {
    let mut names = Vec::new();
    let mut other_lines = 0;
    for segment in segments(directory).unwrap() {
        read_lines(&mut File::open(segment.path).unwrap(), 0, |line, _| {
            match Transfer::from_line(str::from_utf8(line).unwrap_or_default()) {
                Ok(read) => names.push(read.record_id.0),
                Err(_) => other_lines += 1,
            }
            Ok::<_, io::Error>(())
        })
        .unwrap();
    }
    (names, other_lines)
}

#[test]
fn records_are_in_the_file_after_a_flush() {
    let directory = TestDirectory::new();
    let mut journal = Journal::open(&directory.0, Settings::default()).unwrap();
    journal.append(&transfer(1));
    assert_eq!(names(&directory.0).0, []);
    journal.flush();
    assert_eq!(names(&directory.0).0, [1]);
    journal.append(&transfer(2));
    drop(journal);
    assert_eq!(names(&directory.0).0, [1, 2]);
}

#[test]
fn a_journal_truncated_at_any_byte_loses_at_most_its_last_line() {
    let directory = TestDirectory::new();
    let mut journal = Journal::open(&directory.0, Settings::default()).unwrap();
    (1..=3).for_each(|name| journal.append(&transfer(name)));
    journal.sync();
    drop(journal);
    let path = segments(&directory.0).unwrap()[0].path.clone();
    let whole = std::fs::read(&path).unwrap();
    let line = whole.len() / 3;
    for cut in 0..=whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let mut journal = Journal::open(&directory.0, Settings::default()).unwrap();
        journal.append(&transfer(9));
        drop(journal);
        let whole_lines = u128::try_from(cut / line).unwrap();
        // If only the newline is missing, the record is complete.
        let is_whole = cut % line == line - 1;
        let last = whole_lines + u128::from(is_whole);
        let expected: Vec<u128> = (1..=last).chain([9]).collect();
        assert_eq!(names(&directory.0).0, expected, "cut at {cut}");
    }
}

#[test]
fn a_full_segment_is_followed_by_the_next_and_the_oldest_are_removed() {
    let directory = TestDirectory::new();
    let settings = Settings { segment_bytes: 300, segments_max: 3 };
    let mut journal = Journal::open(&directory.0, settings).unwrap();
    for name in 1..=30 {
        journal.append(&transfer(name));
        journal.flush();
    }
    let kept_segments = segments(&directory.0).unwrap();
    assert_eq!(kept_segments.len(), 3);
    assert_eq!(journal.counts().segments_removed + 3, journal.counts().segments_begun + 1);
    let (names, _) = names(&directory.0);
    assert_eq!(names.last(), Some(&30));
    assert!(names.is_sorted_by(|one, next| next - one == 1));
}

#[test]
fn a_process_that_was_idle_appends_to_the_newest_segment() {
    let directory = TestDirectory::new();
    let settings = Settings { segment_bytes: 300, segments_max: 2 };
    let mut idle_journal = Journal::open(&directory.0, settings).unwrap();
    let mut busy_journal = Journal::open(&directory.0, settings).unwrap();
    for name in 1..=30 {
        busy_journal.append(&transfer(name));
        busy_journal.flush();
    }
    let oldest = segments(&directory.0).unwrap()[0].number;
    idle_journal.append(&transfer(99));
    idle_journal.flush();
    assert_eq!((oldest, names(&directory.0).0.last()), (1, Some(&99)));
}

#[test]
fn concurrent_processes_append_to_the_same_newest_segment() {
    let directory = TestDirectory::new();
    let settings = Settings { segment_bytes: 400, segments_max: 100 };
    let mut journals = [(); 2].map(|()| Journal::open(&directory.0, settings).unwrap());
    for name in 1..=40_u128 {
        let journal = &mut journals[usize::try_from(name % 2).unwrap()];
        journal.append(&transfer(name));
        journal.flush();
    }
    let (mut names, other_lines) = names(&directory.0);
    names.sort_unstable();
    assert_eq!((names, other_lines), ((1..=40).collect(), 0));
}

#[test]
fn lines_of_concurrent_threads_do_not_interleave() {
    let directory = TestDirectory::new();
    let settings = Settings { segment_bytes: 20_000, segments_max: 100 };
    let path = &directory.0;
    std::thread::scope(|scope| {
        for thread in 0..4_u128 {
            scope.spawn(move || {
                let mut journal = Journal::open(path, settings).unwrap();
                for name in 1..=500_u128 {
                    journal.append(&transfer(thread * 1_000 + name));
                    journal.flush();
                }
            });
        }
    });
    let (mut ids, other_lines) = names(path);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), other_lines), (2_000, 0));
}

#[test]
fn a_full_disk_is_reported_once_and_counted() {
    let directory = TestDirectory::new();
    drop(Journal::open(&directory.0, Settings::default()).unwrap());
    let path = segments(&directory.0).unwrap()[0].path.clone();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut journal = Journal::open(&directory.0, Settings::default()).unwrap();
    let mut failures = 0;
    for name in 1..=10_000 {
        journal.append(&transfer(name));
        journal.flush();
        if let Some(Event::Failing(error)) = journal.event() {
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            failures += 1;
        }
    }
    assert_eq!(failures, 1);
    assert!(journal.counts().lost > 0 && journal.counts().lost < 10_000);
}

#[test]
fn an_empty_line_is_skipped() {
    let directory = TestDirectory::new();
    std::fs::create_dir(&directory.0).unwrap();
    let text = format!("\n{}\n\n{}\n", transfer(3).to_line(), transfer(4).to_line());
    std::fs::write(directory.0.join("00000001.jsonl"), text).unwrap();
    assert_eq!(names(&directory.0), (vec![3, 4], 0));
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let directory = TestDirectory::new();
    std::fs::create_dir(&directory.0).unwrap();
    let path = directory.0.join("00000001.jsonl");
    let mut text = "x".repeat(600_000);
    text.push('\n');
    text.push_str(&transfer(3).to_line());
    std::fs::write(&path, &text).unwrap();
    let mut lines = 0;
    let read = read_lines(&mut File::open(&path).unwrap(), 0, |_, _| {
        lines += 1;
        Ok::<_, io::Error>(())
    });
    let end = u64::try_from(text.len()).unwrap();
    assert_eq!((read.unwrap(), lines), (LinesRead { end, too_long: 1 }, 1));
}

#[test]
fn a_batch_of_32_kib_is_written_without_a_flush() {
    let directory = TestDirectory::new();
    let mut journal = Journal::open(&directory.0, Settings::default()).unwrap();
    let line = transfer(1).to_line().len();
    let needed = (32_usize << 10).div_ceil(line);
    for name in 1..needed {
        journal.append(&transfer(name as u128));
    }
    assert_eq!(names(&directory.0).0.len(), 0);
    journal.append(&transfer(needed as u128));
    assert_eq!(names(&directory.0).0.len(), needed);
    assert_eq!(journal.counts().appended, needed as u64);
}

#[test]
fn a_segment_is_followed_by_the_next_once_it_has_its_full_length() {
    let directory = TestDirectory::new();
    let line = transfer(1).to_line().len() as u64;
    let settings = Settings { segment_bytes: 3 * line, segments_max: 9 };
    let mut journal = Journal::open(&directory.0, settings).unwrap();
    let mut begun = Vec::new();
    for name in 1..=7 {
        journal.append(&transfer(name));
        journal.flush();
        begun.push(journal.counts().segments_begun);
    }
    assert_eq!(begun, [0, 0, 0, 1, 1, 1, 2]);
    let numbers: Vec<u64> = segments(&directory.0).unwrap().iter().map(|one| one.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_line_longer_than_a_read_is_dropped_and_the_next_one_is_read() {
    let directory = TestDirectory::new();
    std::fs::create_dir(&directory.0).unwrap();
    // Lines of 1,000 bytes around the end of the buffer, so that one of them is read in two parts.
    let line = |byte: u8| [vec![byte; 999], b"\n".to_vec()].concat();
    let text: Vec<u8> = (0..600_u32).flat_map(|at| line(b'a' + (at % 26) as u8)).collect();
    let path = directory.0.join("00000001.jsonl");
    std::fs::write(&path, &text).unwrap();
    let mut lines = Vec::new();
    let mut ends = Vec::new();
    let read = read_lines(&mut File::open(&path).unwrap(), 0, |line, end| {
        lines.extend_from_slice(line);
        ends.push(end);
        Ok::<_, io::Error>(())
    });
    assert_eq!(read.unwrap(), LinesRead { end: 600_000, too_long: 0 });
    assert_eq!((lines == text, ends[0], ends[599]), (true, 1_000, 600_000));
}

#[test]
fn a_missing_directory_has_no_segments_and_other_files_are_none() {
    let directory = TestDirectory::new();
    assert_eq!(segments(&directory.0).unwrap(), []);
    std::fs::create_dir(&directory.0).unwrap();
    for name in ["00000002.jsonl", "00000010.jsonl", "00000003.json", "x.jsonl", "7"] {
        std::fs::write(directory.0.join(name), "").unwrap();
    }
    let numbers: Vec<u64> = segments(&directory.0).unwrap().iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 10]);
    assert!(segments(&directory.0.join("7")).is_err());
}

#[test]
fn the_length_of_a_segment_is_checked_after_a_sixteenth_of_its_limit() {
    let directory = TestDirectory::new();
    let line = transfer(1).to_line().len() as u64;
    let settings = Settings { segment_bytes: 16 * line, segments_max: 9 };
    let mut journal = Journal::open(&directory.0, settings).unwrap();
    (1..=3).for_each(|name| journal.append(&transfer(name)));
    journal.flush();
    let mut begun_at = None;
    for flush in 2..=17 {
        journal.append(&transfer(flush));
        journal.flush();
        begun_at = begun_at.or((journal.counts().segments_begun > 0).then_some(flush));
    }
    // Before the 15th flush, the segment has 16 lines.
    assert_eq!(begun_at, Some(15));
}
