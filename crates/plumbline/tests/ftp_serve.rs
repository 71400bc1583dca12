//! Tests of the FTP server of `plumb serve` with Debian's clients: curl, lftp, ncftp, tnftp,
//! inetutils-ftp and Python's ftplib.
//!
//! Each test has its own server at a random port of 127.0.0.1 or ::1, and its own directory with
//! `there` for the server's files and `here` for the client's.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[path = "ftp_serve/aborted_transfers.rs"]
mod aborted_transfers;
#[path = "ftp_serve/administration.rs"]
mod administration;
#[path = "ftp_serve/data_tls.rs"]
mod data_tls;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod ftp_harness;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;
#[path = "ftp_serve/system_users.rs"]
mod system_users;
#[path = "ftp_serve/uploads.rs"]
mod uploads;
#[path = "ftp_serve/userspace_host.rs"]
mod userspace_host;

use ftp_harness::{ControlConnection, Server, TestDirectories, pattern};
use os::process::Program;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

fn transfer_with_curl(ip: &str, words: &[&str], server_words: &[&str]) {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, ip, server_words);
    let data = pattern(3_000_000);
    fs::write(directories.local_path("up"), &data).unwrap();
    fs::create_dir(directories.remote_path("folder")).unwrap();
    let curl = |more: &[&str]| {
        let words = [&["-sS", "--max-time", "60"], words, more].concat();
        directories.run_client_ok("curl", &words, "")
    };
    curl(&["-T", "up", &server.url(ip, "folder/file")]);
    assert!(fs::read(directories.remote_path("folder/file")).unwrap() == data);
    curl(&["-o", "down", &server.url(ip, "folder/file")]);
    assert!(fs::read(directories.local_path("down")).unwrap() == data);
    fs::write(directories.local_path("down"), &data[..1_000_001]).unwrap();
    curl(&["-C", "-", "-o", "down", &server.url(ip, "folder/file")]);
    assert!(fs::read(directories.local_path("down")).unwrap() == data);
    assert!(curl(&[&server.url(ip, "folder/")]).contains("3000000"));
    let url = server.url(ip, "");
    curl(&["-Q", "RNFR folder/file", "-Q", "RNTO other", "-Q", "RMD folder", &url]);
    assert!(
        directories.remote_path("other").exists() && !directories.remote_path("folder").exists()
    );
    curl(&["-Q", "DELE other", &url]);
    assert_eq!(fs::read_dir(directories.remote_path("")).unwrap().count(), 0);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_in_plaintext_over_ipv4() {
    transfer_with_curl("127.0.0.1", &[], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_in_plaintext_over_ipv6() {
    transfer_with_curl("[::1]", &[], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_in_active_mode() {
    transfer_with_curl("127.0.0.1", &["-P", "-"], &[]);
    transfer_with_curl("[::1]", &["-P", "-"], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_if_tls_is_required() {
    transfer_with_curl("127.0.0.1", &["--ssl-reqd", "-k"], &["--ftp-tls", "required"]);
}

#[test]
#[ignore = "needs curl"]
fn anonymous_users_need_no_tls_if_it_is_required_of_other_users_only() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"public").unwrap();
    let root = format!("root = \"{}\"", directories.remote_path("").display());
    let lines = |key: &str| {
        let users = directories.users_file(&root);
        format!("tls = \"required\"\nanonymous = true\nusers = \"{users}\"\n{key}")
    };
    let server = Server::configured(&directories, &lines("anonymous-in-cleartext = true\n"), &[]);
    let url = server.url("127.0.0.1", "file");
    let curl = |words: &[&str], url: &str| {
        let words = [&["-sS", "--max-time", "30"], words, &[url]].concat();
        directories.run_client("curl", &words, "")
    };
    for words in [&[][..], &["--ssl-reqd", "-k"], &["-u", "ann:secret", "--ssl-reqd", "-k"]] {
        let output = curl(words, &url);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "public", "{words:?}: {output:?}");
    }
    // 67: the login was denied.
    assert_eq!(curl(&["-u", "ann:secret"], &url).status.code(), Some(67));
    let line = server.wait_for_log("TLS is required");
    assert!(line.contains("refused: it sent USER without AUTH TLS"), "{line}");
    let mut raw = ControlConnection::connect(&server);
    assert_eq!([raw.send("USER ftp"), raw.send("PASS x")], [331, 230]);
    assert_eq!(raw.retrieve("RETR file").unwrap(), b"public");
    assert_eq!(raw.send("USER ann"), 530);
    drop(server);
    // By default, anonymous users need TLS, too.
    let server = Server::configured(&directories, &lines(""), &[]);
    assert_eq!(curl(&[], &server.url("127.0.0.1", "file")).status.code(), Some(67));
    server.wait_for_log("refused: it sent USER without AUTH TLS, and TLS is required");
}

// attack row 97
#[test]
#[ignore = "needs curl"]
fn a_data_connection_that_does_not_resume_the_tls_session_is_refused() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"secret").unwrap();
    let server = Server::configured(&directories, "", &[]);
    let url = server.url("127.0.0.1", "file");
    let words = ["-sS", "--max-time", "30", "--ssl-reqd", "-k", &url];
    assert_eq!(directories.run_client_ok("curl", &words, ""), "secret");
    let words = [&words[..], &["--no-sessionid"]].concat();
    assert!(!directories.run_client("curl", &words, "").status.success());
    server.wait_for_log("did not resume the TLS session");
}

#[test]
#[ignore = "needs lftp"]
fn lftp_works_in_tls_and_mirrors() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &["--ftp-tls", "required"]);
    fs::create_dir_all(directories.local_path("tree/deep")).unwrap();
    fs::write(directories.local_path("tree/a"), pattern(100_000)).unwrap();
    fs::write(directories.local_path("tree/deep/b"), pattern(10)).unwrap();
    let script = format!(
        "set ssl:verify-certificate no; set ftp:ssl-allow-anonymous yes; set net:max-retries 1; set cmd:fail-exit yes; \
         open ftp://127.0.0.1:{}; mirror -R tree far; mirror far back; ls far; \
         mv far/a far/c; rm far/c; quit",
        server.port
    );
    directories.run_client_ok("lftp", &["-c", &script], "");
    assert!(fs::read(directories.local_path("back/a")).unwrap() == pattern(100_000));
    assert!(fs::read(directories.local_path("back/deep/b")).unwrap() == pattern(10));
    assert!(
        !directories.remote_path("far/a").exists() && !directories.remote_path("far/c").exists()
    );
}

#[test]
#[ignore = "needs ncftp"]
fn ncftp_uploads_lists_and_downloads() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    fs::write(directories.local_path("file"), pattern(70_000)).unwrap();
    let port = server.port.to_string();
    directories.run_client_ok("ncftpput", &["-P", &port, "127.0.0.1", "/", "file"], "");
    assert!(fs::read(directories.remote_path("file")).unwrap() == pattern(70_000));
    assert!(
        directories
            .run_client_ok("ncftpls", &["-P", &port, "ftp://127.0.0.1/"], "")
            .contains("file")
    );
    fs::remove_file(directories.local_path("file")).unwrap();
    directories.run_client_ok("ncftpget", &["-P", &port, "127.0.0.1", ".", "/file"], "");
    assert!(fs::read(directories.local_path("file")).unwrap() == pattern(70_000));
}

fn transfer_with_classic_client(program: &str, words: &[&str]) {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    fs::write(directories.local_path("file"), pattern(70_000)).unwrap();
    let typed = format!(
        "open 127.0.0.1 {}\nuser ftp a@b\nbinary\nput file first\nrename first second\n\
         get second back\nls\nput file third\ndelete third\nquit\n",
        server.port
    );
    let messages = directories.run_client_ok(program, words, &typed);
    assert!(fs::read(directories.local_path("back")).unwrap() == pattern(70_000), "{messages}");
    assert!(
        directories.remote_path("second").exists() && !directories.remote_path("third").exists(),
        "{messages}"
    );
}

#[test]
#[ignore = "needs tnftp"]
fn tnftp_works_in_passive_and_active_mode() {
    transfer_with_classic_client("tnftp", &["-n", "-v"]);
    transfer_with_classic_client("tnftp", &["-n", "-v", "-A"]);
}

#[test]
#[ignore = "needs inetutils-ftp"]
fn inetutils_works_in_passive_and_active_mode() {
    transfer_with_classic_client("inetutils-ftp", &["-n", "-v", "-p"]);
    transfer_with_classic_client("inetutils-ftp", &["-n", "-v", "-A"]);
}

const FTPLIB: &str = r#"
import ftplib, io, ssl, sys
port = int(sys.argv[1])
context = ssl._create_unverified_context()
data = bytes(range(256)) * 4000
class Resuming(ftplib.FTP_TLS):
    # The data connection resumes the TLS session of the control connection.
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self._prot_p:
            session = self.sock.session
            conn = self.context.wrap_socket(conn, server_hostname=self.host, session=session)
        return conn, size
kinds = {"clear": ftplib.FTP, "tls": ftplib.FTP_TLS, "resuming": Resuming}
if sys.argv[2] == "refused":
    ftp = ftplib.FTP_TLS(context=context)
    ftp.connect("127.0.0.1", port, 20)
    ftp.login()
    ftp.prot_p()
    try:
        ftp.retrbinary("RETR here", print)
        ftp.voidcmd("NOOP")
    except ftplib.Error as error:
        print("refused:", error)
    except OSError:
        # The handshake on the data connection failed before the reply came.
        print("refused:", ftp.getline())
    sys.exit()
for kind in [lambda: kinds[sys.argv[2]](**({} if sys.argv[2] == "clear" else {"context": context}))]:
    for host in ("127.0.0.1",):
        for passive in (True, False):
            ftp = kind()
            ftp.connect(host, port, 20)
            ftp.login()
            if isinstance(ftp, ftplib.FTP_TLS):
                ftp.prot_p()
            ftp.set_pasv(passive)
            ftp.mkd("d")
            ftp.cwd("d")
            ftp.storbinary("STOR f", io.BytesIO(data))
            assert ftp.size("f") == len(data)
            got = []
            ftp.retrbinary("RETR f", got.append, rest=1000)
            assert b"".join(got) == data[1000:]
            ftp.storbinary("APPE f", io.BytesIO(b"tail"))
            assert ftp.size("f") == len(data) + 4
            ftp.storlines("STOR t", io.BytesIO(b"one\ntwo\n"))
            lines = []
            ftp.retrlines("RETR t", lines.append)
            assert lines == ["one", "two"], lines
            facts = dict(ftp.mlsd())
            assert facts["f"]["size"] == str(len(data) + 4) and facts["t"]["type"] == "file"
            assert sorted(ftp.nlst()) == ["f", "t"]
            ftp.rename("t", "u")
            ftp.delete("u")
            ftp.delete("f")
            ftp.cwd("..")
            ftp.rmd("d")
            ftp.quit()
print("all is well")
"#;

#[test]
#[ignore = "needs Python"]
fn ftplib_works_in_plaintext_and_tls_in_passive_and_active_mode() {
    let directories = TestDirectories::new();
    let strict_server = Server::writable(&directories, "127.0.0.1", &[]);
    let lines = "rights = \"writable\"\nrequires-session-reuse = false\n";
    let lenient_server = Server::configured(&directories, lines, &[]);
    for (server, how) in
        [(&strict_server, "clear"), (&lenient_server, "tls"), (&strict_server, "resuming")]
    {
        let messages = directories.run_client_ok(
            "python3",
            &["-c", FTPLIB, &server.port.to_string(), how],
            "",
        );
        assert!(messages.contains("all is well"), "{how}: {messages}");
    }
}

#[test]
#[ignore = "needs Python"]
fn ftplib_without_tls_resumption_gets_a_reply_that_names_the_option() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("here"), b"secret").unwrap();
    let server = Server::configured(&directories, "", &[]);
    let messages = directories.run_client_ok(
        "python3",
        &["-c", FTPLIB, &server.port.to_string(), "refused"],
        "",
    );
    assert!(
        messages.contains("requires-session-reuse") && !messages.contains("secret"),
        "{messages}"
    );
}

#[test]
fn a_configured_user_gets_its_own_root_and_rights_and_others_are_refused() {
    let directories = TestDirectories::new();
    fs::create_dir(directories.remote_path("ann")).unwrap();
    let root = directories.remote_path("ann");
    let rest = format!("root = \"{}\"\nrights = \"write-once\"\nquota-bytes = 10", root.display());
    let users = directories.users_file(&rest);
    let words = ["--ftp-listen", "127.0.0.1:0", "--ftp-users", &users];
    let server = Server::start(&directories, &words);
    let mut line = ControlConnection::connect(&server);
    assert_eq!((line.send("USER ann"), line.send("PASS Secret")), (331, 530));
    assert_eq!((line.send("USER ann"), line.send("PASS secret")), (331, 230));
    for (bytes, code) in [(&b"12345"[..], 226), (b"123456", 552), (b"1234", 226)] {
        let mut data = line.passive();
        assert_eq!(line.send(&format!("STOR f{}", bytes.len())), 150);
        data.write_all(bytes).unwrap();
        drop(data);
        assert_eq!(line.read_reply(), code);
    }
    // The accepted files remain. The rejected file leaves no part behind.
    _ = line.passive();
    assert_eq!(fs::read_dir(root).unwrap().count(), 2);
    assert_eq!(line.send("STOR f5"), 550);
    assert_eq!(
        (line.send("DELE f5"), line.send("CWD ../../.."), line.send("SIZE f4")),
        (550, 250, 213)
    );
}

// attack row 99
#[test]
fn an_interrupted_upload_keeps_the_old_file() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"old").unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    let mut data = line.passive();
    assert_eq!(line.send("STOR file"), 150);
    data.write_all(b"new").unwrap();
    rustix::net::sockopt::set_socket_linger(&data, Some(std::time::Duration::ZERO)).unwrap();
    drop(data);
    assert_eq!(line.read_reply(), 426);
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"old");
}

// attack row 80
#[test]
fn a_symlink_out_of_the_root_is_not_followed() {
    let directories = TestDirectories::new();
    fs::write(directories.local_path("outside"), b"secret").unwrap();
    std::os::unix::fs::symlink(directories.local_path("outside"), directories.remote_path("link"))
        .unwrap();
    std::os::unix::fs::symlink(directories.local_path(""), directories.remote_path("folder"))
        .unwrap();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    for command in ["SIZE link", "CWD folder", "MDTM folder/outside", "DELE folder/outside"] {
        assert_eq!(line.send(command), 550, "{command}");
    }
    assert!(directories.local_path("outside").exists());
}

#[test]
fn a_read_only_user_writes_nothing() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"here").unwrap();
    let server = Server::start(&directories, &["--read-only", "--ftp-listen", "127.0.0.1:0"]);
    let mut line = ControlConnection::logged_in(&server);
    for command in ["STOR x", "APPE file", "DELE file", "MKD d", "RNFR file", "SITE CHMOD 777 file"]
    {
        assert_eq!(line.send(command), 550, "{command}");
    }
    let mut data = line.passive();
    assert_eq!(line.send("RETR file"), 150);
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.as_slice(), line.read_reply()), (&b"here"[..], 226));
}

#[test]
fn sighup_reloads_the_configuration_without_ending_a_session() {
    let directories = TestDirectories::new();
    let configuration: &Path = &directories.local_path("serve.toml");
    fs::write(configuration, "[ftp]\nrights = \"read-only\"\n").unwrap();
    let words = ["--config", configuration.to_str().unwrap(), "--ftp-listen", "127.0.0.1:0"];
    let mut server = Server::start(&directories, &words);
    let mut old_session = ControlConnection::logged_in(&server);
    fs::write(configuration, "[ftp]\nrights = \"writable\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.wait_for_log("configuration reloaded");
    assert_eq!(
        (old_session.send("MKD a"), ControlConnection::logged_in(&server).send("MKD a")),
        (550, 257)
    );
    fs::write(configuration, "[ftp]\nrights = \"whatever\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.wait_for_log("configuration not reloaded");
    assert_eq!(ControlConnection::logged_in(&server).send("MKD b"), 257);
}

#[test]
fn shutdown_lets_a_transfer_finish_and_closes_the_other_sessions() {
    let directories = TestDirectories::new();
    let mut server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut transferring = ControlConnection::logged_in(&server);
    let mut idle = ControlConnection::logged_in(&server);
    let mut data = transferring.passive();
    assert_eq!(transferring.send("STOR file"), 150);
    server.program.signal(Signal::TERM).unwrap();
    assert_eq!(idle.read_reply(), 421);
    data.write_all(b"whole").unwrap();
    drop(data);
    assert_eq!((transferring.read_reply(), transferring.read_reply()), (226, 421));
    assert_eq!(fs::read(directories.remote_path("file")).unwrap(), b"whole");
}

/// Commands in a valid order, each with the code of its reply.
const EVERY_COMMAND: &[(&str, u16)] = &[
    ("NOOP", 200),
    ("SYST", 215),
    ("HELP", 214),
    ("HELP STOU", 214),
    ("FEAT", 211),
    ("STAT", 211),
    ("STAT file", 213),
    ("STAT .", 212),
    ("PWD", 257),
    ("XPWD", 257),
    ("MKD folder", 257),
    ("CWD folder", 250),
    ("CDUP", 250),
    ("XCWD folder", 250),
    ("XCUP", 250),
    ("RMD folder", 250),
    ("XMKD folder", 257),
    ("XRMD folder", 250),
    ("RNFR file", 350),
    ("RNTO other", 250),
    ("RNTO file", 503),
    ("RNFR other", 350),
    ("RNTO file", 250),
    ("SIZE file", 213),
    ("MDTM file", 213),
    ("MLST file", 250),
    ("MFMT 20200101000000 file", 213),
    ("MFF Modify=20200102000000;UNIX.mode=600; file", 213),
    ("MFCT 20200101000000 file", 500),
    ("SITE HELP", 214),
    ("SITE PARTIAL file", 550),
    ("SITE CHMOD 644 file", 200),
    ("SITE UTIME 20200101000000 file", 200),
    ("SITE UTIME file 20200101000000 20200101000000 20200101000000 UTC", 200),
    ("SITE EXEC ls", 504),
    ("HASH file", 213),
    ("OPTS HASH CRC32", 200),
    ("HASH file", 213),
    ("XCRC file", 250),
    ("XCRC \"file\" 1 2", 250),
    ("XMD5 file", 250),
    ("MD5 file", 250),
    ("XSHA file", 250),
    ("XSHA1 file", 250),
    ("XSHA256 file", 250),
    ("XSHA512 file", 250),
    ("COMB joined file file", 250),
    ("DELE joined", 250),
    ("AVBL", 213),
    ("CSID Name=test; Version=1;", 200),
    ("CLNT test", 200),
    ("LANG", 200),
    ("LANG EN", 200),
    ("LANG fr", 504),
    ("OPTS UTF8 ON", 200),
    ("OPTS MLST size;modify;", 200),
    ("OPTS MODE Z LEVEL 6", 200),
    ("ALLO 100", 200),
    ("ALLO 100 R 80", 200),
    ("ACCT none", 202),
    ("SMNT x", 502),
    ("TYPE A", 200),
    ("TYPE A N", 200),
    ("TYPE A T", 200),
    ("TYPE A C", 200),
    ("TYPE E", 200),
    ("TYPE L 8", 200),
    ("TYPE L 36", 200),
    ("TYPE L 1", 200),
    ("TYPE L 64", 200),
    ("TYPE L 65", 504),
    ("TYPE I", 200),
    ("STRU R", 200),
    ("STRU P", 200),
    ("STRU F", 200),
    ("MODE B", 200),
    ("MODE C", 200),
    ("MODE Z", 200),
    ("MODE S", 200),
    ("REST 1", 350),
    ("REST 0", 350),
    ("PORT 127,0,0,1,200,1", 200),
    ("PORT 127,0,0,1,0,21", 504),
    ("PORT 10,0,0,1,200,1", 504),
    ("EPRT |1|127.0.0.1|50000|", 200),
    ("EPRT |2|::1|50000|", 504),
    ("LPRT 4,4,127,0,0,1,2,200,1", 200),
    ("PASV", 227),
    ("EPSV", 229),
    ("EPSV 1", 229),
    ("EPSV 2", 522),
    ("LPSV", 228),
    ("ABOR", 225),
    ("HOST late.example", 503),
    ("PBSZ 0", 503),
    ("PROT P", 503),
    ("CCC", 533),
    ("ADAT x", 502),
    ("MIC x", 502),
    ("CONF x", 502),
    ("ENC x", 502),
    ("AUTH KERBEROS_V4", 504),
    ("MAIL nobody", 550),
    ("ALLO 9000000000000000000", 504),
    ("EPSV ALL", 200),
    ("PASV", 503),
    ("EPSV", 229),
    ("USER other", 331),
    ("PWD", 530),
    ("REIN", 220),
    ("HOST early.example", 504),
    ("HOST early.example:21", 501),
    ("HOST [127.0.0.1", 501),
    ("HOST 127.0.0.1", 220),
    ("HOST localhost", 220),
    ("QUIT", 221),
];

#[test]
fn every_command_has_its_reply_over_a_real_connection() {
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), b"here").unwrap();
    let spool = directories.local_path("spool");
    fs::create_dir(&spool).unwrap();
    let lines = format!(
        "rights = \"writable\"\nmail-spool = \"{}\"\nmail-from-anonymous = true\n",
        spool.display()
    );
    let server = Server::configured(&directories, &lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    for (command, code) in EVERY_COMMAND {
        assert_eq!(line.send(command), *code, "{command}");
    }
}

#[test]
fn every_data_transfer_command_transfers_data() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    assert_eq!(line.store("STOR a", b"hello"), 226);
    assert_eq!(line.store("APPE a", b", world"), 226);
    assert_eq!(line.retrieve("RETR a").unwrap(), b"hello, world");
    assert_eq!((line.send("REST 7"), line.retrieve("RETR a").unwrap()), (350, b"world".to_vec()));
    assert_eq!((line.send("REST 5"), line.store("STOR a", b"!")), (350, 226));
    assert_eq!(line.retrieve("RETR a").unwrap(), b"hello!");
    assert_eq!(line.store("STOU", b"unique"), 226);
    assert_eq!(line.store("STOU a", b"unique"), 226);
    assert_eq!(line.retrieve("NLST").unwrap().split(|b| *b == b'\n').count(), 4);
    for command in ["LIST", "LIST -la", "MLSD", "NLST a*"] {
        assert!(!line.retrieve(command).unwrap().is_empty(), "{command}");
    }
    assert_eq!(line.retrieve("RETR nothing"), Err(550));
}

#[test]
fn stat_reports_the_progress_of_a_transfer() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let mut data = line.passive();
    assert_eq!(line.send("STOR file"), 150);
    data.write_all(&[7; 4000]).unwrap();
    // Bytes of the upload may still be in transit.
    login_harness::poll_until_timeout(|| {
        line.send_and_read("STAT")
            .contains("Transfer of /file: 4000 bytes received so far")
            .then_some(())
    });
    drop(data);
    assert_eq!(line.read_reply(), 226);
    assert!(!line.send_and_read("STAT").contains("so far"));
}

#[test]
fn mail_is_delivered_to_the_spool_only_for_users_with_a_mailbox() {
    let directories = TestDirectories::new();
    let spool = directories.local_path("spool");
    fs::create_dir_all(spool.join("ann")).unwrap();
    fs::create_dir_all(spool.join("postmaster")).unwrap();
    let spool_path = spool.display().to_string();
    let lines = format!(
        "mail-spool = \"{spool_path}\"\nmail-from-anonymous = true\nmail-max-bytes = 9000\n"
    );
    let server = Server::configured(&directories, &lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!((line.send("MAIL ann"), line.send("Lunch?\r\n..\r\n.")), (350, 256));
    assert_eq!(line.store("MLFL ann", b"line one\r\nline two\r\n"), 256);
    assert_eq!((line.send("MAIL"), line.send("To whom it may concern\r\n.")), (350, 256));
    assert_eq!(line.send("MAIL bob"), 550);
    assert_eq!(line.store("MLFL ../ann", b"x"), 550);
    assert_eq!(line.store("MLFL ann", &[b'x'; 10_000]), 552);
    let read = |name: &str| -> Vec<String> {
        let entries = fs::read_dir(spool.join(name).join("new")).unwrap();
        entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
    };
    let messages = read("ann");
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().any(|message| message.ends_with("\n\nLunch?\n..\n")), "{messages:?}");
    assert!(messages.iter().any(|message| message.ends_with("\n\nline one\nline two\n")));
    assert_eq!(read("postmaster").len(), 1);
}

#[test]
fn mail_is_refused_by_default() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!((line.send("MAIL ann"), line.send("MLFL ann")), (550, 550));
}

#[test]
fn words_of_36_bits_are_stored_in_the_format_of_the_directory() {
    let directories = TestDirectories::new();
    for directory in ["its", "plain"] {
        fs::create_dir(directories.remote_path(directory)).unwrap();
    }
    let lines = "rights = \"writable\"\n[ftp.word-formats]\n\"/its\" = \"c36\"\n";
    let server = Server::configured(&directories, lines, &[]);
    let mut line = ControlConnection::logged_in(&server);
    assert_eq!(line.send("TYPE L 36"), 200);
    let two_words = [0x12, 0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE, 0xF0, 0x12];
    assert_eq!(line.store("STOR plain/words", &two_words), 226);
    assert_eq!(line.store("STOR its/words", &two_words), 226);
    assert_eq!(fs::read(directories.remote_path("plain/words")).unwrap(), two_words);
    let core_dump = [0x12, 0x34, 0x56, 0x78, 0x09, 0xAB, 0xCD, 0xEF, 0x01, 0x02];
    assert_eq!(fs::read(directories.remote_path("its/words")).unwrap(), core_dump);
    assert_eq!(line.retrieve("RETR its/words").unwrap(), two_words);
    assert_eq!(line.send_and_read("SIZE its/words"), "213 9\r\n");
}

const CCC: &str = r#"
import ftplib, io, ssl, sys
context = ssl._create_unverified_context()
ftp = ftplib.FTP_TLS(context=context)
ftp.connect("127.0.0.1", int(sys.argv[1]), 20)
ftp.login()
ftp.prot_p()
ftp.ccc()
assert ftp.sock.cipher() is None
assert ftp.pwd() == "/"
ftp.storbinary("STOR f", io.BytesIO(b"still in TLS"))
assert ftp.size("f") == 12
assert ftp.voidcmd("NOOP").startswith("200")
ftp.quit()
print("all is well")
"#;

#[test]
#[ignore = "needs Python"]
fn ftplib_ends_tls_on_the_control_connection_and_keeps_it_for_data() {
    let directories = TestDirectories::new();
    // ftplib does not resume TLS sessions.
    let lines = "rights = \"writable\"\nclear-control = true\nrequires-session-reuse = false\n";
    let server = Server::configured(&directories, lines, &[]);
    let messages = directories.run_client_ok("python3", &["-c", CCC, &server.port.to_string()], "");
    assert!(messages.contains("all is well"), "{messages}");
    assert_eq!(fs::read(directories.remote_path("f")).unwrap(), b"still in TLS");
}

#[test]
#[ignore = "needs curl"]
fn curl_ends_tls_on_the_control_connection_whichever_side_closes_first() {
    for mode in ["passive", "active"] {
        let directories = TestDirectories::new();
        // After CCC, curl does not resume the TLS session that has ended.
        let lines = "rights = \"writable\"\nclear-control = true\nrequires-session-reuse = false\n";
        let server = Server::configured(&directories, lines, &[]);
        fs::write(directories.local_path("up"), pattern(100_000)).unwrap();
        let url = server.url("127.0.0.1", "file");
        let words = ["-sS", "-v", "--max-time", "30", "--ssl-reqd", "-k", "-T", "up"];
        let ccc = ["--ftp-ssl-ccc", "--ftp-ssl-ccc-mode", mode, &url];
        let messages = directories.run_client_ok("curl", &[&words[..], &ccc].concat(), "");
        assert!(messages.contains("CCC"), "{mode}: {messages}");
        assert!(fs::read(directories.remote_path("file")).unwrap() == pattern(100_000), "{mode}");
    }
}

/// Maximum number of the server's system calls for the transfer of one small file: for two commands
/// and their replies, the data connection, the file and its record. Calls that only a test build
/// makes are included.
const CALLS_MAX: usize = 30;

#[test]
#[ignore = "needs strace"]
fn a_small_file_costs_few_system_calls() {
    const FILES: usize = 100;
    let directories = TestDirectories::new();
    fs::write(directories.remote_path("file"), pattern(4096)).unwrap();
    let words = ["--read-only", "--ftp-tls", "off", "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start(&directories, &words);
    let mut line = ControlConnection::logged_in(&server);
    line.send("TYPE I");
    let counts = directories.local_path("counts");
    let mut command = test_support::peers::STRACE.command();
    command.args(["-f", "-c", "-o", counts.to_str().unwrap(), "-p"]);
    command.arg(server.program.id().to_string()).stderr(Stdio::piped());
    let mut strace = Program::start(&mut command).unwrap();
    let mut messages = BufReader::new(strace.child().stderr.take().unwrap()).lines();
    assert!(messages.any(|line| line.unwrap().contains("attached")));
    for _ in 0..FILES {
        assert_eq!(line.retrieve("RETR file").unwrap().len(), 4096);
    }
    strace.signal(Signal::INT).unwrap();
    login_harness::poll_until_timeout(|| strace.exit_status().unwrap());
    let counts = fs::read_to_string(counts).unwrap();
    let total = counts.lines().find(|line| line.ends_with("total")).unwrap();
    let total: usize = total.split_whitespace().nth(3).unwrap().parse().unwrap();
    eprintln!("{} calls a file\n{counts}", total / FILES);
    assert!(total <= CALLS_MAX * FILES, "{counts}");
}

#[test]
fn a_listing_reports_the_number_of_omitted_names() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    for name in ["a\nb", "c\rd", "plain", "bell\x07"] {
        fs::write(directories.remote_path(name), "").unwrap();
    }
    let mut line = ControlConnection::logged_in(&server);
    let mut lists = |command: &str| {
        let mut data = line.passive();
        assert_eq!(line.send(command), 150);
        let mut listing = Vec::new();
        data.read_to_end(&mut listing).unwrap();
        let mut reply = String::new();
        line.0.read_line(&mut reply).unwrap();
        (listing.iter().filter(|byte| **byte == b'\n').count(), reply)
    };
    let left_out = "226 Transfer complete; 2 names omitted: they contain line ends\r\n";
    assert_eq!(lists("MLSD"), (2, left_out.to_owned()));
    assert_eq!(lists("NLST"), (2, left_out.to_owned()));
    let expected = "226 Transfer complete; 3 names shown with ? for control characters\r\n";
    assert_eq!(lists("LIST"), (4, expected.to_owned()));
    assert_eq!(lists("NLST p*"), (1, "226 Transfer complete\r\n".to_owned()));
    server.wait_for_log("listing of '/': 2 names with line ends");
}
