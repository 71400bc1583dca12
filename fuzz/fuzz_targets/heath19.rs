//! Input: arbitrary bytes from a host into the Heath-19, interleaved with keystrokes. Checked:
//! split or whole, the bytes paint the same screen, the cursor stays on the screen, the queues are
//! limited, and the rendering matches the screen.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::terminal::heath19::{Heath19, Key, Modifiers, Switches};
use protocols::terminal::{Picture, Terminal, draw};

/// Limit of queued replies, plus one transmitted page.
const MAX_OUTPUT_BYTES: usize = 256 + 24 * 80 * 10 + 1;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let (Some(s401), Some(s402), Some(cut)) = (script.byte(), script.byte(), script.byte()) else {
        return;
    };
    let switches = Switches::from_settings(s401, s402);
    let whole = paint(switches, [script.0]);
    let cut_up = paint(switches, script.0.chunks(usize::from(cut % 16) + 1));
    assert_eq!(whole.picture(), cut_up.picture());
    assert_eq!(whole.output(), cut_up.output());
    with_keys(switches, script);
});

fn paint<'a>(switches: Switches, pieces: impl IntoIterator<Item = &'a [u8]>) -> Heath19 {
    let mut bench = Bench::default();
    let mut terminal = Heath19::new(switches);
    terminal.transmit_on_request(true);
    for piece in pieces {
        terminal.receive(piece, &mut bench.cx());
    }
    terminal
}

fn with_keys(switches: Switches, mut script: Script<'_>) {
    let mut bench = Bench::default();
    let mut terminal = Heath19::new(switches);
    terminal.transmit_on_request(true);
    let mut screen = Terminal::new(80, 25);
    let mut old = Picture::new(80, 25);
    while let Some(len) = script.byte() {
        terminal.receive(script.piece(usize::from(len % 64)), &mut bench.cx());
        let key = match script.byte().unwrap_or(0) {
            byte @ 0..0x80 => Key::Character(byte),
            byte @ 0x80..0xa0 => Key::Pad(byte & 15),
            0xa0..0xc0 => Key::Erase,
            _ => Key::Scroll,
        };
        let modifiers = Modifiers { shift: len & 128 != 0, control: len & 64 != 0 };
        terminal.key(key, modifiers, &mut bench.cx());
        let (row, column) = terminal.cursor();
        assert!(row < 25 && column < 80 && terminal.waiting() <= 128);
        assert!(terminal.output().len() <= MAX_OUTPUT_BYTES);
        terminal.sent(usize::from(len));
        let new = terminal.picture();
        screen.receive(&draw(&old, &new), &mut bench.cx());
        assert!((0..25).all(|row| screen.picture().row(row) == new.row(row)));
        old = new;
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let screens: [&[u8]; 6] = [
        b"hello\r\nworld\x08\x07\t!",
        b"\x1bY7 \x1b[\n\n\nheld\x1b\\",
        b"\x1bx1\x1bY8 status\x1bj\x1bH\x1bk\x1bE\x1by1",
        b"\x1bF`ab^\x1bG\x1bpx\x1bq\x1b#\x1b]\x1bn\x1bZ",
        b"\x1b@abc\x1bO\x1bL\x1bM\x1bN\x1bK\x1bJ\x1bb\x1bl\x1bo\x1bI",
        b"\x1b<\x1b[3;4H\x1b[7;10mx\x1b[m\x1b[>1;9h\x1b[6n\x1b[2J\x1b[?2h",
    ];
    screens.into_iter().map(|screen| [&[0x80, 4, 2], screen].concat()).collect()
}
