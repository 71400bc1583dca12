//! Pipelining: commands that are sent before the reply to the previous one.
//!
//! Without pipelining, a small file costs one round trip per command. Once a session has received
//! data by EPSV or PASV, the engine sends the command of the next file together with EPSV. If the
//! owner announces another file, the engine sends EPSV when the data of the current file has ended,
//! before the last reply of that file. If the last reply has already arrived, EPSV is sent together
//! with the command of the next file:
//!
//! ```text
//! RETR a  ──►
//!         ◄──  150, data, its end
//! EPSV    ──►                          a port in advance
//!         ◄──  226, 229
//! connect, RETR b  ──►
//! ```
//!
//! A server processes commands in their order, and most servers ignore the arrival times of
//! commands. A server that does not tolerate pipelining is detected by its unexpected replies
//! ([`ServerQuirks::avoids_pipelining`](super::ServerQuirks)), at the cost of one attempt. Nothing
//! is sent before an upload's last reply, since some servers process commands during an upload.

use super::*;
use crate::ftp::address::{parse_epsv_reply, parse_pasv_reply};
use crate::ftp::reply::Severity;

impl User {
    /// Reports whether another transfer will follow the current or the next one.
    pub fn expect_transfer(&mut self, is_expected: bool) {
        self.expects_transfer = is_expected;
    }

    /// Requests the port for the next transfer when the data of the current one has ended.
    pub(super) fn request_spare_port(&mut self) {
        let Some(job) = &self.job else { return };
        let is_incoming = job.task.is_incoming() == Some(true);
        // Once the last reply has arrived, a separate request saves no round trip. The next file's
        // command can then share a segment with EPSV, which needs fewer segments and fewer server
        // wakeups.
        let precedes_last_reply = job.last_reply.is_none();
        let may_request_spare =
            self.spare_port == SparePort::None && !self.quirks.needs_pret && precedes_last_reply;
        if !self.expects_transfer
            || !is_incoming
            || !may_request_spare
            || self.quirks.avoids_pipelining
        {
            return;
        }
        match job.route {
            Route::Epsv => self.output.extend_from_slice(b"EPSV\r\n"),
            Route::Pasv => self.output.extend_from_slice(b"PASV\r\n"),
            Route::Eprt | Route::Port => return,
        }
        self.spare_port = SparePort::Requested;
        self.working_route = Some(job.route);
    }

    /// Processes the reply to the request for the next transfer's port.
    pub(super) fn on_spare_port_reply(&mut self, reply: &Reply) {
        let port = self.working_route.and_then(|route| passive_port(route, reply));
        self.spare_port = port.map_or(SparePort::None, SparePort::Port);
        self.quirks.avoids_pipelining |= port.is_none();
    }

    /// Starts a task while the reply to the early port request is outstanding. A task whose first
    /// step is the passive data connection uses that reply. Any other task waits for the reply.
    pub(super) fn use_spare_port(&mut self, cx: &Cx<'_>) -> bool {
        if self.spare_port != SparePort::Requested {
            return false;
        }
        let working_route = self.working_route;
        let may_pipeline = self.may_pipeline_command();
        let Some(job) = &mut self.job else { return false };
        let first = job.steps.front().copied();
        self.deadline = Some(cx.now + self.settings.reply_timeout);
        if first == Some(Step::Passive) && working_route == Some(job.route) {
            job.steps.pop_front();
            job.step = Step::Passive;
            self.spare_port = SparePort::None;
            if may_pipeline {
                self.send_pipelined_command();
            }
        } else {
            job.step = Step::Spare;
        }
        true
    }

    /// Returns whether the command of the current task may be sent right after EPSV or PASV: it is
    /// the only remaining step, and the server tolerates pipelining.
    fn may_pipeline_command(&self) -> bool {
        let Some(job) = &self.job else { return false };
        let rest = job.steps.iter().filter(|step| **step != Step::Passive);
        let is_only_command = rest.eq([Step::Command].iter());
        is_only_command && self.working_route == Some(job.route) && !self.quirks.avoids_pipelining
    }

    /// Starts the step that opens a passive data connection: uses the available port or requests
    /// one, and sends the command right after the request if this is known to be safe.
    pub(super) fn begin_passive(&mut self, cx: &mut Cx<'_>) {
        let may_pipeline = self.may_pipeline_command();
        let Some(job) = &mut self.job else { return };
        let spare_port = core::mem::take(&mut self.spare_port);
        if let (SparePort::Port(port), true) = (spare_port, self.working_route == Some(job.route)) {
            if may_pipeline {
                self.send_pipelined_command();
            }
            return self.connect_to(port, cx);
        }
        // EPSV may be dropped on the path while PASV works, so PASV should be tried soon.
        let uses_epsv = job.route == Route::Epsv;
        self.send_step(Step::Passive);
        if may_pipeline {
            self.send_pipelined_command();
        }
        if uses_epsv {
            self.await_preliminary_reply(cx);
        }
    }

    fn send_pipelined_command(&mut self) {
        if let Some(job) = &mut self.job {
            job.steps.clear();
            job.is_pipelined = true;
            self.send_task("");
        }
    }

    /// Processes the reply to EPSV or PASV.
    pub(super) fn passive_reply(&mut self, reply: &Reply, cx: &mut Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        if job.ignores_command_reply {
            // EPSV or PASV was refused; this is the reply to the command that was sent right after
            // it.
            if reply.severity() != Severity::Preliminary {
                job.is_pipelined = false;
                job.ignores_command_reply = false;
                job.steps.push_front(Step::Command);
                self.try_other_route(cx);
            }
            return;
        }
        if let Some(port) = passive_port(job.route, reply) {
            return self.connect_to(port, cx);
        }
        if job.is_pipelined {
            job.ignores_command_reply = true;
            self.quirks.avoids_pipelining = true;
            return;
        }
        let wants_pret = reply.text().windows(4).any(|word| word == b"PRET");
        if wants_pret && !self.quirks.needs_pret {
            // The server requires PRET before EPSV or PASV.
            self.quirks.needs_pret = true;
            job.steps.push_front(Step::Passive);
            job.steps.push_front(Step::Announce);
            return self.start_next_step(cx);
        }
        self.try_other_route(cx);
    }

    fn connect_to(&mut self, port: u16, cx: &Cx<'_>) {
        let Some(job) = &mut self.job else { return };
        job.step = if job.is_pipelined { Step::Command } else { Step::DataConnect };
        job.data = DataState::Awaited;
        self.await_preliminary_reply(cx);
        // The data connection goes to the host of the control connection, whatever address the
        // reply contains.
        self.events.push_back(UserEvent::ConnectData(SocketAddr::new(self.peer.ip(), port)));
    }
}

fn passive_port(route: Route, reply: &Reply) -> Option<u16> {
    if reply.severity() != Severity::Completion {
        return None;
    }
    match route {
        Route::Pasv => parse_pasv_reply(reply.text()).map(|address| address.port()),
        _ => parse_epsv_reply(reply.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftp::session_fixture::{address, user_settings};
    use net::cx::OwnedCx;

    const LIST: Task = Task::List(ListKind::Names, None);

    fn output(user: &mut User) -> alloc::string::String {
        let output = alloc::string::String::from_utf8(user.output().to_vec()).unwrap();
        user.sent(output.len());
        output
    }

    /// Returns the port to which the user requests a data connection, and the transfer that has
    /// started.
    fn requested_port_and_transfer(user: &mut User) -> (Option<u16>, Option<TaskId>) {
        let mut port = None;
        let mut started_transfer = None;
        while let Some(event) = user.event() {
            match event {
                UserEvent::ConnectData(to) => port = Some(to.port()),
                UserEvent::StartData(id, _) => started_transfer = Some(id),
                _ => {}
            }
        }
        (port, started_transfer)
    }

    /// Returns a session that has received the data of a listing whose last reply is outstanding.
    fn session_after_one_listing(context: &mut OwnedCx) -> User {
        let settings = UserSettings { asks_features: false, ..user_settings() };
        let server = address("10.0.0.1:21");
        let mut user = User::new(settings, address("10.0.0.2:9"), server, &context.cx());
        user.expect_transfer(true);
        let id = user.run(LIST, &mut context.cx()).unwrap();
        user.receive(b"220 x\r\n331 x\r\n230 x\r\n229 (|||7|)\r\n", &mut context.cx());
        assert_eq!(requested_port_and_transfer(&mut user), (Some(7), None));
        assert!(user.data_connected(server, &mut context.cx()));
        user.receive(b"150 x\r\n", &mut context.cx());
        assert_eq!(requested_port_and_transfer(&mut user), (None, Some(id)));
        output(&mut user);
        user.data_ended(id, 0, Ok(()), &mut context.cx());
        assert_eq!(output(&mut user), "EPSV\r\n");
        user
    }

    #[test]
    fn the_next_command_is_sent_before_the_reply_to_the_early_port_request() {
        let mut context = OwnedCx::default();
        let mut user = session_after_one_listing(&mut context);
        user.receive(b"226 x\r\n", &mut context.cx());
        let id = user.run(LIST, &mut context.cx()).unwrap();
        assert_eq!(output(&mut user), "NLST\r\n");
        user.receive(b"229 (|||8|)\r\n150 x\r\n", &mut context.cx());
        assert_eq!(requested_port_and_transfer(&mut user), (Some(8), None));
        assert!(user.data_connected(address("10.0.0.1:8"), &mut context.cx()));
        assert_eq!(requested_port_and_transfer(&mut user), (None, Some(id)));
    }

    #[test]
    fn after_the_last_reply_the_port_request_and_the_command_are_sent_together() {
        let mut context = OwnedCx::default();
        let mut user = session_after_one_listing(&mut context);
        user.receive(b"226 x\r\n229 (|||8|)\r\n", &mut context.cx());
        let id = user.run(LIST, &mut context.cx()).unwrap();
        output(&mut user);
        requested_port_and_transfer(&mut user);
        assert!(user.data_connected(address("10.0.0.1:8"), &mut context.cx()));
        user.receive(b"150 x\r\n226 x\r\n", &mut context.cx());
        assert_eq!(requested_port_and_transfer(&mut user), (None, Some(id)));
        user.data_ended(id, 0, Ok(()), &mut context.cx());
        assert_eq!(output(&mut user), "");
        user.run(LIST, &mut context.cx()).unwrap();
        assert_eq!(output(&mut user), "EPSV\r\nNLST\r\n");
    }

    #[test]
    fn allo_is_sent_with_the_port_request_without_waiting_for_its_reply() {
        let mut context = OwnedCx::default();
        let settings = UserSettings { asks_features: false, ..user_settings() };
        let server = address("10.0.0.1:21");
        let mut user = User::new(settings, address("10.0.0.2:9"), server, &context.cx());
        let store = || Task::Store {
            name: Some(crate::ftp::name::Name::new(b"x").unwrap()),
            kind: StoreKind::Replace,
            representation: crate::ftp::Representation::IMAGE,
            offset_bytes: 0,
            allocation_bytes: Some(9),
        };
        for (answer, sent) in
            [("200 x\r\n", "ALLO 9\r\nEPSV\r\n"), ("504 x\r\n", "ALLO 9\r\nEPSV\r\nSTOR x\r\n")]
        {
            user.run(store(), &mut context.cx()).unwrap();
            if answer.starts_with("200") {
                user.receive(b"220 x\r\n331 x\r\n230 x\r\n200 x\r\n", &mut context.cx());
            }
            assert!(output(&mut user).ends_with(sent));
            user.receive(alloc::format!("{answer}229 (|||7|)\r\n").as_bytes(), &mut context.cx());
            assert!(user.data_connected(server, &mut context.cx()));
            user.receive(b"150 x\r\n226 x\r\n", &mut context.cx());
            let start = core::iter::from_fn(|| user.event()).find_map(|event| match event {
                UserEvent::StartData(id, _) => Some(id),
                _ => None,
            });
            user.data_ended(start.unwrap(), 9, Ok(()), &mut context.cx());
            let is_done = core::iter::from_fn(|| user.event())
                .any(|event| matches!(event, UserEvent::Finished(_, Ok(_))));
            assert!(is_done);
        }
    }

    #[test]
    fn more_data_than_remains_after_the_offset_is_a_failure_of_rest() {
        for (offset_bytes, step) in [(0, Step::Data), (5, Step::Restart)] {
            let mut context = OwnedCx::default();
            let settings = UserSettings { asks_features: false, ..user_settings() };
            let server = address("10.0.0.1:21");
            let mut user = User::new(settings, address("10.0.0.2:9"), server, &context.cx());
            let task = Task::Retrieve {
                name: crate::ftp::name::Name::new(b"x").unwrap(),
                representation: crate::ftp::Representation::IMAGE,
                offset_bytes,
                expected_bytes: Some(9),
            };
            let id = user.run(task, &mut context.cx()).unwrap();
            user.receive(b"220 x\r\n331 x\r\n230 x\r\n200 x\r\n229 (|||7|)\r\n", &mut context.cx());
            assert!(user.data_connected(server, &mut context.cx()));
            if offset_bytes > 0 {
                user.receive(b"350 x\r\n", &mut context.cx());
            }
            user.receive(b"150 x\r\n", &mut context.cx());
            user.data_ended(id, 10, Err(DataFailure::Excess), &mut context.cx());
            user.receive(b"426 x\r\n226 x\r\n", &mut context.cx());
            let failure = core::iter::from_fn(|| user.event()).find_map(|event| match event {
                UserEvent::Finished(_, Err(failure)) => Some(failure),
                _ => None,
            });
            let why = FailureReason::Data(DataFailure::Excess);
            assert_eq!(failure, Some(Failure { step, why }));
        }
    }

    #[test]
    fn the_reply_gives_the_reason_if_the_server_closed_the_data_connection() {
        for (replies, code) in [
            (&b""[..], None),
            (b"451 Failure writing to local file.\r\n226 x\r\n", Some(451)),
            (b"426 No space left on device\r\n226 x\r\n", Some(426)),
            (b"226 x\r\n226 x\r\n", None),
        ] {
            let mut context = OwnedCx::default();
            let settings = UserSettings { asks_features: false, ..user_settings() };
            let server = address("10.0.0.1:21");
            let mut user = User::new(settings, address("10.0.0.2:9"), server, &context.cx());
            let task = Task::Store {
                name: Some(crate::ftp::name::Name::new(b"x").unwrap()),
                kind: StoreKind::Replace,
                representation: crate::ftp::Representation::IMAGE,
                offset_bytes: 0,
                allocation_bytes: None,
            };
            let id = user.run(task, &mut context.cx()).unwrap();
            user.receive(b"220 x\r\n331 x\r\n230 x\r\n200 x\r\n229 (|||7|)\r\n", &mut context.cx());
            assert!(user.data_connected(server, &mut context.cx()));
            user.receive(b"150 x\r\n", &mut context.cx());
            user.data_ended(id, 10, Err(DataFailure::ConnectionLost), &mut context.cx());
            user.receive(replies, &mut context.cx());
            if replies.is_empty() {
                // The server does not reply to ABOR either.
                context.now = user.deadline().unwrap();
                user.timeout(&mut context.cx());
            }
            let failure = core::iter::from_fn(|| user.event()).find_map(|event| match event {
                UserEvent::Finished(_, Err(failure)) => Some(failure),
                _ => None,
            });
            let Failure { step, why } = failure.unwrap();
            assert!(
                code.is_some() || why == FailureReason::Data(DataFailure::ConnectionLost),
                "{why:?}"
            );
            let reply_code = match why {
                FailureReason::Refused(reply) => Some(reply.code.number()),
                _ => None,
            };
            assert_eq!((step, reply_code), (Step::Data, code));
        }
    }

    #[test]
    fn an_already_known_port_is_connected_to_at_once() {
        let mut context = OwnedCx::default();
        let mut user = session_after_one_listing(&mut context);
        user.receive(b"226 x\r\n229 (|||8|)\r\n", &mut context.cx());
        user.run(LIST, &mut context.cx()).unwrap();
        assert_eq!(requested_port_and_transfer(&mut user).0, Some(8));
        assert_eq!(output(&mut user), "NLST\r\n");
    }

    #[test]
    fn a_task_without_a_port_waits_for_the_reply_to_the_port_request() {
        let mut context = OwnedCx::default();
        let mut user = session_after_one_listing(&mut context);
        user.receive(b"226 x\r\n", &mut context.cx());
        user.run(Task::Noop, &mut context.cx()).unwrap();
        assert_eq!(output(&mut user), "");
        user.receive(b"229 (|||8|)\r\n", &mut context.cx());
        assert_eq!(output(&mut user), "NOOP\r\n");
    }

    #[test]
    fn a_command_that_was_lost_by_pipelining_is_sent_again_without_it() {
        let mut context = OwnedCx::default();
        let mut user = session_after_one_listing(&mut context);
        user.receive(b"226 x\r\n", &mut context.cx());
        user.run(LIST, &mut context.cx()).unwrap();
        output(&mut user);
        user.receive(b"500 no\r\n", &mut context.cx());
        assert_eq!(output(&mut user), "");
        user.receive(b"425 no\r\n", &mut context.cx());
        assert_eq!(output(&mut user), "PASV\r\n");
        assert!(user.quirks().avoids_pipelining);
        user.receive(b"227 (10,0,0,1,0,9)\r\n", &mut context.cx());
        assert_eq!(
            (requested_port_and_transfer(&mut user).0, output(&mut user)),
            (Some(9), "".into())
        );
        assert!(user.data_connected(address("10.0.0.1:9"), &mut context.cx()));
        assert_eq!(output(&mut user), "NLST\r\n");
    }
}
