//! Tests of the start and the end of a file transfer in a login.

use super::super::script::{Runner, Script};
use super::super::session_settings::{LoginProtocol, LoginSettings};
use super::super::terminal_input::LocalTerminal;
use super::*;
use carrier::{AckPolicy, EngineContext, Outcome, StreamSession};
use net::application::Stream;

const SENDER_REQUEST: &[u8] = b"**\x18B00000000000000\r\x8a\x11";
const RECEIVER_REQUEST: &[u8] = b"**\x18B0100000023be50\r\x8a\x11";
const ZFIN: &[u8] = b"**\x18B0800000000022d\r\x8a";

/// A login without a terminal, and its engine context.
struct Fixture {
    login: Login,
    context: EngineContext,
}

impl Fixture {
    fn new(protocol: LoginProtocol, starts_zmodem: bool) -> Self {
        let settings = LoginSettings {
            protocol,
            starts_zmodem,
            is_interactive: true,
            ..LoginSettings::default()
        };
        let mut context = EngineContext::new(true).unwrap();
        let terminal = LocalTerminal::new(false).unwrap();
        let mut login = Login::new(settings, terminal, "the test".to_owned());
        login.begin(&mut context.cx());
        Self { login, context }
    }

    fn receives(&mut self, data: &[u8]) {
        self.login.receive(data, &mut self.context.cx());
    }

    /// Lets the time pass after which the output of a program that has ended has passed.
    fn passes_silence(&mut self) {
        let mut cx = self.context.cx();
        cx.now = self.login.transfers.deadline().unwrap();
        self.login.run(&mut cx);
    }

    fn types(&mut self, keys: &[u8]) {
        self.login.process_typed_keys(keys, &mut self.context.cx());
    }

    /// Returns all output for the carrier.
    fn sent(&mut self) -> Vec<u8> {
        let mut sent = Vec::new();
        while !self.login.output().is_empty() {
            sent.extend_from_slice(self.login.output());
            self.login.sent(self.login.output().len());
            self.login.run(&mut self.context.cx());
        }
        sent
    }

    fn displayed(&self) -> String {
        String::from_utf8_lossy(&self.login.display.screen.queued_text()).into_owned()
    }
}

#[test]
fn a_sender_on_the_remote_host_starts_a_download() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    assert_eq!(fixture.login.ack_policy(), AckPolicy::Awaited);
    fixture.receives(&[b"$ sz a\r\nrz\r", SENDER_REQUEST].concat());
    assert!(fixture.login.transfers.is_active());
    assert_eq!(fixture.login.ack_policy(), AckPolicy::Immediate);
    assert_eq!(fixture.sent(), RECEIVER_REQUEST);
    assert!(!fixture.displayed().contains('\x18'));
}

#[test]
fn over_telnet_the_transfer_waits_for_binary_and_disables_it_at_its_end() {
    let mut fixture = Fixture::new(LoginProtocol::Telnet, true);
    fixture.receives(SENDER_REQUEST);
    // WILL BINARY, DO BINARY.
    assert_eq!(fixture.sent(), b"\xff\xfb\x00\xff\xfd\x00");
    fixture.receives(b"\xff\xfd\x00\xff\xfb\x00");
    fixture.login.run(&mut fixture.context.cx());
    assert_eq!(fixture.sent(), RECEIVER_REQUEST);
    fixture.receives(&[ZFIN, b"OO$ "].concat());
    // ZFIN, WONT BINARY, DONT BINARY.
    assert_eq!(fixture.sent(), [ZFIN, b"\xff\xfc\x00\xff\xfe\x00"].concat());
    assert!(fixture.displayed().ends_with("$ "));
}

#[test]
fn without_binary_each_cr_is_sent_as_cr_nul_and_text_after_a_failure_has_no_nul() {
    let mut fixture = Fixture::new(LoginProtocol::Telnet, true);
    fixture.receives(SENDER_REQUEST);
    fixture.sent();
    fixture.receives(b"\xff\xfe\x00\xff\xfc\x00");
    fixture.login.run(&mut fixture.context.cx());
    let request = b"**\x18B0100000023be50\r\0\x8a\x11";
    assert_eq!(fixture.sent(), request);
    fixture.receives(b"\r\0");
    for _ in 0..11 {
        fixture.receives(b"**\x18B0000000000ffff\r\0\x8a");
    }
    fixture.receives(&[REFUSAL, b"\r\0\n$ "].concat());
    fixture.passes_silence();
    assert!(!fixture.login.transfers.is_active() && fixture.login.protocol.lacks_binary());
    assert_eq!(fixture.displayed(), "\r\n$ ");
}

#[test]
fn text_directly_after_a_sender_that_sends_no_end_letters_is_displayed() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    let (request, line_end) = SENDER_REQUEST.split_at(SENDER_REQUEST.len() - 3);
    fixture.receives(request);
    fixture.receives(line_end);
    fixture.receives(ZFIN);
    for byte in b"\r\r\n*** Night Owl ***" {
        fixture.receives(&[*byte]);
    }
    assert!(fixture.displayed().ends_with("\r\r\n*** Night Owl ***"), "{}", fixture.displayed());
}

#[test]
fn without_the_option_a_request_is_displayed() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, false);
    fixture.receives(SENDER_REQUEST);
    assert!(!fixture.login.transfers.is_active());
    assert_eq!(fixture.sent(), b"");
    assert!(fixture.displayed().contains("B00000000000000"));
}

#[test]
fn during_a_transfer_keys_are_dropped_and_an_interrupt_cancels() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.receives(SENDER_REQUEST);
    fixture.sent();
    fixture.types(b"ls\r");
    assert_eq!(fixture.sent(), b"");
    fixture.types(b"\x03");
    assert_eq!(fixture.sent(), REFUSAL);
    // Data in flight is dropped up to the confirmation of the sender.
    fixture.receives(&[b"rest of the data", REFUSAL, b"h\xe7buffer\xe7$ "].concat());
    assert!(fixture.login.transfers.is_active());
    fixture.passes_silence();
    assert!(!fixture.login.transfers.is_active());
    assert_eq!(fixture.displayed(), "$ ");
}

#[test]
fn a_receiver_on_the_remote_host_opens_the_prompt_and_an_empty_line_refuses() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.receives(RECEIVER_REQUEST);
    assert!(fixture.login.input.is_at_prompt());
    fixture.receives(RECEIVER_REQUEST);
    assert_eq!(fixture.sent(), b"");
    fixture.types(b"\r");
    assert_eq!(fixture.sent(), REFUSAL);
    assert!(!fixture.login.input.is_at_prompt());
}

#[test]
fn a_file_that_does_not_exist_leaves_the_prompt_open() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.types(b"\x1dsend /nonexistent\r");
    assert!(fixture.login.input.is_at_prompt());
    assert!(fixture.displayed().contains("Cannot read /nonexistent"), "{}", fixture.displayed());
}

#[test]
fn the_end_of_the_connection_ends_the_transfer() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.receives(SENDER_REQUEST);
    fixture.login.peer_closed(&mut fixture.context.cx());
    assert_eq!(fixture.login.deadline(), None);
}

#[test]
fn a_script_without_its_file_ends_after_the_receiver_of_the_remote_host() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    let script = Script::compile("send file \"/nonexistent\" by xmodem", [].into()).unwrap();
    fixture.login.input.set_script(Some(Runner::new(script, "script".to_owned())));
    fixture.receives(b"rx: ready to receive a\r\nC");
    assert_eq!(fixture.sent(), REFUSAL);
    assert!(fixture.login.stage == Stage::Open, "the script waits");
    // The receiver has discarded its input.
    fixture.passes_silence();
    assert_eq!(fixture.sent(), REFUSAL);
    fixture.receives(&[REFUSAL, b"\r\nrx: a removed.\r\n"].concat());
    assert!(fixture.login.stage == Stage::LocalClosed);
    let (code, why) = fixture.login.input.take_script_end().unwrap();
    assert_eq!(code, 5);
    assert!(why.unwrap().starts_with("script line 1: Cannot read /nonexistent: "));
}

#[test]
fn a_termination_signal_cancels_the_transfer_and_ends_the_session_after_a_second() {
    for is_confirmed in [true, false] {
        let mut fixture = Fixture::new(LoginProtocol::Serial, true);
        fixture.receives(SENDER_REQUEST);
        fixture.sent();
        let mut cx = fixture.context.cx();
        let began = cx.now;
        fixture.login.end_because(Interruption::Signal("SIGTERM"), &mut cx);
        assert_eq!(fixture.login.deadline(), Some(began + END_TIMEOUT));
        assert_eq!(fixture.sent(), REFUSAL);
        assert!(fixture.login.stage == Stage::Cancelling);
        if is_confirmed {
            fixture.receives(REFUSAL);
            fixture.passes_silence();
        } else {
            fixture.receives(b"data in flight");
            let mut cx = fixture.context.cx();
            cx.now = began + END_TIMEOUT;
            fixture.login.run(&mut cx);
        }
        assert!(fixture.login.is_over());
    }
}

#[test]
fn the_end_of_the_terminal_cancels_the_transfer_first() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.receives(SENDER_REQUEST);
    fixture.sent();
    fixture.login.on_display_closed(&mut fixture.context.cx());
    assert!(!fixture.login.is_over());
    assert_eq!(fixture.sent(), REFUSAL);
}

#[test]
fn the_end_of_a_session_waits_for_the_remote_programs_that_it_cancels() {
    for request in [SENDER_REQUEST, RECEIVER_REQUEST] {
        let mut fixture = Fixture::new(LoginProtocol::Serial, true);
        fixture.receives(request);
        fixture.sent();
        fixture.login.close_session(&mut fixture.context.cx());
        assert_eq!(fixture.sent(), REFUSAL);
        assert!(fixture.login.stage == Stage::Cancelling && !fixture.login.is_closing());
        fixture.receives(REFUSAL);
        fixture.passes_silence();
        assert!(fixture.login.stage == Stage::LocalClosed);
    }
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.login.close_session(&mut fixture.context.cx());
    assert!(fixture.login.stage == Stage::LocalClosed);
}

#[test]
fn the_prompt_of_the_shell_ends_the_upload_of_a_script() {
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    let path = std::env::temp_dir().join(format!("plumb-script-upload-{}", std::process::id()));
    std::fs::write(&path, b"content").unwrap();
    let text = format!("send \"rx a\\r\"\nsend file \"{}\" by xmodem", path.display());
    let script = Script::compile(&text, [].into()).unwrap();
    fixture.login.input.set_script(Some(Runner::new(script, "script".to_owned())));
    fixture.login.input.show_to_script(b"$ ");
    fixture.receives(b"");
    assert!(fixture.login.transfers.is_active());
    fixture.receives(b"rx a\r\nsh: rx: not found\r\n$ ");
    assert!(fixture.login.transfers.is_active() && fixture.login.stage == Stage::Open);
    let mut cx = fixture.context.cx();
    let began = cx.now;
    while fixture.login.stage != Stage::LocalClosed {
        cx.now = fixture.login.deadline().unwrap();
        fixture.login.run(&mut cx);
    }
    assert!(cx.now - began < Duration::from_secs(3), "{:?}", cx.now - began);
    let why = fixture.login.input.take_script_end().unwrap().1.unwrap();
    assert_eq!(why, "script line 2: Upload failed: the remote program has ended.");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_cause_of_the_end_of_a_transfer_is_that_of_the_connection() {
    let ends = [
        (Some(Outcome::Reset), "Download failed: the remote host reset the connection."),
        (Some(Outcome::TimedOut), "Download failed: the remote host no longer answers."),
        (Some(Outcome::Unreachable), "Download failed: there is no route to the remote host."),
        (Some(Outcome::Closed), "Download failed: the remote host closed the connection."),
        (Some(Outcome::LocalClosed), "Download failed: the session has ended."),
        (None, "Download failed: the serial line was lost."),
    ];
    for (outcome, sentence) in ends {
        let mut fixture = Fixture::new(LoginProtocol::Serial, true);
        fixture.receives(SENDER_REQUEST);
        fixture.login.connection_ended(outcome, &mut fixture.context.cx());
        assert!(!fixture.login.transfers.is_active());
        assert_eq!(fixture.login.transfers.unclaimed, Some(Some(sentence.to_owned())));
    }
    let mut fixture = Fixture::new(LoginProtocol::Serial, true);
    fixture.receives(SENDER_REQUEST);
    fixture.login.peer_closed(&mut fixture.context.cx());
    let closed = "Download failed: the remote host closed the connection.";
    assert_eq!(fixture.login.transfers.unclaimed, Some(Some(closed.to_owned())));
}
