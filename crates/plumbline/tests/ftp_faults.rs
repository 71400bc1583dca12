//! Tests of `plumb` as a client of FTP servers that each deviate from the protocol in one way.
//! Either plumb adapts by itself and the whole file arrives, or plumb prints an error that names
//! the failed step.
//!
//! Other clients have options for such servers. The list of faults is derived from these options,
//! but the tests run plumb without any such option.

#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::print_stdout, reason = "the table is shown")]

#[expect(dead_code, reason = "each crate of tests uses its part of the server")]
mod faulty_ftp;

use faulty_ftp::{Cut, FaultyFtpServer, Quirk};
use net::time::Duration;
use os::process::Program;
use std::collections::VecDeque;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Time limit for one run of plumb.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of faults that are tested at the same time.
const CONCURRENT_TESTS: usize = 6;
const FILE_BYTES: usize = 100_000;

/// Task given to plumb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Get,
    /// Download of a file other than the default one.
    GetOf(&'static str),
    /// Resumed download with this many bytes already present.
    Continue(usize),
    Segments,
    /// Download of a whole directory.
    GetAll,
    Put,
    List,
    Mail,
}

/// Expected result.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// The whole file is at its destination.
    WholeFile,
    /// The output contains this text.
    Prints(&'static str),
    /// plumb fails, and its last message contains this text.
    Fails(&'static str),
}

use Job::{Continue, Get, GetAll, GetOf, List, Mail, Put, Segments};
use Outcome::{Fails, Prints, WholeFile};
use Quirk::{
    Bytewise, ClosedPort, EndReply, Facts, Features, FinalReplyBeforeData, FirstGreeting,
    FirstReplyTo, Greeting, IgnoresRest, ImplicitTls, LineFeeds, Listing, NoCloseNotify, NoPaths,
    NoTelnet, Passive, ProtectionAfterLogin, ReplyTo, RequiresPret, RequiresTlsResumption,
    SizeOfImages, StartReply, Tls,
};

type FaultTest = (&'static str, &'static [Quirk], Job, Outcome);

/// Faults in opening the data connection.
const DATA_CONNECTION_FAULTS: &[FaultTest] = &[
    (
        "PASV tells an address of a private network",
        &[ReplyTo("EPSV", "500 what?"), Passive("PASV", "227 at (10,1,2,3,%H,%L)")],
        Get,
        WholeFile,
    ),
    (
        "PASV tells 0.0.0.0",
        &[ReplyTo("EPSV", "500 what?"), Passive("PASV", "227 at (0,0,0,0,%H,%L)")],
        Get,
        WholeFile,
    ),
    (
        "PASV without parentheses",
        &[ReplyTo("EPSV", "502 no"), Passive("PASV", "227 Passive 127,0,0,1,%H,%L")],
        Get,
        WholeFile,
    ),
    ("EPSV is refused", &[ReplyTo("EPSV", "500 what?")], Get, WholeFile),
    ("EPSV is not answered", &[ReplyTo("EPSV", "")], Get, WholeFile),
    ("EPSV without parentheses", &[Passive("EPSV", "229 port %P")], Get, WholeFile),
    ("EPSV with an address in it", &[Passive("EPSV", "229 (|1|10.9.8.7|%P|)")], Get, WholeFile),
    ("no listener at the port of EPSV", &[ClosedPort("EPSV")], Get, WholeFile),
    (
        "neither EPSV nor PASV",
        &[ReplyTo("EPSV", "502 no"), ReplyTo("PASV", "502 no")],
        Get,
        WholeFile,
    ),
    (
        "PORT alone",
        &[ReplyTo("EPSV", "502 no"), ReplyTo("PASV", "502 no"), ReplyTo("EPRT", "500 what?")],
        Get,
        WholeFile,
    ),
    ("EPSV and PASV are not answered", &[ReplyTo("EPSV", ""), ReplyTo("PASV", "")], Get, WholeFile),
    (
        "no way to a data connection",
        &[
            ReplyTo("EPSV", "502"),
            ReplyTo("PASV", "502"),
            ReplyTo("EPRT", "502"),
            ReplyTo("PORT", "502 no"),
        ],
        Get,
        Fails("EPRT and PORT: the server replied 502"),
    ),
    ("PRET before PASV, said in its refusal", &[RequiresPret], Get, WholeFile),
    ("PRET before PASV, said by FEAT", &[RequiresPret, Features(" PRET\n SIZE")], Get, WholeFile),
];

/// Faults in the format and timing of replies.
const REPLY_FAULTS: &[FaultTest] = &[
    (
        "replies of several lines with other codes",
        &[Greeting("220-a\n226 b\n220 c")],
        Get,
        WholeFile,
    ),
    ("a reply that ends with another code", &[Greeting("220-hello\n221 all")], Get, WholeFile),
    (
        "every reply of several lines does that",
        &[ReplyTo("FEAT", "211-these\n SIZE\n MDTM\n 200 end\n200 end")],
        Get,
        WholeFile,
    ),
    ("a greeting in two parts", &[Greeting("120 wait\n220 come")], Get, WholeFile),
    ("an empty line before a reply", &[Greeting("\n220 odd")], Get, WholeFile),
    ("LF alone ends lines", &[LineFeeds], Get, WholeFile),
    ("a byte at a time", &[Bytewise], Get, WholeFile),
    ("two replies in one segment", &[Quirk::RepliesInOneSegment], Get, WholeFile),
    ("no 150", &[StartReply("")], Get, WholeFile),
    ("no 150 to STOR", &[StartReply("")], Put, WholeFile),
    ("125 for 150", &[StartReply("125 open already")], Get, WholeFile),
    ("226 before the data", &[FinalReplyBeforeData], Get, WholeFile),
    ("250 for 226", &[EndReply("250 done")], Get, WholeFile),
    ("no 226", &[EndReply("")], Get, WholeFile),
    ("no 226 to STOR", &[EndReply("")], Put, WholeFile),
    (
        "a size in 150 that is too large",
        &[
            StartReply("150 x (999999 bytes)"),
            ReplyTo("SIZE", "500 what?"),
            ReplyTo("MDTM", "500 what?"),
        ],
        Get,
        Fails("bytes arrived instead of"),
    ),
    (
        "a size in 150, and no SIZE",
        &[
            StartReply("150 x (100000 bytes)"),
            ReplyTo("SIZE", "500 what?"),
            Quirk::Cut(500, Cut::Closed),
        ],
        Get,
        WholeFile,
    ),
    ("no greeting", &[Greeting("")], Get, Fails("the server sent no FTP greeting: check the port")),
    (
        "a web server",
        &[Greeting("HTTP/1.1 400 Bad Request")],
        Get,
        Fails("not an FTP server, it sent \"HTTP/1.1 400 Bad Request\" (a web server)"),
    ),
    ("QUIT is not answered", &[ReplyTo("QUIT", "")], Get, WholeFile),
];

/// Faults in login and feature negotiation.
const LOGIN_FAULTS: &[FaultTest] = &[
    ("no password is wanted", &[ReplyTo("USER", "230 in")], Get, WholeFile),
    (
        "an account is wanted, and there is none",
        &[ReplyTo("PASS", "332 which?")],
        Get,
        Fails("PASS: the server replied 332"),
    ),
    ("too many at first", &[FirstGreeting("421 too many")], Get, WholeFile),
    (
        "too many at each try",
        &[Greeting("421 too many")],
        Get,
        Fails("the server accepts no session now, it replied 421 too many: try again later"),
    ),
    (
        "too many at first, with 530",
        &[FirstReplyTo("PASS", "530 too many users, try later")],
        Get,
        WholeFile,
    ),
    (
        "the password is wrong",
        &[ReplyTo("PASS", "530 no")],
        Get,
        Fails("PASS: the server replied 530 no"),
    ),
    ("no FEAT", &[ReplyTo("FEAT", "500 what?")], Get, WholeFile),
    ("FEAT is not answered", &[ReplyTo("FEAT", "")], Get, WholeFile),
    ("UTF8 is refused", &[ReplyTo("OPTS", "501 no")], Get, WholeFile),
    ("OPTS UTF8 is not answered", &[ReplyTo("OPTS", "")], Get, WholeFile),
    ("no SYST", &[ReplyTo("SYST", "500 what?")], Get, WholeFile),
    ("FEAT lies of MLST", &[Features(" MLST size*;\n SIZE")], List, Prints("f1")),
    (
        "FEAT lies of all",
        &[
            Features(" MLST size*;\n SIZE\n MDTM\n REST STREAM\n UTF8"),
            ReplyTo("MLST", "502 no"),
            ReplyTo("SIZE", "500 no"),
            ReplyTo("MDTM", "500 no"),
            ReplyTo("OPTS", "500 no"),
        ],
        Get,
        WholeFile,
    ),
    ("SIZE in TYPE A is refused", &[SizeOfImages], Get, WholeFile),
    ("a time of the year 119100", &[ReplyTo("MDTM", "213 191000102030405")], Get, WholeFile),
    (
        "TYPE I is refused",
        &[ReplyTo("TYPE", "504 text alone")],
        Get,
        Fails("TYPE: the server replied 504"),
    ),
    ("421 in the middle", &[FirstReplyTo("RETR", "421 timeout")], Get, WholeFile),
    ("450 at first", &[FirstReplyTo("RETR", "450 busy")], Get, WholeFile),
    (
        "450 for what is not there",
        &[ReplyTo("RETR", "450 No such file")],
        Get,
        Fails("450 No such file"),
    ),
    ("no room at first, and --tries", &[FirstReplyTo("STOR", "452 no space")], Put, WholeFile),
    ("paths are unknown", &[NoPaths], GetOf("dir/f1"), WholeFile),
    ("a name with Telnet's 255", &[], GetOf("a%FFb"), WholeFile),
    ("a server that knows no Telnet", &[NoTelnet], GetOf("a%FFb"), Fails("550")),
];

/// Faults in transfers.
const TRANSFER_FAULTS: &[FaultTest] = &[
    ("the connection closes, and 226", &[Quirk::Cut(30_000, Cut::Closed)], Get, WholeFile),
    ("the connection closes, and 426", &[Quirk::Cut(30_000, Cut::ReportedAborted)], Get, WholeFile),
    ("the connection is reset, and 226", &[Quirk::Cut(30_000, Cut::Reset)], Get, WholeFile),
    ("nothing more comes", &[Quirk::Cut(30_000, Cut::Stalled)], Get, WholeFile),
    ("both connections are lost", &[Quirk::Cut(30_000, Cut::WithControl)], Get, WholeFile),
    ("REST is refused", &[ReplyTo("REST", "502 no")], Continue(40_000), WholeFile),
    ("REST is forgotten", &[IgnoresRest], Continue(40_000), WholeFile),
    ("REST is forgotten, in pieces", &[IgnoresRest], Segments, WholeFile),
    ("ABOR brings 225", &[ReplyTo("ABOR", "225 none")], Segments, WholeFile),
    ("ABOR brings 426 and 226", &[ReplyTo("ABOR", "426 cut\n226 cut")], Segments, WholeFile),
    ("ABOR is unknown", &[ReplyTo("ABOR", "500 what?")], Segments, WholeFile),
    ("ABOR is not answered", &[ReplyTo("ABOR", "")], Segments, WholeFile),
    ("an upload is cut off", &[Quirk::Cut(30_000, Cut::ReportedAborted)], Put, WholeFile),
    (
        "an upload is cut off, and no APPE",
        &[Quirk::Cut(30_000, Cut::ReportedAborted), ReplyTo("APPE", "502 no")],
        Put,
        WholeFile,
    ),
    ("STOR is refused", &[ReplyTo("STOR", "553 not you")], Put, Fails("553 not you")),
    (
        "the disk is full there",
        &[Quirk::Cut(30_000, Cut::DiskFull)],
        Put,
        Fails("552 the disk is full"),
    ),
    ("no such file", &[], GetOf("none"), Fails("550 no such file")),
    ("MLFL", &[], Mail, WholeFile),
    ("no MLFL, but MAIL", &[ReplyTo("MLFL", "502 no")], Mail, WholeFile),
    (
        "no MLFL and no MAIL",
        &[ReplyTo("MLFL", "502 no"), ReplyTo("MAIL", "502 no")],
        Mail,
        Fails("502 no"),
    ),
    ("no such mailbox", &[ReplyTo("MLFL", "550 who?")], Mail, Fails("550 who?")),
];

/// Faults in listings.
const LISTING_FAULTS: &[FaultTest] = &[
    ("MLSD is refused", &[Features(" MLST size*;"), ReplyTo("MLSD", "501 no")], GetAll, WholeFile),
    (
        "MLSD sends what LIST sends",
        &[Features(" MLST size*;"), Facts("-rw-r--r-- 1 a b 9 Jan 02 2020 f1\n")],
        List,
        Prints("f1"),
    ),
    (
        "LIST of Windows",
        &[Listing("01-02-20  03:04AM       <DIR>          sub\n01-02-20  03:04AM  9 f1\n")],
        List,
        Prints("f1"),
    ),
    (
        "LIST of EPLF",
        &[Listing("+i8388621.29609,m824255902,/,\tsub\n+r,s9,\tf1\n")],
        List,
        Prints("f1"),
    ),
    (
        "LIST of VMS",
        &[Listing(
            "\nDirectory A:[B]\n\nF1.TXT;1     9/9   2-JAN-2020 03:04:05  [A,B]  (RWED,RWED,RE,)\n\nTotal of 1 file\n",
        )],
        List,
        Prints("F1.TXT"),
    ),
    (
        "LIST with a total and no group",
        &[Listing("total 3\n-rw-r--r--   1 root          9 Jan 02  2020 f1\n")],
        List,
        Prints("f1"),
    ),
    ("no LIST", &[ReplyTo("LIST", "502 no")], List, Prints("f1")),
    (
        "a name that leads elsewhere",
        &[Listing("-rw-r--r-- 1 a b 9 Jan 02 2020 ../../f9\n-rw-r--r-- 1 a b 9 Jan 02 2020 f1\n")],
        List,
        Fails("cannot parse 1 line of the listing: '-rw-r--r-- 1 a b 9 Jan 02 2020 ../../f9'"),
    ),
];

/// Faults of a server's TLS.
const TLS_FAULTS: &[FaultTest] = &[
    (
        "no TLS where it is wanted",
        &[ReplyTo("AUTH", "502 no"), Tls],
        Get,
        Fails("AUTH TLS: the server replied 502"),
    ),
    ("PROT behind the login", &[Tls, ProtectionAfterLogin], Get, WholeFile),
    ("TLS ends without a word", &[Tls, NoCloseNotify], Get, WholeFile),
    (
        "TLS ends without a word, and no SIZE",
        &[Tls, NoCloseNotify, ReplyTo("SIZE", "500"), ReplyTo("MDTM", "500")],
        Get,
        Fails("data transfer"),
    ),
    ("data must resume a session", &[Tls, RequiresTlsResumption], GetAll, WholeFile),
    (
        "PROT is refused",
        &[Tls, ReplyTo("PROT", "534 no")],
        Get,
        Fails("PROT: the server replied 534"),
    ),
    ("TLS from the first byte on", &[ImplicitTls], Get, WholeFile),
    (
        "TLS from the first byte on, and PROT later",
        &[ImplicitTls, ProtectionAfterLogin],
        Put,
        WholeFile,
    ),
];

struct TempDirectory(PathBuf);

impl TempDirectory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("plumb-odd-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.0.join(name)).ok()
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        // A directory that is left behind does no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn content(seed: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| u8::try_from((at * 31 + seed * 7 + at / 251) % 256).unwrap()).collect()
}

/// Returns the files that the server has at the start.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("file", content(0, FILE_BYTES)),
        ("dir/f1", content(1, 9)),
        ("dir/f2", content(2, 5000)),
        ("a\u{ff}b", content(3, 9)),
    ]
}

fn arguments(job: Job, base: &str, directory: &TempDirectory) -> Vec<String> {
    let local_file = directory.0.join("file");
    let url = |name: &str| format!("{base}/{name}");
    let words: Vec<String> = match job {
        Get => vec!["get".into(), url("file"), "file".into()],
        GetOf(name) => vec!["get".into(), url(name), "file".into()],
        Continue(len) => {
            let part = directory.0.join("file.part");
            fs::write(&part, content(0, FILE_BYTES).get(..len).unwrap()).unwrap();
            // 2020-01-02 03:04:05 UTC, the time that MDTM reports.
            let time = std::time::UNIX_EPOCH + Duration::from_secs(1_577_934_245);
            fs::File::options().write(true).open(part).unwrap().set_modified(time).unwrap();
            vec!["get".into(), "-c".into(), url("file"), "file".into()]
        }
        Segments => {
            vec!["get".into(), "--segments".into(), "3".into(), url("file"), "file".into()]
        }
        GetAll => vec!["get".into(), url("dir/f*"), ".".into()],
        Put => {
            fs::write(&local_file, content(5, FILE_BYTES)).unwrap();
            vec!["put".into(), "file".into(), url("new")]
        }
        List => vec!["ls".into(), url("dir/")],
        Mail => {
            fs::write(&local_file, "dear\nann\n").unwrap();
            vec!["mail".into(), "file".into(), url("ann")]
        }
    };
    let limits = ["--timeout", "2", "--tries", "3"].map(str::to_owned);
    words.into_iter().chain(limits).collect()
}

/// Runs plumb against a server with one fault, and returns a short description of plumb's reaction.
fn run_fault_test((fault, quirks, job, outcome): FaultTest) -> String {
    let server = FaultyFtpServer::start(quirks, &files());
    let directory = TempDirectory::new();
    let scheme = match () {
        () if quirks.contains(&Tls) => "ftpes",
        () if quirks.contains(&ImplicitTls) => "ftps",
        () => "ftp",
    };
    let base = format!("{scheme}://127.0.0.1:{}", server.port);
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.args(arguments(job, &base, &directory)).current_dir(&directory.0).stdin(Stdio::null());
    command.env("XDG_STATE_HOME", &directory.0).env("HOME", &directory.0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut plumb = Program::start(&mut command).unwrap();
    let status = plumb.wait_for_end(RUN_TIMEOUT).unwrap();
    let status = status.unwrap_or_else(|| panic!("{fault}: plumb hangs: {:?}", server.received()));
    let mut stdout = String::new();
    let mut messages = String::new();
    plumb.child().stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    plumb.child().stderr.take().unwrap().read_to_string(&mut messages).unwrap();
    let details = format!("{fault}: {messages}{stdout}{:?}", server.received());
    let last = messages.lines().last().unwrap_or_default();
    match outcome {
        Fails(part) => {
            assert_eq!(status.code(), Some(1), "{details}");
            assert!(last.contains(part), "{details}");
            assert!(directory.read("file").is_none() || matches!(job, Put | Mail), "{details}");
        }
        Prints(part) => {
            assert!(status.success(), "{details}");
            assert!(stdout.lines().any(|line| line == part || line.ends_with(part)), "{details}");
            assert!(!stdout.contains(".."), "{details}");
        }
        WholeFile => {
            assert!(status.success(), "{details}");
            assert!(has_whole_file(job, &server, &directory), "{details}");
        }
    }
    format!("{fault:44} {}", describe_reaction(last, &stdout, &server.received()))
}

fn has_whole_file(job: Job, server: &FaultyFtpServer, directory: &TempDirectory) -> bool {
    match job {
        GetOf("dir/f1") => directory.read("file") == server.file("dir/f1"),
        GetOf(_) => directory.read("file") == server.file("a\u{ff}b"),
        GetAll => ["f1", "f2"]
            .iter()
            .all(|name| directory.read(name) == server.file(&format!("dir/{name}"))),
        Put => server.file("new") == directory.read("file"),
        Mail => server.file("mail/ann").as_deref() == Some(b"dear\r\nann\r\n"),
        _ => directory.read("file") == server.file("file"),
    }
}

/// Returns the commands that plumb sent, except routine commands, followed by `last`, its last
/// error message. If `last` is empty, the last line of `stdout` is used.
fn describe_reaction(last: &str, stdout: &str, received: &[String]) -> String {
    let routine_verbs = ["USER", "PASS", "FEAT", "OPTS", "TYPE", "SIZE", "MDTM", "QUIT"];
    let other_verbs: Vec<_> =
        received.iter().map(String::as_str).filter(|v| !routine_verbs.contains(v)).collect();
    let messages = if last.is_empty() { stdout.lines().last().unwrap_or_default() } else { last };
    format!("{} | {messages}", other_verbs.join(" "))
}

/// Tests the client with each fault, several at a time, and prints the results.
fn run_fault_tests(tests: &[FaultTest]) {
    let waiting: Arc<Mutex<VecDeque<FaultTest>>> =
        Arc::new(Mutex::new(tests.iter().copied().collect()));
    let workers: Vec<_> = (0..CONCURRENT_TESTS)
        .map(|_| {
            let waiting = Arc::clone(&waiting);
            thread::spawn(move || {
                let mut failures = 0;
                loop {
                    let Some(fault_test) = waiting.lock().unwrap().pop_front() else {
                        return failures;
                    };
                    match thread::spawn(move || run_fault_test(fault_test)).join() {
                        Ok(line) => println!("{line}"),
                        Err(_) => failures += 1,
                    }
                }
            })
        })
        .collect();
    let failures: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
    assert_eq!(failures, 0, "faults without their reaction");
}

#[test]
fn for_every_data_connection_fault_the_file_arrives_or_an_error_explains_why() {
    run_fault_tests(DATA_CONNECTION_FAULTS);
}

#[test]
fn for_every_reply_format_the_file_arrives_or_an_error_explains_why() {
    run_fault_tests(REPLY_FAULTS);
}

#[test]
fn for_every_feature_set_the_file_arrives_or_an_error_explains_why() {
    run_fault_tests(LOGIN_FAULTS);
}

#[test]
fn for_every_interruption_the_file_arrives_or_an_error_explains_why() {
    run_fault_tests(TRANSFER_FAULTS);
}

#[test]
fn for_every_listing_format_the_files_are_found() {
    run_fault_tests(LISTING_FAULTS);
}

#[test]
fn for_every_tls_fault_the_file_arrives_or_an_error_explains_why() {
    run_fault_tests(TLS_FAULTS);
}
