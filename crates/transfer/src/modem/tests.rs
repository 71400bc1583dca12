//! Both ends of a transfer, with files.

use super::*;
use net::cx::OwnedCx;
use protocols::modem::Crc32;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of the sender and one of the receiver, removed on drop.
pub(super) struct Directories {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
}

impl Directories {
    pub(super) fn new(test: &str) -> Self {
        let path = |end| {
            std::env::temp_dir().join(format!("plumb-modem-{}-{test}-{end}", std::process::id()))
        };
        let directories = Self { from: path("from"), to: path("to") };
        for directory in [&directories.from, &directories.to] {
            fs::create_dir(directory).unwrap();
        }
        directories
    }

    fn received(&self, name: &str) -> Vec<u8> {
        fs::read(self.to.join(name)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.to).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.from);
        _ = fs::remove_dir_all(&self.to);
    }
}

pub(super) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect()
}

pub(super) fn send(
    protocol: ModemProtocol,
    paths: Vec<PathBuf>,
    cx: &mut OwnedCx,
) -> ModemTransfer {
    let policy = DownloadPolicy::default();
    ModemTransfer::start(ModemCommand::Send(protocol, paths), &policy, &mut cx.cx()).unwrap()
}

/// Runs both ends until they are over; returns the notices of each end.
fn run(
    sender: &mut ModemTransfer,
    receiver: &mut ModemTransfer,
    cx: &mut OwnedCx,
) -> [Vec<String>; 2] {
    for _ in 0..100_000 {
        if sender.is_over() && receiver.is_over() {
            return [sender.take_notices(), receiver.take_notices()];
        }
        let sent = sender.take_output(&mut cx.cx());
        let replies = receiver.take_output(&mut cx.cx());
        receiver.receive(&mut sent.as_slice(), &mut cx.cx());
        sender.receive(&mut replies.as_slice(), &mut cx.cx());
        if sent.is_empty() && replies.is_empty() {
            let next = [sender.deadline(), receiver.deadline()].into_iter().flatten().min();
            cx.now = cx.now.max(next.unwrap_or(cx.now));
            sender.timeout(&mut cx.cx());
            receiver.timeout(&mut cx.cx());
        }
    }
    panic!("the transfer does not end");
}

/// Transfers files with the default policy; returns the notices of each end.
pub(super) fn transfer(
    directories: &Directories,
    protocol: ModemProtocol,
    names: &[&str],
    name: Option<&str>,
) -> [Vec<String>; 2] {
    let mut cx = OwnedCx::default();
    let (mut sender, mut receiver) = start(directories, protocol, names, name, &mut cx);
    run(&mut sender, &mut receiver, &mut cx)
}

/// Starts the sender and the receiver of files.
pub(super) fn start(
    directories: &Directories,
    protocol: ModemProtocol,
    names: &[&str],
    name: Option<&str>,
    cx: &mut OwnedCx,
) -> (ModemTransfer, ModemTransfer) {
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    let paths = names.iter().map(|name| directories.from.join(name)).collect();
    let sender = send(protocol, paths, cx);
    let receive = ModemCommand::Receive(protocol, name.map(str::to_owned));
    let receiver = ModemTransfer::start(receive, &policy, &mut cx.cx()).unwrap();
    (sender, receiver)
}

pub(super) fn write(directory: &Path, name: &str, content: &[u8]) {
    fs::write(directory.join(name), content).unwrap();
}

#[test]
fn files_keep_their_names_sizes_and_times() {
    for protocol in [ModemProtocol::Zmodem, ModemProtocol::Ymodem] {
        let directories = Directories::new(&format!("{protocol:?}"));
        write(&directories.from, "empty", b"");
        write(&directories.from, "large", &content(300_000));
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        fs::File::open(directories.from.join("large")).unwrap().set_modified(time).unwrap();
        let [sent, received] = transfer(&directories, protocol, &["empty", "large"], None);
        assert_eq!(directories.names(), ["empty", "large"]);
        assert!(directories.received("large") == content(300_000));
        assert_eq!(directories.to.join("large").metadata().unwrap().modified().unwrap(), time);
        assert!(sent[1].starts_with("Sent large: 300,000 bytes in "), "{sent:?}");
        assert!(received[1].starts_with("Received large: 300,000 bytes in "), "{received:?}");
    }
}

#[test]
fn xmodem_stores_a_file_under_the_given_name_with_padding() {
    let directories = Directories::new("xmodem");
    write(&directories.from, "a", &content(1000));
    for protocol in [ModemProtocol::Xmodem, ModemProtocol::Xmodem1k] {
        transfer(&directories, protocol, &["a"], Some("b"));
    }
    assert_eq!(directories.names(), ["b", "b-1"]);
    for name in ["b", "b-1"] {
        assert_eq!(directories.received(name)[..1000], content(1000));
        assert_eq!(directories.received(name)[1000..], [0x1a; 24]);
    }
}

#[test]
fn a_partial_file_is_continued_only_if_its_content_is_the_same() {
    let directories = Directories::new("partial");
    write(&directories.from, "a", &content(50_000));
    write(&directories.to, "a.part", &content(40_000));
    let [_, notices] = transfer(&directories, ModemProtocol::Zmodem, &["a"], None);
    assert_eq!(notices[0], "Continuing a after 40,000 bytes.");
    assert!(directories.received("a") == content(50_000));
    write(&directories.to, "a-1.part", b"other");
    let [_, notices] = transfer(&directories, ModemProtocol::Zmodem, &["a"], None);
    assert_eq!(notices[0], "a.part belongs to another file, and is kept.");
    assert_eq!(directories.names(), ["a", "a-1.part", "a-2"]);
    assert!(directories.received("a-2") == content(50_000));
}

#[test]
fn a_partial_file_is_verified_without_its_last_byte_as_lrzsz_does() {
    let directories = Directories::new("verify");
    write(&directories.to, "a.part", b"12345");
    let mut partial = partial_file::PartialFile::open(&directories.to, "a", Some(9)).unwrap();
    assert!(!partial.verify(Crc32::of(b"123")).unwrap());
    assert!(partial.verify(Crc32::of(b"1234")).unwrap());
    assert_eq!(partial.len(), 4);
}

#[test]
fn an_existing_file_and_a_link_are_never_replaced() {
    let directories = Directories::new("existing");
    write(&directories.from, "a.txt", b"new");
    write(&directories.to, "a.txt", b"old");
    write(&directories.to, "target", b"kept");
    std::os::unix::fs::symlink("target", directories.to.join("a-1.txt.part")).unwrap();
    let [_, notices] = transfer(&directories, ModemProtocol::Zmodem, &["a.txt"], None);
    assert!(notices[0].starts_with("Received a-2.txt: 3 bytes in "), "{notices:?}");
    assert!(notices[0].ends_with("; a.txt exists."), "{notices:?}");
    assert_eq!(directories.received("a.txt"), b"old");
    assert_eq!(directories.received("target"), b"kept");
    assert_eq!(directories.received("a-2.txt"), b"new");
}

#[test]
fn the_limit_applies_to_the_sum_of_all_files() {
    let directories = Directories::new("limit");
    write(&directories.from, "a", &content(6000));
    write(&directories.from, "b", &content(6000));
    let mut cx = OwnedCx::default();
    let policy = DownloadPolicy::new(directories.to.clone(), 10_000);
    let paths = ["a", "b"].map(|name| directories.from.join(name)).to_vec();
    let mut sender = send(ModemProtocol::Zmodem, paths, &mut cx);
    let mut receiver = ModemTransfer::start_requested_download(&policy, &mut cx.cx());
    let [sent, received] = run(&mut sender, &mut receiver, &mut cx);
    assert_eq!(sent[1], "Transfer cancelled by the remote program.");
    assert_eq!(received[1], "b of 6,000 bytes was refused.");
    assert!(received[2].contains("--download-limit"), "{received:?}");
    assert_eq!(receiver.policy().unwrap().remaining_bytes, 4000);
    assert_eq!(directories.names(), ["a"]);
}

#[test]
fn a_cancelled_download_keeps_the_partial_file() {
    let directories = Directories::new("cancel");
    write(&directories.from, "a", &content(3_000_000));
    let mut cx = OwnedCx::default();
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    let mut sender = send(ModemProtocol::Zmodem, vec![directories.from.join("a")], &mut cx);
    let mut receiver = ModemTransfer::start_requested_download(&policy, &mut cx.cx());
    for _ in 0..20 {
        let sent = sender.take_output(&mut cx.cx());
        receiver.receive(&mut sent.as_slice(), &mut cx.cx());
        let replies = receiver.take_output(&mut cx.cx());
        sender.receive(&mut replies.as_slice(), &mut cx.cx());
    }
    receiver.cancel(&mut cx.cx());
    let [sent, received] = run(&mut sender, &mut receiver, &mut cx);
    assert_eq!(sent, ["Transfer cancelled by the remote program."]);
    assert_eq!(received, ["Download cancelled.", "a.part is kept; ZMODEM continues it next time."]);
    let kept = directories.received("a.part");
    assert!(!kept.is_empty() && content(3_000_000).starts_with(&kept));
}

#[test]
fn a_file_that_cannot_be_read_is_reported_before_the_transfer() {
    let cx = &mut OwnedCx::default();
    let command = ModemCommand::Send(ModemProtocol::Zmodem, vec![PathBuf::from("/nonexistent")]);
    let error =
        ModemTransfer::start(command, &DownloadPolicy::default(), &mut cx.cx()).unwrap_err();
    assert!(error.starts_with("Cannot read /nonexistent: "), "{error}");
}

#[test]
fn the_message_of_a_terminated_program_ends_a_download_and_is_displayed() {
    let directories = Directories::new("terminated");
    write(&directories.from, "a", &[0x80; 300_000]);
    let mut cx = OwnedCx::default();
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    let mut sender = send(ModemProtocol::Zmodem, vec![directories.from.join("a")], &mut cx);
    let mut receiver = ModemTransfer::start_requested_download(&policy, &mut cx.cx());
    for _ in 0..6 {
        let sent = sender.take_output(&mut cx.cx());
        receiver.receive(&mut sent.as_slice(), &mut cx.cx());
        let replies = receiver.take_output(&mut cx.cx());
        sender.receive(&mut replies.as_slice(), &mut cx.cx());
    }
    let message = b"sz: caught signal 15; exiting\r\nready:";
    // The data before it may end with a character.
    receiver.receive(&mut [b"\x80", message.as_slice()].concat().as_slice(), &mut cx.cx());
    receiver.take_output(&mut cx.cx());
    cx.now = receiver.deadline().unwrap();
    receiver.timeout(&mut cx.cx());
    assert!(receiver.is_over());
    assert_eq!(receiver.take_rest(), message);
    assert_eq!(receiver.take_output(&mut cx.cx()), b"", "the shell receives nothing");
    assert_eq!(receiver.take_notices()[0], "Transfer cancelled by the remote program.");
}

/// Starts the transfer of `large`, and drops the sender in the middle of it.
fn interrupted_download(test: &str, protocol: ModemProtocol, cx: &mut OwnedCx) -> ModemTransfer {
    let directories = Directories::new(test);
    // No text.
    write(&directories.from, "large", &vec![0xd0; 300_000]);
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    let mut sender = send(protocol, vec![directories.from.join("large")], cx);
    let receive = ModemCommand::Receive(protocol, Some("large".to_owned()));
    let mut receiver = ModemTransfer::start(receive, &policy, &mut cx.cx()).unwrap();
    for _ in 0..20 {
        let replies = receiver.take_output(&mut cx.cx());
        sender.receive(&mut replies.as_slice(), &mut cx.cx());
        // A sender of blocks pauses before each block.
        cx.now = cx.now + net::time::Duration::from_millis(50);
        sender.timeout(&mut cx.cx());
        let sent = sender.take_output(&mut cx.cx());
        receiver.receive(&mut sent.as_slice(), &mut cx.cx());
    }
    assert!(!receiver.is_over());
    receiver
}

/// Advances the time to the deadlines of `transfer` until it has output or is over.
pub(super) fn wait_for_output(transfer: &mut ModemTransfer, cx: &mut OwnedCx) -> Vec<u8> {
    loop {
        let output = transfer.take_output(&mut cx.cx());
        if !output.is_empty() || transfer.is_over() {
            return output;
        }
        cx.now = cx.now.max(transfer.deadline().unwrap());
        transfer.timeout(&mut cx.cx());
    }
}

/// Cancel sequence, and the characters that empty the command line.
const EMPTY_LINE: [&[u8]; 2] = [&protocols::modem::CANCEL_SEQUENCE, b"\x07\x05\x15"];

#[test]
fn a_download_by_zmodem_from_a_killed_program_ends_without_a_header_for_the_shell() {
    let mut cx = OwnedCx::default();
    let mut receiver = interrupted_download("killed-z", ModemProtocol::Zmodem, &mut cx);
    receiver.take_output(&mut cx.cx());
    let began = cx.now;
    receiver.receive(&mut &b"\x80Killed\r\nann@host:~$ "[..], &mut cx.cx());
    assert_eq!(wait_for_output(&mut receiver, &mut cx), EMPTY_LINE.concat());
    assert!((cx.now - began).as_secs() < 10);
    receiver.receive(&mut &b"\rann@host:~$ "[..], &mut cx.cx());
    assert_eq!(wait_for_output(&mut receiver, &mut cx), b"");
    assert!(receiver.is_over());
    assert_eq!(receiver.take_notices()[0], "Transfer cancelled by the remote program.");
    assert_eq!(receiver.take_rest(), b"Killed\r\nann@host:~$ \rann@host:~$ ");
}

#[test]
fn the_header_that_is_repeated_after_text_of_a_menu_has_no_line_end() {
    let mut cx = OwnedCx::default();
    let mut receiver = interrupted_download("menu", ModemProtocol::Zmodem, &mut cx);
    receiver.take_output(&mut cx.cx());
    receiver.receive(&mut &b"\x80[D]own [Q]uit\r\nYour choice? "[..], &mut cx.cx());
    for _ in 0..3 {
        let header = wait_for_output(&mut receiver, &mut cx);
        assert!(header.starts_with(b"**\x18B09") && header.ends_with(b"\x15"));
        assert!(!header.contains(&b'\r') && header.len() == 19, "{}", header.escape_ascii());
    }
}

#[test]
fn a_download_without_a_sender_reports_that_no_sender_answered() {
    let mut cx = OwnedCx::default();
    let policy = DownloadPolicy::default();
    let receive = ModemCommand::Receive(ModemProtocol::Zmodem, None);
    let mut receiver = ModemTransfer::start(receive, &policy, &mut cx.cx()).unwrap();
    let echo = b"**^XB0100000023be50\r\nsh: not found\r\n$ ";
    receiver.receive(&mut echo.as_slice(), &mut cx.cx());
    while !receiver.is_over() {
        wait_for_output(&mut receiver, &mut cx);
    }
    let failure = receiver.take_failure().unwrap();
    assert!(failure.starts_with("Transfer failed: no sender answered"), "{failure}");
}

/// Starts the upload of `large`, and ends its receiver after some data: text arrives instead of answers.
fn interrupted_upload(test: &str, protocol: ModemProtocol, cx: &mut OwnedCx) -> ModemTransfer {
    let directories = Directories::new(test);
    write(&directories.from, "large", &content(300_000));
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    let mut sender = send(protocol, vec![directories.from.join("large")], cx);
    let receive = ModemCommand::Receive(protocol, Some("large".to_owned()));
    let mut receiver = ModemTransfer::start(receive, &policy, &mut cx.cx()).unwrap();
    for _ in 0..20 {
        let replies = receiver.take_output(&mut cx.cx());
        sender.receive(&mut replies.as_slice(), &mut cx.cx());
        cx.now = cx.now + net::time::Duration::from_millis(50);
        sender.timeout(&mut cx.cx());
        let sent = sender.take_output(&mut cx.cx());
        receiver.receive(&mut sent.as_slice(), &mut cx.cx());
    }
    sender.receive(&mut b"Killed\r\n$ garbage".as_slice(), &mut cx.cx());
    sender
}

const UPLOADS: [(&str, ModemProtocol); 3] = [
    ("upload-x", ModemProtocol::Xmodem1k),
    ("upload-y", ModemProtocol::Ymodem),
    ("upload-z", ModemProtocol::Zmodem),
];

/// Waits for the cancel sequence of an upload; returns its time and the output before it.
fn wait_for_cancellation(
    transfer: &mut ModemTransfer,
    cx: &mut OwnedCx,
) -> (net::time::Duration, Vec<u8>) {
    let began = cx.now;
    let mut before = Vec::new();
    loop {
        let output = wait_for_output(transfer, cx);
        if output == EMPTY_LINE.concat() {
            return (cx.now - began, before);
        }
        assert!(!transfer.is_over(), "{}", output.escape_ascii());
        before.extend(output);
    }
}

#[test]
fn an_upload_to_a_killed_program_ends_within_ten_seconds_and_empties_the_command_line() {
    for (test, protocol) in UPLOADS {
        let mut cx = OwnedCx::default();
        let mut sender = interrupted_upload(test, protocol, &mut cx);
        let (time, before) = wait_for_cancellation(&mut sender, &mut cx);
        assert!(time.as_secs() < 10, "{protocol:?}");
        assert!(before.len() < 300, "only requests: {}", before.escape_ascii());
        assert!(!before.contains(&b'\r') && !before.contains(&b'\n'));
        sender.receive(&mut b"\x07\r$ ".as_slice(), &mut cx.cx());
        assert_eq!(wait_for_output(&mut sender, &mut cx), b"");
        assert!(sender.is_over());
        let ended = "Transfer failed: the remote program has ended.";
        assert_eq!(sender.take_notices(), [ended], "{protocol:?}");
        assert_eq!(sender.take_rest(), b"Killed\r\n$ \x07\r$ ");
    }
}

#[test]
fn a_cancellation_by_the_user_after_text_of_a_shell_empties_the_command_line() {
    let mut cx = OwnedCx::default();
    let mut sender = interrupted_upload("cancelled", ModemProtocol::Zmodem, &mut cx);
    sender.cancel(&mut cx.cx());
    assert_eq!(sender.take_output(&mut cx.cx()), EMPTY_LINE.concat());
    sender.receive(&mut b"\x07\r$ ".as_slice(), &mut cx.cx());
    assert_eq!(wait_for_output(&mut sender, &mut cx), b"");
    assert!(sender.is_over());
    assert_eq!(sender.take_notices(), ["Upload cancelled."]);
}

#[test]
fn a_raw_terminal_gets_syntax_errors_until_the_shell_reports_one_and_the_user_a_hint() {
    let mut cx = OwnedCx::default();
    let mut sender = interrupted_upload("raw", ModemProtocol::Zmodem, &mut cx);
    wait_for_cancellation(&mut sender, &mut cx);
    for sequence in [b")))\x15".as_slice(), b"')\x15"] {
        assert_eq!(wait_for_output(&mut sender, &mut cx), sequence);
    }
    sender.receive(&mut b"sh: Syntax error\n$ ".as_slice(), &mut cx.cx());
    assert_eq!(wait_for_output(&mut sender, &mut cx), b"");
    assert!(sender.is_over());
    let hints = sender.take_notices();
    assert!(hints.len() == 2 && hints[1].contains("stty sane"), "{hints:?}");
}

#[test]
fn the_line_is_blamed_for_silence_only_if_no_data_was_confirmed() {
    let directories = Directories::new("silent");
    write(&directories.from, "large", &content(100_000));
    for (blocks, is_blamed) in [(0, true), (80, false)] {
        let mut cx = OwnedCx::default();
        let path = directories.from.join("large");
        let mut sender = send(ModemProtocol::Xmodem1k, vec![path], &mut cx);
        for reply in std::iter::once(b'C').chain(std::iter::repeat_n(0x06, blocks)) {
            cx.now = cx.now + net::time::Duration::from_millis(50);
            sender.receive(&mut [reply].as_slice(), &mut cx.cx());
            cx.now = cx.now + net::time::Duration::from_millis(50);
            sender.timeout(&mut cx.cx());
            sender.take_output(&mut cx.cx());
        }
        while !sender.is_over() {
            wait_for_output(&mut sender, &mut cx);
        }
        let notices = sender.take_notices();
        assert_eq!(sender.is_line_failure(), is_blamed, "{notices:?}");
    }
}

#[test]
fn after_a_killed_program_the_last_acknowledgment_is_erased_in_the_shell() {
    let mut cx = OwnedCx::default();
    let mut receiver = interrupted_download("killed-x", ModemProtocol::Xmodem1k, &mut cx);
    let began = cx.now;
    receiver.receive(&mut &b"Killed\r\n# "[..], &mut cx.cx());
    let mut output = Vec::new();
    while !receiver.is_over() {
        output = wait_for_output(&mut receiver, &mut cx);
    }
    assert_eq!(output, [0x15]);
    assert!((cx.now - began).as_secs() < 10);
    assert!(receiver.take_rest().ends_with(b"Killed\r\n# "));
}

#[test]
fn after_a_cancellation_by_the_remote_program_the_last_acknowledgment_is_erased() {
    let mut cx = OwnedCx::default();
    let mut receiver = interrupted_download("cancelled-x", ModemProtocol::Xmodem1k, &mut cx);
    receiver.take_output(&mut cx.cx());
    receiver.receive(&mut [0x18; 8].as_slice(), &mut cx.cx());
    assert_eq!(receiver.take_output(&mut cx.cx()), b"", "the terminal may be in raw mode");
    assert_eq!(wait_for_output(&mut receiver, &mut cx), [0x15]);
    assert!(receiver.is_over());
}
