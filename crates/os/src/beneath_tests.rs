//! Tests of names that are resolved beneath the root directory, and of names that are refused.

use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A temporary directory with the subdirectory `root_dir` and beside it the file `secret`.
struct Fixture {
    path: PathBuf,
    root_dir: RootDir,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let seed = crate::entropy::seed().unwrap();
        let path = std::env::temp_dir().join(format!("plumb-jail-{name}-{seed:x}"));
        std::fs::create_dir_all(path.join("jail/folder")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        std::fs::write(path.join("jail/file"), "file").unwrap();
        std::fs::write(path.join("jail/folder/inner"), "inner").unwrap();
        let root_dir = RootDir::open(&path.join("jail")).unwrap();
        Self { path, root_dir }
    }

    /// Creates the fixture with a tree that resolves names component by component, without
    /// `openat2`.
    fn without_openat2(name: &str) -> Self {
        let mut fixture = Self::new(name);
        fixture.root_dir.resolution = Resolution::ByComponent;
        fixture
    }

    fn link(&self, to: &str, name: &str) {
        symlink(to, self.path.join("jail").join(name)).unwrap();
    }

    fn reads(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.root_dir.read(name.as_bytes())?.0.read_to_string(&mut text)?;
        Ok(text)
    }
}

/// Returns the error number of a failed call.
fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Errno {
    let error = result.unwrap_err();
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("not an error of a call: {error}"))
}

impl Drop for Fixture {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).unwrap();
    }
}

#[test]
fn a_name_is_found_beneath_with_and_without_a_slash_in_front() {
    for fixture in [Fixture::new("found"), Fixture::without_openat2("found")] {
        assert_eq!(fixture.reads("file").unwrap(), "file");
        assert_eq!(fixture.reads("/folder//./inner").unwrap(), "inner");
        assert_eq!(fixture.root_dir.status(b"/").unwrap().kind, Kind::Directory);
        assert_eq!(fixture.reads("nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fixture.reads("folder").unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}

// attack row 79
#[test]
fn a_name_with_two_dots_is_refused() {
    for fixture in [Fixture::new("dots"), Fixture::without_openat2("dots")] {
        for name in ["../secret", "folder/../../secret", "/../secret", "folder/../file", ".."] {
            let error = fixture.reads(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::CrossesDevices, "{name}");
        }
    }
}

// attack row 80
#[test]
fn a_link_may_lead_inside_but_not_outside() {
    let fixture = Fixture::new("links");
    fixture.link("folder/inner", "near");
    fixture.link("../secret", "up");
    fixture.link("/etc/passwd", "far");
    fixture.link("/proc/self/root/etc/passwd", "magic");
    assert_eq!(fixture.reads("near").unwrap(), "inner");
    for name in ["up", "far", "magic"] {
        let error = fixture.reads(name).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::CrossesDevices, "{name}");
        assert_eq!(errno(fixture.root_dir.status(name.as_bytes())), Errno::XDEV, "{name}");
    }
}

#[test]
fn without_openat2_no_link_is_followed() {
    let fixture = Fixture::without_openat2("no-links");
    fixture.link("folder", "near");
    fixture.link("../secret", "up");
    // O_NOFOLLOW: a link in the middle is no directory, and one at the end is not opened.
    assert_eq!(errno(fixture.reads("near/inner")), Errno::NOTDIR);
    assert_eq!(errno(fixture.reads("up")), Errno::LOOP);
}

#[test]
fn a_file_that_is_written_where_a_link_leads_out_replaces_the_link() {
    let fixture = Fixture::new("write-link");
    fixture.link("../secret", "up");
    let draft = fixture.root_dir.create(b"up", Existing::Replace).unwrap();
    draft.file().write_all(b"new").unwrap();
    draft.commit().unwrap();
    assert_eq!(fixture.reads("up").unwrap(), "new");
    assert_eq!(std::fs::read(fixture.path.join("secret")).unwrap(), b"secret");
}

#[test]
fn a_pipe_is_not_opened_and_does_not_block() {
    let fixture = Fixture::new("pipe");
    let pipe = fixture.path.join("jail/pipe");
    fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert_eq!(errno(fixture.reads("pipe")), Errno::ACCESS);
}

#[test]
fn directories_are_created_listed_renamed_and_removed() {
    let fixture = Fixture::new("folders");
    let root_dir = &fixture.root_dir;
    root_dir.create_directory(b"/new").unwrap();
    root_dir.rename(b"file", b"new/moved").unwrap();
    let draft = root_dir.create(b"new/draft", Existing::Keep).unwrap();
    let names: Vec<_> = root_dir.list(b"new", 10).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, [b"moved".to_vec()]);
    assert_eq!(root_dir.list(b"/", 1).unwrap().len(), 1);
    drop(draft);
    assert_eq!(errno(root_dir.remove_directory(b"new")), Errno::NOTEMPTY);
    root_dir.remove_file(b"new/moved").unwrap();
    root_dir.remove_directory(b"new").unwrap();
    assert_eq!(errno(root_dir.status(b"new")), Errno::NOENT);
    assert_eq!(errno(root_dir.rename(b"folder/inner", b"../out")), Errno::XDEV);
    assert_eq!(errno(root_dir.create_directory(b"../out")), Errno::XDEV);
    assert_eq!(errno(root_dir.remove_file(b"../secret")), Errno::XDEV);
    assert_eq!(std::fs::read(fixture.path.join("secret")).unwrap(), b"secret");
    assert!(!fixture.path.join("out").exists());
}

// attack row 80
#[test]
fn a_directory_swapped_for_a_link_a_hundred_thousand_times_never_escapes() {
    let fixture = Fixture::new("swaps");
    std::fs::create_dir(fixture.path.join("outside")).unwrap();
    std::fs::write(fixture.path.join("outside/inner"), "secret").unwrap();
    fixture.link("../outside", "link");
    let inside = File::open(fixture.path.join("jail")).unwrap();
    let is_over = AtomicBool::new(false);
    let opened_contents = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100_000 {
                let flags = fs::RenameFlags::EXCHANGE;
                fs::renameat_with(&inside, "folder", &inside, "link", flags).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut opened_contents = 0;
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(text) = fixture.reads("folder/inner") {
                assert_eq!(text, "inner");
                opened_contents += 1;
            }
        }
        opened_contents
    });
    assert!(opened_contents > 0);
}

proptest! {
    // attack row 79
    #[test]
    fn any_opened_name_is_beneath_the_root(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("..".to_owned()), Just(".".to_owned()), Just(String::new()),
                Just("folder".to_owned()), Just("file".to_owned()), Just("up".to_owned()),
                Just("etc".to_owned()), Just("passwd".to_owned()), Just("%2e%2e".to_owned()),
                Just("..\\".to_owned()), "\\PC{0,300}",
            ],
            0..8,
        ),
    ) {
        let fixture = Fixture::new("any");
        fixture.link("..", "up");
        let top = std::fs::canonicalize(fixture.path.join("jail")).unwrap();
        if let Ok((file, _)) = fixture.root_dir.read(parts.join("/").as_bytes()) {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            prop_assert!(path.starts_with(&top), "{}", path.display());
        }
    }
}
