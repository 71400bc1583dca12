//! A benchmark case: a service of a server program over a path, with no injected cause, one cause
//! or two causes.

use super::cause::{Cause, Kind};
use super::generator::Generator;
use super::service::Service;
use std::fmt;

/// Shell that a login runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shell {
    /// `/bin/sh`, which leaves the echo to the kernel.
    Plain,
    /// bash, which echoes keys itself.
    Bash,
}

impl Shell {
    pub(super) const ALL: [Self; 2] = [Self::Plain, Self::Bash];

    /// Returns the command that starts the shell.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Self::Plain => "/bin/sh -i",
            Self::Bash => "bash --norc --noprofile -i",
        }
    }
}

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Peer {
    InetutilsTelnetd,
    BusyboxTelnetd,
    PlumbLogin,
    Vsftpd,
    PureFtpd,
    Proftpd,
    Pyftpdlib,
    PlumbFtp,
    TftpdHpa,
    Atftpd,
    Dnsmasq,
    PlumbTftp,
    // The servers below are used only by the second generator (`super::second`): Python scripts,
    // and other modes of the servers above.
    PythonTelnetd,
    VsftpdInetd,
    PyftpdlibThreads,
    PythonTftpd,
}

impl Peer {
    /// Server programs used by `Generator::First`.
    pub(super) const FIRST: [Self; 12] = [
        Self::InetutilsTelnetd,
        Self::BusyboxTelnetd,
        Self::PlumbLogin,
        Self::Vsftpd,
        Self::PureFtpd,
        Self::Proftpd,
        Self::Pyftpdlib,
        Self::PlumbFtp,
        Self::TftpdHpa,
        Self::Atftpd,
        Self::Dnsmasq,
        Self::PlumbTftp,
    ];
    /// Server programs used by `Generator::Second`.
    pub(super) const SECOND: [Self; 14] = [
        Self::InetutilsTelnetd,
        Self::BusyboxTelnetd,
        Self::PlumbLogin,
        Self::PythonTelnetd,
        Self::VsftpdInetd,
        Self::PureFtpd,
        Self::Proftpd,
        Self::PyftpdlibThreads,
        Self::PlumbFtp,
        Self::TftpdHpa,
        Self::Atftpd,
        Self::Dnsmasq,
        Self::PlumbTftp,
        Self::PythonTftpd,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::InetutilsTelnetd => "inetutils telnetd",
            Self::BusyboxTelnetd => "busybox telnetd",
            Self::PlumbLogin => "plumb serve",
            Self::Vsftpd => "vsftpd",
            Self::PureFtpd => "pure-ftpd",
            Self::Proftpd => "proftpd",
            Self::Pyftpdlib => "pyftpdlib",
            Self::PlumbFtp => "plumb serve --ftp",
            Self::TftpdHpa => "tftpd-hpa",
            Self::Atftpd => "atftpd",
            Self::Dnsmasq => "dnsmasq",
            Self::PlumbTftp => "plumb serve --tftp",
            Self::PythonTelnetd => "python telnetd",
            Self::VsftpdInetd => "vsftpd under inetd",
            Self::PyftpdlibThreads => "pyftpdlib, threads",
            Self::PythonTftpd => "python tftpd",
        }
    }

    /// Returns the server programs that `Generator::First` may use for `service` with the causes
    /// `kinds`.
    pub(super) fn for_service(service: Service, kinds: &[Kind]) -> Vec<Self> {
        let all: &[Self] = match service {
            // plumb serve sets TCP_NODELAY.
            Service::Login | Service::LoginOwnTcp if kinds.contains(&Kind::Nagle) => {
                &[Self::InetutilsTelnetd, Self::BusyboxTelnetd]
            }
            Service::Login | Service::LoginOwnTcp => {
                &[Self::InetutilsTelnetd, Self::BusyboxTelnetd, Self::PlumbLogin]
            }
            Service::FtpGet => {
                &[Self::Vsftpd, Self::PureFtpd, Self::Proftpd, Self::Pyftpdlib, Self::PlumbFtp]
            }
            Service::FtpPut => &[Self::Vsftpd, Self::Pyftpdlib, Self::PlumbFtp],
            Service::TftpGet => &[Self::TftpdHpa, Self::Atftpd, Self::Dnsmasq, Self::PlumbTftp],
        };
        all.to_vec()
    }
}

/// Congestion control of both kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Cubic,
    Reno,
    Bbr,
}

impl Control {
    pub(super) const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}

/// Properties of the path without the injected causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Round-trip time, us.
    pub(super) rtt_us: u64,
    /// Largest additional delay of a packet in one direction, us; packets keep their order.
    pub(super) jitter_us: u64,
    /// Rate in both directions, kbit/s; `None` if unlimited.
    pub(super) rate_kbps: Option<u64>,
    /// Rate towards the server if it differs from the rate towards the client, kbit/s.
    pub(super) uplink_kbps: Option<u64>,
    /// Longest wait in the queue of a rate-limited link, ms.
    pub(super) queue_ms: u64,
    /// Packets that arrive twice, per mille.
    pub(super) duplicates_per_mille: u64,
    pub(super) control: Control,
}

/// Kind of path in a case without an injected cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Healthy {
    /// A short, fast path.
    ShortPath,
    /// A round trip of 50 to 300 ms.
    LongPath,
    /// A low rate with a queue of about one bandwidth-delay product.
    LowRate,
    /// A local network with a round trip below a millisecond.
    Local,
    /// A higher rate towards the client than towards the server, as with DSL.
    Asymmetric,
}

/// One case of the benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) generator: Generator,
    pub(super) seed: u64,
    pub(super) number: u64,
    pub(super) service: Service,
    pub(super) peer: Peer,
    pub(super) path: Path,
    /// Injected causes: none for a healthy case, one, or two.
    pub(super) causes: Vec<Cause>,
    pub(super) healthy: Option<Healthy>,
    /// Whether the server is given by name instead of by address.
    pub(super) by_name: bool,
    /// Whether the server asks for a user name and a password.
    pub(super) asks_password: bool,
    pub(super) shell: Shell,
    /// Size of the largest file, bytes; 0 for a login.
    pub(super) bytes: u64,
}

impl Case {
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.causes.iter().any(|cause| cause.kind == kind)
    }

    /// Returns whether the case must run alone on the machine's processors.
    pub(super) fn is_exclusive(&self) -> bool {
        let kinds = [
            Kind::OwnProcessor,
            Kind::ServerProcessor,
            Kind::Second(super::second::Fault::BusyLoops),
        ];
        kinds.into_iter().any(|kind| self.has(kind))
    }

    /// Returns the names of the causes, or the kind of healthy path.
    pub(super) fn injected(&self) -> String {
        match self.healthy {
            Some(Healthy::ShortPath) => "healthy".to_owned(),
            Some(Healthy::LongPath) => "healthy, far".to_owned(),
            Some(Healthy::LowRate) => "healthy, low rate".to_owned(),
            Some(Healthy::Local) => "healthy, local network".to_owned(),
            Some(Healthy::Asymmetric) => "healthy, asymmetric rates".to_owned(),
            None => {
                let causes: Vec<String> = self.causes.iter().map(Cause::to_string).collect();
                causes.join(" + ")
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RTT {:.1} ms", self.rtt_us as f64 / 1e3)?;
        if self.jitter_us > 0 {
            write!(f, ", jitter {:.1} ms", self.jitter_us as f64 / 1e3)?;
        }
        if let Some(rate) = self.rate_kbps {
            write!(f, ", {rate} kbit/s, queue {} ms", self.queue_ms)?;
        }
        if let Some(rate) = self.uplink_kbps {
            write!(f, ", uplink {rate} kbit/s")?;
        }
        if self.duplicates_per_mille > 0 {
            write!(f, ", {} per mille duplicates", self.duplicates_per_mille)?;
        }
        write!(f, ", {}", self.control.name())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.service.name(), self.peer.name(), self.path)?;
        if self.bytes > 0 {
            write!(f, ", {} KiB", self.bytes >> 10)?;
        }
        let login = if self.asks_password { ", password" } else { "" };
        let name = if self.by_name { ", by name" } else { "" };
        let shell = match self.shell {
            Shell::Plain => "",
            Shell::Bash => ", bash",
        };
        write!(f, "{login}{name}{shell}: {}", self.injected())
    }
}
