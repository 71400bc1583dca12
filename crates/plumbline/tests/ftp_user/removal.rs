//! Tests of `rm`, `mv` and `mirror --delete`: refusals, counts and confirmation questions.

use crate::faulty_ftp::{FaultyFtpServer, Quirk};
use crate::login_harness::TerminalUser;
use crate::own_server::TestDirectory;
use std::fs;

/// Files and directories below `there`.
const TREE: [&str; 4] = ["keep/deep/thesis.txt", "many/a", "many/b", "notes.txt"];

/// Starts plumb's server with the tree, and returns the working directory, the server and its URL.
fn start_server_with_tree(name: &str) -> (TestDirectory, os::process::Program, String) {
    let directory = TestDirectory::new(name);
    let (server, url) = directory.serve("");
    for file in TREE {
        let path = directory.0.join("there").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    (directory, server, url)
}

fn remaining_files(directory: &TestDirectory) -> Vec<&'static str> {
    TREE.into_iter().filter(|file| directory.0.join("there").join(file).exists()).collect()
}

// attack row 145
#[test]
fn rm_refuses_relative_directory_names() {
    let (directory, _server, url) = start_server_with_tree("rm-refused");
    for path in [
        "",
        "/",
        "//",
        "/.",
        "/..",
        "/./",
        "/%2e%2e",
        "/many/..",
        "/many/%2e%2e/",
        "/a/../..",
        "/%2f",
        "/many/.",
        "/*/..",
    ] {
        for flags in [&["rm", "-r"][..], &["rm", "-rf"], &["rm"]] {
            let url = format!("{url}{path}");
            let (code, stdout, messages) = directory.run(&[flags, &[&url]].concat());
            assert_eq!((code, stdout.as_str()), (Some(2), ""), "{path}: {messages}");
            assert!(messages.contains("refusing to remove"), "{path}: {messages}");
        }
    }
    assert_eq!(remaining_files(&directory), TREE);
}

// attack row 145
#[test]
fn a_refused_path_is_not_sent_to_the_server() {
    let directory = TestDirectory::new("rm-unasked");
    let server = FaultyFtpServer::start(&[], &[("f", b"x".to_vec())]);
    let (code, _, _) = directory.run(&["rm", "-r", &format!("ftp://127.0.0.1:{}/", server.port)]);
    assert_eq!((code, server.received()), (Some(2), Vec::new()));
}

const DOT_ENTRIES: &[Quirk] = &[
    Quirk::Listing(
        "drwx------ 1 a b 1 Jan 02 2020 .\ndrwx------ 1 a b 1 Jan 02 2020 ..\n\
         -rw------- 1 a b 1 Jan 02 2020 .x\n",
    ),
    Quirk::ReplyTo("DELE", "250 gone"),
];

#[test]
fn a_pattern_does_not_match_dot_and_dot_dot() {
    let directory = TestDirectory::new("rm-dots");
    let server = FaultyFtpServer::start(DOT_ENTRIES, &[]);
    let url = format!("ftp://127.0.0.1:{}/d/.*", server.port);
    let (code, _, messages) = directory.run(&["rm", "-r", &url]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(server.has_received("DELE d/.x"));
    assert_eq!(
        server.received().iter().filter(|verb| matches!(verb.as_str(), "DELE" | "RMD")).count(),
        1
    );
}

#[test]
fn rm_counts_names_and_prints_as_json_what_it_removes() {
    let (directory, _server, url) = start_server_with_tree("rm-counts");
    let many = format!("{url}/many");
    let (code, stdout, messages) = directory.run(&["rm", "-r", "-n", &many]);
    assert_eq!((code, stdout.as_str()), (Some(0), "delete many/b\ndelete many/a\ndelete many/\n"));
    assert!(!messages.contains("removed"), "{messages}");
    assert_eq!(remaining_files(&directory), TREE);
    let (code, _, messages) = directory.run(&["rm", "-r", "-v", &many]);
    assert_eq!(code, Some(0), "{messages}");
    for part in ["removing 2 files and 1 directory", "removed 'many/a'", "removed 'many/'"] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
    let (code, stdout, messages) = directory.run(&["rm", "-r", "--json", &format!("{url}/keep")]);
    assert_eq!((code, messages.as_str()), (Some(0), ""));
    let first = r#"{"kind":"file","name":"keep/deep/thesis.txt","what":"deleted"}"#;
    assert_eq!((stdout.lines().next(), stdout.lines().count()), (Some(first), 3));
    assert_eq!(remaining_files(&directory), ["notes.txt"]);
}

#[test]
fn rm_of_a_directory_says_how_it_is_removed() {
    let (directory, _server, url) = start_server_with_tree("rm-directory");
    let (code, _, messages) = directory.run(&["rm", &format!("{url}/many")]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("'many' is a directory: use -r"), "{messages}");
    let (code, _, messages) = directory.run(&["rm", &format!("{url}/*")]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("'keep' is a directory: use -r to remove it"), "{messages}");
    assert!(messages.contains("2 directories were not removed"), "{messages}");
    assert_eq!(remaining_files(&directory), TREE[..3]);
}

/// Runs plumb on a terminal, answers its question, waits for `last`, and returns its exit code.
fn run_and_answer(
    directory: &TestDirectory,
    words: &[&str],
    (question, answer): (&str, &str),
    last: &str,
) -> Option<i32> {
    let mut command = directory.plumb();
    command.args(words);
    let mut user = TerminalUser::run(command);
    user.wait_for_text(question);
    user.type_keys(answer);
    user.wait_for_text(last);
    user.wait_for_exit().code()
}

#[test]
fn on_a_terminal_rm_asks_and_only_yes_removes() {
    let (directory, _server, url) = start_server_with_tree("rm-asks");
    let many = format!("{url}/many");
    let words = ["rm", "-r", &many];
    let question = "remove 2 files and 1 directory? [y/N]";
    let code = run_and_answer(&directory, &words, (question, "\r"), "nothing was changed");
    assert_eq!((code, remaining_files(&directory)), (Some(3), TREE.to_vec()));
    let code =
        run_and_answer(&directory, &words, (question, "y\r"), "removed 2 files and 1 directory");
    assert_eq!(code, Some(0));
    assert_eq!(remaining_files(&directory), ["keep/deep/thesis.txt", "notes.txt"]);
}

#[test]
fn the_shell_refuses_the_same_paths() {
    let (directory, _server, url) = start_server_with_tree("rm-shell");
    let lines = "cd many\nrm -r .\nrm -r ..\nmdelete ..\nrmdir .\nrm -rf /\nrm -r ''\nmv .. x\n\
                 mv a .\nrm -r ../many/..\n";
    let (_, messages) = directory.run_shell(&url, lines);
    assert_eq!(messages.matches("refusing to remove").count(), 7, "{messages}");
    assert_eq!(messages.matches("refusing to rename").count(), 2, "{messages}");
    assert_eq!(remaining_files(&directory), TREE);
    let (_, messages) = directory.run_shell(&url, "rm -rv many\n");
    assert!(messages.contains("removing 2 files and 1 directory"), "{messages}");
    assert_eq!(remaining_files(&directory), ["keep/deep/thesis.txt", "notes.txt"]);
}

#[test]
fn mv_takes_two_urls_of_the_same_host_and_user() {
    let (directory, _server, url) = start_server_with_tree("mv-urls");
    let notes = format!("{url}/notes.txt");
    let (code, _, messages) = directory.run(&["mv", &notes, "ftp://192.0.2.1/notes.txt"]);
    assert_eq!(code, Some(2), "{messages}");
    assert!(messages.contains("differ in host, port or user"), "{messages}");
    let other = url.replace("ftp://", "ftp://ann@");
    let (code, _, messages) = directory.run(&["mv", &notes, &format!("{other}/x")]);
    assert_eq!(code, Some(2), "{messages}");
    directory.run_ok(&["mv", &notes, &format!("{url}/many/new.txt")]);
    assert_eq!(directory.read("there/many/new.txt"), b"notes.txt");
    directory.run_ok(&["mv", &format!("{url}/many/new.txt"), "notes.txt"]);
    assert_eq!(remaining_files(&directory), TREE);
}

#[test]
fn mv_refuses_relative_directory_names() {
    let (directory, _server, url) = start_server_with_tree("mv-refused");
    let notes = format!("{url}/notes.txt");
    for (from, to) in [
        (url.as_str(), "x"),
        (&notes, "."),
        (&notes, "many/.."),
        (&notes, "/"),
        (&notes, ""),
        (&format!("{url}/many/.."), "x"),
        (&notes, &format!("{url}/")),
    ] {
        let (code, _, messages) = directory.run(&["mv", from, to]);
        assert_eq!(code, Some(2), "{from} {to}: {messages}");
        assert!(messages.contains("refusing to rename"), "{messages}");
    }
    assert_eq!(remaining_files(&directory), TREE);
}

#[test]
fn mirror_deletes_in_a_root_only_if_it_is_forced() {
    let (directory, _server, url) = start_server_with_tree("mirror-root");
    fs::create_dir(directory.0.join("empty")).unwrap();
    for to in ["", "/", "/.", "/many/.."] {
        let (code, _, messages) =
            directory.run(&["mirror", "--delete", "empty", &format!("{url}{to}")]);
        assert_eq!(code, Some(2), "{to}: {messages}");
        assert!(messages.contains("refusing to delete in the destination"), "{messages}");
    }
    for to in [".", "..", "/"] {
        let (code, _, messages) =
            directory.run(&["mirror", "--delete", &format!("{url}/many"), to]);
        assert_eq!(code, Some(2), "{to}: {messages}");
    }
    assert_eq!(remaining_files(&directory), TREE);
    let many = format!("{url}/many");
    let (code, _, messages) = directory.run(&["mirror", "--delete", "empty", &many]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("deleting 2 files at the destination"), "{messages}");
    assert_eq!(remaining_files(&directory), ["keep/deep/thesis.txt", "notes.txt"]);
    directory.run_ok(&["mirror", "--delete", "--force", "empty", &url]);
    assert_eq!(remaining_files(&directory), [""; 0]);
}

#[test]
fn on_a_terminal_mirror_asks_before_it_deletes() {
    let (directory, _server, url) = start_server_with_tree("mirror-asks");
    fs::create_dir(directory.0.join("empty")).unwrap();
    let words = ["mirror", "--delete", "empty", &format!("{url}/many")];
    let question = ("delete 2 files at the destination? [y/N]", "n\r");
    let code = run_and_answer(&directory, &words, question, "nothing was changed");
    assert_eq!((code, remaining_files(&directory)), (Some(3), TREE.to_vec()));
}
