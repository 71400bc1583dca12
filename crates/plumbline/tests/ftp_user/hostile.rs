//! Servers that send more than they announce or send without end, listings that cannot be parsed,
//! and peers that are not FTP servers.

use crate::alone::Place;
use crate::odd_ftp::{Cut, Odd, Quirk};
use protocols::application::ftp::data::Encoder;
use protocols::application::ftp::{Mode, Representation};
use std::fs;
use std::process::{Command, Output, Stdio};

/// Runs plumb with an address space of `megabytes` MiB, and returns its exit code and standard
/// error.
fn limited(place: &Place, megabytes: u64, words: &[&str]) -> (Option<i32>, String) {
    let plumb = place.plumb();
    let mut shell = Command::new("sh");
    let line = format!("ulimit -v {} && exec \"$0\" \"$@\"", megabytes * 1024);
    shell.arg("-c").arg(line).arg(plumb.get_program()).args(words);
    shell.envs(plumb.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(&place.0).stdin(Stdio::null());
    let Output { status, stderr, .. } = shell.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

const FEATURES: Quirk = Quirk::Features(" MLST size*;\n SIZE");
const ENDLESS_FACTS: &[Quirk] =
    &[FEATURES, Quirk::Endless("MLSD", "type=file;size=1;modify=20200102030405; a\r\n")];
const ENDLESS_LIST: &[Quirk] = &[Quirk::Endless("LIST", "-rw-r--r-- 1 a b 1 Jan 02 2020 a\r\n")];
const ENDLESS_LINE: &[Quirk] = &[FEATURES, Quirk::Endless("MLSD", "xxxxxxxxxxxxxxxx")];

// attack row 143
#[test]
fn an_endless_listing_is_refused_within_a_bounded_memory() {
    let place = Place::new("endless-listing");
    for quirks in [ENDLESS_FACTS, ENDLESS_LIST] {
        let odd = Odd::start(quirks, &[]);
        let url = format!("ftp://127.0.0.1:{}/d/", odd.port);
        for words in [&["ls", &url][..], &["mirror", &url, "here"], &["get", "-r", &url, "here"]] {
            let (code, said) = limited(&place, 1500, words);
            assert_eq!(code, Some(1), "{words:?}: {said}");
            assert!(said.contains("the listing has more than 1000000 entries"), "{said}");
        }
    }
}

// attack row 143
#[test]
fn an_endless_line_of_a_listing_is_refused_within_a_bounded_memory() {
    let place = Place::new("endless-line");
    let odd = Odd::start(ENDLESS_LINE, &[]);
    let (code, said) = limited(&place, 600, &["ls", &format!("ftp://127.0.0.1:{}/d/", odd.port)]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the listing is longer than 64 MiB"), "{said}");
}

const FOUR_BYTES: Quirk =
    Quirk::On("MLST", "250-this\n type=file;size=4;modify=20200102030405; x\n250 end");
const MORE: &[Quirk] = &[FEATURES, FOUR_BYTES, Quirk::Endless("RETR", "more and more")];
const SIZE_OF_FOUR: &[Quirk] =
    &[Quirk::On("SIZE", "213 4"), Quirk::Endless("RETR", "more and more")];

// attack row 144
#[test]
fn more_bytes_than_announced_are_an_error_and_the_old_file_stays() {
    let place = Place::new("excess");
    for quirks in [MORE, SIZE_OF_FOUR] {
        let odd = Odd::start(quirks, &[]);
        let url = format!("ftp://127.0.0.1:{}/x", odd.port);
        fs::write(place.0.join("x"), "old").unwrap();
        for kind in ["I", "A"] {
            if kind == "A" && quirks != MORE {
                // Without MLST the server does not report the size of a text.
                continue;
            }
            let words = ["get", "--force", "--type", kind, &url];
            let (code, said) = limited(&place, 600, &words);
            assert_eq!(code, Some(1), "{kind}: {said}");
            assert!(said.contains("bytes that the server reports"), "{kind}: {said}");
            assert_eq!(place.read("x"), b"old");
        }
        let names = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> =
            names.filter(|name| name.to_string_lossy().contains("plumb-")).collect();
        assert!(names.is_empty() && !place.0.join("x.part").exists(), "{names:?}");
    }
}

const BOMB: &[Quirk] = &[FEATURES, FOUR_BYTES];

// attack row 144
#[test]
fn deflated_data_that_becomes_more_than_announced_is_an_error() {
    let place = Place::new("bomb");
    let representation = Representation { mode: Mode::Deflate, ..Representation::IMAGE };
    let (mut encoder, mut bomb) = (Encoder::new(&representation, None).unwrap(), Vec::new());
    for _ in 0..64 {
        encoder.encode(&[0; 1 << 20], &mut bomb).unwrap();
    }
    encoder.finish(&mut bomb).unwrap();
    let odd = Odd::start(BOMB, &[("x", bomb)]);
    fs::write(place.0.join("x"), "old").unwrap();
    let url = format!("ftp://127.0.0.1:{}/x", odd.port);
    let (code, _, said) = place.ran(&["get", "--force", "--mode", "Z", &url]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("more than the 4 bytes that the server reports"), "{said}");
    assert_eq!(place.read("x"), b"old");
}

const UNKNOWN: &[Quirk] = &[Quirk::Listing(
    "total 3\n-rw-r--r-- 1 a b 9 Jan 02 2020 f1\nwhat \x1b[2J is this\nand this\n",
)];

#[test]
fn lines_of_a_listing_that_are_not_understood_are_reported_and_exit_1() {
    let place = Place::new("unread");
    let odd = Odd::start(UNKNOWN, &[("d/f1", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    let (folder, pattern) = (format!("{url}/"), format!("{url}/*"));
    let sentence = "cannot parse 2 lines of the listing, the first: 'what \\x1b[2J is this'";
    for words in [
        &["ls", &folder][..],
        &["ls", "-l", &folder],
        &["ls", "--json", &folder],
        &["get", &pattern],
        &["get", "-r", &folder, "got"],
        &["mirror", &url, "mirrored"],
        &["cat", &format!("{url};type=d")],
    ] {
        let (code, _, said) = place.ran(words);
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(said.contains(sentence), "{words:?}: {said}");
    }
    // The files that could be parsed are transferred nevertheless.
    for name in ["f1", "got/f1", "mirrored/f1"] {
        assert_eq!(place.read(name), [7; 9], "{name}");
    }
    let (code, _, said) = place.ran(&["mirror", "--delete", &url, "mirrored"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(sentence) && said.contains("nothing is deleted"), "{said}");
    let (_, said) = place.types(&url, "ls\n");
    assert!(said.contains(sentence), "{said}");
}

const SILENT: &[Quirk] = &[Quirk::Listing("")];

#[test]
fn a_directory_that_does_not_exist_is_not_listed_as_an_empty_one() {
    let place = Place::new("no-directory");
    let odd = Odd::start(SILENT, &[("d/f1", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}", odd.port);
    let at = |name: &str| format!("{url}/{name}");
    for name in ["nosuch", "nosuch/"] {
        let (code, printed, said) = place.ran(&["ls", &at(name)]);
        assert_eq!((code, printed.as_str()), (Some(1), ""), "{name}: {said}");
        assert!(said.contains("there is no directory 'nosuch"), "{said}");
    }
    for name in ["d", "d/", ""] {
        let (code, _, said) = place.ran(&["ls", &at(name)]);
        assert_eq!(code, Some(0), "{name}: {said}");
    }
}

const NO_FTP: &[Quirk] = &[Quirk::Greeting("SSH-2.0-OpenSSH_9.2p1")];

#[test]
fn what_is_no_ftp_server_is_quoted() {
    let place = Place::new("no-ftp");
    let odd = Odd::start(NO_FTP, &[]);
    let (code, _, said) = place.ran(&["ls", &format!("ftp://127.0.0.1:{}/", odd.port)]);
    assert_eq!(code, Some(1), "{said}");
    let quoted = "not an FTP reply: \"SSH-2.0-OpenSSH_9.2p1\" (an SSH server)";
    assert!(said.contains(quoted), "{said}");
}

const ONE_SESSION: &[Quirk] = &[Quirk::Once("RETR", "421 timeout"), Quirk::OneSession];

#[test]
fn after_421_the_old_connection_is_closed_before_the_new_one_is_opened() {
    let place = Place::new("one-session");
    let odd = Odd::start(ONE_SESSION, &[("x", vec![7; 9])]);
    let (code, _, said) = place.ran(&["get", &format!("ftp://127.0.0.1:{}/x", odd.port)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!odd.has_heard("a second session"), "{:?}", odd.heard());
}

#[test]
fn a_directory_is_not_got_as_a_file_and_a_missing_one_here_is_named() {
    let place = Place::new("get-directory");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/a"), "a").unwrap();
    for url in [&url, &format!("{url}/")] {
        let (code, _, said) = place.ran(&["get", url]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("is a directory: list it with plumb ls, or use -r"), "{said}");
    }
    place.done(&["get", "-r", &format!("{url}/"), "all"]);
    assert_eq!(place.read("all/a"), b"a");
    let (code, _, said) = place.ran(&["get", &format!("{url}/*"), "-o", "none"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("none is not a directory: several files need one"), "{said}");
    let (code, printed, said) = place.ran(&["get", &format!("{url}/;type=D")]);
    assert_eq!((code, printed.as_str()), (Some(0), "a\n"), "{said}");
}

#[test]
fn a_transfer_that_stops_fails_a_measurement_that_has_others() {
    let place = Place::new("stops");
    let stops: &[Quirk] = &[Quirk::CutBeyond(20_000, Cut::Stalled)];
    let odd = Odd::start(stops, &[("file", vec![b'x'; 65_536])]);
    let url = format!("ftp://127.0.0.1:{}/file", odd.port);
    let measure = ["measure", "--bytes", "64K", "--rounds", "1", "--timeout", "2", &url];
    let (code, printed, said) = place.ran(&measure);
    assert_eq!(code, Some(1), "{printed}{said}");
    assert!(printed.contains(" 16,384 "), "{printed}{said}");
    let whole = Odd::start(&[], &[("file", vec![b'x'; 65_536])]);
    let url = format!("ftp://127.0.0.1:{}/file", whole.port);
    let (code, printed, said) = place.ran(&["measure", "--bytes", "64K", "--rounds", "1", &url]);
    assert_eq!(code, Some(0), "{printed}{said}");
}

#[test]
fn a_transfer_that_goes_on_slowly_does_not_time_out() {
    let place = Place::new("slowly");
    // The transfer takes twice the timeout, but each piece takes only a quarter of it.
    let odd = Odd::start(&[Quirk::Paced(512, 500)], &[("file", vec![b'x'; 4_096])]);
    let url = format!("ftp://127.0.0.1:{}/file", odd.port);
    let measure = ["measure", "--bytes", "4K", "--rounds", "1", "--timeout", "2", &url];
    let (code, printed, said) = place.ran(&measure);
    assert_eq!(code, Some(0), "{printed}{said}");
    assert!(printed.contains(" 4,096 "), "{printed}{said}");
}
