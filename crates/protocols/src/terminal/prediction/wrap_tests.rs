//! Tests of lines that are longer than a row.

use super::*;

/// A shell with line editing and a prompt of two columns. At the end of a row it sends a blank and
/// CR to move to the next row. It can erase back into the previous row.
fn shell(columns: usize) -> Program {
    let mut at = 2;
    Box::new(move |keys| {
        let mut output = Vec::new();
        for key in keys {
            match key {
                b'\r' => {
                    output.extend_from_slice(b"\r\n$ ");
                    at = 2;
                }
                0x7f if at == 2 => output.push(7),
                0x7f if at % columns == 0 => {
                    at -= 1;
                    output
                        .extend_from_slice(format!("\x1b[A\x1b[{}C\x1b[K", columns - 1).as_bytes());
                }
                0x7f => {
                    at -= 1;
                    output.extend_from_slice(b"\x08\x1b[K");
                }
                key => {
                    at += 1;
                    output.push(*key);
                    if at % columns == 0 {
                        output.extend_from_slice(b" \r");
                    }
                }
            }
        }
        output
    })
}

const TEXT: &str = "the quick brown fox jumps over the lazy dog and on and on it runs";

#[test]
fn a_line_is_predicted_across_a_pending_wrap() {
    let mut world = World::with_measured_echo(100, 40, kernel_echo());
    world.type_slowly(TEXT, 60);
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.unpredicted_terminal.row_text(1), TEXT.get(37..).unwrap());
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed), (0, statistics.keys));
    assert_eq!(world.predictor.wrap, Some(Wrap::Pending));
    // Keys typed after the wrap, before its echo arrived, were not displayed.
    assert!(statistics.shown + 4 >= statistics.keys, "{statistics:?}");
}

#[test]
fn a_line_is_predicted_across_the_immediate_wrap_of_a_shell() {
    let mut world = World::with_measured_echo(100, 40, shell(40));
    world.type_slowly(TEXT, 60);
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed), (0, statistics.keys));
    assert_eq!(world.predictor.wrap, Some(Wrap::Immediate));
    assert!(statistics.shown + 4 >= statistics.keys, "{statistics:?}");
}

#[test]
fn the_last_column_of_a_row_is_displayed_at_once() {
    let mut world = World::with_measured_echo(100, 40, shell(40));
    world.type_slowly(TEXT.get(..36).unwrap(), 200);
    assert_eq!(world.unpredicted_terminal.cursor(), (0, 39));
    world.type_keys(b"X");
    assert_eq!((world.row().len(), world.real_terminal.cursor()), (40, (0, 39)));
    world.type_keys(b"y");
    assert_eq!(
        (world.real_terminal.row_text(1), world.real_terminal.cursor()),
        (String::new(), (0, 39))
    );
    world.rest(200);
    assert_eq!((world.row().as_str(), world.real_terminal.cursor()), ("y", (1, 1)));
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn keys_after_a_wrap_are_displayed_once_the_wrap_is_echoed() {
    let mut world = World::with_measured_echo(100, 40, shell(40));
    world.type_slowly(TEXT.get(..36).unwrap(), 200);
    world.type_slowly("Xab", 45);
    assert_eq!((world.row().as_str(), world.unpredicted_terminal.cursor()), ("ab", (1, 0)));
}

#[test]
fn erasing_back_across_a_wrap_is_predicted_for_a_shell() {
    let mut world = World::with_measured_echo(100, 40, shell(40));
    world.type_slowly(TEXT.get(..40).unwrap(), 60);
    world.rest(1000);
    let previous_statistics = world.statistics();
    world.type_slowly("\x7f\x7f\x7f\x7f\x7f\x7f", 60);
    world.rest(1000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed - previous_statistics.confirmed), (0, 6));
    assert_eq!((world.row().len(), world.real_terminal.cursor()), (37, (0, 37)));
    assert!(world.equals_the_host_screen());
    world.type_keys(b"z");
    assert_eq!(world.real_terminal.cursor(), (0, 38));
}

#[test]
fn erasing_back_across_a_wrap_is_not_predicted_for_kernel_echo() {
    let mut world = World::with_measured_echo(100, 40, kernel_echo());
    world.type_slowly(TEXT.get(..38).unwrap(), 60);
    world.type_slowly("\x7f\x7f\x7f\x7f", 60);
    world.rest(6000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong_seen, 0);
}

#[test]
fn a_pending_wrap_of_the_host_stays_pending() {
    let mut world = World::with_measured_echo(100, 40, shell(40));
    // The shell has wrapped at once before; now the kernel echoes.
    world.type_slowly(TEXT.get(..40).unwrap(), 60);
    world.type_slowly("\r", 1000);
    assert_eq!(world.predictor.wrap, Some(Wrap::Immediate));
    world.program = kernel_echo();
    world.type_slowly(TEXT.get(..37).unwrap(), 200);
    // The echo of the last column arrives between that key and the one that erases it.
    world.type_slowly("X", 60);
    world.type_slowly("\x7f", 45);
    assert!(world.unpredicted_terminal.is_wrap_pending());
    world.show(b"yz");
    assert!(world.equals_the_host_screen());
}

#[test]
fn all_keys_are_confirmed_across_a_wrap_that_scrolls() {
    for (program, gap_ms) in
        [(shell(40), 10), (shell(40), 120), (kernel_echo(), 10), (kernel_echo(), 120)]
    {
        let mut world = World::with_measured_echo(300, 40, program);
        world.type_slowly("\r\r\r\r\r\r\r\r", 400);
        world.type_slowly(TEXT, gap_ms);
        world.type_keys(b"\r");
        world.rest(6000);
        let statistics = world.statistics();
        assert_eq!((statistics.wrong, statistics.wrong_seen), (0, 0), "{gap_ms} ms");
        assert!(world.equals_the_host_screen());
    }
}

#[test]
fn enter_after_a_full_row_moves_to_the_next_row_or_the_one_after_it() {
    for program in [shell(40), kernel_echo()] {
        let mut world = World::with_measured_echo(100, 40, program);
        for _ in 0..3 {
            world.type_slowly(TEXT.get(..37).unwrap(), 30);
            world.type_slowly("\r", 500);
        }
        world.rest(6000);
        assert_eq!(world.statistics().wrong, 0);
        assert!(world.equals_the_host_screen());
    }
}

#[test]
fn predictions_do_not_overwrite_the_next_row_before_the_host_wraps() {
    let mut world = World::with_measured_echo(100, 40, kernel_echo());
    world.show(b"\x1b[2;1Hbelow\x1b[1;4H");
    world.type_slowly(TEXT, 60);
    world.rest(6000);
    assert_eq!(world.statistics().wrong_seen, 0);
    assert!(world.equals_the_host_screen());
}

proptest! {
    #[test]
    fn a_line_of_any_length_is_confirmed_completely(
        text in "[a-z ]{1,90}",
        rubouts in "\x7f{0,60}",
        more in "[a-z]{0,30}",
        (gap_ms, round_trip_ms) in (1..150_u64, 40..300_u64),
        (columns, row) in (8..40_u16, 1..9_u16),
    ) {
        let mut world = World::new(round_trip_ms, columns, shell(columns.into()));
        world.show(format!("\x1b[{row};1H$ ").as_bytes());
        world.type_keys(b"w");
        world.rest(2000);
        for keys in [text, rubouts, more] {
            world.type_slowly(&keys, gap_ms);
            world.rest(20_000);
        }
        prop_assert!(world.equals_the_host_screen());
        prop_assert_eq!(world.statistics().wrong_seen, 0);
    }
}

#[test]
fn text_is_predicted_in_the_row_that_enter_scrolls_in() {
    let mut world = World::new(100, 20, kernel_echo());
    world.show(b"\x1b[8;1H");
    world.type_keys(b"\r");
    world.type_keys(b"a");
    assert_eq!(world.statistics().predicted, 2);
}

#[test]
fn a_motion_into_the_last_column_is_not_predicted() {
    let predicted_from = |column| {
        let mut world = World::new(100, 10, kernel_echo());
        world.show(format!("\x1b[{column}G").as_bytes());
        world.type_keys(b"\x1b[C");
        world.statistics().predicted
    };
    assert_eq!([8, 9].map(predicted_from), [1, 0]);
}

#[test]
fn lines_outside_of_the_margins_are_not_skipped_in_a_flood() {
    let mut world = World::new(100, 20, kernel_echo());
    world.show(b"\x1b[1;3r\x1b[8;1H");
    world.show(format!("first\r\n{}", "x\r\n".repeat(6000)).as_bytes());
    assert_eq!(world.predictor.host_screen.row_text(7), "xirst");
}
