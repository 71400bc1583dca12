//! A record as a line and in the store's encoding, with all fields and with none.

use super::*;
use crate::calendar;
use proptest::prelude::*;

/// Fields that a server does not know of an ordinary download in the middle of a session.
const UNKNOWN_TO_A_SERVER: &str = "is_shortened ncp_host account words36 records \
    restart_markers crlf_conversions hash_alg hash error allo ns_resolve ns_ctl_connect \
    cpu_cycles acks_out window_probes checksum_ns link link_bps frames frame_overhead_bytes \
    rfnms rfnm_wait_ns alloc_wait_ns msgs bits_alloc ns_convert delivered_ce cpu_model ncpu \
    load1_hundredths kernel ns_write_file word_format cpu_user_ns cpu_sys_ns block_bytes window_blocks \
    repeated_blocks timeouts";

/// Returns a record of an ordinary download, with everything known to a server that uses the
/// kernel's TCP.
fn download() -> Transfer {
    let mut transfer = Transfer::new(Identifier::new(1_795_000_000_123_456_789, 0xfeed_f00d));
    for (number, name, kind) in Transfer::FIELDS {
        if UNKNOWN_TO_A_SERVER.split_whitespace().any(|unknown| unknown == *name) {
            continue;
        }
        match kind {
            Kind::Number if name.starts_with("t_start") => {
                transfer.set_number(name, 1_795_000_000_123_456_789);
            }
            Kind::Number if name.starts_with("ns_") => transfer.set_number(name, 83_123_456),
            Kind::Number => transfer.set_number(name, 654_321),
            Kind::Flag | Kind::Word => transfer.put_number((*number).into(), 1),
            Kind::Identifier => transfer.set_text(name, "18f1a2b3c4d5e6f708192a3b4c5d6e7f"),
            Kind::Address => transfer.set_text(name, "192.168.100.200:50123"),
            Kind::Text => transfer.set_text(name, "plumb"),
        }
    }
    transfer.identity.role = Some(Role::Server);
    transfer.identity.tls_cipher = Some(Text::from("TLS13_AES_128_GCM_SHA256"));
    transfer.request.path_requested = Some(Text::from("plumb-1.0.tar.gz"));
    transfer.request.path_real = Some(Text::from("/srv/ftp/pub/2026/plumb-1.0.tar.gz"));
    transfer
}

#[test]
fn all_that_a_server_knows_of_a_download_fits_its_line_uncut() {
    let line = download().to_line();
    assert!(!line.contains("is_shortened"), "{} bytes", line.len());
    assert_eq!(Transfer::from_line(&line), Ok(download()));
}

#[test]
fn the_line_begins_with_the_schema_and_the_name() {
    let line = Transfer::new(Identifier(255)).to_line();
    assert_eq!(line, "{\"schema\":1,\"record_id\":\"000000000000000000000000000000ff\"}\n");
}

#[test]
fn a_name_with_controls_forges_no_record() {
    let mut transfer = Transfer::new(Identifier(1));
    let forged = "a\n{\"schema\":1,\"record_id\":\"2\"}\n\x1b[2J\"}";
    transfer.request.path_requested = Some(Text::from(forged));
    let line = transfer.to_line();
    assert_eq!(line.matches('\n').count(), 1);
    assert!(line.contains(r"a\\x0a{"));
    assert_eq!(Transfer::from_line(&line), Ok(transfer));
}

#[test]
fn a_later_schema_with_other_fields_and_other_types_is_read_as_far_as_it_is_known() {
    let line = r#"{"schema":7,"record_id":"1f","mood":{"a":[1]},"bits":"many","rtt_us":-4,
        "command":"TELEPORT","outcome":"complete","seq":3,"lost":null,"pmtu":1.5}"#;
    let mut wanted = Transfer::new(Identifier(0x1f));
    wanted.result.outcome = Some(Outcome::Complete);
    wanted.identity.seq = Some(3);
    assert_eq!(Transfer::from_line(line), Ok(wanted));
}

#[test]
fn a_torn_line_and_one_without_a_name_are_no_records() {
    let line = download().to_line();
    assert_eq!(Transfer::from_line(&line[..line.len() - 2]), Err(NoRecord::NotJson));
    assert_eq!(Transfer::from_line("{\"schema\":1}"), Err(NoRecord::Nameless));
    assert_eq!(Transfer::from_line("[1]"), Err(NoRecord::NotJson));
}

#[test]
fn a_record_with_long_names_is_cut_to_its_line_and_says_so() {
    let mut transfer = download();
    transfer.request.path_real = Some(Text::from(&[b'\n'; 4_000]));
    let line = transfer.to_line();
    assert!(line.len() <= LINE_MAX_BYTES);
    let read = Transfer::from_line(&line).unwrap();
    assert_eq!(read.identity.is_shortened, Some(true));
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
fn the_processor_limits_what_it_worked_for_most_of_the_time() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.time.ns_transfer = Some(1_000);
    transfer.cpu.cpu_user_ns = Some(500);
    transfer.cpu.cpu_sys_ns = Some(300);
    assert_eq!(transfer.limit(), Some(Limit::Processor));
}

#[test]
fn a_full_window_of_the_far_side_limits_a_sender() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.identity.role = Some(Role::Server);
    transfer.request.command = Some(Command::Retr);
    transfer.time.ns_transfer = Some(1_000_000);
    transfer.tcp.busy_us = Some(990);
    transfer.tcp.rwnd_limited_us = Some(600);
    assert_eq!(transfer.limit(), Some(Limit::Peer));
}

#[test]
fn without_times_nothing_is_known_of_the_limit() {
    let mut transfer = Transfer::new(Identifier(1));
    assert_eq!(transfer.limit(), None);
    transfer.time.ns_transfer = Some(1_000);
    assert_eq!(transfer.limit(), None);
}

#[test]
fn a_rate_of_the_largest_numbers_is_not_wrong_but_the_largest() {
    assert_eq!(derived::rate_bps(u64::MAX, 1), Some(u64::MAX));
    assert_eq!(derived::rate_bps(1, 0), None);
    assert_eq!(derived::cpu_fs_per_bit(20, 0), None);
}

#[test]
fn the_far_host_without_a_name_is_its_address_without_the_port() {
    let mut transfer = Transfer::new(Identifier(1));
    transfer.set_text("data_remote", "[::ffff:10.1.2.3]:20");
    assert_eq!(transfer.far_host().unwrap(), b"10.1.2.3");
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
                Kind::Number => transfer.set_number(name, number),
                Kind::Flag => transfer.set_number(name, number % 2),
                Kind::Word => transfer.put_number(field.into(), number % 12),
                Kind::Text => transfer.put_bytes(field.into(), &text),
                Kind::Identifier => transfer.set_text(name, &format!("{number:x}")),
                Kind::Address => {
                    let address = std::net::SocketAddr::from((address, 21));
                    transfer.set_text(name, &address.to_string());
                }
            }
        }
        transfer.time.t_start_unix_ns = Some(began);
        transfer
    })
}

proptest! {
    #[test]
    fn any_record_is_one_line_and_comes_back(transfer in any_transfer()) {
        let line = transfer.to_line();
        prop_assert!(line.len() <= LINE_MAX_BYTES);
        prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
        let read = Transfer::from_line(&line).unwrap();
        if read.identity.is_shortened == transfer.identity.is_shortened {
            prop_assert_eq!(read, transfer);
        }
    }

    #[test]
    fn any_record_comes_back_from_the_form_of_the_store(transfer in any_transfer()) {
        prop_assert_eq!(compact::decode(&compact::encode(&transfer)), Some(transfer));
    }

    #[test]
    fn any_text_is_read_as_a_line_without_a_panic(text in any::<String>()) {
        let _ = Transfer::from_line(&text);
    }

    #[test]
    fn a_line_that_was_damaged_is_read_without_a_panic(
        transfer in any_transfer(), at in any::<proptest::sample::Index>(), byte in 0..0x80_u8,
    ) {
        let mut line = transfer.to_line().into_bytes();
        let at = at.index(line.len());
        line[at] = byte;
        let _ = Transfer::from_line(&String::from_utf8_lossy(&line));
    }

    #[test]
    fn what_limits_is_computed_of_any_record_without_a_panic(transfer in any_transfer()) {
        let _ = (transfer.limit(), transfer.rate_bps(), transfer.cpu_fs_per_bit());
        let line = xferlog::line(&transfer);
        prop_assert_eq!(line.matches('\n').count(), 1);
    }
}
