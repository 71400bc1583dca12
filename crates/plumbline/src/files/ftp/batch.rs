//! Batches of transfers: selection of the files, and transfers in parallel.

use super::command_options::{ConnectionOptions, TransferArguments};
use super::command_output::print;
use super::listing::print_names;
use super::run_command::{ProgressDisplay, report_error, run_command};
use crate::exit::{self, print_diagnostic};
use crate::files::get_put_arguments::{CommonOptions, Get, Links, Put};
use crate::files::progress::print_message;
use anyhow::Context;
use os::beneath::{Existing, RootDir};
use protocols::ftp::LocalName;
use protocols::ftp::listing::Kind;
use records::format::count;
use records::severity::Severity;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::JoinSet;
use transfer::escaped;
use transfer::ftp::FtpError;
use transfer::ftp::{BatchTotals, FtpOptions};
use transfer::ftp::{Connector, FtpClient};
use transfer::ftp::{Destination, Download};
use transfer::ftp::{RemoteEntry, is_pattern, join, split, unparsed_text};
use transfer::recorder::{Record, WriteOut, timed};
use transfer::url::{Url, UrlScheme, UrlType};

/// A transfer of a batch.
#[derive(Clone, Debug)]
pub(super) enum BatchItem {
    Get(Download),
    Put(transfer::ftp::Upload),
}

/// Transfers that the arguments of a command denote.
#[derive(Debug, Default)]
pub(super) struct Selection {
    items: Vec<BatchItem>,
    /// Errors of URLs that denote no file; their messages were printed.
    failures: Vec<FtpError>,
}

impl From<Vec<BatchItem>> for Selection {
    fn from(items: Vec<BatchItem>) -> Self {
        Self { items, failures: Vec::new() }
    }
}

/// Options of a batch, and the format of its output.
#[derive(Clone, Debug)]
pub(super) struct BatchOptions {
    pub(super) options: FtpOptions,
    pub(super) jobs: u32,
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
    /// Whether the file is written to the standard output.
    pub(super) is_stdout: bool,
    /// Format of the text that is printed after each transfer, and the URL of the server.
    pub(super) write_out: Option<(WriteOut, Url)>,
    /// Text about earlier actions, such as deletions, for the final message.
    pub(super) earlier_actions: String,
}

impl BatchOptions {
    fn of(
        options: FtpOptions,
        transfer: &TransferArguments,
        common: &CommonOptions,
        url: &Url,
        is_stdout: bool,
    ) -> Self {
        Self {
            options,
            jobs: transfer.jobs(),
            is_json: common.connection.json,
            is_quiet: common.connection.quiet || common.connection.json,
            is_stdout,
            write_out: common.write_out.clone().map(|format| (format, url.clone())),
            earlier_actions: String::new(),
        }
    }
}

/// Downloads the files that `urls` name.
pub(in crate::files) fn get_files(
    arguments: &Get,
    urls: &[Url],
    to: Option<&Path>,
) -> exit::Result {
    let Some(first) = urls.first() else { return Err(exit::Failure::WrongArguments) };
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let transfer = &arguments.transfer;
    let common = &arguments.common;
    let mut options = transfer_options(transfer, first, existing)?;
    options.segments = arguments.segments.unwrap_or(1);
    if let Some(other) = urls.iter().find(|url| url.target != first.target) {
        let sentence = format!("{other} is not on the host of {first}: use one host per command");
        return Err(report_error(&FtpError::InvalidRequest(sentence)));
    }
    let is_directory_listing =
        |url: &Url| matches!(url.scheme, UrlScheme::Ftp(_, Some(UrlType::Directory)));
    if let Some(url) = urls.iter().find(|url| is_directory_listing(url)) {
        return get_names(
            url,
            &common.connection,
            urls.len() == 1 && to.is_none_or(|to| to == Path::new("-")),
        );
    }
    run_command(first, &common.connection, common.limit_rate, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.choose_type(&mut options).await?;
        let is_many = urls.len() > 1
            || transfer.recursive
            || urls.iter().any(|url| is_pattern(&url.name) || url.last_component().is_empty());
        let is_stdout = to == Some(Path::new("-"));
        let selection = match (is_many && !is_stdout, urls) {
            (false, [url]) => Selection::from(vec![BatchItem::Get(Download {
                path: url.name.clone(),
                size: None,
                modified: None,
                has_rough_time: false,
                is_part_name_taken: false,
                destination: destination_of(url, to)?,
            })]),
            _ if is_stdout => {
                return Err(FtpError::InvalidRequest(
                    "only one file can be written to '-'".to_owned(),
                ));
            }
            _ => resolve_urls(&mut client, urls, to, transfer).await?,
        };
        let batch_options = BatchOptions::of(options, transfer, common, first, is_stdout);
        run_batch(&connector, client, selection, &batch_options, "downloaded").await
    })
}

/// Prints the names that a URL with `;type=d` denotes (RFC 1738 §3.2.2).
fn get_names(url: &Url, connection: &ConnectionOptions, is_printed: bool) -> exit::Result {
    if !is_printed {
        return Err(report_error(&FtpError::InvalidRequest(format!(
            "{url} requests a list of names, which is printed: use this URL alone, without a \
                local file"
        ))));
    }
    run_command(url, connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        let result = print_names(&mut client, &url.name).await;
        client.quit().await;
        result
    })
}

/// Uploads files and directories.
pub(in crate::files) fn put_files(arguments: &Put, files: &[PathBuf], url: &Url) -> exit::Result {
    let transfer = &arguments.transfer;
    let common = &arguments.common;
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let mut options = transfer_options(transfer, url, existing)?;
    run_command(url, &common.connection, common.limit_rate, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.choose_type(&mut options).await?;
        let mut items = Vec::new();
        let mut links = 0;
        let mut created_parents = BTreeSet::new();
        for file in files {
            let is_directory = files.len() > 1 || url.last_component().is_empty();
            let path = match file.file_name().filter(|_| is_directory) {
                Some(name) if file != Path::new("-") => join(&url.name, name.as_bytes()),
                _ if is_directory => {
                    return Err(FtpError::InvalidRequest("the URL has no file name".to_owned()));
                }
                _ => url.name.clone(),
            };
            let parent = split(&path).0;
            if transfer.create_dirs && created_parents.insert(parent.to_vec()) {
                client.ensure_directories(parent).await?;
            }
            if file.is_dir() && transfer.recursive {
                links += put_tree(&mut client, file, &path, arguments.links, &mut items).await?;
            } else {
                items.push(BatchItem::Put(transfer::ftp::Upload { from: file.clone(), path }));
            }
        }
        if links > 0 && !connector.is_quiet() {
            let links = if links == 1 { "1 link".to_owned() } else { format!("{links} links") };
            print_diagnostic(Severity::Warning, &format!("skipped {links}: see --links"));
        }
        let batch_options = BatchOptions::of(options, transfer, common, url, false);
        run_batch(&connector, client, items.into(), &batch_options, "uploaded").await
    })
}

fn transfer_options(
    transfer: &TransferArguments,
    url: &Url,
    existing: Existing,
) -> Result<FtpOptions, exit::Failure> {
    transfer.to_options(url, existing).map_err(|error| report_error(&invalid_request(error)))
}

fn invalid_request(error: anyhow::Error) -> FtpError {
    let sentence = format!("{error:#}");
    drop(error);
    FtpError::InvalidRequest(sentence)
}

/// Returns the destination of a single file.
fn destination_of(url: &Url, to: Option<&Path>) -> Result<Destination, FtpError> {
    let file_name = url.last_component();
    let path_in_current_directory = || {
        let name = LocalName::new(file_name).map_err(|_| {
            FtpError::InvalidRequest(format!("'{}' is not a valid local name", escaped(file_name)))
        })?;
        Ok::<_, FtpError>(PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes())))
    };
    Ok(match to {
        Some(path) if path == Path::new("-") => Destination::Stdout,
        Some(path) if path.is_dir() => Destination::File(path.join(path_in_current_directory()?)),
        Some(path) => Destination::File(path.to_owned()),
        None => Destination::File(path_in_current_directory()?),
    })
}

/// Finds the files that patterns and directories denote, and creates the local directories. If one
/// of several URLs denotes no file, the others are transferred nevertheless.
async fn resolve_urls(
    client: &mut FtpClient,
    urls: &[Url],
    to: Option<&Path>,
    arguments: &TransferArguments,
) -> Result<Selection, FtpError> {
    let is_recursive = arguments.recursive;
    let directory = to.unwrap_or(Path::new("."));
    if is_recursive || arguments.create_dirs {
        std::fs::create_dir_all(directory).map_err(anyhow::Error::new)?;
    }
    if !directory.is_dir() {
        let name = directory.display();
        return Err(FtpError::InvalidRequest(format!(
            "{name} is not a directory: several files can be downloaded only into a directory; \
             create it first, or use -r"
        )));
    }
    let root_dir = RootDir::open(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let root_dir = Arc::new(root_dir);
    let mut selection = Selection::default();
    for url in urls {
        let matches = match find_matches(client, url, is_recursive).await {
            Err(error @ (FtpError::NotFound(_) | FtpError::IsDirectory(_))) if urls.len() > 1 => {
                print_diagnostic(Severity::Error, &error.sentence());
                selection.failures.push(error);
                continue;
            }
            result => result?,
        };
        for entry_found in client.retain_valid_local_names(matches) {
            if entry_found.entry.kind != Kind::Directory {
                selection.items.push(fetch(entry_found, client.has_rough_times, &root_dir));
            } else if is_recursive {
                add_tree(client, &entry_found, &root_dir, &mut selection.items).await?;
            }
        }
    }
    Ok(selection)
}

/// Returns the entries of the server that `url` denotes, at least one.
async fn find_matches(
    client: &mut FtpClient,
    url: &Url,
    is_recursive: bool,
) -> Result<Vec<RemoteEntry>, FtpError> {
    if !is_pattern(&url.name) {
        let Some(entry) = client.find_entry(&url.name).await? else {
            return Err(FtpError::NotFound(format!("{url} does not exist")));
        };
        if entry.kind.is_directory() && !is_recursive {
            return Err(FtpError::IsDirectory(format!(
                "{url} is a directory: list it with plumb ls, or use -r to download it"
            )));
        }
        let relative_path = url.last_component().to_vec();
        return Ok(vec![RemoteEntry { path: url.name.clone(), relative_path, entry }]);
    }
    let matches = client.expand(&url.name).await?;
    if matches.is_empty() {
        let sentence = format!("nothing on the server matches {url}");
        return Err(FtpError::NotFound(match unparsed_text(&client.unparsed) {
            Some(unparsed) => format!("{sentence}; {unparsed}"),
            None => sentence,
        }));
    }
    Ok(matches)
}

/// Adds the files below a remote directory to `items`, and creates the local directories.
async fn add_tree(
    client: &mut FtpClient,
    entry_found: &RemoteEntry,
    root_dir: &Arc<RootDir>,
    items: &mut Vec<BatchItem>,
) -> Result<(), FtpError> {
    let top = &entry_found.relative_path;
    let create_local_directory = |name: &[u8]| match root_dir.create_directory(name) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let sentence = format!("cannot create the directory '{}'", escaped(name));
            Err(FtpError::Local(anyhow::Error::new(error).context(sentence)))
        }
        _ => Ok(()),
    };
    if !top.is_empty() {
        create_local_directory(top)?;
    }
    let found = client.list_tree(&entry_found.path, |_, _| true).await?;
    for mut found in client.retain_valid_local_names(found) {
        found.relative_path = join(top, &found.relative_path);
        match found.entry.kind {
            Kind::Directory => create_local_directory(&found.relative_path)?,
            Kind::File => items.push(fetch(found, client.has_rough_times, root_dir)),
            // Links, which may point anywhere, and devices are not transferred.
            _ => {}
        }
    }
    Ok(())
}

fn fetch(found: RemoteEntry, has_rough_time: bool, root_dir: &Arc<RootDir>) -> BatchItem {
    BatchItem::Get(Download {
        path: found.path,
        size: found.entry.size.filter(|_| found.entry.kind == Kind::File),
        modified: found.entry.modified,
        has_rough_time,
        is_part_name_taken: false,
        destination: Destination::Beneath(Arc::clone(root_dir), found.relative_path),
    })
}

/// Creates the remote directories, and adds the local files to `items`. Returns the number of
/// skipped links.
async fn put_tree(
    client: &mut FtpClient,
    directory: &Path,
    path: &[u8],
    links: Links,
    items: &mut Vec<BatchItem>,
) -> Result<u64, FtpError> {
    let mut pending_directories = vec![(directory.to_owned(), path.to_vec())];
    let mut skipped = 0;
    while let Some((directory, path)) = pending_directories.pop() {
        client.ensure_directory(&path).await?;
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot read the directory {}", directory.display()))?;
        for entry in entries {
            let entry = entry.map_err(anyhow::Error::new)?;
            let remote_path = join(&path, entry.file_name().as_bytes());
            let kind = entry.file_type().map_err(anyhow::Error::new)?;
            // A link to a directory may form a cycle, so it is skipped.
            let is_skipped = kind.is_symlink() && (links == Links::Skip || !entry.path().is_file());
            if is_skipped {
                skipped += 1;
            } else if kind.is_dir() {
                pending_directories.push((entry.path(), remote_path));
            } else if entry.path().is_file() {
                items.push(BatchItem::Put(transfer::ftp::Upload {
                    from: entry.path(),
                    path: remote_path,
                }));
            }
        }
    }
    Ok(skipped)
}

/// Runs all transfers of a batch, and prints the result.
pub(super) async fn run_batch(
    connector: &Arc<Connector>,
    client: FtpClient,
    selection: Selection,
    batch_options: &BatchOptions,
    verb: &str,
) -> Result<(), FtpError> {
    let Selection { items, failures } = selection;
    let began = Instant::now();
    let display = ProgressDisplay::begin(connector, items.len() > 1);
    let left_out = client.skipped_names;
    let unparsed = unparsed_text(&client.unparsed);
    let single_path = match items.as_slice() {
        [
            BatchItem::Get(Download { path, .. })
            | BatchItem::Put(transfer::ftp::Upload { path, .. }),
        ] if failures.is_empty() => Some(path.clone()),
        _ => None,
    };
    let totals = run_all(connector, client, items, batch_options, single_path).await;
    display.end().await;
    let mut totals = totals?;
    failures.into_iter().for_each(|error| totals.add_failure(error));
    if let Some(error) = totals.take_error() {
        return Err(error);
    }
    if !batch_options.is_quiet {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (sentence, breakdown) = totals.report(verb, &batch_options.earlier_actions, nanos);
        print_message(&sentence);
        if let Some(breakdown) = breakdown.filter(|_| connector.is_verbose()) {
            print_message(breakdown);
        }
    }
    check_complete(left_out, unparsed)
}

/// Checks a batch whose transfers have all succeeded: returns an error if names were skipped or
/// listing lines were not parsed.
fn check_complete(left_out: u64, unparsed: Option<String>) -> Result<(), FtpError> {
    let left_out = match left_out {
        0 => None,
        1 => Some("1 name was skipped, see above".to_owned()),
        _ => Some(format!("{} names were skipped, see above", count(left_out))),
    };
    let sentences: Vec<_> = left_out.into_iter().chain(unparsed).collect();
    if sentences.is_empty() { Ok(()) } else { Err(FtpError::LeftOut(sentences.join("; "))) }
}

/// State shared by the parallel sessions of a batch.
struct Batch {
    waiting: Mutex<VecDeque<BatchItem>>,
    totals: Mutex<BatchTotals>,
    batch_options: BatchOptions,
}

async fn run_all(
    connector: &Arc<Connector>,
    client: FtpClient,
    items: Vec<BatchItem>,
    batch_options: &BatchOptions,
    single_path: Option<Vec<u8>>,
) -> Result<BatchTotals, FtpError> {
    let known_bytes: u64 = items.iter().filter_map(BatchItem::known_size).sum();
    connector.progress().expect(known_bytes);
    let jobs = usize::try_from(batch_options.jobs).unwrap_or(1).min(items.len()).max(1);
    let batch = Arc::new(Batch {
        waiting: Mutex::new(items.into()),
        totals: Mutex::new(BatchTotals::new(single_path)),
        batch_options: batch_options.clone(),
    });
    let mut workers = JoinSet::new();
    let mut first_client = Some(client);
    for _ in 0..jobs {
        let connector = Arc::clone(connector);
        let batch = Arc::clone(&batch);
        let mut client = first_client.take().unwrap_or_else(|| FtpClient::new(&connector));
        workers.spawn(async move {
            let result = batch.run_items(&mut client).await;
            client.quit().await;
            result
        });
    }
    let mut result = Ok(());
    while let Some(ended) = workers.join_next().await {
        result = result.and(ended.map_err(anyhow::Error::new)?);
    }
    result?;
    let mut totals = batch.totals.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut totals))
}

impl BatchItem {
    fn known_size(&self) -> Option<u64> {
        match self {
            Self::Get(download) => download.size,
            Self::Put(upload) => std::fs::metadata(&upload.from).ok().map(|about| about.len()),
        }
    }
}

impl Batch {
    /// Runs one waiting transfer after the other until no transfer is left.
    async fn run_items(&self, client: &mut FtpClient) -> Result<(), FtpError> {
        loop {
            let next = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let next = waiting.pop_front();
                client.expects_transfer = !waiting.is_empty();
                next
            };
            let Some(item) = next else { return Ok(()) };
            let path = match &item {
                BatchItem::Get(download) => &download.path,
                BatchItem::Put(upload) => &upload.path,
            };
            let options = &self.batch_options.options;
            let is_get = matches!(item, BatchItem::Get(_));
            let mut record = Record::begin(client, is_get, path, options.representation);
            let transfer = async {
                match &item {
                    BatchItem::Get(download) => {
                        transfer::ftp::get(client, download, options, &mut record).await
                    }
                    BatchItem::Put(upload) => {
                        transfer::ftp::put(client, upload, options, &mut record).await
                    }
                }
            };
            let (result, cpu) = timed(transfer).await;
            record.add_cpu(cpu);
            client.connector().write_soon(&mut record, result.as_ref().copied());
            self.report(&record, &item)?;
            let message = {
                let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
                totals.add(&record, result)?
            };
            if let Some(message) = message {
                print_diagnostic(Severity::Error, &message);
            }
        }
    }

    /// Prints the record of a transfer in the requested formats. If the file itself is written to
    /// the standard output, JSON goes to the standard error.
    fn report(&self, record: &Record, item: &BatchItem) -> Result<(), FtpError> {
        if self.batch_options.is_json {
            let line = record.transfer.to_line();
            match self.batch_options.is_stdout {
                true => std::io::stderr().write_all(line.as_bytes()).map_err(anyhow::Error::new)?,
                false => print(line.as_bytes())?,
            }
        }
        let Some((format, url)) = &self.batch_options.write_out else { return Ok(()) };
        let (is_download, path, file) = match item {
            BatchItem::Get(download) => (true, &download.path, download.destination.to_string()),
            BatchItem::Put(upload) => (false, &upload.path, upload.from.display().to_string()),
        };
        let url = Url { name: path.clone(), ..url.clone() }.to_string();
        print(format.text(&record.transfer, is_download, &url, &file).as_bytes())
    }
}
