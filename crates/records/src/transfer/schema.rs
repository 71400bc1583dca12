//! The fields of a transfer record, once: struct, JSON, store, CSV and Parquet are made of them.
//!
//! Each field has the number that the store keeps it under. A number is never used again, and a
//! new field takes the next free one; readers pass over what they do not know. Names end in their
//! unit. What stands in a field was measured and not derived from another one; durations come from
//! one monotonic clock.

use super::value::{Field, Identifier, Kind, Text, Value};
use super::words::{Command, DataStyle, Format, Mode, Outcome, Role, Stack, Structure, Type};
use std::net::SocketAddr;

/// Spells the name of a field: its own, or the other one that is given.
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
        $($(#[$doc:meta])* $number:literal $field:ident $(as $name:literal)?: $Type:ty,)*
    })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, Default, PartialEq, Eq)]
            pub struct $Group {
                $($(#[$doc])* pub $field: Option<$Type>,)*
            }
        )*

        /// One transfer of a file, of a listing or of mail, as one of its two programs saw it.
        ///
        /// What is not known is `None`, and never 0.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Transfer {
            /// The name of the record; no two records have the same.
            pub record_id: Identifier,
            $($(#[$about])* pub $group: $Group,)*
        }

        impl Transfer {
            /// Every field but `record_id`: number, name and kind.
            pub const FIELDS: &'static [(u32, &'static str, Kind)] =
                &[$($(($number, name!($field $($name)?), <$Type as Field>::KIND),)*)*];

            /// Gives every field that is known, in the order of [`Self::FIELDS`].
            pub fn visit<'a>(&'a self, mut seen: impl FnMut(u32, &'static str, Value<'a>)) {
                $($(if let Some(field) = &self.$group.$field {
                    seen($number, name!($field $($name)?), field.value());
                })*)*
            }

            /// Sets the field called `name` from text; what cannot be read is unknown.
            pub(super) fn set_text(&mut self, name: &str, text: &str) {
                match name {
                    $($(name!($field $($name)?) =>
                        self.$group.$field = <$Type as Field>::from_text(text),)*)*
                    _ => {}
                }
            }

            /// Sets the field called `name` from a number; what cannot be read is unknown.
            pub(super) fn set_number(&mut self, name: &str, number: u64) {
                match name {
                    $($(name!($field $($name)?) =>
                        self.$group.$field = <$Type as Field>::from_number(number),)*)*
                    _ => {}
                }
            }

            /// Sets field `at` from its number or code.
            pub(super) fn put_number(&mut self, at: u64, number: u64) {
                match at {
                    $($($number => self.$group.$field = <$Type as Field>::from_number(number),)*)*
                    _ => {}
                }
            }

            /// Sets field `at` from its bytes.
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
    /// Who wrote the record, and with whom the file was exchanged.
    identity: Identity {
        /// The session that the transfer was part of.
        1 session_id: Identifier,
        /// Its place in the session, from 1.
        2 seq: u64,
        /// Which of the two programs wrote the record.
        3 role: Role,
        /// The program.
        4 program: Text,
        /// Its version.
        5 version: Text,
        /// Whose TCP/IP carried it.
        6 stack: Stack,
        /// This end of the control connection.
        7 control_local: SocketAddr,
        /// The far end of the control connection.
        8 control_remote: SocketAddr,
        /// This end of the data connection.
        9 data_local: SocketAddr,
        /// The far end of the data connection.
        10 data_remote: SocketAddr,
        /// The name of the far host, as it was asked for or looked up.
        11 remote_name: Text,
        /// Its number in the ARPANET.
        12 ncp_host: u64,
        /// Who logged in.
        13 user: Text,
        /// The account that was given (RFC 959, ACCT).
        14 account: Text,
        /// How the user proved it.
        15 auth_method: Text,
        /// The version of TLS on the data connection.
        16 tls_version: Text,
        /// Its cipher suite.
        17 tls_cipher: Text,
        /// Whether its session was resumed.
        18 tls_resumed: bool,
        /// Whether something was left out because the record did not fit its line.
        19 is_shortened: bool,
    }

    /// What was asked for.
    request: Request {
        /// The command.
        20 command: Command,
        /// Bits of a byte: 8, 36, or n of TYPE L n.
        21 byte_size: u64,
        /// The representation type.
        22 representation as "type": Type,
        /// The format control of text.
        23 format: Format,
        /// The transmission mode.
        24 mode: Mode,
        /// The structure.
        25 stru: Structure,
        /// The path as it was asked for.
        26 path_requested: Text,
        /// The path of the file that was meant.
        27 path_real: Text,
        /// Where the transfer began in the file (REST), bytes.
        28 offset_rest: u64,
        /// What was announced for it (ALLO), bytes.
        29 allo: u64,
        /// How the data connection was asked for.
        30 data_style: DataStyle,
        /// How words that are not octets lie in the file on this side.
        31 word_format: Text,
    }

    /// How it ended.
    result: Ending {
        /// The last reply of the server (RFC 959 §4.2).
        35 reply_final: u64,
        /// How it ended.
        36 outcome: Outcome,
        /// Why, if it is not complete.
        37 error: Text,
    }

    /// How much it was.
    size: Size {
        /// The file's bytes that were moved, in the file's own form.
        40 file_bytes: u64,
        /// Bytes on the data connection, before TLS.
        41 wire_bytes: u64,
        /// Bits of the file, as RFC 573 counts: bytes times their size.
        42 bits: u64,
        /// Words of 36 bits.
        43 words36: u64,
        /// Records of a file that has them.
        44 records: u64,
        /// Restart markers.
        45 restart_markers: u64,
        /// Ends of lines that were converted.
        46 crlf_conversions: u64,
        /// The algorithm of `hash`.
        47 hash_alg: Text,
        /// The hash of the file on this side, in hexadecimal.
        48 hash: Text,
    }

    /// When, and how long its steps took.
    time: Time {
        /// When the command was given, ns of Unix time.
        50 t_start_unix_ns: u64,
        /// The same moment, ns since the machine was started.
        51 t_start_boot_ns: u64,
        /// Name to address.
        52 ns_resolve: u64,
        /// To the control connection.
        53 ns_ctl_connect: u64,
        /// To its TLS.
        54 ns_ctl_tls: u64,
        /// To be logged in.
        55 ns_login: u64,
        /// From the command to the reply 150.
        56 ns_cmd_to_150: u64,
        /// To the data connection.
        57 ns_data_connect: u64,
        /// To its TLS.
        58 ns_data_tls: u64,
        /// From the command to the first byte of data.
        59 ns_first_byte: u64,
        /// From the first to the last byte: the real time of RFC 573. Not known of a small file that
        /// the kernel took, or gave, by one call.
        60 ns_transfer: u64,
        /// From the last byte to the reply 226.
        61 ns_last_byte_to_226: u64,
        /// From the command to its last reply.
        62 ns_total: u64,
        /// Of the transfer: to read the file.
        63 ns_read_file: u64,
        /// Of the transfer: to write the file.
        64 ns_write_file: u64,
        /// Of the transfer: waiting for the data connection.
        65 ns_wait_net: u64,
        /// Of the transfer: waiting for the disk.
        66 ns_wait_disk: u64,
        /// Of the transfer: converting its form.
        67 ns_convert: u64,
        /// Of the transfer: enciphering.
        68 ns_crypto: u64,
    }

    /// What this side's processor did for this transfer alone.
    cpu: Cpu {
        /// User time; with `cpu_sys_ns` the CPU time of RFC 573.
        70 cpu_user_ns: u64,
        /// System time.
        71 cpu_sys_ns: u64,
        /// Cycles.
        72 cpu_cycles: u64,
        /// System calls that moved bytes between file and connection.
        73 syscalls: u64,
        /// Times that its thread waited.
        74 vol_switches: u64,
        /// Times that another thread was let in its place.
        75 invol_switches: u64,
        /// User and system time together, where only their sum was measured.
        76 cpu_ns: u64,
    }

    /// What TCP knew of the data connection at its end; the names of the kernel's `tcp_info`.
    tcp: Tcp {
        /// Smoothed round trip, µs.
        80 rtt_us: u64,
        /// Its mean deviation, µs.
        81 rttvar_us: u64,
        /// The shortest round trip, µs.
        82 min_rtt_us: u64,
        /// Largest segment out, bytes.
        83 snd_mss: u64,
        /// Largest segment in, bytes.
        84 rcv_mss: u64,
        /// Path MTU, bytes.
        85 pmtu: u64,
        /// Congestion window, segments.
        86 snd_cwnd: u64,
        /// Slow-start threshold, segments.
        87 ssthresh: u64,
        /// Segments out.
        88 segs_out: u64,
        /// Segments in.
        89 segs_in: u64,
        /// Segments with data out.
        90 data_segs_out: u64,
        /// Segments with data in.
        91 data_segs_in: u64,
        /// Bytes that the far side has acknowledged.
        92 bytes_acked: u64,
        /// Bytes in.
        93 bytes_received: u64,
        /// Bytes out, with those sent again.
        94 bytes_sent: u64,
        /// Bytes sent again.
        95 bytes_retrans: u64,
        /// Segments sent again.
        96 total_retrans: u64,
        /// Segments taken to be lost.
        97 lost: u64,
        /// Duplicates that the far side reported.
        98 dsack_dups: u64,
        /// Reorderings seen.
        99 reord_seen: u64,
        /// Segments in out of order.
        100 rcv_ooopack: u64,
        /// Segments delivered with a mark of congestion.
        101 delivered_ce: u64,
        /// Delivery rate, bytes a second.
        102 delivery_rate_bytes_s as "delivery_rate_Bps": u64,
        /// Whether that rate was limited by the program.
        103 delivery_app_limited: bool,
        /// Pacing rate, bytes a second.
        104 pacing_rate_bytes_s as "pacing_rate": u64,
        /// Time with data in flight, µs.
        105 busy_us: u64,
        /// Of it: the far side's window was full, µs.
        106 rwnd_limited_us: u64,
        /// Of it: the send buffer was too small, µs.
        107 sndbuf_limited_us: u64,
        /// The congestion control.
        108 ca_name: Text,
        /// Send buffer, bytes.
        109 sndbuf: u64,
        /// Receive buffer, bytes.
        110 rcvbuf: u64,
        /// Data connections of this transfer.
        111 streams: u64,
    }

    /// What only our own TCP/IP knows.
    own_stack: OwnStack {
        /// Acknowledgments out without data.
        120 acks_out: u64,
        /// Probes of a closed window.
        121 window_probes: u64,
        /// Time for checksums.
        122 checksum_ns: u64,
        /// The link: slip, llp, ether.
        123 link: Text,
        /// Its rate, bit/s.
        124 link_bps: u64,
        /// Frames.
        125 frames: u64,
        /// What the frames had around the datagrams, bytes.
        126 frame_overhead_bytes: u64,
    }

    /// What only the NCP knows.
    ncp: Ncp {
        /// RFNMs.
        130 rfnms: u64,
        /// Waiting for them.
        131 rfnm_wait_ns: u64,
        /// Waiting for an allocation.
        132 alloc_wait_ns: u64,
        /// Messages.
        133 msgs: u64,
        /// Bits that were allocated.
        134 bits_alloc: u64,
    }

    /// What only TFTP has.
    tftp: Tftp {
        /// A full block that was agreed on, bytes.
        150 block_bytes: u64,
        /// Blocks before an acknowledgment.
        151 window_blocks: u64,
        /// Blocks that were sent again, or came again.
        152 repeated_blocks: u64,
        /// Times that this end waited in vain.
        153 timeouts: u64,
    }

    /// The machine that wrote the record; in the first record of a session.
    host: Host {
        /// Model of the processor.
        140 cpu_model: Text,
        /// Processors.
        141 ncpu: u64,
        /// Load average of the last minute, in hundredths.
        142 load1_hundredths: u64,
        /// Kernel name and release.
        143 kernel: Text,
    }
}
