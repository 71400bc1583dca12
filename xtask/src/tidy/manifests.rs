//! Rules about Cargo.toml: a crate has only allowed dependencies, and docs/dependencies.md has a
//! line for every library.
//!
//! The rules understand the part of TOML that the Cargo.toml files here use: a table heading on its
//! own line, and one key at the start of a line.

use super::{File, Finding, text_of};

const DOCUMENT: &str = "docs/dependencies.md";

/// Forbidden dependencies of a crate outside its tests. A crate that could use them could not
/// guarantee, for example, that its engines do no I/O.
const FORBIDDEN: [(&str, &[&str]); 4] = [
    (
        "protocols",
        &["os", "records", "simulator", "plumbline", "libc", "rustix", "socket2", "tokio"],
    ),
    ("simulator", &["os", "records", "plumbline", "libc", "rustix", "socket2", "tokio"]),
    ("records", &["os", "simulator", "plumbline", "libc", "socket2", "tokio"]),
    ("os", &["records", "simulator", "plumbline"]),
];

/// One dependency in one table.
#[derive(Debug, PartialEq, Eq)]
struct Dependency<'a> {
    line: usize,
    table: &'a str,
    name: &'a str,
    is_ours: bool,
}

/// Applies the rules to all manifests, and returns the findings by path.
pub(super) fn check(files: &[File]) -> Vec<(String, Vec<Finding>)> {
    let document = text_of(files, DOCUMENT);
    let is_manifest = |path: &str| path == "Cargo.toml" || path.ends_with("/Cargo.toml");
    let mut all = Vec::new();
    for manifest in files.iter().filter(|file| is_manifest(&file.path)) {
        let dependencies = dependencies(&manifest.text);
        let mut findings = undescribed(&dependencies, document);
        findings.extend(forbidden(&manifest.path, &dependencies));
        all.push((manifest.path.clone(), findings));
    }
    if text_of(files, "Cargo.lock").is_empty() {
        let sentence = "Cargo.lock is missing, which fixes the tested versions of dependencies";
        all.push(("Cargo.lock".to_owned(), vec![Finding::new(1, sentence)]));
    }
    all
}

fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut table = "";
    for (line, text) in (1..).zip(manifest.lines()) {
        if let Some(heading) = text.strip_prefix('[').and_then(|t| t.split(']').next()) {
            table = heading;
            // [dependencies.NAME] is a separate table.
            if let Some((parent, name)) = heading.rsplit_once('.')
                && parent.ends_with("dependencies")
            {
                found.push(Dependency { line, table: parent, name, is_ours: false });
            }
        } else if table.ends_with("dependencies") {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() && !name.starts_with('#') {
                let is_ours = text.contains("path = ");
                found.push(Dependency { line, table, name, is_ours });
            }
        }
    }
    found
}

fn undescribed(dependencies: &[Dependency<'_>], document: &str) -> Vec<Finding> {
    let is_described = |name: &str| {
        let cell = format!("| `{name}` |");
        document.lines().any(|line| line.starts_with(&cell))
    };
    let is_new = |dependency: &&Dependency<'_>| {
        !dependency.is_ours
            && !WORKSPACE_CRATES.contains(&dependency.name)
            && !is_described(dependency.name)
    };
    let sentence = |name: &str| format!("{name} has no line in {DOCUMENT}");
    dependencies.iter().filter(is_new).map(|d| Finding::new(d.line, sentence(d.name))).collect()
}

/// The crates of the workspace, which need no reason.
const WORKSPACE_CRATES: [&str; 7] =
    ["protocols", "simulator", "os", "records", "plumbline", "test-support", "xtask"];

fn forbidden(path: &str, dependencies: &[Dependency<'_>]) -> Vec<Finding> {
    let krate = path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"));
    let Some((krate, names)) = FORBIDDEN.iter().find(|(name, _)| Some(*name) == krate) else {
        return Vec::new();
    };
    let is_forbidden = |dependency: &&Dependency<'_>| {
        !dependency.table.contains("dev-") && names.contains(&dependency.name)
    };
    let sentence = |name: &str| format!("{krate} must not depend on {name}");
    dependencies
        .iter()
        .filter(is_forbidden)
        .map(|d| Finding::new(d.line, sentence(d.name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(manifest: &str, document: &str, lock: &str) -> Vec<File> {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        vec![
            file("crates/protocols/Cargo.toml", manifest),
            file(DOCUMENT, document),
            file("Cargo.lock", lock),
        ]
    }

    fn sentences(files: &[File]) -> Vec<String> {
        check(files).into_iter().flat_map(|(_, found)| found).map(|f| f.sentence).collect()
    }

    #[test]
    fn a_library_without_its_line_is_found_in_any_table() {
        let manifest = "[dependencies]\nvte.workspace = true\n\n[dev-dependencies]\ninsta = \"1\"\n\
                        \n[target.'cfg(unix)'.dependencies]\nnix = \"1\"\n[dependencies.b]\n";
        let found = sentences(&files(manifest, "| `vte` | parsing |\n", "lock"));
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "insta has no line in docs/dependencies.md");
    }

    #[test]
    fn our_own_crates_need_no_line() {
        let manifest = "[dependencies]\nown = { path = \"../own\" }\n\
                        [dev-dependencies]\nos.workspace = true\n";
        assert!(sentences(&files(manifest, "", "lock")).is_empty());
    }

    #[test]
    fn keys_of_other_tables_are_no_libraries() {
        assert!(
            sentences(&files("[package]\nname = \"a\"\n[lints]\nb = 1\n", "", "lock")).is_empty()
        );
    }

    #[test]
    fn an_engine_that_depends_on_the_machine_is_found() {
        let found = sentences(&files("[dependencies]\nos.workspace = true\n", "", "lock"));
        assert_eq!(found, ["protocols must not depend on os"]);
    }

    #[test]
    fn a_missing_lock_file_is_found() {
        assert_eq!(sentences(&files("", "", "")).len(), 1);
    }
}
