//! Tests of transfer types and storage formats with servers that store words in different ways.
//! Further tests request features that a protocol lacks.

use crate::faulty_ftp::{Cut, FaultyFtpServer, Quirk};
use crate::own_server::TestDirectory;
use std::fs;

/// A server that stores words in its own format and reports the size in that format.
const OWN_WORD_FORMAT: &[Quirk] =
    &[Quirk::ReplyTo("SIZE", "213 999999"), Quirk::StartReply("150 it (999999 bytes)")];

#[test]
fn words_stored_in_another_format_by_the_server_are_not_a_size_mismatch() {
    let directory = TestDirectory::new("own-form");
    let words: Vec<u8> = (0..90).collect();
    let server = FaultyFtpServer::start(OWN_WORD_FORMAT, &[("words", words.clone())]);
    let url = format!("ftp://127.0.0.1:{}/words", server.port);
    directory.run_ok(&["get", "--store", "h36", "--tries", "1", &url]);
    assert_eq!(directory.read("words"), words);
    let (code, _, messages) =
        directory.run(&["get", "--store", "h36", "-c", "-f", "--tries", "1", &url]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("whole files are transferred in TYPE L 36"), "{messages}");
}

/// A server that breaks off the first transfer and reports the hash of its own storage format.
const ABORTED_TRANSFER: &[Quirk] = &[
    Quirk::Cut(40, Cut::ReportedAborted),
    Quirk::Features(" SIZE\n HASH SHA-256*"),
    Quirk::ReplyTo("HASH", "213 SHA-256 0-90 00 words"),
];

#[test]
fn words_received_at_the_second_attempt_are_not_compared_with_another_format() {
    let directory = TestDirectory::new("own-hash");
    let words: Vec<u8> = (0..90).collect();
    let server = FaultyFtpServer::start(ABORTED_TRANSFER, &[("words", words.clone())]);
    directory.run_ok(&["get", "--store", "h36", &format!("ftp://127.0.0.1:{}/words", server.port)]);
    let count_requests =
        |verb: &str| server.received().iter().filter(|received| *received == verb).count();
    assert_eq!((count_requests("RETR"), count_requests("HASH")), (2, 0));
    assert_eq!(directory.read("words"), words);
}

const TOPS20: &[Quirk] = &[Quirk::ReplyTo("SYST", "215 TOPS20 Monitor 7.1")];

#[test]
fn type_auto_requests_words_from_a_36_bit_system() {
    let directory = TestDirectory::new("auto");
    let server = FaultyFtpServer::start(TOPS20, &[("words", vec![0x12; 9])]);
    let url = format!("ftp://127.0.0.1:{}/words", server.port);
    let (code, _, messages) = directory.run(&["get", "--type", "auto", "--store", "oct", &url]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("the server is TOPS20 with words of 36 bits"), "{messages}");
    assert!(server.has_received("TYPE L 36"));
    assert_eq!(directory.read("words"), b"044110220441\n102204411022\n");
    let unix = FaultyFtpServer::start(
        &[Quirk::ReplyTo("SYST", "215 UNIX Type: L8")],
        &[("a", vec![7; 9])],
    );
    directory.run_ok(&["get", "--type", "auto", &format!("ftp://127.0.0.1:{}/a", unix.port)]);
    assert!(unix.has_received("TYPE I"));
}

#[test]
fn type_auto_reports_the_selected_type() {
    let directory = TestDirectory::new("auto-shell");
    let unix = FaultyFtpServer::start(&[Quirk::ReplyTo("SYST", "215 UNIX Type: L8")], &[]);
    let url = format!("127.0.0.1:{}", unix.port);
    let (stdout, messages) = directory.run_shell(&url, "type A\ntype auto\ntype\n");
    assert!(stdout.contains("TYPE I, MODE S"), "{stdout}");
    assert!(messages.contains("the server is UNIX: files are transferred as TYPE I"), "{messages}");
    let tops20 = FaultyFtpServer::start(TOPS20, &[("pages", Vec::new())]);
    let url = format!("ftp://127.0.0.1:{}/pages", tops20.port);
    directory.run(&["get", "--type", "auto", "--stru", "P", "--tries", "1", &url]);
    assert!(tops20.has_received("TYPE L 36") && tops20.has_received("STRU P"));
    let (code, _, messages) = directory.run(&[
        "get",
        "--type",
        "auto",
        "--stru",
        "P",
        &format!("ftp://127.0.0.1:{}/pages", unix.port),
    ]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("the server is UNIX: STRU P counts pages"), "{messages}");
}

#[test]
fn a_mirror_of_a_36_bit_host_does_not_suggest_resuming() {
    let directory = TestDirectory::new("auto-mirror");
    let tops20 = FaultyFtpServer::start(TOPS20, &[("d/words", vec![0x12; 9])]);
    fs::create_dir_all(directory.0.join("config/plumb")).unwrap();
    let configuration = directory.0.join("config/plumb/config.toml");
    fs::write(configuration, "[host.\"127.0.0.1\"]\nimage = \"auto\"\n").unwrap();
    let (code, _, messages) =
        directory.run(&["mirror", &format!("ftp://127.0.0.1:{}/d", tops20.port), "here"]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(
        !messages.contains("--continue") && messages.contains("transferred as TYPE L 36"),
        "{messages}"
    );
}

#[test]
fn the_meaning_of_type_i_of_a_host_is_configurable() {
    let directory = TestDirectory::new("configured");
    let server = FaultyFtpServer::start(&[], &[("words", vec![0x12; 9])]);
    let url = format!("ftp://127.0.0.1:{}/words", server.port);
    fs::create_dir_all(directory.0.join("config/plumb")).unwrap();
    let configuration = directory.0.join("config/plumb/config.toml");
    fs::write(&configuration, "[host.\"127.0.0.1\"]\nimage = \"L36\"\nstore = \"oct\"\n").unwrap();
    let (_, stdout, messages) = directory.run(&["get", "--json", &url]);
    assert_eq!(directory.read("words"), b"044110220441\n102204411022\n", "{messages}");
    assert!(stdout.contains(r#""byte_size":36"#), "{stdout}");
    assert!(server.has_received("TYPE L 36") && !server.has_received("TYPE I"));
    let (stdout, messages) =
        directory.run_shell(&format!("127.0.0.1:{}", server.port), "type A\ntype I\ntype\n");
    assert!(stdout.contains("TYPE L 36, MODE S, STRU F, local words as oct"), "{messages}");
    let (stdout, messages) =
        directory.run_shell(&format!("127.0.0.1:{}", server.port), "cat words\n");
    assert_eq!(stdout, "044110220441\n102204411022\n", "{messages}");
    let (_, stdout, messages) = directory.run(&["cat", &url]);
    assert_eq!(stdout, "044110220441\n102204411022\n", "{messages}");
    directory.run_ok(&["get", "--type", "L8", &url, "octets"]);
    assert_eq!(directory.read("octets"), [0x12; 9]);
    assert!(server.has_received("TYPE L 8"));
    fs::write(configuration, "[host.a]\nimage = \"A\"\n").unwrap();
    let (code, _, messages) = directory.run(&["get", &url]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("the image type must not be a text type"), "{messages}");
}

#[test]
fn paged_files_are_words_by_default_and_other_types_are_refused() {
    let directory = TestDirectory::new("pages");
    let (_server, url) = directory.serve("");
    let words: Vec<u8> = (0..=255).cycle().take(9 * 700).collect();
    fs::write(directory.0.join("words"), &words).unwrap();
    directory.run_ok(&["put", "--stru", "P", "words", &format!("{url}/pages")]);
    directory.run_ok(&["get", "--stru", "P", &format!("{url}/pages"), "back"]);
    assert_eq!(directory.read("back"), words);
    let (code, _, messages) =
        directory.run(&["get", "--stru", "P", "--type", "I", &format!("{url}/pages")]);
    assert_eq!((code, messages.lines().count()), (Some(2), 1), "{messages}");
    assert!(messages.contains("STRU P counts pages and words in logical bytes"), "{messages}");
}

#[test]
fn features_that_a_protocol_lacks_are_refused() {
    let directory = TestDirectory::new("refused");
    fs::write(directory.0.join("a"), "text").unwrap();
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
        let (code, _, messages) = directory.run(&words);
        assert_eq!((code, messages.lines().count()), (Some(2), 1), "{flags:?}: {messages}");
        assert!(messages.starts_with("plumb: error: TFTP has no --"), "{flags:?}: {messages}");
    }
    let (code, _, messages) = directory.run(&["put", "--window", "4", "a", "ftp://127.0.0.1:9/a"]);
    assert_eq!((code, messages.as_str()), (Some(2), "plumb: error: FTP has no --window\n"));
}

#[test]
fn words_of_36_bits_are_read_back_from_directories_of_every_format() {
    let directory = TestDirectory::new("folders");
    let format_names = ["h36", "c36", "a36", "u36", "data8", "oct"];
    let mut lines = "[ftp.word-formats]\n".to_owned();
    for format_name in format_names {
        fs::create_dir(directory.0.join("there").join(format_name)).unwrap();
        lines.push_str(&format!("\"/{format_name}\" = \"{format_name}\"\n"));
    }
    fs::create_dir(directory.0.join("there/plain")).unwrap();
    let (_server, url) = directory.serve(&lines);
    let octets = |at: u32| u8::try_from((at * 7 + at / 251) % 256).unwrap();
    let words: Vec<u8> = (0..1800).map(octets).collect();
    fs::write(directory.0.join("words"), &words).unwrap();
    fs::write(directory.0.join("text"), "HELLO, WORLD\nTHIS IS TEXT OF 36 BITS.\n").unwrap();
    for directory_path in [&format_names[..], &["plain"]].concat() {
        let remote_url = |name: &str| format!("{url}/{directory_path}/{name}");
        directory.run_ok(&["put", "--store", "h36", "words", &remote_url("words")]);
        for format_name in format_names {
            directory.run_ok(&[
                "get",
                "-f",
                "--store",
                format_name,
                "--tries",
                "1",
                &remote_url("words"),
                "here",
            ]);
            directory.run_ok(&[
                "put",
                "--store",
                format_name,
                "--tries",
                "1",
                "here",
                &remote_url("again"),
            ]);
            directory.run_ok(&[
                "get",
                "-f",
                "--store",
                "h36",
                "--tries",
                "1",
                &remote_url("again"),
                "back",
            ]);
            assert_eq!(directory.read("back"), words, "{directory_path} {format_name}");
        }
        directory.run_ok(&["put", "--store", "text", "text", &remote_url("text")]);
        directory.run_ok(&["get", "-f", "--store", "text", &remote_url("text"), "back"]);
        assert_eq!(directory.read("back"), directory.read("text"), "{directory_path}");
    }
    assert_eq!(directory.read("there/c36/words").len(), 400 * 5);
}
