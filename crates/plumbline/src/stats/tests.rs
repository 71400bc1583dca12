//! Tests of the tables, computed from RFC 573's transfers and from a population of current
//! transfers, and tests of the error messages.

use super::*;
use clap::Parser;
use laboratory::paper_scenario::{Paper, Scenario, built_in};
use laboratory::rfc573;
use records::journal::{Journal, Settings as JournalSettings};
use records::population::{self, Population, START_UNIX_NS};
use records::store::STORE_SCHEMA;
use records::transfer::{Command, Text};
use std::os::unix::fs::{MetadataExt, chown};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// Returns the transfers of RFC 573.
fn transfers_of_1973() -> Vec<Transfer> {
    let scenario = Scenario::read(Paper::Rfc573, built_in(Paper::Rfc573)).unwrap();
    let Scenario::Rfc573(scenario) = scenario else { panic!("another scenario") };
    rfc573::transfers_of_1973(&scenario.strata)
}

/// A directory that is removed when the test ends.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plumb-stats-{}-{next}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn arguments(line: &str) -> Arguments {
    Line::try_parse_from(["stats"].into_iter().chain(line.split_whitespace())).unwrap().arguments
}

fn store_of(transfers: &[Transfer]) -> Store {
    let mut store = Store::open(Path::new(":memory:")).unwrap();
    store.append(transfers).unwrap();
    store
}

fn of_1973() -> Store {
    store_of(&transfers_of_1973())
}

fn of_today() -> Store {
    let settings = population::Settings { seed: 3, hosts: 8, users: 3, every_ns: 200_000_000_000 };
    store_of(&Population::new(settings).take(1_000).collect::<Vec<_>>())
}

/// Returns the output of `plumb stats LINE` on a terminal of `width` columns.
fn output_of(store: &Store, line: &str, width: usize) -> String {
    let arguments = arguments(line);
    let now_unix_ns = START_UNIX_NS + 3 * records::calendar::NS_PER_DAY;
    let filter = filter_of(&arguments, now_unix_ns);
    report(&arguments, store, &filter, width).unwrap()
}

#[test]
fn table_ii_of_rfc_573_follows_from_its_transfers() {
    // The paper's own table, in the same columns:
    //
    // subset              files  Mbit  average kbit  kbit/s  CPU s/Mbit
    // total                 304  57.6           189    7.56           4
    // image 36              223  53.6           240    9.35           3
    // ASCII 8                81   4.0            49    2.09          19
    // server sending         62   3.8            61    7.50           2
    // server receiving      110  19.8           180    7.44           1
    // user receiving         83  22.8           276    7.92           6
    // user sending           49  11.1           225    7.09           4
    insta::assert_snapshot!(output_of(&of_1973(), "summary --rfc573", 80));
}

#[test]
fn the_extremes_are_those_of_rfc_573() {
    insta::assert_snapshot!(output_of(&of_1973(), "extremes --rfc573", 100));
}

#[test]
fn the_listing_is_table_iii() {
    insta::assert_snapshot!(output_of(&of_1973(), "list --rfc573 --last 12", 110));
}

#[test]
fn the_listing_has_protocol_direction_host_size_rate_duration_user_outcome_and_file() {
    insta::assert_snapshot!(output_of(&of_today(), "list --last 4 --outcome all", 120));
}

#[test]
fn on_80_columns_the_listing_and_the_extremes_are_tables() {
    insta::assert_snapshot!(output_of(&of_today(), "list extremes --last 3 --outcome all", 80));
}

#[test]
fn in_a_pipe_each_transfer_is_one_line() {
    let of_today = of_today();
    let name = "a-long-name-of-a-directory/".repeat(20);
    let mut store = store_of(&transfers_of_1973()[..1]);
    let newest = of_today.newest(&Filter::default(), 3).unwrap();
    let mut transfers: Vec<Transfer> = newest.into_iter().map(|(_, transfer)| transfer).collect();
    transfers[0].request.path_requested = Some(Text::from(name.as_bytes()));
    transfers[0].request.path_real = None;
    transfers[1].request.command = Some(Command::ZmodemReceive);
    store.append(&transfers).unwrap();
    let text = output_of(&store, "list --last 3 --outcome all", usize::MAX);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    let file_column = lines[1].find("file").unwrap();
    assert!(lines[3..].iter().all(|line| line[file_column - 2..].starts_with("  ")), "{text}");
    assert!(lines[3..].iter().any(|line| line[file_column..] == name), "{text}");
    assert!(lines[3..].iter().any(|line| line.contains("  ZMODEM get  ")), "{text}");
}

#[test]
fn the_cost_at_six_dollars_per_cpu_minute_is_that_of_rfc_573() {
    // RFC 573 has $1.90 per megabit in ASCII and $0.30 in image.
    insta::assert_snapshot!(output_of(&of_1973(), "cost --cpu-hour 360 --by type", 100));
}

#[test]
fn all_tables_of_a_present_day_population() {
    let line = "all --cpu-hour 0.05 --gigabyte 0.09 --last 5";
    insta::assert_snapshot!(output_of(&of_today(), line, 120));
}

#[test]
fn on_40_columns_every_line_fits() {
    let text = output_of(&of_today(), "all --gigabyte 1 --last 3", 40);
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    insta::assert_snapshot!(output_of(&of_today(), "summary list --last 1", 40));
}

#[test]
fn subsets_by_host_and_day_include_only_the_selected_transfers() {
    let line = "summary --by host,day --since 2d --host host-1* --user user-0";
    insta::assert_snapshot!(output_of(&of_today(), line, 80));
}

#[test]
fn xferlog_has_the_newest_lines_if_their_number_is_given() {
    let lines = |last| {
        let mut out = Vec::new();
        xferlog_lines(&of_1973(), &Filter::default(), last, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all_lines = lines(None);
    let last_lines = lines(Some(3));
    assert_eq!((all_lines.len(), last_lines.len()), (304, 3));
    assert!(last_lines.iter().all(|line| all_lines.contains(line)));
}

#[test]
fn listings_are_below_the_total_and_not_included_in_it() {
    let mut transfers = transfers_of_1973();
    transfers.truncate(10);
    for transfer in &mut transfers[..3] {
        transfer.request.command = Some(Command::List);
        transfer.request.representation = None;
    }
    let store = store_of(&transfers);
    let text = output_of(&store, "summary", 80);
    let counted = |subset: &str| {
        let line = text.lines().find(|line| line.starts_with(subset)).unwrap_or_default();
        line[subset.len()..].split_whitespace().next().map(str::to_owned)
    };
    assert_eq!(counted("total").as_deref(), Some("7"), "{text}");
    assert_eq!(counted("listings").as_deref(), Some("3"), "{text}");
    assert!(!text.contains("not known"), "{text}");
    assert!(output_of(&store, "list --rfc573 --command LIST", 80).contains("LIST"));
}

#[test]
fn json_has_base_units() {
    insta::assert_snapshot!(output_of(&of_1973(), "summary --json --by type", 80));
}

#[test]
fn csv_has_one_table_with_a_header_line() {
    insta::assert_snapshot!(output_of(&of_today(), "operations --csv", 80));
}

#[test]
fn csv_has_only_one_table_and_a_cost_needs_a_price() {
    assert!(tables_of(&arguments("summary list --csv")).is_err());
    assert!(tables_of(&arguments("cost")).is_err());
    assert_eq!(tables_of(&arguments("--csv")).unwrap(), [ReportTable::Summary]);
}

#[test]
fn an_unknown_keyword_in_a_filter_is_rejected_with_the_valid_ones() {
    let error = |line: &str| {
        let arguments = ["stats"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(arguments).unwrap_err().to_string()
    };
    assert!(error("--command FETCH").contains("RETR, STOR"));
    assert!(error("--outcome lost").contains("timeout"));
    assert!(error("--since yesterday").contains("2026-11-01"));
    assert!(error("--by colour").contains("host, user"));
    assert!(error("--cpu-hour -1").contains("price") || error("--cpu-hour -1").contains("-1"));
}

#[test]
fn a_missing_store_an_invalid_store_and_a_later_schema_have_one_message_each() {
    let directory = TestDirectory::new();
    let missing_store = try_run(&arguments(""), &directory.0.join("nowhere"), 0).unwrap();
    assert_eq!(missing_store, Err(Failure::NothingMeasured));
    std::fs::write(directory.0.join("transfers.sqlite"), [b'x'; 5_000]).unwrap();
    let other = open(&directory.0).unwrap_err().to_string();
    assert!(other.ends_with("the file is not a store of transfers"), "{other}");
    let later = StoreError::LaterSchema(STORE_SCHEMA + 1).to_string();
    assert_eq!(later, "its schema is 3; this version reads schemas up to 2");
}

#[test]
fn an_empty_store_and_a_filter_without_matches_have_their_own_exit_code() {
    let directory = TestDirectory::new();
    let run = |line: &str| try_run(&arguments(line), &directory.0, 0).unwrap();
    assert_eq!(run(""), Err(Failure::NothingMeasured));
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 0, "a query created a store");
    store_with_journal(&directory);
    assert_eq!(run("--host nobody"), Err(Failure::NothingMeasured));
    assert_eq!(run("--csv --host mit-ml"), Ok(()));
    assert_eq!(run("cost"), Err(Failure::WrongArguments));
}

#[test]
fn root_creates_the_store_of_a_service_with_the_rights_of_its_user() {
    const DAEMON: u32 = 1;
    if !os::user::is_root() {
        return test_support::not_configured("root", "the directory belongs to another user");
    }
    let directory = TestDirectory::new();
    store_with_journal(&directory);
    let journal = directory.0.join("journal");
    let files = std::fs::read_dir(&journal).unwrap().map(|file| file.unwrap().path());
    for path in files.chain([directory.0.clone(), journal.clone()]) {
        chown(path, Some(DAEMON), Some(DAEMON)).unwrap();
    }
    let owner_of_new = |name: &str| {
        let metadata = std::fs::symlink_metadata(directory.0.join(name)).unwrap();
        (metadata.uid(), metadata.gid())
    };
    drop(open(&directory.0).unwrap());
    assert_eq!(owner_of_new("transfers.sqlite"), (DAEMON, DAEMON));
    // The user of the service cannot make root write to a file of root.
    let of_root = TestDirectory::new();
    std::fs::remove_file(directory.0.join("transfers.sqlite")).unwrap();
    let link = directory.0.join("transfers.sqlite");
    std::os::unix::fs::symlink(of_root.0.join("new"), link).unwrap();
    assert!(open(&directory.0).is_err());
    assert_eq!(std::fs::read_dir(&of_root.0).unwrap().count(), 0);
}

#[test]
fn percentiles_have_one_row_per_quantity() {
    insta::assert_snapshot!(output_of(&of_today(), "percentiles --by type", 80));
}

#[test]
fn an_export_replaces_a_file_only_with_force() {
    let directory = TestDirectory::new();
    store_with_journal(&directory);
    let file = directory.0.join("transfers.parquet");
    std::fs::write(&file, "mine").unwrap();
    let run = |force: &str| {
        let line = format!("--export {} {force}", file.display());
        try_run(&arguments(&line), &directory.0, 0).unwrap()
    };
    assert_eq!(run(""), Err(Failure::WrongArguments));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    assert_eq!(run("--force"), Ok(()));
    assert!(std::fs::read(&file).unwrap().starts_with(b"PAR1"));
}

/// Writes the transfers of RFC 573 to the journal in `directory`.
fn store_with_journal(directory: &TestDirectory) {
    let mut journal =
        Journal::open(&directory.0.join("journal"), JournalSettings::default()).unwrap();
    transfers_of_1973().iter().for_each(|transfer| journal.append(transfer));
    journal.flush();
}

#[test]
fn an_export_is_a_complete_parquet_file_or_none() {
    let directory = TestDirectory::new();
    let store = of_1973();
    let file = directory.0.join("transfers.parquet");
    assert_eq!(export::parquet(&store, &Filter::default(), &file).unwrap(), 304);
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let unwritable_path = directory.0.join("no/folder.parquet");
    assert!(export::parquet(&store, &Filter::default(), &unwritable_path).is_err());
    assert_eq!(std::fs::read_dir(&directory.0).unwrap().count(), 1);
}
