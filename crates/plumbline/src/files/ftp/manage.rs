//! `plumb ls`, `rm`, `mkdir`, `mv`, `cat`: the commands that need no local file.

use super::batch::make_there;
use super::desk::{carry_out, tell};
use super::dialogue::Dialogue;
use super::get::Ending;
use super::mover::Near;
use super::options::{Reach, host_terms};
use super::remote::{is_pattern, join, name_of, path_in};
use super::removal::{Removal, RemoveOptions, check_named, confirm};
use super::trouble::Trouble;
use crate::exit;
use crate::files::progress::say;
use crate::files::shown::shown;
use crate::files::url::{Scheme, Url, UrlType};
use crate::transfer_recorder::{Record, timed};
use anyhow::Context;
use os::jail::Existing;
use protocols::application::ftp::listing::{Entry, Kind};
use protocols::application::ftp::user::Task;
use protocols::application::ftp::{Representation, Timestamp};
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::str::FromStr;

const LIST_EXAMPLES: &str = "\
Examples:
  plumb ls ftp://ftp.example.net/pub/
  plumb ls -l ftpes://me@example.net/logs/*.gz
  plumb ls --json ftp://example.net/pub/ | jq .size

Exit codes: 0 listed; 1 the server is unreachable, has no such directory, or nothing matches the
pattern; 2 wrong arguments; 3 interrupted; 4 local error, such as permission denied.";

const REMOVE_EXAMPLES: &str = "\
Examples:
  plumb rm ftpes://me@example.net/old.log
  plumb rm ftpes://me@example.net/logs/*.gz
  plumb rm -r -n ftpes://me@example.net/tree
  plumb rm -r ftpes://me@example.net/tree

An empty path, the root, and paths that end with '.' or '..' are refused. Before several files or a
directory are removed, their number is printed, and on a terminal rm asks. With -v each name is
printed; with --json, each is a JSON line with \"what\", \"name\" and \"kind\".

Exit codes: 0 removed; 1 the server is unreachable, has no such file, or refused; 2 wrong
arguments; 3 interrupted; 4 local error, such as permission denied.";

const MAKE_EXAMPLES: &str = "\
Examples:
  plumb mkdir ftpes://me@example.net/new
  plumb mkdir -p ftpes://me@example.net/a/b/c

Exit codes: 0 done; 1 the server is unreachable, has no such file, or refused; 2 wrong
arguments; 3 interrupted; 4 local error, such as permission denied.";

const MOVE_EXAMPLES: &str = "\
Examples:
  plumb mv ftpes://me@example.net/draft.txt final.txt
  plumb mv ftpes://me@example.net/in/a out/a
  plumb mv ftpes://me@example.net/in/a ftpes://me@example.net/out/a

Exit codes: 0 done; 1 the server is unreachable, has no such file, or refused; 2 wrong
arguments; 3 interrupted; 4 local error, such as permission denied.";

const CAT_EXAMPLES: &str = "\
Examples:
  plumb cat ftp://ftp.example.net/README
  plumb cat ftp://example.net/motd;type=a ftp://example.net/news
  plumb cat ftpes://me@example.net/logs/*.log | grep error

Exit codes: 0 done; 1 the server is unreachable, has no such file, or refused; 2 wrong
arguments; 3 interrupted; 4 local error, such as permission denied.";

/// Arguments of `plumb ls`.
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    /// Directory, file or pattern to list, as ftp://user@host:port/name
    url: Url,
    /// Print permissions, sizes and times too
    #[arg(short)]
    long: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Arguments of `plumb rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct Remove {
    /// File, directory or pattern to remove, as ftp://user@host:port/name
    url: Url,
    /// Remove directories and their contents
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask on a terminal before several files or a directory are removed
    #[arg(short, long)]
    force: bool,
    /// Only print what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Arguments of `plumb mkdir`.
#[derive(Debug, clap::Args)]
#[command(after_help = MAKE_EXAMPLES)]
pub(crate) struct MakeDirectory {
    /// Directory to create, as ftp://user@host:port/name
    url: Url,
    /// Create missing parent directories; an existing directory is not an error
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    reach: Reach,
}

/// Arguments of `plumb mv`.
#[derive(Debug, clap::Args)]
#[command(after_help = MOVE_EXAMPLES)]
pub(crate) struct Move {
    /// File to rename, as ftp://user@host:port/name
    url: Url,
    /// New name on the server, as a path or as a URL of the same host and user
    #[arg(value_name = "NAME")]
    name: NewName,
    #[command(flatten)]
    reach: Reach,
}

/// Arguments of `plumb cat`.
#[derive(Debug, clap::Args)]
#[command(after_help = CAT_EXAMPLES)]
pub(crate) struct Cat {
    /// Files or patterns, all of one host, as ftp://user@host:port/name
    #[arg(required = true)]
    urls: Vec<Url>,
    #[command(flatten)]
    reach: Reach,
}

/// Runs `plumb ls`.
pub(crate) fn list(arguments: &List) -> exit::Result {
    let url = &arguments.url;
    carry_out(url, &arguments.reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        let entries = entries(&mut dialogue, b"", &url.name).await?;
        let text = if arguments.reach.json {
            entries.iter().map(|entry| format!("{}\n", as_json(entry))).collect()
        } else {
            entries.iter().map(|entry| line(entry, arguments.long)).collect::<String>()
        };
        let unread = dialogue.report_unread();
        dialogue.quit().await;
        show(text.as_bytes())?;
        unread
    })
}

/// Writes to the standard output.
pub(super) fn show(bytes: &[u8]) -> Result<(), Trouble> {
    Ok(std::io::stdout().write_all(bytes).context("cannot write to the standard output")?)
}

/// Returns the entries for a name in a directory: the content of a directory, a file, or all
/// matches of a pattern.
pub(super) async fn entries(
    dialogue: &mut Dialogue,
    folder: &[u8],
    name: &[u8],
) -> Result<Vec<Entry>, Trouble> {
    let path = path_in(folder, name);
    let mut entries = if is_pattern(name) {
        let found = dialogue.expand_below(folder, name).await?;
        match found.as_slice() {
            [] => {
                let sentence = format!("nothing on the server matches '{}'", shown(name));
                return Err(Trouble::NotThere(sentence));
            }
            // A directory whose name is the pattern itself.
            [one]
                if one.entry.kind.is_directory()
                    && path.strip_suffix(b"/").unwrap_or(&path) == one.path =>
            {
                dialogue.list_as_asked(&one.path).await?
            }
            _ => found.into_iter().map(|it| Entry { name: it.path, ..it.entry }).collect(),
        }
    } else if name.is_empty() || name.ends_with(b"/") {
        list_directory(dialogue, &path, None).await?
    } else {
        match dialogue.look_at(&path).await? {
            Some(entry) if entry.kind == Kind::File => vec![Entry { name: path, ..entry }],
            found => list_directory(dialogue, &path, found.as_ref()).await?,
        }
    };
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Lists a directory; `found` is its entry, if known. Some servers list a directory that does not
/// exist as an empty one.
async fn list_directory(
    dialogue: &mut Dialogue,
    path: &[u8],
    found: Option<&Entry>,
) -> Result<Vec<Entry>, Trouble> {
    let entries = dialogue.list_as_asked(path).await?;
    let is_certain = found.is_some() || path.iter().all(|&byte| byte == b'/');
    let is_silent = entries.is_empty() && dialogue.unread.lines == 0 && !dialogue.says_empty;
    if is_silent && !is_certain && !dialogue.has("MLST") && !dialogue.is_directory(path).await? {
        let shown = shown(path);
        return Err(Trouble::NotThere(format!("there is no directory '{shown}' on the server")));
    }
    Ok(entries)
}

/// Returns a line for display. Control characters are replaced, so that they do not reach the
/// terminal.
pub(super) fn line(entry: &Entry, is_long: bool) -> String {
    let name: String = String::from_utf8_lossy(&entry.name)
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let end = if entry.kind.is_directory() { "/" } else { "" };
    if !is_long {
        return format!("{name}{end}\n");
    }
    let size = entry.size.filter(|_| !entry.kind.is_directory());
    let size = size.map_or_else(|| "-".to_owned(), |size| size.to_string());
    let time = entry.modified.map_or_else(|| "-".to_owned(), time_text);
    let mode = entry.mode.map_or_else(|| "-".to_owned(), |mode| format!("{mode:04o}"));
    format!("{mode:>4} {size:>14} {time:>19} {name}{end}\n")
}

/// Returns a time for display, in UTC.
pub(super) fn time_text(time: Timestamp) -> String {
    let civil = time.civil();
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    _ = write!(
        text,
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
    );
    text
}

fn as_json(entry: &Entry) -> serde_json::Value {
    json!({
        "name": String::from_utf8_lossy(&entry.name),
        "kind": match entry.kind {
            Kind::File => "file",
            Kind::Directory | Kind::Current | Kind::Parent => "directory",
            Kind::Link => "link",
            Kind::Other => "other",
        },
        "size": entry.size,
        "modified_unix_s": entry.modified.map(|time| time.seconds),
        "mode": entry.mode.map(|mode| format!("{mode:04o}")),
        "owner": entry.owner.as_deref().map(String::from_utf8_lossy),
        "group": entry.group.as_deref().map(String::from_utf8_lossy),
        "target": entry.target.as_deref().map(String::from_utf8_lossy),
    })
}

/// Runs `plumb rm`.
pub(crate) fn remove(arguments: &Remove) -> exit::Result {
    let (url, reach) = (&arguments.url, &arguments.reach);
    // This check needs no connection.
    check_named(&url.name, "remove").map_err(|trouble| tell(&trouble))?;
    carry_out(url, reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        let removal = Removal::of(&mut dialogue, &url.name, arguments.recursive).await?;
        let options = RemoveOptions {
            is_dry_run: arguments.dry_run,
            is_verbose: reach.verbose,
            is_json: reach.json,
            is_quiet: reach.quiet,
        };
        if removal.is_many() && !arguments.dry_run {
            let amount = removal.amount();
            if !reach.quiet && !reach.json {
                say(&format!("removing {amount}"));
            }
            if !arguments.force {
                confirm(&dialogue, &format!("remove {amount}?")).await?;
            }
        }
        let removed = removal.run(&mut dialogue, options).await;
        dialogue.quit().await;
        removed
    })
}

/// Runs `plumb mkdir`.
pub(crate) fn make_directory(arguments: &MakeDirectory) -> exit::Result {
    let url = &arguments.url;
    carry_out(url, &arguments.reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        let path = url.name.strip_suffix(b"/").unwrap_or(&url.name);
        if arguments.parents {
            let mut made = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
            for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
                made = join(&made, part);
                make_there(&mut dialogue, &made).await?;
            }
        } else {
            let wanted = format!("cannot create the directory '{}'", shown(path));
            dialogue.run(&wanted, Task::MakeDirectory(name_of(path)?)).await?;
        }
        dialogue.quit().await;
        Ok(())
    })
}

/// The second argument of `plumb mv`.
#[derive(Clone, Debug)]
enum NewName {
    Path(Vec<u8>),
    Url(Url),
}

impl FromStr for NewName {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.contains("://") {
            true => text.parse().map(Self::Url),
            false => Ok(Self::Path(text.as_bytes().to_vec())),
        }
    }
}

impl NewName {
    /// Returns the path on the server of `from`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is on another server or of another user.
    fn path(&self, from: &Url) -> Result<&[u8], Trouble> {
        let url = match self {
            Self::Path(path) => return Ok(path),
            Self::Url(url) => url,
        };
        let is_same_user = url.login.user.is_none() || url.login.user == from.login.user;
        if url.target != from.target || !is_same_user {
            return Err(Trouble::Wrong(format!(
                "{from} and {url} differ in host, port or user: mv renames files within one server"
            )));
        }
        Ok(&url.name)
    }
}

/// Runs `plumb mv`.
pub(crate) fn move_file(arguments: &Move) -> exit::Result {
    let url = &arguments.url;
    let names = arguments.name.path(url).and_then(|to| {
        check_named(&url.name, "rename")?;
        check_named(to, "rename")?;
        Ok(to)
    });
    let to = names.map_err(|trouble| tell(&trouble))?;
    carry_out(url, &arguments.reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        rename(&mut dialogue, &url.name, to).await?;
        dialogue.quit().await;
        Ok(())
    })
}

/// Renames a remote file.
pub(super) async fn rename(dialogue: &mut Dialogue, from: &[u8], to: &[u8]) -> Result<(), Trouble> {
    check_named(from, "rename")?;
    check_named(to, "rename")?;
    let wanted = format!("cannot rename '{}'", shown(from));
    let task = Task::Rename { from: name_of(from)?, to: name_of(to)? };
    // Not retried: after a success the old name does not exist.
    dialogue.run_once(&wanted, task, None).await.0.map(|_| ())
}

/// Runs `plumb cat`.
pub(crate) fn cat(arguments: &Cat) -> exit::Result {
    let Some(first) = arguments.urls.first() else { return Err(exit::Failure::WrongArguments) };
    let mut image = host_terms(first, Existing::Keep).map_err(|trouble| tell(&trouble))?;
    carry_out(first, &arguments.reach, None, async |caller| {
        let mut dialogue = Dialogue::new(&caller);
        dialogue.choose_type(&mut image).await?;
        for url in &arguments.urls {
            if url.target != first.target {
                return Err(Trouble::Wrong(format!("{url} is not on the host of {first}")));
            }
            let representation = match url.scheme {
                Scheme::Ftp(_, Some(UrlType::Text)) => Representation::default(),
                _ => image.representation,
            };
            if let Scheme::Ftp(_, Some(UrlType::Directory)) = url.scheme {
                show_names(&mut dialogue, &url.name).await?;
                continue;
            }
            if !is_pattern(&url.name) {
                show_file(&mut dialogue, &url.name, representation).await?;
                continue;
            }
            let mut found = dialogue.expand(&url.name).await?;
            found.retain(|found| !found.entry.kind.is_directory());
            if found.is_empty() {
                return Err(Trouble::NotThere(format!("nothing on the server matches {url}")));
            }
            for found in found {
                show_file(&mut dialogue, &found.path, representation).await?;
            }
        }
        dialogue.quit().await;
        Ok(())
    })
}

/// Writes the names in a directory to the standard output.
pub(super) async fn show_names(dialogue: &mut Dialogue, path: &[u8]) -> Result<(), Trouble> {
    let mut entries = dialogue.list_as_asked(path).await?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let text: String = entries.iter().map(|entry| line(entry, false)).collect();
    show(text.as_bytes())?;
    dialogue.report_unread()
}

/// Writes a remote file to the standard output.
pub(super) async fn show_file(
    dialogue: &mut Dialogue,
    path: &[u8],
    representation: Representation,
) -> Result<(), Trouble> {
    let stdout = rustix::io::dup(rustix::stdio::stdout()).map_err(anyhow::Error::new)?;
    let task = Task::Retrieve {
        name: name_of(path)?,
        representation,
        offset_bytes: 0,
        expected_bytes: None,
    };
    let near = Near::Into { file: File::from(stdout), at: None, enough: None, most: None };
    let wanted = format!("cannot download '{}'", shown(path));
    let mut record = Record::begin(dialogue, true, path, representation);
    let ((result, moved), cpu) = timed(dialogue.run_once(&wanted, task, Some(near))).await;
    record.take(dialogue, moved.as_ref(), 0);
    record.add_cpu(cpu);
    dialogue.caller.keep(&mut record, result.as_ref().map(|_| Ending::Moved));
    result.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_name_cannot_speak_to_the_terminal() {
        let entry = Entry { name: b"a\x1b[2Jb".to_vec(), ..Entry::default() };
        assert_eq!(line(&entry, false), "a?[2Jb\n");
        let time = Timestamp::parse(b"20261121133449");
        let entry = Entry { name: b"a".to_vec(), size: Some(7), modified: time, ..entry };
        assert_eq!(line(&entry, true), "   -              7 2026-11-21 13:34:49 a\n");
    }
}
