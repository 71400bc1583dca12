//! Fetches a page over our own TCP/IP on a TUN: `fetch 10.82.0.1:80 /index.html`.
//!
//! The TUN is the one of `echo_server`; a server of pages listens on the address of its interface:
//! `busybox httpd -f -p 10.82.0.1:80 -h /usr/share/doc`.
use os::device::Device;
use os::host::Host;
use os::tun::{Options, Tun};
use protocols::station::Settings;
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server: SocketAddr = arguments.next().ok_or("usage: fetch ADDRESS:PORT [PATH]")?.parse()?;
    let path = arguments.next().unwrap_or_else(|| "/".to_owned());
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
    eprintln!(
        "{} bytes in {} segments, round trip {:?}, {} sent again",
        status.statistics.bytes_in,
        status.statistics.segments_in,
        status.srtt.unwrap_or_default(),
        status.statistics.retransmissions,
    );
    Ok(())
}
