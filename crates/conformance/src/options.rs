//! Socket options, and the connection profile that results from them.

use crate::host_under_test::Host;
use crate::script_settings::{Policies, Sysctl, TargetOs};
use crate::socket::{Errno, Phase, Stream};
use crate::tcp_info;
use net::transport::tcp::{
    Acknowledgment, Congestion, Profile, ReceiveWindow, SendLimit, State, UserTimeout, WindowUpdate,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Level and name of an option, as in `setsockopt(2)`.
type Name = (i32, i32);

/// Options set on a socket; an accepted socket inherits them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    target_os: TargetOs,
    policies: Policies,
    sysctl: Sysctl,
    numbers: BTreeMap<Name, i32>,
    congestion_control: Vec<u8>,
    /// SO_LINGER: the flag (0 for off), and the time in seconds.
    linger: (i32, i32),
}

const SOCKET: i32 = libc::SOL_SOCKET;
const TCP: i32 = libc::IPPROTO_TCP;
const IP: i32 = libc::IPPROTO_IP;

/// Socket options that `libc` does not define.
const TCP_CC_INFO: i32 = 26;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_SAVE_SYN: i32 = 27;
const TCP_INQ: i32 = 36;
const SO_MEMINFO: i32 = 55;
const SO_ZEROCOPY: i32 = 60;

/// Options with one integer that are stored and returned, with their default values.
///
/// The options that change the behavior of the stack are read by [`Options::profile`] and by the
/// system calls.
const NUMBERS: [(Name, i32); 29] = [
    ((SOCKET, libc::SO_REUSEADDR), 0),
    ((SOCKET, libc::SO_REUSEPORT), 0),
    ((SOCKET, libc::SO_KEEPALIVE), 0),
    ((SOCKET, libc::SO_RCVLOWAT), 1),
    ((SOCKET, libc::SO_PRIORITY), 0),
    ((SOCKET, libc::SO_MARK), 0),
    ((SOCKET, libc::SO_OOBINLINE), 0),
    ((SOCKET, libc::SO_TIMESTAMP), 0),
    ((SOCKET, SO_ZEROCOPY), 0),
    ((TCP, libc::TCP_NODELAY), 0),
    ((TCP, libc::TCP_CORK), 0),
    ((TCP, libc::TCP_KEEPIDLE), 7200),
    ((TCP, libc::TCP_KEEPINTVL), 75),
    ((TCP, libc::TCP_KEEPCNT), 9),
    ((TCP, libc::TCP_SYNCNT), 6),
    ((TCP, libc::TCP_LINGER2), 60),
    ((TCP, libc::TCP_DEFER_ACCEPT), 0),
    ((TCP, libc::TCP_WINDOW_CLAMP), 0),
    ((TCP, libc::TCP_QUICKACK), 1),
    ((TCP, libc::TCP_USER_TIMEOUT), 0),
    ((TCP, TCP_NOTSENT_LOWAT), -1),
    ((TCP, TCP_SAVE_SYN), 0),
    ((TCP, TCP_INQ), 0),
    ((IP, libc::IP_TOS), 0),
    ((IP, libc::IP_TTL), 64),
    ((IP, libc::IP_MTU_DISCOVER), 1),
    ((IP, libc::IP_RECVERR), 0),
    ((IP, libc::IP_RECVTOS), 0),
    ((IP, libc::IP_FREEBIND), 0),
];

impl Options {
    /// Creates the options of a new socket.
    pub(crate) fn new(target_os: TargetOs, policies: Policies, sysctl: Sysctl) -> Self {
        let congestion_control =
            sysctl.text("net.ipv4.tcp_congestion_control").unwrap_or("cubic").into();
        let numbers = BTreeMap::new();
        let linger = (0, 0);
        Self { target_os, policies, sysctl, numbers, congestion_control, linger }
    }

    fn number(&self, name: Name) -> Option<i32> {
        let otherwise = NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        self.numbers.get(&name).copied().or(otherwise)
    }

    fn is_on(&self, name: Name) -> bool {
        self.number(name).is_some_and(|value| value != 0)
    }

    /// Returns whether close(2) resets the connection, which is the case for SO_LINGER with time 0.
    pub(crate) fn closes_abortively(&self) -> bool {
        matches!(self.linger, (on, 0) if on != 0)
    }

    /// Returns the value of SO_SNDBUF in bytes.
    fn send_space(&self) -> usize {
        let system = match self.target_os {
            TargetOs::Linux => self.sysctl.number("net.ipv4.tcp_wmem").unwrap_or(4_194_304),
            TargetOs::FreeBsd => self.sysctl.number("net.inet.tcp.sendspace").unwrap_or(32_768),
        };
        let set = self.numbers.get(&(SOCKET, libc::SO_SNDBUF));
        let set = set.and_then(|value| usize::try_from(*value).ok());
        set.unwrap_or_else(|| usize::try_from(system).unwrap_or(usize::MAX))
    }

    /// Returns the maximum number of unacknowledged bytes.
    ///
    /// Linux includes its own overhead in the buffer size; about two thirds of the buffer are data.
    pub(crate) fn send_limit(&self) -> usize {
        match self.target_os {
            TargetOs::Linux => self.send_space() / 3 * 2,
            TargetOs::FreeBsd => self.send_space(),
        }
    }

    /// Returns the value of SO_RCVBUF in bytes. FreeBSD rounds it up to whole segments of `mss`
    /// bytes once connected.
    fn receive_space(&self, mss: Option<u32>) -> i32 {
        let set = self.numbers.get(&(SOCKET, libc::SO_RCVBUF)).copied();
        let system = match self.target_os {
            TargetOs::Linux => 131_072,
            TargetOs::FreeBsd => self.sysctl.number("net.inet.tcp.recvspace").unwrap_or(65_536),
        };
        let space = set.unwrap_or_else(|| i32::try_from(system).unwrap_or(i32::MAX));
        match mss.and_then(|mss| i32::try_from(mss).ok()) {
            Some(mss) if self.target_os == TargetOs::FreeBsd && mss > 0 => {
                space.saturating_add(mss - 1) / mss * mss
            }
            _ => space,
        }
    }

    /// Returns the largest window to advertise in bytes, which determines the window scale.
    fn receive_window(&self) -> usize {
        if let Some(set) = self.numbers.get(&(SOCKET, libc::SO_RCVBUF)) {
            return usize::try_from(*set).unwrap_or(0).max(4096);
        }
        let largest = match self.target_os {
            TargetOs::Linux => self.sysctl.number("net.ipv4.tcp_rmem").unwrap_or(15 << 20),
            TargetOs::FreeBsd => self.sysctl.number("kern.ipc.maxsockbuf").unwrap_or(2_097_152),
        };
        usize::try_from(largest).unwrap_or(usize::MAX).min(1 << 30)
    }

    /// Returns whether the extensions of RFC 7323 are offered, and whether timestamps are offered.
    fn extensions(&self) -> (bool, bool) {
        match self.target_os {
            TargetOs::Linux => (true, self.sysctl.is_on("net.ipv4.tcp_timestamps", true)),
            TargetOs::FreeBsd => (self.sysctl.is_on("net.inet.tcp.rfc1323", true), true),
        }
    }

    fn congestion(&self) -> Congestion {
        match self.congestion_control.as_slice() {
            b"reno" => Congestion::NewReno,
            b"bbr" => Congestion::Bbr,
            _ => Congestion::Cubic,
        }
    }

    /// Returns whether ECN is requested; by default both systems only accept it.
    fn has_ecn(&self) -> bool {
        let name = match self.target_os {
            TargetOs::Linux => "net.ipv4.tcp_ecn",
            TargetOs::FreeBsd => "net.inet.tcp.ecn.enable",
        };
        self.sysctl.number(name) == Some(1)
    }

    /// Returns the profile for connections of this socket.
    pub(crate) fn profile(&self) -> Profile {
        match self.policies.profile() {
            Some(profile) => self.with_script_options(profile),
            None => self.tuned(),
        }
    }

    /// Applies TCP_USER_TIMEOUT to `profile`; 0 selects the system's default.
    fn user_timeout(&self, profile: UserTimeout) -> UserTimeout {
        let set = self.numbers.get(&(TCP, libc::TCP_USER_TIMEOUT)).copied();
        let millis = set.and_then(|millis| u64::try_from(millis).ok()).filter(|millis| *millis > 0);
        UserTimeout { r2: millis.map(Duration::from_millis).or(profile.r2), ..profile }
    }

    /// Applies the options that the script sets explicitly to a fixed profile (see
    /// [`Policies::profile`]).
    fn with_script_options(&self, profile: Profile) -> Profile {
        let set = |name: Name| self.numbers.get(&name).copied();
        let bytes = |name: Name| set(name).and_then(|bytes| usize::try_from(bytes).ok());
        let (extensions, timestamps) = self.extensions();
        Profile {
            receive_window: bytes((SOCKET, libc::SO_RCVBUF))
                .map_or(profile.receive_window, ReceiveWindow::Bytes),
            send_limit: bytes((SOCKET, libc::SO_SNDBUF))
                .map_or(profile.send_limit, |_| SendLimit::Bytes(self.send_limit())),
            nagle: set((TCP, libc::TCP_NODELAY)).map_or(profile.nagle, |value| value == 0),
            mss_max: set((TCP, libc::TCP_MAXSEG)).and_then(|mss| u16::try_from(mss).ok()),
            extensions,
            timestamps,
            congestion: self.congestion(),
            ecn: self.has_ecn(),
            user_timeout: self.user_timeout(profile.user_timeout),
            ..profile
        }
    }

    /// Returns the profile that imitates the operating system for which the script was written.
    fn tuned(&self) -> Profile {
        let mss = self.numbers.get(&(TCP, libc::TCP_MAXSEG));
        let (extensions, timestamps) = self.extensions();
        Profile {
            receive_window: ReceiveWindow::Bytes(self.receive_window()),
            // Both systems send a separate window update only when the advertised window has become
            // small.
            window_update: WindowUpdate::HalfUsed,
            // Linux acknowledges at once until it detects that the script replies with data.
            acknowledgment: Acknowledgment::AtOutput,
            send_limit: SendLimit::Bytes(self.send_limit()),
            nagle: !self.is_on((TCP, libc::TCP_NODELAY)),
            mss_max: mss.and_then(|mss| u16::try_from(*mss).ok()),
            extensions,
            timestamps,
            congestion: self.congestion(),
            ecn: self.has_ecn(),
            // The scripts expect segments to be sent without pacing.
            pacing: false,
            user_timeout: self.user_timeout(Profile::BULK.user_timeout),
            ..Profile::BULK
        }
    }
}

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
