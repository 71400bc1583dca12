//! Tests of `plumb serve --ftp` with FTP clients of other projects: lftp, curl, wget and Python's
//! ftplib. Each client downloads, uploads, resumes downloads and uploads, transfers in parallel and
//! copies directories, if it supports the function. All tests run in cleartext and in TLS.
//!
//! The clients have their default settings, with two exceptions: they stop at their first error,
//! and in TLS they accept a self-signed certificate. The server has its default settings too,
//! except for clients that do not resume TLS sessions. `ftp_clients_more.rs` tests further clients.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each test program uses a part of it")]
mod ftp_harness;
mod ftp_trees;
#[expect(dead_code, reason = "each test program uses a part of it")]
mod login_harness;

use ftp_harness::{Server, TestDirectories};
use ftp_trees::{check_tree, make_tree, noise, text};
use std::fs;

/// lftp settings that use TLS for anonymous users and accept the server's certificate.
const LFTP_TLS: &str = "set ftp:ssl-allow-anonymous yes; set ftp:ssl-force yes; \
                        set ssl:verify-certificate no;";

/// Runs the lftp commands `commands` first in cleartext and then in TLS, each time with a new
/// server. `check` then inspects the files.
fn test_lftp(prepare: fn(&TestDirectories), commands: &str, check: fn(&TestDirectories)) {
    for settings in ["", LFTP_TLS] {
        let directories = TestDirectories::new();
        let server = Server::writable(&directories, "127.0.0.1", &[]);
        prepare(&directories);
        let script = format!(
            "set cmd:fail-exit yes; set net:max-retries 1; {settings} \
             open ftp://127.0.0.1:{}; {commands}; quit",
            server.port
        );
        directories.run_client_ok("lftp", &["-c", &script], "");
        check(&directories);
    }
}

#[test]
#[ignore = "needs lftp"]
fn lftp_downloads_compressible_and_incompressible_files() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("text"), text(300_000)).unwrap();
        fs::write(directories.remote_path("noise"), noise(300_000)).unwrap();
        fs::write(directories.remote_path("empty"), "").unwrap();
    };
    test_lftp(prepare, "get text; get noise; get empty", |directories| {
        assert!(fs::read(directories.local_path("text")).unwrap() == text(300_000));
        assert!(fs::read(directories.local_path("noise")).unwrap() == noise(300_000));
        assert!(fs::read(directories.local_path("empty")).unwrap().is_empty());
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_uploads_compressible_and_incompressible_files() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.local_path("text"), text(300_000)).unwrap();
        fs::write(directories.local_path("noise"), noise(300_000)).unwrap();
        fs::write(directories.local_path("empty"), "").unwrap();
        fs::write(directories.remote_path("text"), "an older version").unwrap();
    };
    test_lftp(prepare, "put text; put noise; put empty", |directories| {
        assert!(fs::read(directories.remote_path("text")).unwrap() == text(300_000));
        assert!(fs::read(directories.remote_path("noise")).unwrap() == noise(300_000));
        assert!(fs::read(directories.remote_path("empty")).unwrap().is_empty());
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_resumes_a_download_and_an_upload() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("down"), text(300_000)).unwrap();
        fs::write(directories.local_path("down"), &text(300_000)[..123_456]).unwrap();
        fs::write(directories.local_path("up"), text(300_000)).unwrap();
        fs::write(directories.remote_path("up"), &text(300_000)[..123_456]).unwrap();
    };
    test_lftp(prepare, "get -c down; put -c up", |directories| {
        assert!(fs::read(directories.local_path("down")).unwrap() == text(300_000));
        assert!(fs::read(directories.remote_path("up")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_downloads_one_file_over_four_connections() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("file"), text(4_000_000)).unwrap();
    };
    test_lftp(prepare, "pget -n 4 file", |directories| {
        assert!(fs::read(directories.local_path("file")).unwrap() == text(4_000_000));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_mirrors_directories_in_both_directions_over_several_connections() {
    let prepare = |directories: &TestDirectories| {
        make_tree(&directories.remote_path("tree"));
        make_tree(&directories.local_path("own"));
    };
    test_lftp(prepare, "mirror --parallel=3 tree; mirror -R --parallel=3 own", |directories| {
        check_tree(&directories.local_path("tree"));
        check_tree(&directories.remote_path("own"));
    });
}

#[test]
#[ignore = "needs lftp"]
fn lftp_lists_a_file_with_its_size() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("file"), text(123_456)).unwrap();
    };
    // `du` queries sizes; `cls` prints the listing.
    test_lftp(prepare, "cls -l > listing; du -b file > sizes", |directories| {
        for name in ["listing", "sizes"] {
            let messages = fs::read_to_string(directories.local_path(name)).unwrap();
            assert!(messages.contains("123456"), "{messages}");
        }
    });
}

/// curl with the options for one server.
struct Curl<'a> {
    directories: &'a TestDirectories,
    settings: &'a [&'a str],
}

impl Curl<'_> {
    fn run(&self, words: &[&str]) {
        self.directories.run_client_ok(
            "curl",
            &[&["-sS", "--fail"], self.settings, words].concat(),
            "",
        );
    }
}

/// Runs `work` with curl, in cleartext and in TLS.
fn test_curl(work: fn(&TestDirectories, &Server, &Curl<'_>)) {
    for settings in [&[][..], &["--ssl-reqd", "-k"]] {
        let directories = TestDirectories::new();
        let server = Server::writable(&directories, "127.0.0.1", &[]);
        work(&directories, &server, &Curl { directories: &directories, settings });
    }
}

#[test]
#[ignore = "needs curl"]
fn curl_appends_to_a_file_and_resumes_a_download_and_an_upload() {
    test_curl(|directories, server, curl| {
        let url = |name: &str| server.url("127.0.0.1", name);
        fs::write(directories.local_path("tail"), "the tail").unwrap();
        fs::write(directories.remote_path("appended"), "the head, ").unwrap();
        curl.run(&["--append", "-T", "tail", &url("appended")]);
        assert_eq!(
            fs::read_to_string(directories.remote_path("appended")).unwrap(),
            "the head, the tail"
        );
        fs::write(directories.remote_path("down"), text(300_000)).unwrap();
        fs::write(directories.local_path("down"), &text(300_000)[..123_456]).unwrap();
        curl.run(&["-C", "-", "-o", "down", &url("down")]);
        assert!(fs::read(directories.local_path("down")).unwrap() == text(300_000));
        fs::write(directories.local_path("up"), text(300_000)).unwrap();
        fs::write(directories.remote_path("up"), &text(300_000)[..123_456]).unwrap();
        curl.run(&["-C", "-", "-T", "up", &url("up")]);
        assert!(fs::read(directories.remote_path("up")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs curl"]
fn curl_transfers_several_files_in_parallel() {
    test_curl(|directories, server, curl| {
        let names = ["a", "b", "c", "d", "e"];
        for (at, name) in names.iter().enumerate() {
            fs::write(directories.remote_path(name), noise(50_000 + at)).unwrap();
        }
        let urls = server.url("127.0.0.1", "{a,b,c,d,e}");
        curl.run(&["--parallel", "-o", "#1", &urls]);
        for (at, name) in names.iter().enumerate() {
            assert!(
                fs::read(directories.local_path(name)).unwrap() == noise(50_000 + at),
                "{name}"
            );
        }
        let up = server.url("127.0.0.1", "up/");
        curl.run(&["--parallel", "--ftp-create-dirs", "-T", "{a,b,c,d,e}", &up]);
        for (at, name) in names.iter().enumerate() {
            let uploaded = fs::read(directories.remote_path("up").join(name)).unwrap();
            assert!(uploaded == noise(50_000 + at), "{name}");
        }
    });
}

#[test]
#[ignore = "needs curl"]
fn curl_uploads_several_files_one_after_another_over_one_control_connection() {
    test_curl(|directories, server, curl| {
        let names = ["a", "b", "c", "d", "e"];
        for (at, name) in names.iter().enumerate() {
            fs::write(directories.local_path(name), noise(50_000 + at)).unwrap();
        }
        curl.run(&["-T", "{a,b,c,d,e}", &server.url("127.0.0.1", "")]);
        for (at, name) in names.iter().enumerate() {
            assert!(
                fs::read(directories.remote_path(name)).unwrap() == noise(50_000 + at),
                "{name}"
            );
        }
    });
}

/// Runs wget with `words` and the URL of `name`, in cleartext and in TLS.
fn test_wget(
    prepare: fn(&TestDirectories),
    words: &[&str],
    name: &str,
    check: fn(&TestDirectories),
) {
    for scheme in ["ftp", "ftps"] {
        let directories = TestDirectories::new();
        let server = Server::writable(&directories, "127.0.0.1", &[]);
        prepare(&directories);
        let url = format!("{scheme}://127.0.0.1:{}/{name}", server.port);
        let ends = ["--tries=1", "--no-verbose", "--no-check-certificate"];
        directories.run_client_ok("wget", &[&ends, words, &[&url]].concat(), "");
        check(&directories);
    }
}

#[test]
#[ignore = "needs wget"]
fn wget_gets_a_file() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("file"), text(300_000)).unwrap();
    };
    test_wget(prepare, &[], "file", |directories| {
        assert!(fs::read(directories.local_path("file")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs wget"]
fn wget_resumes_a_download() {
    let prepare = |directories: &TestDirectories| {
        fs::write(directories.remote_path("file"), text(300_000)).unwrap();
        fs::write(directories.local_path("file"), &text(300_000)[..123_456]).unwrap();
    };
    test_wget(prepare, &["--continue"], "file", |directories| {
        assert!(fs::read(directories.local_path("file")).unwrap() == text(300_000));
    });
}

#[test]
#[ignore = "needs wget"]
fn wget_mirrors_a_directory() {
    let prepare = |directories: &TestDirectories| make_tree(&directories.remote_path("tree"));
    test_wget(prepare, &["--mirror", "--no-host-directories"], "tree/", |directories| {
        check_tree(&directories.local_path("tree"));
    });
}

/// ftplib script; `ftp_serve.rs` tests the other functions of ftplib.
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
fn ftplib_resumes_an_upload_and_downloads_a_tree_with_one_connection_per_file() {
    for mode in ["cleartext", "tls"] {
        let directories = TestDirectories::new();
        make_tree(&directories.remote_path("tree"));
        // `FTP_TLS` does not resume TLS sessions; `ftp_serve.rs` has a subclass that does.
        let lines = format!("rights = \"writable\"\nrequires-session-reuse = {}\n", mode != "tls");
        let server = Server::configured(&directories, &lines, &[]);
        directories.run_client_ok("python3", &["-c", FTPLIB, &server.port.to_string(), mode], "");
    }
}
