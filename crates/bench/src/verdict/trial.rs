//! One case in real time: network namespaces, relay, servers, clients, and the result.
//!
//! A case has one run with all causes, and for each cause one run without that cause. Each run has
//! its own network namespaces. A run begins with the bench's own client; in the run with all
//! causes, `plumb measure` follows over the same path.

use super::super::typing::plumb;
use super::answer::Answer;
use super::case::Case;
use super::generator::Generator;
use super::interposer::{self, Protocol};
use super::network::{Networks, OWN_TCP};
use super::resolver::{self, NAME, Resolver};
use super::score::{Evidence, Score, score};
use super::service::Service;
use super::service_address::SERVER;
use super::service_address::port_of;
use super::setup::{Delays, Setup};
use super::starve;
use super::stop::Stop;
use super::trial_servers::{self, Directory, LARGE_FACTOR, Servers, user_of};
use super::truth::Truth;
use anyhow::{Context, Result};
use net::time::Duration;
use os::process::Program;
use os::schedule;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;

/// Time after which `plumb measure` is interrupted, as a user would do.
const MEASURE_LIMIT: Duration = Duration::from_secs(50);
/// Like `MEASURE_LIMIT`, for cases of the second case generator (`super::second`). Some of these
/// cases have a satellite path with a round-trip time of 0.7 s.
const SECOND_MEASURE_LIMIT: Duration = Duration::from_secs(110);
/// Time after the interrupt at which `plumb measure` is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Argument of `--timeout`, s, instead of the default of 30.
const TIMEOUT_S: &str = "8";
/// Argument of `--keys`: number of keys typed to measure echoes, instead of the default of 200.
const KEYS: &str = "40";

/// Result of a case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseResult {
    Scored {
        evidence: Evidence,
        answer: Answer,
        score: Score,
    },
    /// A program or a kernel feature is missing.
    NotConfigured(String),
    /// The bench itself failed to run the case.
    Failed(String),
}

/// Names of renamed options in this version of `plumb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// `--estimate`, or `--foretell` in earlier versions.
    pub(super) estimate: Option<&'static str>,
}

impl Options {
    /// Detects the names from the help of `plumb measure`.
    pub(super) fn detect() -> Result<Self> {
        let help = Command::new(plumb()?).args(["measure", "--help"]).output()?;
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let known = ["--estimate", "--foretell"];
        Ok(Self { estimate: known.into_iter().find(|option| help.contains(option)) })
    }
}

/// Runs a case and scores its answer.
pub(super) fn run(case: &Case, options: &Options) -> CaseResult {
    if let Err(error) = trial_servers::path_of(case.peer) {
        return CaseResult::NotConfigured(format!("{error:#}"));
    }
    let available_controls =
        fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let control = case.path.control.name();
    if !available_controls.unwrap_or_default().split_whitespace().any(|name| name == control) {
        return CaseResult::NotConfigured(format!(
            "the kernel has no congestion control {control}"
        ));
    }
    match evidence(case, options) {
        Ok((evidence, answer)) => {
            let score = score(case, &evidence, &answer);
            CaseResult::Scored { evidence, answer, score }
        }
        Err(error) => CaseResult::Failed(format!("{error:#}")),
    }
}

fn evidence(case: &Case, options: &Options) -> Result<(Evidence, Answer)> {
    let mut evidence = Evidence::default();
    let (with, answer, late_ms) = run_in_namespaces(case, None, Some(options))?;
    evidence.with = with;
    evidence.relay_late_ms = late_ms;
    for number in 0..case.causes.len() {
        evidence.without.push(run_in_namespaces(case, Some(number), None)?.0);
    }
    Ok((evidence, answer.unwrap_or_default()))
}

/// Creates the network namespaces and servers of one run, and measures.
fn run_in_namespaces(
    case: &Case,
    removed: Option<usize>,
    options: Option<&Options>,
) -> Result<(Truth, Option<Answer>, f64)> {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let setup = Setup::for_case(case, removed);
            let networks = Networks::make(case, &setup)?;
            let directory = Directory::make(case, &setup)?;
            let processors = schedule::processors()?;
            let first = processors.first();
            let last = processors.last();
            let first = *first.context("no processor")?;
            let last = *last.context("no processor")?;
            let _servers = serve(case, &setup, &directory, &networks, last)?;
            let drops_first = setup.second.drops_first_query;
            let _resolver = case
                .by_name
                .then(|| Resolver::start(setup.resolver_ms, drops_first))
                .transpose()?;
            let busy = setup.server_busy.or(setup.client_busy);
            let _busy = busy.map(|busy| starve::start(last, busy)).transpose()?;
            let loops = setup.second.loops;
            let _loops = loops.map(|loops| starve::start_loops(last, loops.count)).transpose()?;
            if setup.client_busy.is_some() {
                // The client shares a processor with the busy threads; the server uses the other
                // one.
                schedule::pin_to(last)?;
            } else if setup.server_busy.is_some() || loops.is_some() {
                schedule::pin_to(first)?;
            }
            thread::sleep(trial_servers::settling_time(case.peer));
            let is_random = case.causes.iter().any(|cause| cause.kind.is_random());
            let truth = Truth::measure(case, &setup, is_random)?;
            thread::sleep(trial_servers::settling_time(case.peer));
            let answer =
                options.map(|options| measure(case, &setup, &directory, options)).transpose()?;
            Ok((truth, answer, networks.late_ms()))
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Programs and threads in the server's network namespace; they stop on drop.
struct RunningServices {
    _resolver: Option<Resolver>,
    _servers: Servers,
    _interposer: Option<Stop>,
}

/// Starts the server, the interposer in front of it, and the name server that the server queries.
/// If the cause is a busy processor, the server runs on `processor`.
fn serve(
    case: &Case,
    setup: &Setup,
    directory: &Directory,
    networks: &Networks,
    processor: usize,
) -> Result<RunningServices> {
    let place = trial_servers::server_address_of(case, setup);
    let resolver_ms = setup.second.server_resolver_ms;
    let resolver = resolver_ms.map(|_| networks.in_server_namespace(|| Resolver::start(0, false)));
    let resolver = resolver.transpose()?;
    let servers = networks.in_server_namespace(|| {
        if setup.server_busy.is_some() || setup.second.loops.is_some() {
            schedule::pin_to(processor)?;
        }
        if let Some(loops) = setup.second.loops {
            schedule::set_nice(loops.server_nice)?;
        }
        trial_servers::start(case, setup, directory, place)
    })?;
    // The server also queries names while it starts, so the delay is set after its start.
    if let (Some(resolver), Some(ms)) = (&resolver, resolver_ms) {
        resolver.set_delay(ms);
    }
    let interposer = setup
        .needs_interposer()
        .then(|| networks.in_server_namespace(|| interpose(case, setup.delays, place.1)));
    let interposer = interposer.transpose()?;
    Ok(RunningServices { _resolver: resolver, _servers: servers, _interposer: interposer })
}

fn interpose(case: &Case, delays: Delays, behind: u16) -> Result<Stop> {
    let protocol = if case.service.is_login() { Protocol::Login } else { Protocol::Ftp };
    interposer::start(protocol, port_of(case.service), behind, delays)
}

/// Runs `plumb measure` in the network namespace of the calling thread.
fn measure(case: &Case, setup: &Setup, directory: &Directory, options: &Options) -> Result<Answer> {
    let at = &directory.0;
    let mut command = match case.by_name {
        false => Command::new(plumb()?),
        true => {
            let file = at.join("resolv.conf");
            let timeout = setup.second.query_timeout_s;
            let timeout = timeout.map(|s| format!("options timeout:{s}\n")).unwrap_or_default();
            fs::write(&file, format!("nameserver 127.0.0.1\n{timeout}"))?;
            resolver::with_file(&plumb()?, &file)
        }
    };
    command.args(arguments(case, &at.join("password").display().to_string(), options));
    command.env("XDG_STATE_HOME", at.join("state")).env("HOME", at.join("state"));
    command.env("PLUMB_FTP_PASSWORD", user_of(case.peer).1);
    let out = at.join("stdout");
    let err = at.join("stderr");
    command.stdin(Stdio::null()).stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
    let mut program = Program::start(&mut command)?;
    let limit = match case.generator {
        Generator::First => MEASURE_LIMIT,
        Generator::Second => SECOND_MEASURE_LIMIT,
    };
    let mut status = program.wait_for_end(limit)?;
    let was_ended = status.is_none();
    if was_ended {
        interrupt(&program)?;
        status = program.wait_for_end(KILL_TIMEOUT)?;
    }
    drop(program);
    let stdout = fs::read_to_string(&out)?;
    let stderr = fs::read(&err)?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let answer = Answer::read(&stdout, &stderr, status.and_then(|status| status.code()));
    Ok(Answer { was_ended, ..answer })
}

/// Sends SIGINT to the program by its process id.
fn interrupt(program: &Program) -> Result<()> {
    let id = program.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().context("cannot run kill")?;
    Ok(())
}

/// Returns the arguments of `plumb` for a case.
fn arguments(case: &Case, password_file: &str, options: &Options) -> Vec<String> {
    let mut words = vec!["measure", "--json", "--timeout", TIMEOUT_S];
    let host = if case.by_name { NAME } else { SERVER };
    let port = port_of(case.service);
    let size = case.bytes.to_string();
    let large = (case.bytes * LARGE_FACTOR).to_string();
    let user = match user_of(case.peer) {
        ("anonymous", _) => String::new(),
        (user, _) => format!("{user}@"),
    };
    let target = match case.service {
        Service::Login | Service::LoginOwnTcp => {
            words.extend(["--keys", KEYS]);
            if case.asks_password {
                words.extend(["--login", "me", "--password-file", password_file]);
            }
            if case.service == Service::LoginOwnTcp {
                words.extend(["--via", OWN_TCP]);
            }
            format!("{host}:{port}")
        }
        Service::FtpGet => {
            words.extend(["--rounds", "1", "--bytes", &size]);
            words.extend(options.estimate.iter().flat_map(|option| [*option, &large]));
            format!("ftp://{user}{host}:{port}/pub/file")
        }
        Service::FtpPut => {
            words.extend(["--write", "--rounds", "1", "--bytes", &size]);
            format!("ftp://{user}{host}:{port}/incoming/")
        }
        Service::TftpGet => {
            words.extend(["--rounds", "1", "--bytes", &size]);
            format!("tftp://{host}:{port}/file")
        }
    };
    words.push(&target);
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::super::generate;
    use super::*;

    fn first(service: Service, by_name: bool) -> Case {
        let mut cases = (0..).map(|number| generate::case(1, number));
        cases.find(|case| case.service == service && case.by_name == by_name).unwrap()
    }

    #[test]
    fn a_file_is_measured_up_to_the_size_of_the_case_and_predicted_beyond() {
        let case = first(Service::FtpGet, false);
        let options = Options { estimate: Some("--foretell") };
        let words = arguments(&case, "", &options);
        let after = |word: &str| {
            let at = words.iter().position(|other| other == word).unwrap();
            words[at + 1].clone()
        };
        assert_eq!(after("--bytes"), case.bytes.to_string());
        assert_eq!(after("--foretell"), (case.bytes * LARGE_FACTOR).to_string());
        assert!(words.last().unwrap().ends_with("10.0.0.1:2121/pub/file"));
        let words = arguments(&case, "", &Options { estimate: None });
        assert!(!words.contains(&"--foretell".to_owned()));
    }

    #[test]
    fn a_server_is_named_where_the_case_has_a_resolver() {
        let options = Options { estimate: None };
        let words = arguments(&first(Service::Login, true), "", &options);
        assert_eq!(words.last().unwrap(), "server.example:2323");
        let words = arguments(&first(Service::LoginOwnTcp, false), "", &options);
        assert_eq!(words.last().unwrap(), "10.0.0.1:2323");
        assert!(words.contains(&OWN_TCP.to_owned()));
    }
}
