//! The filter policy: the sequences that pass.
//!
//! | removed | reason |
//! |---|---|
//! | OSC 52 | writes or reads the clipboard |
//! | OSC 4, 5, 10 to 19, 21, 22 with `?` | the terminal answers with a color or a shape |
//! | OSC 3, 46, 50, 51 | sets window properties, log files or fonts, or sends commands |
//! | OSC 9 (except 9;4), 99, 777, 1337, unknown ones | sends notifications or commands |
//! | DCS: DECRQSS, XTGETTCAP | the terminal answers |
//! | DCS: DECUDK, macros, fonts | defines keys, macros or fonts |
//! | any other DCS except sixels and synchronized updates | sends commands to tmux or kitty |
//! | APC, PM, SOS | makes kitty answer or read files (graphics protocol) |
//! | ESC ] P, ESC ] R except on the Linux console | the terminal would wait for a terminator |
//! | CSI 11, 13, 15, 20, 21 t | the terminal answers with the state or the title of its window |
//! | CSI i | prints the screen |
//! | CSI ? n except 6 and 996 | the terminal answers with the state of its devices |
//! | CSI = c, CSI > q | the terminal answers with text |
//! | CSI $ u, $ w, & u, * y, * z, " v, ' \|, # \|, # R | requests reports, or runs macros |
//! | CSI ? 2 l, ESC % except G | the terminal would parse later input differently from the filter |
//! | ENQ | the terminal answers with its answerback string |
//! | counts above 32,767, windows of more than 2,000 rows or columns | keeps the terminal busy |
//! | more than 32 titles per second, or combining marks on a character | keeps the terminal busy |
//!
//! Requests pass if their answer consists of numbers in a fixed form, because programs wait for
//! these answers: device attributes (CSI c, CSI > c, ESC Z), status and cursor position (CSI 5 n,
//! CSI 6 n), modes (CSI $ p), keyboard flags (CSI ? u), and sizes (CSI 14, 16, 18, 19 t).

use net::time::{Duration, Instant};

/// Settings of a [`Filter`](super::Filter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether the filter is off and passes all sequences.
    pub passes_all: bool,
    /// Whether the clipboard may be written (OSC 52). It can never be read.
    pub allows_clipboard: bool,
    /// Whether the terminal uses UTF-8; otherwise each byte is a character.
    pub is_utf8: bool,
    /// Whether the terminal is the Linux console, whose palette commands (ESC ] P, ESC ] R) have no
    /// terminator. For other terminals these commands are removed, because such a terminal would
    /// wait for a terminator and hide the text that follows.
    pub is_linux_console: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { passes_all: false, allows_clipboard: false, is_utf8: true, is_linux_console: false }
    }
}

/// Decision of the policy on one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Remove,
}

/// Decision of the policy on a device control string, after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dcs {
    Picture,
    Pass,
    Remove,
}

/// Largest repeat count that passes: the largest that xterm accepts.
const COUNT_MAX: u32 = 32_767;
/// Largest number of rows or columns in a window resize that passes (our choice).
const WINDOW_MAX: u32 = 2_000;
/// Largest number of pixels in a window resize that passes (our choice).
const PIXELS_MAX: u32 = 20_000;
/// Maximum number of window titles per second; further titles are removed (our choice). A shell
/// sets two for each command.
const TITLES_MAX: u64 = 32;
/// Length in bytes of the arguments of a Linux console palette command (ESC ] P): one color index
/// and six digits of RGB.
const PALETTE_BYTES: usize = 7;

pub(super) fn pass_if(passes: bool) -> Verdict {
    if passes { Verdict::Pass } else { Verdict::Remove }
}

/// Rate limiter for titles.
#[derive(Debug)]
pub(super) struct TitleLimit {
    titles_left: u64,
    window_start: Instant,
}

impl Default for TitleLimit {
    fn default() -> Self {
        Self { titles_left: TITLES_MAX, window_start: Instant::ZERO }
    }
}

impl TitleLimit {
    /// Returns whether one more title may pass at `now`.
    pub(super) fn allow(&mut self, now: Instant) -> Verdict {
        if now - self.window_start >= Duration::from_secs(1) {
            *self = Self { titles_left: TITLES_MAX, window_start: now };
        }
        let may_pass = self.titles_left > 0;
        self.titles_left = self.titles_left.saturating_sub(1);
        pass_if(may_pass)
    }
}

/// Returns the verdict for an escape sequence, given without its ESC.
pub(super) fn escape(sequence: &[u8], policy: &Policy) -> Verdict {
    pass_if(!(policy.is_utf8 && sequence.starts_with(b"%") && sequence != b"%G"))
}

/// A control sequence, split into private prefix, parameters, intermediate bytes and final byte.
pub(super) struct Csi<'a> {
    /// The private prefix, if present.
    pub(super) private: Option<u8>,
    pub(super) parameters: &'a [u8],
    pub(super) intermediates: &'a [u8],
    pub(super) last: u8,
}

impl<'a> Csi<'a> {
    /// Parses a sequence after CSI, including its final byte.
    pub(super) fn parse(sequence: &'a [u8]) -> Option<Self> {
        let (&last, rest) = sequence.split_last()?;
        let private = rest.first().copied().filter(|first| matches!(first, b'<'..=b'?'));
        let rest = rest.get(usize::from(private.is_some())..)?;
        let end = rest.iter().position(|byte| *byte < b'0').unwrap_or(rest.len());
        let (parameters, intermediates) = rest.split_at_checked(end)?;
        Some(Self { private, parameters, intermediates, last })
    }

    /// Returns the parameters. An omitted parameter is 0, and one that exceeds 32 bits is
    /// `u32::MAX`.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.parameters.split(|byte| matches!(byte, b';' | b':')).map(number)
    }
}

/// Parses a decimal number; `u32::MAX` if it is too large, 0 if there are no digits.
fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0_u32, |number, digit| {
        let digit = u32::from(digit.wrapping_sub(b'0')).min(9);
        number.saturating_mul(10).saturating_add(digit)
    })
}

/// Returns the verdict for a control sequence, given without its CSI.
pub(super) fn csi(sequence: &[u8]) -> Verdict {
    let Some(csi) = Csi::parse(sequence) else { return Verdict::Remove };
    if csi.numbers().any(|number| number > COUNT_MAX) {
        return Verdict::Remove;
    }
    let first = csi.numbers().next().unwrap_or(0);
    match (csi.private, csi.intermediates, csi.last) {
        (None, b"", b't') => window(first, &csi),
        (None | Some(b'?'), b"", b'i')
        | (Some(b'='), b"", b'c')
        | (Some(b'>'), b"", b'q')
        | (None, b"$", b'u' | b'w')
        | (None, b"&", b'u')
        | (None, b"*", b'y' | b'z')
        | (None, b"\"", b'v')
        | (None, b"'", b'|')
        | (None, b"#", b'|' | b'R') => Verdict::Remove,
        (Some(b'?'), b"", b'n') => pass_if(matches!(first, 6 | 996)),
        (Some(b'?'), b"", b'l') => pass_if(csi.numbers().all(|mode| mode != 2)),
        _ => Verdict::Pass,
    }
}

/// Returns the verdict for a window operation (XTWINOPS).
fn window(operation: u32, csi: &Csi<'_>) -> Verdict {
    let largest = csi.numbers().skip(1).max().unwrap_or(0);
    pass_if(match operation {
        11 | 13 | 15 | 20 | 21 => false,
        4 => largest <= PIXELS_MAX,
        8 => largest <= WINDOW_MAX,
        _ => true,
    })
}

/// Returns the verdict for a device control string, given its header up to the final byte.
pub(super) fn dcs(header: &[u8]) -> Dcs {
    match header {
        // Synchronized updates in their original form, which some terminals support.
        b"=1s" | b"=2s" => Dcs::Pass,
        [parameters @ .., b'q'] if parameters.iter().all(|byte| matches!(byte, b'0'..=b';')) => {
            Dcs::Picture
        }
        _ => Dcs::Remove,
    }
}

/// Returns the verdict for an operating system command.
pub(super) fn osc(
    content: &[u8],
    policy: &Policy,
    titles: &mut TitleLimit,
    now: Instant,
) -> Verdict {
    let (code, rest) = split_code(content);
    match code {
        // Titles, including those of Sun terminals.
        b"0" | b"1" | b"2" | b"30" => titles.allow(now),
        [b'l' | b'L', ..] => titles.allow(now),
        b"4" | b"5" | b"10" | b"11" | b"12" | b"13" | b"14" | b"15" | b"16" | b"17" | b"18"
        | b"19" | b"21" | b"22" => pass_if(!rest.contains(&b'?')),
        // Color resets, the current directory, links, shell marks, and the text size.
        b"104" | b"105" | b"110" | b"111" | b"112" | b"113" | b"114" | b"115" | b"116" | b"117"
        | b"118" | b"119" | b"7" | b"8" | b"133" | b"66" => Verdict::Pass,
        // Progress reports. Other forms run commands in ConEmu.
        b"9" => pass_if(rest.starts_with(b"4;")),
        b"52" => {
            let data = rest.splitn(2, |byte| *byte == b';').nth(1);
            pass_if(policy.allows_clipboard && data.is_some_and(|data| !data.starts_with(b"?")))
        }
        _ => Verdict::Remove,
    }
}

/// Splits an operating system command into its number and its arguments.
pub(super) fn split_code(content: &[u8]) -> (&[u8], &[u8]) {
    let end = content.iter().position(|byte| *byte == b';').unwrap_or(content.len());
    let (code, rest) = content.split_at_checked(end).unwrap_or((content, &[]));
    (code, rest.get(1..).unwrap_or_default())
}

/// Returns whether this is a palette command of the Linux console, which has no terminator.
pub(super) fn is_linux_palette(content: &[u8]) -> bool {
    match content {
        [b'P', colour @ ..] => {
            colour.len() == PALETTE_BYTES && colour.iter().all(u8::is_ascii_hexdigit)
        }
        content => content == b"R",
    }
}
