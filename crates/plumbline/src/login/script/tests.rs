//! Tests of scripts: their actions on received text, and the errors of the compiler.

use super::*;
use proptest::prelude::*;
use protocols::time::Instant;

fn runner(text: &str) -> Runner {
    let environment = [("SECRET".to_owned(), "s3$t".to_owned())].into();
    Runner::new(Script::compile(text, environment).unwrap(), "the script".to_owned())
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn refusal(text: &str) -> String {
    Script::compile(text, Default::default()).unwrap_err().to_string()
}

#[test]
fn it_waits_for_a_prompt_and_answers_it() {
    let mut runner =
        runner("expect /login: $/\nsend \"mike\\r\"\nexpect /word:/\nsend \"${SECRET}\\r\"");
    assert_eq!(runner.act(at(0)), None);
    runner.hear(b"\x1b[1mhost\x1b[0m login");
    assert_eq!(runner.act(at(1)), None);
    runner.hear(b": ");
    assert_eq!(runner.act(at(2)), Some(Act::Send(b"mike\r".to_vec())));
    assert_eq!(runner.act(at(2)), None);
    runner.hear(b"mike\r\nPassword:");
    assert_eq!(runner.act(at(3)), Some(Act::Send(b"s3$t\r".to_vec())));
    assert_eq!(runner.act(at(3)), Some(Act::Exit(0, None)));
    assert_eq!(runner.act(at(3)), None);
}

#[test]
fn a_carriage_return_in_a_pattern_matches_that_of_the_host() {
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
        runner.hear(b"$ echo DO''NE\r\nDONE\r\n$ ");
        assert_eq!(runner.act(at(0)), Some(Act::Exit(3, None)), "{pattern}");
    }
}

#[test]
fn what_follows_a_match_is_left_whether_it_had_a_carriage_return_or_not() {
    for (first, second) in [("one\\r\\n", "^two$"), ("one$", r"\r\ntwo\r"), ("one\\n", "two\\r")] {
        let mut runner = runner(&format!("expect /{first}/\nexpect /{second}/ timeout 1\nexit 3"));
        runner.hear("ä\r\none\r\ntwo\r\n".as_bytes());
        assert_eq!(runner.act(at(0)), Some(Act::Exit(3, None)), "{first} {second}");
    }
}

#[test]
fn a_group_that_the_last_pattern_does_not_have_ends_the_script_and_is_named() {
    let mut runner = runner("expect /(a)(b)/\nsay \"${2}\"\nexpect /(c)/\nsend \"${1}${2}\"");
    runner.hear(b"abc");
    assert_eq!(runner.act(at(0)), Some(Act::Say("b".to_owned())));
    let why = "the script line 4: ${2} is not defined: the last pattern has no group 2";
    assert_eq!(runner.act(at(0)), Some(Act::Exit(5, Some(why.to_owned()))));
}

#[test]
fn a_group_that_matched_nothing_is_empty() {
    let mut runner = runner("expect /a(b)?/\nsend \"<${1}>\"");
    runner.hear(b"a");
    assert_eq!(runner.act(at(0)), Some(Act::Send(b"<>".to_vec())));
}

#[test]
fn what_does_not_come_in_time_ends_it_with_the_line_the_pattern_and_what_came() {
    let mut runner = runner("on failure exit 7\n\nexpect /ready/ timeout 0.5");
    assert_eq!(runner.act(at(0)), None);
    assert_eq!(runner.deadline(), Some(at(500)));
    runner.hear(b"one\r\nnot yet");
    let said =
        "the script line 3: /ready/ was not received within 0.5 s; the last line was 'not yet'";
    assert_eq!(runner.act(at(500)), Some(Act::Exit(7, Some(said.to_owned()))));
}

#[test]
fn a_branch_is_taken_as_the_far_side_wants() {
    let text = "if /yes/ timeout 1\nsend \"a\"\nelse\nsend \"b\"\nend\nexit 3";
    let mut first = runner(text);
    first.hear(b"yes");
    assert_eq!(first.act(at(0)), Some(Act::Send(b"a".to_vec())));
    assert_eq!(first.act(at(0)), Some(Act::Exit(3, None)));
    let mut second = runner(text);
    assert_eq!(second.act(at(0)), None);
    assert_eq!(second.act(at(1000)), Some(Act::Send(b"b".to_vec())));
    assert_eq!(second.act(at(1000)), Some(Act::Exit(3, None)));
}

#[test]
fn a_branch_without_else_is_passed_over_and_branches_may_lie_in_branches() {
    let mut runner = runner("if /a/ timeout 0\nif /b/ timeout 0\nexit 1\nend\nend\nexit 2");
    assert_eq!(runner.act(at(0)), Some(Act::Exit(2, None)));
}

#[test]
fn what_a_pattern_has_found_can_be_sent_and_is_not_found_again() {
    let mut runner = runner(
        "expect /code (\\d+)/\nset CODE \"${1}!\"\nsend \"${CODE}\"\nif /code/ timeout 0\nexit 1\nend",
    );
    runner.hear(b"the code 42 ");
    assert_eq!(runner.act(at(0)), Some(Act::Send(b"42!".to_vec())));
    assert_eq!(runner.act(at(0)), Some(Act::Exit(0, None)));
}

#[test]
fn the_end_of_the_session_can_be_waited_for_and_fails_all_other_waits() {
    let mut first = runner("expect end");
    assert_eq!(first.act(at(0)), None);
    first.end();
    assert_eq!(first.act(at(1)), Some(Act::Exit(0, None)));
    let mut second = runner("expect /x/");
    second.end();
    assert!(matches!(second.act(at(0)), Some(Act::Exit(5, Some(_)))));
}

#[test]
fn a_break_a_word_to_the_person_and_the_keyboard_are_asked_of_the_session() {
    let mut runner = runner("send break\nsay \"here\" # a remark\ninteract\nexit 1");
    assert_eq!(runner.act(at(0)), Some(Act::Break));
    assert_eq!(runner.act(at(0)), Some(Act::Say("here".to_owned())));
    assert_eq!(runner.act(at(0)), Some(Act::Interact));
    assert_eq!(runner.act(at(0)), None);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    assert!(refusal("\nsend text").starts_with("line 2: missing quoted text"));
    assert!(refusal("send \"a").contains("missing closing \""));
    assert!(refusal("expect /(/").starts_with("line 1: invalid pattern: unclosed group"));
    assert!(refusal("if /a/\nsend \"x\"").starts_with("line 1: if without end"));
    assert!(refusal("end").contains("no matching if"));
    assert!(refusal("if /a/\nelse\nelse\nend").starts_with("line 3: this if already has an else"));
    assert!(refusal("send \"${HOME}\"").contains("--env HOME"));
    assert!(refusal("send \"\\q\"").contains("unknown escape sequence '\\q'"));
    assert!(refusal("exit 256").contains("from 0 to 255"));
    assert!(refusal("expect /a/ timeout -1").contains("0 to 86400 seconds"));
    assert!(refusal("jump 3").contains("unknown statement 'jump'"));
    assert!(refusal("exit 0 now").contains("unexpected 'now'"));
}

#[test]
fn escapes_stand_for_bytes() {
    let mut runner = runner(r#"send "\e[A\x07\"\\\$\t""#);
    assert_eq!(runner.act(at(0)), Some(Act::Send(b"\x1b[A\x07\"\\$\t".to_vec())));
}

proptest! {
    #[test]
    fn any_text_is_a_script_or_refused_by_one_line(text: String) {
        if let Err(refusal) = Script::compile(&text, Default::default()) {
            let sentence = refusal.to_string();
            prop_assert!(!sentence.contains(char::is_control), "{}", sentence);
        }
    }

    #[test]
    fn any_statements_come_to_an_end(
        words in prop::collection::vec(prop::sample::select(vec![
            "send \"${0}\\r\"", "expect /a|b/ timeout 1", "if /a/", "else", "end", "say \"x\"",
            "set A \"${1}\"", "timeout 0", "expect end", "on failure exit 9",
        ]), 0..30),
        heard: Vec<u8>
    ) {
        if let Ok(script) = Script::compile(&words.join("\n"), Default::default()) {
            let mut runner = Runner::new(script, String::new());
            runner.hear(&heard);
            let mut now = Instant::ZERO;
            for _ in 0..200 {
                if let Some(Act::Exit(..)) = runner.act(now) {
                    return Ok(());
                }
                now = runner.deadline().map_or(now, |deadline| deadline.max(now));
            }
            prop_assert!(false, "it does not end");
        }
    }
}
