//! Tests of network paths that are fast or become fast, of the prediction statistics, and of
//! editors that overwrite text.

use super::*;

#[test]
fn echoes_in_a_third_of_the_usual_time_are_confirmed_and_none_is_wrong() {
    // The login program took 3 ms for its first echo, the shell takes less than 1 ms.
    let mut world = World::new(6, 80, kernel_echo());
    world.type_keys(b"a");
    world.rest(120);
    world.delay = Duration::from_micros(400);
    world.type_slowly("bcdefghijklm", 120);
    world.type_slowly("\recho\x7f\x7f\x7fabc\r", 120);
    world.rest(6000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.discarded), (0, 0), "{statistics:?}");
    assert_eq!(statistics.confirmed, statistics.keys);
}

#[test]
fn prediction_resumes_two_echoes_after_a_path_becomes_ten_times_faster() {
    let mut world = World::with_measured_echo(1000, 80, kernel_echo());
    world.delay = Duration::from_millis(50);
    world.type_slowly("abc", 300);
    world.type_keys(b"d");
    assert_eq!(world.row(), "$ wabcd");
    world.rest(1000);
    assert_eq!(world.predictor.round_trip(), Some(Duration::from_millis(100)));
    assert_eq!(world.statistics().wrong, 0);
}

#[test]
fn password_keys_count_as_discarded_and_user_name_keys_as_confirmed() {
    let mut world = World::new(100, 80, login());
    world.type_slowly("alice\r", 150);
    world.type_slowly("secret\r", 150);
    world.rest(6000);
    let statistics = world.statistics();
    assert_eq!((statistics.wrong, statistics.wrong_seen), (0, 0), "{statistics:?}");
    assert_eq!((statistics.confirmed, statistics.discarded), (6, 7), "{statistics:?}");
}

#[test]
fn simultaneous_keys_are_acknowledged_individually() {
    let mut world = World::with_measured_echo(100, 80, kernel_echo());
    world.type_keys(b"x");
    let first = world.predictor.last_key();
    world.type_keys(b"y");
    world.show(b"x");
    world.predictor.echo_acknowledged(first, &mut world.context.cx());
    world.draw_output();
    assert_eq!(world.row(), "$ wxy");
    assert_eq!(world.statistics().wrong, 0);
}

/// A full-screen editor that overwrites text. If `is_split`, it inserts instead, and moves only the
/// text in the first 20 columns.
fn overwriting_editor(is_split: bool) -> Program {
    let mut text: Vec<u8> = b"abcdefghijklmnopqrst|other window".to_vec();
    let mut at = 0;
    let mut is_open = false;
    Box::new(move |keys| {
        let mut output = Vec::new();
        for key in keys {
            if !is_open {
                is_open = true;
                output.extend_from_slice(b"\x1b[?1049h\x1b[H");
                output.extend_from_slice(&text);
                output.extend_from_slice(b"\x1b[H");
                continue;
            }
            if is_split {
                text[at..20].rotate_right(1);
            }
            text[at] = *key;
            at += 1;
            let ruler = format!("\x1b[8;60H1,{at}\x1b[1;1H");
            output.extend_from_slice(ruler.as_bytes());
            output.extend_from_slice(&text);
            output.extend_from_slice(format!("\x1b[1;{}H", at + 1).as_bytes());
        }
        output
    })
}

#[test]
fn after_two_characters_that_moved_no_text_overwriting_is_predicted() {
    for is_split in [false, true] {
        let mut world = World::with_measured_echo(500, 80, overwriting_editor(is_split));
        world.type_slowly("wxyz", 700);
        let previous_row = world.unpredicted_terminal.row_text(0);
        world.type_keys(b"!");
        let row = world.real_terminal.row_text(0);
        assert_eq!(row.get(..5), Some("wxyz!"), "{is_split}");
        // The text after the character has not moved.
        assert_eq!(row.get(5..), previous_row.get(5..), "{is_split}");
        world.rest(2000);
        assert!(world.equals_the_host_screen());
        assert_eq!(world.statistics().wrong, 0);
    }
}

#[test]
fn one_split_echo_does_not_end_the_prediction_of_insertion() {
    let mut world = World::with_measured_echo(100, 80, line_editor("w"));
    world.type_slowly("bcd\x1b[D\x1b[DX", 200);
    world.predictor.typed(b"Y", &mut world.context.cx());
    world.draw_output();
    world.rest(100);
    world.show(b"Y");
    world.show(b"cd\x1b[K\x08\x08");
    world.type_keys(b"Z");
    assert_eq!(world.row(), "$ wbXYZcd");
}
