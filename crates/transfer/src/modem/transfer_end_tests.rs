//! The sentence and the record of each end of a transfer.

use super::download::write_error_text;
use super::tests::{Directories, content, send, start, wait_for_output, write};
use super::upload::read_error_text;
use super::*;
use net::cx::OwnedCx;
use records::transfer::Outcome;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Number of bytes of the file.
const LEN: usize = 300_000;

/// A transfer in progress, and its peer.
struct Running {
    transfer: ModemTransfer,
    peer: ModemTransfer,
    cx: OwnedCx,
    _directories: Directories,
}

impl Running {
    /// Starts a transfer, and runs it up to the middle of the file.
    fn new(test: &str, protocol: ModemProtocol, is_upload: bool) -> Self {
        let directories = Directories::new(test);
        write(&directories.from, "large", &content(LEN));
        let mut cx = OwnedCx::default();
        let (mut sender, mut receiver) =
            start(&directories, protocol, &["large"], Some("large"), &mut cx);
        for _ in 0..20 {
            let replies = receiver.take_output(&mut cx.cx());
            sender.receive(&mut replies.as_slice(), &mut cx.cx());
            // A sender of blocks pauses before each block.
            cx.now = cx.now + net::time::Duration::from_millis(50);
            sender.timeout(&mut cx.cx());
            let sent = sender.take_output(&mut cx.cx());
            receiver.receive(&mut sent.as_slice(), &mut cx.cx());
        }
        let (transfer, peer) = if is_upload { (sender, receiver) } else { (receiver, sender) };
        Self { transfer, peer, cx, _directories: directories }
    }

    /// Returns the first sentence and the record of the transfer, which has ended.
    fn end(mut self) -> (String, FileRecord) {
        while !self.transfer.is_over() {
            wait_for_output(&mut self.transfer, &mut self.cx);
        }
        let mut records = self.transfer.take_records();
        assert_eq!(records.len(), 1);
        (self.transfer.take_notices().remove(0), records.remove(0))
    }
}

#[test]
fn each_interruption_has_its_sentence_and_its_record() {
    let user = Outcome::AbortedByUser;
    let peer = Outcome::AbortedByPeer;
    let closed = "failed: the remote host closed the connection.";
    let ends = [
        (Interruption::User, "cancelled.", user),
        (Interruption::TerminalClosed, "cancelled: the terminal was closed.", user),
        (Interruption::Signal("SIGINT"), "cancelled by SIGINT.", user),
        (Interruption::Signal("SIGTERM"), "cancelled by SIGTERM.", user),
        (Interruption::Signal("SIGHUP"), "cancelled by SIGHUP.", user),
        (Interruption::RemoteClosed, closed, peer),
        (Interruption::RemoteReset, "failed: the remote host reset the connection.", peer),
        (Interruption::NoAnswer, "failed: the remote host no longer answers.", Outcome::Timeout),
        (Interruption::Unreachable, "failed: there is no route to the remote host.", peer),
        (Interruption::ProgramEnded, "failed: the remote program has ended.", peer),
        (Interruption::LineLost, "failed: the serial line was lost.", Outcome::Local),
        (Interruption::SessionEnded, "failed: the session has ended.", Outcome::Local),
    ];
    for protocol in [ModemProtocol::Zmodem, ModemProtocol::Ymodem, ModemProtocol::Xmodem1k] {
        for (why, text, outcome) in ends {
            for (is_upload, name) in [(false, "Download"), (true, "Upload")] {
                let mut running = Running::new("interrupted", protocol, is_upload);
                running.transfer.abort(why, &mut running.cx.cx());
                assert!(running.transfer.is_over() && !running.transfer.has_output());
                let (sentence, record) = running.end();
                assert_eq!(sentence, format!("{name} {text}"));
                assert_eq!((record.outcome, record.error), (outcome, Some(sentence)));
                assert!(record.bytes > 0 && record.bytes < LEN as u64, "{}", record.bytes);
                assert!(record.duration.as_millis() > 0);
            }
        }
    }
}

#[test]
fn each_end_by_the_remote_program_has_its_sentence_and_its_record() {
    let cancelled = "Transfer cancelled by the remote program.";
    let silent = "Transfer failed: the remote program no longer answers.";
    for is_upload in [false, true] {
        let mut running = Running::new("remote-cancel", ModemProtocol::Zmodem, is_upload);
        running.peer.cancel(&mut running.cx.cx());
        let sequence = running.peer.take_output(&mut running.cx.cx());
        running.transfer.receive(&mut sequence.as_slice(), &mut running.cx.cx());
        let (sentence, record) = running.end();
        assert_eq!((sentence.as_str(), record.outcome), (cancelled, Outcome::AbortedByPeer));
        let (sentence, record) =
            Running::new("remote-silence", ModemProtocol::Zmodem, is_upload).end();
        assert_eq!((sentence.as_str(), record.outcome), (silent, Outcome::Timeout));
    }
}

#[test]
fn each_local_error_has_a_sentence_in_words() {
    let directory = Path::new("/srv/files");
    let text = |error: Error| write_error_text(directory, &error);
    let begin = "Download cancelled: cannot write to /srv/files: ";
    for (error, why) in [
        (Error::from(ErrorKind::StorageFull), "the disk is full."),
        (Error::from(ErrorKind::QuotaExceeded), "the disk quota is exhausted."),
        (
            Error::from_raw_os_error(rustix::io::Errno::ACCESS.raw_os_error()),
            "permission denied; --download-directory selects another directory.",
        ),
        (Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()), "Input/output error."),
    ] {
        assert_eq!(text(error), format!("{begin}{why}"));
    }
    let error = Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error());
    let sentence = read_error_text("a", &error);
    assert_eq!(sentence, "Upload cancelled: cannot read a: Input/output error.");
}

#[test]
fn a_transfer_that_ends_before_its_first_file_is_recorded() {
    let directories = Directories::new("before-first");
    write(&directories.from, "a", &content(100));
    let mut cx = OwnedCx::default();
    let policy = DownloadPolicy::new(directories.to.clone(), DOWNLOAD_LIMIT_BYTES);
    for protocol in [ModemProtocol::Zmodem, ModemProtocol::Ymodem, ModemProtocol::Xmodem] {
        let upload = send(protocol, vec![directories.from.join("a")], &mut cx);
        let receive = ModemCommand::Receive(protocol, Some("b".to_owned()));
        let download = ModemTransfer::start(receive, &policy, &mut cx.cx()).unwrap();
        for (mut transfer, path) in [(upload, "/a"), (download, "b")] {
            transfer.abort(Interruption::RemoteClosed, &mut cx.cx());
            let records = transfer.take_records();
            assert_eq!(records.len(), 1, "{protocol:?}");
            assert!(records[0].path.ends_with(path.as_bytes()), "{:?}", records[0]);
            assert_eq!((records[0].bytes, records[0].outcome), (0, Outcome::AbortedByPeer));
        }
    }
    let mut refusal = ModemTransfer::refuse(ModemProtocol::Zmodem, None, &mut cx.cx());
    refusal.abort(Interruption::RemoteClosed, &mut cx.cx());
    assert_eq!(refusal.take_records(), [], "a refusal is no transfer");
}

#[test]
fn the_sentence_about_a_continued_file_separates_both_transfers() {
    let directories = Directories::new("continued");
    write(&directories.from, "a", &content(50_000));
    write(&directories.to, "a.part", &content(40_000));
    let [_, notices] = tests::transfer(&directories, ModemProtocol::Zmodem, &["a"], None);
    let sentence = "Received a: 50,000 bytes, 40,000 transferred before and 10,000 bytes in ";
    assert!(notices[1].starts_with(sentence), "{notices:?}");
    assert!(!notices[1].contains("B/s"), "no time has passed: {notices:?}");
    write(&directories.to, "a-1.part", &content(50_000));
    let [_, notices] = tests::transfer(&directories, ModemProtocol::Zmodem, &["a"], None);
    assert_eq!(notices[1], "Received a-1: 50,000 bytes, all 50,000 transferred before; a exists.");
}
