//! Tests of lines that are longer than a row.

use super::*;

/// A shell with line editing, which starts in column 2: it leaves a full row by a blank and CR, and
/// erases back across the edge.
fn shell(columns: usize) -> Program {
    let mut at = 2;
    Box::new(move |keys| {
        let mut said = Vec::new();
        for key in keys {
            match key {
                b'\r' => {
                    said.extend_from_slice(b"\r\n$ ");
                    at = 2;
                }
                0x7f if at == 2 => said.push(7),
                0x7f if at % columns == 0 => {
                    at -= 1;
                    said.extend_from_slice(format!("\x1b[A\x1b[{}C\x1b[K", columns - 1).as_bytes());
                }
                0x7f => {
                    at -= 1;
                    said.extend_from_slice(b"\x08\x1b[K");
                }
                key => {
                    at += 1;
                    said.push(*key);
                    if at % columns == 0 {
                        said.extend_from_slice(b" \r");
                    }
                }
            }
        }
        said
    })
}

const TEXT: &str = "the quick brown fox jumps over the lazy dog and on and on it runs";

#[test]
fn a_line_is_predicted_through_a_wrap_that_the_host_leaves_pending() {
    let mut world = World::warm(100, 40, cooked());
    world.types_slowly(TEXT, 60);
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.unpredicted.row_text(1), TEXT.get(37..).unwrap());
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed), (0, statistics.keys));
    assert_eq!(world.predictor.wrap, Some(Wrap::Pending));
    // Keys typed after the wrap, before its echo arrived, were not displayed.
    assert!(statistics.shown + 4 >= statistics.keys, "{statistics:?}");
}

#[test]
fn a_line_is_predicted_through_a_wrap_that_a_shell_makes_at_once() {
    let mut world = World::warm(100, 40, shell(40));
    world.types_slowly(TEXT, 60);
    world.rest(1000);
    assert!(world.equals_the_host_screen());
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed), (0, statistics.keys));
    assert_eq!(world.predictor.wrap, Some(Wrap::Immediate));
    assert!(statistics.shown + 4 >= statistics.keys, "{statistics:?}");
}

#[test]
fn the_last_column_of_a_row_is_shown_at_once() {
    let mut world = World::warm(100, 40, shell(40));
    world.types_slowly(TEXT.get(..36).unwrap(), 200);
    assert_eq!(world.unpredicted.cursor(), (0, 39));
    world.types(b"X");
    assert_eq!((world.row().len(), world.real.cursor()), (40, (0, 39)));
    world.types(b"y");
    assert_eq!((world.real.row_text(1), world.real.cursor()), (String::new(), (0, 39)));
    world.rest(200);
    assert_eq!((world.row().as_str(), world.real.cursor()), ("y", (1, 1)));
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn keys_behind_a_wrap_are_shown_as_soon_as_it_has_come() {
    let mut world = World::warm(100, 40, shell(40));
    world.types_slowly(TEXT.get(..36).unwrap(), 200);
    world.types_slowly("Xab", 45);
    assert_eq!((world.row().as_str(), world.unpredicted.cursor()), ("ab", (1, 0)));
}

#[test]
fn a_line_is_erased_back_over_the_edge_by_a_shell() {
    let mut world = World::warm(100, 40, shell(40));
    world.types_slowly(TEXT.get(..40).unwrap(), 60);
    world.rest(1000);
    let before = world.statistics();
    world.types_slowly("\x7f\x7f\x7f\x7f\x7f\x7f", 60);
    world.rest(1000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.confirmed - before.confirmed), (0, 6));
    assert_eq!((world.row().len(), world.real.cursor()), (37, (0, 37)));
    assert!(world.equals_the_host_screen());
    world.types(b"z");
    assert_eq!(world.real.cursor(), (0, 38));
}

#[test]
fn where_the_kernel_echoes_the_way_back_over_the_edge_is_left_to_it() {
    let mut world = World::warm(100, 40, cooked());
    world.types_slowly(TEXT.get(..38).unwrap(), 60);
    world.types_slowly("\x7f\x7f\x7f\x7f", 60);
    world.rest(6000);
    assert!(world.equals_the_host_screen());
    assert_eq!(world.statistics().wrong_seen, 0);
}

#[test]
fn a_wrap_that_the_host_has_left_pending_stays_pending() {
    let mut world = World::warm(100, 40, shell(40));
    // The shell has wrapped at once before; now the kernel echoes.
    world.types_slowly(TEXT.get(..40).unwrap(), 60);
    world.types_slowly("\r", 1000);
    assert_eq!(world.predictor.wrap, Some(Wrap::Immediate));
    world.program = cooked();
    world.types_slowly(TEXT.get(..37).unwrap(), 200);
    // The echo of the last column arrives between that key and the one that erases it.
    world.types_slowly("X", 60);
    world.types_slowly("\x7f", 45);
    assert!(world.unpredicted.is_wrap_pending());
    world.show(b"yz");
    assert!(world.equals_the_host_screen());
}

#[test]
fn a_wrap_in_the_last_row_scrolls_and_all_keys_are_confirmed_however_they_come() {
    for (program, gap_ms) in [(shell(40), 10), (shell(40), 120), (cooked(), 10), (cooked(), 120)] {
        let mut world = World::warm(300, 40, program);
        world.types_slowly("\r\r\r\r\r\r\r\r", 400);
        world.types_slowly(TEXT, gap_ms);
        world.types(b"\r");
        world.rest(6000);
        let statistics = world.statistics();
        assert_eq!((statistics.wrong, statistics.wrong_seen), (0, 0), "{gap_ms} ms");
        assert!(world.equals_the_host_screen());
    }
}

#[test]
fn enter_behind_a_full_row_leads_to_the_next_row_or_the_one_behind() {
    for program in [shell(40), cooked()] {
        let mut world = World::warm(100, 40, program);
        for _ in 0..3 {
            world.types_slowly(TEXT.get(..37).unwrap(), 30);
            world.types_slowly("\r", 500);
        }
        world.rest(6000);
        assert_eq!(world.statistics().wrong, 0);
        assert!(world.equals_the_host_screen());
    }
}

#[test]
fn the_row_below_is_not_overwritten_before_the_host_does() {
    let mut world = World::warm(100, 40, cooked());
    world.show(b"\x1b[2;1Hbelow\x1b[1;4H");
    world.types_slowly(TEXT, 60);
    world.rest(6000);
    assert_eq!(world.statistics().wrong_seen, 0);
    assert!(world.equals_the_host_screen());
}

proptest! {
    #[test]
    fn a_line_of_any_length_is_confirmed_whole_wherever_it_wraps(
        text in "[a-z ]{1,90}",
        rubouts in "\x7f{0,60}",
        more in "[a-z]{0,30}",
        (gap_ms, round_trip_ms) in (1..150_u64, 40..300_u64),
        (columns, row) in (8..40_u16, 1..9_u16),
    ) {
        let mut world = World::new(round_trip_ms, columns, shell(columns.into()));
        world.show(format!("\x1b[{row};1H$ ").as_bytes());
        world.types(b"w");
        world.rest(2000);
        for keys in [text, rubouts, more] {
            world.types_slowly(&keys, gap_ms);
            world.rest(20_000);
        }
        prop_assert!(world.equals_the_host_screen());
        prop_assert_eq!(world.statistics().wrong_seen, 0);
    }
}
