//! Plays one script with the runner.

use super::expected::{Comparison, Policies, Suite};
use super::sandbox::{DIRECTORY_VARIABLE, Sandbox, restorer_of};
use anyhow::{Context, Result};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Outcome of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// Exit code of the runner, and the end of its output.
    Failed(Option<i32>, String),
    /// The script did not finish.
    Hung,
    /// The script could not be started.
    NotPlayed(String),
}

impl Outcome {
    /// Returns whether the script passed.
    pub(super) fn has_passed(&self) -> bool {
        *self == Self::Passed
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(Some(EXIT_IDLE), output) => {
                write!(f, "the stack would never send the expected packet\n{output}")
            }
            Self::Failed(_, output) => f.write_str(output),
            Self::Hung => write!(f, "did not end within {} s", SCRIPT_TIMEOUT.as_secs()),
            Self::NotPlayed(why) => write!(f, "could not be played: {why}"),
        }
    }
}

/// Parameters of playing a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlayOptions {
    pub(super) policies: Policies,
    pub(super) comparison: Comparison,
}

impl PlayOptions {
    /// Parameters to which the list of expected results applies.
    pub(super) const TUNED: Self =
        Self { policies: Policies::Tuned, comparison: Comparison::Strict };
}

/// Exit code by which the library ends a script in which no further event can happen.
const EXIT_IDLE: i32 = 3;
/// A script takes a tenth of a second; one that takes this long even on a busy machine has hung.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of lines of the runner's output that are kept.
const OUTPUT_LINES_MAX: usize = 6;
/// Address of the stack under test; the runner chooses a random one by default.
const LOCAL_IP: &str = "192.168.0.1";

/// Player of scripts.
#[derive(Debug)]
pub(super) struct Player {
    runner: PathBuf,
    library: PathBuf,
    sandbox: Sandbox,
    freebsd: PathBuf,
    search_path: std::ffi::OsString,
}

impl Player {
    /// Creates a player from the runner and the library, with the suites in the directories that
    /// `directory_of` returns.
    pub(super) fn new(
        runner: &Path,
        library: &Path,
        directory_of: &dyn Fn(Suite) -> Result<PathBuf>,
    ) -> Result<Self> {
        let sandbox = Sandbox::new(&directory_of(Suite::Packetdrill)?)?;
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let directories =
            std::iter::once(sandbox.programs()).chain(std::env::split_paths(&search_path));
        Ok(Self {
            runner: runner.to_path_buf(),
            library: library.to_path_buf(),
            freebsd: directory_of(Suite::TcpTestsuite)?,
            search_path: std::env::join_paths(directories)?,
            sandbox,
        })
    }

    /// Plays the script at `path` in its suite with the parameters `options`; `number` must be
    /// unique.
    pub(super) fn play(
        &self,
        suite: Suite,
        path: &str,
        options: PlayOptions,
        number: usize,
    ) -> Outcome {
        self.try_play(suite, path, options, number)
            .unwrap_or_else(|error| Outcome::NotPlayed(format!("{error:#}")))
    }

    fn try_play(
        &self,
        suite: Suite,
        path: &str,
        options: PlayOptions,
        number: usize,
    ) -> Result<Outcome> {
        let script = match suite {
            Suite::Packetdrill => self.sandbox.linked().join(path),
            Suite::TcpTestsuite => self.freebsd.join(path),
        };
        let directory = self.sandbox.directory_of(number)?;
        let text = std::fs::read_to_string(&script)?;
        let relaxed_script = directory.join("relaxed.pkt");
        let script_path = match options.comparison {
            Comparison::Strict => script.file_name().context("a script has a name")?,
            Comparison::Relaxed => {
                std::fs::write(&relaxed_script, relax(&text))?;
                relaxed_script.as_os_str()
            }
        };
        let output_path = directory.join("said");
        let output = File::create(&output_path)?;
        let mut child = Command::new(&self.runner)
            .arg(format!("--local_ip={LOCAL_IP}"))
            .arg(format!("--so_filename={}", self.library.display()))
            .arg(format!("--so_flags={}", flags(suite, options.policies, &text, &directory)))
            .arg(script_path)
            .current_dir(script.parent().context("a script is in a directory")?)
            .env("PATH", &self.search_path)
            // LD_PRELOAD replaces the one function that the runner does not call through the
            // library's function table.
            .env("LD_PRELOAD", &self.library)
            .env(DIRECTORY_VARIABLE, &directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start the runner")?;
        let end = Instant::now() + SCRIPT_TIMEOUT;
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                None => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(Outcome::Hung);
                }
            }
        };
        let output_text = String::from_utf8_lossy(&std::fs::read(&output_path)?).into_owned();
        std::fs::remove_dir_all(&directory)?;
        // Most scripts have not created this file.
        let _ = std::fs::remove_file(restorer_of(child.id()));
        if status.success() {
            return Ok(Outcome::Passed);
        }
        let lines: Vec<&str> = output_text.lines().collect();
        let last = lines.get(lines.len().saturating_sub(OUTPUT_LINES_MAX)..).unwrap_or_default();
        Ok(Outcome::Failed(status.code(), last.join("\n")))
    }
}

/// Returns the flags of the library: the dialect, the policies, the directory of the settings, and
/// the MTU, which the script specifies only for the runner.
fn flags(suite: Suite, policies: Policies, script: &str, directory: &Path) -> String {
    let mtu = script.lines().find_map(|line| line.trim().strip_prefix("--mtu="));
    let mtu = mtu.map(|mtu| format!(",mtu={mtu}")).unwrap_or_default();
    let target_os = suite.target_os();
    let profile = policies.name();
    format!("dialect={target_os},profile={profile},folder={}{mtu}", directory.display())
}

/// Returns the script without the options of outgoing SYNs and without windows.
fn relax(script: &str) -> String {
    let lines = script.lines().map(|line| match line.split_once(" > ") {
        Some((before, segment)) if !line.trim_start().starts_with("//") => {
            let segment = without_window(segment);
            let is_syn = segment.trim_start().starts_with('S');
            let segment = if is_syn { with_any_options(&segment) } else { segment };
            format!("{before} > {segment}\n")
        }
        _ => format!("{line}\n"),
    });
    lines.collect()
}

fn without_window(segment: &str) -> String {
    let Some((before, after)) = segment.split_once(" win ") else { return segment.to_owned() };
    let rest = after.trim_start().trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{before}{rest}")
}

fn with_any_options(segment: &str) -> String {
    let options = segment.split_once('<').and_then(|(before, after)| {
        let (_, rest) = after.split_once('>')?;
        Some((before, rest))
    });
    options.map_or_else(|| segment.to_owned(), |(before, rest)| format!("{before}<...>{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_flags_contain_the_profile_and_the_mtu_of_the_script() {
        let directory = Path::new("a");
        let script = "--ip_version=ipv4\n--mtu=72\n";
        let library_flags = flags(Suite::TcpTestsuite, Policies::Tuned, script, directory);
        assert_eq!(library_flags, "dialect=freebsd,profile=tuned,folder=a,mtu=72");
        let library_flags = flags(Suite::Packetdrill, Policies::Files, "", directory);
        assert_eq!(library_flags, "dialect=linux,profile=files,folder=a");
    }

    #[test]
    fn a_relaxed_script_ignores_windows_and_options_of_outgoing_syns() {
        let script = "// > S 0:0(0) win 1 <mss 1>\n\
                      +0.00 > S  0:0(0)       win 65535 <mss 1460,nop,wscale 6>\n\
                      +0.10 < S. 0:0(0) ack 1 win 32767 <mss 1460>\n\
                      +0.00 >  . 1:1(0) ack 1 win 65535 <nop,nop,TS val 1 ecr 2>\n";
        let expected = "// > S 0:0(0) win 1 <mss 1>\n\
                        +0.00 > S  0:0(0)       <...>\n\
                        +0.10 < S. 0:0(0) ack 1 win 32767 <mss 1460>\n\
                        +0.00 >  . 1:1(0) ack 1 <nop,nop,TS val 1 ecr 2>\n";
        assert_eq!(relax(script), expected);
    }
}
