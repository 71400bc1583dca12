//! Tests of single rules of the FTP user engine.

use super::session_fixture::*;
use super::user::*;
use super::*;
use net::cx::OwnedCx;
use net::time::Duration;
use std::string::String;
use std::vec::Vec;

const LIST: Task = Task::List(ListKind::Names, None);

/// A user engine whose server is simulated by the test.
struct LoneUser {
    user: User,
    context: OwnedCx,
}

impl LoneUser {
    fn new(settings: UserSettings) -> Self {
        let mut context = OwnedCx::default();
        let user = User::new(settings, address(PEER), address(LOCAL), &context.cx());
        Self { user, context }
    }

    /// Returns a session that is logged in and idle.
    fn logged_in() -> Self {
        let settings = UserSettings { asks_features: false, ..user_settings() };
        let mut lone_user = Self::new(settings);
        lone_user.receive("220 x\r\n331 x\r\n230 x\r\n");
        lone_user.take_output();
        lone_user.events();
        lone_user
    }

    fn run(&mut self, task: Task) -> TaskId {
        self.user.run(task, &mut self.context.cx()).unwrap()
    }

    fn receive(&mut self, replies: &str) {
        self.user.receive(replies.as_bytes(), &mut self.context.cx());
    }

    fn take_output(&mut self) -> String {
        let output = String::from_utf8(self.user.output().to_vec()).unwrap();
        self.user.sent(output.len());
        output
    }

    fn events(&mut self) -> Vec<UserEvent> {
        core::iter::from_fn(|| self.user.event()).collect()
    }

    /// Returns the time until the deadline.
    fn remaining_time(&self) -> Option<Duration> {
        self.user.deadline().map(|deadline| deadline - self.context.now)
    }

    /// Continues a listing after EPSV up to the end of its data; its last reply is outstanding.
    fn receive_data(&mut self, id: TaskId) {
        self.receive("229 (|||7|)\r\n");
        assert!(self.user.data_connected(address(LOCAL), &mut self.context.cx()));
        self.receive("150 x\r\n");
        self.user.data_ended(id, 0, Ok(()), &mut self.context.cx());
        self.events();
    }
}

#[test]
fn only_implicit_tls_is_established_before_the_greeting() {
    for (tls, is_tls) in [(TlsUse::Implicit, true), (TlsUse::Never, false)] {
        let lone_user = LoneUser::new(UserSettings { tls, ..user_settings() });
        assert_eq!(lone_user.user.is_tls(), is_tls);
    }
}

#[test]
fn a_reply_is_awaited_for_60_s_and_the_reply_to_epsv_for_5() {
    let mut lone_user = LoneUser::new(UserSettings { asks_features: false, ..user_settings() });
    assert_eq!(lone_user.remaining_time(), Some(Duration::from_secs(60)));
    lone_user.receive("220 x\r\n331 x\r\n230 x\r\n");
    lone_user.run(LIST);
    assert!(lone_user.take_output().ends_with("EPSV\r\n"));
    assert_eq!(lone_user.remaining_time(), Some(Duration::from_secs(5)));
}

#[test]
fn a_command_is_pipelined_only_after_a_transfer_by_the_same_route() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.run(Task::Noop);
    lone_user.receive("200 x\r\n");
    lone_user.take_output();
    let id = lone_user.run(LIST);
    assert_eq!(lone_user.take_output(), "EPSV\r\n");
    lone_user.receive_data(id);
    assert_eq!(lone_user.take_output(), "NLST\r\n");
    lone_user.receive("226 x\r\n");
    lone_user.run(LIST);
    assert_eq!(lone_user.take_output(), "EPSV\r\nNLST\r\n");
}

#[test]
fn a_transfer_from_an_offset_sends_no_command_before_the_requested_port_arrives() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.user.expect_transfer(true);
    let id = lone_user.run(LIST);
    lone_user.receive_data(id);
    assert!(lone_user.take_output().ends_with("EPSV\r\n"));
    lone_user.receive("226 x\r\n");
    let representation = Representation::default();
    let name = name("file");
    lone_user.run(Task::Retrieve { name, representation, offset_bytes: 5, expected_bytes: None });
    assert_eq!(lone_user.take_output(), "");
    lone_user.receive("229 (|||8|)\r\n");
    assert!(lone_user.user.data_connected(address(LOCAL), &mut lone_user.context.cx()));
    assert_eq!(lone_user.take_output(), "REST 5\r\n");
}

#[test]
fn a_refused_command_without_data_closes_no_data_connection() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.run(Task::Noop);
    lone_user.receive("502 x\r\n");
    assert!(!lone_user.events().contains(&UserEvent::CloseData));
}

#[test]
fn reply_421_to_any_command_ends_the_session() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.run(Task::Noop);
    lone_user.receive("421 x\r\n");
    assert!(lone_user.user.is_closed());
    let Some(UserEvent::Closed(Some(failure))) = lone_user.events().pop() else {
        panic!("the reason is reported")
    };
    assert!(matches!(failure.why, FailureReason::Refused(reply) if reply.code.number() == 421));
}

#[test]
fn an_unrestricted_active_session_sends_eprt_first() {
    let data_style = DataStyle::Active;
    let settings = UserSettings { asks_features: false, data_style, ..user_settings() };
    let mut lone_user = LoneUser::new(settings);
    lone_user.receive("220 x\r\n331 x\r\n230 x\r\n");
    lone_user.run(LIST);
    lone_user.take_output();
    lone_user.user.on_listening(Some(address("10.0.0.2:5001")), &mut lone_user.context.cx());
    assert_eq!(lone_user.take_output(), "EPRT |1|10.0.0.2|5001|\r\n");
}

#[test]
fn data_is_not_protected_if_the_server_refuses_it_and_the_settings_allow_that() {
    for (tls, protects_data, sent) in [
        (TlsUse::IfOffered, true, "USER ann\r\n"),
        (TlsUse::Required, false, "USER ann\r\n"),
        (TlsUse::Required, true, ""),
    ] {
        let mut lone_user = LoneUser::new(UserSettings { tls, protects_data, ..user_settings() });
        lone_user.receive("220 x\r\n234 x\r\n");
        lone_user.user.tls_started(true, &mut lone_user.context.cx());
        assert!(lone_user.take_output().ends_with("PBSZ 0\r\n"));
        lone_user.receive("500 x\r\n");
        assert_eq!(
            (lone_user.take_output().as_str(), lone_user.user.is_closed()),
            (sent, sent.is_empty())
        );
    }
}

#[test]
fn a_lost_data_connection_is_transient_but_a_failure_of_the_file_is_not() {
    let is_transient = |failure| {
        let why = FailureReason::Data(failure);
        Failure { step: Step::Data, why }.is_transient()
    };
    let failures = [DataFailure::ConnectionLost, DataFailure::File, DataFailure::Excess];
    assert_eq!(failures.map(is_transient), [true, false, false]);
}

#[test]
fn a_download_that_ends_without_a_preliminary_reply_is_complete() {
    let mut lone_user = LoneUser::logged_in();
    let id = lone_user.run(LIST);
    lone_user.receive("229 (|||7|)\r\n");
    assert!(lone_user.user.data_connected(address(LOCAL), &mut lone_user.context.cx()));
    lone_user.receive("226 x\r\n");
    assert!(lone_user.events().contains(&UserEvent::StartData(id, Protection::Clear)));
    lone_user.user.data_ended(id, 0, Ok(()), &mut lone_user.context.cx());
    let last_event = lone_user.events().pop();
    assert!(matches!(last_event, Some(UserEvent::Finished(_, Ok(_)))), "{last_event:?}");
}

#[test]
fn an_upload_that_ends_without_a_preliminary_reply_fails() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.run(Task::Store {
        name: Some(name("file")),
        kind: StoreKind::Replace,
        representation: Representation::default(),
        offset_bytes: 0,
        allocation_bytes: None,
    });
    lone_user.receive("229 (|||7|)\r\n");
    assert!(lone_user.user.data_connected(address(LOCAL), &mut lone_user.context.cx()));
    lone_user.receive("226 x\r\n");
    let last_event = lone_user.events().pop();
    let Some(UserEvent::Finished(_, Err(failure))) = last_event else { panic!("{last_event:?}") };
    assert_eq!(failure.why, FailureReason::Malformed);
}

#[test]
fn a_reply_that_is_no_reply_ends_the_session() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.receive("SSH-2.0-OpenSSH\r\n");
    assert!(lone_user.user.is_closed());
    let last_event = lone_user.events().pop();
    let Some(UserEvent::Closed(Some(failure))) = last_event else { panic!("{last_event:?}") };
    assert!(matches!(failure.why, FailureReason::NotReply(_)));
}

#[test]
fn the_server_is_asked_for_pret_if_it_requires_pret() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.run(LIST);
    lone_user.take_output();
    lone_user.receive("550 use PRET first\r\n");
    assert_eq!(lone_user.take_output(), "PRET NLST\r\n");
    lone_user.receive("200 x\r\n");
    assert_eq!(lone_user.take_output(), "EPSV\r\n");
}

#[test]
fn features_are_empty_only_if_feat_lists_none() {
    let mut lone_user = LoneUser::logged_in();
    lone_user.receive("211-x\r\n SIZE\r\n211 End\r\n500 x\r\n");
    let is_empty = |event| match event {
        UserEvent::Reply(reply) => Some(Features::from_reply(&reply).is_empty()),
        _ => None,
    };
    let are_empty: Vec<bool> = lone_user.events().into_iter().filter_map(is_empty).collect();
    assert_eq!(are_empty, [false, true]);
}
