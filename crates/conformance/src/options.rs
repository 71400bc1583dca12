//! Socket options, and the connection profile that results from them.

use crate::script_settings::{Policies, Sysctl, TargetOs};
use net::transport::tcp::{
    Acknowledgment, Congestion, Profile, ReceiveWindow, SendLimit, UserTimeout, WindowUpdate,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Level and name of an option, as in `setsockopt(2)`.
pub(crate) type Name = (i32, i32);

/// Options set on a socket; an accepted socket inherits them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) target_os: TargetOs,
    policies: Policies,
    sysctl: Sysctl,
    pub(crate) numbers: BTreeMap<Name, i32>,
    pub(crate) congestion_control: Vec<u8>,
    /// SO_LINGER: the flag (0 for off), and the time in seconds.
    pub(crate) linger: (i32, i32),
}

pub(crate) const SOCKET: i32 = libc::SOL_SOCKET;
pub(crate) const TCP: i32 = libc::IPPROTO_TCP;
pub(crate) const IP: i32 = libc::IPPROTO_IP;

/// Socket options that `libc` does not define.
pub(crate) const TCP_CC_INFO: i32 = 26;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_SAVE_SYN: i32 = 27;
const TCP_INQ: i32 = 36;
pub(crate) const SO_MEMINFO: i32 = 55;
const SO_ZEROCOPY: i32 = 60;

/// Options with one integer that are stored and returned, with their default values.
///
/// The options that change the behavior of the stack are read by [`Options::profile`] and by the
/// system calls.
pub(crate) const NUMBERS: [(Name, i32); 29] = [
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

    pub(crate) fn number(&self, name: Name) -> Option<i32> {
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
    pub(crate) fn send_space(&self) -> usize {
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
    pub(crate) fn receive_space(&self, mss: Option<u32>) -> i32 {
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
    pub(crate) fn receive_window(&self) -> usize {
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
