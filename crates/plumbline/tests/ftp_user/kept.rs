//! Properties of files that `mirror` and recursive downloads preserve, and files that they leave
//! out or report.

use crate::alone::Place;
use crate::odd_ftp::{Odd, Quirk};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// 2001-09-09 01:46:40 UTC.
fn then() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

fn old_file(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(then()).unwrap();
}

fn is_old(path: &Path) -> bool {
    fs::metadata(path).unwrap().modified().unwrap() == then()
}

#[test]
fn a_file_keeps_its_time_both_ways_unless_somebody_says_otherwise() {
    let place = Place::new("time");
    let (_server, url) = place.serve("");
    old_file(&place.0.join("a"), "text");
    place.done(&["put", "a", &format!("{url}/a")]);
    place.done(&["put", "--no-keep-time", "a", &format!("{url}/b")]);
    assert!(is_old(&place.0.join("there/a")) && !is_old(&place.0.join("there/b")));
    place.done(&["get", &format!("{url}/a"), "c"]);
    place.done(&["get", "--no-keep-time", &format!("{url}/a"), "d"]);
    assert!(is_old(&place.0.join("c")) && !is_old(&place.0.join("d")));
    place.done(&["get", "--type", "A", &format!("{url}/a"), "e"]);
    assert!(is_old(&place.0.join("e")));
}

const UTIME: &[Quirk] = &[Quirk::On("SITE", "200 set")];

#[test]
fn where_there_is_no_mfmt_the_time_is_set_by_site_utime() {
    let place = Place::new("utime");
    let odd = Odd::start(UTIME, &[]);
    old_file(&place.0.join("a"), "text");
    place.done(&["put", "a", &format!("ftp://127.0.0.1:{}/new a", odd.port)]);
    let time = "20010909014640";
    assert!(odd.has_heard(&format!("SITE UTIME new a {time} {time} {time} UTC")));
}

#[test]
fn a_server_that_sets_no_times_is_only_spoken_of_to_who_wants_to_know_all() {
    let place = Place::new("no-time");
    let odd = Odd::start(&[], &[]);
    fs::write(place.0.join("a"), "text").unwrap();
    let url = format!("ftp://127.0.0.1:{}/a", odd.port);
    let (_, _, said) = place.ran(&["put", "a", &url]);
    assert!(said.starts_with("plumb: uploaded 'a': 4 bytes"), "{said}");
    fs::write(place.0.join("b"), "text").unwrap();
    let (_, _, said) = place.ran(&["put", "-v", "a", "b", &format!("{url}/")]);
    assert!(said.contains("'a/b' has the time of the upload: the server does not set"), "{said}");
    assert_eq!(odd.heard().iter().filter(|verb| *verb == "SITE").count(), 2);
}

const NO_MFMT: &[Quirk] = &[Quirk::Features(" SIZE\n MFMT"), Quirk::On("MFMT", "550 not here")];

#[test]
fn a_time_that_mfmt_does_not_set_is_told_to_who_wants_to_know_all() {
    let place = Place::new("no-mfmt");
    let odd = Odd::start(NO_MFMT, &[]);
    fs::write(place.0.join("a"), "text").unwrap();
    let (code, _, said) =
        place.ran(&["put", "-v", "a", &format!("ftp://127.0.0.1:{}/a", odd.port)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("'a' has the time of the upload: cannot set the time of 'a'"), "{said}");
}

/// Two names, one of which LIST shows only with `-a`.
const HIDES: &[Quirk] = &[
    Quirk::Hidden("-rw-r--r-- 1 a b 1 Jan 02 2020 .kept\n-rw-r--r-- 1 a b 1 Jan 02 2020 a\n"),
    Quirk::Listing("-rw-r--r-- 1 a b 1 Jan 02 2020 a\n"),
];

/// Creates a directory `here` with files of one byte.
fn here_with(place: &Place, names: &[&str]) {
    fs::create_dir_all(place.0.join("here")).unwrap();
    for name in names {
        fs::write(place.0.join("here").join(name), "x").unwrap();
    }
}

#[test]
fn what_a_listing_hides_is_not_deleted() {
    let place = Place::new("hidden");
    let odd = Odd::start(HIDES, &[]);
    here_with(&place, &["a", ".kept", "gone"]);
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    let (code, printed, said) = place.ran(&["mirror", "-n", "--delete", &url, "here"]);
    assert_eq!((code, printed.as_str()), (Some(0), "delete gone\n"), "{said}");
}

#[test]
fn a_mirror_upwards_knows_the_names_that_a_listing_hides() {
    let place = Place::new("hidden-up");
    let odd = Odd::start(HIDES, &[("d/a", b"x".to_vec()), ("d/.kept", b"x".to_vec())]);
    here_with(&place, &["a", ".kept"]);
    for name in ["a", ".kept"] {
        set_time(&place, name, 1_577_934_245);
    }
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    let (code, printed, said) = place.ran(&["mirror", "-n", "here", &url]);
    assert_eq!((code, printed.as_str()), (Some(0), ""), "{said}");
}

/// Sets the modification time of a local file, in Unix seconds.
fn set_time(place: &Place, name: &str, seconds: u64) {
    let file = File::options().write(true).open(place.0.join("here").join(name)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn a_change_that_keeps_the_size_is_found_by_mdtm_where_there_is_only_list() {
    let place = Place::new("mdtm");
    let odd = Odd::start(&[], &[("d/a", b"x".to_vec()), ("d/b", b"y".to_vec())]);
    here_with(&place, &["a", "b"]);
    // MDTM reports 3:04:05; the listing has only the date.
    set_time(&place, "a", 1_577_934_244);
    set_time(&place, "b", 1_577_934_245);
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    let (code, printed, said) = place.ran(&["mirror", "-n", &url, "here"]);
    assert_eq!((code, printed.as_str()), (Some(0), "get a\n"), "{said}");
    let (code, _, said) = place.ran(&["mirror", &url, "here"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, printed, said) = place.ran(&["mirror", "-n", &url, "here"]);
    assert_eq!((code, printed.as_str()), (Some(0), ""), "{said}");
}

/// LIST of a file returns the file itself, as if it were the only entry of a directory.
const LISTS_A_FILE: &[Quirk] = &[Quirk::ListingOf("t/f", "-rw-r--r-- 1 a b 1 Jan 02 2020 f\n")];

// attack row 150
#[test]
fn a_source_that_is_no_directory_deletes_nothing() {
    let place = Place::new("no-source");
    let odd = Odd::start(LISTS_A_FILE, &[("t/f", b"x".to_vec())]);
    here_with(&place, &["a", "b"]);
    // The server lists a nonexistent path as an empty directory, like vsftpd.
    for source in ["typo", "t/typo", "t/f"] {
        let url = format!("ftp://127.0.0.1:{}/{source}", odd.port);
        for words in [["mirror", "--delete", &url, "here"], ["get", "-r", &url, "here"]] {
            let (code, _, said) = place.ran(&words);
            let is_file = words[0] == "get" && source == "t/f";
            assert_eq!(code, Some(i32::from(!is_file)), "{words:?}: {said}");
        }
        assert!(["a", "b"].iter().all(|name| place.0.join("here").join(name).exists()));
    }
}

/// An unreadable directory, recognizable from the permissions in the listing of its parent.
const UNREADABLE: &[Quirk] = &[
    Quirk::ListingOf("t", "d-wx--x--x 1 a b 1 Jan 02 2020 d\n-rw-r--r-- 1 a b 1 Jan 02 2020 f\n"),
    Quirk::ListingOf("t/d", ""),
];

// attack row 150
#[test]
fn an_unreadable_directory_is_reported_and_deletes_nothing() {
    let place = Place::new("unreadable");
    let odd = Odd::start(UNREADABLE, &[("t/f", b"x".to_vec()), ("t/d/g", b"x".to_vec())]);
    fs::create_dir_all(place.0.join("here/d")).unwrap();
    fs::write(place.0.join("here/d/g"), "x").unwrap();
    let url = format!("ftp://127.0.0.1:{}/t", odd.port);
    let (code, _, said) = place.ran(&["mirror", "--delete", &url, "here"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("skipped 't/d' on the server: permission denied"), "{said}");
    assert!(place.0.join("here/d/g").exists());
    let (code, _, said) = place.ran(&["mirror", &url, "here"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(place.0.join("here/f").exists(), "{said}");
}

// attack row 151
#[test]
fn a_part_of_another_file_is_neither_believed_nor_replaced() {
    let place = Place::new("foreign-part");
    let whole = vec![7; 30_000];
    let odd = Odd::start(&[], &[("d/x", whole.clone()), ("d/x.part", b"a file".to_vec())]);
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    // This `x.part` is a file of the server with the same time as x.
    place.done(&["mirror", &url, "here"]);
    fs::remove_file(place.0.join("here/x")).unwrap();
    place.done(&["mirror", &url, "here"]);
    assert!(place.read("here/x") == whole && place.read("here/x.part") == b"a file");
    // A partial file with the right time and wrong bytes.
    fs::write(place.0.join("x.part"), vec![8; 20_000]).unwrap();
    let part = File::options().write(true).open(place.0.join("x.part")).unwrap();
    part.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_934_245)).unwrap();
    let (code, _, said) = place.ran(&["get", "-c", &format!("{url}/x")]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is of another file") && place.read("x") == whole, "{said}");
}

/// A directory whose name is also a pattern that matches the other one.
const GLOBS: &[Quirk] = &[
    Quirk::Globs,
    Quirk::ListingOf(
        "t",
        "drwxr-xr-x 1 a b 1 Jan 02 2020 d1\ndrwxr-xr-x 1 a b 1 Jan 02 2020 d[1]\n",
    ),
];

// attack row 150
#[test]
fn a_directory_whose_name_is_a_pattern_is_listed_itself() {
    let place = Place::new("globs");
    let odd = Odd::start(GLOBS, &[("t/d1/one", b"x".to_vec()), ("t/d[1]/only", b"x".to_vec())]);
    let url = format!("ftp://127.0.0.1:{}/t", odd.port);
    for _ in 0..2 {
        let (code, _, said) = place.ran(&["mirror", "--delete", &url, "here"]);
        assert_eq!(code, Some(0), "{said}");
        let is_here = |name: &str| place.0.join("here").join(name).exists();
        assert!(is_here("d1/one") && is_here("d[1]/only"), "{said}");
        assert!(!is_here("d1/only") && !is_here("d[1]/one"), "{said}");
    }
    assert!(!odd.has_heard("LIST t/d[1]"));
}

const IN_NO_DIALECT: &[Quirk] =
    &[Quirk::Listing("-rw-r--r-- 1 a b 1 Jan 02 2020 a\nfile b, of one byte\n")];

#[test]
fn nothing_is_deleted_for_a_listing_that_cannot_be_read() {
    let place = Place::new("unread");
    let odd = Odd::start(IN_NO_DIALECT, &[]);
    here_with(&place, &["a", "b"]);
    let url = format!("ftp://127.0.0.1:{}/d", odd.port);
    let (code, _, said) = place.ran(&["mirror", "--delete", &url, "here"]);
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    let sentence = "cannot parse 1 line of the listing: 'file b, of one byte'";
    assert!(said.contains(&format!("{sentence}; nothing is deleted")), "{said}");
    assert!(place.0.join("here/b").exists());
    let (code, _, said) = place.ran(&["mirror", &url, "here"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(sentence) && place.0.join("here/b").exists(), "{said}");
    let none = Odd::start(&[Quirk::On("LIST", "450 No files found")], &[]);
    let url = format!("ftp://127.0.0.1:{}/d", none.port);
    let (code, _, said) = place.ran(&["mirror", "--delete", &url, "here"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(place.0.join("here/b").exists());
}

#[test]
fn the_counterpart_of_a_link_and_a_folder_with_what_is_left_out_are_not_deleted() {
    let place = Place::new("counterpart");
    let (_server, url) = place.serve("");
    here_with(&place, &["a"]);
    std::os::unix::fs::symlink("a", place.0.join("here/link")).unwrap();
    for name in ["link", "d/x.o", "d/y", "e/z"] {
        let file = place.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    let to = format!("{url}/");
    let words = ["mirror", "--delete", "--exclude", "*.o", "here", &to];
    let (_, printed, said) = place.ran(&[&words[..], &["-n"]].concat());
    assert_eq!(printed, "delete e/z\ndelete e/\ndelete d/y\nput a\n", "{said}");
    assert!(said.contains("skipped 'link' on both hosts: the local one is a link"), "{said}");
    place.done(&[&words[..], &["--force"]].concat());
    let is_there = |name: &str| place.0.join("there").join(name).exists();
    assert!(is_there("link") && is_there("d/x.o") && is_there("a"));
    assert!(!is_there("d/y") && !is_there("e"));
}

/// Creates a tree on the server, and a local one with files that the server does not have.
fn two_trees(name: &str) -> Place {
    let place = Place::new(name);
    for folder in ["there/src/build", "there/src/d", "here/old", "here/build"] {
        fs::create_dir_all(place.0.join(folder)).unwrap();
    }
    for file in ["src/a.c", "src/a.o", "src/d/b.c", "src/d/keep.o", "src/build/x"] {
        fs::write(place.0.join("there").join(file), file).unwrap();
    }
    for file in ["here/old/gone", "here/mine.o", "here/build/y"] {
        fs::write(place.0.join(file), file).unwrap();
    }
    place
}

const RULES: [&str; 6] = ["--exclude", "*.o", "--include", "keep.o", "--exclude", "build/"];

#[test]
fn a_mirror_leaves_out_what_its_rules_say_and_says_what_it_deletes() {
    let place = two_trees("rules");
    let (_server, url) = place.serve("");
    let from = format!("{url}/src");
    let words = |more: &[&'static str]| [&["mirror", "--delete"], more, &RULES].concat();
    let with = |more: &[&'static str]| {
        let mut words: Vec<&str> = words(more);
        words.extend([from.as_str(), "here"]);
        place.ran(&words)
    };
    let (code, printed, said) = with(&["-n"]);
    let would = "delete old/gone\ndelete old/\nmake d/\nget a.c\nget d/b.c\nget d/keep.o\n";
    assert_eq!((code, printed.as_str()), (Some(0), would), "{said}");
    let (code, _, said) = with(&[]);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<_> = said.lines().collect();
    let deleted = [
        "plumb: deleting 1 file and 1 directory at the destination",
        "plumb: deleted 'old/gone'",
        "plumb: deleted 'old/'",
    ];
    assert_eq!(lines[..3], deleted, "{said}");
    assert!(lines[3].starts_with("plumb: mirrored 3 files, and deleted 2: "), "{said}");
    let is_here = |name: &str| place.0.join("here").join(name).exists();
    assert!(["a.c", "d/b.c", "d/keep.o", "mine.o", "build/y"].into_iter().all(is_here));
    assert!(!["a.o", "build/x", "old"].into_iter().any(is_here));
}

#[test]
fn a_mirror_of_what_is_included_makes_no_folder_for_nothing() {
    let place = two_trees("included");
    let (_server, url) = place.serve("");
    place.done(&["mirror", "--include", "*.c", &format!("{url}/src"), "new"]);
    assert!(place.0.join("new/d/b.c").exists() && !place.0.join("new/build").exists());
    assert!(!place.0.join("new/d/keep.o").exists());
}

#[test]
fn a_mirror_upwards_keeps_times_and_its_deletions_are_lines_of_json() {
    let place = Place::new("upwards");
    let (_server, url) = place.serve("");
    fs::create_dir_all(place.0.join("here")).unwrap();
    old_file(&place.0.join("here/a"), "text");
    fs::create_dir_all(place.0.join("there/up")).unwrap();
    fs::write(place.0.join("there/up/b"), "old").unwrap();
    let words = ["mirror", "--json", "--delete", "here", &format!("{url}/up")];
    let (code, printed, said) = place.ran(&words);
    assert_eq!(code, Some(0), "{said}");
    let first = printed.lines().next().unwrap();
    assert_eq!(first, r#"{"kind":"file","name":"b","what":"deleted"}"#, "{printed}");
    assert!(is_old(&place.0.join("there/up/a")) && !place.0.join("there/up/b").exists());
}

#[test]
fn links_go_as_their_files_or_not_at_all() {
    let place = Place::new("links");
    let (_server, url) = place.serve("");
    fs::create_dir_all(place.0.join("tree/d")).unwrap();
    fs::write(place.0.join("tree/file"), "text").unwrap();
    std::os::unix::fs::symlink("file", place.0.join("tree/link")).unwrap();
    std::os::unix::fs::symlink("d", place.0.join("tree/folder")).unwrap();
    let (_, _, said) = place.ran(&["put", "-r", "tree", &format!("{url}/one")]);
    assert!(said.contains("skipped 1 link: see"), "{said}");
    assert_eq!(place.read("there/one/link"), b"text");
    let (_, _, said) = place.ran(&["put", "-r", "--links", "skip", "tree", &format!("{url}/two")]);
    assert!(said.contains("skipped 2 links: see"), "{said}");
    assert!(place.0.join("there/two/file").exists() && !place.0.join("there/two/link").exists());
}

#[test]
fn where_a_beginning_of_the_file_is_here_it_is_said_how_to_go_on_and_that_is_true() {
    let place = Place::new("beginning");
    let (_server, url) = place.serve("");
    let whole: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    fs::write(place.0.join("there/file"), &whole).unwrap();
    fs::write(place.0.join("file"), &whole[..20_000]).unwrap();
    let (code, _, said) = place.ran(&["get", "-c", &format!("{url}/file")]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("file exists, with 20,000 of 50,000 bytes"), "{said}");
    let told = said.split("run mv").nth(1).unwrap().split(" and then use").next().unwrap();
    let mut shell = std::process::Command::new("sh");
    assert!(
        shell.args(["-c", &format!("mv{told}")]).current_dir(&place.0).status().unwrap().success()
    );
    let (_, printed, said) = place.ran(&["get", "-c", "--json", &format!("{url}/file")]);
    assert!(printed.contains(r#""offset_rest":15904"#), "{printed}{said}");
    assert_eq!(place.read("file"), whole);
}

#[test]
fn what_is_here_already_is_not_got_only_to_be_thrown_away() {
    let place = Place::new("part-and-whole");
    let odd = Odd::start(&[], &[("file", vec![7; 9])]);
    fs::write(place.0.join("file"), "other, and longer than that").unwrap();
    fs::write(place.0.join("file.part"), "abc").unwrap();
    let url = format!("ftp://127.0.0.1:{}/file", odd.port);
    let (code, _, said) = place.ran(&["get", "-c", &url]);
    assert_eq!((code, odd.heard().contains(&"RETR".to_owned())), (Some(2), false), "{said}");
    assert_eq!(place.read("file.part"), b"abc");
}

#[test]
fn a_folder_that_is_got_as_a_file_is_told_of() {
    let place = Place::new("folder");
    let (_server, url) = place.serve("");
    fs::create_dir(place.0.join("there/d")).unwrap();
    let (code, _, said) = place.ran(&["get", &format!("{url}/d")]);
    let sentence = "plumb: 'd' is a remote directory: use -r to download it\n";
    assert_eq!((code, said.as_str()), (Some(1), sentence));
}

#[test]
fn a_folder_that_is_not_here_is_said_before_anybody_is_called() {
    let place = Place::new("missing");
    let odd = Odd::start(&[], &[("file", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}/file", odd.port);
    for to in ["missing/", "missing/name"] {
        let (code, _, said) = place.ran(&["get", &url, "-o", to]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.starts_with("plumb: no local directory missing"), "{said}");
    }
    assert!(odd.heard().is_empty());
    let (code, _, said) = place.ran(&["get", "tftp://127.0.0.1:9/file", "-o", "missing/"]);
    assert_eq!((code, said.contains("no local directory missing/")), (Some(2), true), "{said}");
}

#[test]
fn all_that_fit_a_pattern_are_shown_one_after_the_other() {
    let place = Place::new("cat");
    let (_server, url) = place.serve("");
    for name in ["a.txt", "b.txt", "c"] {
        fs::write(place.0.join("there").join(name), name).unwrap();
    }
    let (code, printed, said) = place.ran(&["cat", &format!("{url}/*.txt")]);
    assert_eq!((code, printed.as_str()), (Some(0), "a.txtb.txt"), "{said}");
    let (code, printed, said) = place.ran(&["ls", &format!("{url}/*.zzz")]);
    assert_eq!((code, printed.as_str()), (Some(1), ""));
    assert_eq!(said, "plumb: nothing on the server matches '*.zzz'\n");
}

#[test]
fn a_server_without_room_is_asked_once() {
    let place = Place::new("full");
    let odd = Odd::start(&[Quirk::On("STOR", "452 no space")], &[]);
    fs::write(place.0.join("a"), "text").unwrap();
    let (code, _, said) = place.ran(&["put", "a", &format!("ftp://127.0.0.1:{}/a", odd.port)]);
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("the server said 452 no space"), "{said}");
    assert_eq!(odd.heard().iter().filter(|verb| *verb == "STOR").count(), 1);
}

#[test]
fn where_the_time_of_a_file_went_is_told_to_who_wants_to_know() {
    let place = Place::new("spent");
    let (_server, url) = place.serve("");
    fs::write(place.0.join("there/file"), vec![7; 400_000]).unwrap();
    let (_, _, said) = place.ran(&["get", "-v", &format!("{url}/file")]);
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("plumb: time: ") && last.contains("in file I/O"), "{said}");
    assert!(last.contains("to open the session") && last.ends_with("of CPU"), "{said}");
}

#[test]
fn a_folder_without_files_by_450_is_an_empty_one() {
    let place = Place::new("no-files");
    let odd = Odd::start(&[Quirk::On("LIST", "450 No files found")], &[]);
    let told = place.ran(&["ls", &format!("ftp://127.0.0.1:{}/d/", odd.port)]);
    assert_eq!(told, (Some(0), String::new(), String::new()));
    assert_eq!(odd.heard().iter().filter(|verb| *verb == "LIST").count(), 1);
}

#[test]
fn the_help_of_every_command_for_files_has_examples_and_that_of_mirror_has_its_rules() {
    let place = Place::new("help");
    for command in ["get", "put", "ls", "cat", "rm", "mkdir", "mv", "mirror", "mail", "ftp"] {
        let (_, printed, _) = place.ran(&[command, "--help"]);
        assert!(printed.contains("Examples:\n") && printed.contains("Exit codes:"), "{command}");
    }
    let (_, printed, _) = place.ran(&["mirror", "--help"]);
    let words: Vec<_> = printed.split_whitespace().collect();
    assert!(words.join(" ").contains("from left to right, and the last one that matches a name"));
}
