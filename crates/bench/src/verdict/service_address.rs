//! The address of the server, and the ports of the services.

use super::service::Service;

/// Address of the server.
pub(super) const SERVER: &str = "10.0.0.1";
/// Port of the login service.
pub(super) const LOGIN_PORT: u16 = 2323;
/// Port of FTP.
pub(super) const FTP_PORT: u16 = 2121;
/// Port of TFTP; dnsmasq supports no other.
pub(super) const TFTP_PORT: u16 = 69;
/// Port of a server behind the interposer.
pub(super) const BEHIND_PORT: u16 = 7_021;

/// Returns the port of a service at the server's address.
pub(super) const fn port_of(service: Service) -> u16 {
    match service {
        Service::Login | Service::LoginOwnTcp => LOGIN_PORT,
        Service::FtpGet | Service::FtpPut => FTP_PORT,
        Service::TftpGet => TFTP_PORT,
    }
}
