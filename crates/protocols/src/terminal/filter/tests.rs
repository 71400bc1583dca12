//! Tests of the filter. The oracle is a terminal that implements the dangerous responses of all
//! known terminals, and records its actions in a list.

use super::*;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec;

/// A terminal that executes every sequence; its parser is independent of the filter's.
#[derive(Default)]
struct PermissiveTerminal {
    /// The dangerous actions executed: clipboard access, answers with text, printing, commands.
    actions: Vec<String>,
    /// The displayed text.
    text: String,
    device: String,
}

impl PermissiveTerminal {
    fn displaying(bytes: &[u8]) -> Self {
        let mut terminal = Self::default();
        vte::Parser::new().advance(&mut terminal, bytes);
        terminal
    }

    fn record_action(&mut self, action: impl Into<String>) {
        self.actions.push(action.into());
    }
}

impl vte::Perform for PermissiveTerminal {
    fn print(&mut self, character: char) {
        if character.is_control() && character > DEL.into() {
            self.record_action(format!("C1 {:x}", u32::from(character)));
        }
        self.text.push(character);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            0x05 => self.record_action("answerback"),
            0x80.. => self.record_action(format!("C1 {byte:x}")),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, parameters: &[&[u8]], _: bool) {
        let first = parameters.first().copied().unwrap_or_default();
        let is_query = parameters.iter().skip(1).any(|it| it.starts_with(b"?"));
        let is_harmless = match first {
            b"0" | b"1" | b"2" | b"7" | b"8" | b"30" | b"66" | b"133" => true,
            // Titles of Sun terminals, whose letter is not followed by a semicolon.
            [b'l' | b'L', ..] => true,
            b"4" | b"5" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15" | b"16" | b"17" | b"18"
            | b"19" | b"21" | b"22" => !is_query,
            b"104" | b"105" | b"110" | b"111" | b"112" | b"113" | b"114" | b"115" | b"116"
            | b"117" | b"118" | b"119" => true,
            b"9" => parameters.get(1) == Some(&&b"4"[..]),
            _ => false,
        };
        if !is_harmless {
            self.record_action(format!("OSC {}", String::from_utf8_lossy(first)));
        }
    }

    fn hook(&mut self, _: &vte::Params, intermediates: &[u8], _: bool, last: char) {
        self.device = format!("DCS {}{last}", String::from_utf8_lossy(intermediates));
        if self.device != "DCS q" && self.device != "DCS =s" {
            self.actions.push(self.device.clone());
        }
    }

    fn csi_dispatch(
        &mut self,
        parameters: &vte::Params,
        intermediates: &[u8],
        _: bool,
        last: char,
    ) {
        let numbers: Vec<u16> = parameters.iter().flatten().copied().collect();
        let first = numbers.first().copied().unwrap_or(0);
        let action = match (intermediates, last) {
            (b"", 't') if matches!(first, 11 | 13 | 15 | 20 | 21) => "report of the window",
            (b"" | b"?", 'i') => "print",
            (b"?", 'n') if !matches!(first, 6 | 996) => "device report",
            (b"=", 'c') | (b">", 'q') => "identification",
            (b"$", 'u' | 'w') | (b"&", 'u') | (b"\"", 'v') => "state report",
            (b"*", 'y') => "checksum of the screen",
            (b"*", 'z') => "macro",
            (b"", 'b') if first > 32_767 => "flood",
            _ => return,
        };
        self.record_action(action);
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _: bool, byte: u8) {
        if intermediates == b"%" && byte != b'G' {
            self.record_action("other encoding");
        }
    }
}

fn filter_with_policy(bytes: &[u8], policy: Policy) -> Vec<u8> {
    Filter::new(policy).pass(bytes, Instant::ZERO).to_vec()
}

fn filter_bytes(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    filter_with_policy(bytes.as_ref(), Policy::default())
}

/// Checks that `sequence` causes a dangerous action without the filter and none with the filter.
/// The filter must also prevent the action if the sequence is split at any position, and must pass
/// the surrounding text.
fn assert_removed(sequence: &[u8]) {
    let hostile_bytes = [b"before ", sequence, b"\x1b\\ behind"].concat();
    let terminal = PermissiveTerminal::displaying(&hostile_bytes);
    assert!(!terminal.actions.is_empty(), "{} does nothing", sequence.escape_ascii());
    for cut in 0..hostile_bytes.len() {
        let (first, second) = hostile_bytes.split_at(cut);
        let mut filter = Filter::new(Policy::default());
        let mut bytes = filter.pass(first, Instant::ZERO).to_vec();
        bytes.extend_from_slice(filter.pass(second, Instant::ZERO));
        let terminal = PermissiveTerminal::displaying(&bytes);
        assert_eq!(
            terminal.actions,
            Vec::<String>::new(),
            "{} cut at {cut}",
            sequence.escape_ascii()
        );
        assert!(terminal.text.starts_with("before "), "{}", terminal.text);
        assert!(terminal.text.ends_with(" behind"), "{}", terminal.text);
        assert!(filter.removed() > 0);
    }
}

fn assert_passed(bytes: &[u8]) {
    for cut in 0..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        let mut filter = Filter::new(Policy::default());
        let mut out = filter.pass(first, Instant::ZERO).to_vec();
        out.extend_from_slice(filter.pass(second, Instant::ZERO));
        assert_eq!(out.escape_ascii().to_string(), bytes.escape_ascii().to_string(), "{cut}");
        assert_eq!(filter.removed(), 0);
    }
}

// Attacks; the number in a test name is the row of the attack table.

// attack row 65
#[test]
fn row_65_requests_for_the_title_do_not_reach_the_terminal() {
    assert_removed(b"\x1b]2;;rm -rf ~;\x07\x1b[21t");
    assert_removed(b"\x1b[20t");
    assert_removed(b"\x1b[021;0t");
}

// attack row 66
#[test]
fn row_66_requests_whose_answer_repeats_them_do_not_reach_the_terminal() {
    for request in ["\x1bP$q;evil\r\x1b\\", "\x1bP+q6578\x1b\\", "\x1b[>q", "\x1b[=c"] {
        assert_removed(request.as_bytes());
    }
}

// attack row 67
#[test]
fn row_67_a_request_for_the_font_does_not_reach_the_terminal() {
    assert_removed(b"\x1b]50;?\x07");
}

// attack row 68
#[test]
fn row_68_the_clipboard_is_neither_read_nor_written() {
    for sequence in [
        &b"\x1b]52;c;ZXZpbA==\x07"[..],
        b"\x1b]52;c;?\x1b\\",
        b"\x1b]052;c;ZXZpbA==\x07",
        b"\x1b\x1b]52;c;ZXZpbA==\x07",
        b"\x1b]2;title\x1b]52;c;ZXZpbA==\x07",
        b"\x1b[12\x1b]52;c;ZXZpbA==\x07",
        b"\x1b]52;c;ZXZ\x05pbA==\x07",
        b"\x1b]5\x052;c;ZXZpbA==\x07",
        b"\x1b\x05]52;c;ZXZpbA==\x07",
        b"\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\",
        b"\x1b_G\x1b]52;c;ZXZpbA==\x07",
        b"\x1b]1337;CopyToClipboard=x\x07",
    ] {
        assert_removed(sequence);
    }
}

// attack row 131
#[test]
fn row_131_8_bit_controls_do_not_write_the_clipboard_in_any_charset() {
    let sequences =
        [&b"\x9d52;c;ZXZpbA==\x07"[..], b"\xc2\x9d52;c;ZXZpbA==\x9c", b"\x9b21t", b"\xc2\x9b21t"];
    for sequence in sequences {
        // In UTF-8 the control itself is removed, and the rest is text.
        let out = String::from_utf8(filter_bytes(sequence)).unwrap();
        assert_eq!(out.find(char::is_control).map(|at| &out[at..]).unwrap_or("\x07"), "\x07");
        let policy = Policy { is_utf8: false, ..Policy::default() };
        assert!(
            !filter_with_policy(sequence, policy).contains(&b'2'),
            "{}",
            sequence.escape_ascii()
        );
    }
    // The last byte of a UTF-8 character is not a control.
    assert_passed("❝ quoted ❞ ‛\u{2713}".as_bytes());
    let policy = Policy { is_utf8: false, ..Policy::default() };
    assert_eq!(
        filter_with_policy(b"\x9b1m\xe9\x9b0m", policy),
        b"\x9b1m\xe9\x9b0m".map(as_seven_bits).concat()
    );
}

/// Returns the bytes to which the filter converts `byte`: the 8-bit CSI becomes ESC and `[`.
fn as_seven_bits(byte: u8) -> Vec<u8> {
    if byte == 0x9b { vec![ESC, b'['] } else { vec![byte] }
}

// attack row 69
#[test]
fn row_69_marks_on_one_character_have_a_limit() {
    let marks = |count| format!("e{}x", "\u{301}".repeat(count));
    assert_passed(marks(MARKS_MAX).as_bytes());
    assert_eq!(filter_bytes(marks(100_000)), marks(MARKS_MAX).into_bytes());
}

// attack row 70
#[test]
fn row_70_no_sequence_prints_or_writes_a_file() {
    for sequence in ["\x1b[i", "\x1b[5i", "\x1b[?5i", "\x1b]46;/tmp/evil\x07", "\x1b]3;x=y\x07"] {
        assert_removed(sequence.as_bytes());
    }
}

// attack row 71
#[test]
fn row_71_a_picture_without_an_end_is_ended_by_the_next_sequence() {
    let out = filter_bytes("\x1bPq#0~-~\x1b]52;c;ZXZpbA==\x07text");
    assert_eq!(out, b"\x1bPq#0~-~\x1b\\text");
}

// attack row 72
#[test]
fn row_72_title_floods_and_unbounded_counts_are_limited() {
    let flood = "\x1b]2;title\x07".repeat(100_000);
    assert_eq!(filter_bytes(&flood), "\x1b]2;title\x07".repeat(32).into_bytes());
    let mut filter = Filter::new(Policy::default());
    filter.pass(flood.as_bytes(), Instant::ZERO);
    let later = Instant::ZERO + net::time::Duration::from_secs(1);
    assert_eq!(filter.pass(b"\x1b]0;t\x07", later), b"\x1b]0;t\x07");
    assert_removed(b"\x1b[65535b");
    assert_eq!(filter_bytes("\x1b[4294967297@\x1b[8;30000;30000t"), b"");
    for size in ["8;2001;1", "8;1;2001", "4;20001;1", "4;1;20001"] {
        assert_eq!(filter_bytes(format!("\x1b[{size}t")), b"", "{size}");
    }
    for size in ["8;2000;1", "4;20000;1"] {
        let allowed = format!("\x1b[{size}t");
        assert_eq!(filter_bytes(&allowed), allowed.as_bytes());
    }
    let text = "a".repeat(100_000);
    assert_eq!(filter_bytes(format!("\x1b]2;{text}\x07b")), b"b");
}

// attack row 132
#[test]
fn row_132_an_unterminated_string_is_buffered_up_to_a_limit() {
    for begin in
        ["\x1b]8;;", "\x1b]2;", "\x1bPq", "\x1b_", "\x1b]52;c;", "\x1bk", "\x1b[1", "\x1bP1;"]
    {
        let mut filter = Filter::new(Policy::default());
        filter.pass(begin.as_bytes(), Instant::ZERO);
        for _ in 0..100 {
            filter.pass(&[b'1'; 4096], Instant::ZERO);
            assert!(filter.pending.len() <= STRING_MAX + 8, "{begin:?}");
        }
        let out = filter.pass(b"\x1b[1mtext", Instant::ZERO);
        assert!(out.ends_with(b"\x1b[1mtext"), "{begin:?}: {}", out.escape_ascii());
    }
}

// attack row 73
#[test]
fn row_73_no_sequence_reaches_the_program_around_the_terminal() {
    for sequence in [
        "\x1b]1337;Custom=id=x:evil\x07",
        "\x1b]777;notify;a;b\x07",
        "\x1b]9;7;cmd\x07",
        "\x1b]51;Eevil\x07",
        "\x1bP1000p%begin\x1b\\",
        "\x1bP@kitty-cmd{}\x1b\\",
        "\x1bPtmux;\x1bevil\x1b\\",
    ] {
        assert_removed(sequence.as_bytes());
    }
    assert_eq!(filter_bytes("\x1b_Gf=32;AAAA\x1b\\\x1b^evil\x1b\\\x1bXevil\x1b\\text"), b"text");
}

// attack row 74
#[test]
fn row_74_answerback_requests_are_removed() {
    assert_removed(b"\x05");
    assert_removed(b"\x1b[1\x05m");
    assert_removed(b"\x1b[?15n");
    assert_removed(b"\x1b[1;1;1;1;24;80*y");
}

// Sequences that pass.

#[test]
fn a_character_after_a_malformed_one_passes() {
    assert_eq!(filter_bytes(b"\xe2\xc3\x89"), b"\xe2\xc3\x89");
}

#[test]
fn a_byte_that_begins_no_character_passes_unless_it_is_a_control() {
    assert_eq!(filter_bytes(b"a\xffb"), b"a\xffb");
    assert_eq!(filter_bytes(b"a\x85b"), b"ab");
}

#[test]
fn the_sequences_of_current_programs_pass() {
    for bytes in [
        "\x1b[1;38;2;1;2;3mtext\x1b[0m\r\n\ttab\x08\x07",
        "\x1b]0;title\x07\x1b]2;é界\x1b\\\x1bktitle\x1b\\",
        "\x1b[?1049h\x1b[?25l\x1b[1;24r\x1b[H\x1b[2J\x1b7\x1b8\x1b=\x1b>\x1bc",
        "\x1b(0lqk\x1b(B\x0e\x0f\x1b#8\x1b[!p\x1b%G",
        "\x1b[c\x1b[0c\x1b[>c\x1bZ\x1b[5n\x1b[6n\x1b[?6n\x1b[?2026$p\x1b[?u\x1b[18t\x1b[22;2t",
        "\x1b[?1000;1002;1006h\x1b[>4;2m\x1b[>1u\x1b[<u\x1b[2 q\x1b[?2004h\x1b[?1004h",
        "\x1b]8;;http://example.org/?q=1\x07link\x1b]8;;\x07\x1b]133;A\x07\x1b]7;file://h/p\x07",
        "\x1b]11;rgb:00/00/00\x07\x1b]111\x07\x1b]4;1;#ff0000\x07\x1b]104\x07\x1b]9;4;1;50\x07",
        "\x1bPq\"1;1;8;8#0~~-~~\x1b\\\x1bP=1s\x1b\\",
        "e\u{301}\u{302} 👩\u{200d}👩\u{200d}👧 ❤\u{fe0f} שָׁ",
    ] {
        assert_passed(bytes.as_bytes());
    }
}

// attack row 130
#[test]
fn palette_commands_pass_only_on_the_linux_console() {
    assert_removed(b"\x1b]R");
    assert_removed(b"\x1b]P0ff0000");
    let bytes = b"\x1b]P0ff0000text\x1b]Rtext";
    assert_eq!(filter_bytes(bytes).escape_ascii().to_string(), "texttext");
    let policy = Policy { is_linux_console: true, ..Policy::default() };
    assert_eq!(
        filter_with_policy(bytes, policy).escape_ascii().to_string(),
        bytes.escape_ascii().to_string()
    );
}

#[test]
fn an_allowed_clipboard_can_be_written_but_not_read() {
    let policy = Policy { allows_clipboard: true, ..Policy::default() };
    let write = format!("\x1b]52;c;{}\x07", "QUFB".repeat(10_000));
    assert_eq!(filter_with_policy(write.as_bytes(), policy), write.as_bytes());
    assert_eq!(filter_with_policy(b"\x1b]52;c;?\x07", policy), b"");
}

#[test]
fn everything_passes_if_the_filter_is_off() {
    let policy = Policy { passes_all: true, ..Policy::default() };
    let hostile_bytes = b"\x1b]52;c;ZXZpbA==\x07\x05\xff\x1b[21t\x1b[?1000h\x9b";
    let mut filter = Filter::new(policy);
    assert_eq!(filter.pass(hostile_bytes, Instant::ZERO), hostile_bytes);
    assert_eq!(filter.removed(), 0);
    assert_eq!(filter.restore(), b"\x1b[?1000l");
}

// Modes.

fn restored(bytes: &str) -> String {
    let mut filter = Filter::new(Policy::default());
    filter.pass(bytes.as_bytes(), Instant::ZERO);
    String::from_utf8(filter.restore()).unwrap()
}

// attack row 133
#[test]
fn modes_left_set_by_a_program_are_reset() {
    for (set, reset) in [
        ("\x1b[?1049h", "\x1b[?1049l"),
        ("\x1b[?1000h\x1b[?1002h\x1b[?1003;1006h", "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"),
        ("\x1b[?25l", "\x1b[?25h"),
        ("\x1b[?1h\x1b=", "\x1b>\x1b[?1l"),
        ("\x1b[?2004h\x1b[?1004h", "\x1b[?1004l\x1b[?2004l"),
        ("\x1b[5;20r", "\x1b7\x1b[r\x1b8"),
        ("\x1b[?1049h\x1b[5;20r", "\x1b[r\x1b[?1049l"),
        ("\x1b[1;31m", "\x1b[m"),
        ("\x1b(0", "\x1b(B"),
        ("\x0e", "\x0f"),
        ("\x1b[?7l\x1b[4h", "\x1b[4l\x1b[?7h"),
        ("\x1b[4 q", "\x1b[0 q"),
        ("\x1b[>1u\x1b[>4;2m", "\x1b[>4;0m\x1b[<1u"),
        ("\x1b]8;;http://example.org\x07", "\x1b]8;;\x1b\\"),
        ("\x1b]11;#000000\x07", "\x1b]111\x1b\\"),
        ("\x1bPq#0~", "\x1b\\"),
    ] {
        assert_eq!(restored(set), reset, "{set:?}");
    }
}

#[test]
fn the_reset_is_returned_when_the_modes_have_changed() {
    let mut filter = Filter::new(Policy::default());
    assert_eq!(filter.changed_reset(), None);
    filter.pass(b"\x1b[?1049h\x1b[?2004h", Instant::ZERO);
    assert_eq!(filter.changed_reset().unwrap(), b"\x1b[?2004l\x1b[?1049l");
    filter.pass(b"text", Instant::ZERO);
    assert_eq!(filter.changed_reset(), None);
    filter.pass(b"\x1b[?2004l\x1b[?1049l", Instant::ZERO);
    assert_eq!(filter.changed_reset().unwrap(), b"");
}

#[test]
fn a_program_that_resets_its_modes_leaves_nothing_to_reset() {
    let session = "\x1b[?1049h\x1b[?1h\x1b=\x1b[?25l\x1b[1;31mtext\x1b[m\x1b[2;3r\x1b[r\x1b(0x\x1b(B\
        \x1b[?25h\x1b>\x1b[?1l\x1b[?1049l\x1b[?2004h\x1b[?2004l\x1b[?1000h\x1b[?1000l\x0e\x0f";
    assert_eq!(restored(session), "");
    assert_eq!(restored("\x1b[?1049h\x1b[?1000h\x1b[1m\x1bc"), "");
    assert_eq!(restored("plain text\r\n"), "");
    assert_eq!(restored("\x1b[>4;2m\x1b[>4m"), "");
}

// Arbitrary input.

fn benign() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{0,20}",
        2 => "[é界♥ß\u{301}]{0,6}",
        1 => Just("\r\n".to_string()),
        1 => "[\x07\x08\t\n\r]",
        2 => "\x1b\\[[0-9]{0,2}(;[0-9]{1,2}){0,3}[mABCDHJKLMPX@dGr]",
        1 => "\x1b\\[\\?(1|7|25|1000|1006|1049|2004)[hl]",
        1 => "\x1b(7|8|=|>|M|\\(0|\\(B)",
        1 => "\x1b\\[(c|6n|>c|18t)",
        1 => "\x1b\\](7|8;|133);[ -~]{0,30}(\x07|\x1b\\\\)",
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..4),
        4 => prop::sample::select(vec![
            &b"\x1b"[..], b"\x1b]", b"52;c;", b"ZXZpbA==", b"\x07", b"\x1b\\", b"\x1bP", b"$q",
            b"\x1b[", b"21t", b"5i", b"\x05", b"\x9d", b"\xc2", b"\x9b", b"?", b"\x18", b"\x1b_",
            b"m", b"2;", b"\xe2", b"\x1bk", b"q", b";", b"0", b"\x1b%", b"@", b"G", b"=", b"\n",
        ]).prop_map(<[u8]>::to_vec),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_benign_session_passes_unchanged_in_any_chunks(
        session in benign(),
        cuts in prop::collection::vec(1..40_usize, 1..20),
    ) {
        let mut filter = Filter::new(Policy::default());
        let mut out = Vec::new();
        let mut rest = session.as_slice();
        for count in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*count));
            out.extend_from_slice(filter.pass(piece, Instant::ZERO));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(out.escape_ascii().to_string(), session.escape_ascii().to_string());
        prop_assert_eq!(filter.removed(), 0);
    }

    // attack row 130
    #[test]
    fn any_input_is_harmless_to_the_terminal_in_any_chunks(
        bytes in hostile_bytes(),
        cuts in prop::collection::vec(1..5_usize, 1..20),
        is_utf8 in any::<bool>(),
    ) {
        let policy = Policy { is_utf8, ..Policy::default() };
        let filtered = filter_with_policy(&bytes, policy);
        if is_utf8 {
            let actions = PermissiveTerminal::displaying(&filtered).actions;
            prop_assert!(actions.is_empty(), "{actions:?} in {}", filtered.escape_ascii());
        }
        let mut filter = Filter::new(policy);
        let mut out = Vec::new();
        let mut rest = bytes.as_slice();
        for count in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*count));
            out.extend_from_slice(filter.pass(piece, Instant::ZERO));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(out.escape_ascii().to_string(), filtered.escape_ascii().to_string());
        // The output passes the filter unchanged: no removal has joined the bytes around it into a
        // new sequence.
        let filtered = [filtered.as_slice(), b"x"].concat();
        let refiltered = filter_with_policy(&filtered, policy);
        prop_assert_eq!(refiltered.escape_ascii().to_string(), filtered.escape_ascii().to_string());
    }
}
