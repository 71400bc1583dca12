//! Tests of `plumb` as a client of real FTP servers: Debian's vsftpd, which requires the resumption
//! of TLS sessions, and pyftpdlib.
//!
//! Each test has its own network namespace, in which the server listens at 10.0.0.1 and ::1, and
//! its own directory.

#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[path = "ftp_user/familiar_options.rs"]
mod familiar_options;
#[expect(dead_code, reason = "each crate of tests uses its part of the server")]
mod faulty_ftp;
#[path = "ftp_user/hostile.rs"]
mod hostile;
#[expect(dead_code, reason = "each crate of tests uses its part of the harness")]
mod login_harness;
#[path = "ftp_user/own_server.rs"]
mod own_server;
#[path = "ftp_user/preserved_properties.rs"]
mod preserved_properties;
#[path = "ftp_user/removal.rs"]
mod removal;
#[path = "ftp_user/resumed.rs"]
mod resumed;
#[path = "ftp_user/scripts.rs"]
mod scripts;
#[path = "ftp_user/shell.rs"]
mod shell;
#[path = "ftp_user/transfer_types.rs"]
mod transfer_types;
#[path = "ftp_user/userspace_tcp.rs"]
mod userspace_tcp;

use login_harness::{SERVER, in_configured_network, in_new_network};
use os::process::Program;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use test_support::peers;

const PORT: u16 = 2121;
const FILES: usize = 30;

/// A server with a directory of served files, and a directory for downloads.
struct Fixture {
    directory: PathBuf,
    server: Option<Program>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Vsftpd,
    /// vsftpd with implicit TLS.
    Implicit,
    Pyftpdlib,
}

const PYTHON: &str = "
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, DTPHandler
from pyftpdlib.servers import FTPServer
users = DummyAuthorizer()
users.add_user('me', 'secret', sys.argv[1], perm='elradfmwMT')
FTPHandler.authorizer = users
FTPServer((sys.argv[2], int(sys.argv[3])), FTPHandler).serve_forever()
";

impl Fixture {
    /// Starts a server that listens at `host`.
    fn start(kind: Kind, host: &str, name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("plumb-ftp-{name}-{}", std::process::id()));
        fs::create_dir_all(directory.join("root/pub/deep")).unwrap();
        fs::create_dir_all(directory.join("root/incoming")).unwrap();
        fs::create_dir_all(directory.join("empty")).unwrap();
        fs::create_dir_all(directory.join("here")).unwrap();
        for each in ["", "root", "root/pub", "root/pub/deep"] {
            fs::set_permissions(directory.join(each), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(directory.join("root/incoming"), open).unwrap();
        for index in 0..FILES {
            fs::write(directory.join(format!("root/pub/f{index}")), content(index)).unwrap();
        }
        fs::write(directory.join("root/pub/deep/g"), content(7)).unwrap();
        let mut fixture = Self { directory, server: None };
        let mut command = match kind {
            Kind::Vsftpd => fixture.vsftpd(host, "NO"),
            Kind::Implicit => fixture.vsftpd(host, "YES"),
            Kind::Pyftpdlib => fixture.pyftpdlib(host),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        fixture.server = Some(Program::start(&mut command).unwrap());
        let host = host.trim_matches(['[', ']']);
        let tries = 500;
        let is_listening = (0..tries).any(|_| {
            let is_listening = TcpStream::connect((host, PORT)).is_ok();
            if !is_listening {
                std::thread::sleep(Duration::from_millis(20));
            }
            is_listening
        });
        assert!(is_listening, "the server does not start");
        fixture
    }

    fn vsftpd(&self, host: &str, is_implicit: &str) -> Command {
        let status = peers::OPENSSL
            .command()
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3"])
            .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&self.directory)
            .output();
        assert!(status.unwrap().status.success());
        let directory = self.directory.display();
        let text = format!(
            "listen=YES\nlisten_address={host}\nlisten_port={PORT}\nbackground=NO\n\
             anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
             anon_root={directory}/root\nno_anon_password=YES\nftp_username=games\n\
             secure_chroot_dir={directory}/empty\nssl_enable=YES\nallow_anon_ssl=YES\n\
             force_anon_data_ssl=NO\nforce_anon_logins_ssl=NO\nrequire_ssl_reuse=YES\n\
             rsa_cert_file={directory}/cert.pem\nrsa_private_key_file={directory}/key.pem\n\
             implicit_ssl={is_implicit}\nseccomp_sandbox=NO\nisolate_network=NO\n"
        );
        let file = self.directory.join("vsftpd.conf");
        fs::write(&file, text).unwrap();
        let mut command = peers::VSFTPD.command();
        command.arg(file);
        command
    }

    fn pyftpdlib(&self, host: &str) -> Command {
        let mut command = peers::PYFTPDLIB.command();
        command.args(["-W", "ignore", "-c", PYTHON]).arg(self.directory.join("root"));
        command.args([host.trim_matches(['[', ']']), &PORT.to_string()]);
        command
    }

    /// Runs plumb in the download directory.
    fn plumb(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(arguments).current_dir(self.directory.join("here")).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", &self.directory).env("HOME", &self.directory);
        command.output().unwrap()
    }

    /// Runs plumb, checks that it succeeds, and returns its standard output.
    fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.plumb(arguments);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {messages}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn read_local(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.join("here").join(name)).unwrap()
    }

    fn read_remote(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.join("root").join(name)).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.server.take());
        // A remaining temporary directory does no harm.
        _ = fs::remove_dir_all(&self.directory);
    }
}

fn content(index: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 31 + index * 7 + at / 251) % 256).unwrap();
    (0..index * 4099 + 1).map(byte).collect()
}

/// Runs a test with a server in a new network namespace.
fn with_server(
    kind: Kind,
    host: &'static str,
    name: &'static str,
    test: impl FnOnce(&Fixture, &str) + Send + 'static,
) {
    let network: &[&[&str]] =
        &[&["link", "set", "lo", "up"], &["address", "add", "10.0.0.1/32", "dev", "lo"]];
    in_configured_network(network, move || test(&Fixture::start(kind, host, name), host));
}

/// Like [`with_server`], in a network namespace with a TUN for plumb's own TCP.
fn with_server_and_tun(
    kind: Kind,
    name: &'static str,
    test: impl FnOnce(&Fixture, &str) + Send + 'static,
) {
    in_new_network(move || test(&Fixture::start(kind, SERVER, name), SERVER));
}

/// Downloads, uploads, lists, renames and removes files.
fn manage_files(fixture: &Fixture, url: &str) {
    fixture.run_ok(&["get", &format!("{url}/pub/f9")]);
    assert_eq!(fixture.read_local("f9"), content(9));
    fixture.run_ok(&["put", "f9", &format!("{url}/incoming/")]);
    assert_eq!(fixture.read_remote("incoming/f9"), content(9));
    let listing = fixture.run_ok(&["ls", &format!("{url}/pub/f1*")]);
    assert_eq!(listing.lines().count(), 11, "{listing}");
    fixture.run_ok(&["mkdir", &format!("{url}/incoming/new")]);
    fixture.run_ok(&["mv", &format!("{url}/incoming/f9"), "incoming/new/x"]);
    assert_eq!(fixture.read_remote("incoming/new/x"), content(9));
    fixture.run_ok(&["rm", "-r", &format!("{url}/incoming/new")]);
    assert!(!fixture.directory.join("root/incoming/new").exists());
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_managed_on_vsftpd_in_plaintext() {
    with_server(Kind::Vsftpd, SERVER, "clear", |fixture, host| {
        manage_files(fixture, &format!("ftp://{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_managed_on_vsftpd_in_tls() {
    with_server(Kind::Vsftpd, SERVER, "tls", |fixture, host| {
        manage_files(fixture, &format!("ftpes://{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_managed_on_vsftpd_in_implicit_tls() {
    with_server(Kind::Implicit, SERVER, "implicit", |fixture, host| {
        manage_files(fixture, &format!("ftps://{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn thirty_files_are_downloaded_in_tls_with_required_session_resumption() {
    with_server(Kind::Vsftpd, SERVER, "thirty", |fixture, host| {
        let from = format!("ftpes://{host}:{PORT}/pub/f*");
        let report = fixture.run_ok(&["get", "--json", &from, "."]);
        assert_eq!(report.lines().count(), FILES);
        assert!(report.lines().all(|line| line.contains("\"tls_resumed\":true")), "{report}");
        assert!((0..FILES).all(|index| fixture.read_local(&format!("f{index}")) == content(index)));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn thirty_files_are_uploaded_in_tls_with_required_session_resumption() {
    with_server(Kind::Vsftpd, SERVER, "thirty-put", |fixture, host| {
        let names: Vec<_> = (0..FILES).map(|index| format!("f{index}")).collect();
        for (index, name) in names.iter().enumerate() {
            fs::write(fixture.directory.join("here").join(name), content(index)).unwrap();
        }
        let to = format!("ftpes://{host}:{PORT}/incoming/");
        let all = ["put"].into_iter().chain(names.iter().map(String::as_str)).chain([&*to]);
        fixture.run_ok(&all.collect::<Vec<_>>());
        assert!(
            (0..FILES)
                .all(|index| fixture.read_remote(&format!("incoming/f{index}")) == content(index))
        );
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn active_mode_works_in_plaintext_and_in_tls() {
    with_server(Kind::Vsftpd, SERVER, "active", |fixture, host| {
        for (scheme, name) in [("ftp", "f3"), ("ftpes", "f4")] {
            fixture.run_ok(&["get", "--active", &format!("{scheme}://{host}:{PORT}/pub/{name}")]);
        }
        assert_eq!((fixture.read_local("f3"), fixture.read_local("f4")), (content(3), content(4)));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn files_are_managed_on_pyftpdlib_over_ipv6() {
    with_server(Kind::Pyftpdlib, "[::1]", "ipv6", |fixture, host| {
        manage_files(fixture, &format!("ftp://me:secret@{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_tree_is_unchanged_after_upload_and_download() {
    with_server(Kind::Pyftpdlib, SERVER, "tree", |fixture, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}");
        fixture.run_ok(&["get", "-r", "-j", "4", &format!("{url}/pub"), "."]);
        assert_eq!(fixture.read_local("pub/deep/g"), content(7));
        assert!(
            (0..FILES).all(|index| fixture.read_local(&format!("pub/f{index}")) == content(index))
        );
        fixture.run_ok(&["put", "-r", "-j", "4", "pub", &format!("{url}/incoming/")]);
        assert_eq!(fixture.read_remote("incoming/pub/deep/g"), content(7));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_mirror_transfers_changed_files_and_deletes_only_on_request() {
    with_server(Kind::Pyftpdlib, SERVER, "mirror", |fixture, host| {
        let from = format!("ftp://me:secret@{host}:{PORT}/pub");
        fixture.run_ok(&["mirror", &from, "pub"]);
        assert_eq!(fixture.read_local("pub/deep/g"), content(7));
        assert_eq!(fixture.run_ok(&["mirror", "-n", &from, "pub"]), "");
        fs::write(fixture.directory.join("here/pub/extra"), "x").unwrap();
        let plan = fixture.run_ok(&["mirror", "-n", "--delete", &from, "pub"]);
        assert_eq!(plan, "delete extra\n");
        fixture.run_ok(&["mirror", "--delete", &from, "pub"]);
        assert!(!fixture.directory.join("here/pub/extra").exists());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn an_interrupted_download_is_resumed_and_parts_are_combined() {
    with_server(Kind::Pyftpdlib, SERVER, "resume", |fixture, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f29");
        let file_content = content(29);
        let part = fixture.directory.join("here/f29.part");
        fs::write(&part, file_content.get(..5000).unwrap()).unwrap();
        let time =
            fs::metadata(fixture.directory.join("root/pub/f29")).unwrap().modified().unwrap();
        fs::File::options().write(true).open(&part).unwrap().set_modified(time).unwrap();
        let report = fixture.run_ok(&["get", "-c", "--json", &url]);
        // The last 4096 bytes of the partial file are transferred again for comparison.
        let expected_bytes = file_content.len() - 5000 + 4096;
        assert!(report.contains(&format!("\"file_bytes\":{expected_bytes}")), "{report}");
        assert!(fixture.read_local("f29") == file_content && !part.exists());
        fixture.run_ok(&["get", "--segments", "4", &url, "pieces"]);
        assert!(fixture.read_local("pieces") == file_content);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn errors_are_one_line_without_the_password() {
    with_server(Kind::Pyftpdlib, SERVER, "fails", |fixture, host| {
        for (url, expected) in [
            (format!("ftp://me:wrongone@{host}:{PORT}/pub/f1"), "PASS"),
            (format!("ftp://me:secret@{host}:{PORT}/pub/none"), "none"),
        ] {
            let output = fixture.plumb(&["get", "--tries", "1", &url]);
            let messages = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{messages}");
            assert!(messages.contains(expected) && messages.lines().count() == 1, "{messages}");
            assert!(!messages.contains("wrongone") && !messages.contains("secret"), "{messages}");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn an_upload_resumes_after_the_existing_part() {
    with_server(Kind::Pyftpdlib, SERVER, "put-on", |fixture, host| {
        let file_content = content(29);
        fs::write(fixture.directory.join("here/f"), &file_content).unwrap();
        fs::write(fixture.directory.join("root/incoming/f"), file_content.get(..5000).unwrap())
            .unwrap();
        let url = format!("ftp://me:secret@{host}:{PORT}/incoming/f");
        let report = fixture.run_ok(&["put", "-c", "--json", "f", &url]);
        assert!(
            report.contains(&format!("\"file_bytes\":{}", file_content.len() - 5000)),
            "{report}"
        );
        assert!(fixture.read_remote("incoming/f") == file_content);
        let report = fixture.run_ok(&["put", "-c", "--json", "f", &url]);
        assert!(report.contains("\"complete\"") && !report.contains("\"file_bytes\""), "{report}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn an_upload_mirror_lists_its_actions_and_performs_them() {
    with_server(Kind::Pyftpdlib, SERVER, "up", |fixture, host| {
        let to = format!("ftp://me:secret@{host}:{PORT}/incoming/up");
        fs::create_dir_all(fixture.directory.join("here/tree/deep")).unwrap();
        fs::write(fixture.directory.join("here/tree/a"), content(3)).unwrap();
        fs::write(fixture.directory.join("here/tree/deep/b"), content(4)).unwrap();
        let plan = fixture.run_ok(&["mirror", "--dry-run", "tree", &to]);
        assert_eq!(plan, "make deep/\nput a\nput deep/b\n");
        assert!(!fixture.directory.join("root/incoming/up").exists());
        fixture.run_ok(&["mirror", "-j", "2", "tree", &to]);
        assert_eq!(fixture.read_remote("incoming/up/deep/b"), content(4));
        assert_eq!(fixture.run_ok(&["mirror", "-n", "--delete", "tree", &to]), "");
        fs::remove_dir_all(fixture.directory.join("here/tree/deep")).unwrap();
        let plan = fixture.run_ok(&["mirror", "-n", "--delete", "tree", &to]);
        assert_eq!(plan, "delete deep/b\ndelete deep/\n");
        fixture.run_ok(&["mirror", "--delete", "tree", &to]);
        assert!(!fixture.directory.join("root/incoming/up/deep").exists());
        assert_eq!(fixture.read_remote("incoming/up/a"), content(3));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn credentials_are_read_from_a_private_netrc() {
    with_server(Kind::Pyftpdlib, SERVER, "netrc", |fixture, host| {
        let netrc = fixture.directory.join(".netrc");
        fs::write(&netrc, format!("machine {host} login me password secret\n")).unwrap();
        fs::set_permissions(&netrc, fs::Permissions::from_mode(0o644)).unwrap();
        let url = format!("ftp://{host}:{PORT}/pub/f2");
        let output = fixture.plumb(&["get", &url]);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{messages}");
        assert!(messages.contains("chmod 600"), "{messages}");
        fs::set_permissions(&netrc, fs::Permissions::from_mode(0o600)).unwrap();
        fixture.run_ok(&["get", &url]);
        assert_eq!(fixture.read_local("f2"), content(2));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_full_local_disk_and_a_read_only_remote_directory_are_reported() {
    with_server(Kind::Pyftpdlib, SERVER, "full", |fixture, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f29");
        let script = "mount -t tmpfs -o size=64k none here && cd here && exec \"$0\" get \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_plumb"), &url]);
        command
            .current_dir(&fixture.directory)
            .env("HOME", &fixture.directory)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{messages}");
        // Whether the disk has room for a part of the file depends on the size of the first read.
        let is_error = |line: &&str| !line.starts_with("plumb: note: saved ");
        let errors: Vec<&str> = messages.lines().filter(is_error).collect();
        assert_eq!(errors.len(), 1, "{messages}");
        assert!(errors[0].contains("the disk is full: free some space"), "{messages}");
        let output = fixture.plumb(&["get", &url, "-o", "/sys/kernel/f29"]);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{messages}");
        assert!(messages.contains("cannot write /sys/kernel/f29"), "{messages}");
    });
}
