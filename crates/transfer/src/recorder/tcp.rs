//! State of TCP at the end of a data connection, under the same names for both stacks.

use net::transport::tcp::Status;
use os::socket::{TcpInfo, congestion_control};
use records::transfer::{OwnStack, Tcp, Text};
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Largest unit in which the kernel counts the time since the last acknowledgment.
pub const TICK: Duration = Duration::from_millis(10);
/// Threshold that `TCP_INFO` reports until the first loss of a connection.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Minimum number of bytes for queries about buffers and congestion control. With fewer bytes the
/// queries would cost more than the transfer.
const SETTINGS_MIN_BYTES: u64 = 64 * 1024;

/// Queries the kernel about one of its connections. Values that the kernel does not report are
/// unknown.
pub fn of_kernel(socket: &impl AsFd) -> Tcp {
    let Ok(info) = TcpInfo::of(socket) else { return Tcp::default() };
    of_socket(socket, &info)
}

/// Converts `info`. For a connection that has carried at least [`SETTINGS_MIN_BYTES`], adds the
/// settings of its socket.
fn of_socket(socket: &impl AsFd, info: &TcpInfo) -> Tcp {
    let tcp = of_info(info);
    let carried_bytes =
        tcp.bytes_acked.unwrap_or(0).saturating_add(tcp.bytes_received.unwrap_or(0));
    if carried_bytes < SETTINGS_MIN_BYTES {
        return tcp;
    }
    let bytes = |asked: rustix::io::Result<usize>| u64::try_from(asked.ok()?).ok();
    Tcp {
        congestion_control: congestion_control(socket).ok().map(|name| Text::from(&name)),
        sndbuf: bytes(sockopt::socket_send_buffer_size(socket)),
        rcvbuf: bytes(sockopt::socket_recv_buffer_size(socket)),
        ..tcp
    }
}

/// Queries the kernel about a connection on which everything was sent. Returns the time since the
/// last acknowledgment, and the state of TCP; `None` while data is unsent or in flight.
pub fn of_settled(socket: &impl AsFd) -> Option<(Duration, Tcp)> {
    let info = TcpInfo::of(socket).ok()?;
    let is_settled = info.unacknowledged_segments == 0 && info.unsent_bytes.unwrap_or(0) == 0;
    let ack_age = Duration::from_millis(info.last_ack_ms.into());
    is_settled.then(|| (ack_age, of_socket(socket, &info)))
}

/// Converts the kernel's `tcp_info`.
pub fn of_info(info: &TcpInfo) -> Tcp {
    if info.segments_out == Some(0) {
        // A local reset has cleared the kernel's state of the connection.
        return Tcp::default();
    }
    let to_u64 = |number: Option<u32>| number.map(u64::from);
    let threshold = info.slow_start_threshold_segments;
    Tcp {
        rtt_us: Some(info.round_trip_us.into()),
        rttvar_us: Some(info.round_trip_deviation_us.into()),
        // The kernel reports the largest number until the first measurement.
        min_rtt_us: to_u64(info.min_round_trip_us.filter(|us| *us != u32::MAX)),
        snd_mss: Some(info.send_mss_bytes.into()),
        rcv_mss: Some(info.receive_mss_bytes.into()),
        pmtu: Some(info.path_mtu_bytes.into()),
        snd_cwnd: Some(info.congestion_window_segments.into()),
        ssthresh: (threshold < NO_THRESHOLD).then_some(threshold.into()),
        segs_out: to_u64(info.segments_out),
        segs_in: to_u64(info.segments_in),
        data_segs_out: to_u64(info.data_segments_out),
        data_segs_in: to_u64(info.data_segments_in),
        bytes_acked: info.bytes_acknowledged,
        bytes_received: info.bytes_received,
        bytes_sent: info.bytes_sent,
        bytes_retrans: info.bytes_retransmitted,
        total_retrans: Some(info.total_retransmissions.into()),
        lost: Some(info.lost_segments.into()),
        dsack_dups: to_u64(info.duplicate_reports),
        reord_seen: to_u64(info.reorderings),
        rcv_ooopack: to_u64(info.out_of_order_segments),
        delivered_ce: to_u64(info.marked_segments),
        delivery_rate_bytes_s: info.delivery_bytes_per_second,
        delivery_app_limited: Some(info.is_rate_app_limited),
        pacing_rate_bytes_s: info.pacing_bytes_per_second,
        busy_us: info.busy_us,
        rwnd_limited_us: info.limited_by_window_us,
        sndbuf_limited_us: info.limited_by_buffer_us,
        ..Tcp::default()
    }
}

/// Converts the status of the user-space TCP. The second value contains the statistics that the
/// kernel does not report.
pub fn of_userspace(status: &Status) -> (Tcp, OwnStack) {
    let to_us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let bytes = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let recovery = &status.recovery;
    let statistics = &status.statistics;
    let limited = &recovery.limited;
    let tcp = Tcp {
        rtt_us: status.srtt.map(to_us),
        rttvar_us: status.rttvar.map(to_us),
        min_rtt_us: recovery.min_rtt.map(to_us),
        snd_mss: Some(status.send_mss.into()),
        snd_cwnd: u64::from(status.congestion_window).checked_div(status.send_mss.into()),
        ssthresh: status
            .slow_start_threshold
            .and_then(|bytes| u64::from(bytes).checked_div(status.send_mss.into())),
        segs_out: Some(statistics.segments_out),
        segs_in: Some(statistics.segments_in),
        bytes_acked: Some(statistics.bytes_acknowledged),
        bytes_received: Some(statistics.bytes_in),
        total_retrans: Some(statistics.retransmissions),
        dsack_dups: Some(statistics.duplicate_reports.into()),
        rcv_ooopack: Some(statistics.out_of_order),
        delivery_rate_bytes_s: recovery.delivery_rate,
        delivery_app_limited: Some(recovery.is_rate_app_limited),
        pacing_rate_bytes_s: recovery.pacing_rate,
        busy_us: Some(to_us(limited.busy)),
        rwnd_limited_us: Some(to_us(limited.peer_window)),
        sndbuf_limited_us: Some(to_us(limited.send_buffer)),
        sndbuf: Some(bytes(status.send_buffer)),
        rcvbuf: Some(bytes(status.receive_buffer)),
        congestion_control: Some(Text::from(status.congestion.name())),
        ..Tcp::default()
    };
    let own = OwnStack {
        acks_out: Some(statistics.pure_acks_out),
        window_probes: Some(statistics.window_probes.into()),
        ..OwnStack::default()
    };
    (tcp, own)
}
