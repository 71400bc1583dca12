//! FTP clients of other projects with their default settings at `plumb serve --ftp`: lftp, curl,
//! wget and Python's ftplib. Each one downloads, uploads, resumes both, works in parallel and
//! copies directories, as far as it can, in cleartext and in TLS.
//!
//! The only settings are those that stop a client at its first error and, with TLS, those that make
//! it accept a self-signed certificate. The server has its default settings too, except for clients
//! that do not resume TLS sessions. `ftp_clients_more.rs` has further clients.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each test program uses a part of it")]
mod ftp_desk;
mod ftp_trees;
#[expect(dead_code, reason = "each test program uses a part of it")]
mod login_desk;

use ftp_desk::{Desk, Server};
use ftp_trees::{check_tree, make_tree, noise, text};
use std::fs;

/// lftp settings that use TLS for anonymous users and accept the server's certificate.
const LFTP_TLS: &str = "set ftp:ssl-allow-anonymous yes; set ftp:ssl-force yes; \
                        set ssl:verify-certificate no;";

/// Runs commands in lftp, in cleartext and in TLS, each time with a new server; `check` then
/// inspects the files.
fn lftp(prepare: fn(&Desk), commands: &str, check: fn(&Desk)) {
    for settings in ["", LFTP_TLS] {
        let desk = Desk::new();
        let server = Server::writable(&desk, "127.0.0.1", &[]);
        prepare(&desk);
        let script = format!(
            "set cmd:fail-exit yes; set net:max-retries 1; {settings} \
             open ftp://127.0.0.1:{}; {commands}; quit",
            server.port
        );
        desk.runs("lftp", &["-c", &script], "");
        check(&desk);
    }
}

#[test]
#[ignore = "needs lftp"]
fn lftp_gets_a_text_that_compresses_and_noise_that_does_not() {
    let prepare = |desk: &Desk| {
        fs::write(desk.there("text"), text(300_000)).unwrap();
        fs::write(desk.there("noise"), noise(300_000)).unwrap();
        fs::write(desk.there("empty"), "").unwrap();
    };
    lftp(prepare, "get text; get noise; get empty", |desk| {
        assert!(fs::read(desk.here("text")).unwrap() == text(300_000));
        assert!(fs::read(desk.here("noise")).unwrap() == noise(300_000));
        assert!(fs::read(desk.here("empty")).unwrap().is_empty());
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_puts_a_text_that_compresses_and_noise_that_does_not() {
    let prepare = |desk: &Desk| {
        fs::write(desk.here("text"), text(300_000)).unwrap();
        fs::write(desk.here("noise"), noise(300_000)).unwrap();
        fs::write(desk.here("empty"), "").unwrap();
        fs::write(desk.there("text"), "an older version").unwrap();
    };
    lftp(prepare, "put text; put noise; put empty", |desk| {
        assert!(fs::read(desk.there("text")).unwrap() == text(300_000));
        assert!(fs::read(desk.there("noise")).unwrap() == noise(300_000));
        assert!(fs::read(desk.there("empty")).unwrap().is_empty());
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_resumes_a_download_and_an_upload() {
    let prepare = |desk: &Desk| {
        fs::write(desk.there("down"), text(300_000)).unwrap();
        fs::write(desk.here("down"), &text(300_000)[..123_456]).unwrap();
        fs::write(desk.here("up"), text(300_000)).unwrap();
        fs::write(desk.there("up"), &text(300_000)[..123_456]).unwrap();
    };
    lftp(prepare, "get -c down; put -c up", |desk| {
        assert!(fs::read(desk.here("down")).unwrap() == text(300_000));
        assert!(fs::read(desk.there("up")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_gets_one_file_by_four_connections() {
    let prepare = |desk: &Desk| fs::write(desk.there("file"), text(4_000_000)).unwrap();
    lftp(prepare, "pget -n 4 file", |desk| {
        assert!(fs::read(desk.here("file")).unwrap() == text(4_000_000));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_mirrors_directories_both_ways_by_several_connections() {
    let prepare = |desk: &Desk| {
        make_tree(&desk.there("tree"));
        make_tree(&desk.here("own"));
    };
    lftp(prepare, "mirror --parallel=3 tree; mirror -R --parallel=3 own", |desk| {
        check_tree(&desk.here("tree"));
        check_tree(&desk.there("own"));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_lists_a_file_with_its_size() {
    let prepare = |desk: &Desk| fs::write(desk.there("file"), text(123_456)).unwrap();
    // `du` queries sizes; `cls` prints the listing.
    lftp(prepare, "cls -l > listing; du -b file > sizes", |desk| {
        for name in ["listing", "sizes"] {
            let said = fs::read_to_string(desk.here(name)).unwrap();
            assert!(said.contains("123456"), "{said}");
        }
    });
}

/// curl with the options for one server.
struct Curl<'a> {
    desk: &'a Desk,
    settings: &'a [&'a str],
}

impl Curl<'_> {
    fn run(&self, words: &[&str]) {
        self.desk.runs("curl", &[&["-sS", "--fail"], self.settings, words].concat(), "");
    }
}

/// Runs `work` with curl, in cleartext and in TLS.
fn curl(work: fn(&Desk, &Server, &Curl<'_>)) {
    for settings in [&[][..], &["--ssl-reqd", "-k"]] {
        let desk = Desk::new();
        let server = Server::writable(&desk, "127.0.0.1", &[]);
        work(&desk, &server, &Curl { desk: &desk, settings });
    }
}

#[test]
#[ignore = "needs curl"]
fn curl_appends_to_a_file_and_resumes_a_download_and_an_upload() {
    curl(|desk, server, curl| {
        let url = |name: &str| server.url("127.0.0.1", name);
        fs::write(desk.here("tail"), "the tail").unwrap();
        fs::write(desk.there("appended"), "the head, ").unwrap();
        curl.run(&["--append", "-T", "tail", &url("appended")]);
        assert_eq!(fs::read_to_string(desk.there("appended")).unwrap(), "the head, the tail");
        fs::write(desk.there("down"), text(300_000)).unwrap();
        fs::write(desk.here("down"), &text(300_000)[..123_456]).unwrap();
        curl.run(&["-C", "-", "-o", "down", &url("down")]);
        assert!(fs::read(desk.here("down")).unwrap() == text(300_000));
        fs::write(desk.here("up"), text(300_000)).unwrap();
        fs::write(desk.there("up"), &text(300_000)[..123_456]).unwrap();
        curl.run(&["-C", "-", "-T", "up", &url("up")]);
        assert!(fs::read(desk.there("up")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs curl"]
fn curl_moves_several_files_at_once() {
    curl(|desk, server, curl| {
        let names = ["a", "b", "c", "d", "e"];
        for (at, name) in names.iter().enumerate() {
            fs::write(desk.there(name), noise(50_000 + at)).unwrap();
        }
        let urls = server.url("127.0.0.1", "{a,b,c,d,e}");
        curl.run(&["--parallel", "-o", "#1", &urls]);
        for (at, name) in names.iter().enumerate() {
            assert!(fs::read(desk.here(name)).unwrap() == noise(50_000 + at), "{name}");
        }
        let up = server.url("127.0.0.1", "up/");
        curl.run(&["--parallel", "--ftp-create-dirs", "-T", "{a,b,c,d,e}", &up]);
        for (at, name) in names.iter().enumerate() {
            let there = fs::read(desk.there("up").join(name)).unwrap();
            assert!(there == noise(50_000 + at), "{name}");
        }
    });
}

#[test]
#[ignore = "needs curl"]
fn curl_uploads_several_files_one_after_another_over_one_control_connection() {
    curl(|desk, server, curl| {
        let names = ["a", "b", "c", "d", "e"];
        for (at, name) in names.iter().enumerate() {
            fs::write(desk.here(name), noise(50_000 + at)).unwrap();
        }
        curl.run(&["-T", "{a,b,c,d,e}", &server.url("127.0.0.1", "")]);
        for (at, name) in names.iter().enumerate() {
            assert!(fs::read(desk.there(name)).unwrap() == noise(50_000 + at), "{name}");
        }
    });
}

/// Runs wget with `words` and the URL of `name`, in cleartext and in TLS.
fn wget(prepare: fn(&Desk), words: &[&str], name: &str, check: fn(&Desk)) {
    for scheme in ["ftp", "ftps"] {
        let desk = Desk::new();
        let server = Server::writable(&desk, "127.0.0.1", &[]);
        prepare(&desk);
        let url = format!("{scheme}://127.0.0.1:{}/{name}", server.port);
        let ends = ["--tries=1", "--no-verbose", "--no-check-certificate"];
        desk.runs("wget", &[&ends, words, &[&url]].concat(), "");
        check(&desk);
    }
}

#[test]
#[ignore = "needs wget"]
fn wget_gets_a_file() {
    let prepare = |desk: &Desk| fs::write(desk.there("file"), text(300_000)).unwrap();
    wget(prepare, &[], "file", |desk| {
        assert!(fs::read(desk.here("file")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs wget"]
fn wget_resumes_a_download() {
    let prepare = |desk: &Desk| {
        fs::write(desk.there("file"), text(300_000)).unwrap();
        fs::write(desk.here("file"), &text(300_000)[..123_456]).unwrap();
    };
    wget(prepare, &["--continue"], "file", |desk| {
        assert!(fs::read(desk.here("file")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs wget"]
fn wget_mirrors_a_directory() {
    let prepare = |desk: &Desk| make_tree(&desk.there("tree"));
    wget(prepare, &["--mirror", "--no-host-directories"], "tree/", |desk| {
        check_tree(&desk.here("tree"));
    });
}

/// ftplib script; `ftp_serve.rs` tests the rest.
const FTPLIB: &str = r#"
import ftplib, io, ssl, sys, threading
port, in_tls = int(sys.argv[1]), sys.argv[2] == "tls"
def connect():
    if in_tls:
        ftp = ftplib.FTP_TLS(context=ssl._create_unverified_context())
    else:
        ftp = ftplib.FTP()
    ftp.connect("127.0.0.1", port, 60)
    ftp.login()
    if in_tls:
        ftp.prot_p()
    return ftp
data = bytes(range(256)) * 1000
ftp = connect()
assert ftp.storbinary("STOR up", io.BytesIO(data[:100_000])).startswith("226")
assert ftp.size("up") == 100_000
assert ftp.storbinary("STOR up", io.BytesIO(data[100_000:]), rest=100_000).startswith("226")
got = io.BytesIO()
ftp.retrbinary("RETR up", got.write)
assert got.getvalue() == data
def walk(path):
    found = {}
    for name, facts in ftp.mlsd(path):
        if facts["type"] == "dir":
            found.update(walk(path + "/" + name))
        elif facts["type"] == "file":
            found[path + "/" + name] = int(facts["size"])
    return found
failed = []
def get(path, size):
    try:
        own, got = connect(), io.BytesIO()
        own.retrbinary("RETR " + path, got.write)
        assert len(got.getvalue()) == size, path
        own.quit()
    except BaseException as error:
        failed.append((path, error))
files = walk("tree")
assert len(files) == 4, files
threads = [threading.Thread(target=get, args=one) for one in files.items()]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
ftp.quit()
"#;

#[test]
#[ignore = "needs Python"]
fn ftplib_resumes_an_upload_and_gets_a_tree_by_one_connection_for_each_file() {
    for mode in ["cleartext", "tls"] {
        let desk = Desk::new();
        make_tree(&desk.there("tree"));
        // `FTP_TLS` does not resume TLS sessions; `ftp_serve.rs` has a subclass that does.
        let lines = format!("rights = \"writable\"\nrequires-session-reuse = {}\n", mode != "tls");
        let server = Server::configured(&desk, &lines, &[]);
        desk.runs("python3", &["-c", FTPLIB, &server.port.to_string(), mode], "");
    }
}
