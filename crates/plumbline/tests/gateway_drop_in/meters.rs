//! The metrics of `plumb gateway`, and the files of captured packets.

use crate::host_and_guest::{
    Directory, Foreground, Guest, HOST, accept, free_port, listen, named, on_host,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use test_support::{ProgramLog, not_configured};

fn gateway(guest: &Guest, arguments: &[&str]) -> Foreground {
    let guest = format!("netns:{}", guest.namespace);
    let mut command =
        named("plumb", &[&["gateway", &guest, "--allow", "10.99.0.0/16"], arguments].concat());
    let mut gateway = Foreground(command.stderr(Stdio::piped()).spawn().unwrap());
    ProgramLog::read(gateway.0.stderr.take().unwrap()).wait_for("10.0.2.100");
    gateway
}

fn scrape(port: u16, host: &str) -> String {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(client, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn a_scrape_has_the_flows_bytes_and_refusals_of_each_guest() {
    on_host(|| {
        let guest = Guest::new();
        let port = free_port();
        let arguments = ["--metrics", &port.to_string(), "--rate", "100mbit"];
        let _gateway = gateway(&guest, &arguments);
        let (listener, address) = listen(HOST);
        let mut client = guest.connect(address).unwrap();
        client.write_all(b"question").unwrap();
        let (mut server, _) = accept(&listener);
        server.read_exact(&mut [0; 8]).unwrap();
        guest.connect(SocketAddr::from(([192, 168, 9, 9], 80))).unwrap_err();
        let response = scrape(port, "localhost");
        let name = format!("netns:{}", guest.namespace);
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        for sample in [
            "plumb_gateway_guests{} 1".to_owned(),
            format!("plumb_gateway_flows{{guest=\"{name}\",protocol=\"tcp\"}} 1"),
            format!(
                "plumb_gateway_bytes_total{{guest=\"{name}\",protocol=\"tcp\",direction=\"sent\"}} 8"
            ),
            format!(
                "plumb_gateway_refusals_total{{guest=\"{name}\",protocol=\"tcp\",reason=\"policy\"}} 1"
            ),
            format!(
                "plumb_gateway_refused_destinations_total{{guest=\"{name}\",reason=\"private\"}} 1"
            ),
            "# EOF".to_owned(),
        ] {
            assert!(response.lines().any(|line| line == sample), "{sample}: {response}");
        }
        let delay = "plumb_gateway_queue_delay_seconds";
        let delay = format!("{delay}{{guest=\"{name}\",quantile=\"0.99\"}} ");
        let delay = response.lines().find_map(|line| line.strip_prefix(&delay)).unwrap();
        assert!(delay.parse::<f64>().unwrap() >= 0.0, "{delay}");
        assert!(scrape(port, "evil.example").starts_with("HTTP/1.1 421 "));
    });
}

/// Sends a request to the control socket, and returns the reply.
fn ask(control: &str, request: &str) -> String {
    let mut client = BufReader::new(UnixStream::connect(control).unwrap());
    writeln!(client.get_mut(), "{request}").unwrap();
    let mut reply = String::new();
    client.read_line(&mut reply).unwrap();
    reply
}

fn capture_one_connection(file: &str, control: &str, guest: &Guest) -> String {
    let request = format!(r#"{{"command":"capture","file":"{file}"}}"#);
    assert_eq!(ask(control, &request), "{\"done\":true}\n");
    let (listener, address) = listen(HOST);
    let _client = guest.connect(address).unwrap();
    accept(&listener);
    assert!(ask(control, &request).contains("error"));
    let reply = ask(control, r#"{"command":"stop-capture"}"#);
    assert!(reply.starts_with("{\"captured\":{\"packets\":") && !reply.contains("failure"));
    address.port().to_string()
}

#[test]
fn the_packets_of_a_guest_are_captured_on_request() {
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("capture");
        let control = directory.path("control");
        let _gateway = gateway(&guest, &["--control", &control]);
        let file = directory.path("guest.pcapng");
        capture_one_connection(&file, &control, &guest);
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
        for (request, error) in [
            (r#"{"command":"stop-capture"}"#.to_owned(), "no packets are being captured"),
            (format!(r#"{{"command":"capture","file":"{file}"}}"#), "File exists"),
            (r#"{"command":"capture","file":"guest.pcapng"}"#.to_owned(), "must be absolute"),
            (r#"{"command":"capture","file":"/nonexistent/f"}"#.to_owned(), "No such file"),
            (
                r#"{"command":"capture","file":"/tmp/f","max_bytes":1}"#.to_owned(),
                "max_bytes must be at least",
            ),
        ] {
            let reply = ask(&control, &request);
            assert!(reply.contains("error") && reply.contains(error), "{reply}");
        }
    });
}

#[test]
fn a_capture_beyond_the_limit_of_the_size_of_files_fails_and_the_gateway_goes_on() {
    on_host(|| {
        let guest = Guest::new();
        let directory = Directory::new("capture-limit");
        let control = directory.path("control");
        let target = format!("netns:{}", guest.namespace);
        let words = ["gateway", &target, "--allow", "10.99.0.0/16", "--control", &control];
        let plumb = named("plumb", &words);
        let mut limited = Command::new("sh");
        // One block of 512 or 1024 bytes, with the signal's default action.
        limited.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]);
        limited.arg(plumb.get_program()).args(plumb.get_args()).stdin(Stdio::null());
        let mut gateway = Foreground(limited.stderr(Stdio::piped()).spawn().unwrap());
        ProgramLog::read(gateway.0.stderr.take().unwrap()).wait_for("10.0.2.100");
        let file = directory.path("guest.pcapng");
        let request = format!(r#"{{"command":"capture","file":"{file}"}}"#);
        assert_eq!(ask(&control, &request), "{\"done\":true}\n");
        let (listener, address) = listen(HOST);
        for _ in 0..10 {
            let _client = guest.connect(address).unwrap();
            accept(&listener);
        }
        let reply = ask(&control, r#"{"command":"stop-capture"}"#);
        assert!(reply.contains("\"failure\":\"") && reply.contains("too large"), "{reply}");
        let _client = guest.connect(address).unwrap();
        accept(&listener);
    });
}

#[test]
#[ignore = "needs tcpdump"]
fn tcpdump_reads_a_file_of_captured_packets() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        not_configured("tcpdump", "it is not installed");
        return;
    }
    on_host(|| {
        // A limited output takes its packets one by one, and a shared one in rounds of the guests.
        for rate in [&[][..], &["--rate", "100mbit"], &["--rate-total", "100mbit"]] {
            let guest = Guest::new();
            let directory = Directory::new("capture-tcpdump");
            let control = directory.path("control");
            let _gateway = gateway(&guest, &[&["--control", &control], rate].concat());
            let file = directory.path("guest.pcapng");
            let port = capture_one_connection(&file, &control, &guest);
            let text = crate::tcpdump(&file, &port);
            assert!(
                text.contains("10.0.2.100.") && text.contains("Flags [S.]"),
                "{rate:?}: {text}"
            );
        }
    });
}
