//! Processor time of a program and its descendants.
//!
//! A control group reports the time in microseconds. If no control group can be created, the time
//! is that of the process and its ended children, in hundredths of a second.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// Clock ticks per second in /proc (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;
/// Prefix of the names of the bench's control groups.
const PREFIX: &str = "plumb-bench-";
const TICK_NS: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// Source of the processor time.
#[derive(Debug)]
pub(super) enum Account {
    /// A control group created for this account, and the original group of its processes.
    Group { directory: PathBuf, original_group: PathBuf },
    /// A process and its ended children, or without `with_itself` only the children.
    Process { id: u32, with_itself: bool },
}

impl Account {
    /// Opens an account for a process and its later descendants; for the calling process, only its
    /// children.
    pub(super) fn open(name: &str, id: u32) -> Self {
        let group = Self::open_group(name, id);
        group.unwrap_or(Self::Process { id, with_itself: id != process::id() })
    }

    fn open_group(name: &str, id: u32) -> Option<Self> {
        let original_group = own_group()?;
        let directory = original_group.join(format!("{PREFIX}{}-{name}", process::id()));
        fs::create_dir(&directory).ok()?;
        let account = Self::Group { directory: directory.clone(), original_group };
        fs::write(directory.join("cgroup.procs"), id.to_string()).ok()?;
        read_group_ns(&directory).ok()?;
        Some(account)
    }

    /// Returns the processor time used so far, in nanoseconds.
    pub(super) fn nanos(&self) -> Result<u64> {
        match self {
            Self::Group { directory, .. } => read_group_ns(directory),
            Self::Process { id, with_itself } => process_ns(*id, *with_itself),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Self::Group { directory, original_group } = self else { return };
        // Remaining processes return to their former group. A group that stays costs almost no
        // memory.
        for id in fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default().lines() {
            _ = fs::write(original_group.join("cgroup.procs"), id);
        }
        _ = fs::remove_dir(directory);
    }
}

/// Returns the directory of this process's control group.
fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then_some(place)
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Groups must not be nested, or the outer one would count the time of the inner ones. So if
    // this process is in a group of the bench, use the parent.
    let path = match path.rsplit_once('/').unwrap_or(("", path)) {
        (above, name) if name.starts_with(PREFIX) => above,
        _ => path,
    };
    Some(Path::new(mount).join(path))
}

fn read_group_ns(directory: &Path) -> Result<u64> {
    let text = fs::read_to_string(directory.join("cpu.stat"))?;
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    let micros: u64 = micros.and_then(|number| number.parse().ok()).context("no account")?;
    Ok(micros * 1000)
}

/// Returns the processor time of a process's ended children and, with `with_itself`, its own.
fn process_ns(id: u32, with_itself: bool) -> Result<u64> {
    let text = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("stat"))?;
    let (_, behind) = text.rsplit_once(')').context("/proc/PID/stat has no process name")?;
    // After the name, state is field 3; utime, stime, cutime and cstime are fields 14 to 17.
    let fields: Vec<u64> =
        behind.split_ascii_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    let &[user, system, children_user, children_system] = fields.as_slice() else {
        bail!("/proc/{id}/stat has too few fields");
    };
    let own = if with_itself { user + system } else { 0 };
    Ok((own + children_user + children_system) * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_a_process_includes_its_children() {
        let account = Account::Process { id: process::id(), with_itself: false };
        let before = account.nanos().unwrap();
        let busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
        assert!(process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        // The child has run for more than the resolution of a tick (10 ms).
        let after = account.nanos().unwrap();
        assert!(after > before, "{before} {after}");
    }

    #[test]
    fn a_nonexistent_process_has_no_account() {
        let error = Account::Process { id: u32::MAX, with_itself: true }.nanos().unwrap_err();
        let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        assert_eq!(kind, Some(std::io::ErrorKind::NotFound), "{error:#}");
    }
}
