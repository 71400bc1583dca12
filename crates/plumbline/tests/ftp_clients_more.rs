//! Tests of `plumb serve --ftp` with more FTP clients of other projects in their default settings:
//! ncftp, rclone, aria2, basic-ftp (Node.js) and commons-net (Java). `./x test --long` installs and
//! runs these clients. The clients in `ftp_clients.rs` are part of every test run.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]

#[expect(dead_code, reason = "each test program uses a part of it")]
mod ftp_harness;
mod ftp_trees;
#[expect(dead_code, reason = "each test program uses a part of it")]
mod login_harness;

use ftp_harness::{Server, TestDirectories};
use ftp_trees::{check_tree, make_tree, noise, text};
use std::fs;
use std::process::Command;
use test_support::peers;

/// Runs a client in the local directory, and checks that it succeeds.
fn run_ok(directories: &TestDirectories, mut client: Command) {
    let output = client
        .current_dir(directories.local_path(""))
        .env("HOME", directories.local_path(""))
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{client:?}: {messages}");
}

#[test]
#[ignore = "needs ncftp"]
fn ncftp_resumes_a_download_appends_and_copies_directories_both_ways() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    let port = server.port.to_string();
    let address_options = ["-P", &port, "127.0.0.1"];
    let client = |peer: peers::Peer, options: &[&str], names: &[&str]| {
        let mut command = peer.command();
        command.args(options).args(address_options).args(names);
        run_ok(&directories, command);
    };
    fs::write(directories.remote_path("down"), text(300_000)).unwrap();
    fs::write(directories.local_path("down"), &text(300_000)[..123_456]).unwrap();
    client(peers::NCFTPGET, &["-z"], &[".", "/down"]);
    assert!(fs::read(directories.local_path("down")).unwrap() == text(300_000));
    // Uploads are not resumed: with every server, ncftpput 3.2.6 sends the whole file after REST.
    fs::write(directories.local_path("up"), text(300_000)).unwrap();
    client(peers::NCFTPPUT, &[], &["/", "up"]);
    assert!(fs::read(directories.remote_path("up")).unwrap() == text(300_000));
    fs::write(directories.local_path("log"), "tail").unwrap();
    fs::write(directories.remote_path("log"), "head ").unwrap();
    client(peers::NCFTPPUT, &["-A"], &["/", "log"]);
    assert_eq!(fs::read_to_string(directories.remote_path("log")).unwrap(), "head tail");
    make_tree(&directories.remote_path("tree"));
    make_tree(&directories.local_path("own"));
    client(peers::NCFTPGET, &["-R"], &[".", "/tree"]);
    client(peers::NCFTPPUT, &["-R", "-m"], &["/", "own"]);
    check_tree(&directories.local_path("tree"));
    check_tree(&directories.remote_path("own"));
}

/// Returns a command that runs rclone with this server as its remote `there:`.
fn rclone(server: &Server, in_tls: bool) -> Command {
    let mut command = peers::RCLONE.command();
    command.env("RCLONE_CONFIG_THERE_TYPE", "ftp").env("RCLONE_CONFIG_THERE_HOST", "127.0.0.1");
    command.env("RCLONE_CONFIG_THERE_PORT", server.port.to_string());
    command.env("RCLONE_CONFIG_THERE_USER", "anonymous");
    // "anonymous" in the form in which rclone obscures passwords.
    let password = peers::RCLONE.command().args(["obscure", "anonymous"]).output().unwrap().stdout;
    let password = String::from_utf8(password).unwrap();
    command.env("RCLONE_CONFIG_THERE_PASS", password.trim());
    if in_tls {
        command.env("RCLONE_CONFIG_THERE_EXPLICIT_TLS", "true");
        command.env("RCLONE_CONFIG_THERE_NO_CHECK_CERTIFICATE", "true");
    }
    command.args(["--retries", "1", "--low-level-retries", "1"]);
    command
}

#[test]
#[ignore = "needs rclone"]
fn rclone_copies_trees_both_ways_and_finds_them_equal() {
    for in_tls in [false, true] {
        let directories = TestDirectories::new();
        let server = Server::writable(&directories, "127.0.0.1", &[]);
        make_tree(&directories.remote_path("tree"));
        make_tree(&directories.local_path("own"));
        for words in [
            ["sync", "there:tree", "tree"],
            ["sync", "own", "there:own"],
            ["check", "own", "there:own"],
            ["move", "there:tree/deep", "there:moved"],
        ] {
            let mut command = rclone(&server, in_tls);
            command.args(words);
            run_ok(&directories, command);
        }
        check_tree(&directories.local_path("tree"));
        check_tree(&directories.remote_path("own"));
        assert!(fs::read(directories.remote_path("moved/noise")).unwrap() == noise(70_000));
    }
}

#[test]
#[ignore = "needs aria2"]
fn aria2_downloads_a_file_over_four_connections_and_resumes_it() {
    let directories = TestDirectories::new();
    let server = Server::writable(&directories, "127.0.0.1", &[]);
    fs::write(directories.remote_path("file"), text(8_000_000)).unwrap();
    fs::write(directories.remote_path("half"), text(8_000_000)).unwrap();
    fs::write(directories.local_path("half"), &text(8_000_000)[..3_000_000]).unwrap();
    for (options, name) in [
        (["--max-connection-per-server=4", "--min-split-size=1M"], "file"),
        (["--continue=true", "--max-tries=1"], "half"),
    ] {
        let mut command = peers::ARIA2.command();
        command.args(options).args(["--max-tries=1", "--no-conf"]);
        command.arg(server.url("127.0.0.1", name));
        run_ok(&directories, command);
        assert!(fs::read(directories.local_path(name)).unwrap() == text(8_000_000), "{name}");
    }
}

const BASIC_FTP: &str = r#"
const ftp = require(process.argv[1]), fs = require("fs");
const port = Number(process.argv[2]), secure = { no: false, yes: true }[process.argv[3]];
(async () => {
    const client = new ftp.Client();
    const secureOptions = { rejectUnauthorized: false };
    await client.access({ host: "127.0.0.1", port, secure, secureOptions });
    await client.downloadToDir("tree", "tree");
    await client.uploadFromDir("own", "own");
    await client.appendFrom("tail", "log");
    await client.downloadTo("down", "down", 123456);
    const size = await client.size("down");
    if (size != 300000) throw new Error("SIZE is " + size);
    client.close();
})().catch(error => { console.error(error); process.exit(1); });
"#;

#[test]
#[ignore = "needs basic-ftp"]
fn basic_ftp_copies_trees_both_ways_appends_and_resumes() {
    for secure in ["no", "yes"] {
        let directories = TestDirectories::new();
        let server = Server::writable(&directories, "127.0.0.1", &[]);
        prepare(&directories);
        let mut command = peers::NODE.command();
        command.args(["-e", BASIC_FTP]).arg(peers::BASIC_FTP.path());
        command.args([&server.port.to_string(), secure]);
        run_ok(&directories, command);
        check(&directories);
    }
}

const COMMONS_NET: &str = r#"
import java.io.*;
import java.nio.file.*;
import org.apache.commons.net.ftp.*;
import org.apache.commons.net.util.TrustManagerUtils;

public class Client {
    static FTPClient ftp;

    static void check(boolean done, String what) throws IOException {
        if (!done) throw new IOException(what + ": " + ftp.getReplyString());
    }

    static void down(String there, Path here) throws IOException {
        Files.createDirectories(here);
        for (FTPFile file : ftp.listFiles(there)) {
            String name = there + "/" + file.getName();
            Path to = here.resolve(file.getName());
            if (file.isDirectory()) {
                down(name, to);
                continue;
            }
            try (OutputStream out = Files.newOutputStream(to)) {
                check(ftp.retrieveFile(name, out), name);
            }
            check(Files.size(to) == file.getSize(), "the size of " + name);
        }
    }

    static void up(Path here, String there) throws IOException {
        check(ftp.makeDirectory(there), there);
        for (File file : here.toFile().listFiles()) {
            String name = there + "/" + file.getName();
            if (file.isDirectory()) {
                up(file.toPath(), name);
                continue;
            }
            try (InputStream in = new FileInputStream(file)) {
                check(ftp.storeFile(name, in), name);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[1].equals("yes")) {
            FTPSClient secure = new FTPSClient(false);
            secure.setTrustManager(TrustManagerUtils.getAcceptAllTrustManager());
            ftp = secure;
        } else {
            ftp = new FTPClient();
        }
        ftp.connect("127.0.0.1", Integer.parseInt(arguments[0]));
        check(ftp.login("anonymous", "a@b"), "login");
        if (ftp instanceof FTPSClient) {
            ((FTPSClient) ftp).execPBSZ(0);
            ((FTPSClient) ftp).execPROT("P");
        }
        ftp.enterLocalPassiveMode();
        check(ftp.setFileType(FTP.BINARY_FILE_TYPE), "TYPE");
        down("tree", Paths.get("tree"));
        up(Paths.get("own"), "own");
        try (InputStream in = new FileInputStream("tail")) {
            check(ftp.appendFile("log", in), "APPE");
        }
        ftp.setRestartOffset(123456);
        try (OutputStream out = new FileOutputStream("down", true)) {
            check(ftp.retrieveFile("down", out), "RETR");
        }
        check(ftp.getSize("down").equals("300000"), "SIZE");
        ftp.logout();
        ftp.disconnect();
    }
}
"#;

#[test]
#[ignore = "needs commons-net"]
fn commons_net_copies_trees_both_ways_appends_and_resumes() {
    for secure in ["no", "yes"] {
        let directories = TestDirectories::new();
        // FTPSClient does not resume TLS sessions.
        let reuse = secure == "no";
        let lines = format!("rights = \"writable\"\nrequires-session-reuse = {reuse}\n");
        let server = Server::configured(&directories, &lines, &[]);
        prepare(&directories);
        fs::write(directories.local_path("Client.java"), COMMONS_NET).unwrap();
        let mut command = peers::JAVA.command();
        command.arg("--class-path").arg(peers::COMMONS_NET.path());
        command.args(["Client.java", &server.port.to_string(), secure]);
        run_ok(&directories, command);
        check(&directories);
    }
}

/// Creates the files that the library clients copy.
fn prepare(directories: &TestDirectories) {
    make_tree(&directories.remote_path("tree"));
    make_tree(&directories.local_path("own"));
    fs::write(directories.local_path("tail"), "tail").unwrap();
    fs::write(directories.remote_path("log"), "head ").unwrap();
    fs::write(directories.remote_path("down"), text(300_000)).unwrap();
    fs::write(directories.local_path("down"), &text(300_000)[..123_456]).unwrap();
}

/// Checks the files that the library clients have copied.
fn check(directories: &TestDirectories) {
    check_tree(&directories.local_path("tree"));
    check_tree(&directories.remote_path("own"));
    assert_eq!(fs::read_to_string(directories.remote_path("log")).unwrap(), "head tail");
    assert!(fs::read(directories.local_path("down")).unwrap() == text(300_000));
}
