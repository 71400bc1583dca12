//! Tests of the file properties that `mirror` and recursive downloads preserve, and of the files
//! that they leave out or report.

use crate::faulty_ftp::{FaultyFtpServer, Quirk};
use crate::own_server::TestDirectory;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// 2001-09-09 01:46:40 UTC.
fn fixed_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

fn old_file(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    File::options().write(true).open(path).unwrap().set_modified(fixed_time()).unwrap();
}

fn is_old(path: &Path) -> bool {
    fs::metadata(path).unwrap().modified().unwrap() == fixed_time()
}

#[test]
fn transfers_preserve_the_modification_time_by_default() {
    let directory = TestDirectory::new("time");
    let (_server, url) = directory.serve("");
    old_file(&directory.0.join("a"), "text");
    directory.run_ok(&["put", "a", &format!("{url}/a")]);
    directory.run_ok(&["put", "--no-keep-time", "a", &format!("{url}/b")]);
    assert!(is_old(&directory.0.join("there/a")) && !is_old(&directory.0.join("there/b")));
    directory.run_ok(&["get", &format!("{url}/a"), "c"]);
    directory.run_ok(&["get", "--no-keep-time", &format!("{url}/a"), "d"]);
    assert!(is_old(&directory.0.join("c")) && !is_old(&directory.0.join("d")));
    directory.run_ok(&["get", "--type", "A", &format!("{url}/a"), "e"]);
    assert!(is_old(&directory.0.join("e")));
}

const UTIME: &[Quirk] = &[Quirk::ReplyTo("SITE", "200 set")];

#[test]
fn without_mfmt_the_time_is_set_with_site_utime() {
    let directory = TestDirectory::new("utime");
    let server = FaultyFtpServer::start(UTIME, &[]);
    old_file(&directory.0.join("a"), "text");
    directory.run_ok(&["put", "a", &format!("ftp://127.0.0.1:{}/new a", server.port)]);
    let time = "20010909014640";
    assert!(server.has_received(&format!("SITE UTIME new a {time} {time} {time} UTC")));
}

#[test]
fn a_server_that_sets_no_times_is_reported_only_in_verbose_mode() {
    let directory = TestDirectory::new("no-time");
    let server = FaultyFtpServer::start(&[], &[]);
    fs::write(directory.0.join("a"), "text").unwrap();
    let url = format!("ftp://127.0.0.1:{}/a", server.port);
    let (_, _, messages) = directory.run(&["put", "a", &url]);
    assert!(messages.starts_with("uploaded 'a': 4 bytes"), "{messages}");
    fs::write(directory.0.join("b"), "text").unwrap();
    let (_, _, messages) = directory.run(&["put", "-v", "a", "b", &format!("{url}/")]);
    assert!(
        messages.contains("'a/b' is the time of the upload: the server does not set"),
        "{messages}"
    );
    assert_eq!(server.received().iter().filter(|verb| *verb == "SITE").count(), 2);
}

const NO_MFMT: &[Quirk] =
    &[Quirk::Features(" SIZE\n MFMT"), Quirk::ReplyTo("MFMT", "550 not here")];

#[test]
fn a_time_that_mfmt_does_not_set_is_reported_in_verbose_mode() {
    let directory = TestDirectory::new("no-mfmt");
    let server = FaultyFtpServer::start(NO_MFMT, &[]);
    fs::write(directory.0.join("a"), "text").unwrap();
    let (code, _, messages) =
        directory.run(&["put", "-v", "a", &format!("ftp://127.0.0.1:{}/a", server.port)]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        messages.contains("'a' is the time of the upload: cannot set the time of 'a'"),
        "{messages}"
    );
}

/// Two file names; the server lists one of them only for `LIST -a`.
const HIDDEN_NAME: &[Quirk] = &[
    Quirk::Hidden("-rw-r--r-- 1 a b 1 Jan 02 2020 .kept\n-rw-r--r-- 1 a b 1 Jan 02 2020 a\n"),
    Quirk::Listing("-rw-r--r-- 1 a b 1 Jan 02 2020 a\n"),
];

/// Creates a directory `here` with files of one byte.
fn create_local_files(directory: &TestDirectory, names: &[&str]) {
    fs::create_dir_all(directory.0.join("here")).unwrap();
    for name in names {
        fs::write(directory.0.join("here").join(name), "x").unwrap();
    }
}

#[test]
fn names_hidden_from_a_listing_are_not_deleted() {
    let directory = TestDirectory::new("hidden");
    let server = FaultyFtpServer::start(HIDDEN_NAME, &[]);
    create_local_files(&directory, &["a", ".kept", "gone"]);
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    let (code, stdout, messages) = directory.run(&["mirror", "-n", "--delete", &url, "here"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "delete gone\n"), "{messages}");
}

#[test]
fn an_upload_mirror_considers_names_hidden_from_a_listing() {
    let directory = TestDirectory::new("hidden-up");
    let server =
        FaultyFtpServer::start(HIDDEN_NAME, &[("d/a", b"x".to_vec()), ("d/.kept", b"x".to_vec())]);
    create_local_files(&directory, &["a", ".kept"]);
    for name in ["a", ".kept"] {
        set_time(&directory, name, 1_577_934_245);
    }
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    let (code, stdout, messages) = directory.run(&["mirror", "-n", "here", &url]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{messages}");
}

/// Sets the modification time of a local file, in Unix seconds.
fn set_time(directory: &TestDirectory, name: &str, seconds: u64) {
    let file = File::options().write(true).open(directory.0.join("here").join(name)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn without_mlsd_a_change_of_equal_size_is_detected_by_mdtm() {
    let directory = TestDirectory::new("mdtm");
    let server = FaultyFtpServer::start(&[], &[("d/a", b"x".to_vec()), ("d/b", b"y".to_vec())]);
    create_local_files(&directory, &["a", "b"]);
    // MDTM reports 3:04:05; the listing has only the date.
    set_time(&directory, "a", 1_577_934_244);
    set_time(&directory, "b", 1_577_934_245);
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    let (code, stdout, messages) = directory.run(&["mirror", "-n", &url, "here"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "get a\n"), "{messages}");
    let (code, _, messages) = directory.run(&["mirror", &url, "here"]);
    assert_eq!(code, Some(0), "{messages}");
    let (code, stdout, messages) = directory.run(&["mirror", "-n", &url, "here"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{messages}");
}

/// LIST of a file returns the file itself, as if it were the only entry of a directory.
const LISTING_OF_FILE: &[Quirk] = &[Quirk::ListingOf("t/f", "-rw-r--r-- 1 a b 1 Jan 02 2020 f\n")];

// attack row 150
#[test]
fn a_source_that_is_not_a_directory_deletes_nothing() {
    let directory = TestDirectory::new("no-source");
    let server = FaultyFtpServer::start(LISTING_OF_FILE, &[("t/f", b"x".to_vec())]);
    create_local_files(&directory, &["a", "b"]);
    // The server lists a nonexistent path as an empty directory, like vsftpd.
    for source in ["typo", "t/typo", "t/f"] {
        let url = format!("ftp://127.0.0.1:{}/{source}", server.port);
        for words in [["mirror", "--delete", &url, "here"], ["get", "-r", &url, "here"]] {
            let (code, _, messages) = directory.run(&words);
            let is_file = words[0] == "get" && source == "t/f";
            assert_eq!(code, Some(i32::from(!is_file)), "{words:?}: {messages}");
        }
        assert!(["a", "b"].iter().all(|name| directory.0.join("here").join(name).exists()));
    }
}

/// An unreadable directory, recognizable from the permissions in the listing of its parent.
const UNREADABLE_DIRECTORY: &[Quirk] = &[
    Quirk::ListingOf("t", "d-wx--x--x 1 a b 1 Jan 02 2020 d\n-rw-r--r-- 1 a b 1 Jan 02 2020 f\n"),
    Quirk::ListingOf("t/d", ""),
];

// attack row 150
#[test]
fn an_unreadable_directory_is_reported_and_deletes_nothing() {
    let directory = TestDirectory::new("unreadable");
    let server = FaultyFtpServer::start(
        UNREADABLE_DIRECTORY,
        &[("t/f", b"x".to_vec()), ("t/d/g", b"x".to_vec())],
    );
    fs::create_dir_all(directory.0.join("here/d")).unwrap();
    fs::write(directory.0.join("here/d/g"), "x").unwrap();
    let url = format!("ftp://127.0.0.1:{}/t", server.port);
    let (code, _, messages) = directory.run(&["mirror", "--delete", &url, "here"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("skipped 't/d' on the server: permission denied"), "{messages}");
    assert!(directory.0.join("here/d/g").exists());
    let (code, _, messages) = directory.run(&["mirror", &url, "here"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(directory.0.join("here/f").exists(), "{messages}");
}

// attack row 151
#[test]
fn a_partial_file_of_another_file_is_neither_used_nor_replaced() {
    let directory = TestDirectory::new("foreign-part");
    let file_content = vec![7; 30_000];
    let server = FaultyFtpServer::start(
        &[],
        &[("d/x", file_content.clone()), ("d/x.part", b"a file".to_vec())],
    );
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    // `x.part` is a separate file of the server with the same time as x, and not a partial file.
    directory.run_ok(&["mirror", &url, "here"]);
    fs::remove_file(directory.0.join("here/x")).unwrap();
    directory.run_ok(&["mirror", &url, "here"]);
    assert!(directory.read("here/x") == file_content && directory.read("here/x.part") == b"a file");
    // The partial file has the right modification time and wrong content.
    fs::write(directory.0.join("x.part"), vec![8; 20_000]).unwrap();
    let part = File::options().write(true).open(directory.0.join("x.part")).unwrap();
    part.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_934_245)).unwrap();
    let (code, _, messages) = directory.run(&["get", "-c", &format!("{url}/x")]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        messages.contains("is of another file") && directory.read("x") == file_content,
        "{messages}"
    );
}

/// Two directories; the name of the second is a pattern that matches the first.
const PATTERN_NAMES: &[Quirk] = &[
    Quirk::Globs,
    Quirk::ListingOf(
        "t",
        "drwxr-xr-x 1 a b 1 Jan 02 2020 d1\ndrwxr-xr-x 1 a b 1 Jan 02 2020 d[1]\n",
    ),
];

// attack row 150
#[test]
fn a_directory_named_like_a_pattern_is_listed() {
    let directory = TestDirectory::new("globs");
    let server = FaultyFtpServer::start(
        PATTERN_NAMES,
        &[("t/d1/one", b"x".to_vec()), ("t/d[1]/only", b"x".to_vec())],
    );
    let url = format!("ftp://127.0.0.1:{}/t", server.port);
    for _ in 0..2 {
        let (code, _, messages) = directory.run(&["mirror", "--delete", &url, "here"]);
        assert_eq!(code, Some(0), "{messages}");
        let exists_locally = |name: &str| directory.0.join("here").join(name).exists();
        assert!(exists_locally("d1/one") && exists_locally("d[1]/only"), "{messages}");
        assert!(!exists_locally("d1/only") && !exists_locally("d[1]/one"), "{messages}");
    }
    assert!(!server.has_received("LIST t/d[1]"));
}

const UNPARSABLE_LISTING: &[Quirk] =
    &[Quirk::Listing("-rw-r--r-- 1 a b 1 Jan 02 2020 a\nfile b, of one byte\n")];

#[test]
fn nothing_is_deleted_for_a_listing_that_cannot_be_read() {
    let directory = TestDirectory::new("unread");
    let server = FaultyFtpServer::start(UNPARSABLE_LISTING, &[]);
    create_local_files(&directory, &["a", "b"]);
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    let (code, _, messages) = directory.run(&["mirror", "--delete", &url, "here"]);
    assert_eq!((code, messages.lines().count()), (Some(1), 1), "{messages}");
    let sentence = "cannot parse 1 line of the listing: 'file b, of one byte'";
    let hint = "a file name with a line break is listed as two lines; nothing is deleted";
    assert!(messages.contains(&format!("{sentence}; {hint}")), "{messages}");
    assert!(directory.0.join("here/b").exists());
    let (code, _, messages) = directory.run(&["mirror", &url, "here"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains(sentence) && directory.0.join("here/b").exists(), "{messages}");
    let empty_server = FaultyFtpServer::start(&[Quirk::ReplyTo("LIST", "450 No files found")], &[]);
    let url = format!("ftp://127.0.0.1:{}/d", empty_server.port);
    let (code, _, messages) = directory.run(&["mirror", "--delete", &url, "here"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(directory.0.join("here/b").exists());
}

#[test]
fn counterparts_of_links_and_directories_with_excluded_files_are_not_deleted() {
    let directory = TestDirectory::new("counterpart");
    let (_server, url) = directory.serve("");
    create_local_files(&directory, &["a"]);
    std::os::unix::fs::symlink("a", directory.0.join("here/link")).unwrap();
    for name in ["link", "d/x.o", "d/y", "e/z"] {
        let file = directory.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    let to = format!("{url}/");
    let words = ["mirror", "--delete", "--exclude", "*.o", "here", &to];
    let (_, stdout, messages) = directory.run(&[&words[..], &["-n"]].concat());
    assert_eq!(stdout, "delete e/z\ndelete e/\ndelete d/y\nput a\n", "{messages}");
    assert!(
        messages.contains("skipped 'link' on both hosts: the local one is a link"),
        "{messages}"
    );
    directory.run_ok(&[&words[..], &["--force"]].concat());
    let is_there = |name: &str| directory.0.join("there").join(name).exists();
    assert!(is_there("link") && is_there("d/x.o") && is_there("a"));
    assert!(!is_there("d/y") && !is_there("e"));
}

/// Creates a tree on the server, and a local tree with files that the server does not have.
fn create_two_trees(name: &str) -> TestDirectory {
    let directory = TestDirectory::new(name);
    for directory_path in ["there/src/build", "there/src/d", "here/old", "here/build"] {
        fs::create_dir_all(directory.0.join(directory_path)).unwrap();
    }
    for file in ["src/a.c", "src/a.o", "src/d/b.c", "src/d/keep.o", "src/build/x"] {
        fs::write(directory.0.join("there").join(file), file).unwrap();
    }
    for file in ["here/old/gone", "here/mine.o", "here/build/y"] {
        fs::write(directory.0.join(file), file).unwrap();
    }
    directory
}

const RULES: [&str; 6] = ["--exclude", "*.o", "--include", "keep.o", "--exclude", "build/"];

#[test]
fn a_mirror_applies_its_rules_and_reports_deletions() {
    let directory = create_two_trees("rules");
    let (_server, url) = directory.serve("");
    let from = format!("{url}/src");
    let words = |more: &[&'static str]| [&["mirror", "--delete"], more, &RULES].concat();
    let mirror_arguments = |more: &[&'static str]| {
        let mut words: Vec<&str> = words(more);
        words.extend([from.as_str(), "here"]);
        directory.run(&words)
    };
    let (code, stdout, messages) = mirror_arguments(&["-n"]);
    let plan = "delete old/gone\ndelete old/\nmake d/\nget a.c\nget d/b.c\nget d/keep.o\n";
    assert_eq!((code, stdout.as_str()), (Some(0), plan), "{messages}");
    let (code, _, messages) = mirror_arguments(&[]);
    assert_eq!(code, Some(0), "{messages}");
    let lines: Vec<_> = messages.lines().collect();
    let deleted = [
        "deleting 1 file and 1 directory at the destination",
        "deleted 'old/gone'",
        "deleted 'old/'",
    ];
    assert_eq!(lines[..3], deleted, "{messages}");
    assert!(lines[3].starts_with("mirrored 3 files, and deleted 2: "), "{messages}");
    let exists_locally = |name: &str| directory.0.join("here").join(name).exists();
    assert!(["a.c", "d/b.c", "d/keep.o", "mine.o", "build/y"].into_iter().all(exists_locally));
    assert!(!["a.o", "build/x", "old"].into_iter().any(exists_locally));
}

#[test]
fn a_mirror_with_include_rules_creates_no_empty_directories() {
    let directory = create_two_trees("included");
    let (_server, url) = directory.serve("");
    directory.run_ok(&["mirror", "--include", "*.c", &format!("{url}/src"), "new"]);
    assert!(directory.0.join("new/d/b.c").exists() && !directory.0.join("new/build").exists());
    assert!(!directory.0.join("new/d/keep.o").exists());
}

#[test]
fn an_upload_mirror_preserves_times_and_reports_deletions_as_json_lines() {
    let directory = TestDirectory::new("upwards");
    let (_server, url) = directory.serve("");
    fs::create_dir_all(directory.0.join("here")).unwrap();
    old_file(&directory.0.join("here/a"), "text");
    fs::create_dir_all(directory.0.join("there/up")).unwrap();
    fs::write(directory.0.join("there/up/b"), "old").unwrap();
    let words = ["mirror", "--json", "--delete", "here", &format!("{url}/up")];
    let (code, stdout, messages) = directory.run(&words);
    assert_eq!(code, Some(0), "{messages}");
    let first = stdout.lines().next().unwrap();
    assert_eq!(first, r#"{"kind":"file","name":"b","what":"deleted"}"#, "{stdout}");
    assert!(is_old(&directory.0.join("there/up/a")) && !directory.0.join("there/up/b").exists());
}

#[test]
fn links_are_uploaded_as_their_targets_or_skipped() {
    let directory = TestDirectory::new("links");
    let (_server, url) = directory.serve("");
    fs::create_dir_all(directory.0.join("tree/d")).unwrap();
    fs::write(directory.0.join("tree/file"), "text").unwrap();
    std::os::unix::fs::symlink("file", directory.0.join("tree/link")).unwrap();
    std::os::unix::fs::symlink("d", directory.0.join("tree/folder")).unwrap();
    let (_, _, messages) = directory.run(&["put", "-r", "tree", &format!("{url}/one")]);
    assert!(messages.contains("skipped 1 link: see"), "{messages}");
    assert_eq!(directory.read("there/one/link"), b"text");
    let (_, _, messages) =
        directory.run(&["put", "-r", "--links", "skip", "tree", &format!("{url}/two")]);
    assert!(messages.contains("skipped 2 links: see"), "{messages}");
    assert!(
        directory.0.join("there/two/file").exists() && !directory.0.join("there/two/link").exists()
    );
}

#[test]
fn an_existing_partial_file_is_reported_with_the_command_that_resumes_it() {
    let directory = TestDirectory::new("beginning");
    let (_server, url) = directory.serve("");
    let file_content: Vec<u8> = (0..=255).cycle().take(50_000).collect();
    fs::write(directory.0.join("there/file"), &file_content).unwrap();
    fs::write(directory.0.join("file"), &file_content[..20_000]).unwrap();
    let (code, _, messages) = directory.run(&["get", "-c", &format!("{url}/file")]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("file exists, with 20,000 of 50,000 bytes"), "{messages}");
    let suggested_command =
        messages.split("run mv").nth(1).unwrap().split(" and then use").next().unwrap();
    let mut shell = std::process::Command::new("sh");
    assert!(
        shell
            .args(["-c", &format!("mv{suggested_command}")])
            .current_dir(&directory.0)
            .status()
            .unwrap()
            .success()
    );
    let (_, stdout, messages) = directory.run(&["get", "-c", "--json", &format!("{url}/file")]);
    assert!(stdout.contains(r#""restart_offset_bytes":15904"#), "{stdout}{messages}");
    assert_eq!(directory.read("file"), file_content);
}

#[test]
fn an_existing_local_file_is_an_error_before_the_download() {
    let directory = TestDirectory::new("part-and-whole");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 9])]);
    fs::write(directory.0.join("file"), "other, and longer than that").unwrap();
    fs::write(directory.0.join("file.part"), "abc").unwrap();
    let url = format!("ftp://127.0.0.1:{}/file", server.port);
    let (code, _, messages) = directory.run(&["get", "-c", &url]);
    assert_eq!(
        (code, server.received().contains(&"RETR".to_owned())),
        (Some(2), false),
        "{messages}"
    );
    assert_eq!(directory.read("file.part"), b"abc");
}

#[test]
fn downloading_a_directory_as_a_file_is_an_error() {
    let directory = TestDirectory::new("folder");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("there/d")).unwrap();
    let (code, _, messages) = directory.run(&["get", &format!("{url}/d")]);
    let sentence = "plumb: error: 'd' is a remote directory: use -r to download it\n";
    assert_eq!((code, messages.as_str()), (Some(2), sentence));
}

#[test]
fn a_missing_local_directory_is_reported_before_connecting() {
    let directory = TestDirectory::new("missing");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}/file", server.port);
    for to in ["missing/", "missing/name"] {
        let (code, _, messages) = directory.run(&["get", &url, "-o", to]);
        assert_eq!(code, Some(2), "{messages}");
        assert!(messages.starts_with("plumb: error: no local directory missing"), "{messages}");
    }
    assert!(server.received().is_empty());
    let (code, _, messages) = directory.run(&["get", "tftp://127.0.0.1:9/file", "-o", "missing/"]);
    assert_eq!(
        (code, messages.contains("no local directory missing/")),
        (Some(2), true),
        "{messages}"
    );
}

#[test]
fn all_files_that_match_a_pattern_are_printed() {
    let directory = TestDirectory::new("cat");
    let (_server, url) = directory.serve("");
    for name in ["a.txt", "b.txt", "c"] {
        fs::write(directory.0.join("there").join(name), name).unwrap();
    }
    let (code, stdout, messages) = directory.run(&["cat", &format!("{url}/*.txt")]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a.txtb.txt"), "{messages}");
    let (code, stdout, messages) = directory.run(&["ls", &format!("{url}/*.zzz")]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(messages, "plumb: error: nothing on the server matches '*.zzz'\n");
}

#[test]
fn an_upload_to_a_full_server_is_not_retried() {
    let directory = TestDirectory::new("full");
    let server = FaultyFtpServer::start(&[Quirk::ReplyTo("STOR", "452 no space")], &[]);
    fs::write(directory.0.join("a"), "text").unwrap();
    let (code, _, messages) =
        directory.run(&["put", "a", &format!("ftp://127.0.0.1:{}/a", server.port)]);
    assert_eq!((code, messages.lines().count()), (Some(1), 1), "{messages}");
    assert!(messages.contains("the server replied 452 no space"), "{messages}");
    assert_eq!(server.received().iter().filter(|verb| *verb == "STOR").count(), 1);
}

#[test]
fn verbose_mode_reports_the_time_of_each_part_of_a_transfer() {
    let directory = TestDirectory::new("spent");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/file"), vec![7; 400_000]).unwrap();
    let (_, _, messages) = directory.run(&["get", "-v", &format!("{url}/file")]);
    let last = messages.lines().last().unwrap();
    assert!(last.starts_with("time: ") && last.contains("in file I/O"), "{messages}");
    assert!(last.contains("to open the session") && last.ends_with("of CPU"), "{messages}");
}

#[test]
fn a_450_reply_to_a_listing_is_taken_for_an_empty_directory() {
    let directory = TestDirectory::new("no-files");
    let server = FaultyFtpServer::start(&[Quirk::ReplyTo("LIST", "450 No files found")], &[]);
    let result = directory.run(&["ls", &format!("ftp://127.0.0.1:{}/d/", server.port)]);
    assert_eq!(result, (Some(0), String::new(), String::new()));
    assert_eq!(server.received().iter().filter(|verb| *verb == "LIST").count(), 1);
}

#[test]
fn every_file_command_has_examples_in_its_help_and_mirror_has_its_rules() {
    let directory = TestDirectory::new("help");
    for command in ["get", "put", "ls", "cat", "rm", "mkdir", "mv", "mirror", "mail", "ftp"] {
        let (_, stdout, _) = directory.run(&[command, "--help"]);
        assert!(stdout.contains("Examples:\n") && stdout.contains("Exit status:"), "{command}");
    }
    let (_, stdout, _) = directory.run(&["mirror", "--help"]);
    let words: Vec<_> = stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("from left to right, and the last rule that matches a name"));
}
