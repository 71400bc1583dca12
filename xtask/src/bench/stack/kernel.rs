//! The server on the kernel's sockets: the peer that every ratio is taken to.
//!
//! A thread for each connection, which blocks: that is the fastest echo of the kernel's.

use super::client::{CONGESTION_CONTROL, PIECE_BYTES};
use super::server::{Mode, PORT};
use anyhow::{Context, Result};
use os::clock::process_cpu_time;
use os::socket::set_congestion_control;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// A thread needs no more stack than this.
const STACK_BYTES: usize = 64 * 1024;
const ECHO_BYTES: usize = 4096;

/// Serves as the command line says, until standard input ends.
pub(super) fn serve(arguments: &[&str]) -> Result<()> {
    let value = |name: &str| {
        let at = arguments.iter().position(|word| *word == name)?;
        arguments.get(at + 1).copied()
    };
    let address: Ipv4Addr = value("--address").context("--address is missing")?.parse()?;
    let mode = value("--mode").and_then(Mode::named).context("--mode is missing")?;
    let spins = arguments.contains(&"--spin");
    let listener = TcpListener::bind((address, PORT)).context("cannot listen")?;
    set_congestion_control(&listener, CONGESTION_CONTROL)?;
    thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        for stream in listener.incoming().flatten() {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            // A connection that ends, or gets no thread, is the client's to report.
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
            Mode::Sink | Mode::Echo => match stream.read(&mut data) {
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
