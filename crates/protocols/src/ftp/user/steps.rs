//! The steps of a task: their order, the command that each step sends, and the effect of its reply.

use super::*;
use crate::ftp::address::{write_eprt, write_port};
use crate::ftp::name::Name;
use crate::ftp::reply::Severity;
use crate::ftp::representation::Representation;
use alloc::format;

impl User {
    /// Starts the next task if none is running.
    pub(super) fn next_job(&mut self, cx: &mut Cx<'_>) {
        if self.job.is_some() || !self.is_logged_in || self.is_closed {
            return;
        }
        let Some((id, task)) = self.queue.pop_front() else {
            self.deadline = None;
            return;
        };
        let mut job = Job::new(Some(id), task);
        job.steps = self.steps_of(&job.task);
        job.route = self.first_route();
        self.job = Some(job);
        if !self.use_spare_port(cx) {
            self.start_next_step(cx);
        }
    }

    fn steps_of(&self, task: &Task) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        let image = Representation::IMAGE;
        let (representation, offset, allocation) = match task {
            Task::Retrieve { representation, offset_bytes, .. } => {
                (*representation, *offset_bytes, None)
            }
            Task::Store { representation, offset_bytes, allocation_bytes, .. } => {
                (*representation, *offset_bytes, *allocation_bytes)
            }
            Task::MailFile(_) => (Representation::default(), 0, None),
            // RFC 1123 §4.1.2.7: the type of a listing is implied, but its mode and structure are
            // not.
            Task::List(..) => {
                (Representation { data_type: self.sent_representation.data_type, ..image }, 0, None)
            }
            Task::Size(_) | Task::Hash(_) => {
                if self.sent_representation.data_type != Type::Image {
                    steps.push_back(Step::Type);
                }
                steps.push_back(Step::Command);
                return steps;
            }
            Task::Rename { .. } => {
                steps.extend([Step::RenameFrom, Step::Command]);
                return steps;
            }
            _ => {
                steps.push_back(Step::Command);
                return steps;
            }
        };
        let sent_representation = self.sent_representation;
        let parameter_steps = [
            (Step::Type, sent_representation.data_type != representation.data_type),
            (Step::Mode, sent_representation.mode != representation.mode),
            (Step::Structure, sent_representation.structure != representation.structure),
        ];
        steps.extend(parameter_steps.iter().filter(|(_, is_new)| *is_new).map(|(step, _)| *step));
        if allocation.is_some() {
            steps.push_back(Step::Allocate);
        }
        match self.first_route() {
            Route::Epsv | Route::Pasv => {
                if self.quirks.needs_pret {
                    steps.push_back(Step::Announce);
                }
                steps.push_back(Step::Passive);
            }
            Route::Eprt | Route::Port => steps.push_back(Step::Listen),
        }
        if offset > 0 {
            steps.push_back(Step::Restart);
        }
        steps.push_back(Step::Command);
        steps
    }

    fn first_route(&self) -> Route {
        let is_v4 = self.address_family() == Family::Ipv4;
        let quirks = &self.quirks;
        let active_route = if is_v4 && quirks.avoids_eprt { Route::Port } else { Route::Eprt };
        match self.settings.data_style {
            DataStyle::Active => active_route,
            DataStyle::PassiveOnly4 if is_v4 => Route::Pasv,
            _ if is_v4 && quirks.avoids_epsv && !quirks.avoids_pasv => Route::Pasv,
            _ if quirks.avoids_epsv && self.settings.may_listen => active_route,
            _ => Route::Epsv,
        }
    }

    /// Records that a data connection could not be opened by `route`, so that this route is not
    /// tried again. When no route is left, all routes become available again.
    pub(super) fn avoid_route(&mut self, route: Route) {
        let quirks = &mut self.quirks;
        match route {
            Route::Epsv => quirks.avoids_epsv = true,
            Route::Pasv => quirks.avoids_pasv = true,
            Route::Eprt => quirks.avoids_eprt = true,
            Route::Port => {
                quirks.avoids_epsv = false;
                quirks.avoids_pasv = false;
                quirks.avoids_eprt = false;
            }
        }
    }

    /// Starts the next step of the current task.
    pub(super) fn start_next_step(&mut self, cx: &mut Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        let Some(step) = job.steps.pop_front() else {
            if job.id.is_none() {
                self.job = None;
                self.is_logged_in = true;
                self.events.push_back(UserEvent::LoggedIn);
                self.next_job(cx);
            }
            return;
        };
        job.step = step;
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        match step {
            Step::Listen => {
                // No timeout applies while the owner processes a request.
                self.deadline = None;
                let family = Family::from_address(self.local.ip().to_canonical());
                self.events.push_back(UserEvent::ListenData(family));
            }
            Step::Tls => {
                self.deadline = None;
                self.awaits_tls = true;
                self.events.push_back(UserEvent::StartTls);
            }
            Step::Command => {
                let is_connected = job.data == DataState::Connected;
                self.send_task("");
                if is_connected {
                    self.await_preliminary_reply(cx);
                }
            }
            Step::Announce => self.send_task("PRET "),
            Step::Allocate => {
                // Few servers act on ALLO, so the engine does not wait for its reply.
                self.send_step(step);
                self.unanswered_allocations += 1;
                self.start_next_step(cx);
            }
            Step::Passive => self.begin_passive(cx),
            _ => self.send_step(step),
        }
    }

    /// Waits for the preliminary reply. The data connection may not be established yet.
    pub(super) fn await_preliminary_reply(&mut self, cx: &Cx<'_>) {
        let settings = &self.settings;
        self.deadline = Some(cx.now + settings.data_connect_timeout.min(settings.reply_timeout));
    }

    pub(super) fn send_step(&mut self, step: Step) {
        let Some(job) = &self.job else { return };
        let representation = match &job.task {
            Task::Retrieve { representation, .. } | Task::Store { representation, .. } => {
                *representation
            }
            Task::MailFile(_) => Representation::default(),
            _ => Representation::IMAGE,
        };
        let text = match step {
            Step::Auth => "AUTH TLS".into(),
            Step::ProtectionSize => "PBSZ 0".into(),
            Step::Protection if self.settings.protects_data => "PROT P".into(),
            Step::Protection => "PROT C".into(),
            Step::Features => "FEAT".into(),
            Step::Names => "OPTS UTF8 ON".into(),
            Step::Type => format!("TYPE {}", representation.data_type),
            Step::Mode => format!("MODE {}", representation.mode),
            Step::Structure => format!("STRU {}", representation.structure),
            Step::Passive if job.route == Route::Pasv => "PASV".into(),
            Step::Passive => "EPSV".into(),
            Step::Restart => {
                let (Task::Retrieve { offset_bytes, .. } | Task::Store { offset_bytes, .. }) =
                    &job.task
                else {
                    return;
                };
                format!("REST {offset_bytes}")
            }
            Step::Allocate => {
                let Task::Store { allocation_bytes: Some(bytes), .. } = &job.task else { return };
                format!("ALLO {bytes}")
            }
            _ => return self.send_login_step(step),
        };
        self.send(text.as_bytes(), &[]);
    }

    fn send_login_step(&mut self, step: Step) {
        let settings = &self.settings;
        let (verb, argument): (&[u8], Vec<u8>) = match step {
            Step::Host => {
                let host = settings.host.as_ref().map(Name::as_bytes).unwrap_or_default();
                (b"HOST ", host.to_vec())
            }
            Step::User => (b"USER ", settings.user.as_bytes().to_vec()),
            Step::Password => (b"PASS ", settings.password.as_bytes().to_vec()),
            Step::Account => {
                let account = settings.account.as_ref().map(|account| account.as_bytes());
                (b"ACCT ", account.unwrap_or_default().to_vec())
            }
            Step::RenameFrom => {
                let Some(Job { task: Task::Rename { from, .. }, .. }) = &self.job else { return };
                (b"RNFR ", from.as_bytes().to_vec())
            }
            _ => return,
        };
        self.send(verb, &argument);
    }

    /// Sends the command of a task. `before` is text in front of the command: empty, or `PRET`,
    /// which announces the command.
    pub(super) fn send_task(&mut self, before: &str) {
        let Some(job) = &self.job else { return };
        let bytes = |name: &Option<Name>| {
            name.as_ref().map(|name| name.as_bytes().to_vec()).unwrap_or_default()
        };
        let (verb, argument): (&str, Vec<u8>) = match &job.task {
            Task::Retrieve { name, .. } => ("RETR", name.as_bytes().to_vec()),
            Task::Store { name, kind, .. } => match kind {
                StoreKind::Replace => ("STOR", bytes(name)),
                StoreKind::Append => ("APPE", bytes(name)),
                StoreKind::Unique => ("STOU", bytes(name)),
            },
            Task::List(ListKind::Long, name) => ("LIST", bytes(name)),
            Task::List(ListKind::LongWithHidden, name) => {
                let space: &[u8] = if name.is_some() { b" " } else { b"" };
                ("LIST", [b"-a", space, &bytes(name)].concat())
            }
            Task::List(ListKind::Names, name) => ("NLST", bytes(name)),
            Task::List(ListKind::Facts, name) => ("MLSD", bytes(name)),
            Task::MailFile(user) => ("MLFL", bytes(user)),
            Task::Mail(user, _) => ("MAIL", bytes(user)),
            Task::ChangeDirectory(name) => ("CWD", name.as_bytes().to_vec()),
            Task::Parent => ("CDUP", Vec::new()),
            Task::WorkingDirectory => ("PWD", Vec::new()),
            Task::MakeDirectory(name) => ("MKD", name.as_bytes().to_vec()),
            Task::RemoveDirectory(name) => ("RMD", name.as_bytes().to_vec()),
            Task::Delete(name) => ("DELE", name.as_bytes().to_vec()),
            Task::Rename { to, .. } => ("RNTO", to.as_bytes().to_vec()),
            Task::Size(name) => ("SIZE", name.as_bytes().to_vec()),
            Task::Modified(name) => ("MDTM", name.as_bytes().to_vec()),
            Task::Facts(name) => ("MLST", name.as_bytes().to_vec()),
            Task::SetModified(time, name) => {
                ("MFMT", [time.to_text().as_bytes(), b" ", name.as_bytes()].concat())
            }
            Task::ChangeMode(mode, name) => {
                let mode = format!("CHMOD {mode:o} ");
                ("SITE", [mode.as_bytes(), name.as_bytes()].concat())
            }
            Task::Hash(name) => ("HASH", name.as_bytes().to_vec()),
            Task::Features => ("FEAT", Vec::new()),
            Task::Status(name) => ("STAT", bytes(name)),
            Task::System => ("SYST", Vec::new()),
            Task::Noop => ("NOOP", Vec::new()),
            Task::Quote(line) => {
                let line = line.clone();
                return self.send(line.as_bytes(), &[]);
            }
            Task::Quit => ("QUIT", Vec::new()),
        };
        let space: &[u8] = if argument.is_empty() { b"" } else { b" " };
        self.send(&[before.as_bytes(), verb.as_bytes(), space].concat(), &argument);
    }

    /// Appends one command to the output. A name cannot end the command line, since it contains
    /// neither CR nor LF.
    fn send(&mut self, verb: &[u8], argument: &[u8]) {
        for &byte in verb.iter().chain(argument) {
            self.output.push(byte);
            // RFC 1123 §4.1.2.12: a user sends no Telnet commands, so 255 is data and is doubled.
            if byte == IAC {
                self.output.push(IAC);
            }
        }
        self.output.extend_from_slice(b"\r\n");
    }

    pub(super) fn send_port(&mut self, address: SocketAddr, cx: &Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        let port = write_port(address).filter(|_| job.route == Route::Port);
        let text = match port {
            Some(port) => format!("PORT {port}"),
            None => format!("EPRT {}", write_eprt(address)),
        };
        // If EPRT is refused, PORT follows.
        job.step = Step::Port;
        job.data = DataState::Awaited;
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        self.send(text.as_bytes(), &[]);
    }

    /// Processes a reply as the result of the current step.
    pub(super) fn take_reply(&mut self, reply: Reply, cx: &mut Cx<'_>) {
        self.events.push_back(UserEvent::Reply(reply.clone()));
        if self.unanswered_allocations > 0 && reply.code.number() != 421 {
            self.unanswered_allocations -= 1;
            return;
        }
        let Some(job) = &mut self.job else {
            if self.spare_port == SparePort::Requested {
                return self.on_spare_port_reply(&reply);
            }
            // The reply is unsolicited. A 421 reply is followed by the end of the session.
            cx.meter.count(Counter::FtpRepliesWrong);
            return;
        };
        let step = job.step;
        let severity = reply.severity();
        if reply.code.number() == 421 {
            // RFC 959 §4.2: 421 may answer any command, and ends the session.
            return self.close(Some(Failure { step, why: FailureReason::Refused(reply) }), cx);
        }
        if severity == Severity::Preliminary && !matches!(step, Step::Command | Step::Data) {
            // RFC 959 §5.4: these replies, such as 120 before the greeting, only ask the user to
            // wait.
            return;
        }
        match step {
            Step::Abort | Step::Resynchronize => self.on_abort_reply(reply, cx),
            Step::Command if job.task.is_incoming().is_some() => self.transfer_reply(reply, cx),
            Step::Data => self.transfer_reply(reply, cx),
            Step::Command if job.id.is_some() => self.task_reply(reply, cx),
            Step::Passive => self.passive_reply(&reply, cx),
            Step::Spare => {
                self.on_spare_port_reply(&reply);
                self.start_next_step(cx);
            }
            Step::Port => self.port_reply(reply, cx),
            Step::Tls | Step::Listen | Step::DataConnect => {
                // The server has no command to reply to.
                cx.meter.count(Counter::FtpRepliesWrong);
            }
            Step::Type | Step::Mode | Step::Structure => self.parameter_reply(step, reply, cx),
            // If PRET is refused, the server does not need it.
            Step::Announce => self.start_next_step(cx),
            Step::Restart | Step::RenameFrom => match severity {
                Severity::Intermediate => self.start_next_step(cx),
                _ => self.fail(FailureReason::Refused(reply), cx),
            },
            _ => self.login_reply(step, reply, cx),
        }
    }

    fn login_reply(&mut self, step: Step, reply: Reply, cx: &mut Cx<'_>) {
        let severity = reply.severity();
        let settings = &self.settings;
        let is_positive = severity == Severity::Completion;
        let next_steps: &[Step] = match (step, severity) {
            (Step::Greeting, Severity::Completion) => match settings.tls {
                TlsUse::IfOffered | TlsUse::Required => &[Step::Auth],
                TlsUse::Implicit if self.quirks.needs_login_before_prot => &[Step::Host],
                TlsUse::Implicit => &[Step::ProtectionSize],
                TlsUse::Never => &[Step::Host],
            },
            // 334 is for mechanisms with further exchanges (RFC 2228 §3); TLS begins at 234.
            (Step::Auth, _) if reply.code.number() == 234 => {
                match self.quirks.needs_login_before_prot {
                    true => &[Step::Tls, Step::Host],
                    false => &[Step::Tls, Step::ProtectionSize],
                }
            }
            (Step::Auth, _) if settings.tls == TlsUse::IfOffered => &[Step::Host],
            (Step::ProtectionSize, _) if is_positive => &[Step::Protection],
            (Step::Protection, _) if is_positive => {
                if settings.protects_data {
                    self.protection = Protection::Private;
                }
                if self.is_login_accepted { self.steps_after_login() } else { &[Step::Host] }
            }
            // Some servers require the login first (RFC 4217 §9 leaves the order open).
            (Step::ProtectionSize | Step::Protection, Severity::PermanentNegative)
                if !self.is_login_accepted && matches!(reply.code.number(), 503 | 530) =>
            {
                self.quirks.needs_login_before_prot = true;
                &[Step::Host]
            }
            // Without PBSZ and PROT data is sent in plaintext. The settings must allow this.
            (Step::ProtectionSize | Step::Protection, _)
                if settings.tls == TlsUse::IfOffered || !settings.protects_data =>
            {
                if self.is_login_accepted { self.steps_after_login() } else { &[Step::Host] }
            }
            (Step::Host, _) => &[Step::User],
            (Step::User, Severity::Intermediate) if reply.code.number() == 332 => &[Step::Account],
            (Step::User, Severity::Intermediate) => &[Step::Password],
            (Step::Password, Severity::Intermediate) if settings.account.is_some() => {
                &[Step::Account]
            }
            (Step::User | Step::Password | Step::Account, Severity::Completion) => {
                self.is_login_accepted = true;
                let must_protect_now = self.is_tls && self.quirks.needs_login_before_prot;
                if must_protect_now { &[Step::ProtectionSize] } else { self.steps_after_login() }
            }
            (Step::Features, _) => self.learn_features(&Features::from_reply(&reply)),
            (Step::Names, _) => &[],
            _ => return self.close(Some(Failure { step, why: FailureReason::Refused(reply) }), cx),
        };
        let has_no_host = self.settings.host.is_none();
        if let Some(job) = &mut self.job {
            for step in next_steps.iter().rev() {
                job.steps.push_front(if *step == Step::Host && has_no_host {
                    Step::User
                } else {
                    *step
                });
            }
        }
        self.start_next_step(cx);
    }

    fn steps_after_login(&self) -> &'static [Step] {
        let sends_feat = self.settings.asks_features && !self.quirks.avoids_feat;
        if sends_feat { &[Step::Features] } else { &[] }
    }

    fn learn_features(&mut self, features: &Features) -> &'static [Step] {
        self.quirks.needs_pret |= features.has("PRET");
        let enables_utf8 = features.has("UTF8") && !self.quirks.avoids_opts_utf8;
        if enables_utf8 { &[Step::Names] } else { &[] }
    }

    fn parameter_reply(&mut self, step: Step, reply: Reply, cx: &mut Cx<'_>) {
        if reply.severity() != Severity::Completion {
            return self.fail(FailureReason::Refused(reply), cx);
        }
        let representation = match self.job.as_ref().map(|job| &job.task) {
            Some(Task::Retrieve { representation, .. } | Task::Store { representation, .. }) => {
                *representation
            }
            Some(Task::MailFile(_)) => Representation::default(),
            _ => Representation::IMAGE,
        };
        match step {
            Step::Type => self.sent_representation.data_type = representation.data_type,
            Step::Mode => self.sent_representation.mode = representation.mode,
            _ => self.sent_representation.structure = representation.structure,
        }
        self.start_next_step(cx);
    }

    fn port_reply(&mut self, reply: Reply, cx: &mut Cx<'_>) {
        match reply.severity() {
            Severity::Completion => self.start_next_step(cx),
            _ if self.job.as_ref().is_some_and(|job| job.route == Route::Eprt) => {
                self.try_other_route(cx);
            }
            _ => {
                self.events.push_back(UserEvent::CloseData);
                self.fail(FailureReason::Refused(reply), cx);
            }
        }
    }

    /// Tries the next route after the current one could not open a data connection.
    pub(super) fn try_other_route(&mut self, cx: &mut Cx<'_>) {
        let is_v4 = self.address_family() == Family::Ipv4;
        let Some(route) = self.job.as_ref().map(|job| job.route) else { return };
        self.avoid_route(route);
        let Some(job) = &mut self.job else { return };
        job.data = DataState::None;
        let may_listen = self.settings.may_listen;
        let (route, step) = match route {
            Route::Epsv if is_v4 && !self.quirks.avoids_pasv => (Route::Pasv, Step::Passive),
            Route::Epsv | Route::Pasv if may_listen => (Route::Eprt, Step::Listen),
            Route::Eprt if is_v4 => (Route::Port, Step::Listen),
            Route::Epsv | Route::Pasv | Route::Eprt | Route::Port => {
                // All routes have failed, so the next attempt may use any of them again.
                self.avoid_route(Route::Port);
                return self.fail(FailureReason::NoDataConnection, cx);
            }
        };
        job.route = route;
        job.steps.push_front(step);
        self.start_next_step(cx);
    }
}
