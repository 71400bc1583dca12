//! `plumb ls`, `rm`, `mkdir`, `mv`, `cat`: the commands that need no local file.

use super::command_options::{ConnectionOptions, host_transfer_options};
use super::command_output::print;
use super::listing::{as_json, print_names};
use super::removal::{Removal, RemoveOptions, check_named, confirm};
use super::run_command::{report_error, run_command};
use crate::exit;
use crate::files::location::Location;
use crate::files::progress::print_message;
use crate::manual::entries::{
    CONFIGURATION, CONFIGURATION_VARIABLE, EXIT_STATUS, FILE_VARIABLES, JOURNAL, KNOWN_HOSTS,
    NETRC, QUOTES,
};
use crate::manual::{ManualNote, ManualPage};
use os::beneath::Existing;
use protocols::ftp::Representation;
use protocols::ftp::listing::Entry;
use protocols::ftp::user::Task;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use transfer::escaped;
use transfer::ftp::FileOutcome;
use transfer::ftp::FtpClient;
use transfer::ftp::FtpError;
use transfer::ftp::LocalEnd;
use transfer::ftp::{ListingFormat, RemoteEntry, listing_text, tree_text};
use transfer::ftp::{is_pattern, name_of};
use transfer::recorder::{Record, timed};
use transfer::url::{Url, UrlScheme, UrlType};

/// Manual page of `plumb ls`.
pub(crate) const LIST_PAGE: ManualPage = ManualPage {
    command: "ls",
    examples: &[
        "plumb ls ftp://ftp.example.net/pub/",
        "plumb ls -l 'ftpes://me@example.net/logs/*.gz'",
        "plumb ls --json ftp://example.net/pub/ | jq .size",
    ],
    notes: &[QUOTES],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES],
    files: &[NETRC, KNOWN_HOSTS, JOURNAL],
    see_also: &["get", "cat", "ftp"],
};

/// Manual page of `plumb cat`.
pub(crate) const CAT_PAGE: ManualPage = ManualPage {
    command: "cat",
    examples: &[
        "plumb cat ftp://ftp.example.net/README",
        "plumb cat 'ftp://example.net/motd;type=a' ftp://example.net/news",
        "plumb cat 'ftpes://me@example.net/logs/*.log' | grep error",
    ],
    notes: &[QUOTES],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES, CONFIGURATION_VARIABLE],
    files: &[NETRC, CONFIGURATION, KNOWN_HOSTS, JOURNAL],
    see_also: &["get", "ls", "ftp"],
};

/// Manual page of `plumb rm`.
pub(crate) const REMOVE_PAGE: ManualPage = ManualPage {
    command: "rm",
    examples: &[
        "plumb rm ftpes://me@example.net/old.log",
        "plumb rm 'ftpes://me@example.net/logs/*.gz'",
        "plumb rm -r -n ftpes://me@example.net/tree",
        "plumb rm -r ftpes://me@example.net/tree",
    ],
    notes: &[ManualNote::Text(
        "Confirmation",
        "An empty path, the root, and paths that end with '.' or '..' are refused. Before rm \
         removes several files or a directory, it prints their number and, on a terminal, asks \
         for confirmation. With -v, each name is printed. With --json, each name is a JSON line \
         with \"what\", \"name\" and \"kind\".",
    )],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES],
    files: &[NETRC, KNOWN_HOSTS, JOURNAL],
    see_also: &["ls", "mirror", "ftp"],
};

/// Manual page of `plumb mkdir`.
pub(crate) const MAKE_DIRECTORY_PAGE: ManualPage = ManualPage {
    command: "mkdir",
    examples: &[
        "plumb mkdir ftpes://me@example.net/new",
        "plumb mkdir -p ftpes://me@example.net/a/b/c",
    ],
    notes: &[],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES],
    files: &[NETRC, KNOWN_HOSTS, JOURNAL],
    see_also: &["put", "rm", "ftp"],
};

/// Manual page of `plumb mv`.
pub(crate) const MOVE_PAGE: ManualPage = ManualPage {
    command: "mv",
    examples: &[
        "plumb mv ftpes://me@example.net/draft.txt final.txt",
        "plumb mv ftpes://me@example.net/in/a out/a",
        "plumb mv ftpes://me@example.net/in/a ftpes://me@example.net/out/a",
    ],
    notes: &[],
    exit_status: EXIT_STATUS,
    environment: &[FILE_VARIABLES],
    files: &[NETRC, KNOWN_HOSTS, JOURNAL],
    see_also: &["ls", "rm", "ftp"],
};

/// Arguments of `plumb ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// Directory, file or pattern to list, as ftp://user@host:port/name
    #[arg(value_name = "url")]
    url: Url,
    /// Print permissions, owners, sizes and times too; times with a Z are in UTC
    #[arg(short)]
    long: bool,
    /// List also the names that the server hides, such as those that begin with a dot
    #[arg(short, long)]
    all: bool,
    /// List all directories below the directory too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Arguments of `plumb rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// File, directory or pattern to remove, as ftp://user@host:port/name
    #[arg(value_name = "url")]
    url: Url,
    /// Remove directories and their contents
    #[arg(short, long)]
    recursive: bool,
    /// Do not ask for confirmation before removing several files or a directory
    #[arg(short, long)]
    force: bool,
    /// Only print what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Arguments of `plumb mkdir`.
#[derive(Debug, clap::Args)]
pub(crate) struct MakeDirectory {
    /// Directory to create, as ftp://user@host:port/name
    #[arg(value_name = "url")]
    url: Url,
    /// Create missing parent directories; an existing directory is not an error
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Arguments of `plumb mv`.
#[derive(Debug, clap::Args)]
pub(crate) struct Move {
    /// File to rename, as ftp://user@host:port/name
    #[arg(value_name = "url")]
    url: Url,
    /// New name on the server, as a path or as a URL of the same host and user
    #[arg(value_name = "name")]
    name: Location,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Arguments of `plumb cat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// Files or patterns, all of one host, as ftp://user@host:port/name
    #[arg(value_name = "url", required = true)]
    urls: Vec<Url>,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Runs `plumb ls`.
pub(crate) fn list(arguments: &List) -> exit::Result {
    let url = &arguments.url;
    run_command(url, &arguments.connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.lists_hidden = arguments.all;
        let is_json = arguments.connection.json;
        let text = match arguments.recursive {
            false => {
                let entries = client.named_entries(b"", &url.name).await?;
                let format = format_of(&client, arguments.long);
                if is_json { lines_of_json(&entries) } else { listing_text(&entries, format) }
            }
            true => {
                let root = url.name.strip_suffix(b"/").filter(|rest| !rest.is_empty());
                let root = root.unwrap_or(&url.name);
                let found = client.list_tree(root, |_, _| true).await?;
                let format = format_of(&client, arguments.long);
                let with_path =
                    |found: &RemoteEntry| Entry { name: found.path.clone(), ..found.entry.clone() };
                match is_json {
                    true => lines_of_json(&found.iter().map(with_path).collect::<Vec<_>>()),
                    false => tree_text(root, &found, format),
                }
            }
        };
        let unparsed = client.report_unparsed();
        client.quit().await;
        print(text.as_bytes())?;
        unparsed
    })
}

/// Returns the format of a listing. Only the times of LIST are not in UTC.
pub(super) fn format_of(client: &FtpClient, is_long: bool) -> ListingFormat {
    ListingFormat { is_long, has_utc_times: !client.has_rough_times }
}

fn lines_of_json(entries: &[Entry]) -> String {
    entries.iter().map(|entry| format!("{}\n", as_json(entry))).collect()
}

/// Runs `plumb rm`.
pub(crate) fn remove(arguments: &Remove) -> exit::Result {
    let url = &arguments.url;
    let connection = &arguments.connection;
    // Checked before the connection, because the check needs none.
    check_named(&url.name, "remove").map_err(|error| report_error(&error))?;
    run_command(url, connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        let removal = Removal::of(&mut client, &url.name, arguments.recursive).await?;
        let options = RemoveOptions {
            is_dry_run: arguments.dry_run,
            is_verbose: connection.verbose,
            is_json: connection.json,
            is_quiet: connection.quiet,
        };
        if removal.is_many() && !arguments.dry_run {
            let amount = removal.amount_text();
            if !connection.quiet && !connection.json {
                print_message(&format!("removing {amount}"));
            }
            if !arguments.force {
                confirm(&client, &format!("remove {amount}?")).await?;
            }
        }
        let result = removal.run(&mut client, options).await;
        client.quit().await;
        result
    })
}

/// Runs `plumb mkdir`.
pub(crate) fn make_directory(arguments: &MakeDirectory) -> exit::Result {
    let url = &arguments.url;
    run_command(url, &arguments.connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        let path = url.name.strip_suffix(b"/").unwrap_or(&url.name);
        if arguments.parents {
            client.ensure_directories(path).await?;
        } else {
            let context = format!("cannot create the directory '{}'", escaped(path));
            client.run(&context, Task::MakeDirectory(name_of(path)?)).await?;
        }
        client.quit().await;
        Ok(())
    })
}

/// Returns the new path of `plumb mv`, which is a path on the same server as `from`.
///
/// # Errors
///
/// Returns an error if the new name is a URL with another server or user.
fn new_path<'a>(name: &'a Location, from: &Url) -> Result<&'a [u8], FtpError> {
    let url = match name {
        Location::Local(path) => return Ok(path.as_os_str().as_bytes()),
        Location::Remote(url) => url,
    };
    let is_same_user = url.login.user.is_none() || url.login.user == from.login.user;
    if url.target != from.target || !is_same_user {
        return Err(FtpError::InvalidRequest(format!(
            "{from} and {url} differ in host, port or user: mv renames files within one server"
        )));
    }
    Ok(&url.name)
}

/// Runs `plumb mv`.
pub(crate) fn move_file(arguments: &Move) -> exit::Result {
    let url = &arguments.url;
    let names = new_path(&arguments.name, url).and_then(|to| {
        check_named(&url.name, "rename")?;
        check_named(to, "rename")?;
        Ok(to)
    });
    let to = names.map_err(|error| report_error(&error))?;
    run_command(url, &arguments.connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        rename(&mut client, &url.name, to).await?;
        client.quit().await;
        Ok(())
    })
}

/// Renames a remote file.
pub(super) async fn rename(client: &mut FtpClient, from: &[u8], to: &[u8]) -> Result<(), FtpError> {
    check_named(from, "rename")?;
    check_named(to, "rename")?;
    let context = format!("cannot rename '{}'", escaped(from));
    let task = Task::Rename { from: name_of(from)?, to: name_of(to)? };
    // Not retried: if a first attempt succeeded without a reply, the old name no longer exists.
    client.run_once(&context, task, None).await.0.map(|_| ())
}

/// Runs `plumb cat`.
pub(crate) fn cat(arguments: &Cat) -> exit::Result {
    let Some(first) = arguments.urls.first() else { return Err(exit::Failure::WrongArguments) };
    let mut image =
        host_transfer_options(first, Existing::Keep).map_err(|error| report_error(&error))?;
    run_command(first, &arguments.connection, None, async |connector| {
        let mut client = FtpClient::new(&connector);
        client.choose_type(&mut image).await?;
        for url in &arguments.urls {
            if url.target != first.target {
                return Err(FtpError::InvalidRequest(format!(
                    "{url} is not on the host of {first}"
                )));
            }
            let representation = match url.scheme {
                UrlScheme::Ftp(_, Some(UrlType::Text)) => Representation::default(),
                _ => image.representation,
            };
            if let UrlScheme::Ftp(_, Some(UrlType::Directory)) = url.scheme {
                print_names(&mut client, &url.name).await?;
                continue;
            }
            if !is_pattern(&url.name) {
                print_file(&mut client, &url.name, representation).await?;
                continue;
            }
            let mut found = client.expand(&url.name).await?;
            found.retain(|found| !found.entry.kind.is_directory());
            if found.is_empty() {
                return Err(FtpError::NotFound(format!("nothing on the server matches {url}")));
            }
            for found in found {
                print_file(&mut client, &found.path, representation).await?;
            }
        }
        client.quit().await;
        Ok(())
    })
}

/// Writes a remote file to the standard output.
pub(super) async fn print_file(
    client: &mut FtpClient,
    path: &[u8],
    representation: Representation,
) -> Result<(), FtpError> {
    let stdout = rustix::io::dup(rustix::stdio::stdout()).map_err(anyhow::Error::new)?;
    let task = Task::Retrieve {
        name: name_of(path)?,
        representation,
        offset_bytes: 0,
        expected_bytes: None,
    };
    let local_end =
        LocalEnd::WriteTo { file: File::from(stdout), at: None, stop_after: None, max_bytes: None };
    let context = format!("cannot download '{}'", escaped(path));
    let mut record = Record::begin(client, true, path, representation);
    let ((result, moved), cpu) = timed(client.run_once(&context, task, Some(local_end))).await;
    record.add_attempt(client, moved.as_ref(), 0);
    record.add_cpu(cpu);
    client.connector().keep(&mut record, result.as_ref().map(|_| FileOutcome::Transferred));
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_refused_command() => {
            Err(client.explained_refusal(path, error, "list it with ls").await)
        }
        Err(error) => Err(error),
    }
}
