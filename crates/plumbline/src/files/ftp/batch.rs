//! Transfers of many files: their selection, and several in parallel.

use super::desk::{Shown, carry_out, tell};
use super::dialogue::{Caller, Dialogue};
use super::get::{self, Ending, Terms, To};
use super::manage::show_names;
use super::options::{Moving, Reach};
use super::put;
use super::remote::{Found, is_pattern, join, name_of, unread_text};
use super::trouble::Trouble;
use crate::exit;
use crate::files::arguments::{Get, How, Links, Put};
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::files::url::{Scheme, Url, UrlType};
use crate::transfer_recorder::{Record, spent, summary, timed};
use anyhow::Context;
use os::jail::{Existing, Jail};
use protocols::application::ftp::LocalName;
use protocols::application::ftp::listing::Kind;
use protocols::application::ftp::user::Task;
use records::figures::{count, duration};
use std::collections::VecDeque;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::task::JoinSet;

/// A transfer of a batch.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Get(get::Errand),
    Put(put::Errand),
}

/// Options of a batch, and the form of its output.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) terms: Terms,
    pub(super) jobs: u32,
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
    /// Whether the standard output receives the file.
    pub(super) is_stdout: bool,
    /// Earlier actions, as a part of the last message.
    pub(super) also: String,
}

impl Manner {
    fn of(terms: Terms, jobs: u32, how: &How, is_stdout: bool) -> Self {
        let (is_json, is_quiet) = (how.reach.json, how.reach.quiet || how.reach.json);
        Self { terms, jobs, is_json, is_quiet, is_stdout, also: String::new() }
    }
}

/// Totals of a batch.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) were_there: u64,
    failed: u64,
    worst: Option<Trouble>,
    /// Summary of a single file.
    told: Option<String>,
    /// How the time of a single file was spent.
    spent: Option<String>,
}

/// Downloads the files that `urls` name.
pub(in crate::files) fn get_files(
    arguments: &Get,
    urls: &[Url],
    to: Option<&Path>,
) -> exit::Result {
    let Some(first) = urls.first() else { return Err(exit::Failure::WrongArguments) };
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let (moving, how) = (&arguments.moving, &arguments.how);
    let mut terms = terms_of(moving, first, existing)?;
    terms.segments = arguments.segments.unwrap_or(1);
    if let Some(other) = urls.iter().find(|url| url.target != first.target) {
        let sentence = format!("{other} is not on the host of {first}: use one host per command");
        return Err(tell(&Trouble::Wrong(sentence)));
    }
    let is_of_names = |url: &Url| matches!(url.scheme, Scheme::Ftp(_, Some(UrlType::Directory)));
    if let Some(url) = urls.iter().find(|url| is_of_names(url)) {
        return get_names(
            url,
            &how.reach,
            urls.len() == 1 && to.is_none_or(|to| to == Path::new("-")),
        );
    }
    carry_out(first, &how.reach, how.limit_rate, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.choose_type(&mut terms).await?;
        let is_many = urls.len() > 1
            || moving.recursive
            || urls.iter().any(|url| is_pattern(&url.name) || url.last_component().is_empty());
        let is_stdout = to == Some(Path::new("-"));
        let works = match (is_many && !is_stdout, urls) {
            (false, [url]) => vec![Work::Get(get::Errand {
                path: url.name.clone(),
                size: None,
                modified: None,
                has_rough_time: false,
                has_no_part: false,
                to: place_for(url, to)?,
            })],
            _ if is_stdout => {
                return Err(Trouble::Wrong("only one file can be written to '-'".to_owned()));
            }
            _ => many(&mut dialogue, urls, to, moving.recursive).await?,
        };
        let manner = Manner::of(terms, moving.jobs(), how, is_stdout);
        finish(&caller, dialogue, works, &manner, "downloaded").await
    })
}

/// Prints the names that a URL with `;type=d` denotes (RFC 1738 §3.2.2).
fn get_names(url: &Url, reach: &Reach, is_printed: bool) -> exit::Result {
    if !is_printed {
        return Err(tell(&Trouble::Wrong(format!(
            "{url} denotes a list of names, which is printed: use it alone, without a file"
        ))));
    }
    carry_out(url, reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        let shown = show_names(&mut dialogue, &url.name).await;
        dialogue.quit().await;
        shown
    })
}

/// Uploads files and directories.
pub(in crate::files) fn put_files(arguments: &Put, files: &[PathBuf], url: &Url) -> exit::Result {
    let (moving, how) = (&arguments.moving, &arguments.how);
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let mut terms = terms_of(moving, url, existing)?;
    carry_out(url, &how.reach, how.limit_rate, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.choose_type(&mut terms).await?;
        let (mut works, mut links) = (Vec::new(), 0);
        for file in files {
            let is_folder = files.len() > 1 || url.last_component().is_empty();
            let path = match file.file_name().filter(|_| is_folder) {
                Some(name) if file != Path::new("-") => join(&url.name, name.as_bytes()),
                _ if is_folder => {
                    return Err(Trouble::Wrong("the URL has no file name".to_owned()));
                }
                _ => url.name.clone(),
            };
            if file.is_dir() && moving.recursive {
                links += put_tree(&mut dialogue, file, &path, arguments.links, &mut works).await?;
            } else {
                works.push(Work::Put(put::Errand { from: file.clone(), path }));
            }
        }
        if links > 0 && !caller.is_quiet {
            let links = if links == 1 { "1 link".to_owned() } else { format!("{links} links") };
            say(&format!("skipped {links}: see --links"));
        }
        let manner = Manner::of(terms, moving.jobs(), how, false);
        finish(&caller, dialogue, works, &manner, "uploaded").await
    })
}

fn terms_of(moving: &Moving, url: &Url, existing: Existing) -> Result<Terms, exit::Failure> {
    moving.terms(url, existing).map_err(|error| tell(&wrong(error)))
}

fn wrong(error: anyhow::Error) -> Trouble {
    let sentence = format!("{error:#}");
    drop(error);
    Trouble::Wrong(sentence)
}

/// Returns the destination of a single file.
fn place_for(url: &Url, to: Option<&Path>) -> Result<To, Trouble> {
    let last = url.last_component();
    let own = || {
        let name = LocalName::new(last)
            .map_err(|_| Trouble::Wrong(format!("'{}' is not a valid local name", shown(last))))?;
        Ok::<_, Trouble>(PathBuf::from(std::ffi::OsStr::from_bytes(name.as_bytes())))
    };
    Ok(match to {
        Some(path) if path == Path::new("-") => To::Stdout,
        Some(path) if path.is_dir() => To::File(path.join(own()?)),
        Some(path) => To::File(path.to_owned()),
        None => To::File(own()?),
    })
}

/// Finds the files that patterns and directories denote, and creates the local directories.
async fn many(
    dialogue: &mut Dialogue,
    urls: &[Url],
    to: Option<&Path>,
    is_recursive: bool,
) -> Result<Vec<Work>, Trouble> {
    let folder = to.unwrap_or(Path::new("."));
    if is_recursive {
        std::fs::create_dir_all(folder).map_err(anyhow::Error::new)?;
    }
    if !folder.is_dir() {
        let name = folder.display();
        return Err(Trouble::Wrong(format!(
            "{name} is not a directory: several files need one; create it first, or use -r"
        )));
    }
    let jail = Jail::open(folder)
        .with_context(|| format!("cannot read the directory {}", folder.display()))?;
    let jail = Arc::new(jail);
    let mut works = Vec::new();
    for url in urls {
        let found = if is_pattern(&url.name) {
            dialogue.expand(&url.name).await?
        } else {
            let entry = dialogue.look_at(&url.name).await?;
            let Some(entry) = entry else {
                return Err(Trouble::NotThere(format!("{url} does not exist")));
            };
            if entry.kind.is_directory() && !is_recursive {
                return Err(Trouble::IsFolder(format!(
                    "{url} is a directory: list it with plumb ls, or use -r to download it"
                )));
            }
            let below = url.last_component().to_vec();
            vec![Found { path: url.name.clone(), below, entry }]
        };
        if found.is_empty() {
            let sentence = format!("nothing on the server matches {url}");
            return Err(Trouble::NotThere(match unread_text(&dialogue.unread) {
                Some(unread) => format!("{sentence}; {unread}"),
                None => sentence,
            }));
        }
        for place in dialogue.for_here(found) {
            if place.entry.kind != Kind::Directory {
                works.push(fetch(place, dialogue.has_rough_times, &jail));
            } else if is_recursive {
                tree(dialogue, &place, &jail, &mut works).await?;
            }
        }
    }
    Ok(works)
}

/// Adds the content of a directory.
async fn tree(
    dialogue: &mut Dialogue,
    place: &Found,
    jail: &Arc<Jail>,
    works: &mut Vec<Work>,
) -> Result<(), Trouble> {
    let top = &place.below;
    let make = |name: &[u8]| match jail.make_folder(name) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let sentence = format!("cannot create the directory '{}'", shown(name));
            Err(Trouble::Ours(anyhow::Error::new(error).context(sentence)))
        }
        _ => Ok(()),
    };
    if !top.is_empty() {
        make(top)?;
    }
    let found = dialogue.walk(&place.path, |_, _| true).await?;
    for mut found in dialogue.for_here(found) {
        found.below = join(top, &found.below);
        match found.entry.kind {
            Kind::Directory => make(&found.below)?,
            Kind::File => works.push(fetch(found, dialogue.has_rough_times, jail)),
            // Links, which may point anywhere, and devices are not transferred.
            _ => {}
        }
    }
    Ok(())
}

fn fetch(found: Found, has_rough_time: bool, jail: &Arc<Jail>) -> Work {
    Work::Get(get::Errand {
        path: found.path,
        size: found.entry.size.filter(|_| found.entry.kind == Kind::File),
        modified: found.entry.modified,
        has_rough_time,
        has_no_part: false,
        to: To::Beneath(Arc::clone(jail), found.below),
    })
}

/// Creates a directory on the server, which may exist already.
pub(super) async fn make_there(dialogue: &mut Dialogue, path: &[u8]) -> Result<(), Trouble> {
    let wanted = format!("cannot create the directory '{}'", shown(path));
    match dialogue.run(&wanted, Task::MakeDirectory(name_of(path)?)).await {
        Err(trouble) if !trouble.is_refusal() => Err(trouble),
        // If the directory does not exist, the transfers into it fail.
        _ => Ok(()),
    }
}

/// Creates the remote directories, and adds the files in them. Returns the number of links left
/// out.
async fn put_tree(
    dialogue: &mut Dialogue,
    folder: &Path,
    path: &[u8],
    links: Links,
    works: &mut Vec<Work>,
) -> Result<u64, Trouble> {
    let mut open = vec![(folder.to_owned(), path.to_vec())];
    let mut left = 0;
    while let Some((folder, path)) = open.pop() {
        make_there(dialogue, &path).await?;
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read the directory {}", folder.display()))?;
        for entry in entries {
            let entry = entry.map_err(anyhow::Error::new)?;
            let there = join(&path, entry.file_name().as_bytes());
            let kind = entry.file_type().map_err(anyhow::Error::new)?;
            // A link to a directory may form a cycle, and is left out.
            let is_left = kind.is_symlink() && (links == Links::Skip || !entry.path().is_file());
            if is_left {
                left += 1;
            } else if kind.is_dir() {
                open.push((entry.path(), there));
            } else if entry.path().is_file() {
                works.push(Work::Put(put::Errand { from: entry.path(), path: there }));
            }
        }
    }
    Ok(left)
}

/// Runs all transfers, and prints the result.
pub(super) async fn finish(
    caller: &Arc<Caller>,
    dialogue: Dialogue,
    works: Vec<Work>,
    manner: &Manner,
    done: &str,
) -> Result<(), Trouble> {
    let began = Instant::now();
    let (shown_meanwhile, left_out) = (Shown::begin(caller), dialogue.left_out);
    let unread = unread_text(&dialogue.unread);
    let single = match works.as_slice() {
        [Work::Get(get::Errand { path, .. }) | Work::Put(put::Errand { path, .. })] => {
            Some(path.clone())
        }
        _ => None,
    };
    let totals = run_all(caller, dialogue, works, manner, single.is_some()).await;
    shown_meanwhile.end().await;
    let totals = totals?;
    let also = &manner.also;
    if let Some(worst) = totals.worst {
        return Err(match (totals.failed, &single) {
            (_, Some(_)) => worst,
            (failed, None) => Trouble::NoConnection(format!(
                "{} of {} files failed; the last error: {}",
                count(failed),
                count(failed + totals.files + totals.were_there),
                worst.sentence()
            )),
        });
    }
    if !manner.is_quiet {
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let rate = u128::from(totals.bytes) * 1_000_000_000 / u128::from(nanos.max(1));
        let what = match (&single, totals.were_there) {
            (Some(path), 0) => format!("'{}'", shown(path)),
            (Some(path), _) => format!("nothing: '{}' is already complete", shown(path)),
            (None, 0) => format!("{} files", count(totals.files)),
            (None, there) => {
                format!("{} files, and {} were complete", count(totals.files), count(there))
            }
        };
        let told = totals.told.unwrap_or_else(|| {
            format!(
                "{} bytes in {}, {} bytes/s",
                count(totals.bytes),
                duration(nanos),
                count(u64::try_from(rate).unwrap_or(u64::MAX)),
            )
        });
        say(&format!("{done} {what}{also}: {told}"));
        let is_verbose = caller.shared.is_verbose.load(Ordering::Relaxed);
        if let Some(spent) = totals.spent.filter(|_| is_verbose) {
            say(&spent);
        }
    }
    check_complete(left_out, unread)
}

/// Returns an error if names were left out or listing lines were not parsed, for a batch whose
/// transfers have all succeeded.
fn check_complete(left_out: u64, unread: Option<String>) -> Result<(), Trouble> {
    let left_out = match left_out {
        0 => None,
        1 => Some("1 name was skipped, see above".to_owned()),
        _ => Some(format!("{} names were skipped, see above", count(left_out))),
    };
    let sentences: Vec<_> = left_out.into_iter().chain(unread).collect();
    if sentences.is_empty() { Ok(()) } else { Err(Trouble::LeftOut(sentences.join("; "))) }
}

/// State that the parallel sessions share.
struct Bench {
    waiting: Mutex<VecDeque<Work>>,
    totals: Mutex<Totals>,
    manner: Manner,
    is_single: bool,
}

async fn run_all(
    caller: &Arc<Caller>,
    dialogue: Dialogue,
    works: Vec<Work>,
    manner: &Manner,
    is_single: bool,
) -> Result<Totals, Trouble> {
    let known: u64 = works.iter().filter_map(Work::known_size).sum();
    caller.shared.expected.store(known, Ordering::Relaxed);
    let jobs = usize::try_from(manner.jobs).unwrap_or(1).min(works.len()).max(1);
    let bench = Arc::new(Bench {
        waiting: Mutex::new(works.into()),
        totals: Mutex::new(Totals::default()),
        manner: manner.clone(),
        is_single,
    });
    let mut workers = JoinSet::new();
    let mut first = Some(dialogue);
    for _ in 0..jobs {
        let (caller, bench) = (Arc::clone(caller), Arc::clone(&bench));
        let mut dialogue = first.take().unwrap_or_else(|| Dialogue::new(&caller));
        workers.spawn(async move {
            let result = bench.work(&mut dialogue).await;
            dialogue.quit().await;
            result
        });
    }
    let mut result = Ok(());
    while let Some(ended) = workers.join_next().await {
        result = result.and(ended.map_err(anyhow::Error::new)?);
    }
    result?;
    let mut totals = bench.totals.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut totals))
}

impl Work {
    fn known_size(&self) -> Option<u64> {
        match self {
            Self::Get(errand) => errand.size,
            Self::Put(errand) => std::fs::metadata(&errand.from).ok().map(|about| about.len()),
        }
    }
}

impl Bench {
    /// Runs one transfer after the other, until none is left.
    async fn work(&self, dialogue: &mut Dialogue) -> Result<(), Trouble> {
        loop {
            let next = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let next = waiting.pop_front();
                dialogue.expects_transfer = !waiting.is_empty();
                next
            };
            let Some(work) = next else { return Ok(()) };
            let path = match &work {
                Work::Get(errand) => &errand.path,
                Work::Put(errand) => &errand.path,
            };
            let terms = &self.manner.terms;
            let is_get = matches!(work, Work::Get(_));
            let mut record = Record::begin(dialogue, is_get, path, terms.representation);
            let moving = async {
                match &work {
                    Work::Get(errand) => get::get(dialogue, errand, terms, &mut record).await,
                    Work::Put(errand) => put::put(dialogue, errand, terms, &mut record).await,
                }
            };
            let (result, cpu) = timed(moving).await;
            record.add_cpu(cpu);
            dialogue.caller.keep_soon(&mut record, result.as_ref().copied());
            self.tell(&record, result.as_ref().err())?;
            self.add(&record, result)?;
        }
    }

    fn tell(&self, record: &Record, trouble: Option<&Trouble>) -> Result<(), Trouble> {
        if let Some(trouble) = trouble.filter(|trouble| !self.is_single && !trouble.ends_all()) {
            say(&trouble.sentence());
        }
        if !self.manner.is_json {
            return Ok(());
        }
        let line = record.transfer.to_line();
        let written = match self.manner.is_stdout {
            true => std::io::stderr().write_all(line.as_bytes()),
            false => std::io::stdout().write_all(line.as_bytes()),
        };
        Ok(written.context("cannot write to the standard output")?)
    }

    fn add(&self, record: &Record, result: Result<Ending, Trouble>) -> Result<(), Trouble> {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.bytes += record.file_bytes();
        match result {
            Ok(Ending::Moved) => {
                totals.files += 1;
                totals.told = self.is_single.then(|| summary(&record.transfer));
                totals.spent = self.is_single.then(|| spent(&record.transfer));
            }
            Ok(Ending::WasThere) => totals.were_there += 1,
            Err(trouble) if trouble.ends_all() => return Err(trouble),
            Err(trouble) => {
                totals.failed += 1;
                totals.worst = Some(trouble);
            }
        }
        Ok(())
    }
}
