//! Tests of passwords that are typed before their prompt has arrived.

use super::*;

/// A login program that echoes the first key of a password typed ahead, before it prompts and
/// disables the echo.
fn slow_login() -> Program {
    let mut keys_behind_enter: Option<u32> = None;
    Box::new(move |bytes| {
        let mut written = Vec::new();
        for byte in bytes {
            match (&mut keys_behind_enter, byte) {
                (None, b'\r') => {
                    keys_behind_enter = Some(0);
                    written.extend_from_slice(b"\r\n");
                }
                (None, _) => written.push(*byte),
                (Some(count), _) => {
                    *count += 1;
                    match *count {
                        1 => written.push(*byte),
                        6 => written.extend_from_slice(b"\r\nPassword: "),
                        _ => {}
                    }
                }
            }
        }
        written
    })
}

#[test]
fn the_echo_of_one_early_key_does_not_reveal_the_password() {
    let mut world = World::with_measured_echo(300, 80, slow_login());
    world.type_slowly("er\r", 20);
    for key in "hunter".chars() {
        world.type_slowly(&String::from(key), 20);
    }
    for _ in 0..100 {
        let text = world.real_terminal.text();
        assert!(!text.contains(['u', 'n', 't']), "{text}");
        world.rest(10);
    }
    world.rest(10_000);
    assert!(world.equals_the_host_screen());
}
