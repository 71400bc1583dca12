//! Tables `[host.NAME]` of the configuration: their content, and changes of their text.
//!
//! Only the lines of one table change: comments, the order and the format of the rest remain. The
//! result is compared with the intended content, so that unusual syntax leads to an error and not to
//! a changed file.

use anyhow::{Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    #[serde(default)]
    host: BTreeMap<String, HostTable>,
}

/// Table of a host.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct HostTable {
    /// Destination of a login to this name.
    pub target: Option<String>,
    /// Options of a login, before those of the command line.
    #[serde(default)]
    pub login: Vec<String>,
    /// Meaning of TYPE I.
    pub image: Option<String>,
    /// Format of the host's words in local files.
    pub store: Option<String>,
}

impl HostTable {
    /// Returns whether the table saves a login.
    pub(super) fn is_login(&self) -> bool {
        self.target.is_some() || !self.login.is_empty()
    }
}

impl Configuration {
    /// Returns the table of `host`, whose case does not matter.
    #[must_use]
    pub fn host(&self, host: &str) -> Option<&HostTable> {
        self.host.iter().find(|(name, _)| name.eq_ignore_ascii_case(host)).map(|(_, table)| table)
    }

    /// Returns the names and tables of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (&String, &HostTable)> {
        self.host.iter()
    }

    /// Returns a line with the name, the destination and the options of each host of a login.
    pub(super) fn list(&self) -> String {
        let hosts = self.host.iter().filter(|(_, table)| table.is_login());
        let mut text = String::new();
        for (name, table) in hosts {
            let target = table.target.as_deref().unwrap_or(name);
            let options = table.login.join(" ");
            // Writing to a string does not fail.
            _ = writeln!(text, "{}", format!("{name}  {target}  {options}").trim_end());
        }
        text
    }

    /// Returns the saved name that is most similar to `name`, if there is one.
    pub(super) fn nearest(&self, name: &str) -> Option<&str> {
        let saved = self.host.iter().filter(|(_, table)| table.target.is_some());
        toml_file::nearest(name, saved.map(|(name, _)| name.as_str()))
    }
}

/// Returns `text` with the login of `host` in the table of `name`, instead of a previous login.
/// Without a login, the table is removed. The other settings of the table are kept.
///
/// # Errors
///
/// Returns an error if the name or the host cannot be written, or if the table of the host is not
/// below a line `[host.NAME]`.
pub(super) fn with_host(text: &str, name: &str, host: &HostTable) -> Result<String> {
    let before: Configuration = toml_file::parse(text)?;
    let previous = before.hosts().find(|(saved, _)| saved.eq_ignore_ascii_case(name));
    let previous = previous.map(|(saved, table)| (saved.clone(), table.clone()));
    let mut table = host.clone();
    let saved_name = match &previous {
        Some((saved, previous)) => {
            table.image.clone_from(&previous.image);
            table.store.clone_from(&previous.store);
            saved.as_str()
        }
        None => name,
    };
    let new =
        if table == HostTable::default() { String::new() } else { write(saved_name, &table)? };
    let edited = match &previous {
        None => format!("{text}{}{new}", separator(text)),
        Some(_) => replace(text, name, &new),
    };
    let after: Configuration = toml_file::parse(&edited)?;
    let expected = Some(&table).filter(|_| !new.is_empty());
    let others = |file: &Configuration| {
        let others = file.hosts().filter(|(saved, _)| !saved.eq_ignore_ascii_case(name));
        others.map(|(name, table)| (name.clone(), table.clone())).collect::<Vec<_>>()
    };
    if after.host(name) != expected || others(&after) != others(&before) {
        bail!("its table is not below a line [host.{saved_name}]: change it in the file");
    }
    Ok(edited)
}

/// Returns the line ends between `text` and a table that follows it.
fn separator(text: &str) -> &'static str {
    match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

/// Replaces the lines of the table of `name` by `new`. Comments and empty lines before the next table
/// are kept.
fn replace(text: &str, name: &str, new: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let Some(start) = lines.iter().position(|line| is_header_of(line, name)) else {
        return text.to_owned();
    };
    let rest = lines.get(start + 1..).unwrap_or_default();
    let next = rest.iter().position(is_header).unwrap_or(rest.len());
    let body = rest.get(..next).unwrap_or_default();
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let end = start + 1 + body.iter().rposition(is_content).map_or(0, |at| at + 1);
    let before = lines.get(..start).unwrap_or_default().concat();
    let after = lines.get(end..).unwrap_or_default().concat();
    if new.is_empty() {
        let after = after.strip_prefix('\n').unwrap_or(&after);
        return format!("{before}{after}");
    }
    format!("{before}{new}{after}")
}

/// Returns whether the line is `[host.NAME]`, with the name in quotes or without.
fn is_header_of(line: &str, name: &str) -> bool {
    let Some((key, _)) = line.trim().strip_prefix('[').and_then(|rest| rest.rsplit_once(']'))
    else {
        return false;
    };
    let Some((host, key)) = key.split_once('.') else { return false };
    let key = key.trim().trim_matches(['"', '\'']);
    host.trim() == "host" && key.eq_ignore_ascii_case(name)
}

/// Returns the table of a host as text.
fn write(name: &str, table: &HostTable) -> Result<String> {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.is_empty() || !name.chars().all(|letter| is_bare(letter) || letter == '.') {
        bail!("'{}' is not a name: use letters, digits, -, _ and .", name.escape_debug());
    }
    let key = if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() };
    let mut text = format!("[host.{key}]\n");
    let settings = [("target", &table.target), ("image", &table.image), ("store", &table.store)];
    for (key, value) in settings {
        if let Some(value) = value {
            // Writing to a string does not fail.
            _ = writeln!(text, "{key} = {}", quoted(value)?);
        }
    }
    if !table.login.is_empty() {
        let options: Result<Vec<_>> = table.login.iter().map(|option| quoted(option)).collect();
        _ = writeln!(text, "login = [{}]", options?.join(", "));
    }
    Ok(text)
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> Result<String> {
    if text.contains(char::is_control) {
        bail!("'{}' contains a control character", text.escape_debug());
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(target: &str) -> HostTable {
        let login = ["--encoding=cp437", "--log=a \"b\" \\"].map(str::to_owned).to_vec();
        HostTable { target: Some(target.to_owned()), login, ..HostTable::default() }
    }

    fn parsed(text: &str) -> Configuration {
        toml_file::parse(text).unwrap()
    }

    #[test]
    fn a_saved_host_is_read_again() {
        let mut text =
            String::from("# my hosts\n[host.router]\ntarget = \"serial:/dev/ttyUSB0\"\n");
        for name in ["bbs", "bbs.example.org"] {
            text = with_host(&text, name, &host("ann@bbs.example.org")).unwrap();
        }
        let file = parsed(&text);
        for name in ["BBS", "bbs.example.org"] {
            assert_eq!(file.host(name), Some(&host("ann@bbs.example.org")));
        }
        let list = file.list();
        let line = "bbs  ann@bbs.example.org  --encoding=cp437 --log=a \"b\" \\\n";
        assert!(list.starts_with(line), "{list}");
        assert!(list.ends_with("router  serial:/dev/ttyUSB0\n"), "{list}");
    }

    #[test]
    fn a_replaced_host_keeps_its_place_and_its_settings_for_files() {
        let text = "# hosts\n[host.a]\ntarget = \"a\"\n\n# its\n[host.\"ITS.example\"] # old\n\
                    image = \"L36\"\nlogin = [\n  \"--char\",\n]\n\n# last\n[host.z]\n\
                    target = \"z\"\n";
        let edited = with_host(text, "its.example", &host("new")).unwrap();
        let its = HostTable { image: Some("L36".to_owned()), ..host("new") };
        assert_eq!(parsed(&edited).host("its.example"), Some(&its));
        assert!(edited.starts_with("# hosts\n[host.a]\ntarget = \"a\"\n\n# its\n"), "{edited}");
        assert!(edited.ends_with("\n\n# last\n[host.z]\ntarget = \"z\"\n"), "{edited}");
        assert!(!edited.contains("--char"), "{edited}");
        let removed = with_host(&edited, "ITS.EXAMPLE", &HostTable::default()).unwrap();
        let rest = HostTable { image: Some("L36".to_owned()), ..HostTable::default() };
        assert_eq!(parsed(&removed).host("its.example"), Some(&rest));
        let removed = with_host(text, "a", &HostTable::default()).unwrap();
        assert!(removed.starts_with("# hosts\n# its\n"), "{removed}");
        assert_eq!(parsed(&removed).host("a"), None);
    }

    #[test]
    fn a_table_in_another_form_is_not_changed() {
        for text in ["[host]\nrouter = { target = \"r\" }\n", "host.router.target = \"r\"\n"] {
            for new in [host("new"), HostTable::default()] {
                let error = with_host(text, "router", &new).unwrap_err().to_string();
                assert!(error.contains("is not below a line [host.router]"), "{error}");
            }
        }
    }

    #[test]
    fn an_invalid_name_or_target_is_rejected() {
        for name in ["", "a b", "a]\n[x", "\u{fc}"] {
            let error = with_host("", name, &host("h")).unwrap_err().to_string();
            assert!(error.contains("is not a name"), "{name}");
        }
        assert!(with_host("", "new", &host("a\nb")).is_err());
    }

    #[test]
    fn a_similar_saved_name_is_found() {
        let text = "[host.router]\ntarget = \"r\"\n[host.its]\nstore = \"c36\"\n";
        let file: Configuration = toml_file::parse(text).unwrap();
        assert_eq!(file.nearest("ruoter"), Some("router"));
        assert_eq!((file.nearest("it"), file.nearest("example.org")), (None, None));
    }
}
