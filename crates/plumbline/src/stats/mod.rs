//! `plumb stats`: statistics of the recorded transfers.
//!
//! The command first imports new records of the journal into the store. Then it computes the
//! requested tables from the totals in the store. A read-only store is used without an import.

mod export;
mod filter;
#[cfg(test)]
mod tests;

use crate::exit::{self, Failure, local_failure, print_diagnostic, print_error};
use crate::heading;
use crate::manual::ManualPage;
use crate::manual::entries::{HOME, JOURNAL, STATE, STORE, TABLE_COLUMNS};
use crate::output_style;
use anyhow::{Context, Result, anyhow, bail};
use filter::Selection;
use os::fs_credentials::FsCredentials;
use records::aggregate::{Aggregate, Extreme};
use records::format::counted;
use records::severity::Severity;
use records::store::{DivisionAxis, Filter, Source, Store, StoreError, Subset, TransferContent};
use records::transfer::{Outcome, Transfer, xferlog};
use report::table::Grid;
use report::transfer_tables::{self, Prices, Units};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use transfer::recorder::{SERVICE_RECORDS, records_directory};

/// Introduction of `plumb stats --help`.
pub(crate) const ABOUT: &str = "\
Print statistics of the recorded transfers.

Without a table name: the totals of subsets of the transfers (RFC 573, table II), and the largest, \
smallest, fastest and slowest transfer. Only complete transfers count, unless --outcome selects \
others; directory listings are a separate subset that is not part of the total.";

/// Manual page of `plumb stats`.
pub(crate) const PAGE: ManualPage = ManualPage {
    command: "stats",
    examples: &[
        "plumb stats",
        "plumb stats list --since 7d --host 'mit-*'",
        "plumb stats percentiles limits --by host,day",
        "plumb stats cost --cpu-hour 0.05 --gigabyte 0.09",
        "plumb stats --export transfers.parquet",
    ],
    notes: &[],
    exit_status: &[
        (0, "Success"),
        (2, "Invalid arguments"),
        (3, "No matching transfers"),
        (4, "The store cannot be read"),
    ],
    environment: &[&[STATE, HOME, TABLE_COLUMNS]],
    files: &[JOURNAL, STORE],
    see_also: &["get", "put", "serve"],
};

/// Default number of transfers in the list.
const DEFAULT_LIST_LEN: u32 = 25;

/// A table of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReportTable {
    /// Totals of subsets (RFC 573, table II)
    Summary,
    /// The largest, smallest, fastest and slowest transfer
    Extremes,
    /// The newest transfers, one per line; with --rfc573, table III of RFC 573
    List,
    /// Rate and CPU time of gets and sends by byte size and type (RFC 594)
    Operations,
    /// Rate by size, and the position of the knee
    Sizes,
    /// Percentiles of time, speed and CPU
    Percentiles,
    /// Limiting factors
    Limits,
    /// Cost at the prices of --cpu-hour and --gigabyte
    Cost,
    /// Outcomes
    Outcomes,
    /// All tables; cost only with --cpu-hour or --gigabyte
    All,
}

/// Arguments of `plumb stats`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Tables to print [default: summary and extremes]
    #[arg(value_enum, value_name = "table")]
    tables: Vec<ReportTable>,
    /// Properties by which the transfers are divided into subsets; separate several with commas
    #[arg(long, value_name = "type|program|host|user|day|size|command|outcome",
          value_delimiter = ',', value_parser = filter::parse_axis, default_value = "type,program")]
    by: Vec<DivisionAxis>,
    /// Number of transfers in the list [default: 25], or number of lines that --xferlog writes
    /// [default: all]
    #[arg(long, value_name = "count", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    last: Option<u32>,
    /// Price of an hour of CPU time, in any currency
    #[arg(long, value_name = "price", value_parser = parse_price)]
    cpu_hour: Option<f64>,
    /// Price of transferring a gigabyte
    #[arg(long, value_name = "price", value_parser = parse_price)]
    gigabyte: Option<f64>,
    #[command(flatten)]
    selection: Selection,
    /// Directory of the journal and the store, such as /var/lib/plumb/transfers of the packaged service
    /// [default: transfers in the state directory]
    #[arg(long, alias = "folder", value_name = "directory", help_heading = heading::RECORDS)]
    directory: Option<PathBuf>,
    /// Print sizes and rates in bits, and list the newest transfers with the columns of RFC 573, as
    /// JSON and CSV do
    #[arg(long, help_heading = heading::OUTPUT)]
    rfc573: bool,
    /// Write the tables as JSON, in bits, seconds and nanoseconds
    #[arg(long, conflicts_with = "csv", help_heading = heading::OUTPUT)]
    json: bool,
    /// Write one table as CSV
    #[arg(long, help_heading = heading::OUTPUT)]
    csv: bool,
    /// Write the transfers as xferlog lines, which contain only a part of each record
    #[arg(long, conflicts_with_all = ["json", "csv", "tables"], help_heading = heading::OUTPUT)]
    xferlog: bool,
    /// Write the complete records to a Parquet file
    #[arg(long, value_name = "file", help_heading = heading::OUTPUT,
          conflicts_with_all = ["json", "csv", "tables", "xferlog"])]
    export: Option<PathBuf>,
    /// Replace an existing file of --export
    #[arg(long, requires = "export", help_heading = heading::OUTPUT)]
    force: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> exit::Result {
    let directory = arguments.directory.clone().unwrap_or_else(records_directory);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_unix_ns = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    try_run(arguments, &directory, now_unix_ns).unwrap_or_else(|error| Err(local_failure(&error)))
}

fn try_run(arguments: &Arguments, directory: &Path, now_unix_ns: u64) -> Result<exit::Result> {
    if let Err(error) = tables_of(arguments) {
        print_error(&error);
        return Ok(Err(Failure::WrongArguments));
    }
    let has_records = ["transfers.sqlite", "journal"].iter().any(|name| {
        // An entry whose existence cannot be checked may exist.
        directory.join(name).try_exists().unwrap_or(true)
    });
    if !has_records {
        print_error(&no_records_in(directory));
        return Ok(Err(Failure::NothingMeasured));
    }
    let store = open(directory)?;
    let filter = filter_of(arguments, now_unix_ns);
    let files = |filter: &Filter| -> Result<u64> {
        let all = store.subsets(filter, &[DivisionAxis::All], Source::Fastest)?;
        Ok(all.iter().flatten().map(|subset| subset.aggregate.files).sum())
    };
    let with_listings = Filter { content: None, ..filter.clone() };
    if files(&with_listings)? == 0 {
        print_error(&match files(&Filter::default())? {
            0 => no_records_in(directory),
            all => anyhow!("none of the {all} recorded transfers matches"),
        });
        return Ok(Err(Failure::NothingMeasured));
    }
    if let Some(file) = &arguments.export {
        if !arguments.force && file.symlink_metadata().is_ok() {
            print_error(&anyhow!("{} exists (use --force to replace it)", file.display()));
            return Ok(Err(Failure::WrongArguments));
        }
        let count = export::parquet(&store, &with_listings, file)
            .with_context(|| format!("cannot write the records to {}", file.display()))?;
        let text = format!("{count} transfers written to {}.\n", file.display());
        // A closed standard output is ignored.
        _ = io::stdout().write_all(text.as_bytes());
        return Ok(Ok(()));
    }
    if arguments.xferlog {
        return write_xferlog(&store, &filter, arguments.last).map(Ok);
    }
    let width = output_style::stdout_columns_of_table();
    _ = io::stdout().write_all(report(arguments, &store, &filter, width)?.as_bytes());
    Ok(Ok(()))
}

fn no_records_in(directory: &Path) -> anyhow::Error {
    let service = Path::new(SERVICE_RECORDS);
    let hint = match directory != service && service.exists() {
        true => format!("; those of the service are in {SERVICE_RECORDS}: use --directory"),
        false => String::new(),
    };
    anyhow!("no transfers recorded in {} yet{hint}", directory.display())
}

fn write_xferlog(store: &Store, filter: &Filter, last: Option<u32>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    xferlog_lines(store, filter, last, &mut out)?;
    _ = out.flush();
    Ok(())
}

/// Writes the newest transfers as xferlog lines, or all of them.
fn xferlog_lines(
    store: &Store,
    filter: &Filter,
    last: Option<u32>,
    out: &mut impl Write,
) -> Result<()> {
    let mut has_reader = true;
    let mut write = |transfer: &Transfer| {
        // A closed standard output is ignored.
        has_reader = has_reader && out.write_all(xferlog::line(transfer).as_bytes()).is_ok();
    };
    if let Some(last) = last {
        let newest = store.newest(filter, usize::try_from(last).unwrap_or(usize::MAX))?;
        newest.iter().for_each(|(_, transfer)| write(transfer));
        return Ok(());
    }
    store.for_each(filter, |_, transfer| -> Result<()> {
        write(&transfer);
        Ok(())
    })
}

/// Opens the store in `directory`, and imports new records of the journal. Run by root, this creates
/// and changes files with the rights of the owner of `directory`, such as the user of a service, so that
/// the owner can use the store later, and no symbolic link leads to files of others.
pub(crate) fn open(directory: &Path) -> Result<Store> {
    let of_owner = FsCredentials::of_owner(directory);
    of_owner
        .and_then(|rights| rights.lend(|| Ok(open_with_own_rights(directory))))
        .with_context(|| format!("cannot use the rights of the owner of {}", directory.display()))?
}

fn open_with_own_rights(directory: &Path) -> Result<Store> {
    let path = directory.join("transfers.sqlite");
    let with_store_name =
        |error: StoreError| anyhow!("cannot use the store {}: {error}", path.display());
    let mut store = match Store::open(&path) {
        Err(StoreError::NotPermitted) => {
            return Store::open_to_read(&path).map_err(with_store_name);
        }
        other => other.map_err(with_store_name)?,
    };
    match store.import(&directory.join("journal")) {
        Ok(imported) if imported.unreadable > 0 => {
            let lines = imported.unreadable;
            let lines = counted(
                lines,
                "line of the journal is not a record and was",
                "lines of the journal are not records and were",
            );
            print_diagnostic(Severity::Warning, &format!("{lines} skipped"));
        }
        Ok(_) => {}
        // The store is readable but not writable: it contains only the records imported earlier.
        Err(StoreError::NotPermitted) => {
            let sentence = format!(
                "cannot write the store {}; the tables contain only the records imported earlier",
                path.display()
            );
            print_diagnostic(Severity::Warning, &sentence);
        }
        Err(error) => return Err(with_store_name(error)),
    }
    Ok(store)
}

/// Returns the filter that `arguments` specify. If the subsets are divided by outcome, the filter
/// includes all outcomes by default.
fn filter_of(arguments: &Arguments, now_unix_ns: u64) -> Filter {
    let mut filter = arguments.selection.filter(now_unix_ns);
    let is_by_outcome = arguments.by.contains(&DivisionAxis::Outcome);
    if is_by_outcome && filter.outcomes == [Outcome::Complete] {
        filter.outcomes.clear();
    }
    filter
}

/// Returns the requested tables.
fn tables_of(arguments: &Arguments) -> Result<Vec<ReportTable>> {
    let has_price = arguments.cpu_hour.is_some() || arguments.gigabyte.is_some();
    if arguments.tables.contains(&ReportTable::Cost) && !has_price {
        bail!("the cost table needs a price: use --cpu-hour or --gigabyte");
    }
    let mut tables = arguments.tables.clone();
    if tables.is_empty() {
        tables = vec![ReportTable::Summary, ReportTable::Extremes];
        tables.extend(has_price.then_some(ReportTable::Cost));
    }
    if tables.contains(&ReportTable::All) {
        let all = <ReportTable as clap::ValueEnum>::value_variants().iter().copied();
        let is_table = |table: &ReportTable| {
            *table != ReportTable::All && (has_price || *table != ReportTable::Cost)
        };
        tables = all.filter(is_table).collect();
    }
    if arguments.csv && tables.len() > 1 {
        tables.truncate(usize::from(arguments.tables.is_empty()));
        if tables.is_empty() {
            bail!("--csv writes one table: specify its name");
        }
    }
    Ok(tables)
}

/// Returns the tables as text, JSON or CSV.
fn report(arguments: &Arguments, store: &Store, filter: &Filter, width: usize) -> Result<String> {
    let mut grids = Vec::new();
    let tables = tables_of(arguments)?;
    for table in &tables {
        grids.push(grid(*table, arguments, store, filter)?);
    }
    if arguments.json {
        let object = grids.iter().map(|grid| (grid.key.to_owned(), grid.to_json()));
        let object = serde_json::Value::Object(object.collect());
        return Ok(format!("{object:#}\n"));
    }
    if arguments.csv {
        return Ok(grids.iter().map(Grid::to_csv).collect());
    }
    let texts: Vec<String> = grids.iter().map(|grid| grid.to_text(width)).collect();
    let mut text = texts.join("\n");
    let all_outcomes = Filter { outcomes: Vec::new(), ..filter.clone() };
    let counts = [filter, &all_outcomes].map(|filter| {
        let all = store.subsets(filter, &[DivisionAxis::All], Source::Fastest);
        all.map(|all| all.iter().flatten().map(|subset| subset.aggregate.files).sum::<u64>())
    });
    if let [Ok(selected), Ok(all)] = counts
        && !tables.contains(&ReportTable::Outcomes)
        && filter.outcomes == [Outcome::Complete]
        && all > selected
    {
        let incomplete_count = records::format::count(all - selected);
        let sentence = format!("{incomplete_count} more did not complete (plumb stats outcomes).");
        text.push_str(&format!("\n{}\n", report::table::wrap(&sentence, width).join("\n")));
    }
    Ok(text)
}

fn grid(table: ReportTable, arguments: &Arguments, store: &Store, filter: &Filter) -> Result<Grid> {
    let units = if arguments.rfc573 { Units::BITS } else { Units::BYTES };
    let is_for_program = arguments.json || arguments.csv;
    let subsets_by = |axes: &[DivisionAxis]| -> Result<Vec<Subset>> {
        let subsets = store.subsets(filter, axes, Source::Fastest)?;
        Ok(subsets.into_iter().flatten().collect())
    };
    let selected_subsets = || {
        let axes: Vec<DivisionAxis> =
            [DivisionAxis::All].into_iter().chain(arguments.by.iter().copied()).collect();
        subsets_by(&axes)
    };
    Ok(match table {
        ReportTable::Summary => {
            transfer_tables::summary(&selected_subsets()?, listings(store, filter)?.as_ref(), units)
        }
        ReportTable::Extremes => {
            transfer_tables::extremes(&extremes(store, &subsets_by(&[DivisionAxis::All])?)?, units)
        }
        ReportTable::List => {
            let last = arguments.last.unwrap_or(DEFAULT_LIST_LEN);
            let count = usize::try_from(last).unwrap_or(usize::MAX);
            let newest = store.newest(filter, count)?;
            // Programs read the columns of RFC 573, which include the path and the outcome.
            match arguments.rfc573 || is_for_program {
                true => transfer_tables::rfc573_list(&newest),
                false => transfer_tables::list(&newest),
            }
        }
        ReportTable::Operations => {
            transfer_tables::operations(&subsets_by(&[DivisionAxis::Operation])?, units)
        }
        ReportTable::Sizes => transfer_tables::sizes(&subsets_by(&[DivisionAxis::Size])?, units),
        ReportTable::Percentiles => match is_for_program {
            true => transfer_tables::percentiles(&selected_subsets()?),
            false => transfer_tables::percentiles_by_quantity(&selected_subsets()?, units),
        },
        ReportTable::Limits => transfer_tables::limits(&selected_subsets()?),
        ReportTable::Cost | ReportTable::All => {
            let cpu_hour = arguments.cpu_hour.unwrap_or(0.0);
            let gigabyte = arguments.gigabyte.unwrap_or(0.0);
            transfer_tables::costs(&selected_subsets()?, Prices { cpu_hour, gigabyte })
        }
        ReportTable::Outcomes => {
            let filter = match filter.outcomes.as_slice() {
                [Outcome::Complete] => Filter { outcomes: Vec::new(), ..filter.clone() },
                _ => filter.clone(),
            };
            let subsets = store.subsets(&filter, &[DivisionAxis::Outcome], Source::Fastest)?;
            transfer_tables::outcomes(&subsets.into_iter().flatten().collect::<Vec<_>>())
        }
    })
}

/// Returns the totals of the directory listings; `None` if there are none.
fn listings(store: &Store, filter: &Filter) -> Result<Option<Aggregate>> {
    if filter.content != Some(TransferContent::Files) {
        return Ok(None);
    }
    let filter = Filter { content: Some(TransferContent::Listings), ..filter.clone() };
    let all = store.subsets(&filter, &[DivisionAxis::All], Source::Fastest)?;
    Ok(all.into_iter().flatten().next().map(|subset| subset.aggregate))
}

/// Returns the extreme values of `all`, each with the transfer that has this value.
fn extremes(store: &Store, all: &[Subset]) -> Result<Vec<(&'static str, u64, Transfer)>> {
    let Some(Subset { aggregate, .. }) = all.first() else { return Ok(Vec::new()) };
    let extremes = [
        ("largest", aggregate.largest),
        ("smallest", aggregate.smallest),
        ("fastest", aggregate.fastest),
        ("slowest", aggregate.slowest),
    ];
    let mut extreme_transfers = Vec::new();
    for (kind, extreme) in extremes {
        let Some(Extreme { id, .. }) = extreme else { continue };
        extreme_transfers.extend(store.transfer(id)?.map(|transfer| (kind, id, transfer)));
    }
    Ok(extreme_transfers)
}

fn parse_price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "use a number that is not negative".to_owned())
}
