//! Tests of file transfers over plumb's own TCP, on a TUN.

use super::{Kind, PORT, content, manage_files, with_server_and_tun};
use std::fs;

const TUN: [&str; 2] = ["--via", "tun:plumb0"];

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_transferred_over_userspace_tcp_in_plaintext_and_in_tls() {
    with_server_and_tun(Kind::Vsftpd, "tun", |fixture, host| {
        for (scheme, name) in [("ftp", "f28"), ("ftpes", "f29")] {
            let url = format!("{scheme}://{host}:{PORT}");
            fixture.run_ok(&[&["get"], &TUN[..], &[&format!("{url}/pub/{name}")]].concat());
            fixture.run_ok(&[&["put"], &TUN[..], &[name, &format!("{url}/incoming/")]].concat());
            assert!(fixture.read_remote(&format!("incoming/{name}")) == fixture.read_local(name));
        }
        assert!(
            fixture.read_local("f28") == content(28) && fixture.read_local("f29") == content(29)
        );
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn many_files_are_downloaded_over_userspace_tcp_in_passive_and_active_mode() {
    with_server_and_tun(Kind::Vsftpd, "tun-many", |fixture, host| {
        let from = format!("ftp://{host}:{PORT}/pub/f*");
        fixture.run_ok(&[&["get", "-j", "3"], &TUN[..], &[&from, "."]].concat());
        assert!(
            (0..super::FILES)
                .all(|index| fixture.read_local(&format!("f{index}")) == content(index))
        );
        fs::remove_file(fixture.directory.join("here/f7")).unwrap();
        let file_url = format!("ftp://{host}:{PORT}/pub/f7");
        fixture.run_ok(&[&["get", "--active"], &TUN[..], &[&file_url]].concat());
        assert_eq!(fixture.read_local("f7"), content(7));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn records_of_transfers_over_userspace_tcp_contain_its_statistics() {
    with_server_and_tun(Kind::Vsftpd, "tun-records", |fixture, host| {
        let url = format!("ftp://{host}:{PORT}");
        let download_record =
            fixture.run_ok(&[&["get", "--json"], &TUN[..], &[&format!("{url}/pub/f29")]].concat());
        let to = format!("{url}/incoming/");
        let upload_record = fixture.run_ok(&[&["put", "--json"], &TUN[..], &["f29", &to]].concat());
        let kernel_record =
            fixture.run_ok(&["get", "--json", "-f", &format!("{url}/pub/f29"), "again"]);
        let [download_record, upload_record, kernel_record] =
            [&download_record, &upload_record, &kernel_record]
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let bytes = content(29).len() as u64;
        for record in [&download_record, &upload_record] {
            assert_eq!(
                (&record["stack"], &record["congestion_control"]),
                (&"plumbline".into(), &"cubic".into())
            );
            for known in ["total_retrans", "rtt_us", "snd_mss", "segs_out", "segs_in", "acks_out"] {
                assert!(record[known].is_u64(), "{known}: {record}");
            }
            assert_eq!(record["file_bytes"], bytes);
            assert_eq!(record["total_retrans"], 0, "on a line without loss");
        }
        // One system call carries many datagrams, so system calls are not counted for this
        // transfer.
        assert!(
            download_record.get("syscalls").is_none()
                && download_record["voluntary_switches"].is_u64(),
            "{download_record}"
        );
        assert_eq!(download_record["bytes_received"], bytes);
        assert!(upload_record["bytes_acked"].is_u64());
        assert_eq!(kernel_record["stack"], "kernel");
        assert!(kernel_record.get("acks_out").is_none(), "{kernel_record}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn kernel_and_userspace_tcp_transfer_identical_files() {
    with_server_and_tun(Kind::Pyftpdlib, "tun-both", |fixture, host| {
        manage_files(fixture, &format!("ftp://me:secret@{host}:{PORT}"));
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f9");
        fixture.run_ok(&[&["get", "-f"], &TUN[..], &[&url, "other"]].concat());
        assert_eq!(fixture.read_local("other"), fixture.read_local("f9"));
    });
}
