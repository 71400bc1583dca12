//! Names that resolve inside the jail, and names that are refused.

use super::*;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// A temporary directory with the subdirectory `jail` and beside it the file `secret`.
struct Prison {
    path: PathBuf,
    jail: Jail,
}

impl Prison {
    fn new(name: &str) -> Self {
        let seed = crate::entropy::seed().unwrap();
        let path = std::env::temp_dir().join(format!("plumb-jail-{name}-{seed:x}"));
        std::fs::create_dir_all(path.join("jail/folder")).unwrap();
        std::fs::write(path.join("secret"), "secret").unwrap();
        std::fs::write(path.join("jail/file"), "file").unwrap();
        std::fs::write(path.join("jail/folder/inner"), "inner").unwrap();
        let jail = Jail::open(&path.join("jail")).unwrap();
        Self { path, jail }
    }

    /// Like `new`, with resolution by component.
    fn without_openat2(name: &str) -> Self {
        let mut prison = Self::new(name);
        prison.jail.walk = Walk::ByComponent;
        prison
    }

    fn link(&self, to: &str, name: &str) {
        symlink(to, self.path.join("jail").join(name)).unwrap();
    }

    fn reads(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        self.jail.read(name.as_bytes())?.0.read_to_string(&mut text)?;
        Ok(text)
    }
}

impl Drop for Prison {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).unwrap();
    }
}

#[test]
fn a_name_is_found_beneath_with_and_without_a_slash_in_front() {
    for prison in [Prison::new("found"), Prison::without_openat2("found")] {
        assert_eq!(prison.reads("file").unwrap(), "file");
        assert_eq!(prison.reads("/folder//./inner").unwrap(), "inner");
        assert_eq!(prison.jail.status(b"/").unwrap().kind, Kind::Folder);
        assert_eq!(prison.reads("nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(prison.reads("folder").unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}

// attack row 79
#[test]
fn a_name_with_two_dots_is_refused() {
    for prison in [Prison::new("dots"), Prison::without_openat2("dots")] {
        for name in ["../secret", "folder/../../secret", "/../secret", "folder/../file", ".."] {
            let refused = prison.reads(name).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::CrossesDevices, "{name}");
        }
    }
}

// attack row 80
#[test]
fn a_link_may_lead_to_a_place_inside_and_to_none_outside() {
    let prison = Prison::new("links");
    prison.link("folder/inner", "near");
    prison.link("../secret", "up");
    prison.link("/etc/passwd", "far");
    prison.link("/proc/self/root/etc/passwd", "magic");
    assert_eq!(prison.reads("near").unwrap(), "inner");
    for name in ["up", "far", "magic"] {
        let refused = prison.reads(name).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::CrossesDevices, "{name}");
        assert!(prison.jail.status(name.as_bytes()).is_err());
    }
}

#[test]
fn without_openat2_no_link_is_followed() {
    let prison = Prison::without_openat2("no-links");
    prison.link("folder", "near");
    prison.link("../secret", "up");
    assert!(prison.reads("near/inner").is_err());
    assert!(prison.reads("up").is_err());
}

#[test]
fn a_file_that_is_written_where_a_link_leads_out_replaces_the_link() {
    let prison = Prison::new("write-link");
    prison.link("../secret", "up");
    let draft = prison.jail.create(b"up", Existing::Replace).unwrap();
    draft.file().write_all(b"new").unwrap();
    draft.commit().unwrap();
    assert_eq!(prison.reads("up").unwrap(), "new");
    assert_eq!(std::fs::read(prison.path.join("secret")).unwrap(), b"secret");
}

#[test]
fn what_is_no_file_is_not_opened_and_holds_nobody() {
    let prison = Prison::new("pipe");
    let pipe = prison.path.join("jail/pipe");
    fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    assert!(prison.reads("pipe").is_err());
}

#[test]
fn folders_are_made_listed_renamed_and_removed() {
    let prison = Prison::new("folders");
    let jail = &prison.jail;
    jail.make_folder(b"/new").unwrap();
    jail.rename(b"file", b"new/moved").unwrap();
    let draft = jail.create(b"new/draft", Existing::Keep).unwrap();
    let names: Vec<_> = jail.list(b"new", 10).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, [b"moved".to_vec()]);
    assert_eq!(jail.list(b"/", 1).unwrap().len(), 1);
    drop(draft);
    assert!(jail.remove_folder(b"new").is_err());
    jail.remove_file(b"new/moved").unwrap();
    jail.remove_folder(b"new").unwrap();
    assert!(jail.status(b"new").is_err());
    assert!(jail.rename(b"folder/inner", b"../out").is_err());
    assert!(jail.make_folder(b"../out").is_err());
    assert!(jail.remove_file(b"../secret").is_err());
}

// attack row 80
#[test]
fn a_folder_that_is_swapped_for_a_link_a_hundred_thousand_times_lets_nobody_out() {
    let prison = Prison::new("swaps");
    std::fs::create_dir(prison.path.join("outside")).unwrap();
    std::fs::write(prison.path.join("outside/inner"), "secret").unwrap();
    prison.link("../outside", "link");
    let inside = File::open(prison.path.join("jail")).unwrap();
    let is_over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100_000 {
                let flags = fs::RenameFlags::EXCHANGE;
                fs::renameat_with(&inside, "folder", &inside, "link", flags).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut seen = 0;
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(text) = prison.reads("folder/inner") {
                assert_eq!(text, "inner");
                seen += 1;
            }
        }
        seen
    });
    assert!(seen > 0);
}

proptest! {
    // attack row 79
    #[test]
    fn whatever_the_name_what_is_opened_is_beneath(
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
        let prison = Prison::new("any");
        prison.link("..", "up");
        let top = std::fs::canonicalize(prison.path.join("jail")).unwrap();
        if let Ok((file, _)) = prison.jail.read(parts.join("/").as_bytes()) {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            prop_assert!(path.starts_with(&top), "{}", path.display());
        }
    }
}
