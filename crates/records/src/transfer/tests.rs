//! Tests of the two encodings of a record, as a line and in the store, with all fields and with
//! none.

use super::*;
use crate::calendar;
use proptest::prelude::*;

/// Fields that a server does not know of an ordinary download in the middle of a session.
const UNKNOWN_TO_A_SERVER: &str = "truncated ncp_host account words_36bit records \
    restart_markers crlf_conversions hash_algorithm hash error announced_bytes resolve_ns \
    control_connect_ns cpu_cycles acks_out window_probes checksum_ns link link_bps frames \
    frame_overhead_bytes rfnms rfnm_wait_ns allocation_wait_ns messages allocated_bits \
    conversion_ns delivered_ce cpu_model cpus load1_hundredths kernel file_write_ns word_format \
    cpu_user_ns cpu_sys_ns block_bytes window_blocks repeated_blocks timeouts";

/// Real records of schema 1, by the last program that wrote it: three of a client, one of a server.
pub(crate) const SCHEMA_1_LINES: &str = include_str!("../../samples/transfers-1.jsonl");
/// The same records in schema 2.
pub(crate) const SCHEMA_2_LINES: &str = include_str!("../../samples/transfers-2.jsonl");

/// Returns the first three records of [`SCHEMA_1_LINES`] in the store encoding of schema 1.
pub(crate) fn schema_1_store_records() -> Vec<Vec<u8>> {
    let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
    let lines = include_str!("../../samples/transfers-1.store.hex").lines();
    lines.map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// The names in schema 1 of the fields that have other names now.
const RENAMED_FIELDS: &[(&str, &str)] = &[
    ("ns_resolve", "resolve_ns"),
    ("ns_ctl_connect", "control_connect_ns"),
    ("ns_ctl_tls", "control_tls_ns"),
    ("ns_login", "login_ns"),
    ("ns_cmd_to_150", "command_to_150_ns"),
    ("ns_data_connect", "data_connect_ns"),
    ("ns_data_tls", "data_tls_ns"),
    ("ns_first_byte", "first_byte_ns"),
    ("ns_transfer", "transfer_ns"),
    ("ns_last_byte_to_226", "last_byte_to_226_ns"),
    ("ns_total", "total_ns"),
    ("ns_read_file", "file_read_ns"),
    ("ns_write_file", "file_write_ns"),
    ("ns_wait_net", "network_wait_ns"),
    ("ns_wait_disk", "disk_wait_ns"),
    ("ns_convert", "conversion_ns"),
    ("ns_crypto", "crypto_ns"),
    ("is_shortened", "truncated"),
    ("ca_name", "congestion_control"),
    ("words36", "words_36bit"),
    ("t_start_unix_ns", "start_unix_ns"),
    ("t_start_boot_ns", "start_boot_ns"),
    ("offset_rest", "restart_offset_bytes"),
    ("allo", "announced_bytes"),
    ("reply_final", "final_reply"),
    ("hash_alg", "hash_algorithm"),
    ("vol_switches", "voluntary_switches"),
    ("invol_switches", "involuntary_switches"),
    ("ncpu", "cpus"),
    ("msgs", "messages"),
    ("bits_alloc", "allocated_bits"),
    ("alloc_wait_ns", "allocation_wait_ns"),
    ("stru", "structure"),
    ("delivery_rate_Bps", "delivery_rate_bytes_s"),
    ("pacing_rate", "pacing_rate_bytes_s"),
];

/// Returns a record of an ordinary download, with everything known to a server that uses the
/// kernel's TCP.
fn download() -> Transfer {
    let mut transfer = Transfer::new(Identifier::new(1_795_000_000_123_456_789, 0xfeed_f00d));
    for (number, name, kind) in Transfer::FIELDS {
        if UNKNOWN_TO_A_SERVER.split_whitespace().any(|unknown| unknown == *name) {
            continue;
        }
        match kind {
            FieldKind::Number if name.starts_with("start_") => {
                transfer.set_number(name, 1_795_000_000_123_456_789);
            }
            FieldKind::Number if name.ends_with("_ns") => transfer.set_number(name, 83_123_456),
            FieldKind::Number => transfer.set_number(name, 654_321),
            FieldKind::Flag | FieldKind::Enum => transfer.put_number((*number).into(), 1),
            FieldKind::Identifier => transfer.set_text(name, "18f1a2b3c4d5e6f708192a3b4c5d6e7f"),
            FieldKind::Address => transfer.set_text(name, "192.168.100.200:50123"),
            FieldKind::Text => transfer.set_text(name, "plumb"),
        }
    }
    transfer.identity.role = Some(Role::Server);
    transfer.identity.tls_cipher = Some(Text::from("TLS13_AES_128_GCM_SHA256"));
    transfer.request.path_requested = Some(Text::from("plumb-1.0.tar.gz"));
    transfer.request.path_real = Some(Text::from("/srv/ftp/pub/2026/plumb-1.0.tar.gz"));
    transfer
}

#[test]
fn a_complete_server_record_of_a_download_fits_into_its_line() {
    let line = download().to_line();
    assert!(!line.contains("truncated"), "{} bytes", line.len());
    assert_eq!(Transfer::from_line(&line), Ok(download()));
}

#[test]
fn the_line_begins_with_the_schema_and_the_identifier() {
    let line = Transfer::new(Identifier(255)).to_line();
    assert_eq!(line, "{\"schema\":2,\"record_id\":\"000000000000000000000000000000ff\"}\n");
}

#[test]
fn a_name_with_control_characters_cannot_forge_a_record() {
    let mut transfer = Transfer::new(Identifier(1));
    let forged = "a\n{\"schema\":1,\"record_id\":\"2\"}\n\x1b[2J\"}";
    transfer.request.path_requested = Some(Text::from(forged));
    let line = transfer.to_line();
    assert_eq!(line.matches('\n').count(), 1);
    assert!(line.contains(r"a\\x0a{"));
    assert_eq!(Transfer::from_line(&line), Ok(transfer));
}

#[test]
fn unknown_fields_and_types_of_a_later_schema_are_ignored() {
    let line = r#"{"schema":7,"record_id":"1f","mood":{"a":[1]},"bits":"many","rtt_us":-4,
        "command":"TELEPORT","outcome":"complete","seq":3,"lost":null,"pmtu":1.5}"#;
    let mut expected = Transfer::new(Identifier(0x1f));
    expected.result.outcome = Some(Outcome::Complete);
    expected.identity.seq = Some(3);
    assert_eq!(Transfer::from_line(line), Ok(expected));
}

#[test]
fn a_record_of_schema_1_has_the_same_values_as_in_schema_2() {
    assert_eq!(SCHEMA_1_LINES.lines().count(), 4);
    for (former, current) in SCHEMA_1_LINES.lines().zip(SCHEMA_2_LINES.lines()) {
        let transfer = Transfer::from_line(former).unwrap();
        assert_eq!(Transfer::from_line(current).as_ref(), Ok(&transfer));
        assert_eq!(transfer.to_line().trim_end(), current);
    }
}

#[test]
fn every_renamed_field_is_read_under_its_former_name() {
    for (former, current) in RENAMED_FIELDS {
        let (_, _, kind) = Transfer::FIELDS.iter().find(|(_, name, _)| name == current).unwrap();
        let value = match kind {
            FieldKind::Number => "7",
            FieldKind::Flag => "true",
            // File structure, the only enumeration among the renamed fields.
            FieldKind::Enum => "\"F\"",
            FieldKind::Identifier | FieldKind::Address | FieldKind::Text => "\"text\"",
        };
        let read = |name| {
            Transfer::from_line(&format!("{{\"record_id\":\"1f\",\"{name}\":{value}}}")).unwrap()
        };
        assert_eq!(read(former), read(current), "{former}");
        assert_ne!(read(current), Transfer::new(Identifier(0x1f)), "{current}");
    }
}

#[test]
fn a_torn_line_and_one_without_an_identifier_are_rejected() {
    let line = download().to_line();
    assert_eq!(Transfer::from_line(&line[..line.len() - 2]), Err(LineError::NotJson));
    assert_eq!(Transfer::from_line("{\"schema\":1}"), Err(LineError::NoRecordId));
    assert_eq!(Transfer::from_line("[1]"), Err(LineError::NotJson));
}

#[test]
fn a_record_with_long_names_is_truncated_and_marked() {
    let mut transfer = download();
    transfer.request.path_real = Some(Text::from(&[b'\n'; 4_000]));
    let line = transfer.to_line();
    assert!(line.len() <= LINE_MAX_BYTES);
    let read = Transfer::from_line(&line).unwrap();
    assert_eq!(read.identity.truncated, Some(true));
    assert_eq!(read.time, transfer.time);
}

#[test]
fn numbers_and_names_of_fields_are_never_used_twice() {
    let fields = Transfer::FIELDS;
    for (at, (number, name, _)) in fields.iter().enumerate() {
        let others = &fields[at + 1..];
        assert!(others.iter().all(|(other, called, _)| other != number && called != name));
    }
}

#[test]
fn a_transfer_with_a_busy_processor_is_limited_by_it() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.time.transfer_ns = Some(1_000);
    transfer.cpu.cpu_user_ns = Some(500);
    transfer.cpu.cpu_sys_ns = Some(300);
    assert_eq!(transfer.limit(), Some(TransferLimit::Processor));
}

#[test]
fn a_full_receive_window_of_the_peer_limits_a_sender() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.identity.role = Some(Role::Server);
    transfer.request.command = Some(Command::Retr);
    transfer.time.transfer_ns = Some(1_000_000);
    transfer.tcp.busy_us = Some(990);
    transfer.tcp.rwnd_limited_us = Some(600);
    assert_eq!(transfer.limit(), Some(TransferLimit::Peer));
}

#[test]
fn without_times_the_limit_is_unknown() {
    let mut transfer = Transfer::new(Identifier(1));
    assert_eq!(transfer.limit(), None);
    transfer.time.transfer_ns = Some(1_000);
    assert_eq!(transfer.limit(), None);
}

#[test]
fn a_rate_that_overflows_is_the_largest_number() {
    assert_eq!(derived::rate_bps(u64::MAX, 1), Some(u64::MAX));
    assert_eq!(derived::rate_bps(1, 0), None);
    assert_eq!(derived::cpu_fs_per_bit(20, 0), None);
}

#[test]
fn a_remote_host_without_a_name_is_its_address_without_the_port() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.set_text("data_remote", "[::ffff:10.1.2.3]:20");
    assert_eq!(transfer.remote_host().unwrap(), b"10.1.2.3");
}

/// Generates arbitrary records: random fields with random values.
pub(crate) fn any_transfer() -> impl Strategy<Value = Transfer> {
    let number = prop_oneof![0..3_u64, 0..5_000_000_u64, any::<u64>()];
    let text = proptest::collection::vec(any::<u8>(), 0..40);
    let field = (0..Transfer::FIELDS.len(), number, text, any::<[u8; 4]>());
    let fields = proptest::collection::vec(field, 0..60);
    let day = 1_700_000_000_000_000_000_u64..1_700_000_000_000_000_000 + 5 * calendar::NS_PER_DAY;
    (1..u128::MAX, day, fields).prop_map(|(id, began, fields)| {
        let mut transfer = Transfer::new(Identifier(id));
        for (at, number, text, address) in fields {
            let (field, name, kind) = Transfer::FIELDS[at];
            match kind {
                FieldKind::Number => transfer.set_number(name, number),
                FieldKind::Flag => transfer.set_number(name, number % 2),
                FieldKind::Enum => transfer.put_number(field.into(), number % 12),
                FieldKind::Text => transfer.put_bytes(field.into(), &text),
                FieldKind::Identifier => transfer.set_text(name, &format!("{number:x}")),
                FieldKind::Address => {
                    let address = std::net::SocketAddr::from((address, 21));
                    transfer.set_text(name, &address.to_string());
                }
            }
        }
        transfer.time.start_unix_ns = Some(began);
        transfer
    })
}

proptest! {
    #[test]
    fn any_record_survives_a_round_trip_through_its_line(transfer in any_transfer()) {
        let line = transfer.to_line();
        prop_assert!(line.len() <= LINE_MAX_BYTES);
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        let read = Transfer::from_line(&line).unwrap();
        if read.identity.truncated == transfer.identity.truncated {
            prop_assert_eq!(read, transfer);
        }
    }

    #[test]
    fn any_record_survives_a_round_trip_through_the_store_encoding(transfer in any_transfer()) {
        prop_assert_eq!(compact::decode(&compact::encode(&transfer)), Some(transfer));
    }

    #[test]
    fn a_damaged_line_that_is_still_read_survives_a_round_trip(
        transfer in any_transfer(), at in any::<proptest::sample::Index>(), byte in 0..0x80_u8,
    ) {
        let mut line = transfer.to_line().into_bytes();
        let at = at.index(line.len());
        line[at] = byte;
        if let Ok(damaged) = Transfer::from_line(&String::from_utf8_lossy(&line)) {
            let read = Transfer::from_line(&damaged.to_line()).unwrap();
            if read.identity.truncated == damaged.identity.truncated {
                prop_assert_eq!(read, damaged);
            }
        }
    }

    #[test]
    fn a_damaged_store_encoding_that_is_still_read_survives_a_round_trip(
        transfer in any_transfer(), at in any::<proptest::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = compact::encode(&transfer);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(damaged) = compact::decode(&bytes) {
            prop_assert_eq!(compact::decode(&compact::encode(&damaged)), Some(damaged));
        }
    }

    #[test]
    fn derived_values_of_any_record_are_computed_without_a_panic(transfer in any_transfer()) {
        let _ = (transfer.limit(), transfer.rate_bps(), transfer.cpu_fs_per_bit());
    }

    #[test]
    fn any_record_is_one_line_of_eighteen_fields_in_an_xferlog(transfer in any_transfer()) {
        let line = xferlog::line(&transfer);
        prop_assert_eq!(line.matches('\n').count(), 1);
        prop_assert_eq!(line.split_whitespace().count(), 18);
    }
}

#[test]
fn a_record_is_truncated_only_if_its_line_is_longer_than_2048_bytes() {
    let with_path = |bytes: usize| {
        let mut transfer = Transfer::new(Identifier(1));
        transfer.request.path_requested = Some(Text::from(&"a".repeat(bytes)));
        transfer
    };
    let base = with_path(0).to_line().len();
    let fitting = with_path(2_048 - base);
    assert_eq!(fitting.to_line().len(), 2_048);
    assert_eq!(Transfer::from_line(&fitting.to_line()).unwrap(), fitting);
    let longer = with_path(2_049 - base);
    let mut lines = b"before\n".to_vec();
    longer.push_line(&mut lines);
    let text = String::from_utf8(lines).unwrap();
    let (first, line) = text.split_once('\n').unwrap();
    assert_eq!((first, line.lines().count()), ("before", 1));
    let read = Transfer::from_line(line).unwrap();
    assert_eq!(read.identity.truncated, Some(true));
    assert_eq!(read.request.path_requested.unwrap().as_bytes().len(), 255);
}
