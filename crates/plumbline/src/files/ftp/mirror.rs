//! `plumb mirror`: makes a folder on one side as it is on the other.
//!
//! A file goes over if it is not there, if its size differs, or if it is newer where it comes from.
//! What is only at the destination stays, unless it is to be deleted. What the rules leave out is
//! left alone on either side, and so are links and devices; a folder that holds such a thing stays.
//! Where a host means words by TYPE I, sizes are not compared.
//!
//! A name is deleted for not being in the listings of the other side. Those are audited: one that
//! cannot be read whole deletes nothing.

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

/// What `plumb mirror --help` says first.
pub(crate) const MIRROR_ABOUT: &str = "\
Makes a folder on one side as it is on the other.

One of the two is a URL of FTP, and the other a folder here. A file goes over if it is not there, \
if its size differs, or if it is newer where it comes from; it gets the time of the one it is made \
from.

Of all --include and --exclude the last one that fits a name decides, as they stand from left to \
right; what none fits goes over, unless the first of them is --include. A GLOB without a slash is \
for the last part of a name, one with a slash for the whole name below the folder, and one that \
ends with a slash for folders alone. What is left out is not deleted either, and no folder that \
holds it; if the first rule is --include, no folder is deleted. Links and devices stay as they are \
on both sides.";

const EXAMPLES: &str = "\
Examples:
  plumb mirror ftp://ftp.example.net/pub/tree tree
  plumb mirror --delete -n site ftpes://me@example.net/www
  plumb mirror -j 4 --exclude .git/ --exclude '*.o' src ftpes://me@example.net/src
  plumb mirror --include '*.gz' ftp://example.net/logs logs

With --json each file that moves is a line with its record, and each name that is deleted, or with
-n each thing that would be done, a line with \"what\", \"name\" and \"kind\".

Exit codes: 0 both are the same now; 1 the far side cannot be reached, refused, or fell silent;
2 the arguments are wrong; 3 you ended it; 4 this machine cannot read or write what is needed.";

/// The most of a folder here.
const ENTRIES_MAX: usize = 1_000_000;

/// Arguments of `plumb mirror`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Mirror {
    /// From where
    #[arg(value_name = "FROM")]
    from: Place,
    /// To where
    #[arg(value_name = "TO")]
    to: Place,
    /// Delete at the destination what is not where it comes from
    #[arg(long)]
    delete: bool,
    /// With --delete: do not ask on a terminal, and accept a root directory, '.' and '..' as
    /// destination
    #[arg(short, long)]
    force: bool,
    /// Only say what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    rules: Rules,
    /// So many files at a time
    #[arg(short, long, value_name = "FILES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// At most so many bytes a second; K, M and G stand for thousands, millions and billions
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<u64>,
    #[command(flatten)]
    reach: Reach,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Folder,
    File,
    /// A link, which may lead anywhere, or a device.
    Other,
}

/// What is known of one name on one side.
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

/// One side of a mirror.
#[derive(Debug, Default)]
struct Side {
    tree: Tree,
    /// What is there and not in the tree: it stays as it is, on both sides.
    left_out: Names,
}

impl Side {
    /// Keeps the names that are `wanted` in the tree.
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

/// What is to be done at the destination, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    deleted: Vec<(Vec<u8>, bool)>,
    folders: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// What is a folder on one side and none on the other, and stays.
    unlike: Vec<Vec<u8>>,
}

/// What may be done at the destination.
#[derive(Clone, Copy, Debug)]
struct Leave {
    deletes: bool,
    deletes_folders: bool,
    compares_sizes: bool,
}

/// Returns all folders above a name, the nearest last.
fn above(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.filter_map(|(at, _)| name.get(..at))
}

fn plan(from: &Side, to: &Side, leave: Leave) -> Plan {
    let mut plan = Plan::default();
    let alone = [from, to].into_iter().flat_map(|side| side.others().chain(&side.left_out));
    let alone: BTreeSet<&[u8]> = alone.map(Vec::as_slice).collect();
    // What is behind a link is as much left alone as the link.
    let is_alone =
        |name: &[u8]| alone.contains(name) || above(name).any(|name| alone.contains(name));
    // Of folders that hold such a thing, none is deleted.
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
            // A file where a folder is to be: nothing is done without being told to.
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
    // What is in a folder goes before the folder.
    let gone = to.tree.iter().rev();
    let gone = gone.filter(|(name, there)| is_elsewhere(name, there) && is_gone(name, there));
    plan.deleted = gone.map(|(name, there)| (name.clone(), there.is_folder())).collect();
    plan
}

/// Returns the plan without what the rules leave out.
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
            let sentence = "say one URL, as ftp://host/folder, and one folder here: what it is \
                            made from, then what is made";
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
        // What was broken off the last time is here, as a part.
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
            // What is left of a file that was broken off is gone on with.
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

/// Refuses to delete in a directory that is named by its place alone: a mistyped destination would
/// lose everything in it.
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

/// Prints how much is deleted, and asks on a terminal.
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

/// Replaces the times of a LIST by those of MDTM, for the files whose times decide: those on both
/// sides whose sizes do not differ, or are not compared.
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

/// Refuses to delete anything for not being in listings that could not be read whole.
fn refuse_unread(audit: Option<Audit>, dialogue: &Dialogue) -> Result<(), Trouble> {
    let why = match audit.map_or(0, |audit| audit.unread) {
        0 => return Ok(()),
        count => unread_text(&dialogue.unread).unwrap_or_else(|| match count {
            1 => "1 entry of the listings is not known for certain".to_owned(),
            _ => format!("{count} entries of the listings are not known for certain"),
        }),
    };
    Err(Trouble::NotThere(format!("{why}; nothing is deleted: leave out --delete")))
}

/// Returns what is in a folder here.
fn here(folder: &Path) -> Result<Side, Trouble> {
    let jail = Jail::open(folder)
        .with_context(|| format!("the folder {} cannot be read", folder.display()))?;
    let (mut side, mut open) = (Side::default(), vec![Vec::new()]);
    while let Some(below) = open.pop() {
        let name: &[u8] = if below.is_empty() { b"." } else { &below };
        let entries = jail.list(name, ENTRIES_MAX).with_context(|| {
            let path = folder.join(std::ffi::OsStr::from_bytes(&below));
            format!("the folder {} cannot be read", path.display())
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

/// Takes the names out of which FTP cannot speak: they neither go over nor are they missed there.
/// Returns how many they are, and says so.
fn leave_out_untold(here: &mut Side) -> u64 {
    let before = here.tree.len();
    here.retain(|name, _| name_of(name).is_ok());
    let count = before - here.tree.len();
    if count > 0 {
        let names = if count == 1 { "1 name".to_owned() } else { format!("{count} names") };
        say(&format!(
            "{names} here hold line ends: FTP cannot tell them, and they stay as they are"
        ));
    }
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns whether `name` is that of the first part of a file there.
fn is_part_of_one(name: &[u8], there: &Tree) -> bool {
    name.strip_suffix(PART).is_some_and(|whole| there.contains_key(whole))
}

/// Takes the folders out into which nothing goes.
fn leave_out_empty(plan: &mut Plan) {
    let files = &plan.files;
    let is_below = |name: &[u8], folder: &[u8]| {
        name.strip_prefix(folder).is_some_and(|rest| rest.starts_with(b"/"))
    };
    plan.folders.retain(|folder| files.iter().any(|name| is_below(name, folder)));
}

/// Says of links and devices that they stay where they are.
fn tell_of_others(here: &Side, there: &Side) {
    for (side, far, place) in [(here, there, "here"), (there, here, "there")] {
        let (met, alone): (Vec<_>, Vec<_>) =
            side.others().partition(|name| far.tree.contains_key(*name));
        for name in met {
            let shown = shown(name);
            say(&format!(
                "'{shown}' is a link or a device {place}: it is left alone on both sides"
            ));
        }
        match alone.len() {
            0 => {}
            1 => say(&format!("1 name {place} is a link or a device, and stays where it is")),
            count => {
                say(&format!(
                    "{count} names {place} are links or devices, and stay where they are"
                ));
            }
        }
    }
}

fn tell_of_unlike(plan: &Plan) {
    for name in &plan.unlike {
        let shown = shown(name);
        say(&format!(
            "'{shown}' is a folder on one side and none on the other: it stays as it is, as long \
             as --delete is not said, or the folder holds what is left out"
        ));
    }
}

/// Says what would be done.
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

/// Between which folders, and how it is told of.
#[derive(Clone, Copy)]
struct Way<'a> {
    folder: &'a Path,
    root: &'a [u8],
    has_rough_times: bool,
    is_json: bool,
    is_quiet: bool,
}

impl Way<'_> {
    /// Says what was deleted.
    fn deleted(&self, name: &[u8], is_folder: bool) -> Result<(), Trouble> {
        if self.is_json {
            return show(format!("{}\n", as_json("deleted", name, is_folder)).as_bytes());
        }
        if !self.is_quiet {
            say(&format!("deleted '{}{}'", shown(name), if is_folder { "/" } else { "" }));
        }
        Ok(())
    }

    /// Deletes, makes folders, and returns what is to move, and how many names were deleted.
    fn prepare_here(&self, plan: &Plan, there: &Tree) -> Result<(Vec<Work>, usize), Trouble> {
        let made = std::fs::create_dir_all(self.folder);
        made.with_context(|| format!("the folder {} cannot be made", self.folder.display()))?;
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
                Err(error) => say(&format!("'{}' stays: {error}", shown(name))),
            }
        }
        for name in &plan.folders {
            let made = jail.make_folder(name);
            made.with_context(|| format!("the folder '{}' cannot be made", shown(name)))?;
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

    /// As [`Self::prepare_here`].
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
                // The rest is mirrored all the same.
                Err(trouble) if trouble.is_refusal() => {
                    say(&format!("'{}' stays: {}", shown(name), trouble.sentence()));
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

    /// A side with files of a size, folders of none, and links whose names end in `@`.
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
