//! The services that the benchmark measures.

/// Service measured by `plumb measure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Service {
    /// A Telnet login over the kernel's TCP.
    Login,
    /// A Telnet login over plumb's own TCP on a TUN.
    LoginOwnTcp,
    FtpGet,
    FtpPut,
    TftpGet,
}

impl Service {
    pub(super) const ALL: [Self; 5] =
        [Self::Login, Self::LoginOwnTcp, Self::FtpGet, Self::FtpPut, Self::TftpGet];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::LoginOwnTcp => "login, own TCP",
            Self::FtpGet => "FTP get",
            Self::FtpPut => "FTP put",
            Self::TftpGet => "TFTP get",
        }
    }

    pub(super) const fn is_login(self) -> bool {
        matches!(self, Self::Login | Self::LoginOwnTcp)
    }
}
