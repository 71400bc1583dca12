//! `plumb mirror`: makes a directory on one host equal to a directory on the other.
//!
//! A file is transferred if it does not exist at the destination, if its size differs, or if the
//! source is newer. Names that exist only at the destination are kept; `--delete` deletes them.
//! Links, devices, and names that the rules exclude are left alone on both hosts. A directory that
//! contains such a name is not deleted. If a host stores words under TYPE I, sizes are not
//! compared.
//!
//! A name is deleted because it is missing in the listings of the other host. These listings are
//! audited: if a listing cannot be read completely, nothing is deleted.

use super::batch::{BatchItem, BatchOptions, run_batch};
use super::command_options::{ConnectionOptions, host_transfer_options};
use super::command_output::{change_as_json, print};
use super::removal::{amount_text, check_named, confirm, remove_directory, remove_file};
use super::rules::Rules;
use super::run_command::{report_error, run_command};
use crate::exit;
use crate::files::get_put_arguments::rate;
use crate::files::location::Location;
use crate::files::progress::print_message;
use crate::heading;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS,
    METERS, NETRC,
};
use crate::manual::{ManualNote, ManualPage};
use anyhow::Context;
use os::beneath::{Existing, Kind as LocalKind, RootDir};
use protocols::ftp::Timestamp;
use protocols::ftp::listing::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::{Audit, join, name_of, unparsed_text};
use transfer::ftp::{Destination, Download, PART_SUFFIX};
use transfer::url::Url;

/// Introduction of `plumb mirror --help`.
pub(crate) const MIRROR_ABOUT: &str = "\
Mirror a directory to or from an FTP server.

One of the source and the destination is an FTP URL, the other a local directory. A file is \
transferred if the destination does not have it, if the sizes differ, or if the source is newer. \
The copy gets the time of the source.

The --include and --exclude rules are read from left to right, and the last rule that matches a \
name decides. Names that match no rule are mirrored, unless the first rule is --include. A glob \
without a slash is compared with the last component of a name. A glob with a slash is compared \
with the whole name below the directory. A glob that ends with a slash matches directories with \
all their contents. Excluded names and the directories that contain them are not deleted. If the \
first rule is --include, no directory is deleted. Links and devices are skipped on both hosts.";

/// Manual page of `plumb mirror`.
pub(crate) const MIRROR_PAGE: ManualPage = ManualPage {
    command: "mirror",
    examples: &[
        "plumb mirror ftp://ftp.example.net/pub/tree tree",
        "plumb mirror --delete -n site ftpes://me@example.net/www",
        "plumb mirror -j 4 --exclude .git/ --exclude '*.o' src ftpes://me@example.net/src",
        "plumb mirror --include '*.gz' ftp://example.net/logs logs",
    ],
    notes: &[ManualNote::Text(
        "JSON",
        "With --json, the record of each transferred file is a line. Each deleted name is a \
         line with \"what\", \"name\" and \"kind\"; with -n, so is each planned action.",
    )],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
    files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL, METERS],
    see_also: &["get", "put", "stats"],
};

/// Maximum number of entries in a local directory.
const ENTRIES_MAX: usize = 1_000_000;

/// Arguments of `plumb mirror`.
#[derive(Debug, clap::Args)]
pub(crate) struct Mirror {
    /// Source: a URL or a local directory
    #[arg(value_name = "from")]
    from: Location,
    /// Destination: a URL or a local directory
    #[arg(value_name = "to")]
    to: Location,
    /// Delete names at the destination that the source does not have
    #[arg(long)]
    delete: bool,
    /// With --delete: do not ask for confirmation, and accept a root directory, '.' and '..' as
    /// destination
    #[arg(short, long)]
    force: bool,
    /// Only print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    rules: Rules,
    /// Number of files transferred in parallel, each over its own session
    #[arg(short, long, value_name = "count", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64), help_heading = heading::TRANSFER)]
    jobs: u32,
    /// Maximum rate in bytes per second; K, M and G mean thousands, millions and billions
    /// [default: unlimited]
    #[arg(long, value_name = "rate", value_parser = rate, help_heading = heading::TRANSFER)]
    limit_rate: Option<u64>,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Directory,
    File,
    /// A device, or a symbolic link, whose target may be outside the directory.
    Other,
}

/// Properties of one name on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryInfo {
    kind: EntryKind,
    size: Option<u64>,
    modified: Option<Timestamp>,
}

impl EntryInfo {
    fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }
}

type Tree = BTreeMap<Vec<u8>, EntryInfo>;
type Names = BTreeSet<Vec<u8>>;

/// Content of the mirrored directory on one host.
#[derive(Debug, Default)]
struct MirrorSide {
    tree: Tree,
    /// Names that exist but are not in `tree`, and are left alone on both hosts.
    left_out: Names,
}

impl MirrorSide {
    /// Keeps the selected names in `tree`, and moves the other names to `left_out`.
    fn retain(&mut self, mut is_selected: impl FnMut(&[u8], &EntryInfo) -> bool) {
        let left_out = &mut self.left_out;
        self.tree.retain(|name, info| {
            let is_kept = is_selected(name, info);
            if !is_kept {
                left_out.insert(name.clone());
            }
            is_kept
        });
    }

    fn links_and_devices(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.tree.iter().filter(|(_, info)| info.kind == EntryKind::Other).map(|(name, _)| name)
    }
}

/// Changes to make at the destination, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct MirrorPlan {
    deleted: Vec<(Vec<u8>, bool)>,
    directories: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// Names that are a directory on one host and not on the other host. Neither host's entry is
    /// changed.
    kind_conflicts: Vec<Vec<u8>>,
}

/// Changes that are permitted at the destination.
#[derive(Clone, Copy, Debug)]
struct AllowedChanges {
    deletes: bool,
    deletes_directories: bool,
    compares_sizes: bool,
}

/// Returns all parent directories of a name, the nearest last.
fn ancestors(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

fn plan(from: &MirrorSide, to: &MirrorSide, allowed: AllowedChanges) -> MirrorPlan {
    let mut plan = MirrorPlan::default();
    let left_alone =
        [from, to].into_iter().flat_map(|side| side.links_and_devices().chain(&side.left_out));
    let left_alone: BTreeSet<&[u8]> = left_alone.map(Vec::as_slice).collect();
    // Names below the name of a link are left alone like the link itself.
    let is_left_alone = |name: &[u8]| {
        left_alone.contains(name) || ancestors(name).any(|name| left_alone.contains(name))
    };
    // A directory that contains a name to leave alone is not deleted.
    let kept_names = to.left_out.iter().chain(to.tree.keys().filter(|name| is_left_alone(name)));
    let parents_of_kept: BTreeSet<&[u8]> = kept_names.flat_map(|name| ancestors(name)).collect();
    let is_deleted = |name: &[u8], target: &EntryInfo| {
        let may_be_deleted = !target.is_directory()
            || allowed.deletes_directories && !parents_of_kept.contains(name);
        allowed.deletes && may_be_deleted && !is_left_alone(name)
    };
    let mut blocked_directories = BTreeSet::new();
    for (name, source) in from.tree.iter().filter(|(name, _)| !is_left_alone(name)) {
        let target = to.tree.get(name);
        let has_other_kind = target.is_some_and(|target| target.kind != source.kind);
        if ancestors(name).any(|directory| blocked_directories.contains(directory)) {
            continue;
        }
        if has_other_kind && !target.is_some_and(|target| is_deleted(name, target)) {
            // The destination has a file with the name of a directory, or a directory with the name
            // of a file. The entry at the destination stays, because it may not be deleted.
            plan.kind_conflicts.push(name.clone());
            blocked_directories.insert(name.as_slice());
            continue;
        }
        match (source.is_directory(), target.filter(|_| !has_other_kind)) {
            (true, Some(_)) => {}
            (true, None) => plan.directories.push(name.clone()),
            (false, Some(target)) if !is_newer(source, target, allowed.compares_sizes) => {}
            (false, _) => plan.files.push(name.clone()),
        }
    }
    let is_missing_at_source = |name: &[u8], target: &EntryInfo| {
        from.tree.get(name).is_none_or(|source| source.kind != target.kind)
    };
    // The content of a directory is deleted before the directory.
    let candidates = to.tree.iter().rev();
    let candidates = candidates
        .filter(|(name, target)| is_missing_at_source(name, target) && is_deleted(name, target));
    plan.deleted = candidates.map(|(name, target)| (name.clone(), target.is_directory())).collect();
    plan
}

/// Returns the plan. If the rules select files, directories that receive no file are left out.
fn plan_with_rules(
    rules: &Rules,
    from: &MirrorSide,
    to: &MirrorSide,
    allowed: AllowedChanges,
) -> MirrorPlan {
    let mut plan = plan(from, to, allowed);
    if rules.select_files() {
        leave_out_empty(&mut plan);
    }
    plan
}

fn is_newer(from: &EntryInfo, to: &EntryInfo, compares_sizes: bool) -> bool {
    let differs = compares_sizes && (from.size.is_none() || from.size != to.size);
    let newer = from.modified.zip(to.modified).is_none_or(|(from, to)| from.seconds > to.seconds);
    differs || newer
}

/// Returns the remote directory, the local directory, and whether the local one is the destination.
fn locations(arguments: &Mirror) -> Result<(&Url, &Path, bool), FtpError> {
    match (&arguments.from, &arguments.to) {
        (Location::Remote(url), Location::Local(directory)) => Ok((url, directory, true)),
        (Location::Local(directory), Location::Remote(url)) => Ok((url, directory, false)),
        _ => {
            let sentence = "use one URL, such as ftp://host/directory, and one local directory: \
                            the source, then the destination";
            Err(FtpError::InvalidRequest(sentence.to_owned()))
        }
    }
}

/// Runs `plumb mirror`.
pub(crate) fn mirror(arguments: &Mirror) -> exit::Result {
    let (url, directory, is_incoming) =
        locations(arguments).map_err(|error| report_error(&error))?;
    let to = if is_incoming { directory.as_os_str().as_bytes() } else { &url.name };
    check_destination(arguments, to).map_err(|error| report_error(&error))?;
    let mut options =
        host_transfer_options(url, Existing::Replace).map_err(|error| report_error(&error))?;
    run_command(url, &arguments.connection, arguments.limit_rate, async |connector| {
        let mut client = FtpClient::new(&connector);
        let rules = &arguments.rules;
        client.choose_type(&mut options).await?;
        // A partial download of the previous run is resumed.
        options.continues = is_incoming && options.representation.keeps_octets();
        let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let root = root.unwrap_or(&url.name);
        if is_incoming && arguments.delete {
            client.audit = Some(Audit { root: root.to_vec(), uncertain: 0 });
        }
        let mut remote = list_remote(&mut client, root, is_incoming, rules).await?;
        refuse_unparsed(client.audit.take(), &client)?;
        let is_missing = is_incoming && !directory.is_dir();
        let mut local = if is_missing { MirrorSide::default() } else { list_local(directory)? };
        local.retain(|name, info| rules.selects_path(name, info.is_directory()));
        client.skipped_names += leave_out_untransferable(&mut local);
        if is_incoming {
            leave_out_partials(&mut local, &remote.tree);
        }
        let allowed = AllowedChanges {
            deletes: arguments.delete,
            deletes_directories: !rules.select_files(),
            compares_sizes: options.representation.keeps_octets(),
        };
        if client.has_rough_times {
            exact_times(&mut client, root, &mut remote.tree, &local.tree, allowed).await?;
        }
        let (from, to) = if is_incoming { (&remote, &local) } else { (&local, &remote) };
        let plan = plan_with_rules(rules, from, to, allowed);
        let connection = &arguments.connection;
        print_skipped(&local, &remote);
        print_kind_conflicts(&plan);
        if arguments.dry_run {
            client.quit().await;
            return print_plan(&plan, is_incoming, connection.json);
        }
        let is_json = connection.json;
        let is_quiet = connection.quiet || connection.json;
        confirm_deletion(&client, &plan, arguments.force, is_quiet).await?;
        let has_rough_times = client.has_rough_times;
        let mirror_run = MirrorRun { directory, root, has_rough_times, is_json, is_quiet };
        let (items, deleted) = match is_incoming {
            true => mirror_run.prepare_local(&plan, &remote.tree)?,
            false => mirror_run.prepare_remote(&mut client, &plan).await?,
        };
        let not_deleted = u64::try_from(plan.deleted.len() - deleted).unwrap_or(u64::MAX);
        client.skipped_names = client.skipped_names.saturating_add(not_deleted);
        let suffix = if deleted > 0 { format!(", and deleted {deleted}") } else { String::new() };
        let jobs = arguments.jobs;
        let batch = BatchOptions {
            options,
            jobs,
            is_json,
            is_quiet,
            is_stdout: false,
            write_out: None,
            earlier_actions: suffix,
        };
        run_batch(&connector, client, items, &batch, "mirrored").await
    })
}

/// Refuses to delete in a destination such as the root, `.` or `..`, unless `--force` is given: a
/// mistyped destination would lose all its content.
fn check_destination(arguments: &Mirror, to: &[u8]) -> Result<(), FtpError> {
    if !arguments.delete || arguments.force || arguments.dry_run {
        return Ok(());
    }
    let with_remedy = |error: FtpError| {
        let sentence = error.sentence();
        FtpError::InvalidRequest(format!("{sentence}, or use --force"))
    };
    check_named(to, "delete in the destination").map_err(with_remedy)
}

/// Prints the number of files and directories to delete, and asks for confirmation on a terminal.
async fn confirm_deletion(
    client: &FtpClient,
    plan: &MirrorPlan,
    is_forced: bool,
    is_quiet: bool,
) -> Result<(), FtpError> {
    if plan.deleted.is_empty() {
        return Ok(());
    }
    let amount = amount_text(&plan.deleted);
    if !is_quiet {
        print_message(&format!("deleting {amount} at the destination"));
    }
    if is_forced {
        return Ok(());
    }
    confirm(client, &format!("delete {amount} at the destination?")).await
}

async fn list_remote(
    client: &mut FtpClient,
    root: &[u8],
    must_exist: bool,
    rules: &Rules,
) -> Result<MirrorSide, FtpError> {
    let mut side = MirrorSide::default();
    let is_selected = |name: &[u8], is_directory: bool| {
        let is_selected = rules.selects(name, is_directory);
        if !is_selected {
            side.left_out.insert(name.to_vec());
        }
        is_selected
    };
    let entries = match client.list_tree(root, is_selected).await {
        Ok(found) => found,
        Err(error) if error.is_refusal() && !must_exist => return Ok(MirrorSide::default()),
        Err(error) => return Err(error),
    };
    let names: Names = entries.iter().map(|found| found.relative_path.clone()).collect();
    let entries = if must_exist { client.retain_valid_local_names(entries) } else { entries };
    let kept_names: BTreeSet<&[u8]> =
        entries.iter().map(|found| found.relative_path.as_slice()).collect();
    side.left_out.extend(names.into_iter().filter(|name| !kept_names.contains(name.as_slice())));
    side.tree.extend(entries.into_iter().map(|found| {
        let kind = match found.entry.kind {
            Kind::Directory | Kind::Current | Kind::Parent => EntryKind::Directory,
            Kind::File => EntryKind::File,
            Kind::Link | Kind::Other => EntryKind::Other,
        };
        let size = found.entry.size;
        let modified = found.entry.modified;
        (found.relative_path, EntryInfo { kind, size, modified })
    }));
    Ok(side)
}

/// Replaces the times reported by LIST with the times reported by MDTM, for files whose times are
/// compared. The times of a file are compared if both hosts have the file, and its sizes are equal
/// or not compared.
async fn exact_times(
    client: &mut FtpClient,
    root: &[u8],
    remote: &mut Tree,
    local: &Tree,
    allowed: AllowedChanges,
) -> Result<(), FtpError> {
    for (name, info) in remote.iter_mut().filter(|(_, info)| info.kind == EntryKind::File) {
        let Some(own) = local.get(name).filter(|own| own.kind == EntryKind::File) else { continue };
        if !allowed.compares_sizes || own.size == info.size {
            let modified = client.modification_time(&join(root, name)).await?;
            info.modified = modified.or(info.modified);
        }
    }
    Ok(())
}

/// Returns an error if listings on which deletions depend could not be read completely.
fn refuse_unparsed(audit: Option<Audit>, client: &FtpClient) -> Result<(), FtpError> {
    let why = match audit.map_or(0, |audit| audit.uncertain) {
        0 => return Ok(()),
        count => unparsed_text(&client.unparsed).unwrap_or_else(|| match count {
            1 => "1 entry of the remote listings has an unknown type or content".to_owned(),
            _ => {
                format!("{count} entries of the remote listings have an unknown type or content")
            }
        }),
    };
    Err(FtpError::NotFound(format!(
        "{why}; nothing is deleted: omit --delete to mirror without deleting"
    )))
}

/// Returns the content of a local directory.
fn list_local(directory: &Path) -> Result<MirrorSide, FtpError> {
    let root_dir = RootDir::open(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let mut side = MirrorSide::default();
    let mut pending_directories = vec![Vec::new()];
    while let Some(relative_path) = pending_directories.pop() {
        let name: &[u8] = if relative_path.is_empty() { b"." } else { &relative_path };
        let entries = root_dir.list(name, ENTRIES_MAX).with_context(|| {
            let path = directory.join(std::ffi::OsStr::from_bytes(&relative_path));
            format!("cannot read the directory {}", path.display())
        })?;
        for entry in entries {
            let path = join(&relative_path, &entry.name);
            let kind = match entry.status.kind {
                LocalKind::Directory => EntryKind::Directory,
                LocalKind::File => EntryKind::File,
                LocalKind::Other => EntryKind::Other,
            };
            if kind == EntryKind::Directory {
                pending_directories.push(path.clone());
            }
            let modified = Some(Timestamp { seconds: entry.status.modified_s, nanos: 0 });
            side.tree.insert(path, EntryInfo { kind, size: Some(entry.status.len), modified });
        }
    }
    Ok(side)
}

/// Moves names that FTP cannot transfer to `left_out`, so that these names are neither sent nor
/// treated as missing on the server. Prints and returns the number of names.
fn leave_out_untransferable(local: &mut MirrorSide) -> u64 {
    let count_before = local.tree.len();
    local.retain(|name, _| name_of(name).is_ok());
    let count = count_before - local.tree.len();
    if count > 0 {
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        print_message(&format!(
            "skipped {names} in the local directory: FTP cannot transfer names with line breaks"
        ));
    }
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Moves the partial downloads of remote files to `left_out`, because partial downloads are resumed
/// and not deleted.
fn leave_out_partials(local: &mut MirrorSide, remote: &Tree) {
    local.retain(|name, _| remote.contains_key(name) || !is_part_of_remote(name, remote));
}

/// Returns whether `name` is the partial download of a remote file.
fn is_part_of_remote(name: &[u8], remote: &Tree) -> bool {
    name.strip_suffix(PART_SUFFIX).is_some_and(|whole| remote.contains_key(whole))
}

/// Removes from the plan the directories that receive no file.
fn leave_out_empty(plan: &mut MirrorPlan) {
    let files = &plan.files;
    let is_below = |name: &[u8], directory: &[u8]| {
        name.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
    };
    plan.directories.retain(|directory| files.iter().any(|name| is_below(name, directory)));
}

/// Prints which links and devices are left alone.
fn print_skipped(local: &MirrorSide, remote: &MirrorSide) {
    for (side, other, host) in [(local, remote, "local"), (remote, local, "remote")] {
        let (on_both, alone): (Vec<_>, Vec<_>) =
            side.links_and_devices().partition(|name| other.tree.contains_key(*name));
        for name in on_both {
            let escaped = escaped(name);
            print_message(&format!(
                "skipped '{escaped}' on both hosts: the {host} one is a link or a device"
            ));
        }
        match alone.len() {
            0 => {}
            1 => print_message(&format!("skipped 1 {host} link or device")),
            count => print_message(&format!("skipped {count} {host} links or devices")),
        }
    }
}

fn print_kind_conflicts(plan: &MirrorPlan) {
    for name in &plan.kind_conflicts {
        let escaped = escaped(name);
        print_message(&format!(
            "skipped '{escaped}': it is a directory on one host only; --delete replaces it if the \
             directory contains no excluded name"
        ));
    }
}

/// Prints the plan.
fn print_plan(plan: &MirrorPlan, is_incoming: bool, is_json: bool) -> Result<(), FtpError> {
    let transfer_action = if is_incoming { "get" } else { "put" };
    let mut text = String::new();
    let mut add = |action: &str, name: &[u8], is_directory: bool| {
        let suffix = if is_directory { "/" } else { "" };
        text.push_str(&match is_json {
            true => format!("{}\n", change_as_json(action, name, is_directory)),
            false => format!("{action} {}{suffix}\n", escaped(name)),
        });
    };
    plan.deleted.iter().for_each(|(name, is_directory)| add("delete", name, *is_directory));
    plan.directories.iter().for_each(|name| add("make", name, true));
    plan.files.iter().for_each(|name| add(transfer_action, name, false));
    print(text.as_bytes())
}

/// Directories of a mirror, and the format of its output.
#[derive(Clone, Copy)]
struct MirrorRun<'a> {
    directory: &'a Path,
    root: &'a [u8],
    has_rough_times: bool,
    is_json: bool,
    is_quiet: bool,
}

impl MirrorRun<'_> {
    /// Reports a deleted name.
    fn report_deleted(&self, name: &[u8], is_directory: bool) -> Result<(), FtpError> {
        if self.is_json {
            return print(
                format!("{}\n", change_as_json("deleted", name, is_directory)).as_bytes(),
            );
        }
        if !self.is_quiet {
            print_message(&format!(
                "deleted '{}{}'",
                escaped(name),
                if is_directory { "/" } else { "" }
            ));
        }
        Ok(())
    }

    /// Deletes names and creates directories. Returns the files to transfer and the number of names
    /// that were deleted.
    fn prepare_local(
        &self,
        plan: &MirrorPlan,
        remote: &Tree,
    ) -> Result<(Vec<BatchItem>, usize), FtpError> {
        let created = std::fs::create_dir_all(self.directory);
        created
            .with_context(|| format!("cannot create the directory {}", self.directory.display()))?;
        let root_dir = Arc::new(RootDir::open(self.directory).map_err(anyhow::Error::new)?);
        let mut deleted = 0;
        for (name, is_directory) in &plan.deleted {
            let result = match is_directory {
                true => root_dir.remove_directory(name),
                false => root_dir.remove_file(name),
            };
            match result {
                Ok(()) => {
                    deleted += 1;
                    self.report_deleted(name, *is_directory)?;
                }
                Err(error) => {
                    print_message(&format!("'{}' was not deleted: {error}", escaped(name)));
                }
            }
        }
        for name in &plan.directories {
            let created = root_dir.create_directory(name);
            created.with_context(|| format!("cannot create the directory '{}'", escaped(name)))?;
        }
        let item = |name: &Vec<u8>| {
            let info = remote.get(name);
            BatchItem::Get(Download {
                path: join(self.root, name),
                size: info.and_then(|info| info.size),
                modified: info.and_then(|info| info.modified),
                has_rough_time: self.has_rough_times,
                is_part_name_taken: remote.contains_key(&[name.as_slice(), PART_SUFFIX].concat()),
                destination: Destination::Beneath(Arc::clone(&root_dir), name.clone()),
            })
        };
        Ok((plan.files.iter().map(item).collect(), deleted))
    }

    /// Like [`Self::prepare_local`], but on the server.
    async fn prepare_remote(
        &self,
        client: &mut FtpClient,
        plan: &MirrorPlan,
    ) -> Result<(Vec<BatchItem>, usize), FtpError> {
        if !self.root.is_empty() && self.root != b"/" {
            client.ensure_directory(self.root).await?;
        }
        let mut deleted = 0;
        for (name, is_directory) in &plan.deleted {
            let path = join(self.root, name);
            let removed = match is_directory {
                true => remove_directory(client, &path).await,
                false => remove_file(client, &path).await,
            };
            match removed {
                // A deletion that the server refuses does not end the mirror.
                Err(error) if error.is_refusal() => {
                    print_message(&format!(
                        "'{}' was not deleted: {}",
                        escaped(name),
                        error.sentence()
                    ));
                }
                removed => {
                    removed?;
                    deleted += 1;
                    self.report_deleted(name, *is_directory)?;
                }
            }
        }
        for name in &plan.directories {
            client.ensure_directory(&join(self.root, name)).await?;
        }
        let item = |name: &Vec<u8>| {
            let from: PathBuf = self.directory.join(std::ffi::OsStr::from_bytes(name));
            BatchItem::Put(transfer::ftp::Upload { from, path: join(self.root, name) })
        };
        Ok((plan.files.iter().map(item).collect(), deleted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETES: AllowedChanges =
        AllowedChanges { deletes: true, deletes_directories: true, compares_sizes: true };
    const ADDS: AllowedChanges = AllowedChanges { deletes: false, ..DELETES };

    /// Returns one side of a mirror with the given names, sizes and times. Size 0 means a
    /// directory, and a name that ends with `@` is a link.
    fn side(names: &[(&str, u64, i64)]) -> MirrorSide {
        let info = |(name, size, seconds): &(&str, u64, i64)| {
            let kind = match (name.strip_suffix('@'), size) {
                (Some(_), _) => EntryKind::Other,
                (None, 0) => EntryKind::Directory,
                (None, _) => EntryKind::File,
            };
            let modified = Some(Timestamp { seconds: *seconds, nanos: 0 });
            let name = name.trim_end_matches('@').as_bytes().to_vec();
            (name, EntryInfo { kind, size: Some(*size), modified })
        };
        MirrorSide { tree: names.iter().map(info).collect(), left_out: Names::new() }
    }

    fn deleted(plan: &MirrorPlan) -> Vec<String> {
        let text = |(name, _): &(Vec<u8>, bool)| String::from_utf8(name.clone()).unwrap();
        plan.deleted.iter().map(text).collect()
    }

    #[test]
    fn new_newer_and_differently_sized_files_are_transferred() {
        let from = side(&[("d", 0, 1), ("d/a", 1, 5), ("d/b", 2, 5), ("d/c", 3, 5), ("e", 4, 5)]);
        let to = side(&[("d", 0, 1), ("d/a", 1, 4), ("d/b", 1, 9), ("d/c", 3, 9)]);
        let plan = plan(&from, &to, ADDS);
        assert_eq!(plan.files, [b"d/a".to_vec(), b"d/b".to_vec(), b"e".to_vec()]);
        assert!(plan.deleted.is_empty() && plan.directories.is_empty());
    }

    #[test]
    fn names_that_ftp_cannot_transfer_are_not_deleted() {
        let mut local = side(&[("a\nb", 1, 1), ("d\re", 0, 1), ("c", 1, 1)]);
        assert_eq!(leave_out_untransferable(&mut local), 2);
        assert_eq!(deleted(&plan(&MirrorSide::default(), &local, DELETES)), ["c"]);
    }

    #[test]
    fn extra_names_are_deleted_bottom_up_if_deletion_is_enabled() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        assert!(plan(&MirrorSide::default(), &to, ADDS).deleted.is_empty());
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, DELETES)), ["x/y", "x"]);
    }

    #[test]
    fn the_counterpart_of_a_link_is_kept_with_its_content() {
        let from = side(&[("d@", 1, 1), ("f@", 1, 1), ("g", 1, 1), ("h", 0, 1), ("h/i", 1, 1)]);
        let to = side(&[("d", 0, 1), ("d/x", 1, 1), ("f", 1, 1), ("g@", 1, 0), ("h@", 1, 0)]);
        assert_eq!(plan(&from, &to, DELETES), MirrorPlan::default());
    }

    #[test]
    fn directories_with_excluded_names_or_links_are_kept() {
        let mut to =
            side(&[("d", 0, 1), ("d/e", 0, 1), ("d/f", 1, 1), ("g", 0, 1), ("g/l@", 1, 1)]);
        to.left_out.insert(b"d/e/x.o".to_vec());
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, DELETES)), ["d/f"]);
    }

    #[test]
    fn a_file_does_not_replace_a_directory_that_is_kept() {
        let from = side(&[("d", 1, 1)]);
        let mut to = side(&[("d", 0, 1), ("d/y", 1, 1)]);
        to.left_out.insert(b"d/x.o".to_vec());
        let plan = plan(&from, &to, DELETES);
        assert_eq!(
            (deleted(&plan), &plan.kind_conflicts),
            (vec!["d/y".to_owned()], &vec![b"d".to_vec()])
        );
        assert!(plan.files.is_empty());
    }

    #[test]
    fn no_directory_is_deleted_if_the_rules_select_files() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        let allowed = AllowedChanges { deletes_directories: false, ..DELETES };
        assert_eq!(deleted(&plan(&MirrorSide::default(), &to, allowed)), ["x/y"]);
    }
}
