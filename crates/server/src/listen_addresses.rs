//! Listen addresses of the servers: flags, configuration file, or default addresses and ports.
//!
//! By default, cleartext is accepted on loopback addresses only.

use anyhow::{Result, bail};
use protocols::tftp;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Customary TCP port of RFC 2217 servers; RFC 2217 assigns no port.
const CONSOLE_PORT: u16 = 2217;

/// Offsets added to the default port numbers when the server does not run as root.
const UNPRIVILEGED_LOGIN_OFFSET: u16 = 2300;
const UNPRIVILEGED_FTP_OFFSET: u16 = 2100;
const UNPRIVILEGED_TFTP_OFFSET: u16 = 6900;

/// Listen addresses of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenAddresses {
    /// Cleartext listen addresses.
    pub(super) listen: Vec<SocketAddr>,
    /// TLS listen addresses.
    pub(super) listen_tls: Vec<SocketAddr>,
}

impl ListenAddresses {
    /// Returns the addresses given by flags, or else those of the configuration file; `None` if
    /// neither contains any. Addresses are never combined: a cleartext address given by a flag also
    /// replaces the TLS addresses of the file.
    pub(super) fn given(
        flags: (&[SocketAddr], &[SocketAddr]),
        file: (Option<Vec<SocketAddr>>, Option<Vec<SocketAddr>>),
    ) -> Option<Self> {
        match (flags, file) {
            (([], []), (None, None)) => None,
            (([], []), (listen, listen_tls)) => Some(Self {
                listen: listen.unwrap_or_default(),
                listen_tls: listen_tls.unwrap_or_default(),
            }),
            ((listen, listen_tls), _) => {
                Some(Self { listen: listen.to_vec(), listen_tls: listen_tls.to_vec() })
            }
        }
    }

    /// Returns the default addresses of the login server, which also accepts TLS on all addresses.
    pub(super) fn login(is_root: bool) -> Self {
        let port = default_port(carrier::TELNETS_PORT, UNPRIVILEGED_LOGIN_OFFSET, is_root);
        Self {
            listen: loopback(default_port(
                carrier::TELNET_PORT,
                UNPRIVILEGED_LOGIN_OFFSET,
                is_root,
            )),
            listen_tls: vec![(Ipv6Addr::UNSPECIFIED, port).into()],
        }
    }

    /// Returns the default addresses of the FTP server: cleartext, with AUTH TLS.
    pub(super) fn ftp(is_root: bool) -> Self {
        let port = default_port(transfer::url::FTP_PORT, UNPRIVILEGED_FTP_OFFSET, is_root);
        Self { listen: loopback(port), listen_tls: Vec::new() }
    }

    /// Returns the default addresses of the TFTP server, which has no authentication.
    pub(super) fn tftp(is_root: bool) -> Self {
        let port = default_port(tftp::SERVER_PORT, UNPRIVILEGED_TFTP_OFFSET, is_root);
        Self { listen: loopback(port), listen_tls: Vec::new() }
    }

    /// Returns the default address of a serial console.
    pub(super) fn console() -> Self {
        let address = (Ipv4Addr::LOCALHOST, CONSOLE_PORT).into();
        Self { listen: vec![address], listen_tls: Vec::new() }
    }

    /// Returns the addresses to open on the user-space host, if `is_userspace`, or else all.
    pub(super) fn to_open(&self, is_userspace: bool) -> Self {
        match is_userspace {
            true => Self {
                listen: one_per_port(&self.listen),
                listen_tls: one_per_port(&self.listen_tls),
            },
            false => self.clone(),
        }
    }

    /// Returns whether there is no address.
    pub(super) fn is_empty(&self) -> bool {
        self.listen.is_empty() && self.listen_tls.is_empty()
    }

    /// Checks that there is an address. `server` and `keys` name the server and the keys of its
    /// table.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no address.
    pub(super) fn check(&self, server: &str, keys: &str) -> Result<()> {
        if self.is_empty() {
            bail!("no address for the {server} server: set {keys}");
        }
        Ok(())
    }
}

/// Returns the wildcard address of each port, because a port of the user-space host covers all its
/// addresses.
pub(super) fn one_per_port(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut distinct: Vec<SocketAddr> = Vec::new();
    for address in addresses {
        if distinct.iter().all(|known| known.port() != address.port()) {
            distinct.push((Ipv6Addr::UNSPECIFIED, address.port()).into());
        }
    }
    distinct
}

fn default_port(assigned: u16, unprivileged_offset: u16, is_root: bool) -> u16 {
    if is_root { assigned } else { assigned + unprivileged_offset }
}

fn loopback(port: u16) -> Vec<SocketAddr> {
    vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_replace_the_addresses_of_the_file() {
        let [first, second]: [SocketAddr; 2] =
            ["192.0.2.1:23", "192.0.2.2:992"].map(|address| address.parse().unwrap());
        let file = || (None, Some(vec![second]));
        let from_flags = ListenAddresses::given((&[first], &[]), file()).unwrap();
        assert_eq!(from_flags, ListenAddresses { listen: vec![first], listen_tls: vec![] });
        let from_file = ListenAddresses::given((&[], &[]), file()).unwrap();
        assert_eq!(from_file, ListenAddresses { listen: vec![], listen_tls: vec![second] });
        assert_eq!(ListenAddresses::given((&[], &[]), (None, None)), None);
    }

    #[test]
    fn default_ports_above_1023_need_no_root() {
        let ports = |is_root| {
            let of = |addresses: ListenAddresses| addresses.listen[0].port();
            let tls_port = ListenAddresses::login(is_root).listen_tls[0].port();
            let [login, ftp, tftp] =
                [ListenAddresses::login, ListenAddresses::ftp, ListenAddresses::tftp]
                    .map(|default| of(default(is_root)));
            [login, tls_port, ftp, tftp]
        };
        assert_eq!(ports(true), [23, 992, 21, 69]);
        assert_eq!(ports(false), [2323, 3292, 2121, 6969]);
    }

    #[test]
    fn the_user_space_host_opens_each_port_once() {
        let listen: Vec<SocketAddr> =
            ["192.0.2.1:23", "[::]:23", "[::]:24"].map(|address| address.parse().unwrap()).into();
        let addresses = ListenAddresses { listen: listen.clone(), listen_tls: Vec::new() };
        let wildcard = |port: u16| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        assert_eq!(addresses.to_open(true).listen, [wildcard(23), wildcard(24)]);
        assert_eq!(addresses.to_open(false), addresses);
    }

    #[test]
    fn an_empty_list_is_an_error() {
        let error = ListenAddresses::default().check("FTP", "listen or listen-tls").unwrap_err();
        assert_eq!(error.to_string(), "no address for the FTP server: set listen or listen-tls");
    }
}
