//! The files of a crate, and the items of other files that each file names.
//!
//! Paths are resolved as far as the directory of the crate allows: `crate`, `self`, `super`, child
//! modules and imported names lead to a file, and a name that another module re-exports leads to
//! the file that defines it. Macros and glob re-exports are not expanded. Code that is compiled
//! only for tests is ignored.

use super::paths::{Import, imports, qualified_paths};
use super::source::Source;
use std::collections::HashMap;

/// Maximum number of re-exports that are followed for one path.
const REEXPORTS_MAX: usize = 8;

/// The place at which a file names an item of another file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge<'a> {
    pub(super) from: &'a Source,
    /// Position in `from`.
    pub(super) position: usize,
    pub(super) to: &'a Source,
    pub(super) item: &'a str,
}

/// A file as a module of its crate.
struct Module<'a> {
    source: &'a Source,
    /// Names of the module and its parents; empty for the root.
    path: Vec<&'a str>,
    imports: Vec<Import<'a>>,
    inline: Vec<InlineModule<'a>>,
}

/// A module in the text of its parent.
struct InlineModule<'a> {
    name: &'a str,
    start: usize,
    end: usize,
}

/// Names that a file imports, with their paths from the root.
type ImportedNames<'a> = HashMap<&'a str, Vec<&'a str>>;

/// All modules below one root file.
struct ModuleTree<'a> {
    modules: Vec<Module<'a>>,
    by_path: HashMap<Vec<&'a str>, usize>,
    /// Paths of re-exported names, with the paths that they stand for.
    reexports: HashMap<Vec<&'a str>, Vec<&'a str>>,
}

/// Returns the items of other files that the files below `root` name. `root` is the directory of
/// the root file, for example `crates/net/src`.
pub(super) fn edges<'a>(sources: &[&'a Source], root: &str) -> Vec<Edge<'a>> {
    let tree = ModuleTree::new(sources, root);
    let mut edges = Vec::new();
    for module in tree.modules.iter().filter(|module| !module.source.is_test_file()) {
        tree.add_edges(module, &mut edges);
    }
    edges
}

impl<'a> ModuleTree<'a> {
    fn new(sources: &[&'a Source], root: &str) -> Self {
        let mut modules = Vec::new();
        let mut by_path = HashMap::new();
        for source in sources {
            let Some(path) = module_path(&source.path, root) else { continue };
            by_path.insert(path.clone(), modules.len());
            let imports = imports(source);
            let imports =
                imports.into_iter().filter(|import| !source.is_test(import.position)).collect();
            modules.push(Module { source, path, imports, inline: inline_modules(source) });
        }
        let mut tree = Self { modules, by_path, reexports: HashMap::new() };
        tree.reexports = tree.reexports();
        tree
    }

    fn reexports(&self) -> HashMap<Vec<&'a str>, Vec<&'a str>> {
        let mut reexports = HashMap::new();
        for module in self.modules.iter().filter(|module| !module.source.is_test_file()) {
            let names = self.imported_names(module);
            for import in module.imports.iter().filter(|import| import.is_public) {
                if let Some(name) = name_of(import)
                    && let Some(path) = names.get(name)
                {
                    reexports.insert([&module.path[..], &[name]].concat(), path.clone());
                }
            }
        }
        reexports
    }

    /// Returns the names that the file imports from its own crate.
    fn imported_names(&self, module: &Module<'a>) -> ImportedNames<'a> {
        let mut names = HashMap::new();
        // The second round resolves paths that begin with a name of the first one.
        for _ in 0..2 {
            for import in &module.imports {
                if let Some(name) = name_of(import)
                    && let Some(path) =
                        self.absolute(module, &import.segments, import.position, &names)
                {
                    names.insert(name, path);
                }
            }
        }
        names
    }

    /// Returns the path from the root for a path at `position` of a file; `None` if it leads to
    /// another crate or to a name of the file itself.
    fn absolute(
        &self,
        module: &Module<'a>,
        segments: &[&'a str],
        position: usize,
        names: &ImportedNames<'a>,
    ) -> Option<Vec<&'a str>> {
        let (first, mut rest) = segments.split_first()?;
        let mut path = module.path_at(position);
        match *first {
            "crate" => path.clear(),
            "self" => {}
            "super" => drop(path.pop()?),
            name => {
                path.push(name);
                if !self.by_path.contains_key(&path) {
                    path = names.get(name)?.clone();
                }
            }
        }
        while let Some((&"super", after)) = rest.split_first() {
            path.pop()?;
            rest = after;
        }
        path.extend(rest.iter().filter(|segment| **segment != "self"));
        Some(path)
    }

    fn add_edges(&self, module: &Module<'a>, edges: &mut Vec<Edge<'a>>) {
        let names = self.imported_names(module);
        for import in &module.imports {
            if let Some(path) = self.absolute(module, &import.segments, import.position, &names) {
                self.add_edge(module, path, import.position, import.is_public, edges);
            }
        }
        for path in qualified_paths(module.source) {
            if module.source.is_test(path.position) {
                continue;
            }
            if let Some(absolute) = self.absolute(module, &path.segments, path.position, &names) {
                self.add_edge(module, absolute, path.position, false, edges);
            }
        }
    }

    fn add_edge(
        &self,
        module: &Module<'a>,
        path: Vec<&'a str>,
        position: usize,
        is_reexport: bool,
        edges: &mut Vec<Edge<'a>>,
    ) {
        let path = self.without_reexports(path);
        let Some((to, item)) = self.file_of(&path) else { return };
        // A parent may re-export the items of its children: a module is more than its file.
        let is_published_child = is_reexport && to.path.starts_with(&module.path);
        let is_itself = to.path == module.path;
        if is_itself || is_published_child || to.source.is_test_file() {
            return;
        }
        edges.push(Edge { from: module.source, position, to: to.source, item });
    }

    /// Replaces re-exported names in `path` by the paths that they stand for.
    fn without_reexports(&self, mut path: Vec<&'a str>) -> Vec<&'a str> {
        for _ in 0..REEXPORTS_MAX {
            let prefixes =
                (1..=path.len()).rev().filter_map(|length| path.split_at_checked(length));
            let mut unknown = prefixes.filter(|(prefix, _)| !self.by_path.contains_key(*prefix));
            let found =
                unknown.find_map(|(prefix, rest)| Some((self.reexports.get(prefix)?, rest)));
            let Some((target, rest)) = found else { break };
            path = [target, rest].concat();
        }
        path
    }

    /// Returns the file that a path leads to, and the name that is looked up there; `None` if the
    /// path names only the file.
    fn file_of(&self, path: &[&'a str]) -> Option<(&Module<'a>, &'a str)> {
        if self.by_path.contains_key(path) {
            return None;
        }
        for length in (0..path.len()).rev() {
            let (prefix, rest) = path.split_at_checked(length)?;
            if let Some(module) =
                self.by_path.get(prefix).and_then(|number| self.modules.get(*number))
            {
                return Some((module, rest.first()?));
            }
        }
        None
    }
}

impl<'a> Module<'a> {
    /// Returns the path of the module that contains the position, which may be an inline module.
    fn path_at(&self, position: usize) -> Vec<&'a str> {
        let inline =
            self.inline.iter().filter(|inline| (inline.start..inline.end).contains(&position));
        self.path.iter().copied().chain(inline.map(|inline| inline.name)).collect()
    }
}

/// Returns the name that an import defines in its file; `None` for a glob.
fn name_of<'a>(import: &Import<'a>) -> Option<&'a str> {
    let named = import.segments.iter().rev().find(|segment| **segment != "self")?;
    import.alias.or(Some(*named)).filter(|name| *name != "*" && *name != "_")
}

/// Returns the path of the module in the file at `path`; `None` if the file is not below `root`, or
/// is below `root` but has a root of its own.
fn module_path<'a>(path: &'a str, root: &str) -> Option<Vec<&'a str>> {
    let stem = path.strip_prefix(root)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let mut names: Vec<&str> = stem.split('/').collect();
    if names.first() == Some(&"bin") {
        return None;
    }
    if matches!(names.last(), Some(&("mod" | "lib" | "main"))) {
        names.pop();
    }
    Some(names)
}

fn inline_modules(source: &Source) -> Vec<InlineModule<'_>> {
    let mut modules = Vec::new();
    for start in source.places_of("mod ").into_iter().filter(|start| !source.is_test(*start)) {
        let item = source.item(start);
        if let Some((declaration, _)) = item.split_once('{') {
            let name = declaration.trim_start_matches("mod ").trim();
            modules.push(InlineModule { name, start, end: start + item.len() });
        }
    }
    modules
}
