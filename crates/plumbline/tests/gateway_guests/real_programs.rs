//! Programs of Debian as guests: each one uses the gateway as it would use a real network.

use super::gateway_harness::{
    ALLOW_HOST, Gateway, Guest, HOST, TestFile, in_host_network, listen, test_data, wait_for_ipv6,
    with_mount,
};
use super::sha256;
use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use test_support::{peers, poll_until_timeout};

/// A server on the host, which is killed at the end.
struct Server(std::process::Child);

impl Server {
    /// Starts `command`, and waits until it accepts connections at `port`.
    fn start(mut command: Command, port: u16) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().unwrap());
        poll_until_timeout(|| TcpStream::connect((HOST, port)).ok());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if the server has ended already.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn unused_port() -> u16 {
    listen(HOST).1.port()
}

/// Starts the Web server of busybox for a directory, and returns its port.
fn web_server(directory: &TestFile) -> (Server, u16) {
    let port = unused_port();
    let mut command = peers::BUSYBOX.command();
    command.args(["httpd", "-f", "-p", &format!("{HOST}:{port}"), "-h", directory.path()]);
    (Server::start(command, port), port)
}

/// Starts a DNS server, a gateway that asks it, and a file with which programs of the guest ask the
/// gateway.
fn name_service(guest: &Guest) -> (Server, Gateway, TestFile) {
    let mut command = peers::DNSMASQ.command();
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts"]);
    command.args(["--listen-address=10.99.0.1", "--bind-interfaces", "--user=root", "--pid-file="]);
    command.arg("--address=/www.example.test/10.99.0.1");
    command.arg("--address=/www.example.test/fd99::1");
    let text = format!("--txt-record=long.example.test{}", ",0123456789abcdef".repeat(120));
    command.arg(text);
    let server = Server::start(command, 53);
    let resolvers = TestFile::new("resolv", b"nameserver 10.99.0.1\n");
    let gateway = Gateway::start_with_resolvers(guest, &resolvers, &ALLOW_HOST);
    (server, gateway, TestFile::new("guest-resolv", b"nameserver 10.0.2.3\n"))
}

#[test]
#[ignore = "needs root or a user namespace, curl, dnsmasq and busybox"]
fn curl_finds_a_server_by_its_name_and_downloads_a_file() {
    in_host_network(|| {
        let guest = Guest::new();
        let (_names, _gateway, resolv_conf) = name_service(&guest);
        let directory = TestFile::directory("web");
        let file = test_data(8_000_000, 1);
        fs::write(directory.join("file"), &file).unwrap();
        let (_server, port) = web_server(&directory);
        let mut curl = peers::CURL.command();
        curl.args(["-sS", "--fail", "--noproxy", "*", "-m", "120"]);
        curl.arg(format!("http://www.example.test:{port}/file"));
        let received = guest.stdout(with_mount(&resolv_conf, "/etc/resolv.conf", &curl));
        assert_eq!(sha256(&received), sha256(&file));
    });
}

#[test]
#[ignore = "needs root or a user namespace, dig and dnsmasq"]
fn dig_gets_addresses_and_a_long_response_by_tcp() {
    in_host_network(|| {
        let guest = Guest::new();
        let (_names, _gateway, _) = name_service(&guest);
        wait_for_ipv6(&guest);
        let dig = |arguments: &[&str]| {
            let mut command = peers::DIG.command();
            command.args(arguments).args(["+short", "+tries=1", "+time=10"]);
            String::from_utf8(guest.stdout(command)).unwrap()
        };
        assert_eq!(dig(&["@10.0.2.3", "www.example.test"]), "10.99.0.1\n");
        assert_eq!(dig(&["@10.0.2.3", "www.example.test", "AAAA"]), "fd99::1\n");
        assert_eq!(dig(&["@fd00::3", "www.example.test"]), "10.99.0.1\n");
        assert_eq!(dig(&["@10.0.2.3", "+tcp", "www.example.test"]), "10.99.0.1\n");
        let long = dig(&["@10.0.2.3", "+bufsize=512", "long.example.test", "TXT"]);
        assert_eq!(long.matches("0123456789abcdef").count(), 120);
        let mut missing = peers::DIG.command();
        missing.args(["@10.0.2.3", "none.example.test"]);
        let text = String::from_utf8(guest.stdout(missing)).unwrap();
        assert!(text.contains("status: REFUSED") || text.contains("status: NXDOMAIN"), "{text}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, dropbear and ssh"]
fn ssh_runs_a_program_on_the_host_and_copies_in_both_directions() {
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        let directory = TestFile::directory("ssh");
        let [host_key, key] = ["host", "key"].map(|name| directory.join(name));
        run("dropbearkey", &["-t", "ed25519", "-f", &host_key]);
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &key]);
        fs::create_dir(directory.join(".ssh")).unwrap();
        fs::copy(directory.join("key.pub"), directory.join(".ssh/authorized_keys")).unwrap();
        run("chmod", &["-R", "go=", directory.path()]);
        let passwd = format!("root::0:0:root:{}:/bin/sh\n", directory.path());
        let passwd = TestFile::new("passwd", passwd.as_bytes());
        let port = unused_port();
        let mut dropbear = peers::DROPBEAR.command();
        let at = format!("{HOST}:{port}");
        dropbear.args(["-F", "-m", "-s", "-r", &host_key, "-p", &at, "-P", &directory.join("pid")]);
        let _server = Server::start(with_mount(&passwd, "/etc/passwd", &dropbear), port);
        let sent = TestFile::new("sent", &test_data(3_000_000, 1));
        let mut ssh = peers::SSH.command();
        ssh.args(["-F", "none", "-p", &port.to_string(), "-i", &key]);
        ssh.args(["-o", "StrictHostKeyChecking=no", "-o", "BatchMode=yes"]);
        ssh.args(["-o", &format!("UserKnownHostsFile={}", directory.join("known")), "-l", "root"]);
        ssh.arg(HOST.to_string()).arg("cat; echo $SSH_CONNECTION >&2");
        let mut shell = Command::new("sh");
        shell.args(["-c", "file=$1; shift; exec \"$@\" < \"$file\"", "sh", sent.path()]);
        shell.arg(ssh.get_program()).args(ssh.get_args());
        let output = guest.output(shell);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert_eq!(sha256(&output.stdout), sha256(&fs::read(&sent.0).unwrap()));
        // The server sees a connection of the host.
        assert!(errors.contains("10.99.0.1"), "{errors}");
    });
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
}

/// Runs a test of iperf3, and returns the member `name` of the sum in its report.
fn iperf3(guest: &Guest, arguments: &[&str], sum: &str) -> serde_json::Value {
    let port = unused_port();
    let mut server = peers::IPERF3.command();
    server.args(["-s", "-1", "-B", &HOST.to_string(), "-p", &port.to_string()]);
    server.stdin(Stdio::null()).stdout(Stdio::null());
    let server = Server(server.spawn().unwrap());
    // A connection to see whether the server listens would be its test.
    poll_until_timeout(|| is_listening(port).then_some(()));
    let mut client = peers::IPERF3.command();
    client.args(["-c", &HOST.to_string(), "-p", &port.to_string(), "--json"]).args(arguments);
    let report: serde_json::Value = serde_json::from_slice(&guest.stdout(client)).unwrap();
    drop(server);
    report["end"][sum].clone()
}

/// Returns whether a TCP socket of the host listens at `port`.
fn is_listening(port: u16) -> bool {
    let text = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let port = format!(":{port:04X}");
    text.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&port)) && words.nth(1) == Some("0A")
    })
}

#[test]
#[ignore = "needs root or a user namespace, and iperf3"]
fn iperf3_sends_and_receives_by_tcp_and_udp() {
    const LEN: u64 = 64 << 20;
    in_host_network(|| {
        let guest = Guest::new();
        let _gateway = Gateway::start(&guest, &ALLOW_HOST);
        let bytes = LEN.to_string();
        // iperf3 ends when the data is sent, and the receiver may have read less.
        let sent = iperf3(&guest, &["-n", &bytes], "sum_sent");
        assert!(sent["bytes"].as_u64().unwrap() >= LEN, "{sent}");
        let received = iperf3(&guest, &["-n", &bytes, "-R"], "sum_received");
        assert!(received["bytes"].as_u64().unwrap() >= LEN, "{received}");
        let parallel = iperf3(&guest, &["-n", &bytes, "-P", "8"], "sum_sent");
        assert!(parallel["bytes"].as_u64().unwrap() >= LEN, "{parallel}");
        // No more datagrams than the buffer of a socket contains, so that none is lost. The
        // server may send more than it is asked for: it learns late that the test has ended.
        for direction in [&[][..], &["-R"]] {
            let arguments = [&["-u", "-k", "60", "-l", "1000", "-b", "8M"], direction].concat();
            let udp = iperf3(&guest, &arguments, "sum");
            assert!(udp["packets"].as_u64().unwrap() >= 60, "{udp}");
            assert_eq!(udp["lost_packets"], 0, "{udp}");
        }
    });
}

#[test]
#[ignore = "needs root or a user namespace, apt-get, dnsmasq and busybox"]
fn apt_get_updates_its_lists_and_downloads_a_package() {
    in_host_network(|| {
        let guest = Guest::new();
        let (_names, _gateway, resolv_conf) = name_service(&guest);
        let repository = TestFile::directory("repository");
        let package = build_package(&repository);
        let (_server, port) = web_server(&repository);
        let client = TestFile::directory("apt");
        for directory in ["lists/partial", "archives/partial", "parts"] {
            fs::create_dir_all(client.join(directory)).unwrap();
        }
        let source = format!("deb [trusted=yes] http://www.example.test:{port}/ ./\n");
        fs::write(client.join("sources.list"), source).unwrap();
        fs::write(client.join("status"), "").unwrap();
        let settings = [
            ("Dir::Etc::sourcelist", client.join("sources.list")),
            ("Dir::Etc::sourceparts", client.join("parts")),
            ("Dir::State::lists", client.join("lists")),
            ("Dir::State::status", client.join("status")),
            ("Dir::Cache", client.path().to_owned()),
            ("Dir::Cache::archives", client.join("archives")),
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::http::Proxy", "DIRECT".to_owned()),
            ("Acquire::Retries", "0".to_owned()),
        ];
        let settings = settings.map(|(name, value)| format!("-o{name}={value}"));
        let apt_get = |command: &[&str]| {
            let mut apt_get = peers::APT_GET.command();
            apt_get.args(&settings).args(command);
            let mounted = with_mount(&resolv_conf, "/etc/resolv.conf", &apt_get);
            let mut shell = Command::new("sh");
            shell.args(["-c", "cd \"$0\" && exec \"$@\"", client.path()]);
            shell.arg(mounted.get_program()).args(mounted.get_args());
            guest.stdout(shell)
        };
        apt_get(&["update"]);
        apt_get(&["download", "plumb-gateway-test"]);
        let files = fs::read_dir(&client.0).unwrap().map(|file| file.unwrap().path());
        let downloaded = files.into_iter().find(|file| file.extension() == Some("deb".as_ref()));
        assert_eq!(sha256(&fs::read(downloaded.unwrap()).unwrap()), sha256(&package));
    });
}

/// Builds a package with the index of its repository, and returns its file.
fn build_package(repository: &TestFile) -> Vec<u8> {
    let tree = TestFile::directory("package");
    let control = "Package: plumb-gateway-test\nVersion: 1\nArchitecture: all\n\
                   Maintainer: nobody <nobody@example.test>\nDescription: test\n";
    fs::create_dir(tree.join("DEBIAN")).unwrap();
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    fs::write(tree.join("data"), test_data(500_000, 1)).unwrap();
    let file = repository.join("test.deb");
    run("dpkg-deb", &["--build", "--root-owner-group", tree.path(), &file]);
    let package = fs::read(&file).unwrap();
    let len = package.len();
    let index = format!("{control}Filename: test.deb\nSize: {len}\nSHA256: {}\n", sha256(&package));
    fs::write(repository.join("Packages"), index).unwrap();
    package
}
