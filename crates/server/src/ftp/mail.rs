//! Mail received by FTP (RFC 354, RFC 385): MAIL over the control connection, MLFL over the data
//! connection.
//!
//! A mailbox is a Maildir: a directory of the spool with the name of a user, with one file per
//! message in `new`. A user without a directory has no mailbox, so the administrator decides which
//! users receive mail. A message gets its final name when it is complete and on the disk. Until
//! then its name begins with a dot, which Maildir readers ignore.
//!
//! Mail without a recipient goes to the postmaster; in RFC 354 it went to the printer of the site.

use super::file_error::file_error;
use super::space::Space;
use super::upload::Upload;
use os::beneath::{Existing, RootDir};
use os::fs_credentials::FsCredentials;
use protocols::ftp::Timestamp;
use protocols::ftp::server::FileError;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

/// Mailbox for mail without a recipient.
const POSTMASTER: &[u8] = b"postmaster";
/// Maximum length of a mailbox name in bytes. Our choice.
const NAME_MAX_BYTES: usize = 64;

/// Directory of the mailboxes.
#[derive(Debug)]
pub(super) struct Spool {
    directory: PathBuf,
    message_max_bytes: u64,
    mailbox_max_bytes: u64,
    /// Quota usage of each mailbox with a delivery in progress.
    spaces: Mutex<HashMap<Vec<u8>, Weak<Space>>>,
}

/// Sender of a message.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) user: Vec<u8>,
    pub(super) from: IpAddr,
}

impl Spool {
    /// Creates a spool in an existing directory.
    ///
    /// # Errors
    ///
    /// Returns an error if `directory` is not a directory that can be opened.
    pub(super) fn open(
        directory: &Path,
        message_max_bytes: u64,
        mailbox_max_bytes: u64,
    ) -> io::Result<Self> {
        RootDir::open(directory)?;
        let directory = directory.to_owned();
        let spaces = Mutex::default();
        Ok(Self { directory, message_max_bytes, mailbox_max_bytes, spaces })
    }

    /// Checks that a mailbox exists, before the text of a message is received.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::NoMailbox`] if the mailbox does not exist.
    pub(super) fn check_mailbox(&self, to: Option<&[u8]>) -> Result<(), FileError> {
        self.mailbox(to).map(drop)
    }

    /// Opens a mailbox with the rights of its owner. Also returns the name of the mailbox.
    fn mailbox(&self, to: Option<&[u8]>) -> Result<(String, RootDir), FileError> {
        let name = to.unwrap_or(POSTMASTER);
        if !is_mailbox(name) {
            return Err(FileError::NoMailbox);
        }
        let text = String::from_utf8(name.to_ascii_lowercase());
        let text = text.map_err(|_| FileError::NoMailbox)?;
        let directory = self.directory.join(&text);
        // The owner must be able to read and remove the messages.
        let owner = FsCredentials::of_owner(&directory).map_err(|_| FileError::NoMailbox)?;
        let mailbox = RootDir::open_as(&directory, Arc::new(owner));
        Ok((text, mailbox.map_err(|_| FileError::NoMailbox)?))
    }

    /// Starts a message and writes its header.
    pub(super) fn begin(&self, to: Option<&[u8]>, sender: &Sender) -> Result<Upload, FileError> {
        let (name, mailbox) = self.mailbox(to)?;
        for directory in ["tmp", "new", "cur"] {
            // Only the owner may access mail, independent of the umask.
            let create_result = mailbox.create_directory(directory.as_bytes());
            match create_result.and_then(|()| mailbox.set_mode(directory.as_bytes(), 0o700)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(file_error(&error));
                }
                _ => {}
            }
        }
        let space = self.space(name.as_bytes(), &mailbox);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let rng = os::entropy::seed().map_err(|_| FileError::Local)?;
        let message = format!("new/{}.{rng:016x}.plumb", now.as_secs());
        let atomic_file = mailbox.create(message.as_bytes(), Existing::Keep);
        let atomic_file = atomic_file.map_err(|error| file_error(&error))?;
        let mut upload = Upload::new(atomic_file, Some(space), self.message_max_bytes);
        upload.make_private()?;
        upload.write(header(&name, sender, now.as_secs()).as_bytes())?;
        upload.reset_received_bytes();
        Ok(upload)
    }

    /// Delivers a message with `text` to a mailbox. Waits for the disk.
    pub(super) fn deliver(
        &self,
        to: Option<&[u8]>,
        sender: &Sender,
        text: &[u8],
    ) -> Result<(), FileError> {
        let mut upload = self.begin(to, sender)?;
        upload.write(text)?;
        upload.commit()
    }

    /// Returns the quota usage of a mailbox. The usage is counted again when no delivery is in
    /// progress, so that messages removed by the owner no longer count.
    fn space(&self, name: &[u8], mailbox: &RootDir) -> Arc<Space> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        spaces.retain(|_, space| space.strong_count() > 0);
        if let Some(space) = spaces.get(name).and_then(Weak::upgrade) {
            return space;
        }
        let space = Arc::new(Space::open(mailbox, self.mailbox_max_bytes));
        spaces.insert(name.to_vec(), Arc::downgrade(&space));
        space
    }
}

/// Returns whether `name` is allowed for a mailbox. Paths and hidden names are not allowed.
fn is_mailbox(name: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let has_valid_start = name.first().is_some_and(u8::is_ascii_alphanumeric);
    has_valid_start && name.len() <= NAME_MAX_BYTES && name.iter().all(is_allowed)
}

/// Returns the header of a message (RFC 5322), followed by an empty line.
fn header(to: &str, sender: &Sender, unix_s: u64) -> String {
    let date = date(unix_s);
    // The login name comes from the client, so it is escaped.
    let user = sender.user.escape_ascii().to_string().replace(['"', '\\'], "?");
    let from = sender.from.to_canonical();
    format!(
        "Received: from [{from}] by plumbline with FTP; {date}\nDate: {date}\n\
         From: \"{user}\"@[{from}]\nTo: {to}\n\n"
    )
}

/// Returns a date in the format of RFC 5322 §3.3.
fn date(unix_s: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let digits = Timestamp { seconds, nanos: 0 }.to_text();
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    let month = part(4..6).parse().ok().and_then(|month: usize| MONTHS.get(month.wrapping_sub(1)));
    let day = part(6..8);
    let month = month.unwrap_or(&"Jan");
    let year = part(0..4);
    let hour = part(8..10);
    let minute = part(10..12);
    let second = part(12..14);
    format!("{day} {month} {year} {hour}:{minute}:{second} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestSpool(PathBuf);

    impl TestSpool {
        fn new(name: &str) -> (Self, Spool) {
            let seed = os::entropy::seed().unwrap();
            let path = std::env::temp_dir().join(format!("plumb-mail-{name}-{seed:x}"));
            std::fs::create_dir_all(path.join("ann")).unwrap();
            let spool = Spool::open(&path, 300, 500).unwrap();
            (Self(path), spool)
        }

        fn messages(&self) -> Vec<String> {
            let Ok(entries) = std::fs::read_dir(self.0.join("ann/new")) else { return Vec::new() };
            entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
        }
    }

    impl Drop for TestSpool {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn sender() -> Sender {
        Sender { user: b"bob".to_vec(), from: IpAddr::from([192, 0, 2, 7]) }
    }

    #[test]
    fn a_delivered_message_has_a_header() {
        let (test_spool, spool) = TestSpool::new("lies");
        spool.deliver(Some(b"Ann"), &sender(), b"lunch?\n").unwrap();
        let message = test_spool.messages().remove(0);
        assert!(message.starts_with("Received: from [192.0.2.7] by plumbline with FTP; "));
        assert!(message.contains("\nFrom: \"bob\"@[192.0.2.7]\nTo: ann\n\nlunch?\n"), "{message}");
    }

    #[test]
    fn only_a_directory_in_the_spool_is_a_mailbox() {
        let (test_spool, spool) = TestSpool::new("none");
        for name in ["bob", "", ".", "..", "../ann", "ann/new", ".ann", "-ann", "a\nn"] {
            let result = spool.deliver(Some(name.as_bytes()), &sender(), b"x");
            assert_eq!(result, Err(FileError::NoMailbox), "{name}");
        }
        assert_eq!(spool.deliver(None, &sender(), b"x"), Err(FileError::NoMailbox));
        assert!(test_spool.messages().is_empty());
    }

    #[test]
    fn only_the_owner_can_read_mail() {
        use std::os::unix::fs::PermissionsExt;
        let (test_spool, spool) = TestSpool::new("private");
        spool.deliver(Some(b"ann"), &sender(), b"lunch?\n").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for directory in ["tmp", "new", "cur"] {
            assert_eq!(mode(&test_spool.0.join("ann").join(directory)), 0o700, "{directory}");
        }
        let message =
            std::fs::read_dir(test_spool.0.join("ann/new")).unwrap().next().unwrap().unwrap();
        assert_eq!(mode(&message.path()), 0o600);
    }

    #[test]
    fn message_and_mailbox_sizes_are_limited() {
        let (test_spool, spool) = TestSpool::new("limits");
        assert_eq!(spool.deliver(Some(b"ann"), &sender(), &[b'x'; 300]), Err(FileError::Limit));
        let text = [b'x'; 120];
        assert_eq!(spool.deliver(Some(b"ann"), &sender(), &text), Ok(()));
        assert_eq!(spool.deliver(Some(b"ann"), &sender(), &text), Err(FileError::Quota));
        assert_eq!(test_spool.messages().len(), 1);
    }

    #[test]
    fn a_sender_name_cannot_add_header_lines() {
        let sender = Sender { user: b"a\nBcc: all\"".to_vec(), ..sender() };
        assert_eq!(header("ann", &sender, 0).lines().count(), 5);
    }

    #[test]
    fn dates_have_the_format_of_rfc_5322() {
        assert_eq!(date(1_000_000_000), "09 Sep 2001 01:46:40 +0000");
    }
}
