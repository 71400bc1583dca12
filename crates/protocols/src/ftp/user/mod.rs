//! The user's protocol interpreter: it runs tasks one at a time, sends their commands and reports
//! the result of each.
//!
//! A task is a list of steps. Each step is one command and its reply, or one request to the owner:
//!
//! ```text
//! login   greeting (AUTH TLS PBSZ PROT) (HOST) USER PASS (ACCT) (FEAT OPTS)
//! file    (TYPE MODE STRU) (ALLO) EPSV connect (REST) RETR ── data ── last reply
//! ```
//!
//! Parameters that the server already has are not sent again. If EPSV is refused or its port does
//! not answer, PASV follows at once. If PASV fails too and listening is allowed, EPRT or PORT
//! follows. Refused commands are not tried again in this session. The address in a reply to PASV is
//! never used: the data connection goes to the host of the control connection.
//!
//! A transfer succeeds if the last reply is positive, the owner has reported that the data ended
//! with an orderly close, and at least the announced number of bytes arrived. The reply and the end
//! of the data may arrive in either order. Any other result is a [`Failure`] with the step at which
//! it occurred. The owner decides whether to retry.
//!
//! Only the first digit of a reply counts (RFC 1123 §4.1.2.11), except for 234 before TLS. Input
//! that was read after the reply to AUTH is discarded. ABOR is sent with Interrupt Process and
//! Synch (RFC 959 §4.1.3). Since servers disagree on the number of replies that follow, a NOOP
//! resynchronizes the session.

mod ahead;
mod replies;
mod steps;
mod task;

pub use replies::Features;
pub use task::{
    DataFailure, DataStyle, Done, Failure, FailureReason, ListKind, ServerQuirks, Step, StoreKind,
    Task, TaskId, TlsUse, UserEvent, UserSettings,
};

use super::address::Family;
use super::command::Protection;
use super::line::{DM, IAC, IP};
use super::reply::{Reply, ReplyError, ReplyReader};
use super::representation::{Mode, Structure, Type};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};

/// Maximum number of queued tasks (our choice).
pub const TASKS_MAX: usize = 1024;
/// Maximum time to wait for a second reply to ABOR (our choice).
const ABORT_GRACE: Duration = Duration::from_secs(2);
/// Maximum time to wait for more lines of a multiline reply, after a line that looks like the end
/// of the reply but has another code (our choice).
const MISMATCHED_END_GRACE: Duration = Duration::from_secs(2);

/// One session of an FTP user.
#[derive(Debug)]
pub struct User {
    settings: UserSettings,
    /// Local address of the control connection.
    local: SocketAddr,
    peer: SocketAddr,
    replies: ReplyReader,
    output: Vec<u8>,
    urgent_mark: Option<usize>,
    events: VecDeque<UserEvent>,
    queue: VecDeque<(TaskId, Task)>,
    next_task: u64,
    /// The current task. Until the login is complete, this is the login.
    job: Option<Job>,
    is_logged_in: bool,
    is_closed: bool,
    awaits_tls: bool,
    is_tls: bool,
    protection: Protection,
    /// Transfer parameters that the server has accepted.
    sent_representation: SentRepresentation,
    /// Commands that the server refused or that did not work.
    quirks: ServerQuirks,
    /// Passive command by which data has been transferred in this session: EPSV or PASV.
    working_route: Option<Route>,
    spare_port: SparePort,
    /// Number of ALLO commands whose replies are outstanding. These replies precede all other
    /// outstanding replies.
    unanswered_allocations: u32,
    expects_transfer: bool,
    /// Whether the login was accepted, even if further login steps follow.
    is_login_accepted: bool,
    deadline: Option<Instant>,
    /// Time at which a multiline reply is considered complete although its last line has another
    /// code.
    mismatched_end_at: Option<Instant>,
    /// Reason why the data of the current transfer failed. The last reply to the transfer is still
    /// outstanding.
    data_failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SentRepresentation {
    data_type: Type,
    mode: Mode,
    structure: Structure,
}

/// The task in progress.
#[derive(Debug)]
struct Job {
    id: Option<TaskId>,
    task: Task,
    step: Step,
    steps: VecDeque<Step>,
    data: DataState,
    /// Command by which this job currently tries to open its data connection.
    route: Route,
    preliminary: Option<Reply>,
    last_reply: Option<Reply>,
    wire_bytes: u64,
    /// Whether replies may still be outstanding after ABOR.
    is_aborting: bool,
    /// Whether the command of the task was sent before the reply to EPSV or PASV.
    is_pipelined: bool,
    /// Whether EPSV or PASV was refused after the command of the task was sent, so that the reply
    /// to that command must be ignored.
    ignores_command_reply: bool,
    /// Whether the text of a mail was sent after the MAIL command.
    has_sent_mail: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DataState {
    /// There is no data connection, or it is not requested yet.
    None,
    /// The owner is listening or connecting.
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

/// A passive port that is requested for the next transfer before that transfer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SparePort {
    #[default]
    None,
    /// The port was requested; the next reply that belongs to no other command contains it.
    Requested,
    /// The server listens on this port.
    Port(u16),
}

impl User {
    /// Creates a session on the control connection between `local` and `peer`; implicit TLS must
    /// already be established.
    #[must_use]
    pub fn new(settings: UserSettings, local: SocketAddr, peer: SocketAddr, cx: &Cx<'_>) -> Self {
        let is_tls = settings.tls == TlsUse::Implicit;
        let deadline = Some(cx.now + settings.reply_timeout);
        let quirks = settings.quirks;
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
            sent_representation: SentRepresentation::default(),
            quirks,
            working_route: None,
            spare_port: SparePort::None,
            unanswered_allocations: 0,
            expects_transfer: false,
            is_login_accepted: false,
            deadline,
            mismatched_end_at: None,
            data_failure: None,
        }
    }

    /// Enqueues a task. Returns `None` if too many tasks are queued or the session has ended.
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

    /// Processes input from the control connection.
    pub fn receive(&mut self, mut input: &[u8], cx: &mut Cx<'_>) {
        while !self.is_closed {
            if self.awaits_tls {
                // Input that arrives between AUTH and TLS may have been injected by an attacker.
                let dropped_bytes = input.len() + self.replies.discard_incomplete();
                cx.meter.add(Counter::FtpBytesBeforeTls, dropped_bytes as u64);
                return;
            }
            match self.replies.next(&mut input, cx) {
                Ok(Some(reply)) => self.take_reply(reply, cx),
                Ok(None) => {
                    self.handle_mismatched_end(cx);
                    break;
                }
                Err(error) => {
                    let step = self.job.as_ref().map_or(Step::Command, |job| job.step);
                    let why = match error {
                        ReplyError::Malformed => {
                            FailureReason::NotReply(self.replies.take_rejected())
                        }
                        ReplyError::TooLong => FailureReason::Malformed,
                    };
                    self.close(Some(Failure { step, why }), cx);
                }
            }
        }
        let answers = self.replies.take_answers();
        self.output.extend(answers);
    }

    /// Handles servers that end a multiline reply with another code than the code of its first
    /// line. A line that looks like such an end is accepted as the end if no further input follows.
    fn handle_mismatched_end(&mut self, cx: &mut Cx<'_>) {
        self.mismatched_end_at = None;
        if !self.replies.ends_with_other_code() {
            return;
        }
        if self.quirks.has_mismatched_reply_codes {
            return self.accept_mismatched_end(cx);
        }
        self.mismatched_end_at = Some(cx.now + MISMATCHED_END_GRACE);
    }

    fn accept_mismatched_end(&mut self, cx: &mut Cx<'_>) {
        self.quirks.has_mismatched_reply_codes = true;
        cx.meter.count(Counter::FtpRepliesWrong);
        if let Some(reply) = self.replies.take_with_other_code() {
            self.take_reply(reply, cx);
        }
    }

    /// Returns the quirks that the session has detected in the server.
    #[must_use]
    pub fn quirks(&self) -> ServerQuirks {
        self.quirks
    }

    /// Returns the bytes that are queued for the control connection.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Returns how many bytes from the start of the output are to be sent as urgent data.
    #[must_use]
    pub fn urgent_mark(&self) -> Option<usize> {
        self.urgent_mark
    }

    /// Removes `count` bytes that the transport has accepted from the start of the output.
    pub fn sent(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        self.urgent_mark = self.urgent_mark.and_then(|mark| mark.checked_sub(count));
        self.urgent_mark = self.urgent_mark.filter(|mark| *mark > 0);
    }

    /// Returns the next request or notification for the owner; call until `None`.
    pub fn event(&mut self) -> Option<UserEvent> {
        self.events.pop_front()
    }

    /// Returns whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns whether no task is running or queued.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.job.is_none() && self.queue.is_empty()
    }

    /// Returns whether the control connection uses TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Continues the session with the owner's answer to [`UserEvent::StartTls`]. `is_on` is whether
    /// TLS is established; if it is not, the session ends.
    pub fn tls_started(&mut self, is_on: bool, cx: &mut Cx<'_>) {
        if !core::mem::take(&mut self.awaits_tls) {
            return;
        }
        _ = self.replies.discard_incomplete();
        if !is_on {
            return self.close(Some(Failure { step: Step::Tls, why: FailureReason::Tls }), cx);
        }
        self.is_tls = true;
        self.start_next_step(cx);
    }

    /// Reports that a data connection to or from `peer` is established. Returns whether the
    /// connection may be used. If not, the owner closes it and continues to listen.
    pub fn data_connected(&mut self, peer: SocketAddr, cx: &mut Cx<'_>) -> bool {
        if peer.ip().to_canonical() != self.peer.ip().to_canonical() {
            cx.meter.count(Counter::FtpDataPeersRefused);
            return false;
        }
        let Some(job) = self.job.as_mut().filter(|job| job.data == DataState::Awaited) else {
            return false;
        };
        job.data = DataState::Connected;
        match job.step {
            Step::DataConnect => self.start_next_step(cx),
            Step::Command => self.await_preliminary_reply(cx),
            _ => self.start_data(),
        }
        true
    }

    /// Reports that no data connection could be established.
    pub fn data_failed(&mut self, cx: &mut Cx<'_>) {
        match &self.job {
            Some(job) if job.step == Step::DataConnect => self.try_other_route(cx),
            Some(job) if job.data == DataState::Awaited => {
                self.fail_data(FailureReason::NoDataConnection, cx);
            }
            _ => {}
        }
    }

    /// Continues the task with the owner's answer to [`UserEvent::ListenData`]: the address to
    /// which the server must connect, or `None` if the owner cannot listen.
    pub fn on_listening(&mut self, address: Option<SocketAddr>, cx: &mut Cx<'_>) {
        if self.job.as_ref().is_some_and(|job| job.step == Step::Listen) {
            match address {
                Some(address) => self.send_port(address, cx),
                None => self.fail(FailureReason::NoDataConnection, cx),
            }
        }
    }

    /// Reports the number of bytes transferred on the data connection so far, for the stall
    /// timeout.
    pub fn data_moved(&mut self, id: TaskId, wire_bytes: u64, cx: &Cx<'_>) {
        let Some(job) = self.job.as_mut().filter(|job| job.id == Some(id)) else { return };
        if wire_bytes > job.wire_bytes {
            job.wire_bytes = wire_bytes;
            self.deadline = Some(cx.now + self.settings.stall_timeout);
        }
    }

    /// Reports that the data has ended with an orderly close after `wire_bytes`, or the error that
    /// ended the data.
    pub fn data_ended(
        &mut self,
        id: TaskId,
        wire_bytes: u64,
        result: Result<(), DataFailure>,
        cx: &mut Cx<'_>,
    ) {
        let is_transferring = |job: &&mut Job| job.id == Some(id) && job.data == DataState::Moving;
        let Some(job) = self.job.as_mut().filter(is_transferring) else { return };
        job.wire_bytes = wire_bytes;
        job.data = DataState::Ended;
        match result {
            Ok(()) => {
                self.deadline = Some(cx.now + self.settings.reply_timeout);
                self.request_spare_port();
                self.finish_if_complete(cx);
            }
            Err(failure) => self.fail_data(FailureReason::Data(failure), cx),
        }
    }

    /// Aborts the current task if it transfers data; other tasks end soon anyway.
    pub fn abort(&mut self, cx: &mut Cx<'_>) {
        let Some(job) = self.job.as_mut() else { return };
        let is_data = matches!(job.step, Step::Command | Step::Data);
        if !is_data || job.is_aborting || job.task.is_incoming().is_none() {
            return;
        }
        let has_last_reply = job.last_reply.is_some();
        job.is_aborting = true;
        job.step = if has_last_reply { Step::Resynchronize } else { Step::Abort };
        // RFC 959 §4.1.3: IP, then Synch, whose DM is urgent data.
        self.output.extend([IAC, IP, IAC, DM]);
        self.urgent_mark = Some(self.output.len());
        self.output.extend_from_slice(b"ABOR\r\n");
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        self.discard();
        if has_last_reply {
            self.resynchronize(cx);
        }
    }

    /// Reports that the control connection was reset, or closed by the server.
    pub fn peer_closed(&mut self, cx: &mut Cx<'_>) {
        let is_quitting = self.job.as_ref().is_some_and(|job| job.task == Task::Quit);
        let step = self.job.as_ref().map_or(Step::Command, |job| job.step);
        let failure = Failure { step, why: FailureReason::ControlLost };
        self.close((!is_quitting).then_some(failure), cx);
    }

    /// Returns when [`Self::timeout`] is to be called.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let deadline = self.deadline.filter(|_| self.job.is_some() && !self.is_closed);
        let mismatched_end_at = self.mismatched_end_at.filter(|_| !self.is_closed);
        deadline.into_iter().chain(mismatched_end_at).min()
    }

    /// Handles expired timers.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.is_closed {
            return;
        }
        if self.mismatched_end_at.take_if(|at| *at <= cx.now).is_some() {
            return self.accept_mismatched_end(cx);
        }
        if self.deadline.is_none_or(|deadline| cx.now < deadline) {
            return;
        }
        self.deadline = None;
        let Some(job) = &mut self.job else { return };
        cx.meter.count(Counter::FtpTimeouts);
        let step = job.step;
        let route = job.route;
        let is_pipelined = job.is_pipelined;
        match step {
            // Some servers omit the preliminary reply.
            Step::Command if job.data == DataState::Connected => {
                job.step = Step::Data;
                self.deadline = Some(cx.now + self.settings.stall_timeout);
                self.start_data();
            }
            Step::DataConnect => {
                self.events.push_back(UserEvent::CloseData);
                self.try_other_route(cx);
            }
            Step::Data if job.data != DataState::Ended => {
                self.fail_data(FailureReason::Timeout, cx);
            }
            // Some servers do not send a second reply to ABOR.
            Step::Abort if job.last_reply.is_some() => self.resynchronize(cx),
            // Without the reply to this command, later replies could not be matched to commands.
            _ => {
                self.record_unanswered_command(step, route, is_pipelined);
                // The failure that led to ABOR is reported, not the missing reply to ABOR.
                let is_abort = matches!(step, Step::Abort | Step::Resynchronize);
                let data_failure = self.data_failure.take().filter(|_| is_abort);
                let failure = data_failure.unwrap_or(Failure { step, why: FailureReason::Timeout });
                self.close(Some(failure), cx);
            }
        }
    }

    /// Records a command that got no reply, so that the next session does not send it.
    fn record_unanswered_command(&mut self, step: Step, route: Route, is_pipelined: bool) {
        match step {
            Step::Passive | Step::Command if is_pipelined => self.quirks.avoids_pipelining = true,
            Step::Spare => self.quirks.avoids_pipelining = true,
            Step::Features => self.quirks.avoids_feat = true,
            Step::Names => self.quirks.avoids_opts_utf8 = true,
            Step::Passive | Step::Port => self.avoid_route(route),
            _ => {}
        }
    }

    /// Ends the session: the current and all queued tasks fail.
    fn close(&mut self, failure: Option<Failure>, cx: &mut Cx<'_>) {
        if self.is_closed {
            return;
        }
        self.is_closed = true;
        self.deadline = None;
        let control_lost = Failure { step: Step::Command, why: FailureReason::ControlLost };
        if let Some(job) = self.job.take() {
            if job.data != DataState::None && !job.is_aborting {
                self.close_data(&job);
            }
            if let Some(id) = job.id {
                let result = match (&failure, job.last_reply) {
                    (None, Some(reply)) => Ok(Done { reply, preliminary: None, wire_bytes: 0 }),
                    (None, None) => Err(control_lost.clone()),
                    (Some(failure), _) => Err(failure.clone()),
                };
                self.report_finished(id, result, job.task.is_incoming().is_some(), cx);
            }
        }
        while let Some((id, task)) = self.queue.pop_front() {
            self.report_finished(id, Err(control_lost.clone()), task.is_incoming().is_some(), cx);
        }
        self.events.push_back(UserEvent::Closed(failure));
    }

    fn report_finished(
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

    /// Closes the data connection, and discards the file if the transfer had started.
    fn close_data(&mut self, job: &Job) {
        self.events.push_back(UserEvent::CloseData);
        if let (Some(id), DataState::Moving | DataState::Ended) = (job.id, job.data) {
            self.events.push_back(UserEvent::Discard(id));
        }
    }

    fn discard(&mut self) {
        if let Some(mut job) = self.job.take() {
            self.close_data(&job);
            job.data = DataState::None;
            self.job = Some(job);
        }
    }

    fn address_family(&self) -> Family {
        Family::from_address(self.peer.ip().to_canonical())
    }
}

impl Job {
    fn new(id: Option<TaskId>, task: Task) -> Self {
        Self {
            id,
            task,
            step: Step::Command,
            steps: VecDeque::new(),
            data: DataState::None,
            route: Route::Epsv,
            preliminary: None,
            last_reply: None,
            wire_bytes: 0,
            is_aborting: false,
            is_pipelined: false,
            ignores_command_reply: false,
            has_sent_mail: false,
        }
    }
}
