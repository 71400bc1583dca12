//! Tests of the commands of the interactive client.

use crate::faulty_ftp::{FaultyFtpServer, Quirk};
use crate::login_harness::TerminalUser;
use crate::own_server::TestDirectory;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn mget_and_mput_continue_after_an_existing_file() {
    let directory = TestDirectory::new("shell-many");
    let (_server, url) = directory.serve("");
    for name in ["a.gz", "b.gz", "c.txt"] {
        fs::write(directory.0.join("there").join(name), name).unwrap();
    }
    fs::write(directory.0.join("a.gz"), "older").unwrap();
    let lines = "mget *.gz c.txt\nmget -f a.*\nmkdir up\ncd up\nmput *.gz c.txt\nput c.txt x/\n";
    let (_, messages) = directory.run_shell(&url, lines);
    assert!(messages.contains("a.gz exists: use -f"), "{messages}");
    assert_eq!(directory.read("b.gz"), b"b.gz");
    assert_eq!(
        (directory.read("a.gz"), directory.read("c.txt")),
        (b"a.gz".into(), b"c.txt".into())
    );
    assert_eq!(directory.read("there/up/a.gz"), b"a.gz");
    assert_eq!(directory.read("there/up/c.txt"), b"c.txt");
}

#[test]
fn prompt_asks_before_each_of_many_files() {
    let directory = TestDirectory::new("shell-asked");
    let (_server, url) = directory.serve("");
    for name in ["a", "b", "c", "d"] {
        fs::write(directory.0.join("there").join(name), name).unwrap();
    }
    // The answers are no for a, then "all".
    directory.run_shell(&url, "prompt\nmget *\nn\na\n");
    assert_eq!(
        ["a", "b", "c", "d"].map(|name| directory.0.join(name).exists()),
        [false, true, true, true]
    );
    // The answers are yes for a, then "quit".
    directory.run_shell(&url, "prompt\nmdelete *\ny\nq\n");
    let is_kept = ["a", "b", "c", "d"].map(|name| directory.0.join("there").join(name).exists());
    assert_eq!(is_kept, [false, true, true, true]);
    let history = fs::read_to_string(directory.0.join("plumb/ftp_history")).unwrap();
    assert!(history.contains("mdelete *") && !history.lines().any(|line| line == "y"), "{history}");
}

#[test]
fn the_working_directory_and_existing_names_are_not_patterns() {
    let directory = TestDirectory::new("shell-patterns");
    let (_server, url) = directory.serve("");
    for name in ["a[1]/x", "a[1]/y.gz", "a1/x", "a1/y.gz", "b[1]", "b1", "c[1]/x", "c1/x"] {
        let file = directory.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    let lines = "cd 'a[1]'\nls\nmget *.gz\nchmod 600 *.gz\nrm x\nrm *.gz\ncd ..\nrm b[1]\n\
        rm -r c[1]\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    assert_eq!(directory.read("y.gz"), b"a[1]/y.gz", "{messages}");
    assert_eq!(stdout, "x\ny.gz\n", "{messages}");
    let is_there = |name: &str| directory.0.join("there").join(name).exists();
    assert!(["a1/x", "a1/y.gz", "b1", "c1/x"].into_iter().all(is_there), "{messages}");
    assert!(!["a[1]/x", "a[1]/y.gz", "b[1]", "c[1]"].into_iter().any(is_there), "{messages}");
    directory.run_shell(&url, "rm b[1]\n");
    assert!(!is_there("b1"), "nothing has that very name now");
}

#[test]
fn ls_lists_several_paths_rejects_unknown_options_and_expands_patterns() {
    let directory = TestDirectory::new("shell-several");
    let (_server, url) = directory.serve("");
    for name in ["d/x", "e/y", "a.gz", "b.gz"] {
        let file = directory.0.join("there").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, name).unwrap();
    }
    fs::create_dir(directory.0.join("into")).unwrap();
    let lines = "ls d e\nls -x\nget *.gz into\nget *.gz none\nget a.* one\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    assert_eq!(stdout, "d:\nx\ne:\ny\n", "{messages}");
    assert!(
        messages.contains("wrong arguments for 'ls', usage: ls [-laR] [NAME...]"),
        "{messages}"
    );
    assert!(messages.contains("none is not a directory: several files"), "{messages}");
    assert_eq!(
        (directory.read("into/a.gz"), directory.read("into/b.gz")),
        (b"a.gz".into(), b"b.gz".into())
    );
    assert_eq!(directory.read("one"), b"a.gz");
}

#[test]
fn rename_chmod_and_modtime_work() {
    let directory = TestDirectory::new("shell-names");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/a b"), "text").unwrap();
    let lines = "rename \"a b\" c\nchmod 640 c\nchmod 9 c\nmkdir d e\nrmdir e\nmodtime c\nsize c\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    let file_metadata = fs::metadata(directory.0.join("there/c")).unwrap();
    assert_eq!(file_metadata.permissions().mode() & 0o777, 0o640, "{messages}");
    assert!(messages.contains("'9' is not an octal mode like 644"), "{messages}");
    assert!(directory.0.join("there/d").is_dir() && !directory.0.join("there/e").exists());
    assert!(stdout.contains(" UTC\n") && stdout.contains("4 bytes, "), "{stdout}");
}

#[test]
fn local_listing_and_local_commands_work() {
    let directory = TestDirectory::new("shell-here");
    let (_server, url) = directory.serve("");
    fs::create_dir(directory.0.join("sub")).unwrap();
    fs::write(directory.0.join("sub/file"), "12345").unwrap();
    let lines = "lcd sub\nlpwd\nlls -l\n!cat file > copy\n!exit 3\nlcd /no/such\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    assert!(stdout.contains(&format!("{}\n", directory.0.join("sub").display())), "{stdout}");
    assert!(stdout.lines().any(|line| line.contains(" 5 ") && line.ends_with(" file")), "{stdout}");
    assert_eq!(directory.read("sub/copy"), b"12345");
    assert!(messages.contains("the command ended with exit status: 3"), "{messages}");
    assert!(messages.contains("cannot change to /no/such"), "{messages}");
}

#[test]
fn quote_refuses_commands_that_change_the_session() {
    let directory = TestDirectory::new("shell-quote");
    let server =
        FaultyFtpServer::start(&[Quirk::ReplyTo("SITE", "200 so be it")], &[("file", vec![7; 9])]);
    let url = format!("127.0.0.1:{}", server.port);
    let lines = "quote TYPE A\nsite UMASK 022\nquote NOOP\nquote\nget file\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    assert!(messages.contains("TYPE cannot be sent by quote: use type"), "{messages}");
    assert!(server.has_received("SITE UMASK 022") && !server.has_received("TYPE A"), "{messages}");
    assert!(stdout.contains("so be it"), "{stdout}");
    assert_eq!(directory.read("file"), [7; 9]);
}

#[test]
fn type_mode_and_word_format_keep_their_settings() {
    let directory = TestDirectory::new("shell-type");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/text"), "one\r\ntwo\r\n").unwrap();
    fs::write(directory.0.join("there/words"), [0x12_u8; 9]).unwrap();
    let lines = "type E\nget text ebcdic\ntype I\nmode Z\nget text\nmode S\nstore oct\nget words\n\
        type\nstru P\ntype L8\nstru P\nstatus\nhelp delete\n";
    let (stdout, messages) = directory.run_shell(&url, lines);
    assert_eq!(directory.read("text"), b"one\r\ntwo\r\n", "{messages}");
    assert_eq!(directory.read("words"), b"044110220441\n102204411022\n", "{messages}");
    assert!(stdout.contains("TYPE L 36, MODE S, STRU F, local words as oct\n"), "{stdout}");
    assert!(stdout.contains("rm [-rfnv] NAME..."), "{stdout}");
    assert!(messages.contains("STRU P"), "{messages}");
}

#[test]
fn active_and_passive_mode_can_be_switched() {
    let directory = TestDirectory::new("shell-active");
    let server = FaultyFtpServer::start(&[], &[("file", vec![7; 9])]);
    let url = format!("127.0.0.1:{}", server.port);
    directory.run_shell(&url, "active\nget file a\npassive\nget file b\n");
    let verbs = server.received();
    let verbs_used: Vec<_> =
        verbs.iter().filter(|verb| matches!(verb.as_str(), "EPRT" | "EPSV")).collect();
    assert_eq!(verbs_used, ["EPRT", "EPSV"], "{verbs:?}");
    assert_eq!((directory.read("a"), directory.read("b")), (vec![7; 9], vec![7; 9]));
}

#[test]
fn tab_completes_commands_remote_names_and_local_files() {
    let directory = TestDirectory::new("shell-tab");
    fs::write(directory.0.join("here.txt"), "text").unwrap();
    let server = FaultyFtpServer::start(&[], &[("a name", vec![7; 9])]);
    let mut command = directory.plumb();
    command.args(["ftp", &format!("127.0.0.1:{}", server.port)]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text("ftp 127.0.0.1:/>");
    user.type_keys("ls\r");
    user.wait_for_text("a name");
    user.type_keys("ge\ta\t it\r");
    user.wait_for_text("downloaded '/a name': 9 bytes");
    user.type_keys("put he\t\r");
    user.wait_for_text("uploaded '/here.txt': 4 bytes");
    user.type_keys("quit\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
    assert_eq!(directory.read("it"), [7; 9]);
}

#[test]
fn a_new_session_has_the_working_directory_of_the_one_before() {
    let directory = TestDirectory::new("shell-directory");
    let (_server, url) = directory.serve("");
    fs::create_dir_all(directory.0.join("there/d")).unwrap();
    for name in ["same", "d/same"] {
        fs::write(directory.0.join("there").join(name), name).unwrap();
    }
    // After a failed get, plumb changes to the directory of the file and tries again, because some
    // servers do not support paths. The working directory has then changed, so plumb ends the
    // session. The next command runs in a new session.
    let (_, messages) = directory.run_shell(&url, "cd d\nget nope\nquote DELE same\n");
    assert!(
        directory.0.join("there/same").exists() && !directory.0.join("there/d/same").exists(),
        "{messages}"
    );
}

#[test]
fn a_reply_to_stat_is_not_taken_for_the_features_of_the_server() {
    let directory = TestDirectory::new("shell-stat");
    let (_server, url) = directory.serve("");
    fs::write(directory.0.join("there/file"), "text").unwrap();
    let (stdout, messages) = directory.run_shell(&url, "status\nquote STAT\nsize file\n");
    assert!(
        stdout.lines().any(|line| line.contains('4')) && !messages.contains("no size or time"),
        "{messages}"
    );
}
