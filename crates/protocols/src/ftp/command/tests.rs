//! Tests of the parser for command lines, with known and unknown verbs.

use super::*;
use proptest::prelude::*;

fn parse(line: &str) -> Result<Command, CommandError> {
    Command::parse(line.as_bytes())
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

// req RFC1123:4.1.2.13-MUST-1, RFC1123:4.1.2.13-MUST-2, RFC1123:4.1.2.13-MUST-3
#[test]
fn verbs_ignore_case_and_arguments_are_unchanged() {
    assert_eq!(parse("USER Ann"), Ok(Command::User(name("Ann"))));
    assert_eq!(parse("pass  x "), Ok(Command::Pass(Secret::new(" x ").unwrap())));
    assert_eq!(parse("Acct"), Ok(Command::Acct(Secret::new("").unwrap())));
    assert_eq!(parse("RETR  two  spaces "), Ok(Command::Retr(name(" two  spaces "))));
    assert_eq!(parse("XPWD"), Ok(Command::Pwd));
    assert_eq!(parse("NOPE"), Err(CommandError::Unrecognized));
    assert_eq!(parse("RETR"), Err(CommandError::Syntax(Verb::Retr)));
    assert_eq!(parse("ADAT x"), Err(CommandError::NotImplemented(Verb::Adat)));
}

#[test]
fn types_are_parsed_and_unknown_types_distinguished_from_malformed_ones() {
    let type_local = |bits| Ok(Command::Type(Type::Local(ByteSize::new(bits).unwrap())));
    assert_eq!(parse("TYPE a n"), Ok(Command::Type(Type::Ascii(Format::NonPrint))));
    assert_eq!(parse("TYPE E C"), Ok(Command::Type(Type::Ebcdic(Format::CarriageControl))));
    assert_eq!(parse("TYPE I"), Ok(Command::Type(Type::Image)));
    for line in ["TYPE L 36", "TYPE l36"] {
        assert_eq!(parse(line), type_local(36));
    }
    assert_eq!(parse("TYPE L"), type_local(8));
    for line in
        ["TYPE L 0", "TYPE L 65", "TYPE X", "TYPE A X", "STRU X", "MODE X", "AUTH KERBEROS_V4"]
    {
        assert!(matches!(parse(line), Err(CommandError::Parameter(_))), "{line}");
    }
    for line in ["TYPE", "TYPE A N N", "TYPE L x", "STRU", "MODE", "PORT 1,2,3", "REST x", "EPSV x"]
    {
        assert!(matches!(parse(line), Err(CommandError::Syntax(_))), "{line}");
    }
}

#[test]
fn options_of_list_precede_the_name() {
    let list_command = |shows_hidden, text: Option<&str>| {
        Ok(Command::List(ListArgument { shows_hidden, name: text.map(name) }))
    };
    assert_eq!(parse("LIST"), list_command(false, None));
    assert_eq!(parse("LIST -la"), list_command(true, None));
    assert_eq!(parse("LIST -l -a  some dir"), list_command(true, Some("some dir")));
    assert_eq!(parse("LIST --x"), list_command(false, Some("--x")));
}

#[test]
fn site_mff_comb_and_ranges_are_parsed() {
    let time = Timestamp::parse(b"20020717210715").unwrap();
    assert_eq!(parse("SITE partial a b"), Ok(Command::Site(Site::Partial(name("a b")))));
    assert_eq!(parse("SITE chmod 0640 a b"), Ok(Command::Site(Site::Chmod(0o640, name("a b")))));
    assert_eq!(
        parse("SITE UTIME 20020717210715 f"),
        Ok(Command::Site(Site::Utime(time, name("f"))))
    );
    let line = "SITE UTIME a b 20020717210715 20020717210715 20020717210715 UTC";
    assert_eq!(parse(line), Ok(Command::Site(Site::Utime(time, name("a b")))));
    assert_eq!(parse("MFMT 20020717210715 a b"), Ok(Command::Mfmt(time, name("a b"))));
    let facts = SetFacts { modified: Some(time), created: None, mode: Some(0o600) };
    assert_eq!(
        parse("MFF Modify=20020717210715;unix.mode=600; f"),
        Ok(Command::Mff(facts, name("f")))
    );
    assert_eq!(parse("MFF Color=red; f"), Err(CommandError::Parameter(Verb::Mff)));
    let parts = [name("b"), name("c")].to_vec();
    assert_eq!(parse("COMB \"a a\" b c"), Ok(Command::Comb(name("a a"), parts)));
    assert_eq!(parse("COMB a"), Err(CommandError::Syntax(Verb::Comb)));
    let hash = |range, text| Ok(Command::HashOf(HashAlgorithm::Crc32, range, name(text)));
    assert_eq!(parse("XCRC a b"), hash(Range::default(), "a b"));
    assert_eq!(parse("XCRC \"a 1\" 5"), hash(Range { start: 5, end: None }, "a 1"));
    assert_eq!(parse("XCRC a 5 9"), hash(Range { start: 5, end: Some(9) }, "a"));
    assert_eq!(parse("XCRC 5"), hash(Range::default(), "5"));
}

#[test]
fn a_password_is_not_displayed() {
    let command = parse("PASS sesame").unwrap();
    assert!(!std::format!("{command:?}").contains("sesame"));
}

// attack row 91
#[test]
fn row_91_each_verb_accepts_or_refuses_arguments_of_any_length() {
    for verb in Verb::ALL {
        for len in [0, 1, 63, 255, 256, 4096, 65_536] {
            for byte in [b'a', b'1', b'%', b'"', 0xFF] {
                let line = [verb.text().as_bytes(), b" ", &[byte].repeat(len)].concat();
                _ = Command::parse(&line);
            }
        }
    }
}

proptest! {
    // attack row 92
    #[test]
    fn row_92_no_command_contains_a_line_end(
        verb in 0..Verb::ALL.len(), before in "[ -~]{0,20}", control in 0..3_usize, after in ".{0,20}"
    ) {
        let verb = Verb::ALL[verb];
        let line = [verb.text(), " ", &before, ["\r", "\n", "\0"][control], &after].concat();
        prop_assert_eq!(parse(&line), Err(CommandError::Syntax(verb)));
    }
}

#[test]
fn a_secret_has_at_most_the_length_of_a_command_and_no_control_character() {
    let longest = std::vec![b'a'; COMMAND_MAX_BYTES + 1];
    assert!(Secret::new(&longest[1..]).is_ok());
    assert_eq!(Secret::new(longest), Err(NameError::TooLong));
    assert_eq!(Secret::new("a\r\nDELE b"), Err(NameError::Control));
}

#[test]
fn the_name_of_a_host_may_end_but_not_begin_with_a_period() {
    let is_parsed = |line: &str| Command::parse(line.as_bytes()).is_ok();
    let names = ["example.", "a.example.", "[::1]", ".example", "a..b", "[10.0.0.1]", "a/b"];
    let parsed = names.map(|name| is_parsed(&std::format!("HOST {name}")));
    assert_eq!(parsed, [true, true, true, false, false, false, false]);
}
