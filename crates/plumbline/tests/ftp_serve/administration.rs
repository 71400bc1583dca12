//! Administration of a server: rights per directory, limits, virtual hosts, word formats, and
//! validation of the configuration.

use super::ftp_harness::{ControlConnection, Server, TestDirectories, pattern};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::process::Output;
use std::time::{Duration, UNIX_EPOCH};

const PLUMB: &str = env!("CARGO_BIN_EXE_plumb");

/// Returns `count` words of 36 bits, densely packed, with text if `is_text` and arbitrary bits
/// otherwise.
fn words(count: usize, is_text: bool) -> Vec<u8> {
    let word = |at: usize| -> u64 {
        let rng = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 28;
        match is_text {
            true => (0..5).fold(0, |word, at| word << 7 | (0x20 + (rng >> (7 * at)) % 0x5F)) << 1,
            false => rng,
        }
    };
    let bits = (0..count).flat_map(|at| (0..36).rev().map(move |bit| word(at) >> bit & 1 == 1));
    let bits: Vec<bool> = bits.collect();
    let octet = |bits: &[bool]| {
        let filled = bits.iter().copied().chain(std::iter::repeat(false)).take(8);
        filled.fold(0_u8, |octet, bit| octet << 1 | u8::from(bit))
    };
    bits.chunks(8).map(octet).collect()
}

fn with_word_formats(directories: &TestDirectories) -> Server {
    let mut lines = "rights = \"writable\"\n[ftp.word-formats]\n".to_owned();
    for format in ["h36", "data8", "c36", "a36", "u36", "oct", "text"] {
        fs::create_dir(directories.remote_path(format)).unwrap();
        lines += &format!("\"/{format}\" = \"{format}\"\n");
    }
    Server::configured(directories, &lines, &[])
}

#[test]
fn words_are_read_back_from_every_format_and_offset() {
    let directories = TestDirectories::new();
    let server = with_word_formats(&directories);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE L 36");
    for format in ["h36", "data8", "c36", "a36", "u36", "oct", "text"] {
        for count in [1, 2, 20_001] {
            let content = words(count, format == "text");
            assert_eq!(line.store(&format!("STOR {format}/file"), &content), 226, "{format}");
            assert!(line.retrieve(&format!("RETR {format}/file")).unwrap() == content, "{format}");
            let size = format!("213 {}\r\n", content.len());
            assert_eq!(line.send_and_read(&format!("SIZE {format}/file")), size, "{format}");
        }
        let content = words(20_001, format == "text");
        assert_eq!(line.send("REST 12345"), 350);
        let rest = line.retrieve(&format!("RETR {format}/file")).unwrap();
        assert!(rest == content[12_345..], "{format}");
        line.send("REST 900000");
        assert_eq!(line.retrieve(&format!("RETR {format}/file")), Err(554), "{format}");
    }
    line.send("REST 9");
    assert_eq!(line.store("STOR c36/file", &[0; 9]), 504);
}

#[test]
fn skipping_words_before_an_offset_does_not_block_other_sessions() {
    let directories = TestDirectories::new();
    let server = with_word_formats(&directories);
    // A sparse file takes no disk space and a long time to read.
    let file = fs::File::create(directories.remote_path("c36/file")).unwrap();
    file.set_len(8_000_000_000).unwrap();
    let mut busy_session = ControlConnection::logged_in(&server);
    let mut other = ControlConnection::logged_in(&server);
    assert_eq!((busy_session.send("TYPE L 36"), busy_session.send("REST 7000000000")), (200, 350));
    let data = busy_session.passive();
    assert_eq!(busy_session.send("RETR c36/file"), 150);
    for _ in 0..3 {
        assert_eq!(other.send("NOOP"), 200);
    }
    data.set_nonblocking(true).unwrap();
    let nothing_yet = (&data).read(&mut [0]).unwrap_err().kind();
    assert_eq!(nothing_yet, std::io::ErrorKind::WouldBlock);
    assert_eq!((busy_session.send("ABOR"), other.send("NOOP")), (426, 200));
}

#[test]
fn a_text_directory_rejects_words_that_it_cannot_store_exactly() {
    let directories = TestDirectories::new();
    let server = with_word_formats(&directories);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE L 36");
    assert_eq!(line.store("STOR text/file", &words(100, false)), 451);
    assert!(!directories.remote_path("text/file").exists());
}

#[test]
fn files_of_words_are_transferred_with_every_storage_format() {
    let directories = TestDirectories::new();
    let server = with_word_formats(&directories);
    let content = words(3_000, false);
    fs::write(directories.local_path("up"), &content).unwrap();
    for format in ["h36", "data8", "c36", "a36", "u36", "oct"] {
        let url = server.url("127.0.0.1", &format!("{format}/file"));
        let options = ["--type", "L36", "--store", "h36", "--no-record"];
        directories.run_client_ok(PLUMB, &[&["put"], &options[..], &["up", &url]].concat(), "");
        directories.run_client_ok(
            PLUMB,
            &[&["get"], &options[..], &[&url, "--output", format]].concat(),
            "",
        );
        assert!(fs::read(directories.local_path(format)).unwrap() == content, "{format}");
    }
}

const FOLDERS: &str = "rights = \"read-only\"\n[ftp.folders]\n\"/in\" = \"drop-box\"\n\
    \"/safe\" = \"no-delete\"\n\"/shut\" = []\n\"/add\" = [\"append\"]\n\"/free\" = \"writable\"\n\
    \"/keep\" = [\"rename\", \"read\", \"write\", \"overwrite\"]\n";

// attack row 84
#[test]
fn rights_are_those_of_the_nearest_directory_and_a_refusal_names_the_missing_right() {
    let directories = TestDirectories::new();
    for directory in ["in", "safe", "shut", "add", "free", "keep"] {
        fs::create_dir(directories.remote_path(directory)).unwrap();
        fs::write(directories.remote_path(directory).join("old"), b"old").unwrap();
    }
    fs::write(directories.remote_path("file"), b"file").unwrap();
    let server = Server::configured(&directories, FOLDERS, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    for (command, missing) in [
        ("STOR new", "write new files"),
        ("DELE file", "delete"),
        ("NLST in", "list"),
        ("RETR in/old", "read"),
        ("SIZE in/old", "list"),
        ("MKD in/folder", "make directories"),
        ("STOR in/old", "overwrite"),
        ("STOR safe/old", "overwrite"),
        ("DELE safe/old", "delete"),
        ("RMD free/folder", "No such file"),
        ("CWD shut", "list"),
        ("MLST shut/old", "list"),
        ("STOR add/new", "write new files"),
        ("APPE add/new", "write new files"),
        ("HASH in/old", "read"),
        ("SITE CHMOD 600 in/old", "change modes and times"),
        ("COMB in/old in/old", "overwrite"),
        ("COMB safe/all in/old", "read"),
        ("RNFR in/old", "rename"),
        ("RNFR safe/old", "rename"),
        ("RNFR free", "rename"),
        ("RMD in", "delete"),
    ] {
        let reply = line.send_and_read(command);
        assert!(reply.starts_with("550 ") && reply.contains(missing), "{command}: {reply}");
    }
    assert_eq!(line.store("STOR in/new", b"new"), 226);
    assert_eq!(line.store("STOU in", b"new"), 226);
    assert_eq!(line.store("STOR safe/new", b"new"), 226);
    assert_eq!(line.store("APPE add/old", b"er"), 226);
    assert_eq!((line.send("REST 5"), line.store("STOR add/old", b"!")), (350, 226));
    assert_eq!((line.send("RNFR free/old"), line.send("RNTO in/moved")), (350, 550));
    assert_eq!((line.send("RNFR keep/old"), line.send("RNTO free/old")), (350, 550));
    assert_eq!((line.send("RNFR keep/old"), line.send("RNTO free/new")), (350, 550));
    assert_eq!((line.send("RNFR keep/old"), line.send("RNTO keep/name")), (350, 250));
    assert_eq!(
        (line.send("CWD in"), line.send("CDUP"), line.send("DELE free/old")),
        (250, 250, 250)
    );
    assert_eq!(fs::read(directories.remote_path("add/old")).unwrap(), b"older!");
    assert_eq!(fs::read(directories.remote_path("in/old")).unwrap(), b"old");
    let facts = |line: &mut ControlConnection, name: &str| {
        let reply = line.send_and_read(&format!("MLST {name}"));
        reply.to_lowercase().split("perm=").nth(1).unwrap().split(';').next().unwrap().to_owned()
    };
    assert_eq!(facts(&mut line, "file"), "r");
    assert_eq!(facts(&mut line, "safe/old"), "ar");
    assert_eq!(facts(&mut line, "free"), "celmp");
}

#[test]
fn changes_and_refused_commands_are_logged() {
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("closed")).unwrap();
    fs::write(directories.remote_path("closed/file"), "").unwrap();
    let rights = "rights = \"writable\"\n[ftp.folders]\n\"/closed\" = []\n";
    let server = Server::configured(&directories, rights, &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!(line.store("STOR old", b"content"), 226);
    for (command, code, logged) in [
        ("MKD dir", 257, "as 'ftp': created directory '/dir'"),
        ("RNFR old", 350, ""),
        ("RNTO dir/new", 250, "as 'ftp': renamed '/old' to '/dir/new'"),
        ("SITE CHMOD 640 dir/new", 200, "changed the mode of '/dir/new' to 640"),
        ("MFMT 20200102030405 dir/new", 213, "changed the modification time of '/dir/new'"),
        ("DELE dir/new", 250, "deleted '/dir/new'"),
        ("RMD dir", 250, "removed directory '/dir'"),
        ("DELE dir/new", 550, "'DELE /dir/new' refused: file not found"),
        ("CWD closed", 550, "'CWD /closed' refused: Permission denied: no right to list here"),
        ("SITE CHMOD 640 closed/file", 550, "'SITE CHMOD 640 /closed/file' refused: Permission"),
    ] {
        assert_eq!(line.send(command), code, "{command}");
        server.wait_for_log(logged);
    }
}

#[test]
fn refused_commands_and_transfers_are_counted_in_the_metrics() {
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("closed")).unwrap();
    let rights = "rights = \"read-only\"\n[ftp.folders]\n\"/closed\" = []\n";
    let server = Server::configured(&directories, rights, &["--metrics", "127.0.0.1:0"]);
    let mut line = ControlConnection::logged_in(&server);
    let _unused = line.passive();
    for command in ["STOR file", "DELE file", "MKD dir", "RETR missing", "CWD closed"] {
        assert_eq!(line.send(command), 550, "{command}");
    }
    let address = server.wait_for_log("serving metrics at http://");
    let address = address.split("http://").nth(1).unwrap().trim_end_matches("/metrics");
    let mut scrape = std::net::TcpStream::connect(address).unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    scrape.read_to_string(&mut text).unwrap();
    assert!(text.contains("plumb_refusals_total{protocol=\"ftp\"} 5\n"), "{text}");
}

#[test]
fn the_overwrite_and_append_rights_are_independent() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("old"), b"old").unwrap();
    let server = Server::configured(&directories, "rights = [\"overwrite\"]\n", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!((line.store("STOR old", b"newer"), line.store("STOR new", b"new")), (226, 550));
    assert!(line.send_and_read("RETR old").contains("no right to read"));
    assert_eq!(fs::read(directories.remote_path("old")).unwrap(), b"newer");
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("old"), b"old").unwrap();
    let server = Server::configured(&directories, "rights = [\"append\"]\n", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!(line.store("STOR old", b"no"), 550);
    assert_eq!((line.send("REST 3"), line.store("STOR old", b"er")), (350, 226));
    assert_eq!(fs::read(directories.remote_path("old")).unwrap(), b"older");
}

#[test]
fn the_second_of_two_concurrent_appends_is_refused_and_no_data_is_lost() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("empty"), b"").unwrap();
    fs::write(directories.remote_path("old"), b"old").unwrap();
    let server = Server::configured(&directories, "rights = \"writable\"\n", &[]);
    let mut first_session = ControlConnection::logged_in(&server);
    let mut other = ControlConnection::logged_in(&server);
    for (name, whole, second) in [("old", "olderr", 450), ("empty", "err", 450), ("no", "err", 550)]
    {
        let mut data_connections = [first_session.passive(), other.passive()];
        let append = format!("APPE {name}");
        assert_eq!((first_session.send(&append), other.send(&append)), (150, 150), "{name}");
        for way in &mut data_connections {
            way.write_all(b"er").unwrap();
        }
        let [first, last] = data_connections;
        drop(first);
        assert_eq!(first_session.read_reply(), 226, "{name}");
        drop(last);
        assert_eq!(other.read_reply(), second, "{name}");
        assert_eq!(first_session.store(&append, b"r"), 226, "{name}");
        assert_eq!(fs::read_to_string(directories.remote_path(name)).unwrap(), whole, "{name}");
    }
    server.wait_for_log("the file changed during the upload");
}

#[test]
fn a_directory_is_renamed_into_another_with_the_mkdir_right() {
    let directories = TestDirectories::new();
    for directory in ["a", "to"] {
        fs::create_dir(directories.remote_path(directory)).unwrap();
    }
    let lines = "rights = \"writable\"\n[ftp.folders]\n\"/to\" = [\"write\", \"rename\"]\n";
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!(line.send("RNFR a"), 350);
    assert!(line.send_and_read("RNTO to/a").contains("no right to make directories"));
    assert_eq!((line.send("RNFR a"), line.send("RNTO b")), (350, 250));
}

#[test]
fn a_unique_name_in_the_root_has_one_slash() {
    let directories = TestDirectories::new();
    let server = Server::configured(&directories, "rights = \"writable\"\n", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!(line.store("STOU", b"new"), 226);
    // After the next command no temporary file of the upload remains.
    line.send("NOOP");
    let record = fs::read_dir(directories.remote_path("")).unwrap().next().unwrap().unwrap();
    assert!(record.file_name().to_str().unwrap().starts_with("file."));
}

#[test]
fn a_configured_user_has_rights_per_directory() {
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("in")).unwrap();
    let hash = directories.run_client_ok(PLUMB, &["serve", "--hash-password"], "secret\n");
    let users = directories.local_path("users.toml");
    let text = format!(
        "[ann]\npassword = \"{}\"\nroot = \"{}\"\nrights = [\"list\"]\n[ann.folders]\n\
         \"/in\" = [\"write\", \"delete\"]\n",
        hash.trim(),
        directories.remote_path("").display()
    );
    fs::write(&users, text).unwrap();
    directories.run_client_ok("chmod", &["600", "users.toml"], "");
    let server =
        Server::configured(&directories, &format!("users = \"{}\"\n", users.display()), &[]);
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    assert_eq!((line.store("STOR in/a", b"a"), line.store("STOR a", b"a")), (226, 550));
    assert_eq!((line.send("DELE in/a"), line.send("MKD in/b")), (250, 550));
    assert!(line.retrieve("LIST").is_ok());
}

#[test]
fn a_reply_names_the_exceeded_limit() {
    let directories = TestDirectories::new();
    let lines = "rights = \"writable\"\nfile-max-bytes = 1000\nquota-bytes = 1500\n";
    fs::write(directories.remote_path("file"), [7; 900]).unwrap();
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let mut stores = |name: &str, len: usize| {
        let mut data = line.passive();
        assert_eq!(line.send(&format!("STOR {name}")), 150);
        _ = data.write_all(&pattern(len));
        drop(data);
        let mut reply = String::new();
        std::io::BufRead::read_line(&mut line.0, &mut reply).unwrap();
        reply
    };
    assert_eq!(stores("large", 1001), "552 File exceeds this server's size limit\r\n");
    assert_eq!(stores("more", 700), "552 Quota exceeded, delete files first\r\n");
    line.send("REST 901");
    assert_eq!(line.send_and_read("RETR file"), "554 REST is beyond the end of the file\r\n");
    line.send("REST 901");
    assert_eq!(line.send_and_read("STOR file"), "554 REST is beyond the end of the file\r\n");
    assert_eq!(line.send_and_read("ALLO 1001"), "504 File exceeds this server's size limit\r\n");
    assert_eq!(line.send_and_read("ALLO 700"), "504 Quota exceeded, delete files first\r\n");
    assert_eq!((line.send("ALLO 600"), line.send("ALLO 600 R 80")), (200, 200));
    line.send("TYPE L 36");
    assert_eq!((line.send("ALLO 133"), line.send("ALLO 134")), (200, 504));
}

// attack row 95
#[test]
fn a_text_file_is_read_for_its_size_only_up_to_a_limit() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("short"), b"a\nb\n").unwrap();
    fs::write(directories.remote_path("long"), vec![b'\n'; (8 << 20) + 1]).unwrap();
    let server = Server::configured(&directories, "", &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!(line.send_and_read("SIZE short"), "213 6\r\n");
    assert_eq!(line.send("SIZE long"), 550);
    line.send("TYPE I");
    assert_eq!(line.send_and_read("SIZE long"), "213 8388609\r\n");
}

#[test]
fn size_is_the_size_of_the_file_in_every_mode() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("short"), b"a line that deflates, a line that deflates\n")
        .unwrap();
    // The file is larger than the largest text that the server reads to compute its size.
    fs::File::create(directories.remote_path("long")).unwrap().set_len(60_000_000).unwrap();
    let server = Server::configured(&directories, "", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    for mode in ["S", "B", "C", "Z"] {
        assert_eq!(line.send(&format!("MODE {mode}")), 200);
        assert_eq!(line.send_and_read("SIZE short"), "213 43\r\n", "MODE {mode}");
        assert_eq!(line.send_and_read("SIZE long"), "213 60000000\r\n", "MODE {mode}");
    }
}

// req RFC1123:4.1.2.7-MUST-1
#[test]
fn every_name_of_nlst_works_with_retr_in_the_same_working_directory() {
    let directories = TestDirectories::new();
    fs::create_dir_all(directories.remote_path("a/b c")).unwrap();
    for name in ["a/one", "a/b c/two", "a/b c/-x"] {
        fs::write(directories.remote_path(name), name).unwrap();
    }
    let server = Server::configured(&directories, "", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    for (command, count) in [("NLST a/b c", 2), ("NLST a/b c/*", 2), ("NLST a/o*", 1)] {
        let names = String::from_utf8(line.retrieve(command).unwrap()).unwrap();
        assert_eq!(names.lines().count(), count, "{command}: {names}");
        for name in names.lines() {
            assert_eq!(line.retrieve(&format!("RETR {name}")).unwrap(), name.as_bytes());
        }
    }
}

const HOSTS: &str = "rights = \"writable\"\n[[ftp.host]]\nname = \"ftp.example.org\"\n\
    aliases = [\"example.org\"]\ngreeting = \"This is org\"\nrights = \"writable\"\nroot = \"ORG\"\n\
    certificate = \"HERE/org.pem\"\nkey = \"HERE/org.key\"\n";

fn with_hosts(directories: &TestDirectories) -> Server {
    let org = directories.local_path("org");
    fs::create_dir(&org).unwrap();
    fs::write(org.join("whose"), b"org").unwrap();
    fs::write(directories.remote_path("whose"), b"ours").unwrap();
    let certificate = rcgen::generate_simple_self_signed(["ftp.example.org".to_owned()]).unwrap();
    fs::write(directories.local_path("org.pem"), certificate.cert.pem()).unwrap();
    fs::write(directories.local_path("org.key"), certificate.signing_key.serialize_pem()).unwrap();
    let local_directory = directories.local_path("").display().to_string();
    let lines = HOSTS.replace("ORG", org.to_str().unwrap()).replace("HERE/", &local_directory);
    // ftplib does not resume TLS sessions.
    let lines = format!("requires-session-reuse = false\n{lines}");
    Server::configured(directories, &lines, &[])
}

#[test]
fn host_selects_the_files_of_a_virtual_host_until_rein() {
    let directories = TestDirectories::new();
    let server = with_hosts(&directories);
    let mut line = ControlConnection::connect(&server);
    let read_owner = |line: &mut ControlConnection| {
        assert_eq!((line.send("USER ftp"), line.send("PASS a@b")), (331, 230));
        line.send("TYPE I");
        line.retrieve("RETR whose").unwrap()
    };
    assert_eq!(line.send_and_read("HOST www.example.org"), "504 Unknown virtual host name\r\n");
    assert_eq!(line.send_and_read("HOST Example.ORG"), "220 This is org\r\n");
    assert_eq!(read_owner(&mut line), b"org");
    assert_eq!(line.send("HOST localhost"), 503);
    assert_eq!(line.send("REIN"), 220);
    assert_eq!(read_owner(&mut line), b"ours");
    assert_eq!((line.send("REIN"), line.send("HOST 127.0.0.1")), (220, 220));
    assert_eq!(read_owner(&mut line), b"ours");
}

#[test]
fn users_of_a_removed_host_do_not_log_in_to_the_servers_own_files() {
    let directories = TestDirectories::new();
    let mut server = with_hosts(&directories);
    let mut line = ControlConnection::connect(&server);
    assert_eq!(line.send("HOST ftp.example.org"), 220);
    fs::write(directories.local_path("serve.toml"), "[ftp]\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.wait_for_log("configuration reloaded");
    assert_eq!((line.send("USER ftp"), line.send("PASS a@b")), (331, 530));
    assert_eq!((line.send("REIN"), line.send("USER ftp"), line.send("PASS a@b")), (220, 331, 230));
}

#[test]
fn users_of_a_host_send_no_mail_to_the_servers_spool() {
    let directories = TestDirectories::new();
    let root = directories.remote_path("").display().to_string();
    let spool = directories.local_path("spool");
    fs::create_dir_all(spool.join("ann")).unwrap();
    let lines = format!(
        "mail-spool = \"{}\"\nmail-from-anonymous = true\n\
         [[ftp.host]]\nname = \"ftp.example.org\"\nroot = \"{root}\"\n",
        spool.display()
    );
    let server = Server::configured(&directories, &lines, &[]);
    let mut line = ControlConnection::connect(&server);
    let logs_in = |line: &mut ControlConnection| (line.send("USER ftp"), line.send("PASS a@b"));
    assert_eq!((line.send("HOST ftp.example.org"), logs_in(&mut line)), (220, (331, 230)));
    assert!(line.send_and_read("MAIL ann").contains("no right to send mail"));
    assert_eq!((line.send("REIN"), logs_in(&mut line)), (220, (331, 230)));
    assert_eq!((line.send("MAIL ann"), line.send("Lunch?\r\n.")), (350, 256));
}

const NAMED: &str = r#"
import ftplib, io, ssl, sys
port, certificate = int(sys.argv[1]), sys.argv[2]

def session(tls_name, before=None, after=None):
    context = ssl.create_default_context(cafile=certificate)
    if tls_name != "ftp.example.org":
        context = ssl._create_unverified_context()
    ftp = ftplib.FTP_TLS(context=context)
    ftp.connect("127.0.0.1", port, 20)
    if before:
        ftp.sendcmd("HOST " + before)
    ftp.host = tls_name or "127.0.0.1"
    ftp.auth()
    if after:
        ftp.sendcmd("HOST " + after)
    ftp.login()
    ftp.prot_p()
    got = io.BytesIO()
    ftp.host = tls_name or "127.0.0.1"
    ftp.retrbinary("RETR whose", got.write)
    ftp.quit()
    return got.getvalue()

def fails(*words, **more):
    try:
        session(*words, **more)
    except (ssl.SSLError, ftplib.error_perm, EOFError, ConnectionError) as error:
        return str(error)
    raise AssertionError(words)

assert session(None) == b"ours"
assert session("ftp.example.org") == b"org"
assert session("ftp.example.org", after="ftp.example.org") == b"org"
assert session("ftp.example.org", before="ftp.example.org") == b"org"
assert session(None, before="ftp.example.org") == b"org"
assert session(None, after="example.org") == b"org"
assert session("elsewhere.example") == b"ours"
assert "504" in fails("ftp.example.org", after="localhost")
fails("localhost", before="ftp.example.org")
fails("ftp.example.org", before="localhost")
fails("ftp.example.org", before="127.0.0.1")
print("all is well")
"#;

#[test]
#[ignore = "needs Python"]
fn host_and_tls_must_agree_in_either_order() {
    let directories = TestDirectories::new();
    let server = with_hosts(&directories);
    let words = ["-c", NAMED, &server.port.to_string(), "org.pem"];
    let messages = directories.run_client_ok("python3", &words, "");
    assert!(messages.contains("all is well"), "{messages}");
}

#[test]
fn anonymous_users_of_other_networks_are_refused_and_three_attempts_end_the_session() {
    let directories = TestDirectories::new();
    let root = directories.remote_path("").display().to_string();
    let users = directories.users_file(&format!("root = \"{root}\""));
    let lines = format!("users = \"{users}\"\nanonymous = true\n");
    let lines = format!("{lines}anonymous-allow = [\"127.0.0.2/32\"]\n");
    let server = Server::configured(&directories, &lines, &[]);
    let mut named = ControlConnection::connect(&server);
    assert_eq!((named.send("USER ann"), named.send("PASS secret")), (331, 230));
    let mut allowed = ControlConnection::from_address([127, 0, 0, 2].into(), &server);
    assert_eq!((allowed.send("USER ftp"), allowed.send("PASS a@b")), (331, 230));
    let mut refused = ControlConnection::connect(&server);
    for _ in 0..3 {
        assert_eq!((refused.send("USER ftp"), refused.send("PASS a@b")), (331, 530));
    }
    let mut last_reply = String::new();
    refused.0.read_to_string(&mut last_reply).unwrap();
    assert_eq!(last_reply, "421 Too many failed logins, closing control connection\r\n");
    drop(refused);
    server.wait_for_log("refused: anonymous users are not allowed from this address");
    server.wait_for_log(" disconnected after 0 s: too many failed logins");
}

#[test]
fn check_warns_of_a_certificate_that_expires_within_30_days() {
    let directories = TestDirectories::new();
    let root = directories.remote_path("").display().to_string();
    let [pem, key] = ["tls.pem", "tls.key"].map(|name| directories.local_path(name));
    let text = format!(
        "[ftp]\nroot = \"{root}\"\n[login]\nexec = [\"cat\"]\n\
         [tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        pem.display(),
        key.display()
    );
    let now = rcgen::date_time_ymd(1970, 1, 1) + UNIX_EPOCH.elapsed().unwrap();
    let day = Duration::from_secs(24 * 3600);
    for (from, until, warning) in [
        (now - 9 * day, now - day, Some(" expired on 20")),
        (now + day, now + 90 * day, Some(" is not valid before 20")),
        (now - day, now + 29 * day + day / 2, Some(", in 29 days")),
        (now - day, now + 31 * day, None),
    ] {
        let mut params = rcgen::CertificateParams::new(["host".to_owned()]).unwrap();
        params.not_before = from;
        params.not_after = until;
        let key_pair = rcgen::KeyPair::generate().unwrap();
        fs::write(&pem, params.self_signed(&key_pair).unwrap().pem()).unwrap();
        fs::write(&key, key_pair.serialize_pem()).unwrap();
        let (is_good, messages) = check(&directories, &text);
        assert!(is_good, "{messages}");
        let name = format!("certificate {} ", pem.display());
        assert_eq!(messages.matches(&name).count(), usize::from(warning.is_some()), "{messages}");
        assert!(messages.contains(warning.unwrap_or_default()), "{messages}");
    }
}

fn check(directories: &TestDirectories, text: &str) -> (bool, String) {
    let configuration = directories.local_path("serve.toml");
    fs::write(&configuration, text).unwrap();
    let words = ["serve", "--check", "--config", configuration.to_str().unwrap()];
    let Output { status, stdout, stderr } = directories.run_client(PLUMB, &words, "");
    let messages = [stdout, stderr].concat();
    (status.success(), String::from_utf8(messages).unwrap())
}

#[test]
fn a_configuration_is_checked_without_serving() {
    let directories = TestDirectories::new();
    let root = directories.remote_path("").display().to_string();
    let good = format!("[ftp]\nroot = \"{root}\"\n[tftp]\nroot = \"{root}\"\n");
    let (is_good, messages) = check(&directories, &good);
    assert!(is_good && messages.contains("configuration OK"), "{messages}");
    let (is_good, messages) = check(&directories, &format!("{good}[ftp.folders]\n\"/in\" = []\n"));
    assert!(is_good && messages.contains("'/in', which is not a directory"), "{messages}");
    for (text, why) in [
        (format!("[ftp]\nrot = \"{root}\"\n"), "did you mean 'root'?"),
        (
            "[ftp]\nroot = \"/no/such/folder\"\n".to_owned(),
            "cannot open root directory /no/such/folder",
        ),
        (
            "[tftp]\nroot = \"/no/such/folder\"\n".to_owned(),
            "cannot open root directory /no/such/folder",
        ),
        (
            format!("{good}[tls]\ncertificate = \"/no.pem\"\nkey = \"/no.key\"\n"),
            "cannot read certificate /no.pem",
        ),
        (format!("[ftp]\nroot = \"{root}\"\nrights = \"all\"\n"), "unknown rights 'all'"),
        ("[ftp]\nusers = \"/no/users\"\n".to_owned(), "cannot read user file /no/users"),
    ] {
        let (is_good, messages) = check(&directories, &text);
        assert!(!is_good && messages.contains(why), "{text}{messages}");
    }
    assert!(!directories.0.join("state").exists());
}

#[test]
fn reloading_an_invalid_file_changes_nothing_and_logs_the_error() {
    let directories = TestDirectories::new();
    let mut server = Server::configured(&directories, "rights = \"writable\"\n", &[]);
    let configuration = directories.local_path("serve.toml");
    let mut line = ControlConnection::logged_in(&server);
    fs::write(&configuration, "[ftp]\nrigths = \"read-only\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    let messages = server.wait_for_log("configuration not reloaded");
    assert!(messages.contains("invalid configuration file"), "{messages}");
    server.wait_for_log("did you mean 'rights'?");
    fs::write(&configuration, "[ftp]\nmail-spool = \"/no/such/folder\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.wait_for_log("cannot open mail spool /no/such/folder");
    assert_eq!(
        (line.send("MKD a"), ControlConnection::logged_in(&server).send("MKD b")),
        (257, 257)
    );
}
