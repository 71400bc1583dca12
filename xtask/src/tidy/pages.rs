//! Rule: every page of the documentation is linked from the page that lists it.
//!
//! `docs/SUMMARY.md` lists all pages, because mdBook leaves out a page that it does not list.
//! `docs/commands.md` also lists the pages of the commands.

use super::finding::Finding;

/// Directory of the pages.
const PAGES: &str = "docs/";
/// Lists and the prefix of the paths of the pages that each lists.
const LISTS: [(&str, &str); 2] =
    [("docs/SUMMARY.md", "docs/"), ("docs/commands.md", "docs/commands/")];

/// Applies the rule to the paths and texts of the files. Returns the findings by path.
pub(super) fn check(files: &[(&str, &str)]) -> Vec<(String, Vec<Finding>)> {
    let mut violations = Vec::new();
    for (list, prefix) in LISTS {
        let Some((_, text)) = files.iter().find(|(path, _)| *path == list) else { continue };
        let pages = files.iter().map(|(path, _)| *path);
        for path in pages.filter(|path| path.starts_with(prefix) && path.ends_with(".md")) {
            let link = path.strip_prefix(PAGES).unwrap_or(path);
            if path != list && !text.contains(&format!("({link})")) {
                let finding = Finding::new(1, format!("{list} has no link to this page"));
                violations.push((path.to_owned(), vec![finding]));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_link_is_found() {
        let files = [
            ("docs/SUMMARY.md", "[A](a.md) [B](commands/b.md) [Commands](commands.md)"),
            ("docs/a.md", ""),
            ("docs/commands.md", "[`plumb c`](commands/c.md)"),
            ("docs/commands/b.md", ""),
            ("docs/commands/c.md", ""),
            ("crates/d.md", ""),
        ];
        let found = |list: &str, path: &str| {
            let sentence = format!("{list} has no link to this page");
            (path.to_owned(), vec![Finding::new(1, sentence)])
        };
        assert_eq!(
            check(&files),
            [
                found("docs/SUMMARY.md", "docs/commands/c.md"),
                found("docs/commands.md", "docs/commands/b.md")
            ]
        );
    }
}
