//! The user's protocol interpreter: tasks in, commands out, one at a time, each with a verdict.
//!
//! A task is a list of steps, each one command and its reply, or one thing asked of the owner:
//!
//! ```text
//! login   greeting (AUTH TLS PBSZ PROT) (HOST) USER PASS (ACCT) (FEAT OPTS)
//! file    (TYPE MODE STRU) (ALLO) EPSV connect (REST) RETR ── data ── last reply
//! ```
//!
//! What the server has been told already is not told again. If EPSV is refused or nobody answers
//! at its port, PASV follows at once, and where that fails too and listening is allowed, EPRT or
//! PORT; what was refused is not tried again in this session. The address in a reply to PASV is
//! never used: data goes to the host of the control connection.
//!
//! A transfer is good when the last reply says so *and* the owner has seen the data end in order,
//! in whichever order these come, and no fewer bytes came than were announced. Everything else is
//! a [`Failure`] with the step at which it happened. Whether to try again is the owner's business.
//!
//! Replies count by their first digit (RFC 1123 §4.1.2.11), but for 234 before TLS. What was read
//! behind the reply to AUTH is thrown away. ABOR is sent with Interrupt Process and Synch (RFC 959
//! §4.1.3); since servers disagree on how many replies follow, a NOOP finds the place again.

mod ahead;
mod replies;
mod steps;
mod task;

use ahead::Spare;
pub use replies::Features;
pub use task::{
    DataFailure, DataStyle, Done, Failure, Lessons, ListKind, Step, StoreKind, Task, TaskId,
    TlsUse, UserEvent, UserSettings, Why,
};

use super::address::Family;
use super::command::Protection;
use super::line::{DM, IAC, IP};
use super::reply::{Reply, ReplyError, ReplyReader};
use super::representation::{Mode, Structure, Type};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The most tasks that wait; ours.
pub const TASKS_MAX: usize = 1024;
/// How long a second reply to ABOR is waited for; ours.
const ABORT_GRACE: Duration = Duration::from_secs(2);
/// How long a line that ends a reply is waited for, when one has come that ends another; ours.
const LOOSE_END_GRACE: Duration = Duration::from_secs(2);

/// One session of a user.
#[derive(Debug)]
pub struct User {
    settings: UserSettings,
    /// The ends of the control connection.
    local: SocketAddr,
    peer: SocketAddr,
    replies: ReplyReader,
    output: Vec<u8>,
    urgent_mark: Option<usize>,
    events: VecDeque<UserEvent>,
    queue: VecDeque<(TaskId, Task)>,
    next_task: u64,
    /// What runs; while there is no login, the login.
    job: Option<Job>,
    is_logged_in: bool,
    is_closed: bool,
    awaits_tls: bool,
    is_tls: bool,
    protection: Protection,
    /// What the server has been told.
    told: Told,
    /// What the server has refused, or what did not work.
    lessons: Lessons,
    /// By which passive way data has come in this session.
    worked: Option<Route>,
    spare: Spare,
    /// ALLO whose replies are still to come, before all others.
    unheard_allocations: u32,
    expects_transfer: bool,
    /// Whether the login is over, whatever follows it still.
    is_accepted: bool,
    deadline: Option<Instant>,
    /// When a reply is taken for whole whose end is another's.
    loose_end_at: Option<Instant>,
    /// Why the transfer failed whose last reply is waited for.
    failed: Option<Failure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    data_type: Type,
    mode: Mode,
    structure: Structure,
}

/// A task that runs.
#[derive(Debug)]
struct Job {
    id: Option<TaskId>,
    task: Task,
    step: Step,
    steps: VecDeque<Step>,
    data: Data,
    /// How this job tries to make its data connection now.
    route: Route,
    preliminary: Option<Reply>,
    last: Option<Reply>,
    wire_bytes: u64,
    /// Replies that may still be on their way after ABOR.
    is_aborting: bool,
    /// Whether its command went before the reply to EPSV or PASV.
    is_ahead: bool,
    /// Whether that was in vain, and a reply to it is still to come.
    is_swallowing: bool,
    /// Whether a mail has been sent behind its command.
    is_mailed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    /// There is none, or none yet.
    None,
    /// We listen, or connect.
    Awaited,
    Connected,
    Moving,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Epsv,
    Pasv,
    Eprt,
    Port,
}

impl User {
    /// Makes a user whose control connection stands between `local` and `peer`; in implicit TLS
    /// that is on already.
    #[must_use]
    pub fn new(settings: UserSettings, local: SocketAddr, peer: SocketAddr, cx: &Cx<'_>) -> Self {
        let is_tls = settings.tls == TlsUse::Implicit;
        let deadline = Some(cx.now + settings.reply_timeout);
        let lessons = settings.lessons;
        let mut login = Job::new(None, Task::Noop);
        login.step = Step::Greeting;
        Self {
            settings,
            local,
            peer,
            replies: ReplyReader::default(),
            output: Vec::new(),
            urgent_mark: None,
            events: VecDeque::new(),
            queue: VecDeque::new(),
            next_task: 1,
            job: Some(login),
            is_logged_in: false,
            is_closed: false,
            awaits_tls: false,
            is_tls,
            protection: Protection::Clear,
            told: Told::default(),
            lessons,
            worked: None,
            spare: Spare::None,
            unheard_allocations: 0,
            expects_transfer: false,
            is_accepted: false,
            deadline,
            loose_end_at: None,
            failed: None,
        }
    }

    /// Puts a task behind those that wait. `None` if there are too many, or the session is over.
    pub fn run(&mut self, task: Task, cx: &mut Cx<'_>) -> Option<TaskId> {
        if self.is_closed || self.queue.len() >= TASKS_MAX {
            return None;
        }
        let id = TaskId(self.next_task);
        self.next_task += 1;
        self.queue.push_back((id, task));
        self.next_job(cx);
        Some(id)
    }

    /// Takes what came over the control connection.
    pub fn receive(&mut self, mut input: &[u8], cx: &mut Cx<'_>) {
        while !self.is_closed {
            if self.awaits_tls {
                // It came before TLS, and may be anybody's.
                let dropped = input.len() + self.replies.forget();
                cx.meter.add(Counter::FtpBytesBeforeTls, dropped as u64);
                return;
            }
            match self.replies.next(&mut input, cx) {
                Ok(Some(reply)) => self.take_reply(reply, cx),
                Ok(None) => {
                    self.mind_loose_end(cx);
                    break;
                }
                Err(error) => {
                    let step = self.job.as_ref().map_or(Step::Command, |job| job.step);
                    let why = match error {
                        ReplyError::Malformed => Why::NotReply(self.replies.take_rejected()),
                        ReplyError::TooLong => Why::Malformed,
                    };
                    self.close(Some(Failure { step, why }), cx);
                }
            }
        }
        let answers = self.replies.take_answers();
        self.output.extend(answers);
    }

    /// Some servers end a reply of several lines with another code than it began with. What may be
    /// such an end is one if nothing follows it.
    fn mind_loose_end(&mut self, cx: &mut Cx<'_>) {
        self.loose_end_at = None;
        if !self.replies.has_loose_end() {
            return;
        }
        if self.lessons.has_loose_ends {
            return self.take_loose_end(cx);
        }
        self.loose_end_at = Some(cx.now + LOOSE_END_GRACE);
    }

    fn take_loose_end(&mut self, cx: &mut Cx<'_>) {
        self.lessons.has_loose_ends = true;
        cx.meter.count(Counter::FtpRepliesWrong);
        if let Some(reply) = self.replies.take_loose() {
            self.take_reply(reply, cx);
        }
    }

    /// Returns what was learnt of the server.
    #[must_use]
    pub fn lessons(&self) -> Lessons {
        self.lessons
    }

    /// Returns what waits to be sent over the control connection.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Returns how many bytes of the output, from its start, are to be sent as urgent.
    #[must_use]
    pub fn urgent_mark(&self) -> Option<usize> {
        self.urgent_mark
    }

    /// Drops `count` bytes of the output, which the transport has taken.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        self.urgent_mark = self.urgent_mark.and_then(|mark| mark.checked_sub(count));
        self.urgent_mark = self.urgent_mark.filter(|mark| *mark > 0);
    }

    /// Returns the next thing that is asked of the owner, or news; call until `None`.
    pub fn event(&mut self) -> Option<UserEvent> {
        self.events.pop_front()
    }

    /// Returns whether nothing follows the output.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns whether it has nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.job.is_none() && self.queue.is_empty()
    }

    /// Returns whether the control connection is in TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Answers [`UserEvent::StartTls`]: TLS is on, or could not be made, which ends the session.
    pub fn tls_started(&mut self, is_on: bool, cx: &mut Cx<'_>) {
        if !core::mem::take(&mut self.awaits_tls) {
            return;
        }
        _ = self.replies.forget();
        if !is_on {
            return self.close(Some(Failure { step: Step::Tls, why: Why::Tls }), cx);
        }
        self.is_tls = true;
        self.advance(cx);
    }

    /// Says that there is a data connection, with `peer` at its other end. Returns whether it may
    /// be used; if not, the owner closes it and goes on listening.
    pub fn data_connected(&mut self, peer: SocketAddr, cx: &mut Cx<'_>) -> bool {
        if peer.ip().to_canonical() != self.peer.ip().to_canonical() {
            cx.meter.count(Counter::FtpDataPeersRefused);
            return false;
        }
        let Some(job) = self.job.as_mut().filter(|job| job.data == Data::Awaited) else {
            return false;
        };
        job.data = Data::Connected;
        match job.step {
            Step::DataConnect => self.advance(cx),
            Step::Command => self.await_begin(cx),
            _ => self.start_data(),
        }
        true
    }

    /// Says that no data connection came about.
    pub fn data_failed(&mut self, cx: &mut Cx<'_>) {
        match &self.job {
            Some(job) if job.step == Step::DataConnect => self.try_other_route(cx),
            Some(job) if job.data == Data::Awaited => self.data_is_lost(Why::NoDataConnection, cx),
            _ => {}
        }
    }

    /// Answers [`UserEvent::ListenData`] with the address that the server is to connect to.
    pub fn listening(&mut self, address: Option<SocketAddr>, cx: &mut Cx<'_>) {
        if self.job.as_ref().is_some_and(|job| job.step == Step::Listen) {
            match address {
                Some(address) => self.send_port(address, cx),
                None => self.fail(Why::NoDataConnection, cx),
            }
        }
    }

    /// Says how many bytes have moved on the data connection, so that nobody takes the transfer for
    /// stalled.
    pub fn data_moved(&mut self, id: TaskId, wire_bytes: u64, cx: &Cx<'_>) {
        let Some(job) = self.job.as_mut().filter(|job| job.id == Some(id)) else { return };
        if wire_bytes > job.wire_bytes {
            job.wire_bytes = wire_bytes;
            self.deadline = Some(cx.now + self.settings.stall_timeout);
        }
    }

    /// Says that the data has ended after `wire_bytes`, in order, or why not.
    pub fn data_ended(
        &mut self,
        id: TaskId,
        wire_bytes: u64,
        result: Result<(), DataFailure>,
        cx: &mut Cx<'_>,
    ) {
        let is_it = |job: &&mut Job| job.id == Some(id) && job.data == Data::Moving;
        let Some(job) = self.job.as_mut().filter(is_it) else { return };
        (job.wire_bytes, job.data) = (wire_bytes, Data::Ended);
        match result {
            Ok(()) => {
                self.deadline = Some(cx.now + self.settings.reply_timeout);
                self.ask_spare();
                self.finish_if_agreed(cx);
            }
            Err(failure) => self.data_is_lost(Why::Data(failure), cx),
        }
    }

    /// Aborts the task that runs, if it has data; others are over soon.
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        let Some(job) = self.job.as_mut() else { return };
        let is_data = matches!(job.step, Step::Command | Step::Data);
        if !is_data || job.is_aborting || job.task.is_incoming().is_none() {
            return;
        }
        let is_answered = job.last.is_some();
        job.is_aborting = true;
        job.step = if is_answered { Step::Resynchronize } else { Step::Abort };
        // RFC 959 §4.1.3: IP, then Synch, whose DM is urgent data.
        self.output.extend([IAC, IP, IAC, DM]);
        self.urgent_mark = Some(self.output.len());
        self.output.extend_from_slice(b"ABOR\r\n");
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        self.discard();
        if is_answered {
            self.resynchronize(cx);
        }
    }

    /// The server has closed the control connection, or it was reset.
    pub fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        let is_asked = self.job.as_ref().is_some_and(|job| job.task == Task::Quit);
        let step = self.job.as_ref().map_or(Step::Command, |job| job.step);
        let failure = Failure { step, why: Why::ControlLost };
        self.close((!is_asked).then_some(failure), cx);
    }

    /// Returns when [`Self::timeout`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.deadline.filter(|_| self.job.is_some() && !self.is_closed);
        let loose_end_at = self.loose_end_at.filter(|_| !self.is_closed);
        deadline.into_iter().chain(loose_end_at).min()
    }

    /// Time has passed.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.is_closed {
            return;
        }
        if self.loose_end_at.take_if(|at| *at <= cx.now).is_some() {
            return self.take_loose_end(cx);
        }
        if self.deadline.is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        self.deadline = None;
        let Some(job) = &mut self.job else { return };
        cx.meter.count(Counter::FtpTimeouts);
        let (step, route, is_ahead) = (job.step, job.route, job.is_ahead);
        match step {
            // Some leave out the reply that data begins.
            Step::Command if job.data == Data::Connected => {
                job.step = Step::Data;
                self.deadline = Some(cx.now + self.settings.stall_timeout);
                self.start_data();
            }
            Step::DataConnect => {
                self.events.push_back(UserEvent::CloseData);
                self.try_other_route(cx);
            }
            Step::Data if job.data != Data::Ended => self.data_is_lost(Why::Timeout, cx),
            // The second reply to ABOR is not sent by all.
            Step::Abort if job.last.is_some() => self.resynchronize(cx),
            // Without its reply nobody knows what the next one would belong to.
            _ => {
                self.learn_silence(step, route, is_ahead);
                // What failed before ABOR is the reason, and not that ABOR has no reply.
                let is_abort = matches!(step, Step::Abort | Step::Resynchronize);
                let failed = self.failed.take().filter(|_| is_abort);
                let failure = failed.unwrap_or(Failure { step, why: Why::Timeout });
                self.close(Some(failure), cx);
            }
        }
    }

    /// What was not answered is not asked again in the next session.
    fn learn_silence(&mut self, step: Step, route: Route, is_ahead: bool) {
        match step {
            Step::Passive | Step::Command if is_ahead => self.lessons.goes_in_step = true,
            Step::Spare => self.lessons.goes_in_step = true,
            Step::Features => self.lessons.avoids_features = true,
            Step::Names => self.lessons.avoids_names = true,
            Step::Passive | Step::Port => self.avoid(route),
            _ => {}
        }
    }

    /// Ends the session: the task that runs and those that wait fail.
    fn close(&mut self, failure: Option<Failure>, cx: &mut Cx<'_>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.deadline = None;
        let lost = Failure { step: Step::Command, why: Why::ControlLost };
        if let Some(job) = self.job.take() {
            if job.data != Data::None && !job.is_aborting {
                self.give_up_data(&job);
            }
            if let Some(id) = job.id {
                let result = match (&failure, job.last) {
                    (None, Some(reply)) => Ok(Done { reply, preliminary: None, wire_bytes: 0 }),
                    (None, None) => Err(lost.clone()),
                    (Some(failure), _) => Err(failure.clone()),
                };
                self.finished(id, result, job.task.is_incoming().is_some(), cx);
            }
        }
        while let Some((id, task)) = self.queue.pop_front() {
            self.finished(id, Err(lost.clone()), task.is_incoming().is_some(), cx);
        }
        self.events.push_back(UserEvent::Closed(failure));
    }

    fn finished(
        &mut self,
        id: TaskId,
        result: Result<Done, Failure>,
        has_data: bool,
        cx: &mut Cx<'_>,
    ) {
        if has_data {
            cx.meter.count(match result {
                Ok(_) => Counter::FtpTransfersComplete,
                Err(_) => Counter::FtpTransfersFailed,
            });
        }
        self.events.push_back(UserEvent::Finished(id, result));
    }

    /// Closes data, and says that the file is not good, if it had begun.
    fn give_up_data(&mut self, job: &Job) {
        self.events.push_back(UserEvent::CloseData);
        if let (Some(id), Data::Moving | Data::Ended) = (job.id, job.data) {
            self.events.push_back(UserEvent::Discard(id));
        }
    }

    fn discard(&mut self) {
        if let Some(mut job) = self.job.take() {
            self.give_up_data(&job);
            job.data = Data::None;
            self.job = Some(job);
        }
    }

    fn family(&self) -> Family {
        Family::of(self.peer.ip().to_canonical())
    }
}

impl Job {
    fn new(id: Option<TaskId>, task: Task) -> Self {
        Self {
            id,
            task,
            step: Step::Command,
            steps: VecDeque::new(),
            data: Data::None,
            route: Route::Epsv,
            preliminary: None,
            last: None,
            wire_bytes: 0,
            is_aborting: false,
            is_ahead: false,
            is_swallowing: false,
            is_mailed: false,
        }
    }
}
