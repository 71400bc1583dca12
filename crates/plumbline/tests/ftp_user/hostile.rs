//! Tests with servers that send more than they announce or send without end, with listings that
//! cannot be parsed, and with peers that are not FTP servers.

use crate::faulty_ftp::{Cut, FaultyFtpServer, Quirk};
use crate::own_server::TestDirectory;
use protocols::ftp::data::Encoder;
use protocols::ftp::{Mode, Representation};
use std::fs;
use std::process::{Command, Output, Stdio};

/// Runs plumb with an address space of `megabytes` MiB, and returns its exit code and standard
/// error.
fn run_limited(directory: &TestDirectory, megabytes: u64, words: &[&str]) -> (Option<i32>, String) {
    let plumb = directory.plumb();
    let mut shell = Command::new("sh");
    let line = format!("ulimit -v {} && exec \"$0\" \"$@\"", megabytes * 1024);
    shell.arg("-c").arg(line).arg(plumb.get_program()).args(words);
    shell.envs(plumb.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(&directory.0).stdin(Stdio::null());
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
    let directory = TestDirectory::new("endless-listing");
    for quirks in [ENDLESS_FACTS, ENDLESS_LIST] {
        let server = FaultyFtpServer::start(quirks, &[]);
        let url = format!("ftp://127.0.0.1:{}/d/", server.port);
        for words in [&["ls", &url][..], &["mirror", &url, "here"], &["get", "-r", &url, "here"]] {
            let (code, messages) = run_limited(&directory, 1500, words);
            assert_eq!(code, Some(1), "{words:?}: {messages}");
            assert!(messages.contains("the listing has more than 1000000 entries"), "{messages}");
        }
    }
}

// attack row 143
#[test]
fn an_endless_line_of_a_listing_is_refused_within_a_bounded_memory() {
    let directory = TestDirectory::new("endless-line");
    let server = FaultyFtpServer::start(ENDLESS_LINE, &[]);
    let (code, messages) =
        run_limited(&directory, 600, &["ls", &format!("ftp://127.0.0.1:{}/d/", server.port)]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("the listing is longer than 64 MiB"), "{messages}");
}

const FOUR_BYTES: Quirk =
    Quirk::ReplyTo("MLST", "250-this\n type=file;size=4;modify=20200102030405; x\n250 end");
const EXCESS_DATA: &[Quirk] = &[FEATURES, FOUR_BYTES, Quirk::Endless("RETR", "more and more")];
const SIZE_OF_FOUR: &[Quirk] =
    &[Quirk::ReplyTo("SIZE", "213 4"), Quirk::Endless("RETR", "more and more")];

// attack row 144
#[test]
fn more_bytes_than_announced_are_an_error_and_the_old_file_stays() {
    let directory = TestDirectory::new("excess");
    for quirks in [EXCESS_DATA, SIZE_OF_FOUR] {
        let server = FaultyFtpServer::start(quirks, &[]);
        let url = format!("ftp://127.0.0.1:{}/x", server.port);
        fs::write(directory.0.join("x"), "old").unwrap();
        for kind in ["I", "A"] {
            if kind == "A" && quirks != EXCESS_DATA {
                // Without MLST the server does not report the size of a text.
                continue;
            }
            let words = ["get", "--force", "--type", kind, &url];
            let (code, messages) = run_limited(&directory, 600, &words);
            assert_eq!(code, Some(1), "{kind}: {messages}");
            assert!(messages.contains("bytes that the server reports"), "{kind}: {messages}");
            assert_eq!(directory.read("x"), b"old");
        }
        let names = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name());
        let names: Vec<_> =
            names.filter(|name| name.to_string_lossy().contains("plumb-")).collect();
        assert!(names.is_empty() && !directory.0.join("x.part").exists(), "{names:?}");
    }
}

const REPORTED_AS_FOUR_BYTES: &[Quirk] = &[FEATURES, FOUR_BYTES];

// attack row 144
#[test]
fn deflated_data_that_becomes_more_than_announced_is_an_error() {
    let directory = TestDirectory::new("bomb");
    let representation = Representation { mode: Mode::Deflate, ..Representation::IMAGE };
    let mut encoder = Encoder::new(&representation, None).unwrap();
    let mut bomb = Vec::new();
    for _ in 0..64 {
        encoder.encode(&[0; 1 << 20], &mut bomb).unwrap();
    }
    encoder.finish(&mut bomb).unwrap();
    let server = FaultyFtpServer::start(REPORTED_AS_FOUR_BYTES, &[("x", bomb)]);
    fs::write(directory.0.join("x"), "old").unwrap();
    let url = format!("ftp://127.0.0.1:{}/x", server.port);
    let (code, _, messages) = directory.run(&["get", "--force", "--mode", "Z", &url]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("more than the 4 bytes that the server reports"), "{messages}");
    assert_eq!(directory.read("x"), b"old");
}

const UNPARSABLE_LISTING: &[Quirk] = &[Quirk::Listing(
    "total 3\n-rw-r--r-- 1 a b 9 Jan 02 2020 f1\nwhat \x1b[2J is this\nand this\n",
)];

#[test]
fn unparsable_listing_lines_are_reported_with_exit_code_1() {
    let directory = TestDirectory::new("unread");
    let server = FaultyFtpServer::start(UNPARSABLE_LISTING, &[("d/f1", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}/d", server.port);
    let directory_url = format!("{url}/");
    let pattern = format!("{url}/*");
    let sentence = "cannot parse 2 lines of the listing, the first: 'what \\x1b[2J is this'";
    for words in [
        &["ls", &directory_url][..],
        &["ls", "-l", &directory_url],
        &["ls", "--json", &directory_url],
        &["get", &pattern],
        &["get", "-r", &directory_url, "got"],
        &["mirror", &url, "mirrored"],
        &["cat", &format!("{url};type=d")],
    ] {
        let (code, _, messages) = directory.run(words);
        assert_eq!(code, Some(1), "{words:?}: {messages}");
        assert!(messages.contains(sentence), "{words:?}: {messages}");
    }
    // The files that could be parsed are transferred nevertheless.
    for name in ["f1", "got/f1", "mirrored/f1"] {
        assert_eq!(directory.read(name), [7; 9], "{name}");
    }
    let (code, _, messages) = directory.run(&["mirror", "--delete", &url, "mirrored"]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains(sentence) && messages.contains("nothing is deleted"), "{messages}");
    let (_, messages) = directory.run_shell(&url, "ls\n");
    assert!(messages.contains(sentence), "{messages}");
}

const EMPTY_LISTING: &[Quirk] = &[Quirk::Listing("")];

#[test]
fn a_directory_that_does_not_exist_is_not_listed_as_an_empty_one() {
    let directory = TestDirectory::new("no-directory");
    let server = FaultyFtpServer::start(EMPTY_LISTING, &[("d/f1", vec![7; 9])]);
    let url = format!("ftp://127.0.0.1:{}", server.port);
    let url_of = |name: &str| format!("{url}/{name}");
    for name in ["nosuch", "nosuch/"] {
        let (code, stdout, messages) = directory.run(&["ls", &url_of(name)]);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{name}: {messages}");
        assert!(messages.contains("there is no directory 'nosuch"), "{messages}");
    }
    for name in ["d", "d/", ""] {
        let (code, _, messages) = directory.run(&["ls", &url_of(name)]);
        assert_eq!(code, Some(0), "{name}: {messages}");
    }
}

const SSH_GREETING: &[Quirk] = &[Quirk::Greeting("SSH-2.0-OpenSSH_9.2p1")];

#[test]
fn the_banner_of_a_non_ftp_server_is_quoted() {
    let directory = TestDirectory::new("no-ftp");
    let server = FaultyFtpServer::start(SSH_GREETING, &[]);
    let (code, _, messages) = directory.run(&["ls", &format!("ftp://127.0.0.1:{}/", server.port)]);
    assert_eq!(code, Some(1), "{messages}");
    let quoted = "not an FTP server, it sent \"SSH-2.0-OpenSSH_9.2p1\" (an SSH server)";
    assert!(messages.contains(quoted), "{messages}");
}

const ONE_SESSION: &[Quirk] = &[Quirk::FirstReplyTo("RETR", "421 timeout"), Quirk::OneSession];

#[test]
fn after_421_the_old_connection_is_closed_before_the_new_one_is_opened() {
    let directory = TestDirectory::new("one-session");
    let server = FaultyFtpServer::start(ONE_SESSION, &[("x", vec![7; 9])]);
    let (code, _, messages) =
        directory.run(&["get", &format!("ftp://127.0.0.1:{}/x", server.port)]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(!server.has_received("a second session"), "{:?}", server.received());
}

#[test]
fn a_directory_is_not_downloaded_as_a_file_and_a_missing_local_one_is_named() {
    let directory = TestDirectory::new("get-directory");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/a"), "a").unwrap();
    for url in [&url, &format!("{url}/")] {
        let (code, _, messages) = directory.run(&["get", url]);
        assert_eq!(code, Some(2), "{messages}");
        assert!(
            messages.contains("is a directory: list it with plumb ls, or use -r"),
            "{messages}"
        );
    }
    directory.run_ok(&["get", "-r", &format!("{url}/"), "all"]);
    assert_eq!(directory.read("all/a"), b"a");
    let (code, _, messages) = directory.run(&["get", &format!("{url}/*"), "-o", "none"]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("none is not a directory: several files"), "{messages}");
    let (code, stdout, messages) = directory.run(&["get", &format!("{url}/;type=D")]);
    assert_eq!((code, stdout.as_str()), (Some(0), "a\n"), "{messages}");
}

#[test]
fn a_stalled_transfer_fails_a_measurement_with_other_transfers() {
    let directory = TestDirectory::new("stops");
    let stall_quirk: &[Quirk] = &[Quirk::CutBeyond(20_000, Cut::Stalled)];
    let server = FaultyFtpServer::start(stall_quirk, &[("file", vec![b'x'; 65_536])]);
    let url = format!("ftp://127.0.0.1:{}/file", server.port);
    let arguments = ["measure", "--bytes", "64K", "--rounds", "1", "--timeout", "2", &url];
    let (code, stdout, messages) = directory.run(&arguments);
    assert_eq!(code, Some(1), "{stdout}{messages}");
    assert!(stdout.contains("16.4 kB in "), "{stdout}{messages}");
    let complete_server = FaultyFtpServer::start(&[], &[("file", vec![b'x'; 65_536])]);
    let url = format!("ftp://127.0.0.1:{}/file", complete_server.port);
    let (code, stdout, messages) =
        directory.run(&["measure", "--bytes", "64K", "--rounds", "1", &url]);
    assert_eq!(code, Some(0), "{stdout}{messages}");
}

#[test]
fn a_transfer_that_goes_on_slowly_does_not_time_out() {
    let directory = TestDirectory::new("slowly");
    // The transfer takes twice the timeout, but each piece takes only a quarter of it.
    let server = FaultyFtpServer::start(&[Quirk::Paced(512, 500)], &[("file", vec![b'x'; 4_096])]);
    let url = format!("ftp://127.0.0.1:{}/file", server.port);
    let arguments = ["measure", "--bytes", "4K", "--rounds", "1", "--timeout", "2", &url];
    let (code, stdout, messages) = directory.run(&arguments);
    assert_eq!(code, Some(0), "{stdout}{messages}");
    assert!(stdout.contains("4.10 kB in "), "{stdout}{messages}");
}
