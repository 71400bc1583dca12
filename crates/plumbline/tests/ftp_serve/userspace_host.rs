//! Tests of FTP and TFTP with `plumb serve --via tun:`. The servers use plumb's own TCP/IP. The
//! clients use the kernel's TCP/IP in a separate network namespace.

use crate::ftp_harness::{TestDirectories, pattern};
use crate::login_harness::{TerminalUser, in_new_network};
use net::time::Duration;
use os::process::Program;
use ring::digest::{SHA256, digest};
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use test_support::ProgramLog;

/// Address of plumb's host on the TUN.
const OURS: &str = "10.0.0.2";
const FTP: &str = "ftp://10.0.0.2:2121/";

struct ServeProcess {
    program: Program,
    log: ProgramLog,
}

impl ServeProcess {
    /// Starts FTP, FTP over TLS and TFTP servers for the directory `there`, writable.
    fn start(directories: &TestDirectories, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["serve", "--via", "tun:plumb0", "--writable", "--root"]);
        command.arg(directories.remote_path("")).args(["--ftp", "--ftp-listen", "[::]:2121"]);
        command.args(["--ftp-listen-tls", "[::]:2990", "--tftp", "--tftp-listen", "[::]:6969"]);
        command
            .args(more)
            .env("XDG_STATE_HOME", directories.0.join("state"))
            .stderr(Stdio::piped());
        let mut program = Program::start(&mut command).unwrap();
        let log = ProgramLog::read(program.child().stderr.take().unwrap());
        let process = Self { program, log };
        process.wait_for_output("serving TFTP at UDP port 6969 of plumb's own TCP/IP stack");
        process.wait_for_output("serving FTP at port 2990 of plumb's own TCP/IP stack, with TLS");
        process
    }

    fn wait_for_output(&self, text: &str) {
        self.log.wait_for(text);
    }
}

fn sha256(path: &Path) -> Vec<u8> {
    digest(&SHA256, &fs::read(path).unwrap()).as_ref().to_vec()
}

/// Uploads and downloads a file with curl and these options, and compares the digests.
fn transfer_with_curl(directories: &TestDirectories, url: &str, options: &[&str], len: usize) {
    let run = |more: &[&str]| {
        let words = [&["-sS", "--max-time", "60", "-k"], options, more].concat();
        directories.run_client_ok("curl", &words, "");
    };
    fs::write(directories.local_path("up"), pattern(len)).unwrap();
    let url = format!("{url}file");
    run(&["-T", "up", &url]);
    run(&["-o", "down", &url]);
    let digests = [
        directories.local_path("up"),
        directories.remote_path("file"),
        directories.local_path("down"),
    ]
    .map(|at| sha256(&at));
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{options:?}");
    fs::remove_file(directories.remote_path("file")).unwrap();
}

#[test]
#[ignore = "needs root or a user namespace, and curl"]
fn curl_transfers_files_over_userspace_tcp_in_every_mode() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let _served = ServeProcess::start(&directories, &[]);
        // PASV, EPSV, PORT, EPRT. This curl cannot listen in TLS; the test with lftp covers that.
        for options in [
            &["--disable-epsv"][..],
            &[],
            &["-P", "-", "--disable-eprt"],
            &["-P", "-"],
            &["--disable-epsv", "--ssl-reqd"],
            &["--ssl-reqd"],
        ] {
            transfer_with_curl(&directories, FTP, options, 3_000_000);
        }
        transfer_with_curl(&directories, "ftps://10.0.0.2:2990/", &["--ssl-reqd"], 300_000);
        for len in [0, 1, 1000, 300_000] {
            transfer_with_curl(&directories, FTP, &[], len);
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and lftp"]
fn lftp_mirrors_a_tree_over_userspace_tcp() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let _served = ServeProcess::start(&directories, &[]);
        fs::create_dir_all(directories.local_path("tree/deep")).unwrap();
        fs::write(directories.local_path("tree/large"), pattern(5_000_000)).unwrap();
        for number in 0..40 {
            fs::write(
                directories.local_path(&format!("tree/deep/{number}")),
                pattern(number * 321),
            )
            .unwrap();
        }
        let tls = "set ftp:ssl-force yes; set ftp:ssl-protect-data yes";
        for settings in [
            "set ftp:ssl-allow no",
            "set ftp:ssl-allow no; set ftp:passive-mode no",
            tls,
            &format!("{tls}; set ftp:passive-mode no"),
        ] {
            let script = format!(
                "{settings}; set ssl:verify-certificate no; set ftp:ssl-allow-anonymous yes; \
                 set net:max-retries 1; set cmd:fail-exit yes; open ftp://{OURS}:2121; \
                 mirror -P 4 -R tree remote; mirror -P 4 remote back; rm -r remote; quit"
            );
            directories.run_client_ok("lftp", &["-c", &script], "");
            for name in ["large", "deep/0", "deep/1", "deep/39"] {
                let [sent, back] = ["tree", "back"].map(|directory| format!("{directory}/{name}"));
                assert_eq!(
                    sha256(&directories.local_path(&sent)),
                    sha256(&directories.local_path(&back)),
                    "{name}"
                );
            }
            fs::remove_dir_all(directories.local_path("back")).unwrap();
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, and tftp-hpa"]
fn tftp_hpa_transfers_files_over_userspace_udp() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let _served = ServeProcess::start(&directories, &[]);
        for len in [0, 511, 512, 100_000] {
            fs::write(directories.local_path("up"), pattern(len)).unwrap();
            let words = ["-m", "binary", OURS, "6969", "-c"];
            directories.run_client_ok("tftp", &[&words[..], &["put", "up", "file"]].concat(), "");
            directories.run_client_ok("tftp", &[&words[..], &["get", "file", "down"]].concat(), "");
            let digests = [
                directories.local_path("up"),
                directories.remote_path("file"),
                directories.local_path("down"),
            ];
            let digests = digests.map(|at| sha256(&at));
            assert!(digests.iter().all(|digest| *digest == digests[0]), "{len}");
            fs::remove_file(directories.remote_path("file")).unwrap();
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_broadcast_tftp_request_is_not_answered() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let server = ServeProcess::start(&directories, &[]);
        fs::write(directories.remote_path("file"), b"text").unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::new(10, 0, 0, 1), 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let request = |name: &str| [&[0, 1], name.as_bytes(), b"\0octet\0"].concat();
        socket.send_to(&request("file"), "10.0.0.255:6969").unwrap();
        // The device preserves order, so an answer to the broadcast would arrive before the answer
        // to this request.
        socket.send_to(&request("missing"), (OURS, 6969)).unwrap();
        let mut room = [0; 600];
        let (count, _) = socket.recv_from(&mut room).unwrap();
        assert_eq!(room[..4], [0, 5, 0, 1], "{:?}", &room[..count]);
        server.wait_for_output("'missing'");
        assert!(server.log.count("'file'") == 0);
    });
}

#[test]
#[ignore = "needs root or a user namespace, and curl"]
fn logins_and_files_share_one_userspace_host() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let options = ["--listen", "[::]:2323", "--tls", "off", "--exec", "echo", "logged in"];
        let server = ServeProcess::start(&directories, &options);
        server.wait_for_output("listening on port 2323 of plumb's own TCP/IP stack");
        transfer_with_curl(&directories, FTP, &[], 100_000);
        TerminalUser::with_arguments(&[OURS, "2323"]).wait_for_text("logged in");
    });
}

#[test]
#[ignore = "needs root or a user namespace"]
fn a_file_server_on_a_userspace_host_ends_with_its_device() {
    in_new_network(|| {
        let directories = TestDirectories::new();
        let mut server = ServeProcess::start(&directories, &[]);
        test_support::ip(&["link", "delete", "plumb0"]);
        let end_status = server.program.wait_for_end(Duration::from_secs(10)).unwrap();
        assert_eq!(end_status.unwrap().code(), Some(4));
    });
}
