//! The directories of the bench, in memory: served files, files to upload, and received files.

use anyhow::{Context, Result, ensure};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

/// Name of the large file.
pub(super) const LARGE: &str = "large";
/// Name of the directory of small files.
pub(super) const SMALL: &str = "small";
/// Size of a small file, bytes.
pub(super) const SMALL_BYTES: usize = 4096;
const MIB: u64 = 1 << 20;
/// Prefix of the directory's name; the process id follows.
const PREFIX: &str = "plumb-files-";

/// The directories of served, uploaded and received files.
///
/// ```text
/// root/large, root/small/f00000...   served; root/in receives uploads
/// source/large, source/small/...     to be uploaded
/// here/                              downloads, and the working directory of the clients
/// ```
#[derive(Debug)]
pub(super) struct Directories {
    pub(super) directory: PathBuf,
}

impl Directories {
    /// Creates the empty directories and a certificate, in /dev/shm if it exists.
    pub(super) fn make() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_leftovers(&place);
        let directories = Self { directory: place.join(format!("{PREFIX}{}", process::id())) };
        for directory in ["", "root", "root/in", "source", "here", "empty"] {
            let directory = directories.directory.join(directory);
            fs::create_dir_all(&directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        }
        directories.clear()?;
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-subj"]);
        openssl.args(["/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]);
        openssl.current_dir(&directories.directory).stdin(Stdio::null());
        let output = openssl.output().context("openssl is required to create a certificate")?;
        ensure!(output.status.success(), "openssl failed to create a certificate");
        let key_and_certificate =
            [directories.read("key.pem")?, directories.read("cert.pem")?].concat();
        fs::write(directories.directory.join("both.pem"), key_and_certificate)?;
        Ok(directories)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        Ok(fs::read(self.directory.join(name))?)
    }

    /// Returns a path below the directory as text.
    pub(super) fn at(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(super) fn write_large(&self, mebibytes: u64) -> Result<()> {
        let served = self.directory.join("root").join(LARGE);
        let piece: Vec<u8> = (0..MIB).map(|at| (at * 31 + at / 251).to_le_bytes()[0]).collect();
        let mut file = File::create(&served)?;
        for _ in 0..mebibytes {
            file.write_all(&piece).context("the large file cannot be written")?;
        }
        fs::set_permissions(&served, Permissions::from_mode(0o644))?;
        let sent = self.directory.join("source").join(LARGE);
        if !sent.exists() {
            fs::hard_link(served, sent)?;
        }
        Ok(())
    }

    pub(super) fn large_mib(&self) -> Result<u64> {
        let served = self.directory.join("root").join(LARGE);
        Ok(fs::metadata(served).map_or(0, |data| data.len() / MIB))
    }

    /// Writes `count` small files, and removes those of the previous row.
    pub(super) fn write_small(&self, count: u32) -> Result<()> {
        for side in ["root", "source"] {
            let directory = self.directory.join(side).join(SMALL);
            if directory.exists() {
                fs::remove_dir_all(&directory)?;
            }
            fs::create_dir(&directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
            for number in 0..count {
                let file = directory.join(small_name(number));
                let [byte, ..] = number.to_le_bytes();
                fs::write(&file, [byte; SMALL_BYTES])?;
                fs::set_permissions(&file, Permissions::from_mode(0o644))?;
            }
        }
        Ok(())
    }

    /// Removes transferred files.
    pub(super) fn clear(&self) -> Result<()> {
        for (directory, mode) in [("here", 0o755), ("root/in", 0o777)] {
            let directory = self.directory.join(directory);
            fs::remove_dir_all(&directory)?;
            fs::create_dir(&directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Returns the number of files below a directory, and their total size in bytes.
    pub(super) fn measure(&self, directory: &str) -> Result<(u64, u64)> {
        sizes(&self.directory.join(directory))
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        // Leftovers are in a temporary directory.
        _ = fs::remove_dir_all(&self.directory);
    }
}

/// Removes the directories that killed benchmark runs have left: they occupy the machine's memory.
fn remove_leftovers(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
            // The next run tries again.
            _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the name of a small file.
pub(super) fn small_name(number: u32) -> String {
    format!("f{number:05}")
}

fn sizes(directory: &Path) -> Result<(u64, u64)> {
    let mut files = 0;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
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
