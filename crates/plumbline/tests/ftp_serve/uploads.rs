//! Tests of uploads whose client dies or whose connection breaks: the state of the file, and how
//! the upload is resumed.

use super::ftp_harness::{ControlConnection, Server, TestDirectories, pattern};
use super::login_harness::poll_until_timeout;
use os::process::Program;
use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

/// Configuration with an upload grace time that is longer than each test.
const LONG_GRACE: &str = "rights = \"writable\"\nupload-grace-ms = 60000\n";

fn reset(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

/// Starts an upload of `bytes` and resets its data connection.
fn interrupt_upload(line: &mut ControlConnection, command: &str, bytes: &[u8]) {
    let mut data = line.passive();
    assert_eq!(line.send(command), 150);
    data.write_all(bytes).unwrap();
    // A reset discards data that the server has not read, so wait until it has read everything.
    let expected_text = format!("{} bytes", bytes.len());
    poll_until_timeout(|| line.send_and_read("STAT").contains(&expected_text).then_some(()));
    reset(&data);
    drop(data);
    assert_eq!(line.read_reply(), 426);
}

fn count_temporary_files(directories: &TestDirectories) -> usize {
    let names =
        fs::read_dir(directories.remote_path("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(".plumb-draft-")).count()
}

// attack row 126
#[test]
fn a_client_that_closes_both_connections_in_order_after_its_data_replaces_nothing() {
    let directories = TestDirectories::new();
    let server = Server::configured(&directories, LONG_GRACE, &[]);
    let id = rustix::process::Pid::from_raw(server.program.id().try_into().unwrap()).unwrap();
    let send_signal = |signal| rustix::process::kill_process(id, signal).unwrap();
    for round in 0..20 {
        let old = (round % 4 < 2).then_some(&b"old"[..]);
        match old {
            Some(old) => fs::write(directories.remote_path("file"), old).unwrap(),
            None => _ = fs::remove_file(directories.remote_path("file")),
        }
        let mut line = ControlConnection::logged_in(&server);
        line.send("TYPE I");
        let mut data = line.passive();
        assert_eq!(line.send("STOR file"), 150);
        data.write_all(b"the beginning of the new one").unwrap();
        // The test closes both connections, as the kernel does for a killed client. In every second
        // round the control connection is reset instead. The server is stopped meanwhile, so that
        // it finds both connections closed at once.
        send_signal(rustix::process::Signal::STOP);
        drop(data);
        if round % 2 == 1 {
            reset(line.0.get_ref());
        }
        drop(line);
        send_signal(rustix::process::Signal::CONT);
        poll_until_timeout(|| (count_temporary_files(&directories) == 0).then_some(()));
        assert_eq!(fs::read(directories.remote_path("file")).ok().as_deref(), old, "round {round}");
    }
    server.wait_for_log("control connection closed");
}

#[test]
fn an_upload_is_committed_with_its_reply_and_confirmed_by_the_next_command() {
    let directories = TestDirectories::new();
    let server = Server::configured(&directories, LONG_GRACE, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    line.send("ALLO 5");
    assert_eq!(line.store("STOR announced", b"whole"), 226);
    assert_eq!(count_temporary_files(&directories), 0, "it is known to be whole");
    fs::write(directories.remote_path("old"), b"old").unwrap();
    for name in ["new", "old"] {
        assert_eq!(line.store(&format!("STOR {name}"), b"whole"), 226);
        assert_eq!(fs::read(directories.remote_path(name)).unwrap(), b"whole", "{name}");
        assert_eq!(count_temporary_files(&directories), 1, "it can be taken back");
        assert_eq!(line.send("NOOP"), 200);
        poll_until_timeout(|| (count_temporary_files(&directories) == 0).then_some(()));
    }
    for name in ["announced", "new", "old"] {
        assert_eq!(fs::read(directories.remote_path(name)).unwrap(), b"whole", "{name}");
    }
}

#[test]
fn an_upload_is_kept_if_the_client_reads_the_reply_and_closes_without_quit() {
    let directories = TestDirectories::new();
    let server = Server::configured(&directories, LONG_GRACE, &[]);
    for round in 0..20 {
        let mut line = ControlConnection::logged_in(&server);
        assert_eq!(line.store("STOR file", format!("{round}").as_bytes()), 226);
        drop(line);
        poll_until_timeout(|| (count_temporary_files(&directories) == 0).then_some(()));
        assert_eq!(
            fs::read(directories.remote_path("file")).unwrap(),
            format!("{round}").as_bytes()
        );
    }
}

#[test]
fn quit_during_an_upload_keeps_the_complete_file() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    let mut data = line.passive();
    assert_eq!(line.send("STOR file"), 150);
    line.0.get_mut().write_all(b"QUIT\r\n").unwrap();
    data.write_all(b"whole").unwrap();
    drop(data);
    assert_eq!((line.read_reply(), line.read_reply()), (226, 221));
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"whole");
}

/// Starts a client that uploads slowly, kills it during the transfer, and checks the files left
/// behind.
fn upload_and_kill_client(
    server: &Server,
    directories: &TestDirectories,
    name: &str,
    rounds: usize,
    client: &[&str],
) {
    let old = fs::read(directories.remote_path(name)).ok();
    let url = server.url("127.0.0.1", name);
    let mut interrupted_rounds = 0;
    for round in 0..rounds {
        let mut command = Command::new(client[0]);
        let words = client[1..].iter().map(|word| if *word == "URL" { &url } else { *word });
        command
            .args(words)
            .current_dir(directories.local_path(""))
            .env("HOME", directories.local_path(""));
        command.env("XDG_STATE_HOME", directories.0.join("user"));
        let mut program =
            Program::start(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        poll_until_timeout(|| (count_temporary_files(directories) > 0).then_some(()));
        // The client is killed at a different point of the transfer in each round.
        let received_bytes = |directories: &TestDirectories| {
            let entries = fs::read_dir(directories.remote_path("")).unwrap().flatten();
            let files = entries
                .filter(|entry| entry.file_name().to_string_lossy().starts_with(".plumb-draft-"));
            files.filter_map(|draft| draft.metadata().ok()).map(|draft| draft.len()).sum::<u64>()
        };
        let wanted_bytes = u64::try_from(round % 5).unwrap() * 10_000 + 1;
        poll_until_timeout(|| {
            (received_bytes(directories) >= wanted_bytes || count_temporary_files(directories) == 0)
                .then_some(())
        });
        interrupted_rounds += count_temporary_files(directories);
        program.child().kill().unwrap();
        program.child().wait().unwrap();
        poll_until_timeout(|| (count_temporary_files(directories) == 0).then_some(()));
        assert_eq!(fs::read(directories.remote_path(name)).ok(), old, "{client:?}, round {round}");
    }
    assert_eq!(interrupted_rounds, rounds, "{client:?} was killed before its data came");
}

const SLOW_PYTHON: &str = r#"
import ftplib, sys, time, urllib.parse
url = urllib.parse.urlparse(sys.argv[1])
ftp = ftplib.FTP()
ftp.connect(url.hostname, url.port)
ftp.login()
data = ftp.transfercmd("STOR " + url.path[1:])
while True:
    data.sendall(b"x" * 5000)
    time.sleep(0.002)
"#;

fn kill_each_client(name: &str) {
    let directories = TestDirectories::new();
    fs::write(directories.local_path("up"), pattern(8_000_000)).unwrap();
    if name == "old" {
        fs::write(directories.remote_path(name), b"old").unwrap();
    }
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let curl = ["curl", "-s", "--limit-rate", "2M", "-T", "up", "URL"];
    upload_and_kill_client(&server, &directories, name, 20, &curl);
    upload_and_kill_client(&server, &directories, name, 20, &["python3", "-c", SLOW_PYTHON, "URL"]);
    let plumb = env!("CARGO_BIN_EXE_plumb");
    let put = [plumb, "put", "--limit-rate", "2M", "up", "URL"];
    upload_and_kill_client(&server, &directories, name, 20, &put);
}

// attack row 126
#[test]
#[ignore = "needs curl and Python"]
fn clients_killed_during_an_upload_keep_the_old_file() {
    kill_each_client("old");
}

// attack row 126
#[test]
#[ignore = "needs curl and Python"]
fn clients_killed_during_an_upload_leave_no_new_file() {
    kill_each_client("new");
}

#[test]
fn an_interrupted_upload_is_resumed_from_its_partial_file() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    interrupt_upload(&mut line, "STOR file", b"12345");
    // The partial upload is not accessible as the file and is not listed.
    for (command, code) in [("MLST file", 550), ("MDTM file", 550), ("RNFR file", 550)] {
        assert_eq!(line.send(command), code, "{command}");
    }
    assert_eq!(line.retrieve("RETR file"), Err(550));
    assert_eq!(line.retrieve("MLSD").unwrap(), b"");
    assert_eq!(line.send_and_read("SIZE file"), "213 5\r\n");
    assert!(line.send_and_read("XCRC file").contains("cbf53a1c"));
    line.send("REST 6");
    assert_eq!(line.send_and_read("STOR file"), "554 REST is beyond the end of the file\r\n");
    line.send("REST 3");
    assert_eq!(line.store("STOR file", b"cde"), 226);
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"123cde");
    line.send("NOOP");
    let count = || fs::read_dir(directories.remote_path("")).unwrap().count();
    poll_until_timeout(|| (count() == 1).then_some(()));
}

#[test]
fn appe_resumes_an_interrupted_upload_only_after_size() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    interrupt_upload(&mut line, "STOR log", b"12345");
    assert_eq!(line.send_and_read("SIZE log"), "213 5\r\n");
    interrupt_upload(&mut line, "APPE log", b"67");
    assert_eq!(line.send_and_read("SIZE log"), "213 7\r\n");
    assert_eq!(line.store("APPE log", b"89"), 226);
    assert_eq!(fs::read(directories.remote_path("log")).unwrap(), b"123456789");
    interrupt_upload(&mut line, "STOR other", b"12345");
    assert_eq!(line.store("APPE other", b"new"), 226);
    assert_eq!(fs::read(directories.remote_path("other")).unwrap(), b"new");
}

#[test]
fn an_interrupted_replacement_is_resumed_by_site_partial_and_the_old_file_stays_until_then() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"the old one").unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!(line.send("SITE PARTIAL file"), 550);
    interrupt_upload(&mut line, "STOR file", b"12345");
    assert_eq!(line.send_and_read("SIZE file"), "213 11\r\n");
    assert_eq!(line.send_and_read("SITE PARTIAL file"), "213 5\r\n");
    assert_eq!(line.send_and_read("SIZE file"), "213 5\r\n");
    assert!(line.send_and_read("XCRC file").contains("cbf53a1c"));
    line.send("REST 5");
    let mut data = line.passive();
    assert_eq!(line.send("STOR file"), 150);
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"the old one");
    data.write_all(b"678").unwrap();
    drop(data);
    assert_eq!(line.read_reply(), 226);
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"12345678");
    assert_eq!(line.send("SITE PARTIAL file"), 550);
}

// attack row 127
#[test]
fn partial_uploads_are_limited_in_number_and_bytes_and_count_in_the_quota() {
    let directories = TestDirectories::new();
    let lines = "rights = \"writable\"\nquota-bytes = 100000\npartial-uploads-max = 3\n\
                 partial-uploads-max-bytes = 20000\n";
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    for number in 0..20 {
        interrupt_upload(&mut line, &format!("STOR file{number}"), &[1; 5_000]);
    }
    assert_eq!(line.send_and_read("AVBL"), "213 85000\r\n");
    interrupt_upload(&mut line, "STOR large", &[1; 18_000]);
    assert_eq!(line.send_and_read("AVBL"), "213 82000\r\n");
    interrupt_upload(&mut line, "STOR larger", &[1; 20_001]);
    assert_eq!(line.send_and_read("AVBL"), "213 82000\r\n");
    let kept = fs::read_dir(directories.remote_path(".plumb-partial")).unwrap();
    assert_eq!(kept.count(), 1);
}

// attack row 127
#[test]
fn a_partial_upload_is_removed_when_it_is_older_than_its_limit() {
    let directories = TestDirectories::new();
    let lines = "rights = \"writable\"\nrecount-s = 1\npartial-uploads-max-age-s = 3600\n";
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    interrupt_upload(&mut line, "STOR file", b"part");
    assert_eq!(line.send("SIZE file"), 213);
    let kept = directories.remote_path(".plumb-partial");
    let file = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(2 * 3600)).unwrap();
    poll_until_timeout(|| (!kept.exists()).then_some(()));
    assert_eq!(line.send("SIZE file"), 550);
}

// attack row 129
#[test]
fn a_partial_upload_and_its_directory_are_not_accessible_by_name() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    interrupt_upload(&mut line, "STOR file", b"12345");
    let key =
        fs::read_dir(directories.remote_path(".plumb-partial")).unwrap().next().unwrap().unwrap();
    let key = key.file_name().into_string().unwrap();
    for command in [
        "CWD .plumb-partial".to_owned(),
        "RMD .plumb-partial".to_owned(),
        "RNFR .plumb-partial".to_owned(),
        format!("SIZE .plumb-partial/{key}"),
        format!("DELE .plumb-partial/{key}"),
    ] {
        assert_eq!(line.send(&command), 550, "{command}");
    }
    assert_eq!(line.retrieve("MLSD").unwrap(), b"");
}

// attack row 128
#[test]
fn a_quota_holds_while_several_sessions_replace_one_file() {
    const LARGE: usize = 400_000;
    let directories = TestDirectories::new();
    let lines = "rights = \"writable\"\nquota-bytes = 1000000\n";
    let server = Server::configured(&directories, lines, &[]);
    let free_bytes = |line: &mut ControlConnection| {
        let available_reply = line.send_and_read("AVBL");
        available_reply.trim().strip_prefix("213 ").unwrap().parse::<u64>().unwrap()
    };
    for round in 0..4 {
        let mut first = ControlConnection::logged_in(&server);
        first.send("TYPE I");
        assert_eq!(first.store(&format!("STOR large{round}"), &vec![1; LARGE / 4]), 226);
        // All sessions start while the large file exists.
        let mut sessions: Vec<_> = (0..6)
            .map(|_| {
                let mut line = ControlConnection::logged_in(&server);
                line.send("TYPE I");
                let data = line.passive();
                assert_eq!(line.send(&format!("STOR large{round}")), 150);
                (line, data)
            })
            .collect();
        thread::scope(|scope| {
            for (line, data) in &mut sessions {
                scope.spawn(|| {
                    data.write_all(b"1").unwrap();
                    data.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(line.read_reply(), 226);
                    assert_eq!(line.send("NOOP"), 200);
                });
            }
        });
        first.send("NOOP");
        poll_until_timeout(|| (count_temporary_files(&directories) == 0).then_some(()));
        let stored_bytes: u64 = fs::read_dir(directories.remote_path(""))
            .unwrap()
            .map(|e| e.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(free_bytes(&mut first), 1_000_000 - stored_bytes, "round {round}");
    }
}

#[test]
fn a_quota_notices_files_removed_outside_of_ftp_and_ignores_links() {
    let directories = TestDirectories::new();
    let lines = "rights = \"writable\"\nquota-bytes = 1000\nrecount-s = 1\n";
    fs::write(directories.remote_path("file"), [1; 600]).unwrap();
    std::os::unix::fs::symlink("file", directories.remote_path("link")).unwrap();
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!(line.send_and_read("AVBL"), "213 400\r\n");
    assert_eq!(line.send("DELE link"), 250);
    assert_eq!(line.send_and_read("AVBL"), "213 400\r\n");
    fs::remove_file(directories.remote_path("file")).unwrap();
    poll_until_timeout(|| (line.send_and_read("AVBL") == "213 1000\r\n").then_some(()));
}

// attack row 152
#[test]
fn a_quota_limits_the_number_of_files_and_directories() {
    const ENTRIES_MAX: usize = 1000;
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("many")).unwrap();
    for number in 0..ENTRIES_MAX - 6 {
        fs::write(directories.remote_path(&format!("many/{number}")), b"").unwrap();
    }
    let lines = "rights = \"writable\"\nquota-bytes = 100000\nrecount-s = 1\n";
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let mut deep_path = String::new();
    for _ in 0..4 {
        deep_path += "/d";
        assert_eq!(line.send(&format!("MKD {deep_path}")), 257);
    }
    assert_eq!(line.store("STOR empty", b""), 226);
    assert_eq!(line.send("MKD one-more"), 552);
    assert_eq!(line.send_and_read("STOR other"), "552 Quota exceeded, delete files first\r\n");
    assert_eq!(line.store("STOR empty", b"replaced"), 226);
    assert_eq!(line.send("RMD /d/d/d/d"), 250);
    assert_eq!(line.store("STOR other", b""), 226);
    assert_eq!(line.send("MKD one-more"), 552);
    fs::remove_file(directories.remote_path("many/0")).unwrap();
    poll_until_timeout(|| (line.send("MKD one-more") == 257).then_some(()));
}

/// Returns the server's records once there are `count` of them.
fn records(directories: &TestDirectories, count: usize) -> Vec<serde_json::Value> {
    let journal = directories.0.join("state/plumb/transfers/journal/00000001.jsonl");
    poll_until_timeout(|| {
        let text = fs::read_to_string(&journal).unwrap_or_default();
        let records = text.lines().map_while(|line| serde_json::from_str(line).ok());
        let records: Vec<_> = records.collect();
        (records.len() >= count).then_some(records)
    })
}

#[test]
fn a_record_counts_the_transferred_bytes() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), pattern(1000)).unwrap();
    fs::write(directories.remote_path("empty"), b"").unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!(line.store("APPE file", &[1; 100]), 226);
    line.send("REST 1000");
    assert_eq!(line.store("STOR file", &[1; 7]), 226);
    assert_eq!(line.store("STOR new", b""), 226);
    assert_eq!(line.retrieve("RETR empty").unwrap(), b"");
    let large = pattern(2_000_000);
    assert_eq!(line.store("STOR large", &large), 226);
    assert_eq!(line.store("APPE large", &large), 226);
    let records = records(&directories, 6);
    let uploads: Vec<_> = records
        .iter()
        .map(|record| {
            let number = |field: &str| record[field].as_u64();
            (number("file_bytes"), number("bits"), number("restart_offset_bytes"))
        })
        .collect();
    let expected = [
        (Some(100), Some(800), Some(1000)),
        (Some(7), Some(56), Some(1000)),
        (Some(0), Some(0), None),
        (Some(0), Some(0), None),
        (Some(2_000_000), Some(16_000_000), None),
        (Some(2_000_000), Some(16_000_000), Some(2_000_000)),
    ];
    assert_eq!(uploads, expected);
}

/// Breaks off an upload, runs a client that resumes the upload, and checks the offset at which the
/// upload continued.
fn interrupt_and_resume(client: impl Fn(&TestDirectories, &Server)) {
    let directories = TestDirectories::new();
    let data = pattern(300_000);
    fs::write(directories.local_path("file"), &data).unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    interrupt_upload(&mut line, "STOR file", &data[..100_000]);
    client(&directories, &server);
    assert!(fs::read(directories.remote_path("file")).unwrap() == data);
    let records = records(&directories, 2);
    let offset = records.last().unwrap()["restart_offset_bytes"].as_u64();
    assert_eq!(offset, Some(100_000), "it began again");
}

#[test]
#[ignore = "needs curl"]
fn curl_resumes_an_interrupted_upload() {
    interrupt_and_resume(|directories, server| {
        let url = server.url("127.0.0.1", "file");
        directories.run_client_ok("curl", &["-sS", "-C", "-", "-T", "file", &url], "");
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_resumes_an_interrupted_upload() {
    interrupt_and_resume(|directories, server| {
        let script = format!(
            "set net:max-retries 1; set cmd:fail-exit yes; open ftp://127.0.0.1:{}; reput file; bye",
            server.port
        );
        directories.run_client_ok("lftp", &["-c", &script], "");
    });
}

// attack row 88
#[test]
fn a_line_of_a_quarter_of_a_gigabyte_costs_the_server_no_memory_and_is_refused_once() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &["--ftp-tls", "off"]);
    let mut line = ControlConnection::logged_in(&server);
    let memory_kib = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.program.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before_kib = memory_kib();
    let piece = vec![b'A'; 1 << 20];
    let mut max_kib = 0;
    for _ in 0..256 {
        line.0.get_mut().write_all(&piece).unwrap();
        max_kib = memory_kib().max(max_kib);
    }
    assert_eq!((line.send(""), line.send("NOOP")), (500, 200));
    assert!(max_kib.saturating_sub(before_kib) < 4096, "{before_kib} to {max_kib} KiB");
}

// attack row 96
#[test]
fn ten_thousand_pasv_commands_leak_no_descriptors() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &["--ftp-tls", "off"]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("NOOP");
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", server.program.id())).unwrap().count();
    let before = descriptors();
    let mut max_descriptors = 0;
    for _ in 0..200 {
        line.0.get_mut().write_all(&b"PASV\r\n".repeat(50)).unwrap();
        for _ in 0..50 {
            assert_eq!(line.read_reply(), 227);
        }
        max_descriptors = descriptors().max(max_descriptors);
    }
    assert!(max_descriptors <= before + 2, "{before} to {max_descriptors} descriptors");
}
