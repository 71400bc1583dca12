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
use crate::exit::{self, print_diagnostic};
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
use records::severity::Severity;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transfer::escaped;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::FtpOptions;
use transfer::ftp::mirror_plan::{
    AllowedChanges, EntryInfo, EntryKind, MirrorPlan, MirrorSide, Names, Tree, leave_out_empty,
    plan,
};
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
    let connection = &arguments.connection;
    let mirror_options = MirrorOptions {
        deletes: arguments.delete,
        is_forced: arguments.force,
        is_dry_run: arguments.dry_run,
        rules: arguments.rules.clone(),
        jobs: arguments.jobs,
        is_json: connection.json,
        is_quiet: connection.quiet || connection.json,
    };
    run_command(url, connection, arguments.limit_rate, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.choose_type(&mut options).await?;
        let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let root = root.unwrap_or(&url.name);
        run_mirror(client, root, directory, is_incoming, options, &mirror_options).await
    })
}

/// Options of a mirror.
#[derive(Debug)]
pub(super) struct MirrorOptions {
    /// Whether names that the source does not have are deleted at the destination.
    pub(super) deletes: bool,
    /// Whether deletions need no confirmation.
    pub(super) is_forced: bool,
    /// Whether the plan is only printed.
    pub(super) is_dry_run: bool,
    pub(super) rules: Rules,
    pub(super) jobs: u32,
    pub(super) is_json: bool,
    pub(super) is_quiet: bool,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        let rules = Rules::default();
        let [deletes, is_forced, is_dry_run, is_json, is_quiet] = [false; 5];
        Self { deletes, is_forced, is_dry_run, rules, jobs: 1, is_json, is_quiet }
    }
}

/// Mirrors the remote directory `root` and the local `directory`; the local one is the destination if
/// `is_incoming`.
pub(super) async fn run_mirror(
    mut client: FtpClient,
    root: &[u8],
    directory: &Path,
    is_incoming: bool,
    mut options: FtpOptions,
    mirror_options: &MirrorOptions,
) -> Result<(), FtpError> {
    let MirrorOptions { deletes, is_forced, is_dry_run, rules, jobs, is_json, is_quiet } =
        mirror_options;
    let connector = Arc::clone(client.connector());
    // A partial download of the previous run is resumed.
    options.continues = is_incoming && options.representation.keeps_octets();
    if is_incoming && *deletes {
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
        deletes: *deletes,
        deletes_directories: !rules.select_files(),
        compares_sizes: options.representation.keeps_octets(),
    };
    if client.has_rough_times {
        exact_times(&mut client, root, &mut remote.tree, &local.tree, allowed).await?;
    }
    let (from, to) = if is_incoming { (&remote, &local) } else { (&local, &remote) };
    let plan = plan_with_rules(rules, from, to, allowed);
    print_skipped(&local, &remote);
    print_kind_conflicts(&plan);
    if *is_dry_run {
        client.quit().await;
        return print_plan(&plan, is_incoming, *is_json);
    }
    confirm_deletion(&client, &plan, *is_forced, *is_quiet).await?;
    let has_rough_times = client.has_rough_times;
    let mirror_run =
        MirrorRun { directory, root, has_rough_times, is_json: *is_json, is_quiet: *is_quiet };
    let (items, deleted) = match is_incoming {
        true => mirror_run.prepare_local(&plan, &remote.tree)?,
        false => mirror_run.prepare_remote(&mut client, &plan).await?,
    };
    let not_deleted = u64::try_from(plan.deleted.len() - deleted).unwrap_or(u64::MAX);
    client.skipped_names = client.skipped_names.saturating_add(not_deleted);
    let suffix = if deleted > 0 { format!(", and deleted {deleted}") } else { String::new() };
    let batch = BatchOptions {
        options,
        jobs: *jobs,
        is_json: *is_json,
        is_quiet: *is_quiet,
        is_stdout: false,
        write_out: None,
        earlier_actions: suffix,
    };
    run_batch(&connector, client, items.into(), &batch, "mirrored").await
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
        print_diagnostic(
            Severity::Warning,
            &format!(
                "skipped {names} in the local directory: FTP cannot transfer names with line breaks"
            ),
        );
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

/// Prints which links and devices are left alone.
fn print_skipped(local: &MirrorSide, remote: &MirrorSide) {
    for (side, other, host) in [(local, remote, "local"), (remote, local, "remote")] {
        let (on_both, alone): (Vec<_>, Vec<_>) =
            side.links_and_devices().partition(|name| other.tree.contains_key(*name));
        for name in on_both {
            let escaped = escaped(name);
            print_diagnostic(
                Severity::Warning,
                &format!("skipped '{escaped}' on both hosts: the {host} one is a link or a device"),
            );
        }
        match alone.len() {
            0 => {}
            1 => print_diagnostic(Severity::Note, &format!("skipped 1 {host} link or device")),
            count => print_diagnostic(
                Severity::Note,
                &format!("skipped {count} {host} links or devices"),
            ),
        }
    }
}

fn print_kind_conflicts(plan: &MirrorPlan) {
    for name in &plan.kind_conflicts {
        let escaped = escaped(name);
        print_diagnostic(
            Severity::Warning,
            &format!(
                "skipped '{escaped}': it is a directory on one host only; --delete replaces it if the \
             directory contains no excluded name"
            ),
        );
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
                    print_diagnostic(
                        Severity::Warning,
                        &format!("'{}' was not deleted: {error}", escaped(name)),
                    );
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
                    print_diagnostic(
                        Severity::Warning,
                        &format!("'{}' was not deleted: {}", escaped(name), error.sentence()),
                    );
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

    #[test]
    fn names_that_ftp_cannot_transfer_are_not_deleted() {
        let file = EntryInfo { kind: EntryKind::File, size: Some(1), modified: None };
        let tree = ["a\nb", "d\re", "c"].map(|name| (name.as_bytes().to_vec(), file));
        let mut local = MirrorSide { tree: tree.into(), left_out: Names::new() };
        assert_eq!(leave_out_untransferable(&mut local), 2);
        let allowed =
            AllowedChanges { deletes: true, deletes_directories: true, compares_sizes: true };
        let plan = plan(&MirrorSide::default(), &local, allowed);
        assert_eq!(plan.deleted, [(b"c".to_vec(), false)]);
    }
}
