//! Partial uploads: received parts of files whose connection broke, kept for their users to
//! continue.
//!
//! Partial uploads are stored by user and path, separate from the files
//! (`os::beneath::RootDir::keep`), and appear in no listing. If no file exists at the path, SIZE
//! and HASH report the partial upload of the same user, and REST with STOR continues the upload.
//! This is how curl, lftp and other clients resume. If a file exists at the path, SITE PARTIAL
//! selects the partial upload. The number, the total bytes and the age of partial uploads are
//! limited for each root; the oldest are removed first. Partial uploads count towards a quota like
//! files.

use super::space::{Amount, Space};
use os::beneath::{AtomicFile, InterruptedDraft, RootDir};
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Limits for each root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) count_max: usize,
    pub(super) bytes_max: u64,
    pub(super) age_max: Duration,
}

/// Partial uploads of one user.
#[derive(Debug)]
pub(super) struct Partials {
    pub(super) root_dir: Arc<RootDir>,
    pub(super) space: Option<Arc<Space>>,
    pub(super) user: Vec<u8>,
    pub(super) limits: Limits,
}

impl Partials {
    /// Opens the partial upload of `path`. Also returns its length in bytes.
    pub(super) fn find(&self, path: &[u8]) -> Option<(File, u64)> {
        let (file, status) = self.root_dir.open_interrupted(&self.key(path)).ok()?;
        Some((file, status.len))
    }

    /// Returns the key under which the partial upload of `path` is kept.
    pub(super) fn key(&self, path: &[u8]) -> Vec<u8> {
        let mut context = Context::new(&SHA256);
        for part in [&self.user, b"\0".as_slice(), path] {
            context.update(part);
        }
        let digest = context.finish();
        let key_octets = digest.as_ref().iter().take(16);
        key_octets.map(|octet| format!("{octet:02x}")).collect::<String>().into_bytes()
    }

    /// Keeps the `len` bytes of `atomic_file` as the partial upload of `path` if the limits allow.
    /// Returns whether the bytes were kept. If the bytes were kept, the quota counts them as
    /// stored; otherwise they still count as a running upload.
    pub(super) fn keep(&self, atomic_file: AtomicFile, path: &[u8], len: u64) -> bool {
        if self.limits.count_max == 0 || len > self.limits.bytes_max {
            return false;
        }
        let key = self.key(path);
        self.remove(path);
        let result = match &self.space {
            Some(space) => space.store(len, |may_add| {
                may_add()?;
                self.root_dir.keep(atomic_file, &key).map(|()| None)
            }),
            None => self.root_dir.keep(atomic_file, &key),
        };
        if result.is_ok() {
            trim(&self.root_dir, self.space.as_deref(), self.limits, Some(&key));
        }
        result.is_ok()
    }

    /// Removes the partial upload of `path`, if there is one.
    pub(super) fn remove(&self, path: &[u8]) {
        remove(&self.root_dir, self.space.as_deref(), &self.key(path));
    }
}

/// Removes the expired partial uploads of a root. If the number or the total size of the others
/// exceeds its limit, also removes the oldest of them. The partial upload with the key `newest` is
/// the last one to be removed.
pub(super) fn trim(
    root_dir: &RootDir,
    space: Option<&Space>,
    limits: Limits,
    newest: Option<&[u8]>,
) {
    let Ok(mut all) = root_dir.list_interrupted() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let min_modified_s = now.saturating_sub(limits.age_max.as_secs());
    let is_newest = |kept: &InterruptedDraft| newest == Some(kept.key.as_slice());
    all.sort_by_key(|kept| (is_newest(kept), kept.modified_s));
    let mut count = all.len();
    let mut bytes = all.iter().fold(0_u64, |sum, kept| sum.saturating_add(kept.len));
    for kept in &all {
        let is_expired = u64::try_from(kept.modified_s).unwrap_or(0) < min_modified_s;
        if is_expired || count > limits.count_max || bytes > limits.bytes_max {
            remove(root_dir, space, &kept.key);
            count -= 1;
            bytes = bytes.saturating_sub(kept.len);
        }
    }
}

fn remove(root_dir: &RootDir, space: Option<&Space>, key: &[u8]) {
    // Usually the partial upload does not exist, and the error is ignored.
    _ = match space {
        Some(space) => space.remove(|| {
            let bytes = root_dir.remove_interrupted(key)?;
            Ok(Amount { bytes, entries: 1 })
        }),
        None => root_dir.remove_interrupted(key).map(drop),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::beneath::Existing;
    use std::io::Write;
    use std::path::PathBuf;

    const LIMITS: Limits =
        Limits { count_max: 3, bytes_max: 100, age_max: Duration::from_secs(3600) };

    struct Root(PathBuf, Arc<RootDir>);

    impl Root {
        fn new() -> Self {
            let seed = os::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-partial-{seed:x}"));
            std::fs::create_dir_all(&path).unwrap();
            let root_dir = Arc::new(RootDir::open(&path).unwrap());
            Self(path, root_dir)
        }

        fn partials_of(&self, user: &str, space: Option<&Arc<Space>>) -> Partials {
            let root_dir = Arc::clone(&self.1);
            let space = space.cloned();
            Partials { root_dir, space, user: user.into(), limits: LIMITS }
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Interrupts an upload after `len` bytes.
    fn interrupt(partials: &Partials, name: &str, len: usize) -> bool {
        let atomic_file = partials.root_dir.create(name.as_bytes(), Existing::Replace).unwrap();
        atomic_file.file().write_all(&vec![1; len]).unwrap();
        partials.keep(atomic_file, name.as_bytes(), len as u64)
    }

    fn len(partials: &Partials, name: &str) -> Option<u64> {
        partials.find(name.as_bytes()).map(|(_, len)| len)
    }

    // attack row 129
    #[test]
    fn a_partial_upload_belongs_to_one_user() {
        let root = Root::new();
        let ann = root.partials_of("ann", None);
        let bob = root.partials_of("bob", None);
        assert!(interrupt(&ann, "file", 10) && interrupt(&bob, "file", 20));
        assert_eq!((len(&ann, "file"), len(&bob, "file")), (Some(10), Some(20)));
        assert_eq!(len(&ann, "other"), None);
        ann.remove(b"file");
        assert_eq!((len(&ann, "file"), len(&bob, "file")), (None, Some(20)));
    }

    // attack row 127
    #[test]
    fn the_oldest_partial_uploads_are_removed_beyond_the_limits() {
        let root = Root::new();
        let ann = root.partials_of("ann", None);
        for (name, age) in [("a", 40), ("b", 30), ("c", 20)] {
            assert!(interrupt(&ann, name, 30));
            let (file, _) = ann.find(name.as_bytes()).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        assert!(interrupt(&ann, "d", 10));
        assert_eq!((len(&ann, "a"), len(&ann, "d")), (None, Some(10)));
        assert!(interrupt(&ann, "e", 60));
        assert_eq!((len(&ann, "b"), len(&ann, "c"), len(&ann, "e")), (None, Some(30), Some(60)));
        assert!(!interrupt(&ann, "f", 101), "larger than the limit for all partial uploads");
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 1);
    }

    // attack row 127
    #[test]
    fn an_expired_partial_upload_is_removed_and_its_quota_released() {
        let root = Root::new();
        let space = Arc::new(Space::open(&root.1, 100));
        let ann = root.partials_of("ann", Some(&space));
        space.reserve(40).unwrap();
        assert!(interrupt(&ann, "file", 40));
        assert_eq!(space.left_bytes(), 60);
        space.recount(&root.1);
        assert_eq!(space.left_bytes(), 60, "a partial upload counts towards the quota");
        let (file, _) = ann.find(b"file").unwrap();
        trim(&root.1, Some(&space), LIMITS, None);
        assert_eq!(len(&ann, "file"), Some(40));
        file.set_modified(SystemTime::now() - Duration::from_secs(3602)).unwrap();
        trim(&root.1, Some(&space), LIMITS, None);
        assert_eq!((len(&ann, "file"), space.left_bytes()), (None, 100));
        assert_eq!(std::fs::read_dir(&root.0).unwrap().count(), 0);
    }
}
