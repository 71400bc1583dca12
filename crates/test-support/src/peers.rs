//! Third-party programs that tests run, each identified by its version output.
//!
//! A file name is not enough: the Debian package atftpd installs its server as `in.tftpd`, like
//! tftpd-hpa. Therefore each candidate is asked for its version, and the first one whose output
//! contains the expected text is used. A missing peer fails the test, because `./x test` installs
//! all peers.

use crate::report;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{env, fmt, fs};

/// A third-party program.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Name in test reports.
    pub name: &'static str,
    /// Environment variable that may contain the path of the program; if set, no other candidate is
    /// tried.
    variable: &'static str,
    /// Possible file names of the program.
    files: &'static [&'static str],
    /// Arguments that make the program print its version.
    version_arguments: &'static [&'static str],
    /// Part of the version output that no other program prints.
    version_text: &'static str,
    /// Debian package that provides the program, or the name of a package of another registry.
    package: &'static str,
}

/// Creates a peer whose file name is `name`.
const fn peer(
    name: &'static str,
    variable: &'static str,
    version_arguments: &'static [&'static str],
    version_text: &'static str,
    package: &'static str,
) -> Peer {
    Peer { name, variable, files: &[], version_arguments, version_text, package }
}

impl Peer {
    const fn file(self, files: &'static [&'static str]) -> Self {
        Self { files, ..self }
    }
}

/// The Telnet server of inetutils.
pub const INETUTILS_TELNETD: Peer = peer(
    "inetutils telnetd",
    "PLUMB_TELNETD",
    &["--version"],
    "telnetd (GNU inetutils)",
    "inetutils-telnetd",
)
.file(&["telnetd"]);
/// The Telnet client of inetutils.
pub const INETUTILS_TELNET: Peer = peer(
    "inetutils telnet",
    "PLUMB_TELNET",
    &["--version"],
    "telnet (GNU inetutils)",
    "inetutils-telnet",
)
.file(&["inetutils-telnet", "telnet"]);
/// The FTP client of inetutils.
pub const INETUTILS_FTP: Peer = peer(
    "inetutils ftp",
    "PLUMB_INETUTILS_FTP",
    &["--version"],
    "ftp (GNU inetutils)",
    "inetutils-ftp",
)
.file(&["inetutils-ftp", "ftp"]);
/// Busybox, for its Telnet and DHCP servers and its ping.
pub const BUSYBOX: Peer =
    peer("busybox", "PLUMB_BUSYBOX", &["--help"], "BusyBox v", "busybox-static");
/// The SSH server Dropbear, whose package starts no server.
pub const DROPBEAR: Peer =
    peer("dropbear", "PLUMB_DROPBEAR", &["-V"], "Dropbear v", "dropbear-bin");
/// The SSH client of OpenSSH.
pub const SSH: Peer = peer("ssh", "PLUMB_SSH", &["-V"], "OpenSSH_", "openssh-client");
/// The SSH server of OpenSSH, whose package would start it, and which must be started by its absolute
/// path.
pub const SSHD: Peer = peer("sshd", "PLUMB_SSHD", &["-V"], "OpenSSH_", "openssh-server");
/// The remote shell mosh.
pub const MOSH: Peer = peer("mosh", "PLUMB_MOSH", &["--version"], "mosh ", "mosh");
/// The DHCP server dnsmasq.
pub const DNSMASQ: Peer =
    peer("dnsmasq", "PLUMB_DNSMASQ", &["--version"], "Dnsmasq version", "dnsmasq-base");
/// The router daemon radvd.
pub const RADVD: Peer = peer("radvd", "PLUMB_RADVD", &["--version"], "Version: ", "radvd");
/// The SLIP and PPP server slirp, which needs no privileges.
pub const SLIRP: Peer =
    peer("slirp", "PLUMB_SLIRP", &["-v"], "Slirp v", "slirp").file(&["slirp-fullbolt"]);
/// The PPP daemon pppd.
pub const PPPD: Peer = peer("pppd", "PLUMB_PPPD", &["--version"], "pppd version", "ppp");
/// The program that attaches SLIP of the kernel to a serial line.
pub const SLATTACH: Peer =
    peer("slattach", "PLUMB_SLATTACH", &["--version"], "net-tools ", "net-tools");
/// The virtual machine QEMU.
pub const QEMU: Peer =
    peer("QEMU", "PLUMB_QEMU", &["--version"], "QEMU emulator version", "qemu-system-x86")
        .file(&["qemu-system-x86_64"]);
/// A host with lwIP at a serial line, from `crates/plumbline/tests/gateway_guests/lwip`.
pub const LWIP_SERIAL: Peer =
    peer("lwIP", "PLUMB_LWIP_SERIAL", &["--version"], "with lwIP ", "lwip (source)")
        .file(&["lwip-serial"]);
/// The DNS client dig.
pub const DIG: Peer = peer("dig", "PLUMB_DIG", &["-v"], "DiG ", "bind9-dnsutils");
/// The throughput measurement program iperf3.
pub const IPERF3: Peer = peer("iperf3", "PLUMB_IPERF3", &["--version"], "iperf 3.", "iperf3");
/// The package manager apt-get.
pub const APT_GET: Peer = peer("apt-get", "PLUMB_APT_GET", &["--version"], "apt ", "apt");
/// The program that rotates the log files of services.
pub const LOGROTATE: Peer =
    peer("logrotate", "PLUMB_LOGROTATE", &["--version"], "logrotate ", "logrotate");
/// The XMODEM, YMODEM and ZMODEM programs of lrzsz.
pub const LRZSZ: Peer =
    peer("lrzsz", "PLUMB_LRZSZ", &["--version"], "sz (lrzsz)", "lrzsz").file(&["sz"]);
/// The command-line program of OpenSSL.
pub const OPENSSL: Peer = peer("openssl", "PLUMB_OPENSSL", &["version"], "OpenSSL ", "openssl");
/// The transfer client curl.
pub const CURL: Peer = peer("curl", "PLUMB_CURL", &["--version"], "libcurl/", "curl");
/// The download client GNU Wget.
pub(crate) const WGET: Peer = peer("wget", "PLUMB_WGET", &["--version"], "GNU Wget", "wget");
/// The FTP client lftp.
pub const LFTP: Peer = peer("lftp", "PLUMB_LFTP", &["--version"], "LFTP | Version", "lftp");
/// The upload program of NcFTP.
pub const NCFTPPUT: Peer = peer("ncftpput", "PLUMB_NCFTPPUT", &["--version"], "NcFTPPut ", "ncftp");
/// The download program of NcFTP.
pub const NCFTPGET: Peer = peer("ncftpget", "PLUMB_NCFTPGET", &["--version"], "NcFTPGet ", "ncftp");
/// The directory listing program of NcFTP.
pub(crate) const NCFTPLS: Peer =
    peer("ncftpls", "PLUMB_NCFTPLS", &["--version"], "NcFTPLs ", "ncftp");
/// The FTP client tnftp, which prints no version; its usage message identifies it.
pub const TNFTP: Peer = peer("tnftp", "PLUMB_TNFTP", &["-?"], "usage: tnftp", "tnftp");
/// The file synchronization program rclone.
pub const RCLONE: Peer = peer("rclone", "PLUMB_RCLONE", &["version"], "rclone v", "rclone");
/// The download client aria2.
pub const ARIA2: Peer =
    peer("aria2", "PLUMB_ARIA2", &["--version"], "aria2 version", "aria2").file(&["aria2c"]);
/// Python, for its ftplib.
pub const PYTHON: Peer = peer("python3", "PLUMB_PYTHON3", &["--version"], "Python 3.", "python3");
/// The FTP server library pyftpdlib with its TLS, in the system's Python.
pub const PYFTPDLIB: Peer = peer(
    "pyftpdlib",
    "PLUMB_PYTHON_PYFTPDLIB",
    &["-W", "ignore", "-c", "import pyftpdlib, OpenSSL; print('pyftpdlib', pyftpdlib.__ver__)"],
    "pyftpdlib ",
    "python3-pyftpdlib and python3-openssl",
)
.file(&["/usr/bin/python3"]);
/// The Telnet library telnetlib3.
pub const TELNETLIB3: Peer = peer(
    "telnetlib3",
    "PLUMB_PYTHON",
    &[
        "-c",
        "import telnetlib3; from importlib.metadata import version as v; \
      print('telnetlib3', v('telnetlib3'))",
    ],
    "telnetlib3 ",
    "telnetlib3 of PyPI",
)
.file(&["python3"]);
/// The serial library pyserial.
pub const PYSERIAL: Peer = peer(
    "pyserial",
    "PLUMB_PYTHON",
    &["-c", "import serial; print('pyserial', serial.__version__)"],
    "pyserial ",
    "pyserial of PyPI",
)
.file(&["python3"]);
/// The client library of Prometheus.
pub const PROMETHEUS_CLIENT: Peer = peer(
    "prometheus_client",
    "PLUMB_PYTHON",
    &[
        "-c",
        "import prometheus_client; from importlib.metadata import version as v; \
      print('prometheus_client', v('prometheus_client'))",
    ],
    "prometheus_client ",
    "prometheus_client of PyPI",
)
.file(&["python3"]);
/// The console server ser2net.
pub const SER2NET: Peer = peer("ser2net", "PLUMB_SER2NET", &["-v"], "ser2net version", "ser2net");
/// The terminal multiplexer tmux.
pub const TMUX: Peer = peer("tmux", "PLUMB_TMUX", &["-V"], "tmux ", "tmux");
/// The command-line client plink of PuTTY.
pub const PLINK: Peer = peer("plink", "PLUMB_PLINK", &["-V"], "plink: ", "putty-tools");
/// The system call tracer strace.
pub const STRACE: Peer = peer("strace", "PLUMB_STRACE", &["-V"], "strace -- version", "strace");
/// The TFTP client of tftp-hpa.
pub const TFTP_HPA: Peer =
    peer("tftp-hpa", "PLUMB_TFTP_HPA", &["-V"], "tftp-hpa ", "tftp-hpa").file(&["tftp"]);
/// The TFTP server of tftp-hpa.
pub const TFTPD_HPA: Peer =
    peer("tftpd-hpa", "PLUMB_TFTPD_HPA", &["-V"], "tftp-hpa ", "tftpd-hpa").file(&["in.tftpd"]);
/// The TFTP client atftp.
pub const ATFTP: Peer = peer("atftp", "PLUMB_ATFTP", &["-V"], "(client)", "atftp");
/// The TFTP server atftpd.
pub const ATFTPD: Peer = peer("atftpd", "PLUMB_ATFTPD", &["-V"], "(server)", "atftpd");
/// The FTP server vsftpd.
pub const VSFTPD: Peer = peer("vsftpd", "PLUMB_VSFTPD", &["-v"], "vsftpd: version", "vsftpd");
/// The FTP server pure-ftpd.
pub const PURE_FTPD: Peer =
    peer("pure-ftpd", "PLUMB_PURE_FTPD", &["--help"], "pure-ftpd v", "pure-ftpd");
/// The FTP server proftpd.
pub const PROFTPD: Peer =
    peer("proftpd", "PLUMB_PROFTPD", &["--version"], "ProFTPD Version", "proftpd-core");
/// A server of the library libunftp, from `crates/bench/peers/ftp`.
pub const LIBUNFTP: Peer =
    peer("libunftp", "PLUMB_LIBUNFTP", &["--version"], "libunftp ", "libunftp of crates.io")
        .file(&["libunftp-server"]);
/// A client of the library suppaftp, from `crates/bench/peers/ftp`.
pub const SUPPAFTP: Peer =
    peer("suppaftp", "PLUMB_SUPPAFTP", &["--version"], "suppaftp ", "suppaftp of crates.io")
        .file(&["suppaftp-user"]);

/// Node.js, which runs basic-ftp.
pub const NODE: Peer = peer(
    "Node.js",
    "PLUMB_NODE",
    &["-e", "console.log('Node.js', process.version)"],
    "Node.js v",
    "nodejs",
)
.file(&["node", "nodejs"]);
/// Java with its compiler, which runs commons-net.
pub const JAVA: Peer =
    peer("Java", "PLUMB_JAVA", &["--version"], "openjdk ", "default-jdk-headless").file(&["java"]);

/// A third-party library for an interpreted language.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Name in test reports.
    pub name: &'static str,
    /// Environment variable that may contain the path of the library's file or directory.
    variable: &'static str,
    /// Default path of the library's file or directory.
    file: &'static str,
    /// Package that provides the library.
    package: &'static str,
}

/// The FTP client commons-net of Java.
pub const COMMONS_NET: Library = Library {
    name: "commons-net",
    variable: "PLUMB_COMMONS_NET",
    file: "/usr/share/java/commons-net.jar",
    package: "libcommons-net-java",
};
/// The FTP client basic-ftp of Node.js.
pub const BASIC_FTP: Library = Library {
    name: "basic-ftp",
    variable: "PLUMB_BASIC_FTP",
    file: "/usr/share/nodejs/basic-ftp",
    package: "basic-ftp of npm",
};

impl Library {
    /// Returns the library's file or directory, and reports its version for the calling test.
    ///
    /// # Panics
    ///
    /// Panics if the library is missing.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let path = env::var_os(self.variable).map_or_else(|| self.file.into(), PathBuf::from);
        let Ok(target) = path.canonicalize() else {
            panic!(
                "{} is missing at {}; ./x test --long installs it (package {}), and {} may name it",
                self.name,
                path.display(),
                self.package,
                self.variable
            );
        };
        report::peer(&report::current_test(), self.name, &version_of(&target, self.name));
        path
    }
}

/// Returns the version of a library: from package.json in an npm directory, or from a file name
/// with a version number in the directory of `target`.
fn version_of(target: &Path, name: &str) -> String {
    if let Ok(text) = fs::read_to_string(target.join("package.json")) {
        let line = text.lines().find(|line| line.trim().starts_with("\"version\""));
        return line.unwrap_or_default().trim().trim_end_matches(',').to_owned();
    }
    let directory_entries = target.parent().and_then(|directory| fs::read_dir(directory).ok());
    let names = directory_entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut names = names.map(|file| file.to_string_lossy().into_owned());
    let is_versioned = |file: &String| {
        let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    names.find(is_versioned).unwrap_or_else(|| "of unknown version".to_owned())
}

/// Peers that [`Peer::named`] finds by file name.
const NAMED: [Peer; 10] =
    [CURL, WGET, LFTP, NCFTPPUT, NCFTPGET, NCFTPLS, TNFTP, INETUTILS_FTP, PYTHON, ARIA2];

/// Returns the peer with this file name, or `None` if the program belongs to plumb or to the base
/// system.
#[must_use]
pub fn named(file: &str) -> Option<Peer> {
    NAMED.iter().find(|peer| peer.name == file || peer.files.contains(&file)).copied()
}

/// Directories to search after those in PATH. The PATH of an unprivileged user does not contain
/// them.
const MORE_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Timeout for a program that prints its version.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

impl Peer {
    /// Returns the path of the program, and reports its version for the calling test.
    ///
    /// # Panics
    ///
    /// Panics if no candidate identifies itself as this program.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        static FOUND: Mutex<BTreeMap<&str, (PathBuf, String)>> = Mutex::new(BTreeMap::new());
        static REPORTED: Mutex<BTreeSet<(String, &str)>> = Mutex::new(BTreeSet::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, version) = match found.get(self.name) {
            Some(known) => known.clone(),
            None => {
                let new = self.find().unwrap_or_else(|missing| panic!("{missing}"));
                found.insert(self.name, new.clone());
                new
            }
        };
        drop(found);
        let test = report::current_test();
        let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert((test.clone(), self.name)) {
            report::peer(&test, self.name, &version);
        }
        path
    }

    /// Returns a command that runs the program; see [`Self::path`].
    #[must_use]
    pub fn command(&self) -> Command {
        Command::new(self.path())
    }

    /// Returns the first candidate that identifies itself as this program, and the line with its
    /// version.
    fn find(&self) -> Result<(PathBuf, String), Missing> {
        if let Some(named) = env::var_os(self.variable) {
            return self.find_among([PathBuf::from(named)]);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let more = MORE_DIRECTORIES.map(PathBuf::from);
        let directories: Vec<PathBuf> = env::split_paths(&path).chain(more).collect();
        self.find_among(self.candidates(&directories))
    }

    fn find_among(
        &self,
        candidates: impl IntoIterator<Item = PathBuf>,
    ) -> Result<(PathBuf, String), Missing> {
        let mut rejected_candidates = Vec::new();
        for path in candidates {
            let output = version_output(&path, self.version_arguments);
            match output.lines().find(|line| line.contains(self.version_text)) {
                Some(line) => return Ok((path, report::single_line(line))),
                None => rejected_candidates.push((path, output)),
            }
        }
        Err(Missing { peer: *self, rejected_candidates })
    }

    fn candidates(&self, directories: &[PathBuf]) -> Vec<PathBuf> {
        let files = if self.files.is_empty() { &[self.name][..] } else { self.files };
        let paths_of = |file: &&str| directories.iter().map(|at| at.join(file)).collect::<Vec<_>>();
        let mut paths: Vec<PathBuf> = files.iter().flat_map(paths_of).collect();
        paths.retain(|path| path.is_file());
        paths
    }
}

/// Runs the program with `version_arguments` and returns its output.
///
/// Input and both outputs are one socket, because vsftpd prints its version to descriptor 0.
fn version_output(program: &Path, version_arguments: &[&str]) -> String {
    let Ok((ours, theirs)) = UnixStream::pair() else { return String::new() };
    let mut output = Vec::new();
    let run = || {
        let mut command = Command::new(program);
        command.args(version_arguments).stdin(OwnedFd::from(theirs.try_clone()?));
        command.stdout(OwnedFd::from(theirs.try_clone()?)).stderr(OwnedFd::from(theirs));
        let mut child = command.spawn()?;
        // The command holds duplicates of `theirs`; without the drop, `ours` would never report the
        // end of the output.
        drop(command);
        ours.shutdown(Shutdown::Write)?;
        ours.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        let read = (&ours).read_to_end(&mut output);
        // At the end of the output or after the timeout the program is no longer needed.
        child.kill()?;
        child.wait()?;
        read
    };
    let result = run();
    let mut text = String::from_utf8_lossy(&output).into_owned();
    if let Err(error) = result {
        text.push_str(&error.to_string());
    }
    text
}

/// Error: no candidate identifies itself as the peer.
#[derive(Debug)]
struct Missing {
    peer: Peer,
    rejected_candidates: Vec<(PathBuf, String)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Peer { name, variable, package, .. } = self.peer;
        write!(f, "{name} is missing; ./x test installs it (package {package}), ")?;
        write!(f, "and {variable} may name its file")?;
        for (path, output) in &self.rejected_candidates {
            // The last line of a Python error contains its message.
            let last = output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            write!(f, "; {} says '{}'", path.display(), last.trim())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Creates the executable shell script `directory`/`name` in a temporary directory of the test.
    fn script(test: &str, directory: &str, name: &str, text: &str) -> PathBuf {
        let root = env::temp_dir().join(format!("plumb-peers-{}-{test}", std::process::id()));
        let directory = root.join(directory);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        directory
    }

    #[test]
    fn a_program_whose_version_output_is_of_another_program_is_skipped() {
        let test = "name";
        let directories = [
            script(test, "first", "in.tftpd", "echo 'atftp-0.8.0 (server)'"),
            script(test, "second", "in.tftpd", "echo; echo 'tftp-hpa 5.2, with remap'"),
        ];
        let (path, version) = TFTPD_HPA.find_among(TFTPD_HPA.candidates(&directories)).unwrap();
        assert_eq!(path, directories[1].join("in.tftpd"));
        assert_eq!(version, "tftp-hpa 5.2, with remap");
        fs::remove_dir_all(directories[0].parent().unwrap()).unwrap();
    }

    #[test]
    fn a_missing_peer_is_an_error_that_names_its_package_and_the_skipped_programs() {
        let directories = [script("missing", "only", "in.tftpd", "echo 'atftp-0.8.0 (server)'")];
        let missing = TFTPD_HPA.find_among(TFTPD_HPA.candidates(&directories)).unwrap_err();
        let text = missing.to_string();
        for part in ["package tftpd-hpa", "PLUMB_TFTPD_HPA", "'atftp-0.8.0 (server)'"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        fs::remove_dir_all(directories[0].parent().unwrap()).unwrap();
    }

    #[test]
    fn a_version_on_descriptor_0_or_on_stderr_is_read() {
        for descriptor in [0, 2] {
            let text = format!("echo 'vsftpd: version 3.0.3' >&{descriptor}; exit 1");
            let directory = script("descriptor", "only", "vsftpd", &text);
            let found =
                VSFTPD.find_among(VSFTPD.candidates(std::slice::from_ref(&directory))).unwrap();
            assert_eq!(found.1, "vsftpd: version 3.0.3");
            fs::remove_dir_all(directory.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn a_program_that_waits_for_input_finds_its_end() {
        let directory = script("input", "only", "vsftpd", "cat; echo 'vsftpd: version 3'");
        assert!(VSFTPD.find_among(VSFTPD.candidates(std::slice::from_ref(&directory))).is_ok());
        fs::remove_dir_all(directory.parent().unwrap()).unwrap();
    }
}
