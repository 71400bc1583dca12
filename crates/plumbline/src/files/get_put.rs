//! Runs `plumb get` and `plumb put`.

use super::ftp;
use super::get_put_arguments::{CommonOptions, Get, Put};
use super::location::Location;
use super::progress::{Progress, print_message};
use crate::exit::{self, Failure, print_warning};
use anyhow::{Context, Result, anyhow};
use carrier::meters::{self, MeterRegistry};
use net::time::Duration;
use os::beneath::Existing;
use protocols::tftp::{AgreedParameters, Direction};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Instant;
use transfer::escaped;
use transfer::local::{LocalSource, Sink, SinkError};
use transfer::recorder::{TransferRecorder, summary, time_breakdown};
use transfer::termination::TerminationSignals;
use transfer::tftp::{self, Operation, Stop, TftpReport, TransferSpec};
use transfer::url::{Url, UrlScheme};

/// TFTP block size in bytes and window size in blocks that are requested by default.
const DEFAULT_BLOCK_BYTES: u16 = 1428;
const DEFAULT_WINDOW_BLOCKS: u16 = 16;

/// Runs `plumb get`.
pub(crate) fn get(arguments: &Get) -> exit::Result {
    let (urls, local) = split(&arguments.locations);
    let local_path =
        match (arguments.output.as_deref(), local.as_slice(), arguments.locations.last()) {
            (output, [], _) => output,
            (None, [local], Some(Location::Local(_))) if !urls.is_empty() => Some(local.as_path()),
            _ => {
                return Err(report_wrong_arguments(anyhow!(
                    "invalid arguments: give one or more URLs, then at most one local file or \
                    directory"
                )));
            }
        };
    let is_ftp = urls.iter().all(|url| matches!(url.scheme, UrlScheme::Ftp(..)));
    arguments.check(is_ftp).map_err(report_wrong_arguments)?;
    match local_path.and_then(missing_directory) {
        Some(directory) if arguments.transfer.create_dirs => {
            let created = std::fs::create_dir_all(directory);
            let sentence = || format!("cannot create the directory {}", directory.display());
            created.with_context(sentence).map_err(|error| report_local_error(&error))?;
        }
        Some(directory) if !arguments.transfer.recursive => {
            return Err(report_wrong_arguments(anyhow!(
                "no local directory {}: create it, use --create-dirs, or use another",
                directory.display()
            )));
        }
        _ => {}
    }
    match urls.as_slice() {
        [url] if matches!(url.scheme, UrlScheme::Tftp(_)) => get_tftp(arguments, url, local_path),
        urls if is_ftp => ftp::get_files(arguments, urls, local_path),
        _ => Err(report_wrong_arguments(anyhow!("TFTP downloads one file at a time"))),
    }
}

/// Returns the directory of the destination if it does not exist.
fn missing_directory(named: &Path) -> Option<&Path> {
    if named == Path::new("-") || named.is_dir() {
        return None;
    }
    let directory = match named.as_os_str().as_bytes().ends_with(b"/") {
        true => Some(named),
        false => named.parent().filter(|directory| *directory != Path::new("")),
    };
    directory.filter(|directory| !directory.is_dir())
}

fn split(locations: &[Location]) -> (Vec<Url>, Vec<PathBuf>) {
    let mut urls = Vec::new();
    let mut local = Vec::new();
    for location in locations {
        match location {
            Location::Remote(url) => urls.push(url.clone()),
            Location::Local(path) => local.push(path.clone()),
        }
    }
    (urls, local)
}

fn get_tftp(arguments: &Get, url: &Url, named: Option<&Path>) -> exit::Result {
    let path = destination(url, named).map_err(report_wrong_arguments)?;
    let existing = if arguments.force { Existing::Replace } else { Existing::Keep };
    let sink = Sink::open(&path, existing).map_err(|sink_error| match sink_error {
        SinkError::Exists(path) => report_wrong_arguments(anyhow!(
            "{} exists: use -f to replace it, or name another file",
            path.display()
        )),
        SinkError::Refused(error) => report_local_error(&error),
    })?;
    run(url, Operation::Get(sink), None, &arguments.common, &path)
}

/// Runs `plumb put`.
pub(crate) fn put(arguments: &Put) -> exit::Result {
    let (urls, local) = split(&arguments.locations);
    let (Some(Location::Remote(url)), [_]) = (arguments.locations.last(), urls.as_slice()) else {
        return Err(report_wrong_arguments(anyhow!(
            "invalid arguments: give one or more local files, then one URL"
        )));
    };
    arguments.check(matches!(url.scheme, UrlScheme::Ftp(..))).map_err(report_wrong_arguments)?;
    match (url.scheme, local.as_slice()) {
        (UrlScheme::Ftp(..), files) => ftp::put_files(arguments, files, url),
        (UrlScheme::Tftp(_), [file]) => put_tftp(arguments, file, url),
        _ => Err(report_wrong_arguments(anyhow!("TFTP uploads one file at a time"))),
    }
}

fn put_tftp(arguments: &Put, file: &Path, url: &Url) -> exit::Result {
    let mut url = url.clone();
    if url.last_component().is_empty() {
        let Some(name) = file.file_name().filter(|name| *name != OsStr::new("-")) else {
            return Err(report_wrong_arguments(anyhow!("the URL has no file name: use {url}name")));
        };
        url.name.extend_from_slice(name.as_bytes());
    }
    let (source, size) = LocalSource::open(file).map_err(|error| report_local_error(&error))?;
    run(&url, Operation::Put(source, size), size, &arguments.common, file)
}

fn report_wrong_arguments(error: anyhow::Error) -> Failure {
    exit::print_error(&error);
    drop(error);
    Failure::WrongArguments
}

fn report_local_error(error: &anyhow::Error) -> Failure {
    exit::print_error(error);
    Failure::ThisMachine
}

/// Returns the local path of a download. If `named` is a directory or `None`, the file gets the
/// last component of the URL as its name. The user has typed the URL, so the server cannot choose
/// the name.
fn destination(url: &Url, named: Option<&Path>) -> Result<PathBuf> {
    if url.name.is_empty() {
        return Err(anyhow!("{url} has no file name"));
    }
    let file_name = OsStr::from_bytes(url.last_component());
    match named {
        Some(path) if path != Path::new("-") && path.is_dir() => path_in_directory(file_name, path),
        Some(path) => Ok(path.to_owned()),
        None => path_in_directory(file_name, Path::new("")),
    }
}

fn path_in_directory(name: &OsStr, directory: &Path) -> Result<PathBuf> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(anyhow!("the URL has no file name: add a local file name")),
        _ => Ok(directory.join(name)),
    }
}

fn run(
    url: &Url,
    operation: Operation,
    size: Option<u64>,
    common: &CommonOptions,
    local: &Path,
) -> exit::Result {
    let UrlScheme::Tftp(mode) = url.scheme else { return Err(Failure::WrongArguments) };
    let began = Instant::now();
    let lookup_result = carrier::addresses(
        &url.target,
        common.connection.family.families(),
        &common.connection.via,
        None,
    );
    let addresses = lookup_result.map_err(|error| report_local_error(&error))?;
    let addresses = addresses.map_err(|none| exit::remote_failure(none.to_string()))?;
    let spec = TransferSpec {
        host: url.target.host.clone(),
        addresses,
        name: url.name.clone(),
        mode,
        block_size: common.block_size.unwrap_or(DEFAULT_BLOCK_BYTES),
        window_size: common.window.unwrap_or(DEFAULT_WINDOW_BLOCKS),
        answer_timeout: Duration::from_secs(common.connection.timeout.into()),
        bytes_per_second: common.limit_rate,
        via: common.connection.via.clone(),
        resolve_time: began.elapsed(),
        registry: MeterRegistry::new(url.to_string()),
    };
    let recorder =
        TransferRecorder::for_client(!common.connection.record_options.no_record, print_warning);
    let progress = Progress::new(common.connection.quiet || common.connection.json, false);
    let progress = Arc::new(Mutex::new(progress));
    let display = Arc::clone(&progress);
    let print_options_once = Once::new();
    let is_verbose = common.connection.verbose;
    let file_name = escaped(url.last_component());
    let outcome = run_transfer(&spec, operation, &recorder, move |stats| {
        if let Some(agreed) = stats.agreed.filter(|_| is_verbose) {
            print_options_once.call_once(|| print_message(&format!("< {}", agreed_text(agreed))));
        }
        let announced = stats.agreed.and_then(|agreed| agreed.transfer_size);
        let mut progress = display.lock().unwrap_or_else(PoisonError::into_inner);
        progress.show(stats.file_bytes, size.or(announced), |_| file_name.clone());
    });
    progress.lock().unwrap_or_else(PoisonError::into_inner).end();
    let report = outcome.map_err(|error| report_local_error(&error))?;
    recorder.keep(&report.record);
    recorder.flush();
    print_report(&report, url, common, local)
}

/// Formats the parameters agreed with the server, for `--verbose`. A parameter that the server's
/// OACK (RFC 2347) omits has its default value.
fn agreed_text(agreed: AgreedParameters) -> String {
    let AgreedParameters { block_size, window_size, timeout_s, transfer_size } = agreed;
    let option = |name: &str, value: Option<u64>| {
        value.map(|value| format!(", {name} {value}")).unwrap_or_default()
    };
    let seconds = option("timeout", timeout_s.map(u64::from));
    let size = option("tsize", transfer_size);
    format!("negotiated: blksize {block_size}, windowsize {window_size}{seconds}{size}")
}

/// Runs the transfer in this thread, until it ends or is interrupted.
fn run_transfer(
    spec: &TransferSpec,
    operation: Operation,
    recorder: &TransferRecorder,
    progress: impl Fn(&tftp::TftpTransferStats) + Send + Sync + 'static,
) -> Result<TftpReport> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = Arc::new(Stop::default());
    let outcome = runtime.block_on(async {
        let mut signals = TerminationSignals::new()?;
        let signal_stop = Arc::clone(&stop);
        tokio::spawn(async move {
            signals.recv().await;
            signal_stop.request();
        });
        tokio::spawn(meters::serve_long_run(Arc::clone(&spec.registry)));
        tftp::run(spec, operation, &stop, &Arc::new(progress), recorder).await
    });
    // A thread that is blocked on a pipe keeps running until the process exits.
    runtime.shutdown_background();
    outcome
}

/// Prints the result of a transfer.
fn print_report(
    report: &TftpReport,
    url: &Url,
    common: &CommonOptions,
    local: &Path,
) -> exit::Result {
    let record = &report.record.transfer;
    let is_download = report.stats.direction == Direction::Read;
    let is_stdout = is_download && local == Path::new("-");
    if common.connection.json {
        let line = record.to_line();
        let write_result = match is_stdout {
            true => std::io::stderr().write_all(line.as_bytes()),
            false => std::io::stdout().write_all(line.as_bytes()),
        };
        write_result.map_err(|error| {
            report_local_error(
                &anyhow::Error::new(error).context("cannot write to the standard output"),
            )
        })?;
    }
    if let Some(format) = &common.write_out {
        let text = format.text(record, is_download, &url.to_string(), &local.to_string_lossy());
        std::io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| report_local_error(&error.into()))?;
    }
    if let Some(error) = &report.error {
        exit::print_error(&anyhow::Error::msg(error.sentence(&report.stats, &url.name)));
        return Err(error.failure().into());
    }
    if !common.connection.quiet && !common.connection.json {
        let verb = if is_download { "downloaded" } else { "uploaded" };
        print_message(&format!("{verb} '{}': {}", escaped(&url.name), summary(record)));
        if common.connection.verbose {
            print_message(&time_breakdown(record));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved_destination(url: &str, named: Option<&str>) -> Result<PathBuf> {
        destination(&url.parse().unwrap(), named.map(Path::new))
    }

    // attack row 81
    #[test]
    fn local_file_is_named_after_the_last_component_of_the_typed_url() {
        let path = resolved_destination("tftp://a/boot/kernel", None).unwrap();
        assert_eq!(path, Path::new("kernel"));
        assert_eq!(
            resolved_destination("tftp://a/boot/kernel", Some("/")).unwrap(),
            Path::new("/kernel")
        );
        assert_eq!(
            resolved_destination("tftp://a/kernel", Some("other")).unwrap(),
            Path::new("other")
        );
        assert_eq!(resolved_destination("tftp://a/kernel", Some("-")).unwrap(), Path::new("-"));
    }

    // attack row 81
    #[test]
    fn invalid_local_file_names_are_refused() {
        for url in ["tftp://a/", "tftp://a/..", "tftp://a/b/.", "tftp://a/%2e%2e"] {
            assert!(resolved_destination(url, None).is_err(), "{url}");
        }
        assert_eq!(resolved_destination("tftp://a/..%2fb", None).unwrap(), Path::new("b"));
    }
}
