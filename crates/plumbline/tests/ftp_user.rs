//! `plumb` as a client of real FTP servers: Debian's vsftpd, with the resumption of TLS sessions
//! required, and pyftpdlib.
//!
//! Each test has its own network, in which the server listens at 10.0.0.1 and ::1, and its own
//! directory.

#![expect(clippy::unwrap_used, reason = "a test may fail")]
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[path = "ftp_user/alone.rs"]
mod alone;
#[path = "ftp_user/carried.rs"]
mod carried;
#[path = "ftp_user/hostile.rs"]
mod hostile;
#[path = "ftp_user/kept.rs"]
mod kept;
#[expect(dead_code, reason = "each crate of tests uses its part of the desk")]
mod login_desk;
#[expect(dead_code, reason = "each crate of tests uses its part of the server")]
mod odd_ftp;
#[path = "ftp_user/removal.rs"]
mod removal;
#[path = "ftp_user/resumed.rs"]
mod resumed;
#[path = "ftp_user/shell.rs"]
mod shell;
#[path = "ftp_user/terms.rs"]
mod terms;

use login_desk::{SERVER, in_network_of, in_new_network};
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
struct Desk {
    folder: PathBuf,
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

impl Desk {
    /// Starts a server that listens at `host`.
    fn start(kind: Kind, host: &str, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("plumb-ftp-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("root/pub/deep")).unwrap();
        fs::create_dir_all(folder.join("root/incoming")).unwrap();
        fs::create_dir_all(folder.join("empty")).unwrap();
        fs::create_dir_all(folder.join("here")).unwrap();
        for each in ["", "root", "root/pub", "root/pub/deep"] {
            fs::set_permissions(folder.join(each), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.join("root/incoming"), open).unwrap();
        for index in 0..FILES {
            fs::write(folder.join(format!("root/pub/f{index}")), content(index)).unwrap();
        }
        fs::write(folder.join("root/pub/deep/g"), content(7)).unwrap();
        let mut desk = Self { folder, server: None };
        let mut command = match kind {
            Kind::Vsftpd => desk.vsftpd(host, "NO"),
            Kind::Implicit => desk.vsftpd(host, "YES"),
            Kind::Pyftpdlib => desk.pyftpdlib(host),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        desk.server = Some(Program::start(&mut command).unwrap());
        let host = host.trim_matches(['[', ']']);
        let tries = 500;
        let is_there = (0..tries).any(|_| {
            let is_there = TcpStream::connect((host, PORT)).is_ok();
            if !is_there {
                std::thread::sleep(Duration::from_millis(20));
            }
            is_there
        });
        assert!(is_there, "the server does not start");
        desk
    }

    fn vsftpd(&self, host: &str, is_implicit: &str) -> Command {
        let made = peers::OPENSSL
            .command()
            .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3"])
            .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&self.folder)
            .output();
        assert!(made.unwrap().status.success());
        let at = self.folder.display();
        let text = format!(
            "listen=YES\nlisten_address={host}\nlisten_port={PORT}\nbackground=NO\n\
             anonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\nanon_upload_enable=YES\n\
             anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n\
             anon_root={at}/root\nno_anon_password=YES\nftp_username=games\n\
             secure_chroot_dir={at}/empty\nssl_enable=YES\nallow_anon_ssl=YES\n\
             force_anon_data_ssl=NO\nforce_anon_logins_ssl=NO\nrequire_ssl_reuse=YES\n\
             rsa_cert_file={at}/cert.pem\nrsa_private_key_file={at}/key.pem\n\
             implicit_ssl={is_implicit}\nseccomp_sandbox=NO\nisolate_network=NO\n"
        );
        let file = self.folder.join("vsftpd.conf");
        fs::write(&file, text).unwrap();
        let mut command = peers::VSFTPD.command();
        command.arg(file);
        command
    }

    fn pyftpdlib(&self, host: &str) -> Command {
        let mut command = peers::PYFTPDLIB.command();
        command.args(["-W", "ignore", "-c", PYTHON]).arg(self.folder.join("root"));
        command.args([host.trim_matches(['[', ']']), &PORT.to_string()]);
        command
    }

    /// Runs plumb in the download directory.
    fn plumb(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(arguments).current_dir(self.folder.join("here")).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", &self.folder).env("HOME", &self.folder);
        command.output().unwrap()
    }

    /// Runs plumb, checks that it succeeds, and returns its standard output.
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.plumb(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn here(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join("here").join(name)).unwrap()
    }

    fn there(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join("root").join(name)).unwrap()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(self.server.take());
        // A directory that is left behind does no harm.
        _ = fs::remove_dir_all(&self.folder);
    }
}

fn content(index: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 31 + index * 7 + at / 251) % 256).unwrap();
    (0..index * 4099 + 1).map(byte).collect()
}

/// Runs a test with a server in a network of its own.
fn meet(
    kind: Kind,
    host: &'static str,
    name: &'static str,
    test: impl FnOnce(&Desk, &str) + Send + 'static,
) {
    let network: &[&[&str]] =
        &[&["link", "set", "lo", "up"], &["address", "add", "10.0.0.1/32", "dev", "lo"]];
    in_network_of(network, move || test(&Desk::start(kind, host, name), host));
}

/// Like [`meet`], in a network with a TUN for plumb's own TCP.
fn meet_over_a_tun(
    kind: Kind,
    name: &'static str,
    test: impl FnOnce(&Desk, &str) + Send + 'static,
) {
    in_new_network(move || test(&Desk::start(kind, SERVER, name), SERVER));
}

/// Downloads, uploads, lists, renames and removes files.
fn work(desk: &Desk, url: &str) {
    desk.done(&["get", &format!("{url}/pub/f9")]);
    assert_eq!(desk.here("f9"), content(9));
    desk.done(&["put", "f9", &format!("{url}/incoming/")]);
    assert_eq!(desk.there("incoming/f9"), content(9));
    let listing = desk.done(&["ls", &format!("{url}/pub/f1*")]);
    assert_eq!(listing.lines().count(), 11, "{listing}");
    desk.done(&["mkdir", &format!("{url}/incoming/new")]);
    desk.done(&["mv", &format!("{url}/incoming/f9"), "incoming/new/x"]);
    assert_eq!(desk.there("incoming/new/x"), content(9));
    desk.done(&["rm", "-r", &format!("{url}/incoming/new")]);
    assert!(!desk.folder.join("root/incoming/new").exists());
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_worked_with_at_vsftpd_in_the_clear() {
    meet(Kind::Vsftpd, SERVER, "clear", |desk, host| work(desk, &format!("ftp://{host}:{PORT}")));
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_worked_with_at_vsftpd_in_tls() {
    meet(Kind::Vsftpd, SERVER, "tls", |desk, host| work(desk, &format!("ftpes://{host}:{PORT}")));
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_worked_with_at_vsftpd_in_tls_from_the_first_byte_on() {
    meet(Kind::Implicit, SERVER, "implicit", |desk, host| {
        work(desk, &format!("ftps://{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn thirty_files_come_in_tls_where_each_must_resume_a_session() {
    meet(Kind::Vsftpd, SERVER, "thirty", |desk, host| {
        let from = format!("ftpes://{host}:{PORT}/pub/f*");
        let told = desk.done(&["get", "--json", &from, "."]);
        assert_eq!(told.lines().count(), FILES);
        assert!(told.lines().all(|line| line.contains("\"tls_resumed\":true")), "{told}");
        assert!((0..FILES).all(|index| desk.here(&format!("f{index}")) == content(index)));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn thirty_files_go_in_tls_where_each_must_resume_a_session() {
    meet(Kind::Vsftpd, SERVER, "thirty-put", |desk, host| {
        let names: Vec<_> = (0..FILES).map(|index| format!("f{index}")).collect();
        for (index, name) in names.iter().enumerate() {
            fs::write(desk.folder.join("here").join(name), content(index)).unwrap();
        }
        let to = format!("ftpes://{host}:{PORT}/incoming/");
        let all = ["put"].into_iter().chain(names.iter().map(String::as_str)).chain([&*to]);
        desk.done(&all.collect::<Vec<_>>());
        assert!(
            (0..FILES).all(|index| desk.there(&format!("incoming/f{index}")) == content(index))
        );
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn the_server_may_connect_to_us_in_the_clear_and_in_tls() {
    meet(Kind::Vsftpd, SERVER, "active", |desk, host| {
        for (scheme, name) in [("ftp", "f3"), ("ftpes", "f4")] {
            desk.done(&["get", "--active", &format!("{scheme}://{host}:{PORT}/pub/{name}")]);
        }
        assert_eq!((desk.here("f3"), desk.here("f4")), (content(3), content(4)));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn files_are_worked_with_at_pyftpdlib_over_ipv6() {
    meet(Kind::Pyftpdlib, "[::1]", "ipv6", |desk, host| {
        work(desk, &format!("ftp://me:secret@{host}:{PORT}"));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_tree_comes_and_goes_and_is_the_same() {
    meet(Kind::Pyftpdlib, SERVER, "tree", |desk, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}");
        desk.done(&["get", "-r", "-j", "4", &format!("{url}/pub"), "."]);
        assert_eq!(desk.here("pub/deep/g"), content(7));
        assert!((0..FILES).all(|index| desk.here(&format!("pub/f{index}")) == content(index)));
        desk.done(&["put", "-r", "-j", "4", "pub", &format!("{url}/incoming/")]);
        assert_eq!(desk.there("incoming/pub/deep/g"), content(7));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_mirror_moves_what_has_changed_and_deletes_only_if_told_to() {
    meet(Kind::Pyftpdlib, SERVER, "mirror", |desk, host| {
        let from = format!("ftp://me:secret@{host}:{PORT}/pub");
        desk.done(&["mirror", &from, "pub"]);
        assert_eq!(desk.here("pub/deep/g"), content(7));
        assert_eq!(desk.done(&["mirror", "-n", &from, "pub"]), "");
        fs::write(desk.folder.join("here/pub/extra"), "x").unwrap();
        let planned = desk.done(&["mirror", "-n", "--delete", &from, "pub"]);
        assert_eq!(planned, "delete extra\n");
        desk.done(&["mirror", "--delete", &from, "pub"]);
        assert!(!desk.folder.join("here/pub/extra").exists());
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_file_that_was_broken_off_is_gone_on_with_and_pieces_make_a_whole() {
    meet(Kind::Pyftpdlib, SERVER, "resume", |desk, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f29");
        let whole = content(29);
        let part = desk.folder.join("here/f29.part");
        fs::write(&part, whole.get(..5000).unwrap()).unwrap();
        let time = fs::metadata(desk.folder.join("root/pub/f29")).unwrap().modified().unwrap();
        fs::File::options().write(true).open(&part).unwrap().set_modified(time).unwrap();
        let told = desk.done(&["get", "-c", "--json", &url]);
        // The last 4096 bytes of the partial file are transferred again for comparison.
        let again = whole.len() - 5000 + 4096;
        assert!(told.contains(&format!("\"file_bytes\":{again}")), "{told}");
        assert!(desk.here("f29") == whole && !part.exists());
        desk.done(&["get", "--segments", "4", &url, "pieces"]);
        assert!(desk.here("pieces") == whole);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn what_fails_is_said_in_one_sentence_without_the_password() {
    meet(Kind::Pyftpdlib, SERVER, "fails", |desk, host| {
        for (url, expected) in [
            (format!("ftp://me:wrongone@{host}:{PORT}/pub/f1"), "PASS"),
            (format!("ftp://me:secret@{host}:{PORT}/pub/none"), "none"),
        ] {
            let output = desk.plumb(&["get", "--tries", "1", &url]);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
            assert!(!said.contains("wrongone") && !said.contains("secret"), "{said}");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn an_upload_goes_on_behind_what_is_there() {
    meet(Kind::Pyftpdlib, SERVER, "put-on", |desk, host| {
        let whole = content(29);
        fs::write(desk.folder.join("here/f"), &whole).unwrap();
        fs::write(desk.folder.join("root/incoming/f"), whole.get(..5000).unwrap()).unwrap();
        let url = format!("ftp://me:secret@{host}:{PORT}/incoming/f");
        let told = desk.done(&["put", "-c", "--json", "f", &url]);
        assert!(told.contains(&format!("\"file_bytes\":{}", whole.len() - 5000)), "{told}");
        assert!(desk.there("incoming/f") == whole);
        let told = desk.done(&["put", "-c", "--json", "f", &url]);
        assert!(told.contains("\"complete\"") && !told.contains("\"file_bytes\""), "{told}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_mirror_upwards_says_what_it_would_do_and_does_it() {
    meet(Kind::Pyftpdlib, SERVER, "up", |desk, host| {
        let to = format!("ftp://me:secret@{host}:{PORT}/incoming/up");
        fs::create_dir_all(desk.folder.join("here/tree/deep")).unwrap();
        fs::write(desk.folder.join("here/tree/a"), content(3)).unwrap();
        fs::write(desk.folder.join("here/tree/deep/b"), content(4)).unwrap();
        let planned = desk.done(&["mirror", "--dry-run", "tree", &to]);
        assert_eq!(planned, "make deep/\nput a\nput deep/b\n");
        assert!(!desk.folder.join("root/incoming/up").exists());
        desk.done(&["mirror", "-j", "2", "tree", &to]);
        assert_eq!(desk.there("incoming/up/deep/b"), content(4));
        assert_eq!(desk.done(&["mirror", "-n", "--delete", "tree", &to]), "");
        fs::remove_dir_all(desk.folder.join("here/tree/deep")).unwrap();
        let planned = desk.done(&["mirror", "-n", "--delete", "tree", &to]);
        assert_eq!(planned, "delete deep/b\ndelete deep/\n");
        desk.done(&["mirror", "--delete", "tree", &to]);
        assert!(!desk.folder.join("root/incoming/up/deep").exists());
        assert_eq!(desk.there("incoming/up/a"), content(3));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn who_logs_in_may_stand_in_a_netrc_that_others_cannot_read() {
    meet(Kind::Pyftpdlib, SERVER, "netrc", |desk, host| {
        let netrc = desk.folder.join(".netrc");
        fs::write(&netrc, format!("machine {host} login me password secret\n")).unwrap();
        fs::set_permissions(&netrc, fs::Permissions::from_mode(0o644)).unwrap();
        let url = format!("ftp://{host}:{PORT}/pub/f2");
        let output = desk.plumb(&["get", &url]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("chmod 600"), "{said}");
        fs::set_permissions(&netrc, fs::Permissions::from_mode(0o600)).unwrap();
        desk.done(&["get", &url]);
        assert_eq!(desk.here("f2"), content(2));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn a_full_disk_here_is_said_and_so_is_a_folder_that_takes_nothing() {
    meet(Kind::Pyftpdlib, SERVER, "full", |desk, host| {
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f29");
        let script = "mount -t tmpfs -o size=64k none here && cd here && exec \"$0\" get \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_plumb"), &url]);
        command.current_dir(&desk.folder).env("HOME", &desk.folder).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(
            said.contains("the disk is full: make room") && said.lines().count() == 1,
            "{said}"
        );
        let output = desk.plumb(&["get", &url, "-o", "/sys/kernel/f29"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(said.contains("cannot write /sys/kernel/f29"), "{said}");
    });
}
