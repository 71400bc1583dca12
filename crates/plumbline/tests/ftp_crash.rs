//! The state of a file after a failure during its upload: a full disk, a killed server, or a
//! directory that is swapped for a symbolic link. Either the old or the new file is in place and
//! nothing else, and an upload that was confirmed is present.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod ftp_desk;
#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use ftp_desk::{Desk, Line, Server, pattern};
use login_desk::within_the_limit;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAGE: usize = 4096;
/// Size of the disk and of the uploaded file, in pages.
const DISK: usize = 32;
const FILE: usize = 6;
/// Number of times that directory and link change places.
const SWAPS: usize = 100_000;
/// Least number of requests for the file meanwhile.
const TRIES: usize = 2_000;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a server on its own tmpfs, and returns the path of that file system as the test sees it.
fn on_a_small_disk(desk: &Desk) -> (Server, PathBuf) {
    let there = desk.there("");
    let there = there.to_str().unwrap().trim_end_matches('/');
    let size = DISK * PAGE;
    let script = format!("mount -t tmpfs -o size={size} none {there} && exec \"$@\"");
    let namespaces = ["unshare", "--user", "--map-root-user", "--mount"];
    let before = [&namespaces[..], &["sh", "-c", &script, "sh"]].concat();
    let words = ["--writable", "--ftp-tls", "off", "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start_by(desk, &before, &words);
    let seen = format!("/proc/{}/root{there}", server.program.id());
    (server, seen.into())
}

/// Uploads a file with `command` for every number of free pages up to `needed + 1`.
fn the_disk_is_full_at_each_page(command: &str, expected: &[u8], needed: usize) {
    let desk = Desk::new();
    let (server, disk) = on_a_small_disk(&desk);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    let old = pattern(PAGE);
    for free in 0..=needed + 1 {
        _ = fs::remove_file(disk.join("file"));
        fs::write(disk.join("ballast"), vec![1; (DISK - 1 - free) * PAGE]).unwrap();
        fs::write(disk.join("file"), &old).unwrap();
        let code = line.stores(command, &expected[expected.len() - FILE * PAGE..]);
        let is_good = code == 226;
        assert_eq!(is_good, free >= needed, "{free} pages are free: {code}");
        assert!(is_good || code == 452, "{free} pages are free: {code}");
        let left = fs::read(disk.join("file")).unwrap();
        assert!(left == if is_good { expected } else { &old }, "{free} pages are free: {code}");
        // The next command shows that the client is alive; the server keeps no partial upload for
        // it any more.
        assert_eq!(line.says("NOOP"), 200);
        assert_eq!(names(&disk), ["ballast", "file"]);
    }
}

// attack row 99
#[test]
#[ignore = "needs unshare"]
fn a_disk_that_is_full_at_any_page_leaves_the_old_file_and_says_so() {
    let new: Vec<u8> = pattern(FILE * PAGE).into_iter().rev().collect();
    the_disk_is_full_at_each_page("STOR file", &new, FILE);
}

// attack row 99
#[test]
#[ignore = "needs unshare"]
fn a_disk_that_is_full_at_any_page_leaves_what_was_there_before_more_was_put_behind_it() {
    let whole = [pattern(PAGE), pattern(FILE * PAGE)].concat();
    the_disk_is_full_at_each_page("APPE file", &whole, FILE + 1);
}

// attack row 99
#[test]
fn a_quota_that_is_used_up_at_any_page_leaves_the_old_file_and_says_so() {
    let desk = Desk::new();
    let configuration = desk.here("serve.toml");
    let text = format!("[ftp]\nrights = \"writable\"\nquota-bytes = {}\n", DISK * PAGE);
    fs::write(&configuration, text).unwrap();
    let words = ["--config", configuration.to_str().unwrap(), "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start(&desk, &words);
    let mut line = Line::logged_in(&server);
    line.says("TYPE I");
    let old = pattern(PAGE);
    let new: Vec<u8> = pattern(FILE * PAGE).into_iter().rev().collect();
    for free in 0..=FILE + 1 {
        assert_eq!(line.stores("STOR file", &old), 226);
        assert_eq!(line.stores("STOR ballast", &vec![1; (DISK - 1 - free) * PAGE]), 226);
        let code = line.stores("STOR file", &new);
        assert_eq!(code, if free >= FILE { 226 } else { 552 }, "{free} pages are free");
        let left = fs::read(desk.there("file")).unwrap();
        assert!(left == if code == 226 { &new[..] } else { &old }, "{free} pages are free");
        assert_eq!(line.says("NOOP"), 200);
        assert_eq!(names(&desk.there("")), ["ballast", "file"]);
        assert_eq!((line.says("DELE ballast"), line.says("DELE file")), (250, 250));
        assert_eq!(line.asks("AVBL"), format!("213 {}\r\n", DISK * PAGE));
    }
}

/// Stores a file in three parts, and returns the code of the last reply, if any.
fn store_in_parts(
    server: &Server,
    command: &str,
    new: &[u8],
    says_more: impl FnOnce(),
) -> Option<u16> {
    let mut line = Line::logged_in(server);
    line.says("TYPE I");
    says_more();
    let mut data = line.tries_passive()?;
    if line.tries(command)? != 150 {
        return None;
    }
    for part in new.chunks(new.len().div_ceil(3)) {
        data.write_all(part).ok()?;
    }
    drop(data);
    line.tries_to_hear()
}

/// Kills a server at the `number`th of the system calls `calls`, counted per thread from the start
/// of an upload. Returns whether that call was reached.
fn killed(desk: &Desk, command: &str, calls: &str, number: usize) -> bool {
    let (old, sent) = (pattern(1000), pattern(50_000));
    let new = if command.starts_with("APPE") { [&old[..], &sent].concat() } else { sent.clone() };
    fs::write(desk.there("file"), &old).unwrap();
    let words = ["--writable", "--ftp-tls", "off", "--ftp-listen", "127.0.0.1:0"];
    let mut server = Server::start(desk, &words);
    let (id, inject) =
        (server.program.id().to_string(), format!("{calls}:signal=KILL:when={number}"));
    let mut tracer = None;
    let reply = store_in_parts(&server, command, &sent, || {
        let mut command = test_support::peers::STRACE.command();
        command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={inject}"), "-p", &id]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("attached") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "strace cannot attach");
        }
        tracer = Some((child, said));
    });
    let is_dead = reply.is_none();
    if !is_dead {
        _ = server.program.child().kill();
    }
    within_the_limit(|| server.program.has_ended().unwrap());
    tracer.unwrap().0.wait().unwrap();
    let left = fs::read(desk.there("file")).unwrap();
    assert!(left == old || left == new, "{calls} {number}: {} bytes are left", left.len());
    assert!(reply != Some(226) || left == new, "{calls} {number}: it was called good");
    assert!(is_dead || reply == Some(226), "{calls} {number}: {reply:?}");
    // The next server removes leftovers at its start.
    let server = Server::start(desk, &words);
    within_the_limit(|| (names(&desk.there("")) == ["file"]).then_some(()));
    assert_eq!(fs::read(desk.there("file")).unwrap(), left);
    drop(server);
    is_dead
}

fn killed_at_each(command: &str, calls: &str) {
    let desk = Desk::new();
    let steps = (1..500).take_while(|number| killed(&desk, command, calls, *number)).count();
    eprintln!("{command}: killed at {steps} calls of {calls}");
    assert!(steps > 0, "{calls}: nothing was called");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_that_is_killed_at_any_call_of_an_upload_leaves_a_whole_file_and_no_litter() {
    killed_at_each("STOR file", "all");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_that_is_killed_while_it_puts_more_behind_a_file_leaves_it_whole_and_no_litter() {
    killed_at_each("APPE file", "all");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_that_is_killed_while_it_commits_leaves_a_whole_file_and_no_litter() {
    for calls in ["fsync,fdatasync", "rename,renameat,renameat2", "close"] {
        killed_at_each("STOR file", calls);
    }
}

/// Stops the background threads on drop, also after a panic.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// attack row 80
#[test]
fn a_folder_that_is_swapped_for_a_link_while_it_is_asked_for_lets_nobody_out() {
    let desk = Desk::new();
    for folder in [desk.there("folder"), desk.0.join("outside")] {
        fs::create_dir(&folder).unwrap();
    }
    fs::write(desk.there("folder/file"), "inside").unwrap();
    fs::write(desk.0.join("outside/file"), "the secret").unwrap();
    symlink(desk.0.join("outside"), desk.there("link")).unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &["--ftp-tls", "off"]);
    let (swaps, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (mut seen, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (folder, link) = (desk.there("folder"), desk.there("link"));
            while !is_over.load(Ordering::Relaxed) {
                swaps.fetch_add(1, Ordering::Relaxed);
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _end = End(&is_over);
        let mut line = Line::logged_in(&server);
        line.says("TYPE I");
        while swaps.load(Ordering::Relaxed) < SWAPS || seen + refused < TRIES {
            match line.retrieves("RETR folder/file") {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    seen += 1;
                }
                Err(code) => {
                    assert_eq!(code, 550);
                    refused += 1;
                }
            }
            assert!(matches!(
                line.asks("SIZE folder/file").as_str(),
                "213 6\r\n" | "550 Permission denied\r\n"
            ));
            assert!(matches!(line.stores("STOR folder/new", b"new"), 226 | 550));
            // The file stays world-readable, because a server run by root sends no other file to
            // this user.
            assert!(matches!(line.says("SITE CHMOD 604 folder/file"), 200 | 550));
        }
    });
    assert!(seen > 0 && refused > 0, "{seen} were seen, {refused} were refused");
    assert_eq!(names(&desk.0.join("outside")), ["file"]);
    let mode = fs::metadata(desk.0.join("outside/file")).unwrap().permissions();
    assert_ne!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o604);
}
