//! Tests of the state of a file after a failure during its upload: a full disk, a killed server, or
//! a directory that is swapped for a symbolic link.
//!
//! After the failure, the directory contains either the old or the new file, and no temporary file.
//! If the upload was confirmed, the directory contains the new file.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod ftp_harness;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;

use ftp_harness::{ControlConnection, Server, TestDirectories, pattern};
use login_harness::poll_until_timeout;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const PAGE_BYTES: usize = 4096;
/// Size of the disk and of the uploaded file, in pages.
const DISK_PAGES: usize = 32;
const FILE_PAGES: usize = 6;
/// Number of times that the directory and the symbolic link are swapped.
const SWAP_COUNT: usize = 100_000;
/// Minimum number of requests for the file during the swaps.
const MIN_REQUESTS: usize = 2_000;

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Starts a server on its own tmpfs, and returns the path by which the test reaches that file
/// system.
fn start_on_small_disk(directories: &TestDirectories) -> (Server, PathBuf) {
    let there = directories.remote_path("");
    let there = there.to_str().unwrap().trim_end_matches('/');
    let size = DISK_PAGES * PAGE_BYTES;
    let script = format!("mount -t tmpfs -o size={size} none {there} && exec \"$@\"");
    let namespaces = ["unshare", "--user", "--map-root-user", "--mount"];
    let before = [&namespaces[..], &["sh", "-c", &script, "sh"]].concat();
    let words = ["--writable", "--ftp-tls", "off", "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start_by(directories, &before, &words);
    let mount_path = format!("/proc/{}/root{there}", server.program.id());
    (server, mount_path.into())
}

/// Uploads a file with `command` for every number of free pages up to `needed + 1`.
fn upload_with_each_number_of_free_pages(command: &str, expected: &[u8], needed: usize) {
    let directories = TestDirectories::new();
    let (server, disk) = start_on_small_disk(&directories);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let old = pattern(PAGE_BYTES);
    for free in 0..=needed + 1 {
        _ = fs::remove_file(disk.join("file"));
        fs::write(disk.join("ballast"), vec![1; (DISK_PAGES - 1 - free) * PAGE_BYTES]).unwrap();
        fs::write(disk.join("file"), &old).unwrap();
        let code = line.store(command, &expected[expected.len() - FILE_PAGES * PAGE_BYTES..]);
        let is_confirmed = code == 226;
        assert_eq!(is_confirmed, free >= needed, "{free} pages are free: {code}");
        assert!(is_confirmed || code == 452, "{free} pages are free: {code}");
        let remaining = fs::read(disk.join("file")).unwrap();
        assert!(
            remaining == if is_confirmed { expected } else { &old },
            "{free} pages are free: {code}"
        );
        // The next command shows that the client is alive. The server then removes the partial
        // upload.
        assert_eq!(line.send("NOOP"), 200);
        assert_eq!(names(&disk), ["ballast", "file"]);
    }
}

// attack row 99
#[test]
#[ignore = "needs unshare"]
fn a_disk_full_at_any_page_keeps_the_old_file_and_is_reported() {
    let new: Vec<u8> = pattern(FILE_PAGES * PAGE_BYTES).into_iter().rev().collect();
    upload_with_each_number_of_free_pages("STOR file", &new, FILE_PAGES);
}

// attack row 99
#[test]
#[ignore = "needs unshare"]
fn a_disk_full_at_any_page_of_an_append_keeps_the_old_content() {
    let old = [pattern(PAGE_BYTES), pattern(FILE_PAGES * PAGE_BYTES)].concat();
    upload_with_each_number_of_free_pages("APPE file", &old, FILE_PAGES + 1);
}

// attack row 99
#[test]
fn a_quota_exceeded_at_any_page_keeps_the_old_file_and_is_reported() {
    let directories = TestDirectories::new();
    let configuration = directories.local_path("serve.toml");
    let text = format!("[ftp]\nrights = \"writable\"\nquota-bytes = {}\n", DISK_PAGES * PAGE_BYTES);
    fs::write(&configuration, text).unwrap();
    let words = ["--config", configuration.to_str().unwrap(), "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start(&directories, &words);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let old = pattern(PAGE_BYTES);
    let new: Vec<u8> = pattern(FILE_PAGES * PAGE_BYTES).into_iter().rev().collect();
    for free in 0..=FILE_PAGES + 1 {
        assert_eq!(line.store("STOR file", &old), 226);
        assert_eq!(line.store("STOR ballast", &vec![1; (DISK_PAGES - 1 - free) * PAGE_BYTES]), 226);
        let code = line.store("STOR file", &new);
        assert_eq!(code, if free >= FILE_PAGES { 226 } else { 552 }, "{free} pages are free");
        let remaining = fs::read(directories.remote_path("file")).unwrap();
        assert!(remaining == if code == 226 { &new[..] } else { &old }, "{free} pages are free");
        assert_eq!(line.send("NOOP"), 200);
        assert_eq!(names(&directories.remote_path("")), ["ballast", "file"]);
        assert_eq!((line.send("DELE ballast"), line.send("DELE file")), (250, 250));
        assert_eq!(line.send_and_read("AVBL"), format!("213 {}\r\n", DISK_PAGES * PAGE_BYTES));
    }
}

/// Stores a file in three parts, and returns the code of the last reply, if any.
fn store_in_parts(
    server: &Server,
    command: &str,
    new: &[u8],
    before_transfer: impl FnOnce(),
) -> Option<u16> {
    let mut line = ControlConnection::logged_in(server);
    line.send("TYPE I");
    before_transfer();
    let mut data = line.try_passive()?;
    if line.try_send(command)? != 150 {
        return None;
    }
    for part in new.chunks(new.len().div_ceil(3)) {
        data.write_all(part).ok()?;
    }
    drop(data);
    line.try_read_reply()
}

/// Uploads a file and kills the server at its `number`th system call. Only the calls named in
/// `calls` are counted, per thread and from the start of the upload. Returns whether the `number`th
/// call was reached.
fn upload_to_killed_server(
    directories: &TestDirectories,
    command: &str,
    calls: &str,
    number: usize,
) -> bool {
    let old = pattern(1000);
    let upload = pattern(50_000);
    let new =
        if command.starts_with("APPE") { [&old[..], &upload].concat() } else { upload.clone() };
    fs::write(directories.remote_path("file"), &old).unwrap();
    let words = ["--writable", "--ftp-tls", "off", "--ftp-listen", "127.0.0.1:0"];
    let mut server = Server::start(directories, &words);
    let id = server.program.id().to_string();
    let inject = format!("{calls}:signal=KILL:when={number}");
    let mut tracer = None;
    let reply = store_in_parts(&server, command, &upload, || {
        let mut command = test_support::peers::STRACE.command();
        command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        command.args(["-e", &format!("inject={inject}"), "-p", &id]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("attached") {
            line.clear();
            assert_ne!(messages.read_line(&mut line).unwrap(), 0, "strace cannot attach");
        }
        tracer = Some((child, messages));
    });
    let is_dead = reply.is_none();
    if !is_dead {
        _ = server.program.child().kill();
    }
    poll_until_timeout(|| server.program.exit_status().unwrap());
    tracer.unwrap().0.wait().unwrap();
    let remaining = fs::read(directories.remote_path("file")).unwrap();
    assert!(
        remaining == old || remaining == new,
        "{calls} {number}: {} bytes are left",
        remaining.len()
    );
    assert!(reply != Some(226) || remaining == new, "{calls} {number}: it was called good");
    assert!(is_dead || reply == Some(226), "{calls} {number}: {reply:?}");
    // The next server removes leftovers at its start.
    let server = Server::start(directories, &words);
    poll_until_timeout(|| (names(&directories.remote_path("")) == ["file"]).then_some(()));
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), remaining);
    drop(server);
    is_dead
}

fn kill_at_each_call(command: &str, calls: &str) {
    let directories = TestDirectories::new();
    let steps = (1..500)
        .take_while(|number| upload_to_killed_server(&directories, command, calls, *number))
        .count();
    eprintln!("{command}: killed at {steps} calls of {calls}");
    assert!(steps > 0, "{calls}: nothing was called");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_killed_at_any_call_of_an_upload_leaves_a_complete_file_and_no_temporary_files() {
    kill_at_each_call("STOR file", "all");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_killed_during_an_append_leaves_a_complete_file_and_no_temporary_files() {
    kill_at_each_call("APPE file", "all");
}

// attack row 99
#[test]
#[ignore = "needs strace"]
fn a_server_killed_during_a_commit_leaves_a_complete_file_and_no_temporary_files() {
    for calls in ["fsync,fdatasync", "rename,renameat,renameat2", "close"] {
        kill_at_each_call("STOR file", calls);
    }
}

/// Stops the background threads on drop, also after a panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// attack row 80
#[test]
fn a_directory_replaced_by_a_symlink_during_a_request_does_not_lead_out_of_the_root() {
    let directories = TestDirectories::new();
    for directory in [directories.remote_path("folder"), directories.0.join("outside")] {
        fs::create_dir(&directory).unwrap();
    }
    fs::write(directories.remote_path("folder/file"), "inside").unwrap();
    fs::write(directories.0.join("outside/file"), "the secret").unwrap();
    symlink(directories.0.join("outside"), directories.remote_path("link")).unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &["--ftp-tls", "off"]);
    let swaps = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let mut success_count = 0;
    let mut refusals = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let directory = directories.remote_path("folder");
            let link = directories.remote_path("link");
            while !is_over.load(Ordering::Relaxed) {
                swaps.fetch_add(1, Ordering::Relaxed);
                renameat_with(CWD, &directory, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let _end = StopOnDrop(&is_over);
        let mut line = ControlConnection::logged_in(&server);
        line.send("TYPE I");
        while swaps.load(Ordering::Relaxed) < SWAP_COUNT || success_count + refusals < MIN_REQUESTS
        {
            match line.retrieve("RETR folder/file") {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    success_count += 1;
                }
                Err(code) => {
                    assert_eq!(code, 550);
                    refusals += 1;
                }
            }
            assert!(matches!(
                line.send_and_read("SIZE folder/file").as_str(),
                "213 6\r\n" | "550 Permission denied\r\n"
            ));
            assert!(matches!(line.store("STOR folder/new", b"new"), 226 | 550));
            // The file stays world-readable, because a server run by root sends no other file to
            // this user.
            assert!(matches!(line.send("SITE CHMOD 604 folder/file"), 200 | 550));
        }
    });
    assert!(
        success_count > 0 && refusals > 0,
        "{success_count} were seen, {refusals} were refused"
    );
    assert_eq!(names(&directories.0.join("outside")), ["file"]);
    let mode = fs::metadata(directories.0.join("outside/file")).unwrap().permissions();
    assert_ne!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o604);
}
