//! `plumb mirror`: makes a directory on one host equal to a directory on the other.
//!
//! A file is transferred if it does not exist at the destination, if its size differs, or if the
//! source is newer. Names that exist only at the destination stay, unless `--delete` is given.
//! Names that the rules exclude are left alone on both hosts, and so are links and devices. A
//! directory that contains such a name is not deleted. If a host stores words under TYPE I, sizes
//! are not compared.
//!
//! A name is deleted because it is missing in the listings of the other host. These listings are
//! audited: if one cannot be read completely, nothing is deleted.

use super::batch::{Manner, Work, finish, make_there};
use super::desk::carry_out;
use super::dialogue::Dialogue;
use super::get::{self, PART, To};
use super::manage::show;
use super::options::{Reach, host_terms};
use super::put;
use super::remote::{Audit, join, name_of, unread_text};
use super::removal::{amount, check_named, confirm, remove_directory, remove_file};
use super::rules::Rules;
use super::trouble::Trouble;
use crate::exit;
use crate::files::arguments::{Place, rate};
use crate::files::progress::say;
use crate::files::shown::shown;
use anyhow::Context;
use os::jail::{Existing, Jail, Kind as Here};
use protocols::application::ftp::Timestamp;
use protocols::application::ftp::listing::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Introduction of `plumb mirror --help`.
pub(crate) const MIRROR_ABOUT: &str = "\
Mirror a directory to or from an FTP server.

One of FROM and TO is an FTP URL, the other a local directory. A file is transferred if the \
destination does not have it, if the sizes differ, or if the source is newer; the copy gets the \
time of the source.

The --include and --exclude rules are read from left to right, and the last one that matches a \
name decides; names that match no rule are mirrored, unless the first rule is --include. A GLOB \
without a slash is compared with the last component of a name, one with a slash with the whole \
name below the directory; one that ends with a slash matches directories only. Excluded names are \
not deleted, nor are directories that contain them; if the first rule is --include, no directory \
is deleted. Links and devices are skipped on both hosts.";

const EXAMPLES: &str = "\
Examples:
  plumb mirror ftp://ftp.example.net/pub/tree tree
  plumb mirror --delete -n site ftpes://me@example.net/www
  plumb mirror -j 4 --exclude .git/ --exclude '*.o' src ftpes://me@example.net/src
  plumb mirror --include '*.gz' ftp://example.net/logs logs

With --json, each transferred file is a line with its record, and each deleted name, or with -n each
planned action, is a line with \"what\", \"name\" and \"kind\".

Exit codes: 0 mirrored; 1 the server is unreachable, refused or timed out; 2 wrong arguments;
3 interrupted; 4 local error: a file cannot be read or written.";

/// Maximum number of entries in a local directory.
const ENTRIES_MAX: usize = 1_000_000;

/// Arguments of `plumb mirror`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mirror {
    /// Source: a URL or a local directory
    #[arg(value_name = "FROM")]
    from: Place,
    /// Destination: a URL or a local directory
    #[arg(value_name = "TO")]
    to: Place,
    /// Delete names at the destination that the source does not have
    #[arg(long)]
    delete: bool,
    /// With --delete: do not ask on a terminal, and accept a root directory, '.' and '..' as
    /// destination
    #[arg(short, long)]
    force: bool,
    /// Only print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    rules: Rules,
    /// Number of files transferred in parallel
    #[arg(short, long, value_name = "FILES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Maximum rate in bytes per second; K, M and G mean thousands, millions and billions
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Folder,
    File,
    /// A symbolic link, whose target may be anywhere, or a device.
    Other,
}

/// Properties of one name on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    what: What,
    size: Option<u64>,
    modified: Option<Timestamp>,
}

impl Known {
    fn is_folder(&self) -> bool {
        self.what == What::Folder
    }
}

type Tree = BTreeMap<Vec<u8>, Known>;
type Names = BTreeSet<Vec<u8>>;

/// Content of the mirrored directory on one host.
#[derive(Debug, Default)]
struct Side {
    tree: Tree,
    /// Existing names that are not in the tree. They are left alone on both hosts.
    left_out: Names,
}

impl Side {
    /// Keeps the names that are `wanted` in the tree, and moves the others to `left_out`.
    fn retain(&mut self, mut wanted: impl FnMut(&[u8], &Known) -> bool) {
        let left_out = &mut self.left_out;
        self.tree.retain(|name, known| {
            let is_wanted = wanted(name, known);
            if !is_wanted {
                left_out.insert(name.clone());
            }
            is_wanted
        });
    }

    fn others(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.tree.iter().filter(|(_, known)| known.what == What::Other).map(|(name, _)| name)
    }
}

/// Changes to make at the destination, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    deleted: Vec<(Vec<u8>, bool)>,
    folders: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// Names that are a directory on one host and something else on the other. They stay.
    unlike: Vec<Vec<u8>>,
}

/// Changes that are permitted at the destination.
#[derive(Clone, Copy, Debug)]
struct Leave {
    deletes: bool,
    deletes_folders: bool,
    compares_sizes: bool,
}

/// Returns all directories above a name, the nearest last.
fn above(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

fn plan(from: &Side, to: &Side, leave: Leave) -> Plan {
    let mut plan = Plan::default();
    let alone = [from, to].into_iter().flat_map(|side| side.others().chain(&side.left_out));
    let alone: BTreeSet<&[u8]> = alone.map(Vec::as_slice).collect();
    // Entries below the name of a link are left alone like the link.
    let is_alone =
        |name: &[u8]| alone.contains(name) || above(name).any(|name| alone.contains(name));
    // A directory that contains such an entry is not deleted.
    let stays = to.left_out.iter().chain(to.tree.keys().filter(|name| is_alone(name)));
    let holding: BTreeSet<&[u8]> = stays.flat_map(|name| above(name)).collect();
    let is_gone = |name: &[u8], there: &Known| {
        let may_go = !there.is_folder() || leave.deletes_folders && !holding.contains(name);
        leave.deletes && may_go && !is_alone(name)
    };
    let mut blocked = BTreeSet::new();
    for (name, here) in from.tree.iter().filter(|(name, _)| !is_alone(name)) {
        let there = to.tree.get(name);
        let is_other = there.is_some_and(|there| there.what != here.what);
        if above(name).any(|folder| blocked.contains(folder)) {
            continue;
        }
        if is_other && !there.is_some_and(|there| is_gone(name, there)) {
            // A file is in the place of a directory, or the reverse. It stays unless it may be
            // deleted.
            plan.unlike.push(name.clone());
            blocked.insert(name.as_slice());
            continue;
        }
        match (here.is_folder(), there.filter(|_| !is_other)) {
            (true, Some(_)) => {}
            (true, None) => plan.folders.push(name.clone()),
            (false, Some(there)) if !is_newer(here, there, leave.compares_sizes) => {}
            (false, _) => plan.files.push(name.clone()),
        }
    }
    let is_elsewhere =
        |name: &[u8], there: &Known| from.tree.get(name).is_none_or(|here| here.what != there.what);
    // The content of a directory is deleted before the directory.
    let gone = to.tree.iter().rev();
    let gone = gone.filter(|(name, there)| is_elsewhere(name, there) && is_gone(name, there));
    plan.deleted = gone.map(|(name, there)| (name.clone(), there.is_folder())).collect();
    plan
}

/// Returns the plan. If the rules select files, directories that receive no file are left out.
fn plan_by(rules: &Rules, from: &Side, to: &Side, leave: Leave) -> Plan {
    let mut plan = plan(from, to, leave);
    if rules.are_of_files() {
        leave_out_empty(&mut plan);
    }
    plan
}

fn is_newer(from: &Known, to: &Known, compares_sizes: bool) -> bool {
    let differs = compares_sizes && (from.size.is_none() || from.size != to.size);
    let newer = from.modified.zip(to.modified).is_none_or(|(from, to)| from.seconds > to.seconds);
    differs || newer
}

/// Runs `plumb mirror`.
pub(crate) fn mirror(arguments: &Mirror) -> exit::Result {
    let (url, folder, is_incoming) = match (&arguments.from, &arguments.to) {
        (Place::There(url), Place::Here(folder)) => (url, folder, true),
        (Place::Here(folder), Place::There(url)) => (url, folder, false),
        _ => {
            let sentence = "use one URL, such as ftp://host/directory, and one local directory: \
                            the source, then the destination";
            return Err(super::desk::tell(&Trouble::Wrong(sentence.to_owned())));
        }
    };
    let to = if is_incoming { folder.as_os_str().as_bytes() } else { &url.name };
    check_destination(arguments, to).map_err(|trouble| super::desk::tell(&trouble))?;
    let mut terms =
        host_terms(url, Existing::Replace).map_err(|trouble| super::desk::tell(&trouble))?;
    carry_out(url, &arguments.reach, arguments.limit_rate, async |caller| {
        let (mut dialogue, rules) = (Dialogue::new(&caller), &arguments.rules);
        dialogue.choose_type(&mut terms).await?;
        // A partial download of the previous run is resumed.
        terms.continues = is_incoming && terms.representation.keeps_octets();
        let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let root = root.unwrap_or(&url.name);
        if is_incoming && arguments.delete {
            dialogue.audit = Some(Audit { root: root.to_vec(), unread: 0 });
        }
        let mut there = there(&mut dialogue, root, is_incoming, rules).await?;
        refuse_unread(dialogue.audit.take(), &dialogue)?;
        let mut here =
            if folder.is_dir() || !is_incoming { here(folder)? } else { Side::default() };
        here.retain(|name, known| rules.takes_below(name, known.is_folder()));
        dialogue.left_out += leave_out_untold(&mut here);
        if is_incoming {
            // The partial download of a remote file is resumed, and not deleted.
            let there = &there.tree;
            here.retain(|name, _| there.contains_key(name) || !is_part_of_one(name, there));
        }
        let leave = Leave {
            deletes: arguments.delete,
            deletes_folders: !rules.are_of_files(),
            compares_sizes: terms.representation.keeps_octets(),
        };
        if dialogue.has_rough_times {
            exact_times(&mut dialogue, root, &mut there.tree, &here.tree, leave).await?;
        }
        let (from, to) = if is_incoming { (&there, &here) } else { (&here, &there) };
        let plan = plan_by(rules, from, to, leave);
        let reach = &arguments.reach;
        tell_of_others(&here, &there);
        tell_of_unlike(&plan);
        if arguments.dry_run {
            dialogue.quit().await;
            return tell(&plan, is_incoming, reach.json);
        }
        let (is_json, is_quiet) = (reach.json, reach.quiet || reach.json);
        confirm_deletion(&dialogue, &plan, arguments.force, is_quiet).await?;
        let has_rough_times = dialogue.has_rough_times;
        let way = Way { folder, root, has_rough_times, is_json, is_quiet };
        let (works, deleted) = match is_incoming {
            true => way.prepare_here(&plan, &there.tree)?,
            false => way.prepare_there(&mut dialogue, &plan).await?,
        };
        let kept = u64::try_from(plan.deleted.len() - deleted).unwrap_or(u64::MAX);
        dialogue.left_out = dialogue.left_out.saturating_add(kept);
        let also = if deleted > 0 { format!(", and deleted {deleted}") } else { String::new() };
        let jobs = arguments.jobs;
        let manner = Manner { terms, jobs, is_json, is_quiet, is_stdout: false, also };
        finish(&caller, dialogue, works, &manner, "mirrored").await
    })
}

/// Refuses to delete in a directory that is named only by its position, such as the root or `.`: a
/// mistyped destination would lose all its content.
fn check_destination(arguments: &Mirror, to: &[u8]) -> Result<(), Trouble> {
    if !arguments.delete || arguments.force || arguments.dry_run {
        return Ok(());
    }
    let refused = |trouble: Trouble| {
        let sentence = trouble.sentence();
        Trouble::Wrong(format!("{sentence}, or use --force"))
    };
    check_named(to, "delete in the destination").map_err(refused)
}

/// Prints how much is deleted, and asks for confirmation on a terminal.
async fn confirm_deletion(
    dialogue: &Dialogue,
    plan: &Plan,
    is_forced: bool,
    is_quiet: bool,
) -> Result<(), Trouble> {
    if plan.deleted.is_empty() {
        return Ok(());
    }
    let amount = amount(&plan.deleted);
    if !is_quiet {
        say(&format!("deleting {amount} at the destination"));
    }
    if is_forced {
        return Ok(());
    }
    confirm(dialogue, &format!("delete {amount} at the destination?")).await
}

async fn there(
    dialogue: &mut Dialogue,
    root: &[u8],
    must_be: bool,
    rules: &Rules,
) -> Result<Side, Trouble> {
    let mut side = Side::default();
    let wanted = |name: &[u8], is_folder: bool| {
        let is_taken = rules.takes(name, is_folder);
        if !is_taken {
            side.left_out.insert(name.to_vec());
        }
        is_taken
    };
    let found = match dialogue.walk(root, wanted).await {
        Ok(found) => found,
        Err(trouble) if trouble.is_refusal() && !must_be => return Ok(Side::default()),
        Err(trouble) => return Err(trouble),
    };
    let names: Names = found.iter().map(|found| found.below.clone()).collect();
    let found = if must_be { dialogue.for_here(found) } else { found };
    let kept: BTreeSet<&[u8]> = found.iter().map(|found| found.below.as_slice()).collect();
    side.left_out.extend(names.into_iter().filter(|name| !kept.contains(name.as_slice())));
    side.tree.extend(found.into_iter().map(|found| {
        let what = match found.entry.kind {
            Kind::Directory | Kind::Current | Kind::Parent => What::Folder,
            Kind::File => What::File,
            Kind::Link | Kind::Other => What::Other,
        };
        let (size, modified) = (found.entry.size, found.entry.modified);
        (found.below, Known { what, size, modified })
    }));
    Ok(side)
}

/// Replaces the times of LIST by those of MDTM for the files whose times matter: those on both
/// hosts whose sizes are equal or not compared.
async fn exact_times(
    dialogue: &mut Dialogue,
    root: &[u8],
    there: &mut Tree,
    here: &Tree,
    leave: Leave,
) -> Result<(), Trouble> {
    for (name, known) in there.iter_mut().filter(|(_, known)| known.what == What::File) {
        let Some(own) = here.get(name).filter(|own| own.what == What::File) else { continue };
        if !leave.compares_sizes || own.size == known.size {
            let exact = dialogue.told_time(&join(root, name)).await?;
            known.modified = exact.or(known.modified);
        }
    }
    Ok(())
}

/// Returns an error if listings on which deletions depend could not be read completely.
fn refuse_unread(audit: Option<Audit>, dialogue: &Dialogue) -> Result<(), Trouble> {
    let why = match audit.map_or(0, |audit| audit.unread) {
        0 => return Ok(()),
        count => unread_text(&dialogue.unread).unwrap_or_else(|| match count {
            1 => "1 entry of the listings is uncertain".to_owned(),
            _ => format!("{count} entries of the listings are uncertain"),
        }),
    };
    Err(Trouble::NotThere(format!("{why}; nothing is deleted: omit --delete")))
}

/// Returns the content of a local directory.
fn here(folder: &Path) -> Result<Side, Trouble> {
    let jail = Jail::open(folder)
        .with_context(|| format!("cannot read the directory {}", folder.display()))?;
    let (mut side, mut open) = (Side::default(), vec![Vec::new()]);
    while let Some(below) = open.pop() {
        let name: &[u8] = if below.is_empty() { b"." } else { &below };
        let entries = jail.list(name, ENTRIES_MAX).with_context(|| {
            let path = folder.join(std::ffi::OsStr::from_bytes(&below));
            format!("cannot read the directory {}", path.display())
        })?;
        for entry in entries {
            let path = join(&below, &entry.name);
            let what = match entry.status.kind {
                Here::Folder => What::Folder,
                Here::File => What::File,
                Here::Other => What::Other,
            };
            if what == What::Folder {
                open.push(path.clone());
            }
            let modified = Some(Timestamp { seconds: entry.status.modified_s, nanos: 0 });
            side.tree.insert(path, Known { what, size: Some(entry.status.len), modified });
        }
    }
    Ok(side)
}

/// Moves names that FTP cannot transfer to `left_out`: they are neither sent nor treated as missing
/// on the server. Prints and returns their number.
fn leave_out_untold(here: &mut Side) -> u64 {
    let before = here.tree.len();
    here.retain(|name, _| name_of(name).is_ok());
    let count = before - here.tree.len();
    if count > 0 {
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        say(&format!(
            "skipped {names} in the local directory: FTP cannot transfer names with line breaks"
        ));
    }
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns whether `name` is the partial download of a remote file.
fn is_part_of_one(name: &[u8], there: &Tree) -> bool {
    name.strip_suffix(PART).is_some_and(|whole| there.contains_key(whole))
}

/// Removes directories that receive no file from the plan.
fn leave_out_empty(plan: &mut Plan) {
    let files = &plan.files;
    let is_below = |name: &[u8], folder: &[u8]| {
        name.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
    };
    plan.folders.retain(|folder| files.iter().any(|name| is_below(name, folder)));
}

/// Prints which links and devices are left alone.
fn tell_of_others(here: &Side, there: &Side) {
    for (side, far, place) in [(here, there, "local"), (there, here, "remote")] {
        let (met, alone): (Vec<_>, Vec<_>) =
            side.others().partition(|name| far.tree.contains_key(*name));
        for name in met {
            let shown = shown(name);
            say(&format!("skipped '{shown}' on both hosts: the {place} one is a link or a device"));
        }
        match alone.len() {
            0 => {}
            1 => say(&format!("skipped 1 {place} link or device")),
            count => say(&format!("skipped {count} {place} links or devices")),
        }
    }
}

fn tell_of_unlike(plan: &Plan) {
    for name in &plan.unlike {
        let shown = shown(name);
        say(&format!(
            "skipped '{shown}', which is a directory on one host only: it is replaced only with \
             --delete, and only if the directory contains no excluded name"
        ));
    }
}

/// Prints the plan.
fn tell(plan: &Plan, is_incoming: bool, is_json: bool) -> Result<(), Trouble> {
    let moved = if is_incoming { "get" } else { "put" };
    let mut text = String::new();
    let mut add = |what: &str, name: &[u8], is_folder: bool| {
        let end = if is_folder { "/" } else { "" };
        text.push_str(&match is_json {
            true => format!("{}\n", as_json(what, name, is_folder)),
            false => format!("{what} {}{end}\n", shown(name)),
        });
    };
    plan.deleted.iter().for_each(|(name, is_folder)| add("delete", name, *is_folder));
    plan.folders.iter().for_each(|name| add("make", name, true));
    plan.files.iter().for_each(|name| add(moved, name, false));
    show(text.as_bytes())
}

pub(super) fn as_json(what: &str, name: &[u8], is_folder: bool) -> serde_json::Value {
    let kind = if is_folder { "directory" } else { "file" };
    serde_json::json!({ "what": what, "name": String::from_utf8_lossy(name), "kind": kind })
}

/// Directories of a mirror, and the form of its output.
#[derive(Clone, Copy)]
struct Way<'a> {
    folder: &'a Path,
    root: &'a [u8],
    has_rough_times: bool,
    is_json: bool,
    is_quiet: bool,
}

impl Way<'_> {
    /// Reports a deleted name.
    fn deleted(&self, name: &[u8], is_folder: bool) -> Result<(), Trouble> {
        if self.is_json {
            return show(format!("{}\n", as_json("deleted", name, is_folder)).as_bytes());
        }
        if !self.is_quiet {
            say(&format!("deleted '{}{}'", shown(name), if is_folder { "/" } else { "" }));
        }
        Ok(())
    }

    /// Deletes names and creates directories. Returns the files to transfer and the number of names
    /// that were deleted.
    fn prepare_here(&self, plan: &Plan, there: &Tree) -> Result<(Vec<Work>, usize), Trouble> {
        let made = std::fs::create_dir_all(self.folder);
        made.with_context(|| format!("cannot create the directory {}", self.folder.display()))?;
        let jail = Arc::new(Jail::open(self.folder).map_err(anyhow::Error::new)?);
        let mut deleted = 0;
        for (name, is_folder) in &plan.deleted {
            let removed = match is_folder {
                true => jail.remove_folder(name),
                false => jail.remove_file(name),
            };
            match removed {
                Ok(()) => {
                    deleted += 1;
                    self.deleted(name, *is_folder)?;
                }
                Err(error) => say(&format!("'{}' was not deleted: {error}", shown(name))),
            }
        }
        for name in &plan.folders {
            let made = jail.make_folder(name);
            made.with_context(|| format!("cannot create the directory '{}'", shown(name)))?;
        }
        let errand = |name: &Vec<u8>| {
            let known = there.get(name);
            Work::Get(get::Errand {
                path: join(self.root, name),
                size: known.and_then(|known| known.size),
                modified: known.and_then(|known| known.modified),
                has_rough_time: self.has_rough_times,
                has_no_part: there.contains_key(&[name.as_slice(), PART].concat()),
                to: To::Beneath(Arc::clone(&jail), name.clone()),
            })
        };
        Ok((plan.files.iter().map(errand).collect(), deleted))
    }

    /// Like [`Self::prepare_here`], on the server.
    async fn prepare_there(
        &self,
        dialogue: &mut Dialogue,
        plan: &Plan,
    ) -> Result<(Vec<Work>, usize), Trouble> {
        if !self.root.is_empty() && self.root != b"/" {
            make_there(dialogue, self.root).await?;
        }
        let mut deleted = 0;
        for (name, is_folder) in &plan.deleted {
            let path = join(self.root, name);
            let removed = match is_folder {
                true => remove_directory(dialogue, &path).await,
                false => remove_file(dialogue, &path).await,
            };
            match removed {
                // A refusal does not end the mirror.
                Err(trouble) if trouble.is_refusal() => {
                    say(&format!("'{}' was not deleted: {}", shown(name), trouble.sentence()));
                }
                removed => {
                    removed?;
                    deleted += 1;
                    self.deleted(name, *is_folder)?;
                }
            }
        }
        for name in &plan.folders {
            make_there(dialogue, &join(self.root, name)).await?;
        }
        let errand = |name: &Vec<u8>| {
            let from: PathBuf = self.folder.join(std::ffi::OsStr::from_bytes(name));
            Work::Put(put::Errand { from, path: join(self.root, name) })
        };
        Ok((plan.files.iter().map(errand).collect(), deleted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETES: Leave = Leave { deletes: true, deletes_folders: true, compares_sizes: true };
    const ADDS: Leave = Leave { deletes: false, ..DELETES };

    /// Returns a side of names with sizes and times: size 0 is a directory, and a name that ends
    /// with `@` is a link.
    fn side(names: &[(&str, u64, i64)]) -> Side {
        let known = |(name, size, seconds): &(&str, u64, i64)| {
            let what = match (name.strip_suffix('@'), size) {
                (Some(_), _) => What::Other,
                (None, 0) => What::Folder,
                (None, _) => What::File,
            };
            let modified = Some(Timestamp { seconds: *seconds, nanos: 0 });
            let name = name.trim_end_matches('@').as_bytes().to_vec();
            (name, Known { what, size: Some(*size), modified })
        };
        Side { tree: names.iter().map(known).collect(), left_out: Names::new() }
    }

    fn deleted(plan: &Plan) -> Vec<String> {
        let text = |(name, _): &(Vec<u8>, bool)| String::from_utf8(name.clone()).unwrap();
        plan.deleted.iter().map(text).collect()
    }

    #[test]
    fn what_is_new_newer_or_of_another_size_goes_over() {
        let from = side(&[("d", 0, 1), ("d/a", 1, 5), ("d/b", 2, 5), ("d/c", 3, 5), ("e", 4, 5)]);
        let to = side(&[("d", 0, 1), ("d/a", 1, 4), ("d/b", 1, 9), ("d/c", 3, 9)]);
        let plan = plan(&from, &to, ADDS);
        assert_eq!(plan.files, [b"d/a".to_vec(), b"d/b".to_vec(), b"e".to_vec()]);
        assert!(plan.deleted.is_empty() && plan.folders.is_empty());
    }

    #[test]
    fn a_name_of_which_ftp_cannot_speak_is_not_deleted_for_not_being_told() {
        let mut here = side(&[("a\nb", 1, 1), ("d\re", 0, 1), ("c", 1, 1)]);
        assert_eq!(leave_out_untold(&mut here), 2);
        assert_eq!(deleted(&plan(&Side::default(), &here, DELETES)), ["c"]);
    }

    #[test]
    fn what_is_only_at_the_destination_goes_from_the_bottom_if_told_to() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        assert!(plan(&Side::default(), &to, ADDS).deleted.is_empty());
        assert_eq!(deleted(&plan(&Side::default(), &to, DELETES)), ["x/y", "x"]);
    }

    #[test]
    fn the_counterpart_of_a_link_stays_with_all_that_is_in_it() {
        let from = side(&[("d@", 1, 1), ("f@", 1, 1), ("g", 1, 1), ("h", 0, 1), ("h/i", 1, 1)]);
        let to = side(&[("d", 0, 1), ("d/x", 1, 1), ("f", 1, 1), ("g@", 1, 0), ("h@", 1, 0)]);
        assert_eq!(plan(&from, &to, DELETES), Plan::default());
    }

    #[test]
    fn a_folder_that_holds_what_is_left_out_stays_and_so_does_one_with_a_link() {
        let mut to =
            side(&[("d", 0, 1), ("d/e", 0, 1), ("d/f", 1, 1), ("g", 0, 1), ("g/l@", 1, 1)]);
        to.left_out.insert(b"d/e/x.o".to_vec());
        assert_eq!(deleted(&plan(&Side::default(), &to, DELETES)), ["d/f"]);
    }

    #[test]
    fn a_file_does_not_take_the_place_of_a_folder_that_stays() {
        let (from, mut to) = (side(&[("d", 1, 1)]), side(&[("d", 0, 1), ("d/y", 1, 1)]));
        to.left_out.insert(b"d/x.o".to_vec());
        let plan = plan(&from, &to, DELETES);
        assert_eq!((deleted(&plan), &plan.unlike), (vec!["d/y".to_owned()], &vec![b"d".to_vec()]));
        assert!(plan.files.is_empty());
    }

    #[test]
    fn where_only_files_are_spoken_of_no_folder_is_deleted() {
        let to = side(&[("x", 0, 1), ("x/y", 1, 1)]);
        let leave = Leave { deletes_folders: false, ..DELETES };
        assert_eq!(deleted(&plan(&Side::default(), &to, leave)), ["x/y"]);
    }
}
