//! Immediate transfer of a small file: as much as the kernel socket accepts or contains now.
//!
//! Handing a small file to a thread or a task and back costs more than moving its bytes.

use super::connection::reset_on_close;
use super::data_stats::TransferStats;
use super::environment::{Sink, TransferFailure};
use os::clock::thread_cpu_time;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::Instant;

/// Sends at most `count` bytes of `file`, from `offset` or from its current position, as far as the
/// socket accepts them without waiting. Returns the number of bytes sent. Errors are ignored, because
/// they recur when the rest is sent.
pub fn send_immediately(
    socket: &impl AsFd,
    file: &File,
    mut offset: Option<u64>,
    count: usize,
    stats: &TransferStats,
) -> usize {
    let started_at = Instant::now();
    let cpu = thread_cpu_time();
    let sent_bytes = rustix::fs::sendfile(socket, file, offset.as_mut(), count).unwrap_or(0);
    let ended_at = Instant::now();
    stats.add_file_bytes(sent_bytes);
    stats.add_moved_bytes(sent_bytes);
    let mut data = stats.data();
    data.first_byte_at = Some(started_at);
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    data.count_call();
    if sent_bytes == count {
        data.ended_at = Some(ended_at);
        data.query_addresses(socket);
    }
    sent_bytes
}

/// Receives data that has already arrived, without waiting for more, until at least `most` bytes have
/// been received. Returns whether the whole file was received.
///
/// # Errors
///
/// Returns an error if the connection is lost, or if the file accepts no more data. After an error,
/// closing the connection sends a reset.
pub fn receive_immediately<L: Sink>(
    socket: &impl AsFd,
    sink: &mut L,
    room: &mut [u8],
    most: u64,
    stats: &TransferStats,
) -> Result<bool, TransferFailure<L::Error>> {
    let cpu = thread_cpu_time();
    let mut piece_count = 0_u32;
    let received = loop {
        let (count, received_at) = match rustix::net::recv(socket, &mut *room, RecvFlags::empty()) {
            Ok((_, 0)) => break Ok(true),
            Ok((_, count)) => (count, Instant::now()),
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => break Ok(false),
            Err(error) => break Err(TransferFailure::Connection(error.into())),
        };
        stats.note_first_byte(received_at);
        piece_count = piece_count.saturating_add(1);
        stats.add_moved_bytes(count);
        let write_result = sink.write(room.get(..count).unwrap_or_default());
        stats.data().add_write_time(received_at.elapsed());
        if let Err(error) = write_result {
            break Err(TransferFailure::Local(error));
        }
        if stats.moved_bytes() >= most {
            break Ok(false);
        }
    };
    let ended_at = Instant::now();
    let mut data = stats.data();
    data.file_bytes = Some(sink.file_bytes());
    data.add_cpu_time(thread_cpu_time().saturating_sub(cpu));
    if !matches!(received, Ok(false)) {
        data.is_single_call = piece_count == 1;
        data.ended_at = Some(ended_at);
        data.query_addresses(socket);
        data.query_tcp(socket);
    }
    if received.is_err() {
        reset_on_close(socket);
    }
    received
}
