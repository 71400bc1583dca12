//! Interrupted uploads and downloads: those that are resumed, and those that are not.

use crate::alone::Place;
use crate::login_desk::within_the_limit;
use crate::odd_ftp::{Odd, Quirk};
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

fn content(len: u32) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

/// Writes a file with a modification time before the one that the odd server reports.
fn old_file(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

// attack row 146
#[test]
fn put_continue_appends_nothing_to_another_file() {
    let place = Place::new("put-other");
    let (_server, url) = place.serve("");
    let url = format!("{url}/doc.txt");
    let new = content(50_000);
    fs::write(place.0.join("new"), &new).unwrap();
    for old in [b"precious old content\n".repeat(100), content(60_000), vec![1; 50_000]] {
        fs::write(place.0.join("there/doc.txt"), &old).unwrap();
        let (code, _, said) = place.ran(&["put", "-c", "new", &url]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("it was not changed; to replace it, use --force"), "{said}");
        assert!(place.read("there/doc.txt") == old);
    }
    place.done(&["put", "-c", "--force", "new", &url]);
    assert!(place.read("there/doc.txt") == new);
    fs::write(place.0.join("there/doc.txt"), "precious").unwrap();
    place.done(&["put", "new", &url]);
    assert!(place.read("there/doc.txt") == new);
}

/// Runs plumb, and returns the number of bytes it transferred according to its record.
fn moved(place: &Place, words: &[&str]) -> u64 {
    let (code, printed, said) = place.ran(words);
    assert_eq!(code, Some(0), "{said}");
    let record: serde_json::Value = serde_json::from_str(&printed).unwrap();
    record["wire_bytes"].as_u64().unwrap()
}

#[test]
fn put_continue_sends_the_rest_of_a_part_that_is_the_same() {
    let place = Place::new("put-part");
    let (_server, url) = place.serve("");
    let url = format!("{url}/doc.txt");
    let new = content(50_000);
    fs::write(place.0.join("new"), &new).unwrap();
    fs::write(place.0.join("there/doc.txt"), &new[..20_000]).unwrap();
    assert_eq!(moved(&place, &["put", "-c", "--json", "new", &url]), 30_000);
    assert!(place.read("there/doc.txt") == new);
    let (code, _, said) = place.ran(&["put", "-c", "new", &url]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is already complete"), "{said}");
}

// attack row 146
#[test]
fn put_continue_without_hash_compares_time_and_the_last_bytes() {
    let place = Place::new("put-sample");
    let new = content(200_000);
    let mut other = new[..150_000].to_vec();
    other[149_000] ^= 1;
    let odd = Odd::start(&[], &[("part", new[..150_000].to_vec()), ("other", other.clone())]);
    let url = |name: &str| format!("ftp://127.0.0.1:{}/{name}", odd.port);
    old_file(&place.0.join("new"), &new);
    let (code, _, said) = place.ran(&["put", "-c", "new", &url("other")]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not known to be the beginning"), "{said}");
    assert!(odd.file("other").unwrap() == other);
    place.done(&["put", "-c", "new", &url("part")]);
    // REST with STOR, not APPE: APPE would append at the wrong offset if an earlier session still
    // delivered received data.
    assert!(odd.file("part").unwrap() == new && odd.has_heard("REST 150000"));
    assert!(!odd.has_heard("APPE part"));
    // The local file is newer than the partial one on the server.
    let odd = Odd::start(&[], &[("part", new[..150_000].to_vec())]);
    fs::write(place.0.join("new"), &new).unwrap();
    let url = format!("ftp://127.0.0.1:{}/part", odd.port);
    let (code, _, said) = place.ran(&["put", "-c", "new", &url]);
    assert_eq!(code, Some(1), "{said}");
    assert!(odd.file("part").unwrap() == new[..150_000]);
}

#[test]
fn put_continue_appends_where_there_is_no_rest() {
    let place = Place::new("put-appe");
    let new = content(200_000);
    let odd = Odd::start(&[Quirk::Features("SIZE\nMDTM")], &[("part", new[..150_000].to_vec())]);
    old_file(&place.0.join("new"), &new);
    place.done(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", odd.port)]);
    assert!(odd.file("part").unwrap() == new && odd.has_heard("APPE part"));
}

const FORGETS: &[Quirk] = &[Quirk::ForgetsRest, Quirk::On("RETR", "550 not for you")];

#[test]
fn put_continue_sends_all_of_a_file_whose_size_is_wrong_behind_the_rest() {
    let place = Place::new("put-forgets");
    let new = content(200_000);
    let odd = Odd::start(FORGETS, &[("part", new[..150_000].to_vec())]);
    old_file(&place.0.join("new"), &new);
    place.done(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", odd.port)]);
    assert!(odd.file("part").unwrap() == new);
}

const NO_READING: &[Quirk] = &[Quirk::On("RETR", "550 not for you")];

#[test]
fn put_continue_goes_by_time_where_nothing_may_be_read() {
    let place = Place::new("put-unread");
    let new = content(200_000);
    let odd = Odd::start(NO_READING, &[("part", new[..150_000].to_vec())]);
    old_file(&place.0.join("new"), &new);
    place.done(&["put", "-c", "new", &format!("ftp://127.0.0.1:{}/part", odd.port)]);
    assert!(odd.file("part").unwrap() == new);
}

/// Starts a rate-limited download of `big`, and kills it once its temporary file has 256 KiB.
fn killed(place: &Place, url: &str) {
    let mut command = place.plumb();
    command.args(["get", "--limit-rate", "1M", url, "big"]);
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within_the_limit(|| {
        let draft = drafts(place).pop()?;
        let len = fs::metadata(draft).ok()?.len();
        (len >= 256 * 1024).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
}

fn drafts(place: &Place) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(&place.0).unwrap().map(|entry| entry.unwrap().path());
    let is_draft = |path: &std::path::PathBuf| {
        path.file_name().unwrap().to_string_lossy().starts_with(".plumb-draft-")
    };
    entries.filter(is_draft).collect()
}

#[test]
fn a_download_that_was_killed_is_resumed_or_its_draft_is_removed() {
    let place = Place::new("get-killed");
    let (_server, url) = place.serve("");
    let (url, big) = (format!("{url}/big"), content(8_000_000));
    fs::write(place.0.join("there/big"), &big).unwrap();
    killed(&place, &url);
    assert_eq!(drafts(&place).len(), 1);
    let rest = moved(&place, &["get", "--continue", "--json", &url, "big"]);
    assert!((1..8_000_000 - 200_000).contains(&rest), "{rest}");
    assert!(place.read("big") == big && drafts(&place).is_empty());
    fs::remove_file(place.0.join("big")).unwrap();
    killed(&place, &url);
    assert_eq!(moved(&place, &["get", "--json", &url, "big"]), 8_000_000);
    assert!(place.read("big") == big && drafts(&place).is_empty());
}

/// Starts a rate-limited upload of `big`, and kills it once the server has 256 KiB of it.
fn killed_upload(place: &Place, url: &str) {
    let mut command = place.plumb();
    command.args(["put", "--limit-rate", "1M", "big", url]);
    let mut running = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within_the_limit(|| {
        let entries = fs::read_dir(place.0.join("there")).unwrap().map(|entry| entry.unwrap());
        let draft = entries
            .into_iter()
            .find(|entry| entry.file_name().to_string_lossy().starts_with(".plumb-draft-"))?;
        (draft.metadata().ok()?.len() >= 256 * 1024).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
    within_the_limit(|| fs::read_dir(place.0.join("there/.plumb-partial")).ok()?.next().map(drop));
}

#[test]
fn put_continue_sends_the_rest_of_an_upload_that_was_killed() {
    for scheme in ["ftp://", "ftpes://"] {
        let place = Place::new("put-killed");
        let (_server, url) = place.serve("");
        let (url, big) = (format!("{url}/big").replace("ftp://", scheme), content(8_000_000));
        fs::write(place.0.join("big"), &big).unwrap();
        for old in [None, Some("an older file")] {
            let there = place.0.join("there/big");
            match old {
                Some(old) => fs::write(&there, old).unwrap(),
                None => _ = fs::remove_file(&there),
            }
            killed_upload(&place, &url);
            assert_eq!(fs::read_to_string(&there).ok().as_deref(), old);
            let rest = moved(&place, &["put", "--continue", "--json", "big", &url]);
            assert!((1..8_000_000 - 200_000).contains(&rest), "{scheme} {old:?}: {rest}");
            assert!(place.read("there/big") == big);
            assert!(!place.0.join("there/.plumb-partial").exists());
        }
    }
}
