//! File transfers over plumb's own TCP, on a TUN.

use super::{Kind, PORT, content, meet_over_a_tun, work};
use std::fs;

const TUN: [&str; 2] = ["--via", "tun:plumb0"];

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_are_transferred_over_userspace_tcp_in_plaintext_and_in_tls() {
    meet_over_a_tun(Kind::Vsftpd, "tun", |fixture, host| {
        for (scheme, name) in [("ftp", "f28"), ("ftpes", "f29")] {
            let url = format!("{scheme}://{host}:{PORT}");
            fixture.done(&[&["get"], &TUN[..], &[&format!("{url}/pub/{name}")]].concat());
            fixture.done(&[&["put"], &TUN[..], &[name, &format!("{url}/incoming/")]].concat());
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
    meet_over_a_tun(Kind::Vsftpd, "tun-many", |fixture, host| {
        let from = format!("ftp://{host}:{PORT}/pub/f*");
        fixture.done(&[&["get", "-j", "3"], &TUN[..], &[&from, "."]].concat());
        assert!(
            (0..super::FILES)
                .all(|index| fixture.read_local(&format!("f{index}")) == content(index))
        );
        fs::remove_file(fixture.directory.join("here/f7")).unwrap();
        let one = format!("ftp://{host}:{PORT}/pub/f7");
        fixture.done(&[&["get", "--active"], &TUN[..], &[&one]].concat());
        assert_eq!(fixture.read_local("f7"), content(7));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn records_of_transfers_over_userspace_tcp_contain_its_statistics() {
    meet_over_a_tun(Kind::Vsftpd, "tun-records", |fixture, host| {
        let url = format!("ftp://{host}:{PORT}");
        let got =
            fixture.done(&[&["get", "--json"], &TUN[..], &[&format!("{url}/pub/f29")]].concat());
        let to = format!("{url}/incoming/");
        let put = fixture.done(&[&["put", "--json"], &TUN[..], &["f29", &to]].concat());
        let kernels = fixture.done(&["get", "--json", "-f", &format!("{url}/pub/f29"), "again"]);
        let [got, put, kernels] = [&got, &put, &kernels]
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let bytes = content(29).len() as u64;
        for record in [&got, &put] {
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
        assert!(got.get("syscalls").is_none() && got["voluntary_switches"].is_u64(), "{got}");
        assert_eq!(got["bytes_received"], bytes);
        assert!(put["bytes_acked"].is_u64());
        assert_eq!(kernels["stack"], "kernel");
        assert!(kernels.get("acks_out").is_none(), "{kernels}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn kernel_and_userspace_tcp_transfer_identical_files() {
    meet_over_a_tun(Kind::Pyftpdlib, "tun-both", |fixture, host| {
        work(fixture, &format!("ftp://me:secret@{host}:{PORT}"));
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f9");
        fixture.done(&[&["get", "-f"], &TUN[..], &[&url, "other"]].concat());
        assert_eq!(fixture.read_local("other"), fixture.read_local("f9"));
    });
}
