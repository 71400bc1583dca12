//! Tests of the tables, with RFC 573's transfers and with a current population, and of refusals.

use super::*;
use crate::lab::strata::transfers_of_1973;
use clap::Parser;
use records::journal::{Journal, Settings as JournalSettings};
use records::population::{self, BEGAN_UNIX_NS, Population};
use records::store::STORE_SCHEMA;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("plumb-stats-{}-{next}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
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
fn written(store: &Store, line: &str, width: usize) -> String {
    let arguments = arguments(line);
    let now_unix_ns = BEGAN_UNIX_NS + 3 * records::calendar::NS_PER_DAY;
    let filter = filter_of(&arguments, now_unix_ns);
    report(&arguments, store, &filter, width).unwrap()
}

#[test]
fn table_ii_of_rfc_573_comes_out_of_its_transfers() {
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
    insta::assert_snapshot!(written(&of_1973(), "summary", 80));
}

#[test]
fn the_largest_the_smallest_and_the_fastest_are_the_papers() {
    insta::assert_snapshot!(written(&of_1973(), "extremes", 100));
}

#[test]
fn the_listing_is_table_iii() {
    insta::assert_snapshot!(written(&of_1973(), "list --last 12", 110));
}

#[test]
fn on_80_columns_the_listing_and_the_extremes_are_tables_and_not_blocks() {
    insta::assert_snapshot!(written(&of_today(), "list extremes --last 3 --outcome all", 80));
}

#[test]
fn the_cost_is_the_papers_at_six_dollars_a_cpu_minute() {
    // RFC 573 has $1.90 per megabit in ASCII and $0.30 in image.
    insta::assert_snapshot!(written(&of_1973(), "cost --cpu-hour 360 --by type", 100));
}

#[test]
fn all_tables_of_a_population_of_today() {
    let line = "all --cpu-hour 0.05 --gigabyte 0.09 --last 5";
    insta::assert_snapshot!(written(&of_today(), line, 120));
}

#[test]
fn on_40_columns_every_line_fits() {
    let text = written(&of_today(), "all --gigabyte 1 --last 3", 40);
    assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    insta::assert_snapshot!(written(&of_today(), "summary list --last 1", 40));
}

#[test]
fn subsets_by_host_and_day_are_of_those_that_are_asked_for() {
    let line = "summary --by host,day --since 2d --host host-1* --user user-0";
    insta::assert_snapshot!(written(&of_today(), line, 80));
}

#[test]
fn xferlog_has_the_newest_lines_if_their_number_is_said() {
    let lines = |last| {
        let mut out = Vec::new();
        xferlog_lines(&of_1973(), &Filter::default(), last, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (all, last) = (lines(None), lines(Some(3)));
    assert_eq!((all.len(), last.len()), (304, 3));
    assert!(last.iter().all(|line| all.contains(line)));
}

#[test]
fn listings_stand_below_the_total_and_are_not_in_it() {
    let mut transfers = transfers_of_1973();
    transfers.truncate(10);
    for transfer in &mut transfers[..3] {
        transfer.request.command = Some(records::transfer::Command::List);
        transfer.request.representation = None;
    }
    let store = store_of(&transfers);
    let text = written(&store, "summary", 80);
    let counted = |subset: &str| {
        let line = text.lines().find(|line| line.starts_with(subset)).unwrap_or_default();
        line[subset.len()..].split_whitespace().next().map(str::to_owned)
    };
    assert_eq!(counted("total").as_deref(), Some("7"), "{text}");
    assert_eq!(counted("listings").as_deref(), Some("3"), "{text}");
    assert!(!text.contains("not known"), "{text}");
    assert!(written(&store, "list --command LIST", 80).contains("LIST"));
}

#[test]
fn json_has_base_units() {
    insta::assert_snapshot!(written(&of_1973(), "summary --json --by type", 80));
}

#[test]
fn csv_has_one_table_with_a_line_of_names() {
    insta::assert_snapshot!(written(&of_today(), "operations --csv", 80));
}

#[test]
fn two_tables_are_no_csv_and_a_cost_needs_a_price() {
    assert!(tables_of(&arguments("summary list --csv")).is_err());
    assert!(tables_of(&arguments("cost")).is_err());
    assert_eq!(tables_of(&arguments("--csv")).unwrap(), [Choose::Summary]);
}

#[test]
fn a_wrong_word_in_a_filter_is_refused_with_the_words_that_there_are() {
    let refused = |line: &str| {
        let words = ["stats"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap_err().to_string()
    };
    assert!(refused("--command FETCH").contains("RETR, STOR"));
    assert!(refused("--outcome lost").contains("timeout"));
    assert!(refused("--since yesterday").contains("2026-11-01"));
    assert!(refused("--by colour").contains("host, user"));
    assert!(refused("--cpu-hour -1").contains("price") || refused("--cpu-hour -1").contains("-1"));
}

#[test]
fn a_folder_without_records_a_store_of_a_later_schema_and_no_store_are_one_sentence_each() {
    let folder = Folder::new();
    let nowhere = try_run(&arguments(""), &folder.0.join("nowhere"), 0).unwrap();
    assert_eq!(nowhere, Err(Failure::NothingMeasured));
    std::fs::write(folder.0.join("transfers.sqlite"), [b'x'; 5_000]).unwrap();
    let other = open(&folder.0).unwrap_err().to_string();
    assert!(other.ends_with("it is no store of transfers"), "{other}");
    let later = StoreError::LaterSchema(STORE_SCHEMA + 1).to_string();
    assert_eq!(later, "it has schema 3, and this version knows up to 2");
}

#[test]
fn an_empty_store_and_a_filter_that_nothing_passes_have_an_exit_code_of_their_own() {
    let folder = Folder::new();
    let run = |line: &str| try_run(&arguments(line), &folder.0, 0).unwrap();
    assert_eq!(run(""), Err(Failure::NothingMeasured));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0, "a question made a store");
    let mut journal = Journal::open(&folder.0.join("journal"), JournalSettings::default()).unwrap();
    transfers_of_1973().iter().for_each(|transfer| journal.append(transfer));
    journal.flush();
    assert_eq!(run("--host nobody"), Err(Failure::NothingMeasured));
    assert_eq!(run("--csv --host mit-ml"), Ok(()));
    assert_eq!(run("cost"), Err(Failure::WrongArguments));
}

#[test]
fn an_export_is_a_whole_file_of_parquet_or_none() {
    let (folder, store) = (Folder::new(), of_1973());
    let file = folder.0.join("transfers.parquet");
    assert_eq!(export::parquet(&store, &Filter::default(), &file).unwrap(), 304);
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    let nowhere = folder.0.join("no/folder.parquet");
    assert!(export::parquet(&store, &Filter::default(), &nowhere).is_err());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}
