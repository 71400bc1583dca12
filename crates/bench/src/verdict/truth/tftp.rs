//! A TFTP client that downloads a file: RFC 1350 with the options blksize (RFC 2348) and windowsize
//! (RFC 7440), which the server may ignore. `plumb get` uses the same options.

use super::super::service_address::SERVER;
use super::super::service_address::TFTP_PORT;
use super::super::user_wait::UserWait;
use super::run::{LIMIT, MEASUREMENT_TIME_LIMIT, Run};
use super::times::{Truth, millis};
use anyhow::{Result, bail, ensure};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const BLOCK_SIZE: usize = 1_428;
const WINDOW_SIZE: u16 = 16;
/// Time without an answer after which the last packet is retransmitted.
const TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TRANSFERS: usize = 3;

pub(super) fn measure(run: &Run<'_>, truth: &mut Truth) -> Result<()> {
    truth.set(UserWait::Login, &[millis(run.started_at.elapsed())], false);
    let started_at = Instant::now();
    let mut times = Vec::new();
    for _ in 0..MAX_TRANSFERS {
        let requested_at = Instant::now();
        let Ok(bytes) = receive("file") else {
            truth.set_limit(UserWait::Transfer);
            return Ok(());
        };
        ensure!(bytes == run.case.bytes, "{bytes} of {} bytes arrived", run.case.bytes);
        times.push(millis(requested_at.elapsed()));
        if started_at.elapsed() > MEASUREMENT_TIME_LIMIT {
            break;
        }
    }
    truth.set(UserWait::Transfer, &times, run.is_random);
    Ok(())
}

/// Downloads a file, and returns its size.
fn receive(name: &str) -> Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let text = format!("{name}\0octet\0blksize\0{BLOCK_SIZE}\0windowsize\0{WINDOW_SIZE}\0");
    let mut last = [b"\0\x01", text.as_bytes()].concat();
    let mut peer: SocketAddr = format!("{SERVER}:{TFTP_PORT}").parse()?;
    let started_at = Instant::now();
    let mut bytes = 0_u64;
    let mut block = 0_u16;
    let mut block_size = 512;
    let mut window = 1;
    let mut unacknowledged = 0;
    socket.send_to(&last, peer)?;
    let mut buffer = [0; 2_048];
    while started_at.elapsed() < LIMIT * 2 {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            socket.send_to(&last, peer)?;
            continue;
        };
        if peer.port() == TFTP_PORT {
            // The server's transfer identifier.
            peer = from;
        }
        if peer != from {
            // Belongs to a second transfer, caused by a retransmitted request.
            continue;
        }
        match buffer.get(..length).unwrap_or_default() {
            [0, 6, options @ ..] => {
                (block_size, window) = accepted_sizes(options);
                last = vec![0, 4, 0, 0];
                socket.send_to(&last, peer)?;
            }
            [0, 3, high, low, data @ ..]
                if u16::from_be_bytes([*high, *low]) == block.wrapping_add(1) =>
            {
                block = block.wrapping_add(1);
                bytes += data.len() as u64;
                unacknowledged += 1;
                let is_last = data.len() < block_size;
                if unacknowledged >= window || is_last {
                    let [high, low] = block.to_be_bytes();
                    last = vec![0, 4, high, low];
                    socket.send_to(&last, peer)?;
                    unacknowledged = 0;
                }
                if is_last {
                    return Ok(bytes);
                }
            }
            [0, 3, ..] => {
                // A block is missing or duplicated: acknowledge again the blocks received in order.
                let [high, low] = block.to_be_bytes();
                last = vec![0, 4, high, low];
                if window > 1 {
                    socket.send_to(&last, peer)?;
                    unacknowledged = 0;
                }
            }
            [0, 5, _, code, ..] => bail!("the server reports the error {code}"),
            _ => {}
        }
    }
    bail!("the last block of the file has not arrived")
}

/// Returns the block size and the window size, in blocks, that the server accepts.
fn accepted_sizes(options: &[u8]) -> (usize, u16) {
    let words: Vec<String> = options
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).to_lowercase())
        .collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)?.parse::<u16>().ok()
    };
    (value("blksize").unwrap_or(512).into(), value("windowsize").unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_the_server_leaves_out_have_the_values_of_rfc_1350() {
        assert_eq!(accepted_sizes(b"blksize\x001428\0windowsize\x0016\0"), (1_428, 16));
        assert_eq!(accepted_sizes(b"blksize\x001428\0"), (1_428, 1));
        assert_eq!(accepted_sizes(b""), (512, 1));
    }
}
