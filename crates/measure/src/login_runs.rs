//! Measured logins: over Telnet, with or without TLS, and over a serial line.

use super::circumstances::{Carrier, Circumstances};
use super::console::{COLUMNS, ROWS};
use super::interrupt::Interrupts;
use super::login_session::MeasureSession;
use super::measure_options::{DEFAULT_KEYS, MeasureOptions};
use super::outcome::{FailureKind, TryFailure, TryResults, Usable};
use super::probe_login::{
    LoginProbe, ProbeParameters, ProbeResult, silence_reason, unusable_reason,
};
use super::progress::ProgressLine;
use super::prompt::Prompts;
use super::record::{measurement, median_keystroke};
use super::session_parameters::SessionParameters;
use super::session_results::SessionResults;
use super::target::{LoginTarget, ProgramTarget};
use anyhow::Result;
use carrier::{
    self, EndedSession, EngineContext, MaybeTls, NoAddress, Outcome, Route, StreamSession, Trust,
};
use net::time::{Duration, Instant};
use os::clock::Calibration;
use os::tty::WindowSize;
use records::Measurement;
use records::assessment::{self, Assessment};
use records::measures::AttemptOutcome;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::SystemTime;

/// Measures logins at one target.
pub(super) struct Logins<'a> {
    pub(super) target: &'a LoginTarget,
    pub(super) options: &'a MeasureOptions,
    pub(super) interrupts: &'a Interrupts,
}

/// Maximum time of the echoes, if the user does not specify the number of keys.
const ECHO_TIME_MAX: Duration = Duration::from_secs(30);
/// Number of keys whose echo is measured in each try after the first one.
const PROBE_KEYS: usize = 10;

/// A session that has ended.
struct FinishedSession<S> {
    session: S,
    outcome: Outcome,
    address: Option<SocketAddr>,
    resolve: Option<Duration>,
    connecting_at: Option<Instant>,
    connect_time: Option<Duration>,
    tls: Option<Duration>,
    /// Reason why the connection did not open; `None` if it opened.
    connect_failure: Option<TryFailure>,
    /// How the program of the session ended, if it ended before the session.
    program_end: Option<String>,
}

impl<S> FinishedSession<S> {
    /// Creates the result of a session over a device without addresses.
    fn without_network(session: S) -> Self {
        Self {
            session,
            outcome: Outcome::LocalClosed,
            address: None,
            resolve: None,
            connecting_at: None,
            connect_time: None,
            tls: None,
            connect_failure: None,
            program_end: None,
        }
    }
}

impl Logins<'_> {
    /// Measures one complete login.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system refuses a resource. The inner error is the reason
    /// why nothing could be measured.
    pub(super) fn measure(&self) -> Result<Result<TryResults, TryFailure>> {
        let started_at = SystemTime::now();
        let calibration = Calibration::start();
        let session = self.session(self.plan(), self.options.progress, self.options.report)?;
        let mut context = EngineContext::new(true)?;
        let ended = match self.run_session(session, &mut context)? {
            Ok(ended) => ended,
            Err(failed) => return Ok(Err(failed)),
        };
        let last_line = ended.session.last_line();
        let mut findings = ended.session.into_findings(ended.outcome);
        if let Some(end) = ended.program_end {
            let output = last_line.map_or_else(String::new, |line| format!(": {line}"));
            findings.notes.push(format!("{end}{output}"));
        }
        if findings.opened_at.is_none() {
            return Ok(Err(ended.connect_failure.unwrap_or_else(TryFailure::interrupted)));
        }
        let mut circumstances = Circumstances {
            target: self.target.to_string(),
            address: ended.address,
            carrier: self.carrier(),
            started_at,
            resolve: ended.resolve,
            connecting_at: ended.connecting_at,
            connect_time: ended.connect_time,
            tls: ended.tls,
            tick: calibration.finish(),
            refutation: None,
        };
        circumstances.check_line_rate(&findings);
        let accuracy = match self.options.compares_pattern && !self.interrupts.is_interrupted() {
            true => self.run_probe(self.probe_parameters(self.keys()))?.ok(),
            false => None,
        };
        Ok(Ok(results_of_try(
            findings,
            &circumstances,
            accuracy.and_then(|probe_result| probe_result.accuracy),
        )))
    }

    /// Determines whether the login is usable, by the echo of a few keys: in the shell with
    /// credentials, else at the first prompt.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Logins::measure`].
    pub(super) fn probe_availability(&self) -> Result<Result<Usable, TryFailure>> {
        let calibration = Calibration::start();
        let plan = SessionParameters { keys: PROBE_KEYS, echo_time: None, ..self.plan() };
        let has_credentials = plan.login.is_some();
        let session = self.session(plan, None, None)?.until_echo();
        let mut context = EngineContext::new(true)?;
        let ended = match self.run_session(session, &mut context)? {
            Ok(ended) => ended,
            Err(failed) => return Ok(Err(failed)),
        };
        let outcome = ended.outcome;
        let findings = ended.session.into_findings(outcome);
        if findings.opened_at.is_none() || self.interrupts.is_interrupted() {
            return Ok(Err(ended.connect_failure.unwrap_or_else(TryFailure::interrupted)));
        }
        let circumstances = Circumstances {
            target: self.target.to_string(),
            address: ended.address,
            carrier: self.carrier(),
            started_at: SystemTime::now(),
            resolve: ended.resolve,
            connecting_at: ended.connecting_at,
            connect_time: ended.connect_time,
            tls: ended.tls,
            tick: calibration.finish(),
            refutation: None,
        };
        let is_unusable = has_credentials && (findings.is_refused || findings.is_cut_off);
        let results = results_of_try(findings, &circumstances, None);
        if let Some(reason) = results.notes.last().filter(|_| is_unusable) {
            let kind = FailureKind::RemoteHost;
            return Ok(Err(TryFailure::new(AttemptOutcome::NotUsable, kind, reason)));
        }
        let Some(response_ns) = results.response_ns else {
            let kind = FailureKind::RemoteHost;
            let reason = ended.program_end.as_deref().unwrap_or(silence_reason(outcome));
            return Ok(Err(TryFailure::new(AttemptOutcome::NotUsable, kind, reason)));
        };
        let tcp = results.record.tcp.as_ref();
        Ok(Ok(Usable {
            response_ns,
            login_total_ns: login_total_ns(&results.record),
            echo_p50_ns: results.record.echo.as_ref().map(|echo| echo.p50_ns),
            retransmissions: tcp.and_then(|tcp| tcp.retransmissions),
            grade: Assessment::of(&results.record).grade,
            parts: assessment::echo_parts(&results.record),
        }))
    }

    /// Creates the measuring session of the target.
    fn session(
        &self,
        plan: SessionParameters,
        progress: Option<fn(&str)>,
        report: Option<fn(&str)>,
    ) -> Result<MeasureSession> {
        let interrupt = Some(self.interrupts.descriptor()?);
        let progress = ProgressLine::new(progress).with_report(report);
        Ok(match self.target {
            LoginTarget::Host { .. } => MeasureSession::new(plan, interrupt, progress),
            LoginTarget::Line(_) => MeasureSession::on_line(plan, interrupt, progress),
            LoginTarget::Program(_) => MeasureSession::on_program(plan, interrupt, progress),
        })
    }

    fn probe_parameters(&self, keys: u64) -> ProbeParameters {
        ProbeParameters { keys, timeout: self.timeout(), prompts: self.prompts() }
    }

    /// Runs a short availability probe and returns its result.
    fn run_probe(&self, parameters: ProbeParameters) -> Result<Result<ProbeResult, TryFailure>> {
        let interrupt = Some(self.interrupts.descriptor()?);
        let probe = match self.target {
            LoginTarget::Host { .. } => LoginProbe::new(parameters, interrupt),
            LoginTarget::Line(_) | LoginTarget::Program(_) => {
                LoginProbe::on_line(parameters, interrupt)
            }
        };
        let mut context = EngineContext::new(false)?;
        let ended = match self.run_session(probe, &mut context)? {
            Ok(ended) => ended,
            Err(failed) => return Ok(Err(failed)),
        };
        let mut probe_result = ended.session.into_result();
        if probe_result.is_interrupted {
            return Ok(Err(TryFailure::interrupted()));
        }
        if probe_result.wait_started_at.is_none() {
            return Ok(Err(ended.connect_failure.unwrap_or_else(TryFailure::interrupted)));
        }
        if let Some(reason) = unusable_reason(&probe_result, ended.outcome) {
            return Ok(Err(TryFailure::new(
                AttemptOutcome::NotUsable,
                FailureKind::RemoteHost,
                reason,
            )));
        }
        // The user's wait includes the name lookup, so its duration is added.
        if let Some(connecting_at) = ended.connecting_at {
            let resolve = ended.resolve.unwrap_or_default();
            let wait_started = (connecting_at - Instant::ZERO).saturating_sub(resolve);
            probe_result.wait_started_at = Some(Instant::ZERO + wait_started);
        }
        Ok(Ok(probe_result))
    }

    /// Runs a session over the carrier of the target.
    fn run_session<S: StreamSession>(
        &self,
        session: S,
        context: &mut EngineContext,
    ) -> Result<Result<FinishedSession<S>, TryFailure>> {
        let (target, uses_tls) = match self.target {
            LoginTarget::Host { target, uses_tls, .. } => (target, *uses_tls),
            LoginTarget::Line(line) => {
                let ended =
                    carrier::run_on_serial_line(session, &line.device, line.settings, context)?;
                return Ok(Ok(FinishedSession::without_network(ended.session)));
            }
            LoginTarget::Program(program) => return run_program(session, program, context),
        };
        let failure =
            |outcome, reason: &str| TryFailure::new(outcome, FailureKind::RemoteHost, reason);
        let interrupt = self.interrupts.descriptor()?;
        let family = self.options.families;
        let via = &self.options.via;
        let lookup_began_at = context.clock.now();
        let addresses = match carrier::addresses(target, family, via, Some(interrupt.as_fd()))? {
            Ok(addresses) => addresses,
            Err(NoAddress::Interrupted) => return Ok(Err(TryFailure::interrupted())),
            Err(reason) => {
                return Ok(Err(failure(AttemptOutcome::NoAddress, &reason.to_string())));
            }
        };
        let resolve = Some(context.clock.now() - lookup_began_at);
        let timeout = self.timeout();
        let session = match uses_tls {
            false => MaybeTls::on_request(session, None, timeout),
            true => {
                let ca = self.options.ca.as_deref();
                MaybeTls::from_start(session, Trust::new(&target.host, target.port, ca)?, timeout)
            }
        };
        // Reading the trusted certificates takes some milliseconds.
        let connecting_at = context.clock.now();
        let EndedSession {
            session: MaybeTls { session, refusal, handshake, .. },
            outcome,
            address,
            connect_time,
        } = carrier::run(session, via, &addresses, timeout, context)?;
        let other_addresses = addresses.len().saturating_sub(1);
        let connect_failure = match refusal {
            Some(refusal) => Some(failure(AttemptOutcome::NotUsable, &refusal.to_string())),
            None => outcome
                .failure(false, address, other_addresses, timeout.as_secs())
                .map(|reason| failure(AttemptOutcome::NoConnection, &reason)),
        };
        Ok(Ok(FinishedSession {
            session,
            outcome,
            address: Some(address),
            resolve,
            connecting_at: Some(connecting_at),
            connect_time,
            tls: handshake,
            connect_failure,
            program_end: None,
        }))
    }

    fn carrier(&self) -> Carrier {
        match self.target {
            LoginTarget::Host { .. } => Carrier::Network(self.via().clone()),
            LoginTarget::Line(line) => Carrier::Line(line.clone()),
            LoginTarget::Program(_) => Carrier::Program,
        }
    }

    fn via(&self) -> &Route {
        &self.options.via
    }

    fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Returns the number of keys whose echo is measured.
    fn keys(&self) -> u64 {
        self.options.login.keys.unwrap_or(DEFAULT_KEYS).into()
    }

    fn prompts(&self) -> Prompts {
        self.options.login.prompts.clone()
    }

    fn plan(&self) -> SessionParameters {
        let echo_time = self.options.login.keys.is_none().then_some(ECHO_TIME_MAX);
        SessionParameters {
            keys: usize::try_from(self.keys()).unwrap_or(usize::MAX),
            echo_time,
            login: self.options.login.credentials.clone(),
            prompts: self.prompts(),
            command: self.options.login.command.clone(),
            initial_commands: Vec::new(),
            timeout: self.timeout(),
            cpu_time: os::clock::process_cpu_time,
            run_queue_wait: os::schedule::thread_run_queue_wait,
        }
    }
}

/// Runs a session over a program on a pseudo-terminal.
fn run_program<S: StreamSession>(
    session: S,
    program: &ProgramTarget,
    context: &mut EngineContext,
) -> Result<Result<FinishedSession<S>, TryFailure>> {
    let size = WindowSize { rows: ROWS, columns: COLUMNS };
    let ended = match carrier::run_on_program(session, program.command(), size, context)? {
        Ok(ended) => ended,
        Err(error) => {
            let reason = format!("cannot run '{}': {error}", program.program());
            let kind = FailureKind::Request;
            return Ok(Err(TryFailure::new(AttemptOutcome::ThisMachine, kind, &reason)));
        }
    };
    let program_end = ended.has_hung_up.then(|| match ended.exit_status {
        Some(status) => format!("the program ended ({status})"),
        None => "the program closed its terminal".to_owned(),
    });
    Ok(Ok(FinishedSession { program_end, ..FinishedSession::without_network(ended.session) }))
}

fn results_of_try(
    findings: SessionResults,
    circumstances: &Circumstances,
    accuracy: Option<records::accuracy::Accuracy>,
) -> TryResults {
    let record = measurement(&findings, circumstances);
    let phases = &record.phases;
    // Without a prompt, the silence after the connection is not counted as an answer.
    let steps = [phases.resolve_ns, phases.connect_ns, phases.tls_ns, phases.negotiation_ns];
    let before = steps.into_iter().flatten().fold(0, u64::saturating_add);
    let response_ns = match (phases.login_prompt_ns, &record.echo) {
        (Some(prompt_ns), _) if record.address.is_some() => Some(before.saturating_add(prompt_ns)),
        // Without a prompt, an echo is the first sign of a remote host.
        (_, Some(echo)) => echo.times_ns.first().map(|first| before.saturating_add(*first)),
        _ => None,
    };
    let has_measured = record.echo.is_some() || record.screenful.is_some();
    let keystroke = median_keystroke(&findings, circumstances);
    let is_refused = findings.is_refused;
    let is_incomplete = is_refused || findings.is_cut_off || findings.unfinished.is_some();
    let notes = findings.notes;
    TryResults {
        record,
        notes,
        keystroke,
        accuracy,
        response_ns,
        has_measured,
        is_refused,
        is_incomplete,
    }
}

/// Returns the time of a login, from the user name until the shell's prompt, ns.
pub(super) fn login_total_ns(record: &Measurement) -> Option<u64> {
    let password_prompt_ns = record.phases.password_prompt_ns.unwrap_or(0);
    Some(record.phases.login_ns?.saturating_add(password_prompt_ns))
}
