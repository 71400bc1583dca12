//! Input: arbitrary bytes from a host into the terminal. Checked: split or whole, the bytes paint
//! the same screen, the cursor stays on a screen of any size, every wide character has its second
//! cell, and replies are limited.
#![no_main]

use fuzz::bench::Bench;
use fuzz::corpus::write_seeds;
use fuzz::script::Script;
use libfuzzer_sys::fuzz_target;
use protocols::terminal::Terminal;

/// Limit of queued replies, bytes.
const MAX_OUTPUT_BYTES: usize = 256;

fuzz_target!(init: write_seeds(&seeds()), |input: &[u8]| {
    let mut script = Script(input);
    let (Some(columns), Some(rows), Some(cut)) = (script.byte(), script.byte(), script.byte())
    else {
        return;
    };
    let size = (u16::from(columns % 90), u16::from(rows % 40));
    let whole = paint(size, [script.0]);
    let cut_up = paint(size, script.0.chunks(usize::from(cut % 16) + 1));
    assert_eq!(whole.text(), cut_up.text());
    assert_eq!((whole.cursor(), whole.title()), (cut_up.cursor(), cut_up.title()));
    assert_eq!(whole.cells_written(), cut_up.cells_written());
    assert_eq!(whole.output(), cut_up.output());
    resize_between(size, script);
});

fn paint<'a>(size: (u16, u16), pieces: impl IntoIterator<Item = &'a [u8]>) -> Terminal {
    let mut bench = Bench::default();
    let mut terminal = Terminal::new(size.0, size.1);
    for piece in pieces {
        terminal.receive(piece, &mut bench.cx());
    }
    is_sound(&terminal);
    terminal
}

fn resize_between(size: (u16, u16), mut script: Script<'_>) {
    let mut bench = Bench::default();
    let mut terminal = Terminal::new(size.0, size.1);
    while let Some(len) = script.byte() {
        terminal.receive(script.piece(usize::from(len % 32)), &mut bench.cx());
        if len >= 128 {
            let columns = script.byte().unwrap_or(0);
            let rows = script.byte().unwrap_or(0);
            terminal.resize(u16::from(columns % 90), u16::from(rows % 40));
        }
        terminal.sent(usize::from(len));
        is_sound(&terminal);
    }
}

fn is_sound(terminal: &Terminal) {
    let (columns, rows) = terminal.size();
    let (row, column) = terminal.cursor();
    assert!(columns > 0 && rows > 0 && row < rows && column < columns);
    assert!(terminal.output().len() <= MAX_OUTPUT_BYTES);
    for row in 0..rows {
        for column in 0..columns {
            let cell = terminal.cell(row, column).expect("every position has a cell");
            let next = terminal.cell(row, column + 1);
            assert_eq!(cell.is_wide(), next.is_some_and(|next| next.is_tail()));
        }
        assert!(!terminal.cell(row, 0).expect("a first cell").is_tail());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let screens: [&[u8]; 13] = [
        b"hello\r\nworld\x08\x07\t!",
        b"\x1b[2J\x1b[3;4H\x1b[1;31mred\x1b[0m\x1b[K\x1b[1P\x1b[2@\x1b[L\x1b[M",
        b"\x1b[2;5r\x1b[?6h\x1b[5;5H\n\n\n\x1bM\x1bM\x1b[S\x1b[T\x1b[r",
        b"\x1b[?1049habc\x1b[?1049l\x1b[?7labcdefghijklmnop\x1b7\x1b8\x1bc",
        "\u{4e2d}\u{6587}e\u{301}\u{1f600}\x1b[1Ga\x1b[2X".as_bytes(),
        b"\x1b[6n\x1b[5n\x1b[c\x1b[>c\x1b]0;title\x07\x1b]2;other\x1b\\",
        b"\x1b(0lqqk\x1b(B\x0ex\x0f\x1b[38;5;200m\x1b[48;2;1;2;3mX\x1b[3g\x1bH\t",
        b"\x1b[?69h\x1b[3;7s\x1b[2;4r\x1b[?6habcdefghijk\n\n\x1bM\x1b[2P\x1b[@\x1b[L\x1b[M\x1b[S\x1b6\x1b9",
        b"\x1b[1\"qab\x1b[0\"qcd\x1b[?2K\x1bVx\x1bW\x1b[2J\x1b[2'}\x1b[3'~\x1b#6wide\x1b#3top",
        b"\x1b[42;1;1;3;3$x\x1b[1;1;2;2;1;2;2;1$v\x1b[1;1;2;2$z\x1b[2*x\x1b[1;1;3;4;1;7$r\x1b[1$t",
        b"\x1bP$qm\x1b\\\x1bP$qr\x1b\\\x1b[?69$p\x1b[18t\x1b[?7;45s\x1b[?7l\x1b[?7r\x1b[e\x1b[3b",
        b"\x1b[?45habcdefghijklm\x08\x08\x08\x1b[20D\x1b[?1045h\x1b[99D\xe7\x95\x8c",
        b"\xe4\xb8\xff\xc3\x28\xf0\x9f\x98\x1b[999999999;1H\x1b[4h",
    ];
    screens.into_iter().map(|screen| [&[10, 5, 2], screen].concat()).collect()
}
