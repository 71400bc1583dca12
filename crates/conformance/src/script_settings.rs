//! Settings of a script that are not socket options, and the operating system for which it was
//! written.
//!
//! The runner passes a string of comma-separated settings to the library (`--so_flags`). A script
//! can also run the program `sysctl`. The program that starts the runner provides a replacement for
//! `sysctl`, as the first match in PATH. The replacement appends `name=value` to the file `sysctl`
//! in a directory. The library reads that file when the script opens a socket.

use net::transport::tcp::Profile;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Operating system whose behavior a script expects where the RFCs leave a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TargetOs {
    /// Linux: immediate acknowledgments, large buffers.
    #[default]
    Linux,
    /// FreeBSD: its order of options in a SYN, and its buffer sizes.
    FreeBsd,
}

/// TCP policies of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policies {
    /// Policies of the operating system for which the script was written ([`TargetOs`]). Sent
    /// segments are also adapted to that system: PSH on every second segment for Linux, the order
    /// of the SYN options for FreeBSD.
    #[default]
    Tuned,
    /// Profile of a program that embeds the library: `Profile::BULK` without Nagle's algorithm.
    Library,
    /// Profile of `plumb get`, `put` and the file servers.
    Files,
    /// Profile of the login server.
    Logins,
}

impl Policies {
    /// Returns the fixed profile, or `None` for the tuned policies, which depend on the script.
    pub(crate) fn profile(self) -> Option<Profile> {
        match self {
            Self::Tuned => None,
            Self::Library => Some(Profile { nagle: false, ..Profile::BULK }),
            Self::Files => Some(Profile::FILES),
            Self::Logins => Some(Profile::LOGINS),
        }
    }
}

/// Settings from `--so_flags`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Operating system whose behavior the script expects.
    pub(crate) target_os: TargetOs,
    /// TCP policies of the connections.
    pub(crate) policies: Policies,
    /// MTU of the link in bytes.
    pub(crate) mtu: u16,
    /// Directory for the settings of the script and for the table of connections.
    pub(crate) directory: Option<PathBuf>,
}

/// MTU of most links, in bytes.
const ETHERNET_MTU: u16 = 1500;

impl Flags {
    /// Parses `key=value,key=value`; unknown keys are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let mut flags = Self {
            target_os: TargetOs::Linux,
            policies: Policies::Tuned,
            mtu: ETHERNET_MTU,
            directory: None,
        };
        for (key, value) in text.split(',').filter_map(|item| item.split_once('=')) {
            match key {
                "dialect" if value == "freebsd" => flags.target_os = TargetOs::FreeBsd,
                "profile" => flags.policies = policies_of(value),
                "mtu" => flags.mtu = value.parse().unwrap_or(ETHERNET_MTU),
                "folder" => flags.directory = Some(PathBuf::from(value)),
                _ => {}
            }
        }
        flags
    }

    /// Reads the settings that the script has made so far.
    pub(crate) fn sysctl(&self) -> Sysctl {
        let path = self.directory.as_ref().map(|directory| directory.join("sysctl"));
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

/// System settings made by a script. If a name is set several times, the last value applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sysctl(BTreeMap<String, String>);

impl Sysctl {
    fn parse(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Self(pairs.map(|(name, value)| (name.trim().into(), value.trim().into())).collect())
    }

    /// Returns the value of the setting `name`; `None` if the script has not set it.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the last number of the setting `name`; for a setting with minimum, default and
    /// maximum, this is the maximum.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.split_whitespace().next_back()?.parse().ok()
    }

    /// Returns whether the number of the setting `name` is not 0, or `otherwise` if the script has
    /// not set a number.
    pub(crate) fn is_on(&self, name: &str, otherwise: bool) -> bool {
        self.number(name).map_or(otherwise, |value| value != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flags_are_ignored() {
        let flags = Flags::parse("dialect=freebsd,mtu=72,colour=red,folder=a/b");
        assert_eq!(flags.target_os, TargetOs::FreeBsd);
        assert_eq!((flags.mtu, flags.directory), (72, Some(PathBuf::from("a/b"))));
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
        assert_eq!((flags.target_os, flags.mtu), (TargetOs::Linux, 1500));
    }

    #[test]
    fn the_last_setting_of_a_name_counts() {
        let sysctl = Sysctl::parse("net.ipv4.tcp_ecn=0\nnoise\nnet.ipv4.tcp_ecn=1\n");
        assert!(sysctl.is_on("net.ipv4.tcp_ecn", false));
    }

    #[test]
    fn the_number_of_a_setting_with_three_sizes_is_the_largest() {
        let sysctl = Sysctl::parse("net.ipv4.tcp_rmem=4096 540000 15728640");
        assert_eq!(sysctl.number("net.ipv4.tcp_rmem"), Some(15_728_640));
        assert_eq!(sysctl.number("net.ipv4.tcp_wmem"), None);
    }
}
