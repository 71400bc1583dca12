//! Rule: the public items of each published package are those listed in `docs/api`.
//!
//! A list has one line per public item: its kind, its path, and its signature or type. It makes each
//! change of an interface visible in a review. The lists are read from the source text, so they need
//! no compiler: an item is public if its module is public or a public `use` exports it. The members
//! of items that a macro declares are listed as they are written in the invocation.
//!
//! `PLUMB_UPDATE_DOCS=1 cargo xtask tidy` writes the lists.

mod item;

use super::finding::Finding;
use super::source::{Source, is_name};
use anyhow::{Context, Result};
use item::{Item, items, tidied};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The directories of the published packages below `crates`.
const PACKAGES: [&str; 3] = ["net", "protocols", "os"];

/// Maximum number of names that are followed from a path to its item.
const RESOLUTION_DEPTH_MAX: u8 = 16;

/// Compares each list in `root` with the sources, or writes the lists if PLUMB_UPDATE_DOCS is 1.
pub(super) fn check(root: &Path, sources: &[Source]) -> Result<Vec<(String, Vec<Finding>)>> {
    let is_update = std::env::var_os("PLUMB_UPDATE_DOCS").is_some_and(|value| value == "1");
    let mut findings = Vec::new();
    for package in PACKAGES {
        let path = format!("docs/api/{package}.txt");
        let list = Package::read(package, sources).list();
        let file = root.join(&path);
        if is_update {
            let directory = file.parent().unwrap_or(root);
            std::fs::create_dir_all(directory).with_context(|| format!("cannot make {path}"))?;
            std::fs::write(&file, &list).with_context(|| format!("cannot write {path}"))?;
        } else {
            let old = std::fs::read_to_string(&file).unwrap_or_default();
            findings.push((path, differences(&old, &list)));
        }
    }
    Ok(findings)
}

/// Returns a finding for each line of only one of two lists.
fn differences(old: &str, new: &str) -> Vec<Finding> {
    let remedy = "run PLUMB_UPDATE_DOCS=1 cargo xtask tidy";
    let new_lines: BTreeSet<&str> = new.lines().collect();
    let old_lines: BTreeSet<&str> = old.lines().collect();
    let gone = (1..).zip(old.lines()).filter(|(_, line)| !new_lines.contains(line));
    let gone = gone.map(|(number, line)| {
        Finding::new(number, format!("the public item is gone: {line}; {remedy}"))
    });
    let added = new.lines().filter(|line| !old_lines.contains(line));
    let added =
        added.map(|line| Finding::new(1, format!("the public item is new: {line}; {remedy}")));
    gone.chain(added).collect()
}

/// The modules of one package by their paths. The path of the package itself is empty.
#[derive(Debug, Default)]
struct Package {
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Debug, Default)]
struct Module {
    is_public: bool,
    items: Vec<Item>,
    /// The paths of all `use` declarations.
    uses: Vec<Use>,
}

/// One path of a `use` declaration.
#[derive(Debug, PartialEq, Eq)]
struct Use {
    is_public: bool,
    /// The name that the declaration introduces; `*` for all names of a module.
    name: String,
    path: Vec<String>,
}

/// A module or an item, by the path of its module and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Module(Vec<String>),
    Item(Vec<String>, String),
}

impl Package {
    fn read(package: &str, sources: &[Source]) -> Self {
        let directory = format!("crates/{package}/src/");
        let files = sources.iter().filter_map(|source| {
            let path = source.path.strip_prefix(&directory)?.strip_suffix(".rs")?;
            let path = path.strip_suffix("/mod").unwrap_or(path);
            let path = if path == "lib" { "" } else { path };
            let path: Vec<String> =
                path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            Some((path, source.code.as_str()))
        });
        let files: BTreeMap<Vec<String>, &str> = files.collect();
        let mut this = Self::default();
        if let Some(code) = files.get(&Vec::new()) {
            this.add_module(&[], true, code, &files);
        }
        this
    }

    /// Adds a module and the modules that it declares.
    fn add_module(
        &mut self,
        path: &[String],
        is_public: bool,
        code: &str,
        files: &BTreeMap<Vec<String>, &str>,
    ) {
        let mut module = Module { is_public, items: items(code), uses: Vec::new() };
        let declared = declared_by_macros(&module.items);
        module.items.extend(declared);
        let children: Vec<Item> =
            module.items.iter().filter(|item| item.kind == "mod").cloned().collect();
        for item in module.items.extract_if(.., |item| item.kind == "use") {
            let mut uses = Vec::new();
            expand(&item.name, &[], &mut uses);
            module.uses.extend(uses.into_iter().map(|(name, path)| Use {
                is_public: item.is_public,
                name,
                path,
            }));
        }
        self.modules.insert(path.to_vec(), module);
        for child in children {
            let child_path = joined(path, &child.name);
            let code = match child.body.as_str() {
                "" => files.get(&child_path).copied().unwrap_or_default(),
                body => body,
            };
            self.add_module(&child_path, is_public && child.is_public, code, files);
        }
    }

    /// Returns the list of public items.
    fn list(&self) -> String {
        let mut lines = BTreeSet::new();
        let implementations = self.implementations();
        for (path, module) in self.modules.iter().filter(|(_, module)| module.is_public) {
            if !path.is_empty() {
                lines.insert((path.join("::"), "mod".to_owned(), String::new()));
            }
            for item in module.items.iter().filter(|item| item.is_public && item.kind != "mod") {
                let target = Target::Item(path.clone(), item.name.clone());
                list_item(path, item, implementations.get(&target), &mut lines);
            }
            for exported in module.uses.iter().filter(|exported| exported.is_public) {
                self.list_export(path, exported, &implementations, &mut lines);
            }
        }
        for (path, module) in &self.modules {
            list_macros(path, &module.items, &mut lines);
        }
        let line =
            |(path, kind, suffix): &(String, String, String)| format!("{kind} {path}{suffix}\n");
        lines.iter().map(line).collect()
    }

    /// Lists an exported item: with its members if its own module is private.
    fn list_export(
        &self,
        path: &[String],
        exported: &Use,
        implementations: &BTreeMap<Target, Vec<Item>>,
        lines: &mut BTreeSet<(String, String, String)>,
    ) {
        let target = self.resolve(path, &exported.path, 0);
        let item = match &target {
            Some(Target::Item(module, name)) if !self.is_public(module) => self
                .find(module, name)
                .map(|item| Item { name: exported.name.clone(), ..item.clone() }),
            _ => None,
        };
        if let (Some(item), Some(target)) = (item, &target) {
            return list_item(path, &item, implementations.get(target), lines);
        }
        let origin = match target {
            Some(Target::Item(module, name)) => joined(&module, &name),
            Some(Target::Module(module)) => module,
            None => exported.path.clone(),
        };
        let name = joined(path, &exported.name).join("::");
        lines.insert((name, "use".to_owned(), format!(" = {}", origin.join("::"))));
    }

    /// Returns the items in the implementations of each type, and the traits as items of the kind
    /// `impl`, except traits that are not public.
    fn implementations(&self) -> BTreeMap<Target, Vec<Item>> {
        let mut found: BTreeMap<Target, Vec<Item>> = BTreeMap::new();
        for (path, module) in &self.modules {
            for item in module.items.iter().filter(|item| item.kind.ends_with("impl")) {
                let (interface, name) = implemented(&item.name);
                let name: Vec<String> = name.split("::").map(str::to_owned).collect();
                let Some(target) = self.resolve(path, &name, 0) else { continue };
                let members = found.entry(target).or_default();
                match interface {
                    Some(name) if self.is_private_trait(path, &name) => {}
                    Some(name) => members.push(Item {
                        kind: "impl".to_owned(),
                        name,
                        is_public: true,
                        ..Item::default()
                    }),
                    None => members.extend(items(&item.body)),
                }
            }
        }
        found
    }

    /// Returns whether `name` denotes a trait of this crate without `pub` in the module at `path`.
    fn is_private_trait(&self, path: &[String], name: &str) -> bool {
        let path_of_trait: Vec<String> = name.split("::").map(str::to_owned).collect();
        match self.resolve(path, &path_of_trait, 0) {
            Some(Target::Item(module, name)) => {
                self.find(&module, &name).is_some_and(|item| !item.is_public)
            }
            _ => false,
        }
    }

    fn is_public(&self, module: &[String]) -> bool {
        self.modules.get(module).is_some_and(|module| module.is_public)
    }

    fn find(&self, module: &[String], name: &str) -> Option<&Item> {
        let is_named = |item: &&Item| item.name == name && !item.kind.ends_with("impl");
        self.modules.get(module)?.items.iter().find(is_named)
    }

    /// Returns the module or item that `path` denotes in the module at `from`; `None` for an item
    /// of another crate.
    fn resolve(&self, from: &[String], path: &[String], depth: u8) -> Option<Target> {
        if depth > RESOLUTION_DEPTH_MAX {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let parent = || from.split_last().map(|(_, parent)| parent.to_vec());
        let first = match first.as_str() {
            "crate" => Target::Module(Vec::new()),
            "self" => Target::Module(from.to_vec()),
            "super" => Target::Module(parent()?),
            name => self.resolve_name(from, name, depth)?,
        };
        let Some(next) = rest.first() else { return Some(first) };
        let Target::Module(module) = first else { return None };
        match (self.resolve_child(&module, next, depth + 1)?, rest.get(1..).unwrap_or_default()) {
            (target, []) => Some(target),
            (Target::Module(module), rest) => {
                let path = [&["self".to_owned()], rest].concat();
                self.resolve(&module, &path, depth + 1)
            }
            (Target::Item(..), _) => None,
        }
    }

    /// Returns the module or item `name` of a module, where `super` denotes its parent.
    fn resolve_child(&self, module: &[String], name: &str, depth: u8) -> Option<Target> {
        match name {
            "super" => module.split_last().map(|(_, parent)| Target::Module(parent.to_vec())),
            _ => self.resolve_name(module, name, depth),
        }
    }

    /// Returns the module or item called `name` in the module at `from`.
    fn resolve_name(&self, from: &[String], name: &str, depth: u8) -> Option<Target> {
        let module = self.modules.get(from)?;
        let child = joined(from, name);
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if self.find(from, name).is_some() {
            return Some(Target::Item(from.to_vec(), name.to_owned()));
        }
        let named = module.uses.iter().find(|used| used.name == name);
        if let Some(used) = named {
            return self.resolve(from, &used.path, depth + 1);
        }
        module.uses.iter().filter(|used| used.name == "*").find_map(|used| {
            let Target::Module(module) = self.resolve(from, &used.path, depth + 1)? else {
                return None;
            };
            (module != from).then(|| self.resolve_name(&module, name, depth + 1))?
        })
    }
}

fn joined(path: &[String], name: &str) -> Vec<String> {
    [path, &[name.to_owned()]].concat()
}

/// Lists an item of the module at `path`, its members, and the items of its implementations.
fn list_item(
    path: &[String],
    item: &Item,
    implementations: Option<&Vec<Item>>,
    lines: &mut BTreeSet<(String, String, String)>,
) {
    if item.name.is_empty() || matches!(item.kind.as_str(), "macro" | "macro_rules") {
        return;
    }
    let own = joined(path, &item.name);
    lines.insert((own.join("::"), item.kind.clone(), item.suffix.clone()));
    for member in &item.members {
        let path = joined(&own, &member.name).join("::");
        lines.insert((path, member.kind.to_owned(), member.suffix.clone()));
    }
    for member in implementations.into_iter().flatten().filter(|member| member.is_public) {
        if member.kind == "impl" {
            lines.insert((own.join("::"), "impl".to_owned(), format!(": {}", member.name)));
        } else {
            let path = joined(&own, &member.name).join("::");
            lines.insert((path, member.kind.clone(), member.suffix.clone()));
        }
    }
}

/// Returns the enums that the macros in `items` declare: those that the body of a macro names, and
/// those that an invocation names.
fn declared_by_macros(items: &[Item]) -> Vec<Item> {
    let declared = |macro_rules: &Item| {
        let names = macro_rules.body.split("pub enum ").skip(1);
        let names = names.filter_map(|text| text.split_whitespace().next());
        let invoked = || {
            let is_own = |item: &&Item| item.kind == "macro" && item.name == macro_rules.name;
            let bodies = items.iter().filter(is_own).map(|item| item.body.as_str());
            let names = bodies.filter_map(|body| Some(body.split_once('{')?.0.trim()));
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        let names = names.flat_map(|name| match name.starts_with('$') {
            true => invoked(),
            false => vec![name.to_owned()],
        });
        names.collect::<Vec<_>>()
    };
    let macros = items.iter().filter(|item| item.kind == "macro_rules");
    let item = |name| Item { kind: "enum".to_owned(), name, is_public: true, ..Item::default() };
    macros.flat_map(declared).map(item).collect()
}

/// Lists what macros declare: the public declarations in the body of a macro, and the members in
/// each invocation of such a macro.
fn list_macros(path: &[String], items: &[Item], lines: &mut BTreeSet<(String, String, String)>) {
    let path = |name: &str| format!("{}!", joined(path, name).join("::"));
    let is_end = |c: char| matches!(c, '{' | '}' | ';');
    for item in items.iter().filter(|item| item.kind == "macro_rules") {
        for line in item.body.split(is_end).map(str::trim) {
            let public = line.split_once("pub ").map(|(_, declaration)| declaration);
            let declaration = public.and_then(|text| text.split('=').next());
            if let Some(declaration) = declaration.filter(|_| !line.contains("=>")) {
                let suffix = format!(" pub {}", tidied(declaration));
                lines.insert((path(&item.name), "macro".to_owned(), suffix));
            }
        }
    }
    let is_public = |name: &str| {
        let mut definitions = items.iter().filter(|item| item.kind == "macro_rules");
        definitions.any(|item| item.name == name && item.body.contains("pub "))
    };
    for item in items.iter().filter(|item| item.kind == "macro" && is_public(&item.name)) {
        let declared = item.body.split_once('{').map(|(name, _)| name.trim());
        let body = declared.map_or(item.body.as_str(), |name| {
            item.body.trim_start().strip_prefix(name).unwrap_or(&item.body)
        });
        let owner = declared.map(|name| format!(" {name}")).unwrap_or_default();
        for member in body.split([',', ';', '{', '}']).map(tidied).filter(|text| !text.is_empty()) {
            lines.insert((path(&item.name), "member".to_owned(), format!("{owner} {member}")));
        }
    }
}

/// Splits the head of an implementation into its trait, if it has one, and the path of its type.
fn implemented(head: &str) -> (Option<String>, String) {
    let head = match head.starts_with('<') {
        true => head.get(angles_length(head)..).unwrap_or_default().trim_start(),
        false => head,
    };
    let head = head.split(" where ").next().unwrap_or(head);
    let (interface, name) = match head.rsplit_once(" for ") {
        Some((interface, name)) => (Some(interface.to_owned()), name),
        None => (None, head),
    };
    let name = name.trim_start_matches(['&', '\'']).trim_start_matches("mut ");
    let end = name.find(|c| !is_name(c) && c != ':').unwrap_or(name.len());
    (interface, name.get(..end).unwrap_or(name).trim_end_matches(':').to_owned())
}

/// Returns the length of the generic parameters at the start of `text`.
fn angles_length(text: &str) -> usize {
    let mut depth = 0_u32;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
        before = c;
    }
    text.len()
}

/// Appends the paths of a `use` tree to `uses`, each with the name that it introduces.
fn expand(tree: &str, prefix: &[String], uses: &mut Vec<(String, Vec<String>)>) {
    let tree = tree.trim();
    if let Some((before, group)) = tree.split_once('{') {
        let segments = before.split("::").map(str::trim).filter(|part| !part.is_empty());
        let prefix = [prefix, &segments.map(str::to_owned).collect::<Vec<_>>()].concat();
        let mut depth = 0_u32;
        let inner = group.trim_end().strip_suffix('}').unwrap_or(group);
        let is_separator = |c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        };
        for part in inner.split(is_separator).filter(|part| !part.trim().is_empty()) {
            expand(part, &prefix, uses);
        }
        return;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let segments = path.split("::").map(str::trim).filter(|part| !part.is_empty());
    let mut path = [prefix, &segments.map(str::to_owned).collect::<Vec<_>>()].concat();
    let is_glob = path.last().is_some_and(|last| last == "*");
    if is_glob || (path.len() > 1 && path.last().is_some_and(|last| last == "self")) {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    let name =
        if is_glob { "*".to_owned() } else { alias.map_or(last, |name| name.trim().to_owned()) };
    uses.push((name, path));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |(path, text): &(&str, &str)| Source::new(&format!("crates/net/src/{path}"), text);
        let sources: Vec<Source> = files.iter().map(source).collect();
        Package::read("net", &sources).list().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_list_has_the_items_of_public_modules_with_their_methods() {
        let files = [
            ("lib.rs", "pub mod a;\nmod b;\n"),
            (
                "a.rs",
                "/// Doc.\npub struct C;\nstruct D;\nimpl C { pub fn e(&self) {} fn f() {} }\n",
            ),
            ("b.rs", "use crate::a::C;\npub fn g() {}\nimpl C { pub fn h() {} }\n"),
        ];
        let expected = ["mod a", "struct a::C", "fn a::C::e(&self)", "fn a::C::h()"];
        assert_eq!(list(&files), expected);
    }

    #[test]
    fn an_export_of_a_private_module_is_listed_where_it_is_public() {
        let files = [
            ("lib.rs", "mod a;\npub use a::b::{C, D as E};\npub use core::time::Duration;\n"),
            ("a/mod.rs", "pub mod b;\n"),
            (
                "a/b.rs",
                "#[derive(Debug)]\npub enum C { F }\npub type D = u8;\nimpl Clone for C {}\n",
            ),
        ];
        let expected = [
            "enum C: Debug",
            "impl C: Clone",
            "variant C::F",
            "use Duration = core::time::Duration",
            "type E = u8",
        ];
        assert_eq!(list(&files), expected);
    }

    #[test]
    fn a_second_path_of_a_public_item_names_the_first() {
        let files = [("lib.rs", "pub mod a;\npub use a::B;\n"), ("a.rs", "pub struct B;\n")];
        assert_eq!(list(&files), ["use B = a::B", "mod a", "struct a::B"]);
    }

    #[test]
    fn the_members_of_a_macro_are_listed() {
        let code = "macro_rules! names { ($a:ident) => { pub enum $a { } }; }\nnames! { B { C \"c\", } }\n";
        let code = format!("{code}impl B {{ pub fn d() {{}} }}\n");
        let expected = ["enum B", "fn B::d()", "macro names! pub enum $a", "member names! B C"];
        assert_eq!(list(&[("lib.rs", &code)]), expected);
    }

    #[test]
    fn the_members_of_a_macro_without_public_declarations_are_not_listed() {
        let code = "macro_rules! names { ($a:ident) => { pub(crate) enum $a { } }; }\nnames! { B { C } }\n";
        assert_eq!(list(&[("lib.rs", code)]), [""; 0]);
    }

    #[test]
    fn a_trait_that_is_not_public_is_not_listed_at_its_implementation() {
        let files = [
            ("lib.rs", "mod a;\npub struct B;\nuse a::{C, D};\nimpl C for B {}\nimpl D for B {}\n"),
            ("a.rs", "pub(crate) trait C {}\npub trait D {}\n"),
        ];
        assert_eq!(list(&files), ["impl B: D", "struct B"]);
    }

    #[test]
    fn each_line_of_only_one_list_is_a_finding() {
        let found = differences("a\nb\n", "b\nc\n");
        let sentences: Vec<&str> = found.iter().map(|found| found.sentence.as_str()).collect();
        assert_eq!(sentences.len(), 2);
        assert!(sentences[0].contains("gone: a;") && sentences[1].contains("new: c;"));
    }
}
