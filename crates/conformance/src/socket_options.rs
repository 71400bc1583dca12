//! setsockopt(2) and getsockopt(2) of a stream socket.

use crate::errno::Errno;
use crate::host_under_test::Host;
use crate::options::{IP, NUMBERS, Name, SO_MEMINFO, SOCKET, TCP, TCP_CC_INFO};
use crate::script_settings::TargetOs;
use crate::socket::{Phase, Stream};
use crate::tcp_info;
use net::transport::tcp::State;

impl Stream {
    /// Implements setsockopt(2).
    pub(crate) fn set_option(
        &mut self,
        host: &mut Host,
        name: Name,
        value: &[u8],
    ) -> Result<(), Errno> {
        match name {
            (TCP, libc::TCP_CONGESTION) => {
                let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
                if ![&b"cubic"[..], b"reno", b"bbr"].contains(&text) {
                    return Err(Errno(libc::ENOENT));
                }
                self.options.congestion_control = text.to_vec();
            }
            (SOCKET, libc::SO_LINGER) => {
                let numbers = (number_at(value, 0), number_at(value, 4));
                let (Some(on), Some(seconds)) = numbers else { return Err(Errno(libc::EINVAL)) };
                self.options.linger = (on, seconds);
            }
            _ => {
                let number = number_of(value).ok_or(Errno(libc::EINVAL))?;
                self.set_number(name, number)?;
            }
        }
        if let Phase::Connected(id) = self.phase {
            host.set_profile(id, self.options.profile());
        }
        Ok(())
    }

    /// Returns the value of SO_MEMINFO: nine sizes in bytes. The queue lengths and their limits are
    /// filled in; the other sizes are 0.
    fn memory(&self, host: &Host) -> Vec<u8> {
        let status = self.status(host);
        let number = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let received = status.map_or(0, |status| number(status.receive_queue));
        let queued = status.map_or(0, |status| status.send_queue);
        let limits = (self.options.receive_window(), self.options.send_space());
        let numbers = [received, number(limits.0), queued, number(limits.1), 0, queued, 0, 0, 0];
        numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    fn set_number(&mut self, name: Name, number: i32) -> Result<(), Errno> {
        let is_space = matches!(name, (SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF));
        let stored_value = match name {
            // Linux doubles the value to include its bookkeeping.
            _ if is_space && self.options.target_os == TargetOs::Linux => number.saturating_mul(2),
            _ if is_space => number,
            (TCP, libc::TCP_MAXSEG) if (88..=32_767).contains(&number) => number,
            (TCP, libc::TCP_USER_TIMEOUT) if number < 0 => return Err(Errno(libc::EINVAL)),
            _ if NUMBERS.iter().any(|(known, _)| *known == name) => number,
            (SOCKET | TCP | IP, _) => return Err(Errno(libc::ENOPROTOOPT)),
            _ => return Err(Errno(libc::EINVAL)),
        };
        self.options.numbers.insert(name, stored_value);
        Ok(())
    }

    /// Implements getsockopt(2). The caller truncates the value to the size of its buffer.
    pub(crate) fn option(&mut self, host: &Host, name: Name) -> Result<Vec<u8>, Errno> {
        let status = self.status(host);
        let number = match name {
            (SOCKET, libc::SO_ERROR) => self.take_error(host).map_or(0, |error| error.0),
            (SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
            (SOCKET, libc::SO_PROTOCOL) => TCP,
            (SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
            (SOCKET, libc::SO_ACCEPTCONN) => i32::from(matches!(self.phase, Phase::Listening(_))),
            (SOCKET, libc::SO_RCVBUF) => {
                let opened = status.filter(|status| status.state != State::SynSent);
                let opened = opened.filter(|_| self.has_connected);
                self.options.receive_space(opened.map(|status| status.send_mss))
            }
            (SOCKET, libc::SO_SNDBUF) => {
                i32::try_from(self.options.send_space()).unwrap_or(i32::MAX)
            }
            (SOCKET, libc::SO_LINGER) => {
                let (on, seconds) = self.options.linger;
                return Ok([on.to_ne_bytes(), seconds.to_ne_bytes()].concat());
            }
            (TCP, libc::TCP_MAXSEG) => {
                let mss = status.map_or(536, |status| status.send_mss);
                i32::try_from(mss).unwrap_or(i32::MAX)
            }
            (TCP, libc::TCP_CONGESTION) => {
                let mut text = self.options.congestion_control.clone();
                text.resize(16, 0);
                return Ok(text);
            }
            (SOCKET, SO_MEMINFO) => return Ok(self.memory(host)),
            (TCP, libc::TCP_INFO) => return Ok(tcp_info::encode(status.as_ref())),
            (TCP, TCP_CC_INFO) => return Ok(Vec::new()),
            (IP, libc::IP_MTU) => i32::from(host.mtu()),
            _ => self.options.number(name).ok_or(Errno(libc::ENOPROTOOPT))?,
        };
        Ok(number.to_ne_bytes().to_vec())
    }
}

/// Parses the integer value of an option, which may be a single byte.
fn number_of(value: &[u8]) -> Option<i32> {
    number_at(value, 0).or_else(|| value.first().copied().map(i32::from))
}

fn number_at(value: &[u8], at: usize) -> Option<i32> {
    let bytes = value.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(i32::from_ne_bytes)
}
