//! The six transfers of RFC 594 on this machine today.
//!
//! The figures come from the user's transfer records, or from new transfers between a plumb server
//! and plumb clients at 127.0.0.1 in a temporary directory.
//!
//! In 1973 the machine's own word had 36 bits. Today 36-bit words are transferred in packed form,
//! and the client unpacks and packs 32-bit words.

use anyhow::{Context, Result, ensure};
use laboratory::rfc594::Today;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Number of times each transfer is made.
const REPETITIONS: usize = 5;
/// File size in bytes: a multiple of 32-bit and of 36-bit words.
const FILE_BYTES: usize = 36 << 20;

/// Returns the figures of the transfers recorded in `directory`; `None` if there are none.
///
/// # Errors
///
/// Returns an error if the store cannot be read.
pub(super) fn recorded_in(directory: &Path) -> Result<Option<Today>> {
    if !directory.exists() {
        return Ok(None);
    }
    Ok(Today::from_store(&crate::stats::open(directory)?)?)
}

/// Makes the transfers and returns their figures.
///
/// # Errors
///
/// Returns an error if there is no disk space or a transfer fails.
pub(super) fn measure_now() -> Result<Today> {
    let directory = TempDirectory::new()?;
    let (mut server, url) = directory.serve()?;
    let transferred = directory.transfer_all(&url);
    // Killing the server loses no data.
    _ = server.kill();
    _ = server.wait();
    transferred?;
    let today = recorded_in(&directory.0.join("user/plumb/transfers"))?;
    today.context("the transfers of the experiment left no records")
}

/// Temporary directory for a server and its clients.
struct TempDirectory(PathBuf);

impl Drop for TempDirectory {
    fn drop(&mut self) {
        // Ignored: leftover files only occupy disk space.
        _ = fs::remove_dir_all(&self.0);
    }
}

impl TempDirectory {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("plumb-rfc594-{}", std::process::id()));
        let directory = Self(path);
        fs::create_dir_all(directory.0.join("here"))
            .context("cannot create a directory for the files")?;
        fs::create_dir_all(directory.0.join("there"))?;
        // Lines of 64 characters, suitable for every type of transfer.
        let line = [[b'a'; 63].as_slice(), b"\n"].concat();
        let bytes = line.repeat(FILE_BYTES / line.len());
        fs::write(directory.0.join("there/file"), &bytes).context("cannot write the files")?;
        fs::write(directory.0.join("here/octets"), &bytes)?;
        Ok(directory)
    }

    fn plumb(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.current_dir(self.0.join("here")).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_remove("PLUMB_NO_RECORD").env("HOME", self.0.join("here"));
        command.env("XDG_STATE_HOME", self.0.join("user"));
        Ok(command)
    }

    /// Starts the server and returns the URL of its directory.
    fn serve(&self) -> Result<(Child, String)> {
        let mut command = self.plumb()?;
        command.args(["serve", "--ftp", "--no-record", "--writable", "--ftp-listen"]);
        command.args(["127.0.0.1:0", "--ftp-tls", "off", "--root"]).arg(self.0.join("there"));
        let mut server = command.stderr(Stdio::piped()).spawn()?;
        let stderr = server.stderr.take().context("no output from the server")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = lines.find_map(|line| {
            let line = line.ok()?;
            let (_, rest) = line.split_once("serving FTP at ")?;
            Some(rest.split(", ").next()?.to_owned())
        });
        // Drains the log of the server, so that it never blocks.
        std::thread::spawn(move || lines.for_each(drop));
        let address = address.context("the server did not start")?;
        Ok((server, format!("ftp://{address}/")))
    }

    fn transfer_all(&self, url: &str) -> Result<()> {
        let kinds: [(&[&str], &str); 3] = [
            (&["--type", "A"], "text"),
            (&["--type", "L32", "--store", "data8"], "words32"),
            (&["--type", "L36", "--store", "h36"], "words36"),
        ];
        for _ in 0..REPETITIONS {
            for (words, name) in kinds {
                let from = format!("{url}file");
                self.run_client(&[&["get", "-q", "-f", &from, "-o", name], words].concat())?;
                let to = format!("{url}{name}");
                self.run_client(&[&["put", "-q", name, &to], words].concat())?;
            }
        }
        Ok(())
    }

    fn run_client(&self, words: &[&str]) -> Result<()> {
        let output = self.plumb()?.args(words).stderr(Stdio::piped()).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "plumb {} failed: {stderr}", words.join(" "));
        Ok(())
    }
}
