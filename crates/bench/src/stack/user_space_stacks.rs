//! The peers: other user-space stacks, downloaded from their registries and built when they are
//! measured.
//!
//! For each peer, `crates/bench/peers` has a small program that implements the server interface; build
//! results are under `target/peers`. A peer that cannot be built is left out, with the reason.

use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A third-party stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// smoltcp, a crate.
    Smoltcp,
    /// lwIP, a Debian source package.
    Lwip,
    /// gVisor's netstack, a Go module.
    Gvisor,
}

impl Peer {
    /// All peers, in the order of the report.
    pub(super) const ALL: [Self; 3] = [Self::Smoltcp, Self::Lwip, Self::Gvisor];

    /// Returns the peer's name, which is also the name of its directories.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Smoltcp => "smoltcp",
            Self::Lwip => "lwip",
            Self::Gvisor => "gvisor",
        }
    }

    /// Returns the server's path if it has been built before.
    pub(super) fn built(self, root: &Path) -> Result<PathBuf> {
        let program = self.program(root);
        ensure!(program.is_file(), "it is not built; ./x bench stack without --quick builds it");
        Ok(program)
    }

    /// Builds the server, and returns its path.
    pub(super) fn build(self, root: &Path) -> Result<PathBuf> {
        let glue = root.join("crates/bench/peers").join(self.name());
        let target = root.join("target/peers").join(self.name());
        fs::create_dir_all(&target)?;
        match self {
            Self::Smoltcp => run(Command::new(env::var_os("CARGO").unwrap_or("cargo".into()))
                .args(["build", "--quiet", "--release", "--locked", "--manifest-path"])
                .arg(glue.join("Cargo.toml"))
                .arg("--target-dir")
                .arg(&target))?,
            Self::Gvisor => run(Command::new(go()?)
                .args(["build", "-mod=readonly", "-buildvcs=false", "-o"])
                .args([&self.program(root), Path::new(".")])
                .current_dir(&glue))?,
            Self::Lwip => build_lwip(&glue, &target, &self.program(root))?,
        }
        self.built(root)
    }

    /// Returns the peer's version as named by its registry.
    pub(super) fn version(self, root: &Path) -> Option<String> {
        let glue = root.join("crates/bench/peers").join(self.name());
        let text = |path: &Path| fs::read_to_string(path).ok();
        match self {
            Self::Smoltcp => version_in_lock(&text(&glue.join("Cargo.lock"))?, "smoltcp"),
            Self::Gvisor => version_in_module(&text(&glue.join("go.mod"))?, "gvisor.dev/gvisor"),
            Self::Lwip => {
                let directory = fs::read_dir(root.join("target/peers/lwip")).ok()?;
                let names =
                    directory.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                let mut names = names.filter_map(|name| version_of_source(&name));
                names.next()
            }
        }
    }

    fn program(self, root: &Path) -> PathBuf {
        let target = root.join("target/peers").join(self.name());
        let place = if self == Self::Smoltcp { target.join("release") } else { target };
        place.join(format!("{}-server", self.name()))
    }
}

/// Compiles lwIP's core with the bench's options. Debian's library is built for a window of 128 KiB
/// and for use below an operating system.
fn build_lwip(glue: &Path, target: &Path, program: &Path) -> Result<()> {
    let source = target.join("source");
    if !source.join("src/core/tcp.c").is_file() {
        fetch_lwip(target, &source)?;
    }
    let core = source.join("src/core");
    let mut command = Command::new("cc");
    command.args(["-O3", "-o"]).arg(program).arg("-I").arg(glue);
    command.arg("-I").arg(source.join("src/include")).arg(glue.join("server.c"));
    command.args(c_files(&core)?).args(c_files(&core.join("ipv4"))?).arg("-lpthread");
    run(&mut command)
}

/// Downloads the source package with apt-get and separate lists and cache, so that neither root nor
/// the machine's package sources are needed.
fn fetch_lwip(target: &Path, source: &Path) -> Result<()> {
    let lists = target.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    fs::create_dir_all(target.join("cache/archives/partial"))?;
    fs::create_dir_all(source)?;
    fs::write(target.join("sources.list"), format!("deb-src {DEBIAN} {SUITE} main\n"))?;
    let apt = |words: &[&str]| {
        let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
        run(Command::new("apt-get")
            .args([
                "-q",
                "-q",
                "-o",
                &setting("Dir::Etc::sourcelist", &target.join("sources.list")),
            ])
            .args(["-o", "Dir::Etc::sourceparts=/dev/null"])
            .args(["-o", &setting("Dir::State::lists", &lists)])
            .args(["-o", &setting("Dir::Cache", &target.join("cache"))])
            .args(["-o", "APT::Sandbox::User=root"])
            .args(words)
            .current_dir(target))
    };
    apt(&["update"])?;
    apt(&["source", "--download-only", "lwip"])?;
    let archive = fs::read_dir(target)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains(".orig.tar."))
        .context("the source package has no archive")?;
    run(Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(source)
        .arg("--strip-components=1"))
}

/// Repository of lwIP's source package.
const DEBIAN: &str = "http://deb.debian.org/debian";
const SUITE: &str = "stable";

fn c_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("no {}", directory.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.extension() == Some(OsStr::new("c"))).collect())
}

/// Finds Go in the search path, or in the default directory of Go's installer.
fn go() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = env::split_paths(&path).collect();
    directories.push("/usr/local/go/bin".into());
    let go_path =
        directories.into_iter().map(|directory| directory.join("go")).find(|go| go.is_file());
    go_path.context("there is no Go: install it (apt-get install golang-go)")
}

/// Finds a package in the text of a Cargo.lock.
fn version_in_lock(lock: &str, package: &str) -> Option<String> {
    let after = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
    Some(after.split('"').next()?.to_owned())
}

/// Finds a module in the text of a go.mod.
fn version_in_module(module: &str, path: &str) -> Option<String> {
    let mut lines = module.lines().filter_map(|line| line.trim().strip_prefix(path));
    Some(lines.next()?.split_whitespace().next()?.to_owned())
}

/// Reads the version in the name of a source package's description, `lwip_2.2.1-1.dsc`.
fn version_of_source(name: &str) -> Option<String> {
    Some(name.strip_prefix("lwip_")?.strip_suffix(".dsc")?.to_owned())
}

/// Runs `command`; if it fails, the error contains its output.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
        bail!("{name} failed: {last}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_the_registries_write_them() {
        let lock = "[[package]]\nname = \"smoltcp-server\"\nversion = \"0.1.0\"\n\n\
                    [[package]]\nname = \"smoltcp\"\nversion = \"0.14.0\"\n";
        assert_eq!(version_in_lock(lock, "smoltcp").unwrap(), "0.14.0");
        let module = "require (\n\tgvisor.dev/gvisor v0.0.0-2026 // indirect\n)\n";
        assert_eq!(version_in_module(module, "gvisor.dev/gvisor").unwrap(), "v0.0.0-2026");
        assert_eq!(version_of_source("lwip_2.2.1-1.dsc").unwrap(), "2.2.1-1");
        assert_eq!(version_of_source("lwip_2.2.1.orig.tar.xz"), None);
    }
}
