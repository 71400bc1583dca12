//! What a script sets beside its sockets, and whose habits it expects.
//!
//! The runner gives the library one string (`--so_flags`) of settings with commas between them. A
//! script also calls `sysctl`, as a program of its own; whoever starts the runner puts a program
//! of that name first in the search path that appends `name=value` to the file `sysctl` in a
//! folder, and the library reads that file when it opens a socket.

use protocols::transport::tcp::Profile;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Whose habits a script expects where the RFCs leave the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Linux: immediate acknowledgments, large buffers.
    #[default]
    Linux,
    /// FreeBSD: its order of options in a SYN, and its sizes of buffers.
    FreeBsd,
}

/// The policies with which connections run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policies {
    /// Those of the system for which the script was written; the device adapts what leaves to it.
    #[default]
    Tuned,
    /// What a program gets that embeds the library: `Profile::BULK` without Nagle's algorithm.
    Library,
    /// What `plumb get`, `put` and the servers of files use.
    Files,
    /// What the login server uses.
    Logins,
}

impl Policies {
    /// Returns the profile as users get it; `None` for the tuned one, which the script determines.
    pub(crate) fn profile(self) -> Option<Profile> {
        match self {
            Self::Tuned => None,
            Self::Library => Some(Profile { nagle: false, ..Profile::BULK }),
            Self::Files => Some(Profile::FILES),
            Self::Logins => Some(Profile::LOGINS),
        }
    }
}

/// What was said in `--so_flags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Whose habits.
    pub(crate) dialect: Dialect,
    /// With which policies.
    pub(crate) policies: Policies,
    /// The longest datagram of the link, in bytes.
    pub(crate) mtu: u16,
    /// Where the settings of the script are, and where the table of connections goes.
    pub(crate) folder: Option<PathBuf>,
}

/// What runs over most links.
const ETHERNET_MTU: u16 = 1500;

impl Flags {
    /// Reads `key=value,key=value`; what is unknown is left to others.
    pub(crate) fn parse(text: &str) -> Self {
        let mut flags = Self {
            dialect: Dialect::Linux,
            policies: Policies::Tuned,
            mtu: ETHERNET_MTU,
            folder: None,
        };
        for (key, value) in text.split(',').filter_map(|item| item.split_once('=')) {
            match key {
                "dialect" if value == "freebsd" => flags.dialect = Dialect::FreeBsd,
                "profile" => flags.policies = policies_of(value),
                "mtu" => flags.mtu = value.parse().unwrap_or(ETHERNET_MTU),
                "folder" => flags.folder = Some(PathBuf::from(value)),
                _ => {}
            }
        }
        flags
    }

    /// Reads what the script has set by now.
    pub(crate) fn sysctl(&self) -> Sysctl {
        let path = self.folder.as_ref().map(|folder| folder.join("sysctl"));
        let text = path.and_then(|path| std::fs::read_to_string(path).ok());
        Sysctl::parse(&text.unwrap_or_default())
    }
}

fn policies_of(name: &str) -> Policies {
    match name {
        "library" => Policies::Library,
        "files" => Policies::Files,
        "logins" => Policies::Logins,
        _ => Policies::Tuned,
    }
}

/// The settings of the system that a script has made; the last of a name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sysctl(BTreeMap<String, String>);

impl Sysctl {
    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.trim().into(), value.trim().into())).collect())
    }

    /// Returns the setting `name`, if the script has made it.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the last number of the setting `name`: of three sizes the largest.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.split_whitespace().next_back()?.parse().ok()
    }

    /// Returns whether the setting `name` is on, or `otherwise` if the script did not say.
    pub(crate) fn is_on(&self, name: &str, otherwise: bool) -> bool {
        self.number(name).map_or(otherwise, |value| value != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_unknown_ones_are_left() {
        let flags = Flags::parse("dialect=freebsd,mtu=72,colour=red,folder=a/b");
        assert_eq!(flags.dialect, Dialect::FreeBsd);
        assert_eq!((flags.mtu, flags.folder), (72, Some(PathBuf::from("a/b"))));
    }

    #[test]
    fn the_policies_are_those_of_the_flag() {
        let policies = |text| Flags::parse(text).policies;
        assert_eq!(policies("dialect=linux"), Policies::Tuned);
        assert_eq!(policies("profile=library,mtu=72"), Policies::Library);
        assert_eq!(policies("profile=files"), Policies::Files);
        assert_eq!(policies("profile=logins"), Policies::Logins);
    }

    #[test]
    fn no_flags_mean_linux_on_ethernet() {
        let flags = Flags::parse("");
        assert_eq!((flags.dialect, flags.mtu), (Dialect::Linux, 1500));
    }

    #[test]
    fn the_last_setting_of_a_name_counts() {
        let sysctl = Sysctl::parse("net.ipv4.tcp_ecn=0\nnoise\nnet.ipv4.tcp_ecn=1\n");
        assert!(sysctl.is_on("net.ipv4.tcp_ecn", false));
    }

    #[test]
    fn of_three_sizes_the_largest_is_the_number() {
        let sysctl = Sysctl::parse("net.ipv4.tcp_rmem=4096 540000 15728640");
        assert_eq!(sysctl.number("net.ipv4.tcp_rmem"), Some(15_728_640));
        assert_eq!(sysctl.number("net.ipv4.tcp_wmem"), None);
    }
}
