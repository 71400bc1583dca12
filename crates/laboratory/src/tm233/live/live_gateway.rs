//! The gateway of a live experiment: `plumb gateway --routed` with two serial lines.

use super::live_error::NotRun;
use os::process::Program;
use os::pty::Pty;
use os::tty::WindowSize;
use std::io::{BufRead, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};

/// Arguments with which the gateway of TM-233 and that of today differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GatewayMode {
    Fair,
    /// Fair, with compressed TCP headers on the lines.
    Compressing,
    Of1982,
}

/// A running gateway.
#[derive(Debug)]
pub(super) struct LiveGateway {
    program: Program,
    messages: BufReader<ChildStderr>,
}

impl LiveGateway {
    /// Starts the gateway `program` with a line for each of `addresses`, and returns the other ends
    /// of the lines.
    pub(super) fn start(
        program: &Path,
        router: Ipv4Addr,
        addresses: [Ipv4Addr; 2],
        (rate_bps, mtu, mode): (u64, usize, GatewayMode),
    ) -> Result<(Self, [Pty; 2]), NotRun> {
        let open = || Pty::open(WindowSize { rows: 24, columns: 80 });
        let ptys = [open()?, open()?];
        let mut command = Command::new(program);
        command.args(["gateway", "--routed", "--router-address", &router.to_string()]);
        if mode == GatewayMode::Of1982 {
            command.args(["--discipline", "1982"]);
        }
        for (pty, address) in ptys.iter().zip(addresses) {
            let path = pty.path().display();
            let vj = u8::from(mode == GatewayMode::Compressing);
            let settings = format!("baud={rate_bps}&link=llp&vj={vj}&mtu={mtu}&address={address}");
            command.arg(format!("serial:{path}?{settings}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut program = Program::start(&mut command)?;
        let stderr = program.child().stderr.take();
        let stderr = stderr.ok_or_else(|| NotRun::Gateway("it has no output".to_owned()))?;
        let mut gateway = Self { program, messages: BufReader::new(stderr) };
        gateway.wait_for_lines(ptys.len())?;
        Ok((gateway, ptys))
    }

    fn wait_for_lines(&mut self, mut count: usize) -> Result<(), NotRun> {
        let mut last = String::new();
        while count > 0 {
            let mut message = String::new();
            if self.messages.read_line(&mut message)? == 0 {
                return Err(NotRun::Gateway(last.trim().to_owned()));
            }
            count -= usize::from(message.contains(" is up"));
            last = message;
        }
        Ok(())
    }

    /// Ends the gateway, and returns how many packets its output queues have dropped.
    pub(super) fn end(mut self) -> Result<u64, NotRun> {
        self.program.terminate()?;
        let mut report = String::new();
        self.messages.read_to_string(&mut report)?;
        dropped(&report).ok_or(NotRun::Gateway(report))
    }
}

/// Returns the sum of the dropped packets in the lines of a report, or `None` if there is no such
/// line.
fn dropped(report: &str) -> Option<u64> {
    if !report.contains("dropped: ") {
        return None;
    }
    let lines = report.lines().filter_map(|line| line.split_once("dropped: "));
    let counts = lines.flat_map(|(_, reasons)| reasons.split(", ")).map(|reason| {
        let number = reason.split(' ').next()?;
        number.parse::<u64>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_all_lines_are_added() {
        let report = "a: 9 packets out, 1 marked, dropped: 2 of a burst, 3 full, 0 delayed\n\
                      b: 9 packets out, 0 marked, dropped: 0 of a burst, 0 full, 4 delayed\n";
        assert_eq!(dropped(report), Some(9));
        assert_eq!(dropped("a: 9 packets out, 1 marked, dropped: some\n"), None);
        assert_eq!(dropped(""), None);
    }
}
