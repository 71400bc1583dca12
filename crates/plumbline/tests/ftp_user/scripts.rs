//! Tests of scripts of the interactive client, of its commands for other servers, and of `ls`.

use crate::login_harness::TerminalUser;
use crate::own_server::TestDirectory;
use os::process::Program;
use std::fs;
use std::process::Stdio;

/// Starts a server with `pub/README`, `pub/tree/a`, `pub/tree/b/c` and `incoming`.
fn served(name: &str) -> (TestDirectory, Program, String) {
    let directory = TestDirectory::new(name);
    let there = directory.0.join("there");
    for path in ["pub/tree/b", "incoming"] {
        fs::create_dir_all(there.join(path)).unwrap();
    }
    for file in ["pub/README", "pub/tree/a", "pub/tree/b/c"] {
        fs::write(there.join(file), file).unwrap();
    }
    let (server, url) = directory.serve("");
    (directory, server, url)
}

/// Runs the client with `lines` as its standard input, and returns its exit code and output.
fn run_script(directory: &TestDirectory, words: &[&str], lines: &str) -> (Option<i32>, String) {
    let mut command = directory.plumb();
    command.arg("ftp").args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = command.stderr(Stdio::null()).spawn().unwrap();
    // The client may end before it has read all lines.
    _ = std::io::Write::write_all(&mut shell.stdin.take().unwrap(), lines.as_bytes());
    let output = shell.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_script_ends_at_its_first_failed_command_with_the_exit_code_of_the_command() {
    let (directory, _server, url) = served("script-ends");
    fs::write(directory.0.join("README"), "older").unwrap();
    let lines = "cd pub\nget nope\nget README\npwd\n";
    assert_eq!(run_script(&directory, &[&url], lines), (Some(1), String::new()));
    let lines = "cd pub\nget README\nget nope\npwd\n";
    assert_eq!(run_script(&directory, &[&url], lines), (Some(2), String::new()));
    let (code, stdout) = run_script(&directory, &["--continue-on-error", &url], lines);
    assert_eq!((code, stdout.as_str()), (Some(2), "/pub\n"));
    assert_eq!(run_script(&directory, &[&url], "pwd\n"), (Some(0), "/\n".to_owned()));
}

#[test]
fn a_failed_file_of_several_and_a_failed_local_command_fail_a_script() {
    let (directory, _server, url) = served("script-several");
    fs::write(directory.0.join("README"), "older").unwrap();
    let (code, _) = run_script(&directory, &[&url], "cd pub\nmget README\n");
    assert_eq!(code, Some(2));
    let (code, _) = run_script(&directory, &[&url], "!exit 3\n");
    assert_eq!(code, Some(4));
}

#[test]
fn commands_of_e_are_separated_by_semicolons_and_run_in_order() {
    let (directory, _server, url) = served("script-execute");
    let (code, stdout, messages) =
        directory.run(&["ftp", "-e", "cd pub; get README", "-e", "pwd\nbye", &url]);
    assert_eq!((code, stdout.as_str()), (Some(0), "/pub\n"), "{messages}");
    assert_eq!(directory.read("README"), b"pub/README");
    let (code, stdout, _) = directory.run(&["ftp", "-e", "cd nope; pwd", &url]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
}

#[test]
fn ls_and_its_flags_list_hidden_names_and_trees() {
    let (directory, _server, url) = served("script-ls");
    fs::write(directory.0.join("there/pub/.hidden"), "x").unwrap();
    let (code, stdout, messages) = directory.run(&["ls", "-R", &format!("{url}/pub")]);
    let expected = "pub:\n.hidden\nREADME\ntree/\n\npub/tree:\na\nb/\n\npub/tree/b:\nc\n";
    assert_eq!((code, stdout.as_str()), (Some(0), expected), "{messages}");
    let (_, stdout, messages) = directory.run(&["ls", "-la", &format!("{url}/pub/")]);
    let line = stdout.lines().find(|line| line.ends_with("Z README")).unwrap_or_default();
    assert!(line.starts_with("-rw-r--r-- ") && line.contains(" 10 20"), "{stdout}{messages}");
    assert!(stdout.lines().any(|line| line.ends_with(" .hidden")), "{stdout}");
    fs::write(directory.0.join("x.iso"), "12345").unwrap();
    fs::write(directory.0.join("y.txt"), "1").unwrap();
    let script = "cd pub; ls -la README; ls -R tree; lls *.iso; lls -l x.iso";
    let (code, stdout, messages) = directory.run(&["ftp", "-e", script, &url]);
    assert_eq!(code, Some(0), "{messages}");
    let lines: Vec<_> = stdout.lines().collect();
    assert!(lines[0].starts_with("-rw-r--r-- ") && lines[0].ends_with("/pub/README"), "{stdout}");
    assert_eq!(lines[1..7], ["/pub/tree:", "a", "b/", "", "/pub/tree/b:", "c"], "{stdout}");
    assert_eq!(lines[7], "x.iso");
    assert!(lines[8].starts_with("-rw-") && lines[8].ends_with(" x.iso"), "{stdout}");
}

#[test]
fn binary_and_ascii_set_the_type() {
    let (directory, _server, url) = served("script-types");
    let (_, stdout, _) = directory.run(&["ftp", "-e", "ascii; type; bin; type", &url]);
    let types: Vec<_> = stdout.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!(types, ["TYPE A", "TYPE I"], "{stdout}");
}

#[test]
fn mirror_downloads_and_uploads_relative_to_the_directories() {
    let (directory, _server, url) = served("script-mirror");
    let script = "cd pub; mirror tree; mirror tree copy; cd ../incoming; mirror -R tree up; pwd";
    let (code, stdout, messages) = directory.run(&["ftp", "-e", script, &url]);
    assert_eq!((code, stdout.as_str()), (Some(0), "/incoming\n"), "{messages}");
    assert_eq!(directory.read("tree/b/c"), b"pub/tree/b/c");
    assert_eq!(directory.read("copy/a"), b"pub/tree/a");
    assert_eq!(directory.read("there/incoming/up/b/c"), b"pub/tree/b/c");
    fs::write(directory.0.join("copy/extra"), "x").unwrap();
    let script = "mirror -en pub/tree copy; mirror -e pub/tree copy";
    let (code, stdout, messages) = directory.run(&["ftp", "-e", script, &url]);
    assert_eq!((code, stdout.as_str()), (Some(0), "delete extra\n"), "{messages}");
    assert!(!directory.0.join("copy/extra").exists());
    let (code, _, _) = directory.run(&["ftp", "-e", "mirror -e pub/tree .", &url]);
    assert_eq!(code, Some(2));
}

#[test]
fn open_leads_to_another_server_and_close_ends_a_session() {
    let (directory, _server, url) = served("script-open");
    let other = TestDirectory::new("script-open-other");
    let (_other_server, other_url) = other.serve("");
    fs::write(other.0.join("there/elsewhere"), "x").unwrap();
    let script = format!("close; cd pub; open {other_url}; ls; user ftp; pwd");
    let (code, stdout, messages) = directory.run(&["ftp", "-e", &script, &url]);
    assert_eq!((code, stdout.as_str()), (Some(0), "elsewhere\n/\n"), "{messages}");
    let (code, ..) = directory.run(&["ftp", "-e", "user nobody wrong; pwd", &url]);
    assert_eq!(code, Some(1));
}

#[test]
fn a_failed_open_leads_back_to_the_host_before_and_sigterm_ends_the_shell() {
    let (directory, _server, url) = served("script-back");
    fs::create_dir(directory.0.join("there/incoming/sub")).unwrap();
    let unused_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = directory.plumb();
    command.args(["ftp", &format!("{url}/incoming")]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text("ftp 127.0.0.1:/incoming>");
    user.type_keys(&format!("open {url}/pub\r"));
    user.wait_for_text("ftp 127.0.0.1:/pub>");
    user.type_keys("cd tree\r");
    user.wait_for_text("ftp 127.0.0.1:/pub/tree>");
    user.type_keys(&format!("open {unused_address}\r"));
    user.wait_for_text("refuses the connection");
    user.type_keys("cd b\r");
    user.wait_for_text("ftp 127.0.0.1:/pub/tree/b>");
    user.type_keys(&format!("open {url}/incoming/sub\r"));
    user.wait_for_text("ftp 127.0.0.1:/incoming/sub>");
    user.send_signal(rustix::process::Signal::TERM);
    assert_eq!(user.wait_for_exit().code(), Some(143));
}

#[test]
fn a_bookmark_is_added_listed_opened_and_deleted() {
    let (directory, _server, url) = served("script-bookmark");
    directory.run_ok(&["ftp", "-e", "cd pub/tree; bookmark add work", &url]);
    let (code, stdout, messages) = directory.run(&["ftp", "-e", "pwd; bookmark list", "work"]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(stdout.starts_with("/pub/tree\nwork ftp://127.0.0.1:"), "{stdout}");
    directory.run_ok(&["ftp", "-e", "bookmark delete work", "work"]);
    let (code, ..) = directory.run(&["ftp", "-e", "bookmark delete work", &url]);
    assert_eq!(code, Some(2));
}

#[test]
fn tab_completes_in_the_directory_of_the_word_and_the_prompt_has_the_directory() {
    let (directory, _server, url) = served("script-tab");
    let mut command = directory.plumb();
    command.args(["ftp", &url]);
    let mut user = TerminalUser::run(command);
    user.wait_for_text("ftp 127.0.0.1:/>");
    user.type_keys("cd /pub/tr\t\r");
    user.wait_for_text("ftp 127.0.0.1:/pub/tree>");
    user.type_keys("cd nope\r");
    user.wait_for_text("cannot change to '/pub/tree/nope'");
    user.type_keys("quit\r");
    assert_eq!(user.wait_for_exit().code(), Some(0));
}
