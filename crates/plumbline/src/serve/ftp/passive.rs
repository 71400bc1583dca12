//! Where a session listens for its data connection.
//!
//! Most who are told a port have connected to it by the time they name a file, so nothing watches
//! it until somebody has to be waited for: that saves four calls of the kernel for each file.

use rustix::net::{AddressFamily, SocketFlags, SocketType, acceptfrom_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use tokio::net;

/// How many connections the kernel keeps: one is used, and others must not be in its way.
const BACKLOG: i32 = 4;

/// A listener for one data connection.
#[derive(Debug)]
pub(super) enum Listener {
    Idle(TcpListener),
    Watched(net::TcpListener),
    /// It cannot be watched.
    Broken,
}

impl Listener {
    /// Listens at one of `ports`, beginning at one of chance; at any, if they are `0..=0`.
    pub(super) fn open(ports: &RangeInclusive<u16>, ip: IpAddr) -> Option<Self> {
        let (first, last) = (u64::from(*ports.start()), u64::from(*ports.end()));
        let count = last - first + 1;
        let chance = if count > 1 { os::entropy::seed().ok()? % count } else { 0 };
        (0..count).find_map(|step| {
            let port = u16::try_from(first + (chance + step) % count).ok()?;
            listen(SocketAddr::new(ip, port)).map(Self::Idle).ok()
        })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Idle(socket) => socket.local_addr(),
            Self::Watched(socket) => socket.local_addr(),
            Self::Broken => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Returns who has come already, if anybody has.
    pub(super) fn try_accept(&self) -> Option<(TcpStream, SocketAddr)> {
        match self {
            Self::Idle(socket) => accept(socket).ok(),
            Self::Watched(socket) => accept(socket).ok(),
            Self::Broken => None,
        }
    }

    /// Waits for who comes. Nobody is lost if it is not waited for to the end.
    pub(super) async fn accept(&mut self) -> io::Result<(net::TcpStream, SocketAddr)> {
        if let Self::Idle(_) = self
            && let Self::Idle(socket) = std::mem::replace(self, Self::Broken)
        {
            *self = Self::Watched(net::TcpListener::from_std(socket)?);
        }
        match self {
            Self::Watched(socket) => socket.accept().await,
            Self::Idle(_) | Self::Broken => std::future::pending().await,
        }
    }
}

fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if at.port() != 0 {
        // In a range, a port that was used a moment ago is used again.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn accept(socket: &impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (stream, from) = acceptfrom_with(socket, flags)?;
    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
    Ok((stream.into(), from.ok_or(io::ErrorKind::InvalidData)?))
}
