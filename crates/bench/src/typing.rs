//! Types into several login paths, alternating between them.
//!
//! Every round opens a new session per path, so that the memory layout of one process does not
//! influence all rounds. The bench types one key into each session, in random order. After some
//! milliseconds it types the next key into each session, until all keys are typed. A long
//! disturbance therefore affects all sessions alike. Screenfuls follow in the same way, in separate
//! sessions.

use super::conditions::Conditions;
use super::driver::{Session, screen_text};
use super::rounds::{Round, Rounds};
use super::telnetd::{Listener, program, set_environment, shell};
use anyhow::{Context, Result, ensure};
use net::rng::Rng;
use net::time::Duration;
use os::clock::Monotonic;
use os::readiness::wait;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::{env, fs, io};

/// Range of the time from an echo to the next key of the same session, µs.
const KEY_GAP_US: std::ops::Range<u64> = 5_000..15_000;
const KEYS: std::ops::RangeInclusive<u8> = b'a'..=b'z';

/// Number and size of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    /// Number of rounds.
    pub(super) rounds: usize,
    /// Number of keys per round.
    pub(super) keys: usize,
    /// Number of screenfuls per round.
    pub(super) screenfuls: usize,
    /// Length of the long text, in megabytes of 10^6 bytes.
    pub(super) megabytes: usize,
}

/// Client program into which the bench types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// A shell on the pseudo-terminal, without a Telnet client or server.
    Shell,
    /// The Telnet client of inetutils.
    Inetutils,
    /// `plumb login`.
    Plumb {
        /// Access to the network.
        via: Via,
        /// Whether the meter runs.
        is_metered: bool,
    },
}

/// Network access of `plumb login`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// The kernel's sockets.
    Kernel,
    /// plumb's own TCP/IP on the bench's TUN with this number.
    Tun(u8),
}

impl Client {
    fn command(&self, port: u16) -> Result<Command> {
        let mut command = match self {
            Self::Shell => Command::new(shell()),
            Self::Inetutils => {
                let own = program("inetutils-telnet", "inetutils-telnet");
                let mut command =
                    Command::new(own.or_else(|_| program("telnet", "inetutils-telnet"))?);
                command.args(["127.0.0.1", &port.to_string()]);
                command
            }
            Self::Plumb { via, .. } => {
                let mut command = Command::new(plumb()?);
                command.args(["login", &via.host(), &port.to_string(), "--via", &via.name()]);
                command
            }
        };
        set_environment(&mut command);
        match self {
            Self::Shell => {
                command.env("PS1", "$ ");
            }
            Self::Plumb { is_metered: false, .. } => {
                command.env("PLUMB_METER", "off");
            }
            Self::Inetutils | Self::Plumb { .. } => {}
        }
        Ok(command)
    }

    fn uses_server(&self) -> bool {
        !matches!(self, Self::Shell)
    }
}

impl Via {
    /// Returns the argument of `--via`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Kernel => "kernel".to_owned(),
            Self::Tun(number) => format!("tun:plumb{number}"),
        }
    }

    /// Returns the server's address as seen through this path.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Kernel => "127.0.0.1".to_owned(),
            Self::Tun(number) => format!("10.82.{number}.1"),
        }
    }

    /// Creates the TUN, which exists as long as the bench's network namespace.
    pub(super) fn prepare(&self) -> Result<()> {
        let Self::Tun(number) = self else { return Ok(()) };
        let name = format!("plumb{number}");
        run_ip(&["tuntap", "add", "dev", &name, "mode", "tun"])?;
        run_ip(&["address", "add", &format!("{}/24", self.host()), "dev", &name])?;
        run_ip(&["link", "set", &name, "up"])
    }
}

/// Runs `ip` of iproute2.
pub(super) fn run_ip(arguments: &[&str]) -> Result<()> {
    let output = Command::new(program("ip", "iproute2")?).args(arguments).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "'ip {}' failed: {}", arguments.join(" "), stderr.trim());
    Ok(())
}

/// Returns the path of `plumb`, which is built into the same directory as this program.
pub(super) fn plumb() -> Result<PathBuf> {
    let plumb_path = env::current_exe()?.with_file_name("plumb");
    let hint = "build it with cargo build --release -p plumbline";
    ensure!(plumb_path.is_file(), "there is no plumb in the directory of this program: {hint}");
    Ok(plumb_path)
}

/// Creates the TUNs of the `clients`, once per run.
pub(super) fn prepare(clients: &[(&str, Client)]) -> Result<()> {
    for (_, client) in clients {
        if let Client::Plumb { via, .. } = client {
            via.prepare()?;
        }
    }
    Ok(())
}

/// A file with a full screen of text, removed on drop.
#[derive(Debug)]
pub(super) struct Screen(pub(super) PathBuf);

impl Screen {
    pub(super) fn new() -> Result<Self> {
        let file = env::temp_dir().join(format!("plumb-bench-{}", process::id()));
        fs::write(&file, screen_text()).with_context(|| format!("cannot write {file:?}"))?;
        Ok(Self(file))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A leftover is a small file in a temporary directory.
        _ = fs::remove_file(&self.0);
    }
}

/// Measures all `clients`, each under its label, with servers of `listener`.
pub(super) fn measure(
    clients: &[(&str, Client)],
    listener: &Listener,
    amount: Amount,
    conditions: &Conditions,
) -> Result<Vec<Rounds>> {
    let screen = Screen::new()?;
    let mut rng = Rng::from_seed(SEED);
    let mut results: Vec<Rounds> = clients.iter().map(|(label, _)| Rounds::new(*label)).collect();
    for number in 1..=amount.rounds {
        conditions.run_in_real_time()?;
        let echoes = type_interleaved(open(clients, listener)?, amount.keys, &mut rng)?;
        conditions.run_as_ordinary()?;
        let screens = if amount.screenfuls == 0 { Vec::new() } else { open(clients, listener)? };
        let screens = show_interleaved(screens, amount.screenfuls, &screen.0, &mut rng)?;
        let screens = screens.into_iter().map(Some).chain(std::iter::repeat(None));
        for ((result, echoes), screens) in results.iter_mut().zip(echoes).zip(screens) {
            let Round { screenful_ns, key_to_screen_ns, .. } = screens.unwrap_or_default();
            result.rounds.push(Round { screenful_ns, key_to_screen_ns, ..echoes });
        }
        // Progress output; a closed stderr is ignored.
        _ = writeln!(io::stderr(), "round {number} of {} done", amount.rounds);
    }
    Ok(results)
}

/// Arbitrary seed of the order and the gaps.
pub(super) const SEED: u64 = 1982;

/// A session into which the bench types, with its measurements.
#[derive(Debug)]
pub(super) struct TypedSession<'a> {
    label: &'a str,
    pub(super) session: Session,
    round: Round,
}

impl<'a> TypedSession<'a> {
    /// Wraps an open session.
    pub(super) fn new(label: &'a str, session: Session) -> Self {
        Self { label, session, round: Round::default() }
    }
}

fn open<'a>(clients: &[(&'a str, Client)], listener: &Listener) -> Result<Vec<TypedSession<'a>>> {
    let port = listener.port()?;
    let typed_session = |(label, client): &(&'a str, Client)| {
        let server = client.uses_server().then_some(listener);
        let session = Session::open(client.command(port)?, server)
            .with_context(|| format!("cannot log in over path {label}"))?;
        Ok(TypedSession::new(label, session))
    };
    clients.iter().map(typed_session).collect()
}

/// Types `keys` into all sessions. Each session gets one key before any session gets the next one.
/// Adds the processor time of client and server.
pub(super) fn type_interleaved(
    mut typed_sessions: Vec<TypedSession<'_>>,
    keys: usize,
    rng: &mut Rng,
) -> Result<Vec<Round>> {
    let clock = Monotonic::start();
    let before: Vec<_> = typed_sessions
        .iter_mut()
        .map(|typed_session| typed_session.session.processor_times())
        .collect();
    let count = u32::try_from(typed_sessions.len()).unwrap_or(1).max(1);
    for key in KEYS.cycle().take(keys) {
        for at in shuffled(typed_sessions.len(), rng) {
            let Some(typed_session) = typed_sessions.get_mut(at) else { continue };
            let gap = random_gap(rng).checked_div(count).unwrap_or_default();
            wait(&mut [], &clock, Some(clock.now() + gap))?;
            let echo = typed_session.session.echo(key);
            let echo =
                echo.with_context(|| format!("no echo over path {}", typed_session.label))?;
            typed_session.round.echo_ns.push(echo);
        }
    }
    // Wait for delayed acknowledgments of the last keys, so that their cost is counted.
    wait(&mut [], &clock, Some(clock.now() + DELAYED_ACK_WAIT))?;
    for (typed_session, before) in typed_sessions.iter_mut().zip(before) {
        let after = typed_session.session.processor_times();
        typed_session.round.client_ns_per_key = per_key(before.client_ns, after.client_ns, keys);
        typed_session.round.server_ns_per_key = per_key(before.server_ns, after.server_ns, keys);
    }
    Ok(typed_sessions.into_iter().map(|typed_session| typed_session.round).collect())
}

fn random_gap(rng: &mut Rng) -> Duration {
    Duration::from_micros(KEY_GAP_US.start + rng.below(KEY_GAP_US.end - KEY_GAP_US.start))
}

const DELAYED_ACK_WAIT: Duration = Duration::from_millis(100);

/// Prints the full screen in `file` in all sessions, one session after the other. Repeats this
/// `screenfuls` times.
pub(super) fn show_interleaved(
    mut typed_sessions: Vec<TypedSession<'_>>,
    screenfuls: usize,
    file: &Path,
    rng: &mut Rng,
) -> Result<Vec<Round>> {
    for _ in 0..screenfuls {
        for at in shuffled(typed_sessions.len(), rng) {
            let Some(typed_session) = typed_sessions.get_mut(at) else { continue };
            let shown = typed_session.session.screenful(file, || random_gap(rng));
            let shown =
                shown.with_context(|| format!("no screenful over path {}", typed_session.label))?;
            typed_session.round.screenful_ns.push(shown.first_to_last_ns);
            typed_session.round.key_to_screen_ns.push(shown.key_to_last_ns);
        }
    }
    Ok(typed_sessions.into_iter().map(|typed_session| typed_session.round).collect())
}

/// Returns the numbers below `count` in random order.
pub(super) fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).map(|at| (rng.next_u64(), at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

fn per_key(before: Option<u64>, after: Option<u64>, keys: usize) -> Option<u64> {
    after?.checked_sub(before?)?.checked_div(u64::try_from(keys).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::rng::Rng;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_random_order_contains_every_session_once(count in 0..20_usize, seed in any::<u64>()) {
            let mut order = shuffled(count, &mut Rng::from_seed(seed));
            order.sort_unstable();
            prop_assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn processor_time_is_shared_by_the_keys() {
        assert_eq!(per_key(Some(1_000), Some(5_000), 4), Some(1_000));
        assert_eq!(per_key(None, Some(5_000), 4), None);
        assert_eq!(per_key(Some(1), Some(5), 0), None);
    }

    #[test]
    fn each_tun_has_a_separate_network() {
        assert_eq!(
            (Via::Tun(0).name(), Via::Tun(0).host()),
            ("tun:plumb0".into(), "10.82.0.1".into())
        );
        assert_ne!(Via::Tun(0).host(), Via::Tun(1).host());
    }

    #[test]
    fn only_a_client_without_meter_gets_the_option() {
        let metered = |is_metered| Client::Plumb { via: Via::Kernel, is_metered };
        // Without `plumb` in the directory of the tests there is no command to inspect.
        if let (Ok(on), Ok(off)) = (metered(true).command(1), metered(false).command(1)) {
            let has = |command: &Command| command.get_envs().any(|(name, _)| name == "PLUMB_METER");
            assert!(!has(&on) && has(&off));
        }
    }
}
