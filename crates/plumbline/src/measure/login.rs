//! Measured logins: over Telnet, with or without TLS, and over a serial line.

use super::arguments::Arguments;
use super::interrupt::Interrupts;
use super::outcome::{Failed, Measured};
use super::probe_login::{Answer, LoginProbe, Question, why_unusable};
use super::progress::ProgressLine;
use super::prompt::Prompts;
use super::record::{Carrier, Circumstances, measurement, nanos, waterfall};
use super::target::Line;
use super::walk::{Findings, Login, Plan, Walk};
use crate::carry::{self, Bench, Call, NoAddress, Outcome, Session, Target, Tls, Trust, Via};
use crate::exit::Failure;
use anyhow::Result;
use os::clock::Calibration;
use protocols::time::{Duration, Instant};
use records::html::Section;
use records::measures::TryOutcome;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::SystemTime;

/// Location of a login.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// Host; the flag selects TLS from the first byte.
    Host(&'a Target, bool),
    /// Other end of a serial line.
    Line(&'a Line),
}

/// Measures logins at one place.
pub(super) struct Logins<'a> {
    pub(super) place: Place<'a>,
    /// Target as displayed.
    pub(super) name: String,
    pub(super) arguments: &'a Arguments,
    pub(super) interrupts: &'a Interrupts,
    pub(super) login: Option<Login>,
}

/// A session that has ended.
struct Ended<S> {
    session: S,
    outcome: Outcome,
    address: Option<SocketAddr>,
    resolve: Option<Duration>,
    connecting_at: Option<Instant>,
    tls: Option<Duration>,
    /// Reason why the connection did not open, if it did not.
    not_opened: Option<Failed>,
}

impl Logins<'_> {
    /// Measures one complete login.
    ///
    /// # Errors
    ///
    /// Returns an error if this machine refuses a resource. The inner error is the reason why
    /// nothing could be measured.
    pub(super) fn measure(&self) -> Result<Result<Measured, Failed>> {
        let (started_at, calibration) = (SystemTime::now(), Calibration::start());
        let (plan, interrupt) = (self.plan(), Some(self.interrupts.descriptor()?));
        let progress = ProgressLine::on_stderr();
        let walk = match self.place {
            Place::Host(..) => Walk::new(plan, interrupt, progress),
            Place::Line(_) => Walk::on_line(plan, interrupt, progress),
        };
        let mut bench = Bench::new(true)?;
        let ended = match self.carry(walk, &mut bench)? {
            Ok(ended) => ended,
            Err(failed) => return Ok(Err(failed)),
        };
        let findings = ended.session.into_findings(ended.outcome);
        if findings.opened_at.is_none() {
            return Ok(Err(ended.not_opened.unwrap_or_else(Failed::interrupted)));
        }
        let mut circumstances = Circumstances {
            target: self.name.clone(),
            address: ended.address,
            carrier: self.carrier(),
            started_at,
            resolve: ended.resolve,
            connecting_at: ended.connecting_at,
            tls: ended.tls,
            tick: calibration.finish(),
            refuting: None,
        };
        circumstances.judge_line(&findings);
        let accuracy = match self.arguments.pattern && !self.interrupts.has_come() {
            true => self.ask(self.question(self.arguments.keys.into()))?.ok(),
            false => None,
        };
        Ok(Ok(measured(findings, &circumstances, accuracy.and_then(|answer| answer.accuracy))))
    }

    /// Determines whether the login can be used, and returns the time until it could, ns.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Logins::measure`].
    pub(super) fn probe_availability(&self) -> Result<Result<u64, Failed>> {
        let began = std::time::Instant::now();
        // On a serial line an echo is the only sign of a remote host.
        let keys = if matches!(self.place, Place::Line(_)) { 1 } else { 0 };
        Ok(self.ask(self.question(keys))?.map(|answer| {
            let waited = answer.usable_at.zip(answer.since).map(|(at, since)| at - since);
            waited.map_or_else(|| nanos(began.elapsed()), nanos)
        }))
    }

    fn question(&self, keys: u64) -> Question {
        Question { keys, patience: self.patience(), prompts: self.prompts() }
    }

    /// Runs a short session and returns its result.
    fn ask(&self, question: Question) -> Result<Result<Answer, Failed>> {
        let interrupt = Some(self.interrupts.descriptor()?);
        let probe = match self.place {
            Place::Host(..) => LoginProbe::new(question, interrupt),
            Place::Line(_) => LoginProbe::on_line(question, interrupt),
        };
        let mut bench = Bench::new(false)?;
        let ended = match self.carry(probe, &mut bench)? {
            Ok(ended) => ended,
            Err(failed) => return Ok(Err(failed)),
        };
        let mut answer = ended.session.into_answer();
        if answer.is_interrupted {
            return Ok(Err(Failed::interrupted()));
        }
        if answer.since.is_none() {
            return Ok(Err(ended.not_opened.unwrap_or_else(Failed::interrupted)));
        }
        if let Some(why) = why_unusable(&answer, ended.outcome) {
            return Ok(Err(Failed::new(TryOutcome::NotUsable, Failure::FarSide, why)));
        }
        // The user's wait starts with the lookup of the name.
        if let Some(connecting_at) = ended.connecting_at {
            let resolve = ended.resolve.unwrap_or_default();
            let began = (connecting_at - Instant::ZERO).saturating_sub(resolve);
            answer.since = Some(Instant::ZERO + began);
        }
        Ok(Ok(answer))
    }

    /// Runs a session over the carrier of the place.
    fn carry<S: Session>(&self, session: S, bench: &mut Bench) -> Result<Result<Ended<S>, Failed>> {
        let (target, is_in_tls) = match self.place {
            Place::Host(target, is_in_tls) => (target, is_in_tls),
            Place::Line(line) => {
                let call = carry::run_on_line(session, &line.device, line.settings, bench)?;
                let Call { session, outcome, .. } = call;
                return Ok(Ok(Ended {
                    session,
                    outcome,
                    address: None,
                    resolve: None,
                    connecting_at: None,
                    tls: None,
                    not_opened: None,
                }));
            }
        };
        let interrupt = self.interrupts.descriptor()?;
        let (family, via) = (self.arguments.family, &self.arguments.via);
        let asked_at = bench.clock.now();
        let addresses = match carry::addresses(target, family, via, Some(interrupt.as_fd()))? {
            Ok(addresses) => addresses,
            Err(NoAddress::Interrupted) => return Ok(Err(Failed::interrupted())),
            Err(why) => {
                let why = why.to_string();
                return Ok(Err(Failed::new(TryOutcome::NoAddress, Failure::FarSide, &why)));
            }
        };
        let connecting_at = bench.clock.now();
        let resolve = Some(connecting_at - asked_at);
        let patience = self.patience();
        let session = match is_in_tls {
            false => Tls::when_asked(session, None, patience),
            true => {
                let ca = self.arguments.ca.as_deref();
                Tls::from_start(session, Trust::new(&target.host, target.port, ca)?, patience)
            }
        };
        let Call { session: Tls { session, refusal, handshake, .. }, outcome, address } =
            carry::run(session, via, &addresses, patience, bench)?;
        let others = addresses.len().saturating_sub(1);
        let not_opened = match refusal {
            Some(refusal) => {
                let why = refusal.to_string();
                Some(Failed::new(TryOutcome::NotUsable, Failure::FarSide, &why))
            }
            None => outcome
                .failure(false, address, others, self.arguments.timeout)
                .map(|why| Failed::new(TryOutcome::NoConnection, Failure::FarSide, &why)),
        };
        let address = Some(address);
        let connecting_at = Some(connecting_at);
        let tls = handshake;
        Ok(Ok(Ended { session, outcome, address, resolve, connecting_at, tls, not_opened }))
    }

    fn carrier(&self) -> Carrier {
        match self.place {
            Place::Host(..) => Carrier::Network(self.via().clone()),
            Place::Line(line) => Carrier::Line(line.clone()),
        }
    }

    fn via(&self) -> &Via {
        &self.arguments.via
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(self.arguments.timeout)
    }

    fn prompts(&self) -> Prompts {
        let prompt = self.arguments.prompt.as_deref();
        prompt.map_or_else(Prompts::default, Prompts::ending_in)
    }

    fn plan(&self) -> Plan {
        Plan {
            keys: usize::try_from(self.arguments.keys).unwrap_or(usize::MAX),
            login: self.login.clone(),
            prompts: self.prompts(),
            command: self.arguments.command.clone(),
            errands: Vec::new(),
            patience: self.patience(),
            cpu_time: os::clock::process_cpu_time,
            run_queue_wait: os::schedule::thread_run_queue_wait,
        }
    }
}

fn measured(
    findings: Findings,
    circumstances: &Circumstances,
    accuracy: Option<records::accuracy::Accuracy>,
) -> Measured {
    let record = measurement(&findings, circumstances);
    let phases = &record.phases;
    // A prompt that never came is not an answer.
    let steps = [phases.resolve_ns, phases.connect_ns, phases.tls_ns, phases.negotiation_ns];
    let before = steps.into_iter().flatten().fold(0, u64::saturating_add);
    let response_ns = match (phases.login_prompt_ns, &record.echo) {
        (Some(prompt_ns), _) if record.address.is_some() => Some(before.saturating_add(prompt_ns)),
        // Without a prompt, an echo is the first sign of a remote host.
        (_, Some(echo)) => echo.times_ns.first().map(|first| before.saturating_add(*first)),
        _ => None,
    };
    let has_measured = record.echo.is_some() || record.screenful.is_some();
    let picture = waterfall(&findings, circumstances.rates()).map(Section::Waterfall);
    let sections = picture.into_iter().collect();
    let is_incomplete = findings.is_refused || findings.is_cut_off || findings.unfinished.is_some();
    let notes = findings.notes;
    Measured { record, notes, sections, accuracy, response_ns, has_measured, is_incomplete }
}
