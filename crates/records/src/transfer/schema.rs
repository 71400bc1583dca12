//! The single definition of the record's fields; struct, JSON, store, CSV and Parquet derive from
//! it.
//!
//! Each field has a number, under which the store keeps it. Numbers are never reused, and a new
//! field takes the next free one. Readers skip unknown fields. Names end in their unit, except the
//! names from the kernel's `tcp_info`. A renamed field keeps its former name as `formerly`, and
//! readers accept both. Field values are measured, not derived from other fields; durations come
//! from one monotonic clock.

use super::enums::{Command, DataStyle, Format, Mode, Outcome, Role, Stack, Structure, Type};
use super::value::{Field, FieldKind, Identifier, Text, Value};
use std::net::SocketAddr;

/// Returns the name of a field: its identifier, or the given literal.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// Declares the record and its groups from one table.
macro_rules! schema {
    ($($(#[$about:meta])* $group:ident: $Group:ident {
        $($(#[$doc:meta])*
        $number:literal $field:ident $(as $name:literal)? $(formerly $old:literal)?: $Type:ty,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $Group {
                $($(#[$doc])* pub $field: Option<$Type>,)*
            }
        )*

        /// One transfer of a file, a listing or mail, as observed by one of its two programs.
        ///
        /// Unknown values are `None`, never 0.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Transfer {
            /// Unique identifier of the record.
            pub record_id: Identifier,
            $($(#[$about])* pub $group: $Group,)*
        }

        impl Transfer {
            /// Every field except `record_id`: number, name and kind.
            pub const FIELDS: &'static [(u32, &'static str, FieldKind)] =
                &[$($(($number, name!($field $($name)?), <$Type as Field>::KIND),)*)*];

            /// Passes every known field to `callback`, in the order of [`Self::FIELDS`].
            pub fn visit<'a>(&'a self, mut callback: impl FnMut(u32, &'static str, Value<'a>)) {
                $($(if let Some(field) = &self.$group.$field {
                    callback($number, name!($field $($name)?), field.value());
                })*)*
            }

            /// Sets a field from text. `name` is the name of the field in this schema or in schema
            /// 1. If the text is unreadable, the value becomes unknown.
            pub(super) fn set_text(&mut self, name: &str, text: &str) {
                match name {
                    $($(name!($field $($name)?) $(| $old)? =>
                        self.$group.$field = <$Type as Field>::from_text(text),)*)*
                    _ => {}
                }
            }

            /// Sets a field from a number. `name` is the name of the field in this schema or in
            /// schema 1. If the number is invalid, the value becomes unknown.
            pub(super) fn set_number(&mut self, name: &str, number: u64) {
                match name {
                    $($(name!($field $($name)?) $(| $old)? =>
                        self.$group.$field = <$Type as Field>::from_number(number),)*)*
                    _ => {}
                }
            }

            /// Sets the field with number `at` from a numeric value or a code.
            pub(super) fn put_number(&mut self, at: u64, number: u64) {
                match at {
                    $($($number => self.$group.$field = <$Type as Field>::from_number(number),)*)*
                    _ => {}
                }
            }

            /// Sets the field with number `at` from the bytes of its value.
            pub(super) fn put_bytes(&mut self, at: u64, bytes: &[u8]) {
                match at {
                    $($($number => self.$group.$field = <$Type as Field>::from_bytes(bytes),)*)*
                    _ => {}
                }
            }
        }
    };
}

schema! {
    /// Origin of the record, and the hosts and users involved.
    identity: Identity {
        /// Session that the transfer was part of.
        1 session_id: Identifier,
        /// Number of the transfer in the session, from 1.
        2 seq: u64,
        /// Program that wrote the record: user or server.
        3 role: Role,
        /// Name of the program.
        4 program: Text,
        /// Version of the program.
        5 version: Text,
        /// TCP/IP implementation that carried the transfer.
        6 stack: Stack,
        /// Local address of the control connection.
        7 control_local: SocketAddr,
        /// Remote address of the control connection.
        8 control_remote: SocketAddr,
        /// Local address of the data connection.
        9 data_local: SocketAddr,
        /// Remote address of the data connection.
        10 data_remote: SocketAddr,
        /// Name of the remote host, as specified by the user or looked up.
        11 remote_name: Text,
        /// ARPANET host number of the remote host.
        12 ncp_host: u64,
        /// Name of the logged-in user.
        13 user: Text,
        /// Account that the user specified (RFC 959, ACCT).
        14 account: Text,
        /// Authentication method of the user.
        15 auth_method: Text,
        /// TLS version on the data connection.
        16 tls_version: Text,
        /// TLS cipher suite on the data connection.
        17 tls_cipher: Text,
        /// Whether the TLS session of the data connection was resumed.
        18 tls_resumed: bool,
        /// Whether values were dropped because the record did not fit its line.
        19 truncated formerly "is_shortened": bool,
    }

    /// Parameters of the request.
    request: Request {
        /// The command.
        20 command: Command,
        /// Logical byte size: 8, 36, or n of TYPE L n, bits.
        21 byte_size: u64,
        /// The representation type.
        22 representation as "type": Type,
        /// The format control of text.
        23 format: Format,
        /// The transmission mode.
        24 mode: Mode,
        /// The structure.
        25 structure formerly "stru": Structure,
        /// Path as requested.
        26 path_requested: Text,
        /// Path of the actual file.
        27 path_real: Text,
        /// Offset in the file at which the transfer began (REST), bytes.
        28 restart_offset_bytes formerly "offset_rest": u64,
        /// Announced size of the file (ALLO), bytes.
        29 announced_bytes formerly "allo": u64,
        /// Command that set up the data connection.
        30 data_style: DataStyle,
        /// Format in which the local file stores bytes that are not octets.
        31 word_format: Text,
    }

    /// Outcome of the transfer.
    result: Completion {
        /// Final reply code of the server (RFC 959 §4.2).
        35 final_reply formerly "reply_final": u64,
        /// Outcome.
        36 outcome: Outcome,
        /// Reason, if the transfer is not complete.
        37 error: Text,
    }

    /// Amount of data.
    size: Size {
        /// Bytes of the file transferred, in the format of the file.
        40 file_bytes: u64,
        /// Bytes on the data connection, before TLS.
        41 wire_bytes: u64,
        /// Bits of the file, as RFC 573 counts them: bytes times their size.
        42 bits: u64,
        /// Number of words of 36 bits.
        43 words_36bit formerly "words36": u64,
        /// Number of records, if the file has record structure.
        44 records: u64,
        /// Number of restart markers.
        45 restart_markers: u64,
        /// Number of line endings converted.
        46 crlf_conversions: u64,
        /// Algorithm of `hash`.
        47 hash_algorithm formerly "hash_alg": Text,
        /// Hash of the local file, in hexadecimal.
        48 hash: Text,
    }

    /// Start time, and durations of the steps, ns.
    time: Time {
        /// Time of the command, ns of Unix time.
        50 start_unix_ns formerly "t_start_unix_ns": u64,
        /// Time of the command, ns since boot.
        51 start_boot_ns formerly "t_start_boot_ns": u64,
        /// Name resolution.
        52 resolve_ns formerly "ns_resolve": u64,
        /// Opening of the control connection.
        53 control_connect_ns formerly "ns_ctl_connect": u64,
        /// TLS handshake of the control connection.
        54 control_tls_ns formerly "ns_ctl_tls": u64,
        /// Login.
        55 login_ns formerly "ns_login": u64,
        /// From the command to reply 150.
        56 command_to_150_ns formerly "ns_cmd_to_150": u64,
        /// Opening of the data connection.
        57 data_connect_ns formerly "ns_data_connect": u64,
        /// TLS handshake of the data connection.
        58 data_tls_ns formerly "ns_data_tls": u64,
        /// From the command to the first byte of data.
        59 first_byte_ns formerly "ns_first_byte": u64,
        /// From the first byte to the last: the real time of RFC 573. Unknown for a small file that
        /// the kernel sent or received in one system call.
        60 transfer_ns formerly "ns_transfer": u64,
        /// From the last byte to reply 226.
        61 last_byte_to_226_ns formerly "ns_last_byte_to_226": u64,
        /// From the command to its final reply.
        62 total_ns formerly "ns_total": u64,
        /// Part of the transfer spent reading the file.
        63 file_read_ns formerly "ns_read_file": u64,
        /// Part of the transfer spent writing the file.
        64 file_write_ns formerly "ns_write_file": u64,
        /// Part of the transfer spent waiting for the data connection.
        65 network_wait_ns formerly "ns_wait_net": u64,
        /// Part of the transfer spent waiting for the disk.
        66 disk_wait_ns formerly "ns_wait_disk": u64,
        /// Part of the transfer spent converting the representation.
        67 conversion_ns formerly "ns_convert": u64,
        /// Part of the transfer spent on encryption.
        68 crypto_ns formerly "ns_crypto": u64,
    }

    /// Local processor time of this transfer alone.
    cpu: Cpu {
        /// User CPU time; with `cpu_sys_ns` the CPU time of RFC 573.
        70 cpu_user_ns: u64,
        /// System CPU time.
        71 cpu_sys_ns: u64,
        /// Number of processor cycles.
        72 cpu_cycles: u64,
        /// System calls that moved bytes between file and connection.
        73 syscalls: u64,
        /// Voluntary context switches of the thread.
        74 voluntary_switches formerly "vol_switches": u64,
        /// Involuntary context switches of the thread.
        75 involuntary_switches formerly "invol_switches": u64,
        /// Sum of user and system CPU time, if only the sum was measured.
        76 cpu_ns: u64,
    }

    /// TCP statistics of the data connection at its end; names as in the kernel's `tcp_info`.
    tcp: Tcp {
        /// Smoothed round-trip time, µs.
        80 rtt_us: u64,
        /// Mean deviation of the round-trip time, µs.
        81 rttvar_us: u64,
        /// Minimum round-trip time, µs.
        82 min_rtt_us: u64,
        /// Maximum segment size for sending, bytes.
        83 snd_mss: u64,
        /// Maximum segment size for receiving, bytes.
        84 rcv_mss: u64,
        /// Path MTU, bytes.
        85 pmtu: u64,
        /// Congestion window, segments.
        86 snd_cwnd: u64,
        /// Slow-start threshold, segments.
        87 ssthresh: u64,
        /// Segments sent.
        88 segs_out: u64,
        /// Segments received.
        89 segs_in: u64,
        /// Data segments sent.
        90 data_segs_out: u64,
        /// Data segments received.
        91 data_segs_in: u64,
        /// Bytes that the peer has acknowledged.
        92 bytes_acked: u64,
        /// Bytes received.
        93 bytes_received: u64,
        /// Bytes sent, including retransmissions.
        94 bytes_sent: u64,
        /// Bytes retransmitted.
        95 bytes_retrans: u64,
        /// Segments retransmitted.
        96 total_retrans: u64,
        /// Segments presumed lost.
        97 lost: u64,
        /// Duplicates that the peer reported (D-SACK).
        98 dsack_dups: u64,
        /// Reordering events detected.
        99 reord_seen: u64,
        /// Segments received out of order.
        100 rcv_ooopack: u64,
        /// Segments delivered with a congestion mark (ECN CE).
        101 delivered_ce: u64,
        /// Delivery rate, bytes/s.
        102 delivery_rate_bytes_s formerly "delivery_rate_Bps": u64,
        /// Whether the delivery rate was limited by the application.
        103 delivery_app_limited: bool,
        /// Pacing rate, bytes/s.
        104 pacing_rate_bytes_s formerly "pacing_rate": u64,
        /// Time with data in flight, µs.
        105 busy_us: u64,
        /// Part of `busy_us` with the peer's receive window full, µs.
        106 rwnd_limited_us: u64,
        /// Part of `busy_us` limited by the send buffer, µs.
        107 sndbuf_limited_us: u64,
        /// Congestion control algorithm.
        108 congestion_control formerly "ca_name": Text,
        /// Send buffer size, bytes.
        109 sndbuf: u64,
        /// Receive buffer size, bytes.
        110 rcvbuf: u64,
        /// Number of data connections of this transfer.
        111 streams: u64,
    }

    /// Values available only with plumbline's own TCP/IP stack.
    own_stack: OwnStack {
        /// Number of acknowledgments sent without data.
        120 acks_out: u64,
        /// Number of zero-window probes.
        121 window_probes: u64,
        /// Time spent on checksums, ns.
        122 checksum_ns: u64,
        /// Link type: slip, llp, ether.
        123 link: Text,
        /// Link rate, bit/s.
        124 link_bps: u64,
        /// Number of link frames.
        125 frames: u64,
        /// Framing overhead around the datagrams, bytes.
        126 frame_overhead_bytes: u64,
    }

    /// Values available only with the NCP.
    ncp: Ncp {
        /// Number of RFNMs (Ready For Next Message).
        130 rfnms: u64,
        /// Time spent waiting for RFNMs, ns.
        131 rfnm_wait_ns: u64,
        /// Time spent waiting for allocations, ns.
        132 allocation_wait_ns formerly "alloc_wait_ns": u64,
        /// Number of NCP messages.
        133 messages formerly "msgs": u64,
        /// Number of bits allocated.
        134 allocated_bits formerly "bits_alloc": u64,
    }

    /// Values specific to TFTP.
    tftp: Tftp {
        /// Negotiated block size, bytes.
        150 block_bytes: u64,
        /// Number of blocks per acknowledgment.
        151 window_blocks: u64,
        /// Blocks sent or received more than once.
        152 repeated_blocks: u64,
        /// Number of timeouts at this end.
        153 timeouts: u64,
    }

    /// Host that wrote the record; only in the first record of a session.
    host: Host {
        /// Processor model.
        140 cpu_model: Text,
        /// Number of processors.
        141 cpus formerly "ncpu": u64,
        /// Load average of the last minute, in hundredths.
        142 load1_hundredths: u64,
        /// Kernel name and release.
        143 kernel: Text,
    }
}
