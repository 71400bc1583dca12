//! Rules about Cargo.toml: a crate has only allowed dependencies, and docs/dependencies.md has a
//! line for every library.
//!
//! The rules understand the part of TOML that the Cargo.toml files here use: a table heading on its
//! own line, and one key at the start of a line.

use super::finding::Finding;
use crate::project_files::{File, text_of};

const DOCUMENT: &str = "docs/dependencies.md";

/// The order of the crates: each crate of the workspace, and the crates of the workspace on which it
/// may depend outside its tests.
const CRATES: &[(&str, &[&str])] = &[
    ("net", &[]),
    ("protocols", &["net"]),
    ("records", &[]),
    ("report", &["records"]),
    ("os", &["net"]),
    ("control", &["net", "os"]),
    ("carrier", &["net", "os", "toml-file"]),
    ("toml-file", &[]),
    ("open-metrics", &[]),
    ("transfer", &["net", "protocols", "os", "carrier", "records"]),
    (
        "server",
        &["net", "protocols", "os", "carrier", "transfer", "records", "toml-file", "open-metrics"],
    ),
    ("measure", &["net", "protocols", "os", "carrier", "transfer", "records"]),
    ("simulator", &["net"]),
    ("gateway", &["net"]),
    ("gateway-host", &["net", "os", "gateway", "open-metrics"]),
    (
        "laboratory",
        &["net", "protocols", "os", "control", "records", "report", "simulator", "gateway"],
    ),
    (
        "plumbline",
        &[
            "net",
            "protocols",
            "os",
            "carrier",
            "control",
            "transfer",
            "server",
            "measure",
            "toml-file",
            "records",
            "report",
            "simulator",
            "laboratory",
            "gateway",
            "gateway-host",
        ],
    ),
    ("test-support", &[]),
    ("conformance", &["net", "protocols", "os"]),
    ("bench", &["net", "protocols", "os", "records", "report", "simulator", "laboratory"]),
    ("examples", &["net", "os"]),
    ("xtask", &[]),
];

/// Crates whose engines or data do no I/O over a network and read no clock.
const PURE: [&str; 8] =
    ["net", "protocols", "records", "report", "simulator", "laboratory", "gateway", "open-metrics"];

/// Libraries that a pure crate may not use outside its tests: they reach the operating system.
const SYSTEM_LIBRARIES: [&str; 4] = ["libc", "rustix", "socket2", "tokio"];

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
            && !is_workspace_crate(dependency.name)
            && !is_described(dependency.name)
    };
    let sentence = |name: &str| format!("{name} has no line in {DOCUMENT}");
    dependencies.iter().filter(is_new).map(|d| Finding::new(d.line, sentence(d.name))).collect()
}

/// Returns whether `name` is a crate of the workspace, which needs no line in the document.
fn is_workspace_crate(name: &str) -> bool {
    CRATES.iter().any(|(krate, _)| *krate == name)
}

fn forbidden(path: &str, dependencies: &[Dependency<'_>]) -> Vec<Finding> {
    let directory = path.strip_suffix("/Cargo.toml").unwrap_or_default();
    let krate = directory.strip_prefix("crates/").unwrap_or(directory);
    let Some((_, allowed)) = CRATES.iter().find(|(name, _)| *name == krate) else {
        // `fuzz` and the peers of the benchmarks are workspaces of their own.
        let is_member = !directory.is_empty() && directory != "fuzz" && !krate.contains('/');
        let sentence = format!("{krate} has no row in the order of the crates");
        return if is_member { vec![Finding::new(1, sentence)] } else { Vec::new() };
    };
    let is_forbidden = |dependency: &&Dependency<'_>| {
        let name = &dependency.name;
        let is_system = PURE.contains(&krate) && SYSTEM_LIBRARIES.contains(name);
        let is_higher = is_workspace_crate(name) && !allowed.contains(name);
        !dependency.table.contains("dev-") && (is_system || is_higher)
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
    fn a_dependency_on_a_higher_crate_is_found() {
        let found = sentences(&files("[dependencies]\nos.workspace = true\n", "", "lock"));
        assert_eq!(found, ["protocols must not depend on os"]);
        let tests =
            "[dependencies]\nnet.workspace = true\n[dev-dependencies]\nos.workspace = true\n";
        assert!(sentences(&files(tests, "", "lock")).is_empty());
    }

    #[test]
    fn an_engine_that_depends_on_a_library_of_the_system_is_found() {
        let manifest = "[dependencies]\nlibc = \"0.2\"\n";
        let found = sentences(&files(manifest, "| `libc` | calls |\n", "lock"));
        assert_eq!(found, ["protocols must not depend on libc"]);
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let mut files = files("", "", "lock");
        files.push(File { path: "crates/new/Cargo.toml".into(), text: String::new() });
        assert_eq!(sentences(&files), ["new has no row in the order of the crates"]);
    }

    #[test]
    fn a_missing_lock_file_is_found() {
        assert_eq!(sentences(&files("", "", "")).len(), 1);
    }
}
