//! Rule: every path that ARCHITECTURE.md names exists.

use super::finding::Finding;

/// Applies the rule to the text of ARCHITECTURE.md; `exists` returns whether a path relative to the
/// root exists.
pub(super) fn check(text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_picture = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("```") {
            in_picture = !in_picture;
        } else if !in_picture {
            // Text between an odd and the next even backquote is code.
            for path in line.split('`').skip(1).step_by(2).filter(|code| is_path(code)) {
                if !exists(path) {
                    findings.push(Finding::new(number, format!("there is no {path}")));
                }
            }
        }
    }
    findings
}

/// Returns whether `code` is a path relative to the root. An absolute path begins with `/`, and a
/// call or a command has other characters.
fn is_path(code: &str) -> bool {
    let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    let is_file = [".rs", ".md", ".toml"].iter().any(|end| code.ends_with(end));
    is_plain && !code.starts_with('/') && (code.contains('/') || is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        let findings = check("see `crates/a`\nand `crates/b`", |path| path == "crates/a");
        assert_eq!(findings, [Finding::new(2, "there is no crates/b")]);
    }

    #[test]
    fn a_file_at_the_root_is_a_path() {
        assert_eq!(check("`README.md`", |_| false).len(), 1);
    }

    #[test]
    fn calls_devices_and_pictures_are_no_paths() {
        let text = "`cx: &mut Cx` `no_std` `/dev/net/tun`\n```\n`a/b`\n```\n";
        assert_eq!(check(text, |_| false), []);
    }
}
