//! Tests of paths that are or become fast, of the statistics, and of editors that overwrite.

use super::*;

#[test]
fn echoes_in_a_third_of_the_usual_time_are_confirmed_and_none_is_wrong() {
    // The login program took 3 ms for its first echo, the shell takes less than 1 ms.
    let mut world = World::new(6, 80, cooked());
    world.types(b"a");
    world.rest(120);
    world.delay = Duration::from_micros(400);
    world.types_slowly("bcdefghijklm", 120);
    world.types_slowly("\recho\x7f\x7f\x7fabc\r", 120);
    world.rest(6000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.discarded), (0, 0), "{statistics:?}");
    assert_eq!(statistics.confirmed, statistics.keys);
}

#[test]
fn a_path_that_becomes_ten_times_faster_is_predicted_again_after_two_echoes() {
    let mut world = World::warm(1000, 80, cooked());
    world.delay = Duration::from_millis(50);
    world.types_slowly("abc", 300);
    world.types(b"d");
    assert_eq!(world.row(), "$ wabcd");
    world.rest(1000);
    assert_eq!(world.predictor.round_trip(), Some(Duration::from_millis(100)));
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn the_keys_of_a_password_count_as_dropped_and_those_of_a_name_as_confirmed() {
    let mut world = World::new(100, 80, login());
    world.types_slowly("alice\r", 150);
    world.types_slowly("secret\r", 150);
    world.rest(6000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.wrong_seen), (0, 0), "{statistics:?}");
    assert_eq!((statistics.confirmed, statistics.discarded), (6, 7), "{statistics:?}");
}

#[test]
fn keys_typed_in_the_same_moment_are_acknowledged_one_by_one() {
    let mut world = World::warm(100, 80, cooked());
    world.types(b"x");
    let first = world.predictor.last_key();
    world.types(b"y");
    world.show(b"x");
    world.predictor.echo_acknowledged(first, &mut world.context.cx());
    world.paint();
    assert_eq!(world.row(), "$ wxy");
    assert_eq!(world.statistics().wrong, 0);
}

/// An editor that overwrites its row, or moves only the first 20 columns of it.
fn overwriting(is_split: bool) -> Program {
    let mut text: Vec<u8> = b"abcdefghijklmnopqrst|other window".to_vec();
    let mut at = 0;
    let mut is_open = false;
    Box::new(move |keys| {
        let mut said = Vec::new();
        for key in keys {
            if !is_open {
                is_open = true;
                said.extend_from_slice(b"\x1b[?1049h\x1b[H");
                said.extend_from_slice(&text);
                said.extend_from_slice(b"\x1b[H");
                continue;
            }
            if is_split {
                text[at..20].rotate_right(1);
            }
            text[at] = *key;
            at += 1;
            let ruler = format!("\x1b[8;60H1,{at}\x1b[1;1H");
            said.extend_from_slice(ruler.as_bytes());
            said.extend_from_slice(&text);
            said.extend_from_slice(format!("\x1b[1;{}H", at + 1).as_bytes());
        }
        said
    })
}

#[test]
fn behind_two_characters_that_moved_nothing_the_rest_of_the_row_stays() {
    for is_split in [false, true] {
        let mut world = World::warm(500, 80, overwriting(is_split));
        world.types_slowly("wxyz", 700);
        let before = world.unpredicted.row_text(0);
        world.types(b"!");
        let row = world.real.row_text(0);
        assert_eq!(row.get(..5), Some("wxyz!"), "{is_split}");
        // The text after the character has not moved.
        assert_eq!(row.get(5..), before.get(5..), "{is_split}");
        world.rest(2000);
        assert!(world.equals_the_host_screen());
        assert_eq!(world.statistics().wrong, 0);
    }
}

#[test]
fn one_echo_that_is_cut_before_its_rest_does_not_end_insertion() {
    let mut world = World::warm(100, 80, editor("w"));
    world.types_slowly("bcd\x1b[D\x1b[DX", 200);
    world.predictor.typed(b"Y", &mut world.context.cx());
    world.paint();
    world.rest(100);
    world.show(b"Y");
    world.show(b"cd\x1b[K\x08\x08");
    world.types(b"Z");
    assert_eq!(world.row(), "$ wbXYZcd");
}
