//! A real Telnet server: that of inetutils, or that of busybox.
//!
//! At one port, its program echoes what is typed; at the other one, it prints a screenful. The
//! echoes are those of the kernel's terminal, as in every login.
//!
//! The end of a session resets its connection. Otherwise, the kernel would retransmit the data and
//! the FIN of the session to the address of a computer, and the computer of the next experiment
//! would receive them.

use super::live_error::NotRun;
use crate::tm233::experiments::{SCREENFUL, text};
use os::process::Program;
use os::socket::reset_on_close;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Places of the servers, and the arguments before the path of the program that they run.
const SERVERS: [(&str, &[&str]); 4] = [
    ("/usr/sbin/telnetd", &["-h", "-E"]),
    ("/usr/libexec/telnetd", &["-h", "-E"]),
    ("/usr/bin/busybox", &["telnetd", "-i", "-f", "/dev/null", "-l"]),
    ("/bin/busybox", &["telnetd", "-i", "-f", "/dev/null", "-l"]),
];

type Sessions = Arc<Mutex<Vec<Program>>>;

/// The server, which runs in the network namespace of the thread that has started it.
#[derive(Debug)]
pub(super) struct LiveTelnetd {
    /// Directory of the programs.
    directory: PathBuf,
    sessions: Sessions,
}

impl LiveTelnetd {
    /// Starts the server at `address`: at the first port it echoes, at the second it prints.
    pub(super) fn start(address: Ipv4Addr, ports: [u16; 2]) -> Result<Self, NotRun> {
        let server = SERVERS.iter().find(|(path, _)| Path::new(path).exists());
        let (server, arguments) = *server.ok_or(NotRun::NoTelnetServer)?;
        let directory = std::env::temp_dir().join(format!("plumb-tm233-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let telnetd = Self { directory, sessions: Sessions::default() };
        let screenful = telnetd.directory.join("screenful");
        // The terminal inserts the carriage returns.
        let lines: Vec<u8> = text(SCREENFUL).into_iter().filter(|byte| *byte != b'\r').collect();
        fs::write(&screenful, lines)?;
        let print = format!("cat {}\nexec sleep 600\n", screenful.display());
        let scripts = [("echo", "exec cat\n"), ("print", print.as_str())];
        for ((name, script), port) in scripts.into_iter().zip(ports) {
            let program = telnetd.directory.join(name);
            fs::write(&program, format!("#!/bin/sh\n{script}"))?;
            fs::set_permissions(&program, Permissions::from_mode(0o755))?;
            let listener = TcpListener::bind((address, port))?;
            let sessions = Arc::clone(&telnetd.sessions);
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let Ok(output) = stream.try_clone() else { return };
                    if reset_on_close(&stream).is_err() {
                        return;
                    }
                    let mut command = Command::new(server);
                    command.args(arguments).arg(&program).stderr(Stdio::null());
                    command.stdin(OwnedFd::from(stream)).stdout(OwnedFd::from(output));
                    let started = Program::start(&mut command);
                    sessions.lock().unwrap_or_else(PoisonError::into_inner).extend(started);
                }
            });
        }
        Ok(telnetd)
    }

    /// Ends all sessions.
    pub(super) fn end_sessions(&self) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for LiveTelnetd {
    fn drop(&mut self) {
        self.end_sessions();
        // Leftover files only occupy disk space.
        _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};
    use std::net::TcpStream;

    #[test]
    fn the_end_of_a_session_resets_its_connection() {
        let free_port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let ports = [free_port(), free_port()];
        let telnetd = match LiveTelnetd::start(Ipv4Addr::LOCALHOST, ports) {
            Ok(telnetd) => telnetd,
            Err(error @ NotRun::NoTelnetServer) => {
                return test_support::not_configured("a Telnet server", &error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, ports[0])).unwrap();
        // The negotiation of the server: it has the connection.
        client.read_exact(&mut [0; 3]).unwrap();
        let sessions = || telnetd.sessions.lock().unwrap().len();
        while sessions() == 0 {
            thread::yield_now();
        }
        telnetd.end_sessions();
        let end = loop {
            match client.read(&mut [0; 512]) {
                Ok(1..) => {}
                end => break end,
            }
        };
        assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}
