//! `plumb mirror`: makes a folder on one side as it is on the other.
//!
//! A file goes over if it is not there, if its size differs, or if it is newer where it comes from.
//! What is only at the destination stays, unless it is to be deleted. What the rules leave out is
//! left alone on either side. Where a host means words by TYPE I, sizes are not compared.

use super::batch::{Manner, Work, finish, make_there};
use super::desk::carry_out;
use super::dialogue::Dialogue;
use super::get::{self, PART, To};
use super::manage::{remove_file, remove_folder, show};
use super::options::{Reach, host_terms};
use super::put;
use super::remote::{join, name_of};
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
use std::collections::BTreeMap;
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
ends with a slash for folders alone. What is left out is not deleted either.";

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

/// What is known of one name on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    is_folder: bool,
    size: Option<u64>,
    modified: Option<Timestamp>,
}

type Tree = BTreeMap<Vec<u8>, Known>;

/// What is to be done at the destination, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    deleted: Vec<(Vec<u8>, bool)>,
    folders: Vec<Vec<u8>>,
    files: Vec<Vec<u8>>,
    /// What is a folder on one side and none on the other, and stays.
    unlike: Vec<Vec<u8>>,
}

fn plan(from: &Tree, to: &Tree, deletes: bool, compares_sizes: bool) -> Plan {
    let mut plan = Plan::default();
    for (name, here) in from {
        let there = to.get(name);
        let is_other = there.is_some_and(|there| there.is_folder != here.is_folder);
        if is_other && !deletes {
            // A file where a folder is to be: nothing is done without being told to.
            plan.unlike.push(name.clone());
            continue;
        }
        match (here.is_folder, there.filter(|_| !is_other)) {
            (true, Some(_)) => {}
            (true, None) => plan.folders.push(name.clone()),
            (false, Some(there)) if !is_newer(here, there, compares_sizes) => {}
            (false, _) => plan.files.push(name.clone()),
        }
    }
    if deletes {
        let is_gone = |name: &Vec<u8>, there: &Known| {
            from.get(name).is_none_or(|here| here.is_folder != there.is_folder)
        };
        // What is in a folder goes before the folder.
        let gone = to.iter().rev().filter(|(name, there)| is_gone(name, there));
        plan.deleted = gone.map(|(name, there)| (name.clone(), there.is_folder)).collect();
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
            let sentence = "say one URL, as ftp://host/folder, and one folder here: what it is made \
                            from, then what is made";
            return Err(super::desk::tell(&Trouble::Wrong(sentence.to_owned())));
        }
    };
    let mut terms =
        host_terms(url, Existing::Replace).map_err(|trouble| super::desk::tell(&trouble))?;
    // What was broken off the last time is here, as a part.
    terms.continues = is_incoming && terms.representation.keeps_octets();
    carry_out(url, &arguments.reach, arguments.limit_rate, async |caller| {
        let (mut dialogue, rules) = (Dialogue::new(&caller), &arguments.rules);
        dialogue.choose_type(&mut terms).await?;
        let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let root = root.unwrap_or(&url.name);
        let there = there(&mut dialogue, root, is_incoming, rules).await?;
        let mut here = if folder.is_dir() || !is_incoming { here(folder)? } else { Tree::new() };
        here.retain(|name, known| rules.takes_below(name, known.is_folder));
        dialogue.left_out += leave_out_untold(&mut here);
        if is_incoming {
            // What is left of a file that was broken off is gone on with.
            here.retain(|name, _| there.contains_key(name) || !is_part_of_one(name, &there));
        }
        let (from, to) = if is_incoming { (&there, &here) } else { (&here, &there) };
        let mut plan = plan(from, to, arguments.delete, terms.representation.keeps_octets());
        if rules.are_of_files() {
            leave_out_empty(&mut plan);
        }
        let reach = &arguments.reach;
        tell_of_unlike(&plan);
        if arguments.dry_run {
            dialogue.quit().await;
            return tell(&plan, is_incoming, reach.json);
        }
        let (is_json, is_quiet) = (reach.json, reach.quiet || reach.json);
        let way = Way { folder, root, is_json, is_quiet, has_rules: !rules.is_empty() };
        let works = match is_incoming {
            true => way.prepare_here(&plan, &there)?,
            false => way.prepare_there(&mut dialogue, &plan).await?,
        };
        let also = match plan.deleted.len() {
            0 => String::new(),
            count => format!(", and deleted {count}"),
        };
        let jobs = arguments.jobs;
        let manner = Manner { terms, jobs, is_json, is_quiet, is_stdout: false, also };
        finish(&caller, dialogue, works, &manner, "mirrored").await
    })
}

async fn there(
    dialogue: &mut Dialogue,
    root: &[u8],
    must_be: bool,
    rules: &Rules,
) -> Result<Tree, Trouble> {
    let found = match dialogue.walk(root, |name, is_folder| rules.takes(name, is_folder)).await {
        Ok(found) => found,
        Err(trouble) if trouble.is_refusal() && !must_be => return Ok(Tree::new()),
        Err(trouble) => return Err(trouble),
    };
    let found = if must_be { dialogue.for_here(found) } else { found };
    let known = found.into_iter().filter_map(|found| {
        let is_folder = match found.entry.kind {
            Kind::Directory => true,
            Kind::File => false,
            _ => return None,
        };
        let (size, modified) = (found.entry.size, found.entry.modified);
        Some((found.below, Known { is_folder, size, modified }))
    });
    Ok(known.collect())
}

/// Returns what is in a folder here. Links and devices are none of it, which is said.
fn here(folder: &Path) -> Result<Tree, Trouble> {
    let jail = Jail::open(folder)
        .with_context(|| format!("the folder {} cannot be read", folder.display()))?;
    let (mut tree, mut open, mut others) = (Tree::new(), vec![Vec::new()], 0_u64);
    while let Some(below) = open.pop() {
        let name: &[u8] = if below.is_empty() { b"." } else { &below };
        let entries = jail.list(name, ENTRIES_MAX).map_err(anyhow::Error::new)?;
        for entry in entries {
            let path = join(&below, &entry.name);
            let is_folder = match entry.status.kind {
                Here::Folder => true,
                Here::File => false,
                Here::Other => {
                    others += 1;
                    continue;
                }
            };
            if is_folder {
                open.push(path.clone());
            }
            let modified = Some(Timestamp { seconds: entry.status.modified_s, nanos: 0 });
            tree.insert(path, Known { is_folder, size: Some(entry.status.len), modified });
        }
    }
    if others > 0 {
        let names = if others == 1 { "1 name".to_owned() } else { format!("{others} names") };
        say(&format!("{names} here are links or devices, and stay where they are"));
    }
    Ok(tree)
}

/// Takes the names out of which FTP cannot speak: they neither go over nor are they missed there.
/// Returns how many they are, and says so.
fn leave_out_untold(here: &mut Tree) -> u64 {
    let before = here.len();
    here.retain(|name, _| name_of(name).is_ok());
    let count = before - here.len();
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

fn tell_of_unlike(plan: &Plan) {
    for name in &plan.unlike {
        let shown = shown(name);
        say(&format!(
            "'{shown}' is a folder on one side and none on the other: it stays as it is, unless \
             --delete is said"
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

fn as_json(what: &str, name: &[u8], is_folder: bool) -> serde_json::Value {
    let kind = if is_folder { "directory" } else { "file" };
    serde_json::json!({ "what": what, "name": String::from_utf8_lossy(name), "kind": kind })
}

/// Between which folders, and how it is told of.
#[derive(Clone, Copy)]
struct Way<'a> {
    folder: &'a Path,
    root: &'a [u8],
    is_json: bool,
    is_quiet: bool,
    /// Whether something may be left out, and so in a folder that is to be deleted.
    has_rules: bool,
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

    fn prepare_here(&self, plan: &Plan, there: &Tree) -> Result<Vec<Work>, Trouble> {
        let made = std::fs::create_dir_all(self.folder);
        made.with_context(|| format!("the folder {} cannot be made", self.folder.display()))?;
        let jail = Arc::new(Jail::open(self.folder).map_err(anyhow::Error::new)?);
        for (name, is_folder) in &plan.deleted {
            let removed = match is_folder {
                true => jail.remove_folder(name),
                false => jail.remove_file(name),
            };
            match removed {
                Ok(()) => self.deleted(name, *is_folder)?,
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
                to: To::Beneath(Arc::clone(&jail), name.clone()),
            })
        };
        Ok(plan.files.iter().map(errand).collect())
    }

    async fn prepare_there(
        &self,
        dialogue: &mut Dialogue,
        plan: &Plan,
    ) -> Result<Vec<Work>, Trouble> {
        if !self.root.is_empty() && self.root != b"/" {
            make_there(dialogue, self.root).await?;
        }
        for (name, is_folder) in &plan.deleted {
            let path = join(self.root, name);
            let removed = match is_folder {
                true => remove_folder(dialogue, &path).await,
                false => remove_file(dialogue, &path).await,
            };
            match removed {
                Err(trouble) if *is_folder && self.has_rules && trouble.is_refusal() => {
                    say(&format!("'{}' stays: {}", shown(name), trouble.sentence()));
                }
                removed => {
                    removed?;
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
        Ok(plan.files.iter().map(errand).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[(&str, u64, i64)]) -> Tree {
        let known = |size, seconds| Known {
            is_folder: size == 0,
            size: Some(size),
            modified: Some(Timestamp { seconds, nanos: 0 }),
        };
        names.iter().map(|(n, size, at)| (n.as_bytes().to_vec(), known(*size, *at))).collect()
    }

    #[test]
    fn what_is_new_newer_or_of_another_size_goes_over() {
        let from = tree(&[("d", 0, 1), ("d/a", 1, 5), ("d/b", 2, 5), ("d/c", 3, 5), ("e", 4, 5)]);
        let to = tree(&[("d", 0, 1), ("d/a", 1, 4), ("d/b", 1, 9), ("d/c", 3, 9)]);
        let plan = plan(&from, &to, false, true);
        assert_eq!(plan.files, [b"d/a".to_vec(), b"d/b".to_vec(), b"e".to_vec()]);
        assert!(plan.deleted.is_empty() && plan.folders.is_empty());
    }

    #[test]
    fn a_name_of_which_ftp_cannot_speak_is_not_deleted_for_not_being_told() {
        let mut here = tree(&[("a\nb", 1, 1), ("d\re", 0, 1), ("c", 1, 1)]);
        assert_eq!(leave_out_untold(&mut here), 2);
        assert_eq!(plan(&Tree::new(), &here, true, true).deleted, [(b"c".to_vec(), false)]);
    }

    #[test]
    fn what_is_only_at_the_destination_goes_from_the_bottom_if_told_to() {
        let to = tree(&[("x", 0, 1), ("x/y", 1, 1)]);
        assert!(plan(&Tree::new(), &to, false, true).deleted.is_empty());
        let deleted = plan(&Tree::new(), &to, true, true).deleted;
        assert_eq!(deleted, [(b"x/y".to_vec(), false), (b"x".to_vec(), true)]);
    }
}
