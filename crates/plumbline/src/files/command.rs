//! Runs `plumb get` and `plumb put`.

use super::arguments::{Get, How, Place, Put};
use super::ftp;
use super::local::{NoSink, Sink, Source};
use super::progress::{Progress, say};
use super::tftp::{self, Errand, Order, Report, Stop};
use super::url::{Scheme, Url};
use crate::carry;
use crate::exit::{self, Failure};
use crate::files::shown::shown;
use crate::meters::{self, Registry};
use crate::transfer_recorder::{Recorder, spent, summary};
use anyhow::{Result, anyhow};
use os::jail::Existing;
use protocols::application::tftp::{Agreed, Direction};
use protocols::time::Duration;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// TFTP options that are requested by default.
const BLOCK_BYTES: u16 = 1428;
const WINDOW_BLOCKS: u16 = 16;

/// Runs `plumb get`.
pub(crate) fn get(arguments: &Get) -> exit::Result {
    let (urls, here) = split(&arguments.places);
    let named = match (arguments.output.as_deref(), here.as_slice(), arguments.places.last()) {
        (output, [], _) => output,
        (None, [here], Some(Place::Here(_))) if !urls.is_empty() => Some(here.as_path()),
        _ => return Err(wrong(anyhow!("use URLs, then at most one local file or directory"))),
    };
    let is_ftp = urls.iter().all(|url| matches!(url.scheme, Scheme::Ftp(..)));
    arguments.check(is_ftp).map_err(wrong)?;
    if let Some(named) = named.filter(|_| !arguments.moving.recursive) {
        check_folder(named).map_err(wrong)?;
    }
    match urls.as_slice() {
        [url] if matches!(url.scheme, Scheme::Tftp(_)) => get_tftp(arguments, url, named),
        urls if is_ftp => ftp::get_files(arguments, urls, named),
        _ => Err(wrong(anyhow!("TFTP downloads one file at a time"))),
    }
}

/// Returns an error if the directory of the destination does not exist, before any server is asked.
fn check_folder(named: &Path) -> Result<()> {
    if named == Path::new("-") || named.is_dir() {
        return Ok(());
    }
    let folder = match named.as_os_str().as_bytes().ends_with(b"/") {
        true => Some(named),
        false => named.parent().filter(|folder| *folder != Path::new("")),
    };
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => {
            Err(anyhow!("no local directory {}: create it, or use another", folder.display()))
        }
        None => Ok(()),
    }
}

fn split(places: &[Place]) -> (Vec<Url>, Vec<PathBuf>) {
    let (mut urls, mut here) = (Vec::new(), Vec::new());
    for place in places {
        match place {
            Place::There(url) => urls.push(url.clone()),
            Place::Here(path) => here.push(path.clone()),
        }
    }
    (urls, here)
}

fn get_tftp(arguments: &Get, url: &Url, named: Option<&Path>) -> exit::Result {
    let path = destination(url, named).map_err(wrong)?;
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let sink = Sink::open(&path, existing).map_err(|no_sink| match no_sink {
        NoSink::Exists(path) => wrong(anyhow!(
            "{} exists: use --force to replace it, or name another file",
            path.display()
        )),
        NoSink::Refused(error) => ours(&error),
    })?;
    let is_stdout = path == Path::new("-");
    run(url, Order::Get(sink), None, &arguments.how, is_stdout)
}

/// Runs `plumb put`.
pub(crate) fn put(arguments: &Put) -> exit::Result {
    let (urls, here) = split(&arguments.places);
    let (Some(Place::There(url)), [_]) = (arguments.places.last(), urls.as_slice()) else {
        return Err(wrong(anyhow!("use local files, then one URL")));
    };
    arguments.check(matches!(url.scheme, Scheme::Ftp(..))).map_err(wrong)?;
    match (url.scheme, here.as_slice()) {
        (Scheme::Ftp(..), files) => ftp::put_files(arguments, files, url),
        (Scheme::Tftp(_), [file]) => put_tftp(arguments, file, url),
        _ => Err(wrong(anyhow!("TFTP uploads one file at a time"))),
    }
}

fn put_tftp(arguments: &Put, file: &Path, url: &Url) -> exit::Result {
    let mut url = url.clone();
    if url.last_component().is_empty() {
        let Some(name) = file.file_name().filter(|name| *name != OsStr::new("-")) else {
            return Err(wrong(anyhow!("the URL has no file name: use {url}name")));
        };
        url.name.extend_from_slice(name.as_bytes());
    }
    let (source, size) = Source::open(file).map_err(|error| ours(&error))?;
    run(&url, Order::Put(source, size), size, &arguments.how, false)
}

fn wrong(error: anyhow::Error) -> Failure {
    exit::complain(&error);
    drop(error);
    Failure::WrongArguments
}

fn ours(error: &anyhow::Error) -> Failure {
    exit::complain(error);
    Failure::ThisMachine
}

/// Returns the path of the downloaded file: the named file, or the last component of the URL in the
/// named or the current directory. The name is always one that the user has typed.
fn destination(url: &Url, named: Option<&Path>) -> Result<PathBuf> {
    if url.name.is_empty() {
        return Err(anyhow!("{url} has no file name"));
    }
    let last = OsStr::from_bytes(url.last_component());
    match named {
        Some(path) if path != Path::new("-") && path.is_dir() => own_name(last, path),
        Some(path) => Ok(path.to_owned()),
        None => own_name(last, Path::new("")),
    }
}

fn own_name(name: &OsStr, folder: &Path) -> Result<PathBuf> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(anyhow!("the URL has no file name: add a local file name")),
        _ => Ok(folder.join(name)),
    }
}

fn run(url: &Url, order: Order, size: Option<u64>, how: &How, is_stdout: bool) -> exit::Result {
    let Scheme::Tftp(mode) = url.scheme else { return Err(Failure::WrongArguments) };
    let began = Instant::now();
    let found = carry::addresses(&url.target, how.reach.family, &how.reach.via, None);
    let addresses = found.map_err(|error| ours(&error))?;
    let addresses = addresses.map_err(|none| exit::far_side(none.to_string()))?;
    let errand = Errand {
        host: url.target.host.clone(),
        addresses,
        name: url.name.clone(),
        mode,
        block_size: how.block_size.unwrap_or(BLOCK_BYTES),
        window_size: how.window.unwrap_or(WINDOW_BLOCKS),
        patience: Duration::from_secs(how.reach.timeout.into()),
        bytes_per_second: how.limit_rate,
        via: how.reach.via.clone(),
        resolving: began.elapsed(),
        board: Registry::new(url.to_string()),
    };
    let recorder = Recorder::of_user(!how.reach.keeping.no_record);
    let progress = Arc::new(Mutex::new(Progress::new(how.reach.quiet || how.reach.json)));
    let shown = Arc::clone(&progress);
    let (once, is_verbose) = (Once::new(), how.reach.verbose);
    let told = carry_out(&errand, order, &recorder, move |facts| {
        if let Some(agreed) = facts.agreed.filter(|_| is_verbose) {
            once.call_once(|| say(&format!("< {}", agreed_text(agreed))));
        }
        let told = facts.agreed.and_then(|agreed| agreed.transfer_size);
        let mut progress = shown.lock().unwrap_or_else(PoisonError::into_inner);
        progress.show(facts.file_bytes, size.or(told));
    });
    progress.lock().unwrap_or_else(PoisonError::into_inner).end();
    let told = told.map_err(|error| ours(&error))?;
    recorder.keep(&told.record);
    recorder.flush();
    report(&told, &errand, how, is_stdout)
}

/// Returns the agreed parameters, as the server reports them in its OACK (RFC 2347). Parameters
/// that it does not report have their values without options.
fn agreed_text(agreed: Agreed) -> String {
    let Agreed { block_size, window_size, timeout_s, transfer_size } = agreed;
    let option = |name: &str, value: Option<u64>| {
        value.map(|value| format!(", {name} {value}")).unwrap_or_default()
    };
    let seconds = option("timeout", timeout_s.map(u64::from));
    let size = option("tsize", transfer_size);
    format!("agreed: blksize {block_size}, windowsize {window_size}{seconds}{size}")
}

/// Runs the transfer in this thread, until it ends or is interrupted.
fn carry_out(
    errand: &Errand,
    order: Order,
    recorder: &Recorder,
    progress: impl Fn(&tftp::Facts) + Send + Sync + 'static,
) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = Arc::new(Stop::default());
    let told = runtime.block_on(async {
        let (mut terminate, mut hang_up) =
            (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let stopper = Arc::clone(&stop);
        tokio::spawn(async move {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            stopper.want();
        });
        tokio::spawn(meters::show_long_run(Arc::clone(&errand.board)));
        tftp::run(errand, order, &stop, &Arc::new(progress), recorder).await
    });
    // A thread that is blocked on a pipe is left behind.
    runtime.shutdown_background();
    told
}

/// Reports the result.
fn report(told: &Report, errand: &Errand, how: &How, is_stdout: bool) -> exit::Result {
    let record = &told.record.transfer;
    if how.reach.json {
        let line = record.to_line();
        let written = match is_stdout {
            true => std::io::stderr().write_all(line.as_bytes()),
            false => std::io::stdout().write_all(line.as_bytes()),
        };
        written.map_err(|error| {
            ours(&anyhow::Error::new(error).context("cannot write to the standard output"))
        })?;
    }
    if let Some(trouble) = &told.trouble {
        exit::complain(&anyhow::Error::msg(trouble.sentence(&told.facts, &errand.name)));
        return Err(trouble.failure());
    }
    if !how.reach.quiet && !how.reach.json {
        let done = match told.facts.direction {
            Direction::Read => "downloaded",
            Direction::Write => "uploaded",
        };
        say(&format!("{done} '{}': {}", shown(&errand.name), summary(record)));
        if how.reach.verbose {
            say(&spent(record));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_to(url: &str, named: Option<&str>) -> Result<PathBuf> {
        destination(&url.parse().unwrap(), named.map(Path::new))
    }

    // attack row 81
    #[test]
    fn a_file_gets_the_last_part_of_the_name_that_was_typed_here() {
        let path = goes_to("tftp://a/boot/kernel", None).unwrap();
        assert_eq!(path, Path::new("kernel"));
        assert_eq!(goes_to("tftp://a/boot/kernel", Some("/")).unwrap(), Path::new("/kernel"));
        assert_eq!(goes_to("tftp://a/kernel", Some("other")).unwrap(), Path::new("other"));
        assert_eq!(goes_to("tftp://a/kernel", Some("-")).unwrap(), Path::new("-"));
    }

    // attack row 81
    #[test]
    fn a_name_that_is_none_here_is_refused() {
        for url in ["tftp://a/", "tftp://a/..", "tftp://a/b/.", "tftp://a/%2e%2e"] {
            assert!(goes_to(url, None).is_err(), "{url}");
        }
        assert_eq!(goes_to("tftp://a/..%2fb", None).unwrap(), Path::new("b"));
    }
}
