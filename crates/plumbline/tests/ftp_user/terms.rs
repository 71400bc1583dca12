//! The transfer type of a file and its dependence on the server, and features that a protocol
//! lacks.

use crate::alone::Place;
use crate::odd_ftp::{Cut, Odd, Quirk};
use std::fs;

/// A server that stores words in its own format and reports the size of that.
const OWN_FORM: &[Quirk] =
    &[Quirk::On("SIZE", "213 999999"), Quirk::Begins("150 it (999999 bytes)")];

#[test]
fn words_are_not_taken_for_too_few_where_the_server_keeps_them_in_a_form_of_its_own() {
    let place = Place::new("own-form");
    let words: Vec<u8> = (0..90).collect();
    let odd = Odd::start(OWN_FORM, &[("words", words.clone())]);
    let url = format!("ftp://127.0.0.1:{}/words", odd.port);
    place.done(&["get", "--store", "h36", "--tries", "1", &url]);
    assert_eq!(place.read("words"), words);
    let (code, _, said) = place.ran(&["get", "--store", "h36", "-c", "-f", "--tries", "1", &url]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("whole files are transferred in TYPE L 36"), "{said}");
}

/// A server that breaks off the first transfer and reports the hash of its own storage format.
const BREAKS_OFF: &[Quirk] = &[
    Quirk::Cut(40, Cut::Told),
    Quirk::Features(" SIZE\n HASH SHA-256*"),
    Quirk::On("HASH", "213 SHA-256 0-90 00 words"),
];

#[test]
fn words_that_came_at_the_second_attempt_are_not_compared_with_another_form() {
    let place = Place::new("own-hash");
    let words: Vec<u8> = (0..90).collect();
    let odd = Odd::start(BREAKS_OFF, &[("words", words.clone())]);
    place.done(&["get", "--store", "h36", &format!("ftp://127.0.0.1:{}/words", odd.port)]);
    let asked = |verb: &str| odd.heard().iter().filter(|heard| *heard == verb).count();
    assert_eq!((asked("RETR"), asked("HASH")), (2, 0));
    assert_eq!(place.read("words"), words);
}

const TOPS20: &[Quirk] = &[Quirk::On("SYST", "215 TOPS20 Monitor 7.1")];

#[test]
fn a_system_of_36_bits_is_asked_for_words_by_who_leaves_the_type_to_it() {
    let place = Place::new("auto");
    let odd = Odd::start(TOPS20, &[("words", vec![0x12; 9])]);
    let url = format!("ftp://127.0.0.1:{}/words", odd.port);
    let (code, _, said) = place.ran(&["get", "--type", "auto", "--store", "oct", &url]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the server is TOPS20: its words have 36 bits"), "{said}");
    assert!(odd.has_heard("TYPE L 36"));
    assert_eq!(place.read("words"), b"044110220441\n102204411022\n");
    let unix = Odd::start(&[Quirk::On("SYST", "215 UNIX Type: L8")], &[("a", vec![7; 9])]);
    place.done(&["get", "--type", "auto", &format!("ftp://127.0.0.1:{}/a", unix.port)]);
    assert!(unix.has_heard("TYPE I"));
}

#[test]
fn who_leaves_the_type_to_the_server_is_told_which_one_it_is() {
    let place = Place::new("auto-shell");
    let unix = Odd::start(&[Quirk::On("SYST", "215 UNIX Type: L8")], &[]);
    let url = format!("127.0.0.1:{}", unix.port);
    let (printed, said) = place.types(&url, "type A\ntype auto\ntype\n");
    assert!(printed.contains("TYPE I, MODE S"), "{printed}");
    assert!(said.contains("the server is UNIX: files are transferred as TYPE I"), "{said}");
    let tops = Odd::start(TOPS20, &[("pages", Vec::new())]);
    let url = format!("ftp://127.0.0.1:{}/pages", tops.port);
    place.ran(&["get", "--type", "auto", "--stru", "P", "--tries", "1", &url]);
    assert!(tops.has_heard("TYPE L 36") && tops.has_heard("STRU P"));
    let (code, _, said) = place.ran(&[
        "get",
        "--type",
        "auto",
        "--stru",
        "P",
        &format!("ftp://127.0.0.1:{}/pages", unix.port),
    ]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the server is UNIX: STRU P counts pages"), "{said}");
}

#[test]
fn a_mirror_of_a_host_of_words_does_not_speak_of_going_on() {
    let place = Place::new("auto-mirror");
    let tops = Odd::start(TOPS20, &[("d/words", vec![0x12; 9])]);
    fs::create_dir_all(place.0.join("config/plumb")).unwrap();
    let configuration = place.0.join("config/plumb/config.toml");
    fs::write(configuration, "[host.\"127.0.0.1\"]\nimage = \"auto\"\n").unwrap();
    let (code, _, said) =
        place.ran(&["mirror", &format!("ftp://127.0.0.1:{}/d", tops.port), "here"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("--continue") && said.contains("transferred as TYPE L 36"), "{said}");
}

#[test]
fn what_a_host_means_by_type_i_may_stand_in_the_configuration() {
    let place = Place::new("configured");
    let odd = Odd::start(&[], &[("words", vec![0x12; 9])]);
    let url = format!("ftp://127.0.0.1:{}/words", odd.port);
    fs::create_dir_all(place.0.join("config/plumb")).unwrap();
    let configuration = place.0.join("config/plumb/config.toml");
    fs::write(&configuration, "[host.\"127.0.0.1\"]\nimage = \"L36\"\nstore = \"oct\"\n").unwrap();
    let (_, printed, said) = place.ran(&["get", "--json", &url]);
    assert_eq!(place.read("words"), b"044110220441\n102204411022\n", "{said}");
    assert!(printed.contains(r#""byte_size":36"#), "{printed}");
    assert!(odd.has_heard("TYPE L 36") && !odd.has_heard("TYPE I"));
    let (printed, said) = place.types(&format!("127.0.0.1:{}", odd.port), "type A\ntype I\ntype\n");
    assert!(printed.contains("TYPE L 36, MODE S, STRU F, local words as oct"), "{said}");
    let (printed, said) = place.types(&format!("127.0.0.1:{}", odd.port), "cat words\n");
    assert_eq!(printed, "044110220441\n102204411022\n", "{said}");
    let (_, printed, said) = place.ran(&["cat", &url]);
    assert_eq!(printed, "044110220441\n102204411022\n", "{said}");
    place.done(&["get", "--type", "L8", &url, "octets"]);
    assert_eq!(place.read("octets"), [0x12; 9]);
    assert!(odd.has_heard("TYPE L 8"));
    fs::write(configuration, "[host.a]\nimage = \"A\"\n").unwrap();
    let (code, _, said) = place.ran(&["get", &url]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("an image is not text"), "{said}");
}

#[test]
fn pages_are_of_words_unless_another_type_is_said_and_that_one_says_why_not() {
    let place = Place::new("pages");
    let (_server, url) = place.serve("");
    let words: Vec<u8> = (0..=255).cycle().take(9 * 700).collect();
    fs::write(place.0.join("words"), &words).unwrap();
    place.done(&["put", "--stru", "P", "words", &format!("{url}/pages")]);
    place.done(&["get", "--stru", "P", &format!("{url}/pages"), "back"]);
    assert_eq!(place.read("back"), words);
    let (code, _, said) =
        place.ran(&["get", "--stru", "P", "--type", "I", &format!("{url}/pages")]);
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("STRU P counts pages and words in logical bytes"), "{said}");
}

#[test]
fn what_a_protocol_does_not_have_is_refused() {
    let place = Place::new("refused");
    fs::write(place.0.join("a"), "text").unwrap();
    for flags in [
        &["--segments", "2"][..],
        &["-r"],
        &["-c"],
        &["-j", "2"],
        &["--type", "I"],
        &["--mode", "S"],
        &["--store", "h36"],
        &["--tries", "2"],
        &["--user", "me"],
        &["--active"],
    ] {
        let words = [&["get"], flags, &["tftp://127.0.0.1:9/a"]].concat();
        let (code, _, said) = place.ran(&words);
        assert_eq!((code, said.lines().count()), (Some(2), 1), "{flags:?}: {said}");
        assert!(said.starts_with("plumb: TFTP has no --"), "{flags:?}: {said}");
    }
    let (code, _, said) = place.ran(&["put", "--window", "4", "a", "ftp://127.0.0.1:9/a"]);
    assert_eq!((code, said.as_str()), (Some(2), "plumb: FTP has no --window\n"));
}

#[test]
fn words_of_36_bits_come_back_from_folders_that_keep_them_in_any_form() {
    let place = Place::new("folders");
    let forms = ["h36", "c36", "a36", "u36", "data8", "oct"];
    let mut lines = "[ftp.word-formats]\n".to_owned();
    for form in forms {
        fs::create_dir(place.0.join("there").join(form)).unwrap();
        lines.push_str(&format!("\"/{form}\" = \"{form}\"\n"));
    }
    fs::create_dir(place.0.join("there/plain")).unwrap();
    let (_server, url) = place.serve(&lines);
    let octets = |at: u32| u8::try_from((at * 7 + at / 251) % 256).unwrap();
    let words: Vec<u8> = (0..1800).map(octets).collect();
    fs::write(place.0.join("words"), &words).unwrap();
    fs::write(place.0.join("text"), "HELLO, WORLD\nTHIS IS TEXT OF 36 BITS.\n").unwrap();
    for folder in [&forms[..], &["plain"]].concat() {
        let there = |name: &str| format!("{url}/{folder}/{name}");
        place.done(&["put", "--store", "h36", "words", &there("words")]);
        for form in forms {
            place.done(&["get", "-f", "--store", form, "--tries", "1", &there("words"), "here"]);
            place.done(&["put", "--store", form, "--tries", "1", "here", &there("again")]);
            place.done(&["get", "-f", "--store", "h36", "--tries", "1", &there("again"), "back"]);
            assert_eq!(place.read("back"), words, "{folder} {form}");
        }
        place.done(&["put", "--store", "text", "text", &there("text")]);
        place.done(&["get", "-f", "--store", "text", &there("text"), "back"]);
        assert_eq!(place.read("back"), place.read("text"), "{folder}");
    }
    assert_eq!(place.read("there/c36/words").len(), 400 * 5);
}
