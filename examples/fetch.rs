//! Fetches a page over plumbline's own TCP/IP on a TUN. The `echo_server` example has the commands
//! that create the TUN:
//!
//! ```text
//! busybox httpd -f -p 10.82.0.1:80 -h /usr/share/common-licenses &
//! cargo run --release -p examples --bin fetch -- 10.82.0.1:80 /GPL-2
//! ```
use net::station::Settings;
use os::device::Device;
use os::host::Host;
use os::tun::{Options, Tun};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().and_then(|server| server.parse().ok());
    let path = arguments.next().unwrap_or_else(|| "/".to_owned());
    let Some(server) = server else {
        eprintln!("usage: fetch ADDRESS:PORT [PATH], for example fetch 10.82.0.1:80 /");
        return ExitCode::from(2);
    };
    let Err(error) = fetch(server, &path).await else { return ExitCode::SUCCESS };
    eprintln!("fetch: {error}");
    ExitCode::FAILURE
}

async fn fetch(server: SocketAddr, path: &str) -> Result<(), Box<dyn Error>> {
    let offloading = Options { is_offloading: true, ..Options::default() };
    let tun = Tun::open_with(Some("plumb0"), offloading)?;
    let address = Ipv4Addr::new(10, 82, 0, 2);
    let settings = Settings { address, prefix_len: 24, packets: 256, ..Settings::default() };
    let host = Host::new(Device::Tun(tun), 1500, settings)?;

    let mut stream = host.connect(server).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", server.ip());
    stream.write_all(request.as_bytes()).await?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).await?;
    std::io::stdout().write_all(&page)?;

    let status = stream.status()?;
    let counted = status.statistics;
    let rtt = status.srtt.unwrap_or_default();
    let bytes = counted.bytes_in;
    let segments = counted.segments_in;
    let again = counted.retransmissions;
    eprintln!("{bytes} bytes in {segments} segments, round trip {rtt:?}, {again} sent again");
    Ok(())
}
