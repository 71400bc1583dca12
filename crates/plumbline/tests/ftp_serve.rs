//! The FTP server of `plumb serve` with the users of Debian: curl, lftp, ncftp, tnftp, inetutils-ftp
//! and Python's ftplib.
//!
//! Each test has a server of its own at a port of chance of 127.0.0.1 or ::1, and a folder of its own
//! with `there` for the server's files and `here` for the user's.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;

use login_desk::within_the_limit;
use os::process::Program;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The folders of a test.
struct Desk(PathBuf);

impl Desk {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = format!("plumb-ftp-serve-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(path);
        for folder in ["there", "here"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        Self(path)
    }

    fn there(&self, name: &str) -> PathBuf {
        self.0.join("there").join(name)
    }

    fn here(&self, name: &str) -> PathBuf {
        self.0.join("here").join(name)
    }

    /// Runs a user program here, which must succeed, and returns what it said.
    fn runs(&self, program: &str, words: &[&str], typed: &str) -> String {
        let output = self.tries(program, words, typed);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{program} {words:?}: {said}");
        said
    }

    fn tries(&self, program: &str, words: &[&str], typed: &str) -> Output {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.here("")).env("HOME", self.here(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Bytes with every value and every kind of line end.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

struct Server {
    program: Program,
    said: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Server {
    /// Starts a server whose anonymous users may write, at an address of this machine.
    fn writable(desk: &Desk, ip: &str, words: &[&str]) -> Self {
        let place = format!("{ip}:0");
        let words = [&["--writable", "--ftp-listen", &place], words].concat();
        Self::start(desk, &words)
    }

    fn start(desk: &Desk, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--ftp", "--root"]).arg(desk.there("")).args(words);
        command.env("XDG_STATE_HOME", desk.0.join("state"));
        let mut program = Program::start(command.stderr(Stdio::piped())).unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(program.child().stderr.take().unwrap()).lines();
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line));
        });
        let mut server = Self { program, said, port: 0 };
        let line = server.says("serving FTP at ");
        let place = line.split("serving FTP at ").nth(1).unwrap().split(", ").next().unwrap();
        server.port = place.rsplit(':').next().unwrap().parse().unwrap();
        server
    }

    /// Waits until the server has said a line with `text` in it, and returns it.
    fn says(&self, text: &str) -> String {
        within_the_limit(|| {
            self.said.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
        })
    }

    fn url(&self, ip: &str, name: &str) -> String {
        format!("ftp://{ip}:{}/{name}", self.port)
    }
}

/// A control connection without a program.
struct Line(BufReader<TcpStream>);

impl Line {
    fn to(server: &Server) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut line = Self(BufReader::new(stream));
        assert_eq!(line.hears(), 220);
        line
    }

    fn logged_in(server: &Server) -> Self {
        let mut line = Self::to(server);
        assert_eq!((line.says("USER ftp"), line.says("PASS a@b")), (331, 230));
        line
    }

    /// Says a command and returns the code of the reply.
    fn says(&mut self, command: &str) -> u16 {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        self.hears()
    }

    fn hears(&mut self) -> u16 {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.get(3..4) == Some(" ") {
                return line.get(..3).unwrap().parse().unwrap();
            }
            assert!(!line.is_empty(), "the connection has ended");
        }
    }

    /// Asks for a data connection and makes it.
    fn passive(&mut self) -> TcpStream {
        self.0.get_mut().write_all(b"EPSV\r\n").unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let port = line.split('|').nth(3).unwrap().parse::<u16>().unwrap();
        TcpStream::connect(("127.0.0.1", port)).unwrap()
    }
}

fn curl_works(ip: &str, words: &[&str], server_words: &[&str]) {
    let desk = Desk::new();
    let server = Server::writable(&desk, ip, server_words);
    let data = pattern(3_000_000);
    fs::write(desk.here("up"), &data).unwrap();
    fs::create_dir(desk.there("folder")).unwrap();
    let curl = |more: &[&str]| {
        let words = [&["-sS", "--max-time", "60"], words, more].concat();
        desk.runs("curl", &words, "")
    };
    curl(&["-T", "up", &server.url(ip, "folder/file")]);
    assert!(fs::read(desk.there("folder/file")).unwrap() == data);
    curl(&["-o", "down", &server.url(ip, "folder/file")]);
    assert!(fs::read(desk.here("down")).unwrap() == data);
    fs::write(desk.here("down"), &data[..1_000_001]).unwrap();
    curl(&["-C", "-", "-o", "down", &server.url(ip, "folder/file")]);
    assert!(fs::read(desk.here("down")).unwrap() == data);
    assert!(curl(&[&server.url(ip, "folder/")]).contains("3000000"));
    let url = server.url(ip, "");
    curl(&["-Q", "RNFR folder/file", "-Q", "RNTO other", "-Q", "RMD folder", &url]);
    assert!(desk.there("other").exists() && !desk.there("folder").exists());
    curl(&["-Q", "DELE other", &url]);
    assert_eq!(fs::read_dir(desk.there("")).unwrap().count(), 0);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_in_clear_over_ipv4() {
    curl_works("127.0.0.1", &[], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_in_clear_over_ipv6() {
    curl_works("[::1]", &[], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_where_it_listens_itself() {
    curl_works("127.0.0.1", &["-P", "-"], &[]);
    curl_works("[::1]", &["-P", "-"], &[]);
}

#[test]
#[ignore = "needs curl"]
fn curl_works_where_tls_is_required() {
    curl_works("127.0.0.1", &["--ssl-reqd", "-k"], &["--ftp-tls", "required"]);
}

// attack row 97
#[test]
#[ignore = "needs curl"]
fn a_data_connection_in_tls_that_is_not_the_sessions_is_refused() {
    let desk = Desk::new();
    fs::write(desk.there("file"), b"secret").unwrap();
    let configuration = desk.here("serve.toml");
    fs::write(&configuration, "[ftp]\nrequires-session-reuse = true\n").unwrap();
    let words = ["--config", configuration.to_str().unwrap(), "--ftp-listen", "127.0.0.1:0"];
    let server = Server::start(&desk, &words);
    let url = server.url("127.0.0.1", "file");
    let words = ["-sS", "--max-time", "30", "--ssl-reqd", "-k", &url];
    assert_eq!(desk.runs("curl", &words, ""), "secret");
    let words = [&words[..], &["--no-sessionid"]].concat();
    assert!(!desk.tries("curl", &words, "").status.success());
    server.says("was not this session's");
}

#[test]
#[ignore = "needs lftp"]
fn lftp_works_in_tls_and_mirrors() {
    let desk = Desk::new();
    let server = Server::writable(&desk, "127.0.0.1", &["--ftp-tls", "required"]);
    fs::create_dir_all(desk.here("tree/deep")).unwrap();
    fs::write(desk.here("tree/a"), pattern(100_000)).unwrap();
    fs::write(desk.here("tree/deep/b"), pattern(10)).unwrap();
    let script = format!(
        "set ssl:verify-certificate no; set ftp:ssl-allow-anonymous yes; set net:max-retries 1; set cmd:fail-exit yes; \
         open ftp://127.0.0.1:{}; mirror -R tree far; mirror far back; ls far; \
         mv far/a far/c; rm far/c; quit",
        server.port
    );
    desk.runs("lftp", &["-c", &script], "");
    assert!(fs::read(desk.here("back/a")).unwrap() == pattern(100_000));
    assert!(fs::read(desk.here("back/deep/b")).unwrap() == pattern(10));
    assert!(!desk.there("far/a").exists() && !desk.there("far/c").exists());
}

#[test]
#[ignore = "needs ncftp"]
fn ncftp_puts_lists_and_gets() {
    let desk = Desk::new();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    fs::write(desk.here("file"), pattern(70_000)).unwrap();
    let port = server.port.to_string();
    desk.runs("ncftpput", &["-P", &port, "127.0.0.1", "/", "file"], "");
    assert!(fs::read(desk.there("file")).unwrap() == pattern(70_000));
    assert!(desk.runs("ncftpls", &["-P", &port, "ftp://127.0.0.1/"], "").contains("file"));
    fs::remove_file(desk.here("file")).unwrap();
    desk.runs("ncftpget", &["-P", &port, "127.0.0.1", ".", "/file"], "");
    assert!(fs::read(desk.here("file")).unwrap() == pattern(70_000));
}

fn classic_works(program: &str, words: &[&str]) {
    let desk = Desk::new();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    fs::write(desk.here("file"), pattern(70_000)).unwrap();
    let typed = format!(
        "open 127.0.0.1 {}\nuser ftp a@b\nbinary\nput file first\nrename first second\n\
         get second back\nls\nput file third\ndelete third\nquit\n",
        server.port
    );
    let said = desk.runs(program, words, &typed);
    assert!(fs::read(desk.here("back")).unwrap() == pattern(70_000), "{said}");
    assert!(desk.there("second").exists() && !desk.there("third").exists(), "{said}");
}

#[test]
#[ignore = "needs tnftp"]
fn tnftp_works_passive_and_active() {
    classic_works("tnftp", &["-n", "-v"]);
    classic_works("tnftp", &["-n", "-v", "-A"]);
}

#[test]
#[ignore = "needs inetutils-ftp"]
fn inetutils_works_passive_and_active() {
    classic_works("inetutils-ftp", &["-n", "-v", "-p"]);
    classic_works("inetutils-ftp", &["-n", "-v", "-A"]);
}

const FTPLIB: &str = r#"
import ftplib, io, ssl, sys
port = int(sys.argv[1])
context = ssl._create_unverified_context()
data = bytes(range(256)) * 4000
for kind in (ftplib.FTP, lambda: ftplib.FTP_TLS(context=context)):
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
fn ftplib_works_in_clear_and_in_tls_passive_and_active() {
    let desk = Desk::new();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let said = desk.runs("python3", &["-c", FTPLIB, &server.port.to_string()], "");
    assert!(said.contains("all is well"), "{said}");
}

#[test]
fn a_user_of_the_file_has_his_own_root_and_rights_and_others_are_refused() {
    let desk = Desk::new();
    let mut hasher = Command::new(env!("CARGO_BIN_EXE_plumb"));
    hasher.args(["serve", "--hash-password"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hasher = hasher.spawn().unwrap();
    hasher.stdin.take().unwrap().write_all(b"secret").unwrap();
    let hash = String::from_utf8(hasher.wait_with_output().unwrap().stdout).unwrap();
    fs::create_dir(desk.there("ann")).unwrap();
    let users = desk.here("users.toml");
    let root = desk.there("ann");
    let text = format!(
        "[ann]\npassword = \"{}\"\nroot = \"{}\"\nrights = \"write-once\"\nquota-bytes = 10\n",
        hash.trim(),
        root.display()
    );
    fs::write(&users, text).unwrap();
    fs::set_permissions(&users, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let words = ["--ftp-listen", "127.0.0.1:0", "--ftp-users", users.to_str().unwrap()];
    let server = Server::start(&desk, &words);
    let mut line = Line::to(&server);
    assert_eq!((line.says("USER ann"), line.says("PASS Secret")), (331, 530));
    assert_eq!((line.says("USER ann"), line.says("PASS secret")), (331, 230));
    for (bytes, code) in [(&b"12345"[..], 226), (b"123456", 552), (b"1234", 226)] {
        let mut data = line.passive();
        assert_eq!(line.says(&format!("STOR f{}", bytes.len())), 150);
        data.write_all(bytes).unwrap();
        drop(data);
        assert_eq!(line.hears(), code);
    }
    assert_eq!(fs::read_dir(root).unwrap().count(), 2);
    // What is there stays there.
    _ = line.passive();
    assert_eq!(line.says("STOR f5"), 550);
    assert_eq!(
        (line.says("DELE f5"), line.says("CWD ../../.."), line.says("SIZE f4")),
        (550, 250, 213)
    );
}

// attack row 99
#[test]
fn an_upload_that_breaks_off_leaves_the_old_file() {
    let desk = Desk::new();
    fs::write(desk.there("file"), b"old").unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let mut line = Line::logged_in(&server);
    let mut data = line.passive();
    assert_eq!(line.says("STOR file"), 150);
    data.write_all(b"new").unwrap();
    rustix::net::sockopt::set_socket_linger(&data, Some(std::time::Duration::ZERO)).unwrap();
    drop(data);
    assert_eq!(line.hears(), 426);
    assert_eq!(fs::read(desk.there("file")).unwrap(), b"old");
    assert_eq!(fs::read_dir(desk.there("")).unwrap().count(), 1);
}

// attack row 80
#[test]
fn a_link_out_of_the_root_leads_nowhere() {
    let desk = Desk::new();
    fs::write(desk.here("outside"), b"secret").unwrap();
    std::os::unix::fs::symlink(desk.here("outside"), desk.there("link")).unwrap();
    std::os::unix::fs::symlink(desk.here(""), desk.there("folder")).unwrap();
    let server = Server::writable(&desk, "127.0.0.1", &[]);
    let mut line = Line::logged_in(&server);
    for command in ["SIZE link", "CWD folder", "MDTM folder/outside", "DELE folder/outside"] {
        assert_eq!(line.says(command), 550, "{command}");
    }
    assert!(desk.here("outside").exists());
}

#[test]
fn who_may_only_read_writes_nothing() {
    let desk = Desk::new();
    fs::write(desk.there("file"), b"here").unwrap();
    let server = Server::start(&desk, &["--read-only", "--ftp-listen", "127.0.0.1:0"]);
    let mut line = Line::logged_in(&server);
    for command in ["STOR x", "APPE file", "DELE file", "MKD d", "RNFR file", "SITE CHMOD 777 file"]
    {
        assert_eq!(line.says(command), 550, "{command}");
    }
    let mut data = line.passive();
    assert_eq!(line.says("RETR file"), 150);
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.as_slice(), line.hears()), (&b"here"[..], 226));
}

#[test]
fn a_hangup_reads_the_configuration_again_and_ends_no_session() {
    let desk = Desk::new();
    let configuration: &Path = &desk.here("serve.toml");
    fs::write(configuration, "[ftp]\nrights = \"read-only\"\n").unwrap();
    let words = ["--config", configuration.to_str().unwrap(), "--ftp-listen", "127.0.0.1:0"];
    let mut server = Server::start(&desk, &words);
    let mut old = Line::logged_in(&server);
    fs::write(configuration, "[ftp]\nrights = \"writable\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.says("was read again");
    assert_eq!((old.says("MKD a"), Line::logged_in(&server).says("MKD a")), (550, 257));
    fs::write(configuration, "[ftp]\nrights = \"whatever\"\n").unwrap();
    server.program.signal(Signal::HUP).unwrap();
    server.says("stays as it was");
    assert_eq!(Line::logged_in(&server).says("MKD b"), 257);
}

#[test]
fn a_server_that_ends_lets_a_transfer_end_and_says_goodbye_to_the_others() {
    let desk = Desk::new();
    let mut server = Server::writable(&desk, "127.0.0.1", &[]);
    let (mut busy, mut idle) = (Line::logged_in(&server), Line::logged_in(&server));
    let mut data = busy.passive();
    assert_eq!(busy.says("STOR file"), 150);
    server.program.signal(Signal::TERM).unwrap();
    assert_eq!(idle.hears(), 421);
    data.write_all(b"whole").unwrap();
    drop(data);
    assert_eq!((busy.hears(), busy.hears()), (226, 421));
    assert_eq!(fs::read(desk.there("file")).unwrap(), b"whole");
}
