//! Tests of the store: roll-ups (compared with a scan of the records), imports, crashes, and
//! rejected files.

use super::*;
use crate::calendar::NS_PER_DAY;
use crate::journal::{self, Journal};
use crate::population::{self, Population, START_UNIX_NS};
use crate::transfer::tests::{
    SCHEMA_1_LINES, SCHEMA_2_LINES, any_transfer, schema_1_store_records,
};
use crate::transfer::{Command, Identifier, Outcome, Role, Text, Transfer};
use proptest::prelude::*;
use rusqlite::Connection;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

const AXES: [DivisionAxis; 10] = [
    DivisionAxis::All,
    DivisionAxis::Type,
    DivisionAxis::Program,
    DivisionAxis::Operation,
    DivisionAxis::Host,
    DivisionAxis::User,
    DivisionAxis::Day,
    DivisionAxis::Size,
    DivisionAxis::Command,
    DivisionAxis::Outcome,
];

/// A directory that is removed when the test ends.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-store-{}-{next}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("transfers.sqlite")
    }

    fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_memory() -> Store {
    Store::open(Path::new(":memory:")).unwrap()
}

/// Returns `count` transfers, spread over four days.
fn generated(count: usize) -> Vec<Transfer> {
    let every_ns = 4 * NS_PER_DAY / u64::try_from(count).unwrap();
    let settings = population::Settings { seed: 1, hosts: 9, users: 4, every_ns };
    Population::new(settings).take(count).collect()
}

fn from_both_sources(store: &Store, filter: &Filter) -> [Vec<Vec<Subset>>; 2] {
    [Source::Fastest, Source::Records].map(|source| store.subsets(filter, &AXES, source).unwrap())
}

fn files(store: &Store, filter: &Filter) -> u64 {
    let all = store.subsets(filter, &[DivisionAxis::All], Source::Fastest).unwrap();
    all[0].first().map_or(0, |subset| subset.aggregate.files)
}

fn write_journal(directory: &TestDirectory, transfers: &[Transfer]) {
    let mut journal = Journal::open(&directory.journal(), journal::Settings::default()).unwrap();
    transfers.iter().for_each(|transfer| journal.append(transfer));
}

#[test]
fn roll_ups_equal_the_sums_of_a_scan() {
    let mut store = in_memory();
    for batch in generated(2_000).chunks(300) {
        store.append(batch).unwrap();
    }
    let day = |days| Some(START_UNIX_NS + days * NS_PER_DAY);
    let filters = [
        Filter::default(),
        Filter { since_unix_ns: day(1), until_unix_ns: day(3), ..Filter::default() },
        Filter { since_unix_ns: day(1).map(|ns| ns + 5), ..Filter::default() },
        Filter { host: Some("host-1*".into()), ..Filter::default() },
        Filter { user: Some("user-2".into()), role: Some(Role::User), ..Filter::default() },
        Filter { host: Some("host-3*".into()), user: Some("*-1".into()), ..Filter::default() },
        Filter { commands: vec![Command::Stor, Command::Appe], ..Filter::default() },
        Filter { outcomes: vec![Outcome::Timeout], ..Filter::default() },
        Filter { content: Some(TransferContent::Files), ..Filter::default() },
        Filter {
            content: Some(TransferContent::Listings),
            host: Some("*".into()),
            ..Filter::default()
        },
        Filter { host: Some("nobody".into()), ..Filter::default() },
    ];
    for filter in filters {
        let [fastest, records] = from_both_sources(&store, &filter);
        assert_eq!(fastest, records, "{filter:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn roll_ups_of_any_records_equal_the_sums_of_a_scan(
        transfers in proptest::collection::vec(any_transfer(), 1..40),
        batch in 1..40_usize,
        since in proptest::option::of(0..6_u64), role in 0..3_u8, outcome in 0..10_u8,
        content in proptest::option::of(prop_oneof![Just(TransferContent::Files), Just(TransferContent::Listings)]),
    ) {
        let mut store = in_memory();
        for batch in transfers.chunks(batch) {
            store.append(batch).unwrap();
        }
        let first_day = 1_700_000_000_000_000_000 / NS_PER_DAY;
        let filter = Filter {
            since_unix_ns: since.map(|days| (first_day + days) * NS_PER_DAY),
            role: Role::from_code(role),
            outcomes: Outcome::from_code(outcome).into_iter().collect(),
            content,
            ..Filter::default()
        };
        let [fastest, records] = from_both_sources(&store, &filter);
        prop_assert_eq!(fastest, records);
    }
}

#[test]
fn a_transfer_without_a_command_is_not_a_listing() {
    let mut transfers = generated(3);
    transfers[0].request.command = Some(Command::Mlsd);
    transfers[1].request.command = Some(Command::Retr);
    transfers[2].request.command = None;
    let mut store = in_memory();
    store.append(&transfers).unwrap();
    for (content, count) in [(TransferContent::Files, 2), (TransferContent::Listings, 1)] {
        let filter = Filter { content: Some(content), ..Filter::default() };
        assert_eq!(files(&store, &filter), count, "{content:?}");
        let [fastest, records] = from_both_sources(&store, &filter);
        assert_eq!(fastest, records);
    }
}

#[test]
fn a_store_of_schema_1_gets_new_roll_ups() {
    let directory = TestDirectory::new();
    let mut transfers = generated(50);
    transfers[7].time.transfer_ns = Some(1_000);
    let mut store = Store::open(&directory.store()).unwrap();
    store.append(&transfers).unwrap();
    let expected = from_both_sources(&store, &Filter::default());
    // Restore the roll-ups of schema 1, where the fastest transfer may have any duration.
    store.connection.execute("DELETE FROM rollup", []).unwrap();
    store.connection.pragma_update(None, "user_version", 1).unwrap();
    drop(store);
    let store = Store::open(&directory.store()).unwrap();
    assert_eq!(from_both_sources(&store, &Filter::default()), expected);
    assert_eq!(store.check_schema().unwrap(), STORE_SCHEMA);
}

fn transfers_of(store: &Store) -> Vec<Transfer> {
    let mut transfers = Vec::new();
    store
        .for_each(&Filter::default(), |_, transfer| {
            transfers.push(transfer);
            Ok::<_, StoreError>(())
        })
        .unwrap();
    transfers
}

fn parsed(lines: &str) -> Vec<Transfer> {
    lines.lines().map(|line| Transfer::from_line(line).unwrap()).collect()
}

#[test]
fn a_journal_of_record_schema_1_is_imported_with_the_same_values() {
    let directory = TestDirectory::new();
    std::fs::create_dir(directory.journal()).unwrap();
    std::fs::write(directory.journal().join("00000001.jsonl"), SCHEMA_1_LINES).unwrap();
    let mut store = Store::open(&directory.store()).unwrap();
    let imported = store.import(&directory.journal()).unwrap();
    assert_eq!(imported, Imported { new: 4, known: 0, unreadable: 0 });
    assert_eq!(transfers_of(&store), parsed(SCHEMA_2_LINES));
    let mut current = in_memory();
    current.append(&parsed(SCHEMA_2_LINES)).unwrap();
    let [fastest, records] = from_both_sources(&store, &Filter::default());
    assert_eq!([fastest, records], from_both_sources(&current, &Filter::default()));
}

#[test]
fn a_store_with_records_of_schema_1_has_the_same_values() {
    let current = parsed(SCHEMA_2_LINES);
    let mut store = in_memory();
    store.append(&current[..3]).unwrap();
    for (id, record) in (1..=3_i64).zip(schema_1_store_records()) {
        let update = "UPDATE detail SET record = ?1 WHERE id = ?2";
        assert_eq!(store.connection.execute(update, (record, id)).unwrap(), 1);
    }
    assert_eq!(transfers_of(&store), current[..3]);
}

#[test]
fn a_duplicate_record_changes_nothing() {
    let mut store = in_memory();
    let transfers = generated(200);
    assert_eq!(store.append(&transfers).unwrap(), Appended { new: 200, known: 0 });
    let before = from_both_sources(&store, &Filter::default());
    assert_eq!(store.append(&transfers[50..]).unwrap(), Appended { new: 0, known: 150 });
    assert_eq!(from_both_sources(&store, &Filter::default()), before);
}

#[test]
fn a_stored_transfer_has_every_field() {
    let mut store = in_memory();
    let transfers = generated(20);
    store.append(&transfers).unwrap();
    assert_eq!(transfers_of(&store), transfers);
    assert_eq!(store.transfer(3).unwrap().as_ref(), Some(&transfers[2]));
    assert_eq!(store.transfer(21).unwrap(), None);
}

#[test]
fn the_newest_transfers_are_returned_oldest_first() {
    let mut store = in_memory();
    let transfers = generated(20);
    store.append(&transfers[10..]).unwrap();
    store.append(&transfers[..10]).unwrap();
    let newest = store.newest(&Filter::default(), 3).unwrap();
    let newest: Vec<Transfer> = newest.into_iter().map(|(_, transfer)| transfer).collect();
    assert_eq!(newest, transfers[17..]);
}

#[test]
fn new_journal_lines_are_imported_once() {
    let directory = TestDirectory::new();
    let transfers = generated(300);
    let mut store = Store::open(&directory.store()).unwrap();
    write_journal(&directory, &transfers[..200]);
    let first = store.import(&directory.journal()).unwrap();
    assert_eq!(first, Imported { new: 200, known: 0, unreadable: 0 });
    assert_eq!(store.import(&directory.journal()).unwrap(), Imported::default());
    write_journal(&directory, &transfers[200..]);
    let second = store.import(&directory.journal()).unwrap();
    assert_eq!(second, Imported { new: 100, known: 0, unreadable: 0 });
    assert_eq!(files(&store, &Filter::default()), 300);
}

#[test]
fn a_new_segment_with_a_known_number_is_read_from_its_beginning() {
    let directory = TestDirectory::new();
    let transfers = generated(90);
    let mut store = Store::open(&directory.store()).unwrap();
    write_journal(&directory, &transfers[..30]);
    store.import(&directory.journal()).unwrap();
    std::fs::remove_dir_all(directory.journal()).unwrap();
    write_journal(&directory, &transfers[30..]);
    assert_eq!(store.import(&directory.journal()).unwrap().new, 60);
}

#[test]
fn a_journal_truncated_at_any_byte_gives_its_complete_lines_and_later_the_rest() {
    let directory = TestDirectory::new();
    let transfers = generated(3);
    write_journal(&directory, &transfers);
    let path = journal::segments(&directory.journal()).unwrap()[0].path.clone();
    let whole = std::fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        let mut store = in_memory();
        std::fs::write(&path, &whole[..cut]).unwrap();
        store.import(&directory.journal()).unwrap();
        let ends = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(files(&store, &Filter::default()), u64::try_from(ends).unwrap());
        // The program starts again, terminates the torn line, and repeats the lost transfer.
        write_journal(&directory, &transfers);
        store.import(&directory.journal()).unwrap();
        assert_eq!(files(&store, &Filter::default()), 3, "cut at {cut}");
    }
}

#[test]
fn a_truncated_write_ahead_log_leaves_complete_batches() {
    let directory = TestDirectory::new();
    let transfers = generated(60);
    write_journal(&directory, &transfers);
    let mut store = Store::open(&directory.store()).unwrap();
    store.append(&transfers[..20]).unwrap();
    store.append(&transfers[20..40]).unwrap();
    let main = std::fs::read(directory.store()).unwrap();
    let log_path = directory.0.join("transfers.sqlite-wal");
    let log = std::fs::read(&log_path).unwrap();
    drop(store);
    for cut in (0..log.len()).step_by(997).chain([log.len()]) {
        let crashed_store = TestDirectory::new();
        std::fs::write(crashed_store.store(), &main).unwrap();
        std::fs::write(crashed_store.0.join("transfers.sqlite-wal"), &log[..cut]).unwrap();
        let mut store = Store::open(&crashed_store.store()).unwrap();
        assert!([0, 20, 40].contains(&files(&store, &Filter::default())), "cut at {cut}");
        store.import(&directory.journal()).unwrap();
        let [fastest, records] = from_both_sources(&store, &Filter::default());
        assert_eq!(fastest, records, "cut at {cut}");
        assert_eq!(files(&store, &Filter::default()), 60, "cut at {cut}");
    }
}

/// Environment variable with the directory into which the next test imports when it runs as the
/// process to be killed.
const IMPORT_DIRECTORY_VARIABLE: &str = "PLUMB_TEST_STORE_TO_BE_KILLED";

#[test]
fn a_process_killed_during_an_import_loses_nothing() {
    if let Some(path) = std::env::var_os(IMPORT_DIRECTORY_VARIABLE) {
        let directory = std::mem::ManuallyDrop::new(TestDirectory(path.into()));
        let mut store = Store::open(&directory.store()).unwrap();
        for batch in generated(20_000).chunks(500) {
            store.append(batch).unwrap();
            println!("one more");
        }
        return;
    }
    let directory = TestDirectory::new();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["a_process_killed_during_an_import_loses_nothing", "--nocapture"])
        .env(IMPORT_DIRECTORY_VARIABLE, &directory.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let batches = lines.map_while(Result::ok).filter(|line| line.contains("one more"));
    assert_eq!(batches.take(7).count(), 7);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut store = Store::open(&directory.store()).unwrap();
    let stored_files = files(&store, &Filter::default());
    assert!(stored_files >= 3_500 && stored_files.is_multiple_of(500), "{stored_files} records");
    let [fastest, records] = from_both_sources(&store, &Filter::default());
    assert_eq!(fastest, records);
    let appended = store.append(&generated(20_000)).unwrap();
    assert_eq!(appended, Appended { new: 20_000 - stored_files, known: stored_files });
}

#[test]
fn a_store_of_a_later_schema_is_rejected_unchanged() {
    let directory = TestDirectory::new();
    let store = Store::open(&directory.store()).unwrap();
    store.connection.pragma_update(None, "user_version", STORE_SCHEMA + 1).unwrap();
    drop(store);
    let open_error = Store::open(&directory.store()).unwrap_err();
    assert!(matches!(open_error, StoreError::LaterSchema(found) if found == STORE_SCHEMA + 1));
}

#[test]
fn a_file_that_is_no_store_is_rejected() {
    let directory = TestDirectory::new();
    std::fs::write(directory.store(), "a letter to a friend, and long enough to be one".repeat(99))
        .unwrap();
    assert!(matches!(Store::open(&directory.store()), Err(StoreError::NotAStore)));
    let other = Connection::open(directory.0.join("other")).unwrap();
    other.execute_batch("CREATE TABLE friends(name)").unwrap();
    assert!(matches!(Store::open(&directory.0.join("other")), Err(StoreError::NotAStore)));
}

#[test]
fn a_reader_does_not_create_a_missing_store() {
    let directory = TestDirectory::new();
    assert!(matches!(Store::open_to_read(&directory.store()), Err(StoreError::NotFound)));
    let missing_directory = directory.0.join("no/directory");
    assert!(matches!(Store::open(&missing_directory), Err(StoreError::NotFound)));
}

#[test]
fn a_reader_creates_no_file_beside_a_store_with_special_characters() {
    let directory = TestDirectory::new();
    let path = directory.0.join("100% sure?#1.sqlite");
    Store::open(&path).unwrap().append(&generated(10)).unwrap();
    let store = Store::open_to_read(&path).unwrap();
    assert_eq!(files(&store, &Filter::default()), 10);
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
}

#[test]
fn concurrent_writers_are_serialized() {
    let directory = TestDirectory::new();
    let transfers = generated(400);
    Store::open(&directory.store()).unwrap();
    let path = directory.store();
    std::thread::scope(|scope| {
        for half in transfers.chunks(200) {
            let path = &path;
            scope.spawn(move || {
                let mut store = Store::open(path).unwrap();
                half.chunks(10).for_each(|batch| _ = store.append(batch).unwrap());
            });
        }
    });
    let store = Store::open(&path).unwrap();
    let [fastest, records] = from_both_sources(&store, &Filter::default());
    assert_eq!((files(&store, &Filter::default()), fastest), (400, records));
}

#[test]
fn an_empty_record_is_counted_without_size_and_day() {
    let mut store = in_memory();
    let mut named = Transfer::new(Identifier(2));
    named.identity.user = Some(Text::from(b"\xff\n"));
    store.append(&[Transfer::new(Identifier(1)), named]).unwrap();
    let [fastest, records] = from_both_sources(&store, &Filter::default());
    assert_eq!(fastest, records);
    let keys: Vec<&Key> = fastest.iter().flatten().map(|subset| &subset.key).collect();
    assert!(keys.contains(&&Key::Day(None)) && keys.contains(&&Key::Size(None)));
    assert!(keys.contains(&&Key::User(Some(b"\xff\n".to_vec()))));
}

#[test]
fn a_query_includes_its_first_moment_and_excludes_its_last() {
    let mut store = in_memory();
    let transfers = generated(8);
    store.append(&transfers).unwrap();
    // Every other transfer begins at the start of a day.
    let since = |ns| Filter { since_unix_ns: Some(START_UNIX_NS + ns), ..Filter::default() };
    let until = |ns| Filter { until_unix_ns: Some(START_UNIX_NS + ns), ..Filter::default() };
    for source in [Source::Fastest, Source::Records] {
        let count = |filter: &Filter| {
            let all = store.subsets(filter, &[DivisionAxis::All], source).unwrap();
            all[0].first().map_or(0, |subset| subset.aggregate.files)
        };
        let day = NS_PER_DAY;
        assert_eq!([0, day, day + 1, 2 * day].map(|ns| count(&since(ns))), [8, 6, 5, 4]);
        assert_eq!([0, day, day + 1, 2 * day].map(|ns| count(&until(ns))), [0, 2, 3, 4]);
    }
}

#[test]
fn a_query_by_day_excludes_transfers_of_unknown_time() {
    let mut store = in_memory();
    let mut transfers = generated(4);
    transfers[0].time.start_unix_ns = None;
    store.append(&transfers).unwrap();
    let day = |ns: u64| Some(START_UNIX_NS / NS_PER_DAY * NS_PER_DAY + ns);
    let filters = [
        Filter::default(),
        Filter { since_unix_ns: day(0), ..Filter::default() },
        Filter { until_unix_ns: day(9 * NS_PER_DAY), ..Filter::default() },
    ];
    assert_eq!(filters.map(|filter| files(&store, &filter)), [4, 3, 3]);
}

#[test]
fn each_subset_has_the_key_of_its_transfers() {
    let mut store = in_memory();
    let mut transfer = generated(1).remove(0);
    transfer.identity.role = Some(Role::User);
    transfer.identity.remote_name = Some(Text::from("a.example"));
    transfer.identity.user = Some(Text::from("akb"));
    transfer.request.command = Some(Command::Stor);
    transfer.request.representation = Some(crate::transfer::Type::Image);
    transfer.request.byte_size = Some(36);
    transfer.size.bits = Some(72);
    transfer.result.outcome = Some(Outcome::Timeout);
    store.append(&[transfer.clone()]).unwrap();
    let image = Some(crate::transfer::Type::Image);
    let expected = [
        Key::All,
        Key::Type(image, Some(36)),
        Key::Program(Some(Role::User), Some(true)),
        Key::Operation(Some(false), Some(36), image),
        Key::Host(Some(b"a.example".to_vec())),
        Key::User(Some(b"akb".to_vec())),
        Key::Day(Some(START_UNIX_NS / NS_PER_DAY * NS_PER_DAY)),
        Key::Size(Some(7)),
        Key::Command(Some(Command::Stor)),
        Key::Outcome(Some(Outcome::Timeout)),
    ];
    for source in from_both_sources(&store, &Filter::default()) {
        let keys: Vec<Key> = source.into_iter().map(|mut one| one.remove(0).key).collect();
        assert_eq!(keys, expected);
    }
    let empty = Transfer::new(Identifier(1));
    let mut store = in_memory();
    store.append(&[empty]).unwrap();
    let expected = [
        Key::All,
        Key::Type(None, None),
        Key::Program(None, None),
        Key::Operation(None, None, None),
        Key::Host(None),
        Key::User(None),
        Key::Day(None),
        Key::Size(None),
        Key::Command(None),
        Key::Outcome(None),
    ];
    for source in from_both_sources(&store, &Filter::default()) {
        let keys: Vec<Key> = source.into_iter().map(|mut one| one.remove(0).key).collect();
        assert_eq!(keys, expected);
    }
}

#[test]
fn a_whole_segment_is_not_read_again() {
    let directory = TestDirectory::new();
    write_journal(&directory, &generated(3));
    let mut store = Store::open(&directory.store()).unwrap();
    let mut calls = 0;
    store.import_with(&directory.journal(), |_| calls += 1).unwrap();
    store.import_with(&directory.journal(), |_| calls += 1).unwrap();
    assert_eq!(calls, 1);
    // A torn line is not read either.
    let path = journal::segments(&directory.journal()).unwrap()[0].path.clone();
    let mut text = std::fs::read(&path).unwrap();
    text.extend_from_slice(b"{\"schema\"");
    std::fs::write(&path, text).unwrap();
    store.import_with(&directory.journal(), |_| calls += 1).unwrap();
    assert_eq!(calls, 1);
}

#[test]
fn each_unreadable_line_is_counted_once() {
    let directory = TestDirectory::new();
    std::fs::create_dir(directory.journal()).unwrap();
    let lines: String = generated(2).iter().map(Transfer::to_line).collect();
    let text = format!("a letter\n{lines}\n{{\"schema\":2}}\n");
    std::fs::write(directory.journal().join("00000001.jsonl"), text).unwrap();
    let mut store = Store::open(&directory.store()).unwrap();
    let imported = store.import(&directory.journal()).unwrap();
    assert_eq!(imported, Imported { new: 2, known: 0, unreadable: 2 });
}
