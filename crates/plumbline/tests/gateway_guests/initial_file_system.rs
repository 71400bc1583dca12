//! The initial file system of a virtual machine: a cpio archive of the format newc, which the kernel
//! unpacks (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const ALIGNMENT: usize = 4;

/// An archive to which files are added.
#[derive(Default)]
pub(crate) struct InitialFileSystem {
    archive: Vec<u8>,
    entries: u32,
    names: BTreeSet<PathBuf>,
}

impl InitialFileSystem {
    pub(crate) fn add_directory(&mut self, path: &str) {
        self.add_parents(&Path::new(path).join("file"));
    }

    /// Adds an executable file with its parent directories, unless it has been added before.
    pub(crate) fn add_file(&mut self, path: &str, content: &[u8]) {
        if self.names.insert(PathBuf::from(path)) {
            self.add_parents(Path::new(path));
            self.add(path, PROGRAM, content);
        }
    }

    /// Adds a program of this machine with its shared libraries.
    pub(crate) fn add_program(&mut self, program: &Path) {
        self.add_file(program.to_str().unwrap(), &fs::read(program).unwrap());
        let output = Command::new("ldd").arg(program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f...)`.
        for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
            self.add_file(library, &fs::read(library).unwrap());
        }
    }

    /// Returns the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.archive
    }

    fn add_parents(&mut self, path: &Path) {
        let parents: Vec<&Path> = path.ancestors().skip(1).collect();
        for parent in parents.into_iter().rev().filter(|parent| *parent != Path::new("/")) {
            if self.names.insert(parent.to_owned()) {
                self.add(parent.to_str().unwrap(), DIRECTORY, &[]);
            }
        }
    }

    fn add(&mut self, path: &str, mode: u32, content: &[u8]) {
        let name = path.trim_start_matches('/');
        self.entries += 1;
        let content_len = u32::try_from(content.len()).unwrap();
        let name_len = u32::try_from(name.len() + 1).unwrap();
        // Inode, mode, user, group, links, time, length, four device numbers, length of the name,
        // checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, content_len, 0, 0, 0, 0, name_len, 0];
        self.archive.extend(b"070701");
        fields.iter().for_each(|field| self.archive.extend(format!("{field:08x}").bytes()));
        self.archive.extend(name.bytes());
        self.archive.push(0);
        self.align();
        self.archive.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.archive.resize(self.archive.len().next_multiple_of(ALIGNMENT), 0);
    }
}
