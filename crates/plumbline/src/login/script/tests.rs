//! Tests of scripts: their actions on received text, and the errors of the compiler.

use super::*;
use net::time::Instant;
use proptest::prelude::*;
use transfer::modem::ModemCommand;

fn runner(text: &str) -> Runner {
    let environment = [("SECRET".to_owned(), "s3$t".to_owned())].into();
    Runner::new(Script::compile(text, environment).unwrap(), "the script".to_owned())
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn compile_error(text: &str) -> String {
    Script::compile(text, Default::default()).unwrap_err().to_string()
}

#[test]
fn a_script_waits_for_a_prompt_and_answers_it() {
    let mut runner =
        runner("expect /login: $/\nsend \"mike\\r\"\nexpect /word:/\nsend \"${SECRET}\\r\"");
    assert_eq!(runner.next_action(at(0)), None);
    runner.receive(b"\x1b[1mhost\x1b[0m login");
    assert_eq!(runner.next_action(at(1)), None);
    runner.receive(b": ");
    assert_eq!(runner.next_action(at(2)), Some(ScriptAction::Send(b"mike\r".to_vec())));
    assert_eq!(runner.next_action(at(2)), None);
    runner.receive(b"mike\r\nPassword:");
    assert_eq!(runner.next_action(at(3)), Some(ScriptAction::Send(b"s3$t\r".to_vec())));
    assert_eq!(runner.next_action(at(3)), Some(ScriptAction::Exit(0, None)));
    assert_eq!(runner.next_action(at(3)), None);
}

#[test]
fn a_carriage_return_in_a_pattern_matches_one_that_the_host_sent() {
    for pattern in [
        r"DONE\r",
        r"DONE\r\n",
        r"DONE\r?\n",
        r"DONE\n",
        r"DONE$",
        r"DONE\s",
        r"ONE\x0d\n",
        r"D.*E",
    ] {
        let mut runner = runner(&format!("expect /{pattern}/ timeout 1\nexit 3"));
        runner.receive(b"$ echo DO''NE\r\nDONE\r\n$ ");
        assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Exit(3, None)), "{pattern}");
    }
}

#[test]
fn text_after_a_match_is_kept_with_and_without_carriage_returns() {
    for (first, second) in [("one\\r\\n", "^two$"), ("one$", r"\r\ntwo\r"), ("one\\n", "two\\r")] {
        let mut runner = runner(&format!("expect /{first}/\nexpect /{second}/ timeout 1\nexit 3"));
        runner.receive("ä\r\none\r\ntwo\r\n".as_bytes());
        assert_eq!(
            runner.next_action(at(0)),
            Some(ScriptAction::Exit(3, None)),
            "{first} {second}"
        );
    }
}

#[test]
fn a_missing_group_of_the_last_pattern_ends_the_script_with_its_name() {
    let mut runner = runner("expect /(a)(b)/\nsay \"${2}\"\nexpect /(c)/\nsend \"${1}${2}\"");
    runner.receive(b"abc");
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Say("b".to_owned())));
    let why = "the script line 4: ${2} is not defined: the last pattern has no group 2";
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Exit(5, Some(why.to_owned()))));
}

#[test]
fn a_group_that_matched_nothing_is_empty() {
    let mut runner = runner("expect /a(b)?/\nsend \"<${1}>\"");
    runner.receive(b"a");
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Send(b"<>".to_vec())));
}

#[test]
fn a_timeout_ends_the_script_with_the_line_the_pattern_and_the_received_text() {
    let mut runner = runner("on failure exit 7\n\nexpect /ready/ timeout 0.5");
    assert_eq!(runner.next_action(at(0)), None);
    assert_eq!(runner.deadline(), Some(at(500)));
    runner.receive(b"one\r\nnot yet");
    let message =
        "the script line 3: /ready/ was not received within 0.5 s; the last line was 'not yet'";
    assert_eq!(runner.next_action(at(500)), Some(ScriptAction::Exit(7, Some(message.to_owned()))));
}

#[test]
fn the_output_of_the_remote_host_selects_the_branch() {
    let text = "if /yes/ timeout 1\nsend \"a\"\nelse\nsend \"b\"\nend\nexit 3";
    let mut first = runner(text);
    first.receive(b"yes");
    assert_eq!(first.next_action(at(0)), Some(ScriptAction::Send(b"a".to_vec())));
    assert_eq!(first.next_action(at(0)), Some(ScriptAction::Exit(3, None)));
    let mut second = runner(text);
    assert_eq!(second.next_action(at(0)), None);
    assert_eq!(second.next_action(at(1000)), Some(ScriptAction::Send(b"b".to_vec())));
    assert_eq!(second.next_action(at(1000)), Some(ScriptAction::Exit(3, None)));
}

#[test]
fn a_branch_without_else_is_skipped_and_branches_may_be_nested() {
    let mut runner = runner("if /a/ timeout 0\nif /b/ timeout 0\nexit 1\nend\nend\nexit 2");
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Exit(2, None)));
}

#[test]
fn matched_text_can_be_sent_and_is_not_matched_again() {
    let mut runner = runner(
        "expect /code (\\d+)/\nset CODE \"${1}!\"\nsend \"${CODE}\"\nif /code/ timeout 0\nexit 1\nend",
    );
    runner.receive(b"the code 42 ");
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Send(b"42!".to_vec())));
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Exit(0, None)));
}

#[test]
fn the_end_of_the_session_matches_expect_end_and_fails_all_other_waits() {
    let mut first = runner("expect end");
    assert_eq!(first.next_action(at(0)), None);
    first.end();
    assert_eq!(first.next_action(at(1)), Some(ScriptAction::Exit(0, None)));
    let mut second = runner("expect /x/");
    second.end();
    assert!(matches!(second.next_action(at(0)), Some(ScriptAction::Exit(5, Some(_)))));
}

#[test]
fn send_break_say_and_interact_are_actions_of_the_session() {
    let mut runner = runner("send break\nsay \"here\" # a remark\ninteract\nexit 1");
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Break));
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Say("here".to_owned())));
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Interact));
    assert_eq!(runner.next_action(at(0)), None);
}

#[test]
fn errors_have_their_line_number() {
    assert!(compile_error("\nsend text").starts_with("line 2: missing quoted text"));
    assert!(compile_error("send \"a").contains("missing closing \""));
    assert!(compile_error("expect /(/").starts_with("line 1: invalid pattern: unclosed group"));
    assert!(compile_error("if /a/\nsend \"x\"").starts_with("line 1: if without end"));
    assert!(compile_error("end").contains("no matching if"));
    assert!(
        compile_error("if /a/\nelse\nelse\nend").starts_with("line 3: this if already has an else")
    );
    assert!(compile_error("send \"${HOME}\"").contains("--env HOME"));
    assert!(compile_error("send \"\\q\"").contains("unknown escape sequence '\\q'"));
    assert!(compile_error("exit 256").contains("from 0 to 255"));
    assert!(compile_error("expect /a/ timeout -1").contains("0 to 86400 seconds"));
    assert!(compile_error("jump 3").contains("unknown statement 'jump'"));
    assert!(compile_error("exit 0 now").contains("unexpected 'now'"));
}

#[test]
fn escapes_stand_for_bytes() {
    let mut runner = runner(r#"send "\e[A\x07\"\\\$\t""#);
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Send(b"\x1b[A\x07\"\\$\t".to_vec())));
}

proptest! {
    #[test]
    fn any_text_is_a_script_or_rejected_with_a_message_of_one_line(text: String) {
        if let Err(compile_error) = Script::compile(&text, Default::default()) {
            let sentence = compile_error.to_string();
            prop_assert!(!sentence.contains(char::is_control), "{}", sentence);
        }
    }

    #[test]
    fn any_sequence_of_statements_terminates(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "send \"${0}\\r\"", "expect /a|b/ timeout 1", "if /a/", "else", "end", "say \"x\"",
            "set A \"${1}\"", "timeout 0", "expect end", "on failure exit 9",
        ]), 0..30),
        buffer: Vec<u8>
    ) {
        if let Ok(script) = Script::compile(&tokens.join("\n"), Default::default()) {
            let mut runner = Runner::new(script, String::new());
            runner.receive(&buffer);
            let mut now = Instant::ZERO;
            for _ in 0..200 {
                if let Some(ScriptAction::Exit(..)) = runner.next_action(now) {
                    return Ok(());
                }
                now = runner.deadline().map_or(now, |deadline| deadline.max(now));
            }
            prop_assert!(false, "it does not end");
        }
    }
}

#[test]
fn a_script_waits_for_the_end_of_a_file_transfer() {
    let text = "timeout 3\nsend file \"${SECRET}\" by ymodem\nreceive file \"a\" by xmodem\nexit 2";
    let mut runner = runner(text);
    let send = ModemCommand::Send(ModemProtocol::Ymodem, vec!["s3$t".into()]);
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Transfer(send)));
    assert_eq!(runner.deadline(), Some(at(3000)));
    runner.transfer_began();
    assert_eq!((runner.deadline(), runner.next_action(at(9000))), (None, None));
    assert!(runner.transfer_ended(None));
    let receive = ModemCommand::Receive(ModemProtocol::Xmodem, Some("a".to_owned()));
    assert_eq!(runner.next_action(at(9000)), Some(ScriptAction::Transfer(receive)));
    assert!(runner.transfer_ended(Some("Transfer failed.".to_owned())));
    let why = Some("the script line 3: Transfer failed.".to_owned());
    assert_eq!(runner.next_action(at(9000)), Some(ScriptAction::Exit(5, why)));
    assert!(!runner.transfer_ended(None));
}

#[test]
fn a_failed_transfer_that_the_remote_host_has_started_fails_the_script_at_its_end() {
    let mut runner = runner("expect /choice/\non failure exit 6");
    runner.transfer_began();
    assert!(!runner.transfer_ended(Some("Transfer failed.".to_owned())));
    runner.receive(b"choice");
    let why = Some("the script line 2: Transfer failed.".to_owned());
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Exit(6, why)));
}

#[test]
fn a_script_ends_after_the_end_of_a_transfer_that_runs() {
    let mut runner = runner("expect /choice/");
    runner.receive(b"choice");
    runner.transfer_began();
    assert_eq!(runner.next_action(at(0)), None);
    assert!(!runner.transfer_ended(None));
    assert_eq!(runner.next_action(at(1)), Some(ScriptAction::Exit(0, None)));
}

#[test]
fn a_failed_expect_reports_the_pattern_as_it_is_written() {
    let mut runner = runner(r"expect /Your choice: \d '$/ timeout 1");
    assert_eq!(runner.next_action(at(0)), None);
    let Some(ScriptAction::Exit(5, Some(why))) = runner.next_action(at(1000)) else { panic!() };
    assert!(why.contains(r"/Your choice: \d '$/ was not received"), "{why}");
}

#[test]
fn a_file_transfer_that_does_not_begin_ends_the_script() {
    let mut runner = runner("timeout 3\nreceive");
    let receive = ModemCommand::Receive(ModemProtocol::Zmodem, None);
    assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Transfer(receive)));
    assert_eq!(runner.next_action(at(2999)), None);
    let why = Some("the script line 2: no file transfer has begun in time".to_owned());
    assert_eq!(runner.next_action(at(3000)), Some(ScriptAction::Exit(5, why)));
}

#[test]
fn a_prompt_that_is_back_ends_the_wait_for_a_file_transfer() {
    let text = "timeout 60\nexpect /\\$ $/\nsend \"sz a\\r\"\nreceive";
    let started = || {
        let mut runner = runner(text);
        runner.receive(b"$ ");
        assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Send(b"sz a\r".to_vec())));
        let receive = ModemCommand::Receive(ModemProtocol::Zmodem, None);
        assert_eq!(runner.next_action(at(0)), Some(ScriptAction::Transfer(receive)));
        runner.receive(b"sz a\r\n");
        assert_eq!((runner.next_action(at(1)), runner.deadline()), (None, Some(at(60_000))));
        runner
    };
    let mut runner = started();
    runner.receive(b"sh: sz: not found\r\n$ ");
    assert_eq!(runner.next_action(at(2)), None);
    let due = runner.deadline().unwrap();
    assert!(due < at(5000));
    let why = "the script line 4: the remote program has ended, and no file transfer has begun: \
               sh: sz: not found";
    assert_eq!(runner.next_action(due), Some(ScriptAction::Exit(5, Some(why.to_owned()))));
    // During a transfer, the end of the transfer is requested, and its failure ends the script.
    let mut runner = started();
    runner.transfer_began();
    runner.observe_transfer(b"**\x18B00\r\nKilled\r\n$ ");
    assert_eq!(runner.next_action(at(2)), None);
    let due = runner.deadline().unwrap();
    assert_eq!(runner.next_action(due), Some(ScriptAction::EndTransfer));
    assert!(runner.transfer_ended(Some("Download failed.".to_owned())));
    let why = Some("the script line 4: Download failed.".to_owned());
    assert_eq!(runner.next_action(due), Some(ScriptAction::Exit(5, why)));
}

#[test]
fn an_invalid_file_transfer_is_rejected() {
    for text in [
        "send file",
        "send file \"a\" by kermit",
        "receive by xmodem",
        "receive file \"a\"",
        "receive \"a\"",
    ] {
        assert!(compile_error(text).starts_with("line 1: "), "{text}");
    }
}
