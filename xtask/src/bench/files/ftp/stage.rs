//! The folders of the bench: what servers serve and users send, in memory.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

/// The large file.
pub(super) const LARGE: &str = "large";
/// The folder of small files.
pub(super) const SMALL: &str = "small";
/// What a small file has.
pub(super) const SMALL_BYTES: usize = 4096;
const MIB: u64 = 1 << 20;
/// How the name of the folder begins; the process id follows.
const PREFIX: &str = "plumb-files-";

/// The folders.
///
/// ```text
/// root/large, root/small/f00000...   served; root/in takes what is sent
/// source/large, source/small/...     sent
/// here/                              what comes, and where the users' programs run
/// ```
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) folder: PathBuf,
}

impl Stage {
    /// Makes them, empty, with a certificate, where files lie in memory if there is such a place.
    pub(super) fn make() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        sweep(&place);
        let stage = Self { folder: place.join(format!("{PREFIX}{}", process::id())) };
        for folder in ["", "root", "root/in", "source", "here", "empty"] {
            let folder = stage.folder.join(folder);
            fs::create_dir_all(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
        }
        stage.clear()?;
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj"]);
        openssl.args(["/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]);
        openssl.current_dir(&stage.folder).stdin(Stdio::null());
        let made = openssl.output().context("openssl is wanted for a certificate")?;
        ensure!(made.status.success(), "openssl makes no certificate");
        let both = [stage.read("key.pem")?, stage.read("cert.pem")?].concat();
        fs::write(stage.folder.join("both.pem"), both)?;
        Ok(stage)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.folder.join(name))?)
    }

    /// Returns a place in it, as text.
    pub(super) fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Writes the large file.
    pub(super) fn write_large(&self, mebibytes: u64) -> Result<()> {
        let served = self.folder.join("root").join(LARGE);
        let piece: Vec<u8> = (0..MIB).map(|at| (at * 31 + at / 251).to_le_bytes()[0]).collect();
        let mut file = File::create(&served)?;
        for _ in 0..mebibytes {
            file.write_all(&piece).context("the large file cannot be written")?;
        }
        fs::set_permissions(&served, Permissions::from_mode(0o644))?;
        let sent = self.folder.join("source").join(LARGE);
        if !sent.exists() {
            fs::hard_link(served, sent)?;
        }
        Ok(())
    }

    /// Returns the size of the large file.
    pub(super) fn large_mib(&self) -> Result<u64> {
        let served = self.folder.join("root").join(LARGE);
        Ok(fs::metadata(served).map_or(0, |data| data.len() / MIB))
    }

    /// Writes so many small files, and removes those of before.
    pub(super) fn write_small(&self, count: u32) -> Result<()> {
        for side in ["root", "source"] {
            let folder = self.folder.join(side).join(SMALL);
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
            for number in 0..count {
                let file = folder.join(small_name(number));
                let [byte, ..] = number.to_le_bytes();
                fs::write(&file, [byte; SMALL_BYTES])?;
                fs::set_permissions(&file, Permissions::from_mode(0o644))?;
            }
        }
        Ok(())
    }

    /// Removes what has been moved.
    pub(super) fn clear(&self) -> Result<()> {
        for (folder, mode) in [("here", 0o755), ("root/in", 0o777)] {
            let folder = self.folder.join(folder);
            fs::remove_dir_all(&folder)?;
            fs::create_dir(&folder)?;
            fs::set_permissions(&folder, Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Returns how many files, and bytes in them, are in a folder and those in it.
    pub(super) fn measure(&self, folder: &str) -> Result<(u64, u64)> {
        sizes(&self.folder.join(folder))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left over lies among temporary files.
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what runs have left that were killed: it takes the memory of the machine.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            // What stays is tried again by the next run.
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the name of a small file.
pub(super) fn small_name(number: u32) -> String {
    format!("f{number:05}")
}

fn sizes(folder: &Path) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (more_files, more_bytes) = match entry.file_type()?.is_dir() {
            true => sizes(&entry.path())?,
            false => (1, entry.metadata()?.len()),
        };
        files += more_files;
        bytes += more_bytes;
    }
    Ok((files, bytes))
}
