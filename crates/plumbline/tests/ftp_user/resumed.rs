//! Tests of interrupted uploads and downloads: when plumb resumes them, and when it does not.

use crate::faulty_ftp::{FaultyFtpServer, Quirk};
use crate::login_harness::poll_until_timeout;
use crate::own_server::TestDirectory;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

fn content(len: u32) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// Writes a file with a modification time before the time that the faulty server reports.
fn old_file(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let old_time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(old_time).unwrap();
}

// attack row 146
#[test]
fn put_continue_appends_nothing_to_another_file() {
    let directory = TestDirectory::new("put-other");
    let (_server, url) = directory.serve("");
    let url = format!("{url}/doc.txt");
    let new = content(50_000);
    fs::write(directory.0.join("new"), &new).unwrap();
    for old in [b"precious old content\n".repeat(100), content(60_000), vec![1; 50_000]] {
        fs::write(directory.0.join("there/doc.txt"), &old).unwrap();
        let (code, _, messages) = directory.run(&["put", "-c", "new", &url]);
        assert_eq!(code, Some(1), "{messages}");
        assert!(messages.contains("it was not changed; to replace it, use -f"), "{messages}");
        assert!(directory.read("there/doc.txt") == old);
    }
    directory.run_ok(&["put", "-c", "--force", "new", &url]);
    assert!(directory.read("there/doc.txt") == new);
    fs::write(directory.0.join("there/doc.txt"), "precious").unwrap();
    directory.run_ok(&["put", "new", &url]);
    assert!(directory.read("there/doc.txt") == new);
}

/// Runs plumb, and returns the number of bytes it transferred according to its record.
fn transferred_bytes(directory: &TestDirectory, words: &[&str]) -> u64 {
    let (code, stdout, messages) = directory.run(words);
    assert_eq!(code, Some(0), "{messages}");
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    record["wire_bytes"].as_u64().unwrap()
}

#[test]
fn put_continue_sends_the_rest_of_an_identical_partial_file() {
    let directory = TestDirectory::new("put-part");
    let (_server, url) = directory.serve("");
    let url = format!("{url}/doc.txt");
    let new = content(50_000);
    fs::write(directory.0.join("new"), &new).unwrap();
    fs::write(directory.0.join("there/doc.txt"), &new[..20_000]).unwrap();
    assert_eq!(transferred_bytes(&directory, &["put", "-c", "--json", "new", &url]), 30_000);
    assert!(directory.read("there/doc.txt") == new);
    let (code, _, messages) = directory.run(&["put", "-c", "new", &url]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("is already complete"), "{messages}");
}

// attack row 146
#[test]
fn put_continue_without_hash_compares_time_and_the_last_bytes() {
    let directory = TestDirectory::new("put-sample");
    let new = content(200_000);
    let mut other = new[..150_000].to_vec();
    other[149_000] ^= 1;
    let server =
        FaultyFtpServer::start(&[], &[("part", new[..150_000].to_vec()), ("other", other.clone())]);
    let url = |name: &str| format!("ftp://127.0.0.1:{}/{name}", server.port);
    old_file(&directory.0.join("new"), &new);
    let (code, _, messages) = directory.run(&["put", "-c", "new", &url("other")]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(messages.contains("is the beginning of"), "{messages}");
    assert!(server.file("other").unwrap() == other);
    directory.run_ok(&["put", "-c", "new", &url("part")]);
    // REST with STOR, not APPE: APPE would append at the wrong offset if an earlier session still
    // delivered received data.
    assert!(server.file("part").unwrap() == new && server.has_received("REST 150000"));
    assert!(!server.has_received("APPE part"));
    // The local file is newer than the partial file on the server.
    let server = FaultyFtpServer::start(&[], &[("part", new[..150_000].to_vec())]);
    fs::write(directory.0.join("new"), &new).unwrap();
    let url = format!("ftp://127.0.0.1:{}/part", server.port);
    let (code, _, messages) = directory.run(&["put", "-c", "new", &url]);
    assert_eq!(code, Some(1), "{messages}");
    assert!(server.file("part").unwrap() == new[..150_000]);
}

#[test]
fn put_continue_appends_without_rest() {
    let directory = TestDirectory::new("put-appe");
    let new = content(200_000);
    let server = FaultyFtpServer::start(
        &[Quirk::Features("SIZE\nMDTM")],
        &[("part", new[..150_000].to_vec())],
    );
    old_file(&directory.0.join("new"), &new);
    directory.run_ok(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", server.port)]);
    assert!(server.file("part").unwrap() == new && server.has_received("APPE part"));
}

const IGNORED_REST: &[Quirk] = &[Quirk::IgnoresRest, Quirk::ReplyTo("RETR", "550 not for you")];

#[test]
fn put_continue_resends_a_file_whose_final_size_is_wrong() {
    let directory = TestDirectory::new("put-forgets");
    let new = content(200_000);
    let server = FaultyFtpServer::start(IGNORED_REST, &[("part", new[..150_000].to_vec())]);
    old_file(&directory.0.join("new"), &new);
    directory.run_ok(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", server.port)]);
    assert!(server.file("part").unwrap() == new);
}

const UNREADABLE_FILE: &[Quirk] = &[Quirk::ReplyTo("RETR", "550 not for you")];

#[test]
fn put_continue_compares_times_if_the_remote_file_is_unreadable() {
    let directory = TestDirectory::new("put-unread");
    let new = content(200_000);
    let server = FaultyFtpServer::start(UNREADABLE_FILE, &[("part", new[..150_000].to_vec())]);
    old_file(&directory.0.join("new"), &new);
    directory.run_ok(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", server.port)]);
    assert!(server.file("part").unwrap() == new);
}

/// Starts a rate-limited download of `big`, and kills it once its temporary file has 256 KiB.
fn kill_download(directory: &TestDirectory, url: &str) {
    let mut command = directory.plumb();
    command.args(["get", "--limit-rate", "1M", url, "big"]);
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    poll_until_timeout(|| {
        let temporary_file = temporary_files(directory).pop()?;
        let len = fs::metadata(temporary_file).ok()?.len();
        (len >= 256 * 1024).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
}

fn temporary_files(directory: &TestDirectory) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path());
    let is_temporary = |path: &std::path::PathBuf| {
        path.file_name().unwrap().to_string_lossy().starts_with(".plumb-draft-")
    };
    entries.filter(is_temporary).collect()
}

#[test]
fn a_killed_download_is_resumed_or_its_temporary_file_is_removed() {
    let directory = TestDirectory::new("get-killed");
    let (_server, url) = directory.serve("");
    let url = format!("{url}/big");
    let big = content(8_000_000);
    fs::write(directory.0.join("there/big"), &big).unwrap();
    kill_download(&directory, &url);
    assert_eq!(temporary_files(&directory).len(), 1);
    let rest = transferred_bytes(&directory, &["get", "--continue", "--json", &url, "big"]);
    assert!((1..8_000_000 - 200_000).contains(&rest), "{rest}");
    assert!(directory.read("big") == big && temporary_files(&directory).is_empty());
    fs::remove_file(directory.0.join("big")).unwrap();
    kill_download(&directory, &url);
    assert_eq!(transferred_bytes(&directory, &["get", "--json", &url, "big"]), 8_000_000);
    assert!(directory.read("big") == big && temporary_files(&directory).is_empty());
}

/// Starts a rate-limited upload of `big`, and kills it once the server has 256 KiB of it.
fn kill_upload(directory: &TestDirectory, url: &str) {
    let mut command = directory.plumb();
    command.args(["put", "--limit-rate", "1M", "big", url]);
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    poll_until_timeout(|| {
        let entries = fs::read_dir(directory.0.join("there")).unwrap().map(|entry| entry.unwrap());
        let temporary_file = entries
            .into_iter()
            .find(|entry| entry.file_name().to_string_lossy().starts_with(".plumb-draft-"))?;
        (temporary_file.metadata().ok()?.len() >= 256 * 1024).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
    poll_until_timeout(|| {
        fs::read_dir(directory.0.join("there/.plumb-partial")).ok()?.next().map(drop)
    });
}

#[test]
fn put_continue_sends_the_rest_of_a_killed_upload() {
    for scheme in ["ftp://", "ftpes://"] {
        let directory = TestDirectory::new("put-killed");
        let (_server, url) = directory.serve("");
        let url = format!("{url}/big").replace("ftp://", scheme);
        let big = content(8_000_000);
        fs::write(directory.0.join("big"), &big).unwrap();
        for old in [None, Some("an older file")] {
            let remote_path = directory.0.join("there/big");
            match old {
                Some(old) => fs::write(&remote_path, old).unwrap(),
                None => _ = fs::remove_file(&remote_path),
            }
            kill_upload(&directory, &url);
            assert_eq!(fs::read_to_string(&remote_path).ok().as_deref(), old);
            let rest = transferred_bytes(&directory, &["put", "--continue", "--json", "big", &url]);
            assert!((1..8_000_000 - 200_000).contains(&rest), "{scheme} {old:?}: {rest}");
            assert!(directory.read("there/big") == big);
            assert!(!directory.0.join("there/.plumb-partial").exists());
        }
    }
}
