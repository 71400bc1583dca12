//! The facts of MLST and MLSD (RFC 3659 §7), such as `type=file;size=1234;modify=20010203040506;
//! name`.

use super::{Entry, Kind};
use crate::ftp::timestamp::Timestamp;
use alloc::format;
use alloc::vec::Vec;

/// A fact of an entry (RFC 3659 §7.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Kind of the entry.
    Type,
    /// Size in bytes.
    Size,
    /// Time of the last modification.
    Modify,
    /// Time of creation.
    Create,
    /// Permitted operations.
    Perm,
    /// Identifier of the file: two names of one file have the same identifier.
    Unique,
    /// Unix mode, in octal.
    UnixMode,
    /// Unix owner.
    UnixOwner,
    /// Unix group.
    UnixGroup,
}

impl Fact {
    /// Every fact, with its name on the wire.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Type, "type"),
        (Self::Size, "size"),
        (Self::Modify, "modify"),
        (Self::Create, "create"),
        (Self::Perm, "perm"),
        (Self::Unique, "unique"),
        (Self::UnixMode, "UNIX.mode"),
        (Self::UnixOwner, "UNIX.owner"),
        (Self::UnixGroup, "UNIX.group"),
    ];

    fn from_name(name: &[u8]) -> Option<Self> {
        let named_fact =
            Self::ALL.iter().find(|(_, text)| text.as_bytes().eq_ignore_ascii_case(name));
        named_fact.map(|(fact, _)| *fact)
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The set of facts that MLST and MLSD report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactSet(u16);

impl Default for FactSet {
    fn default() -> Self {
        let default_facts =
            [Fact::Type, Fact::Size, Fact::Modify, Fact::Perm, Fact::UnixMode, Fact::Unique];
        default_facts.into_iter().fold(Self::NONE, Self::with)
    }
}

impl FactSet {
    /// No facts: only names are sent.
    pub const NONE: Self = Self(0);
    /// All facts.
    pub const ALL: Self = Self(0x1FF);

    /// Returns the set with `fact` added.
    #[must_use]
    pub const fn with(self, fact: Fact) -> Self {
        Self(self.0 | fact.bit())
    }

    /// Returns whether `fact` is in the set.
    #[must_use]
    pub const fn contains(self, fact: Fact) -> bool {
        self.0 & fact.bit() != 0
    }

    /// Parses the argument of `OPTS MLST`; unknown facts are ignored (RFC 3659 §7.9).
    #[must_use]
    pub fn parse(argument: &[u8]) -> Self {
        let names = argument.split(|&byte| byte == b';');
        names.filter_map(|name| Fact::from_name(name.trim_ascii())).fold(Self::NONE, Self::with)
    }

    /// Returns the names of the facts in the set, each followed by a semicolon.
    pub(in crate::ftp) fn names(self) -> Vec<u8> {
        let selected_facts = Fact::ALL.iter().filter(|(fact, _)| self.contains(*fact));
        selected_facts.flat_map(|(_, name)| [name.as_bytes(), b";"].concat()).collect()
    }

    /// Returns the line of the reply to FEAT: the names of all facts, with an asterisk after those
    /// in the set.
    pub(in crate::ftp) fn feature(self) -> Vec<u8> {
        let name_with_mark = |&(fact, name): &(Fact, &str)| {
            [name.as_bytes(), if self.contains(fact) { b"*;" } else { b";" }].concat()
        };
        Fact::ALL.iter().flat_map(name_with_mark).collect()
    }

    /// Appends the facts of `entry`, a space and its name to `out`.
    pub(in crate::ftp) fn write(self, entry: &Entry, out: &mut Vec<u8>) {
        for (fact, name) in Fact::ALL {
            if !self.contains(fact) {
                continue;
            }
            let Some(value) = value_of(fact, entry) else { continue };
            // A value with a semicolon or a space would end the fact early.
            if value.iter().any(|byte| matches!(byte, b';' | b' ') || byte.is_ascii_control()) {
                continue;
            }
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            out.extend_from_slice(&value);
            out.push(b';');
        }
        out.push(b' ');
        out.extend_from_slice(&entry.name);
    }
}

fn value_of(fact: Fact, entry: &Entry) -> Option<Vec<u8>> {
    match fact {
        Fact::Type => Some(match (entry.kind, &entry.target) {
            (Kind::File, _) => b"file".to_vec(),
            (Kind::Directory, _) => b"dir".to_vec(),
            (Kind::Current, _) => b"cdir".to_vec(),
            (Kind::Parent, _) => b"pdir".to_vec(),
            (Kind::Link, Some(target)) => [b"OS.unix=slink:", target.as_slice()].concat(),
            (Kind::Link, None) => b"OS.unix=symlink".to_vec(),
            (Kind::Other, _) => b"OS.unix=special".to_vec(),
        }),
        Fact::Size => entry.size.map(|size| format!("{size}").into_bytes()),
        Fact::Modify => entry.modified.map(|moment| moment.to_text().into_bytes()),
        Fact::Create => entry.created.map(|moment| moment.to_text().into_bytes()),
        Fact::Perm => entry.permissions.map(Permissions::to_text),
        Fact::Unique => entry.unique.clone(),
        Fact::UnixMode => entry.mode.map(|mode| format!("0{mode:o}").into_bytes()),
        Fact::UnixOwner => entry.owner.clone(),
        Fact::UnixGroup => entry.group.clone(),
    }
}

/// Permitted operations on an entry, as the letters of RFC 3659 §7.5.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u16);

impl Permissions {
    const LETTERS: [u8; 10] = *b"acdeflmprw";

    /// Parses the letters; unknown letters are ignored.
    #[must_use]
    pub fn parse(letters: &[u8]) -> Self {
        let bit = |letter: &u8| {
            Self::LETTERS.iter().position(|known| known == &letter.to_ascii_lowercase())
        };
        Self(letters.iter().filter_map(bit).fold(0, |set, place| set | 1 << place))
    }

    /// Returns whether the letter is present.
    #[must_use]
    pub fn allows(self, letter: u8) -> bool {
        Self::LETTERS
            .iter()
            .position(|known| *known == letter)
            .is_some_and(|at| self.0 >> at & 1 == 1)
    }

    fn to_text(self) -> Vec<u8> {
        Self::LETTERS.iter().copied().filter(|letter| self.allows(*letter)).collect()
    }
}

/// Parses one line of MLSD, or the middle line of a reply to MLST.
#[must_use]
pub fn parse_facts(line: &[u8]) -> Option<Entry> {
    let line = line.strip_prefix(b" ").unwrap_or(line);
    let end = if line.first() == Some(&b' ') { 0 } else { separator(line)? };
    let (facts, name) = line.split_at_checked(end)?;
    let name = name.get(1..).filter(|name| !name.is_empty())?;
    let mut entry = Entry { name: name.to_vec(), ..Entry::default() };
    for fact in facts.split(|&byte| byte == b';').filter(|fact| !fact.is_empty()) {
        let equals_index = fact.iter().position(|&byte| byte == b'=')?;
        let (key, value) = fact.split_at_checked(equals_index)?;
        set_fact(&mut entry, key, value.get(1..)?);
    }
    Some(entry)
}

/// Returns the position of the space that ends the facts. The semicolon that must precede this
/// space is omitted by some servers.
fn separator(line: &[u8]) -> Option<usize> {
    let after_semicolon = line.windows(2).position(|pair| pair == b"; ").map(|at| at + 1);
    after_semicolon.or_else(|| line.iter().position(|&byte| byte == b' '))
}

fn set_fact(entry: &mut Entry, key: &[u8], value: &[u8]) {
    let text = core::str::from_utf8(value).unwrap_or_default();
    // Some servers send the size of a directory as `sizd`.
    if key.eq_ignore_ascii_case(b"sizd") {
        entry.size = text.parse().ok();
        return;
    }
    match Fact::from_name(key) {
        Some(Fact::Type) => (entry.kind, entry.target) = kind_of(value),
        Some(Fact::Size) => entry.size = text.parse().ok(),
        Some(Fact::Modify) => entry.modified = Timestamp::parse(value),
        Some(Fact::Create) => entry.created = Timestamp::parse(value),
        Some(Fact::Perm) => entry.permissions = Some(Permissions::parse(value)),
        Some(Fact::Unique) => entry.unique = Some(value.to_vec()),
        Some(Fact::UnixMode) => {
            entry.mode = u16::from_str_radix(text, 8).ok().map(|mode| mode & 0o7777);
        }
        Some(Fact::UnixOwner) => entry.owner = Some(value.to_vec()),
        Some(Fact::UnixGroup) => entry.group = Some(value.to_vec()),
        None => {}
    }
}

fn kind_of(value: &[u8]) -> (Kind, Option<Vec<u8>>) {
    let lower_case = value.to_ascii_lowercase();
    match lower_case.as_slice() {
        b"file" => (Kind::File, None),
        b"dir" => (Kind::Directory, None),
        b"cdir" => (Kind::Current, None),
        b"pdir" => (Kind::Parent, None),
        _ if lower_case.starts_with(b"os.unix=slink")
            || lower_case.starts_with(b"os.unix=symlink") =>
        {
            let target =
                value.iter().position(|&byte| byte == b':').and_then(|at| value.get(at + 1..));
            (Kind::Link, target.filter(|target| !target.is_empty()).map(<[u8]>::to_vec))
        }
        _ => (Kind::Other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_known_form_of_facts_is_parsed() {
        let entry =
            parse_facts(b"Type=file;Size=990;Modify=19941005120000;Perm=r; a; b.txt").unwrap();
        assert_eq!(
            (entry.name.as_slice(), entry.size, entry.kind),
            (&b"a; b.txt"[..], Some(990), Kind::File)
        );
        assert!(entry.permissions.unwrap().allows(b'r'));
        let entry = parse_facts(b"type=OS.UNIX=slink:/x;unix.mode=0777; l").unwrap();
        assert_eq!(
            (entry.kind, entry.target.as_deref(), entry.mode),
            (Kind::Link, Some(&b"/x"[..]), Some(0o777))
        );
        assert_eq!(parse_facts(b" type=cdir;sizd=4096; /a").unwrap().kind, Kind::Current);
        assert_eq!(parse_facts(b"type=dir x").unwrap().kind, Kind::Directory);
        assert_eq!(parse_facts(b"  nothing known").unwrap().name, b"nothing known");
        assert_eq!(parse_facts(b"type=file;"), None);
        assert_eq!(parse_facts(b""), None);
    }

    proptest! {
        #[test]
        fn written_values_are_parsed_back(
            name in "[^\\r\\n\\x00]{1,40}", size: Option<u64>, mode in 0..0o10000_u16,
            seconds in 0_i64..4_000_000_000, kind in 0..4_usize, letters in "[acdeflmprw]{0,6}"
        ) {
            let kinds = [Kind::File, Kind::Directory, Kind::Current, Kind::Parent];
            let entry = Entry {
                name: name.into_bytes(),
                kind: kinds[kind],
                size,
                modified: Some(Timestamp { seconds, nanos: 0 }),
                mode: Some(mode),
                permissions: Some(Permissions::parse(letters.as_bytes())),
                ..Entry::default()
            };
            let mut out = Vec::new();
            FactSet::default().write(&entry, &mut out);
            prop_assert_eq!(parse_facts(&out), Some(entry));
        }
    }

    #[test]
    fn the_line_of_feat_marks_only_the_selected_facts() {
        let line = FactSet::NONE.with(Fact::ALL[1].0).feature();
        let expected: Vec<u8> = (0..)
            .zip(Fact::ALL)
            .flat_map(|(at, (_, name))| {
                [name.as_bytes(), if at == 1 { b"*;" } else { b";" }].concat()
            })
            .collect();
        assert_eq!(line, expected);
    }
}
