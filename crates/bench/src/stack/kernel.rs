//! The server on the kernel's sockets: the reference of every ratio.
//!
//! The server has a blocking thread per connection: with the kernel's sockets, no other design
//! echoes faster.

use super::client::{CONGESTION_CONTROL, PIECE_BYTES};
use super::datagrams;
use super::server::{Mode, PORT};
use super::server_arguments::Arguments;
use anyhow::{Context, Result};
use os::clock::process_cpu_time;
use os::socket::set_congestion_control;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Stack of a connection's thread.
const STACK_BYTES: usize = 64 * 1024;
const ECHO_BYTES: usize = 4096;

/// Serves according to the command line until standard input ends.
pub(super) fn serve(arguments: Arguments<'_>) -> Result<()> {
    let address = arguments.address()?;
    let mode = arguments.mode()?;
    if mode.is_of_datagrams() {
        return datagrams::serve_kernel(arguments);
    }
    let spins = arguments.has("--spin");
    let listener = TcpListener::bind((address, PORT)).context("cannot listen")?;
    set_congestion_control(&listener, CONGESTION_CONTROL)?;
    thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        for stream in listener.incoming().flatten() {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            // If a connection fails or no thread can be started, the client reports an error.
            _ = thread.spawn(move || exchange(stream, mode, spins));
        }
    })?;
    let mut output = std::io::stdout();
    writeln!(output, "ready")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    writeln!(output, "{:.6}", process_cpu_time().as_secs_f64())?;
    Ok(())
}

fn exchange(mut stream: TcpStream, mode: Mode, spins: bool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(spins)?;
    let size = if mode == Mode::Echo { ECHO_BYTES } else { PIECE_BYTES };
    let mut data = vec![0; size];
    loop {
        let count = match mode {
            Mode::Source => data.len(),
            _ => match stream.read(&mut data) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            },
        };
        if mode != Mode::Sink {
            stream.write_all(data.get(..count).unwrap_or_default())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(mode: Mode, spins: bool) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        thread::spawn(move || exchange(server, mode, spins));
        client
    }

    #[test]
    fn an_echo_server_returns_received_data_with_and_without_spinning() {
        for spins in [false, true] {
            let mut client = connect(Mode::Echo, spins);
            client.write_all(b"there and back").unwrap();
            let mut answer = [0; 14];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"there and back");
        }
    }

    #[test]
    fn a_source_sends_without_a_request() {
        let mut piece = [1; 1000];
        connect(Mode::Source, false).read_exact(&mut piece).unwrap();
        assert_eq!(piece, [0; 1000]);
    }

    #[test]
    fn a_sink_sends_nothing_and_closes_after_its_client() {
        let mut client = connect(Mode::Sink, false);
        client.write_all(&[0; 100_000]).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
    }
}
