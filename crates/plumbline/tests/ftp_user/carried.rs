//! File transfers over plumb's own TCP, on a TUN.

use super::{Kind, PORT, content, meet_over_a_tun, work};
use std::fs;

const TUN: [&str; 2] = ["--via", "tun:plumb0"];

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn files_come_and_go_over_our_own_tcp_in_the_clear_and_in_tls() {
    meet_over_a_tun(Kind::Vsftpd, "tun", |desk, host| {
        for (scheme, name) in [("ftp", "f28"), ("ftpes", "f29")] {
            let url = format!("{scheme}://{host}:{PORT}");
            desk.done(&[&["get"], &TUN[..], &[&format!("{url}/pub/{name}")]].concat());
            desk.done(&[&["put"], &TUN[..], &[name, &format!("{url}/incoming/")]].concat());
            assert!(desk.there(&format!("incoming/{name}")) == desk.here(name));
        }
        assert!(desk.here("f28") == content(28) && desk.here("f29") == content(29));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn many_files_come_over_our_own_tcp_and_the_server_may_connect_to_it() {
    meet_over_a_tun(Kind::Vsftpd, "tun-many", |desk, host| {
        let from = format!("ftp://{host}:{PORT}/pub/f*");
        desk.done(&[&["get", "-j", "3"], &TUN[..], &[&from, "."]].concat());
        assert!((0..super::FILES).all(|index| desk.here(&format!("f{index}")) == content(index)));
        fs::remove_file(desk.folder.join("here/f7")).unwrap();
        let one = format!("ftp://{host}:{PORT}/pub/f7");
        desk.done(&[&["get", "--active"], &TUN[..], &[&one]].concat());
        assert_eq!(desk.here("f7"), content(7));
    });
}

#[test]
#[ignore = "needs root or a user namespace, and vsftpd"]
fn the_records_of_files_over_our_own_tcp_tell_what_it_knows() {
    meet_over_a_tun(Kind::Vsftpd, "tun-records", |desk, host| {
        let url = format!("ftp://{host}:{PORT}");
        let got = desk.done(&[&["get", "--json"], &TUN[..], &[&format!("{url}/pub/f29")]].concat());
        let to = format!("{url}/incoming/");
        let put = desk.done(&[&["put", "--json"], &TUN[..], &["f29", &to]].concat());
        let kernels = desk.done(&["get", "--json", "-f", &format!("{url}/pub/f29"), "again"]);
        let [got, put, kernels] = [&got, &put, &kernels]
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let bytes = content(29).len() as u64;
        for record in [&got, &put] {
            assert_eq!(
                (&record["stack"], &record["ca_name"]),
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
        assert!(got.get("syscalls").is_none() && got["vol_switches"].is_u64(), "{got}");
        assert_eq!(got["bytes_received"], bytes);
        assert!(put["bytes_acked"].is_u64());
        assert_eq!(kernels["stack"], "kernel");
        assert!(kernels.get("acks_out").is_none(), "{kernels}");
    });
}

#[test]
#[ignore = "needs root or a user namespace, and pyftpdlib"]
fn the_kernels_way_and_ours_bring_the_same() {
    meet_over_a_tun(Kind::Pyftpdlib, "tun-both", |desk, host| {
        work(desk, &format!("ftp://me:secret@{host}:{PORT}"));
        let url = format!("ftp://me:secret@{host}:{PORT}/pub/f9");
        desk.done(&[&["get", "-f"], &TUN[..], &[&url, "other"]].concat());
        assert_eq!(desk.here("other"), desk.here("f9"));
    });
}
