//! Test of the live tables of `plumb lab tm233`, which take about three minutes.

use std::process::{Command, Stdio};
use test_support::in_new_network;

#[test]
#[ignore = "needs root and a Telnet server, and takes three minutes"]
fn the_live_gateway_loses_no_packet_of_comet_and_makes_the_clumps_of_csr() {
    in_new_network(os::namespace::enter_new_network, || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
        command.args(["lab", "tm233", "--live", "--json"]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        if message.contains("there is no Telnet server") {
            return test_support::not_configured("telnetd or busybox", "not installed");
        }
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && message.is_empty(), "{message}");
        for rate in [9_600, 19_200, 23_040] {
            for name in ["Comet", "Comet, vj=1"] {
                let row = format!("{rate} bit/s, {name}: 0 lost, 0 timeouts");
                assert!(text.contains(&row), "{text}");
            }
        }
        // Both clumps appear among twenty screenfuls but once in a thousand runs.
        let live = text.split("--discipline 1982, live").nth(1).unwrap();
        assert!(live.contains("0 timeouts, ") && live.contains("1 timeouts, "), "{live}");
    });
}
