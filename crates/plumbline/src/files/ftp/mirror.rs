//! `plumb mirror`: makes a folder on one side as it is on the other.
//!
//! A file goes over if it is not there, if its size differs, or if it is newer where it comes from.
//! What is only at the destination stays, unless it is to be deleted.

use super::batch::{Manner, Work, finish, make_there};
use super::desk::carry_out;
use super::dialogue::Dialogue;
use super::get::{self, PART, Terms, To};
use super::manage::{remove_file, remove_folder};
use super::options::Reach;
use super::put;
use super::remote::{join, name_of};
use super::trouble::Trouble;
use crate::exit;
use crate::files::arguments::{Place, rate};
use crate::files::progress::say;
use crate::files::shown::shown;
use anyhow::Context;
use os::jail::{Existing, Jail, Kind as Here};
use protocols::application::ftp::listing::Kind;
use protocols::application::ftp::{Representation, Timestamp};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `plumb mirror --help` says first.
pub(crate) const ABOUT: &str = "\
Makes a folder on one side as it is on the other.

One of the two is a URL of FTP, and the other a folder here. A file goes over if it is not there, \
if its size differs, or if it is newer where it comes from.";

/// The most of a folder here.
const ENTRIES_MAX: usize = 1_000_000;

/// Arguments of `plumb mirror`.
#[derive(Debug, clap::Args)]
#[command(long_about = ABOUT)]
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
}

fn plan(from: &Tree, to: &Tree, deletes: bool) -> Plan {
    let mut plan = Plan::default();
    for (name, here) in from {
        let there = to.get(name);
        let is_other = there.is_some_and(|there| there.is_folder != here.is_folder);
        if is_other && !deletes {
            // A file where a folder is to be: nothing is done without being told to.
            continue;
        }
        match (here.is_folder, there.filter(|_| !is_other)) {
            (true, Some(_)) => {}
            (true, None) => plan.folders.push(name.clone()),
            (false, Some(there)) if !is_newer(here, there) => {}
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

fn is_newer(from: &Known, to: &Known) -> bool {
    let differs = from.size.is_none() || from.size != to.size;
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
    carry_out(url, &arguments.reach, arguments.limit_rate, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
        let root = root.unwrap_or(&url.name);
        let there = there(&mut dialogue, root, is_incoming).await?;
        let mut here = if folder.is_dir() || !is_incoming { here(folder)? } else { Tree::new() };
        dialogue.left_out += leave_out_untold(&mut here);
        if is_incoming {
            // What is left of a file that was broken off is gone on with.
            here.retain(|name, _| there.contains_key(name) || !is_part_of_one(name, &there));
        }
        let (from, to) = if is_incoming { (&there, &here) } else { (&here, &there) };
        let plan = plan(from, to, arguments.delete);
        if arguments.dry_run {
            return tell(&plan, is_incoming);
        }
        let works = if is_incoming {
            prepare_here(folder, root, &plan, &there)?
        } else {
            prepare_there(&mut dialogue, folder, root, &plan).await?
        };
        let terms = Terms {
            representation: Representation::IMAGE,
            existing: Existing::Replace,
            // What was broken off the last time is here, as a part.
            continues: is_incoming,
            segments: 1,
        };
        let reach = &arguments.reach;
        let is_quiet = reach.quiet || reach.json;
        let (jobs, is_json) = (arguments.jobs, reach.json);
        let manner = Manner { terms, jobs, is_json, is_quiet, is_stdout: false };
        finish(&caller, dialogue, works, &manner, "mirrored").await
    })
}

async fn there(dialogue: &mut Dialogue, root: &[u8], must_be: bool) -> Result<Tree, Trouble> {
    let found = match dialogue.walk(root).await {
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

fn tell(plan: &Plan, is_incoming: bool) -> Result<(), Trouble> {
    let moved = if is_incoming { "get" } else { "put" };
    let mut text = Vec::new();
    let mut add = |what: &str, name: &[u8], end: &str| {
        text.extend_from_slice(format!("{what} {}{end}\n", shown(name)).as_bytes());
    };
    for (name, is_folder) in &plan.deleted {
        add("delete", name, if *is_folder { "/" } else { "" });
    }
    plan.folders.iter().for_each(|name| add("make", name, "/"));
    plan.files.iter().for_each(|name| add(moved, name, ""));
    super::manage::show(&text)
}

fn prepare_here(
    folder: &Path,
    root: &[u8],
    plan: &Plan,
    there: &Tree,
) -> Result<Vec<Work>, Trouble> {
    let made = std::fs::create_dir_all(folder);
    made.with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    let jail = Arc::new(Jail::open(folder).map_err(anyhow::Error::new)?);
    for (name, is_folder) in &plan.deleted {
        let removed = match is_folder {
            true => jail.remove_folder(name),
            false => jail.remove_file(name),
        };
        if let Err(error) = removed {
            say(&format!("'{}' stays: {error}", shown(name)));
        }
    }
    for name in &plan.folders {
        let made = jail.make_folder(name);
        made.with_context(|| format!("the folder '{}' cannot be made", shown(name)))?;
    }
    let errand = |name: &Vec<u8>| {
        let known = there.get(name);
        Work::Get(get::Errand {
            path: join(root, name),
            size: known.and_then(|known| known.size),
            modified: known.and_then(|known| known.modified),
            to: To::Beneath(Arc::clone(&jail), name.clone()),
        })
    };
    Ok(plan.files.iter().map(errand).collect())
}

async fn prepare_there(
    dialogue: &mut Dialogue,
    folder: &Path,
    root: &[u8],
    plan: &Plan,
) -> Result<Vec<Work>, Trouble> {
    if !root.is_empty() && root != b"/" {
        make_there(dialogue, root).await?;
    }
    for (name, is_folder) in &plan.deleted {
        let path = join(root, name);
        match is_folder {
            true => remove_folder(dialogue, &path).await?,
            false => remove_file(dialogue, &path).await?,
        }
    }
    for name in &plan.folders {
        make_there(dialogue, &join(root, name)).await?;
    }
    let errand = |name: &Vec<u8>| {
        let from: PathBuf = folder.join(std::ffi::OsStr::from_bytes(name));
        Work::Put(put::Errand { from, path: join(root, name), keeps_time: true })
    };
    Ok(plan.files.iter().map(errand).collect())
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
        let plan = plan(&from, &to, false);
        assert_eq!(plan.files, [b"d/a".to_vec(), b"d/b".to_vec(), b"e".to_vec()]);
        assert!(plan.deleted.is_empty() && plan.folders.is_empty());
    }

    #[test]
    fn a_name_of_which_ftp_cannot_speak_is_not_deleted_for_not_being_told() {
        let mut here = tree(&[("a\nb", 1, 1), ("d\re", 0, 1), ("c", 1, 1)]);
        assert_eq!(leave_out_untold(&mut here), 2);
        assert_eq!(plan(&Tree::new(), &here, true).deleted, [(b"c".to_vec(), false)]);
    }

    #[test]
    fn what_is_only_at_the_destination_goes_from_the_bottom_if_told_to() {
        let to = tree(&[("x", 0, 1), ("x/y", 1, 1)]);
        assert!(plan(&Tree::new(), &to, false).deleted.is_empty());
        let deleted = plan(&Tree::new(), &to, true).deleted;
        assert_eq!(deleted, [(b"x/y".to_vec(), false), (b"x".to_vec(), true)]);
    }
}
