//! An echo server over plumbline's own TCP/IP on a TUN. Root creates the TUN once:
//!
//! ```text
//! sudo ip tuntap add dev plumb0 mode tun user $USER
//! sudo ip address add 10.82.0.1/24 dev plumb0
//! sudo ip link set plumb0 up
//! cargo run --release -p examples --bin echo_server
//! ```
//!
//! Then, in another terminal: `nc 10.82.0.2 7` or `busybox nc 10.82.0.2 7`.
use net::station::Settings;
use os::device::Device;
use os::host::{Host, Stream};
use os::tun::{Options, Tun};
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Err(error) = serve().await else { return ExitCode::SUCCESS };
    eprintln!("echo_server: {error}");
    ExitCode::FAILURE
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let offloading = Options { is_offloading: true, ..Options::default() };
    let tun = Tun::open_with(Some("plumb0"), offloading)?;
    let address = Ipv4Addr::new(10, 82, 0, 2);
    let settings = Settings { address, prefix_len: 24, packets: 256, ..Settings::default() };
    let host = Host::new(Device::Tun(tun), 1500, settings)?;
    let listener = host.listen(7)?;
    eprintln!("echo_server: listening on {address}, port {}", listener.port());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream));
    }
}

async fn echo(mut stream: Stream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(65_536);
    while stream.read_buf(&mut buffer).await? > 0 {
        stream.write_all(&buffer).await?;
        buffer.clear();
    }
    stream.shutdown().await
}
