//! Text of `plumb --version`: version, commit, TLS library and optional parts.

use std::sync::LazyLock;

/// Returns version, commit, TLS library and optional parts of this build. Packages set
/// `PLUMB_COMMIT` when they build the program.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| text(option_env!("PLUMB_COMMIT")));
    &TEXT
}

fn text(commit: Option<&str>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = commit.filter(|commit| !commit.is_empty()).unwrap_or("unknown");
    // musl has neither PAM nor a database of logins.
    let system_users = if cfg!(target_env = "gnu") { "+pam +utmp" } else { "-pam -utmp" };
    format!(
        "{version}\ncommit: {commit}\nTLS: rustls with ring, TLS 1.2 and 1.3\n\
         features: +ipv6 +tls {system_users}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_the_commit_the_tls_library_and_the_features() {
        let text = text(Some("0123456789ab"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], [env!("CARGO_PKG_VERSION"), "commit: 0123456789ab"]);
        assert_eq!(lines[2], "TLS: rustls with ring, TLS 1.2 and 1.3");
        assert!(lines[3].starts_with("features: ") && lines[3].contains("pam"), "{text}");
        assert!(super::text(Some("")).contains("commit: unknown"));
    }
}
