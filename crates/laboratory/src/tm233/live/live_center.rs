//! The ends of the lines that lead to the gateway, in the center of a star that runs in real time.
//!
//! A personal computer is at a pseudo-terminal, whose other end the gateway has opened as a serial
//! line. A fast host is at a TUN, and the kernel forwards between it and the gateway. A
//! pseudo-terminal has no rate. The star therefore gives the computer each byte when a line of its
//! rate would have transmitted it, in both directions.

use net::rng::Rng;
use net::time::Instant;
use os::pty::Pty;
use os::readiness::{PollFd, PollFlags};
use os::tun::Tun;
use simulator::star::Center;
use std::collections::VecDeque;
use std::io;

/// Size of a buffer for a read, in bytes: not less than the MTU of the TUN.
const BUFFER_LEN: usize = 4096;

/// The device behind a port of the star.
#[derive(Debug)]
pub(super) enum LiveDevice {
    Line(Pty),
    Host(Tun),
}

#[derive(Debug)]
struct Port {
    device: LiveDevice,
    /// Bytes, or datagrams, for the host at the port.
    bytes: VecDeque<u8>,
    datagrams: VecDeque<Vec<u8>>,
    /// Bytes that the pseudo-terminal has not accepted yet.
    unsent: Vec<u8>,
}

/// The devices, in the order of the ports.
#[derive(Debug, Default)]
pub(super) struct LiveCenter {
    ports: Vec<Port>,
    failure: Option<io::Error>,
}

impl LiveCenter {
    /// Adds the device of the next port.
    pub(super) fn add(&mut self, device: LiveDevice) {
        self.ports.push(Port {
            device,
            bytes: VecDeque::new(),
            datagrams: VecDeque::new(),
            unsent: Vec::new(),
        });
    }

    /// Returns the descriptors to wait for.
    pub(super) fn descriptors(&self) -> Vec<PollFd<'_>> {
        let devices = self.ports.iter().map(|port| &port.device);
        let descriptors = devices.map(|device| match device {
            LiveDevice::Line(pty) => PollFd::new(pty, PollFlags::IN),
            LiveDevice::Host(tun) => PollFd::new(tun, PollFlags::IN),
        });
        descriptors.collect()
    }

    /// Reads the devices, and writes what they have not accepted before.
    ///
    /// # Errors
    ///
    /// Returns the first error of a device.
    pub(super) fn exchange(&mut self) -> io::Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.ports.iter_mut().try_for_each(Port::exchange)
    }
}

impl Port {
    fn exchange(&mut self) -> io::Result<()> {
        self.flush()?;
        let mut buffer = [0; BUFFER_LEN];
        match &self.device {
            LiveDevice::Line(pty) => {
                while let Some(length) = pty.read(&mut buffer)? {
                    self.bytes.extend(buffer.get(..length).unwrap_or_default());
                }
            }
            LiveDevice::Host(tun) => {
                while let Some(length) = tun.read(&mut buffer)? {
                    self.datagrams.push_back(buffer.get(..length).unwrap_or_default().to_vec());
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let LiveDevice::Line(pty) = &self.device else { return Ok(()) };
        while !self.unsent.is_empty() {
            let Some(written) = pty.write(&self.unsent)? else { return Ok(()) };
            self.unsent.drain(..written);
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let LiveDevice::Host(tun) = &self.device {
            // A full queue drops the datagram, as any network does.
            return tun.write(bytes).map(|_| ());
        }
        self.unsent.extend_from_slice(bytes);
        self.flush()
    }
}

impl Center for LiveCenter {
    fn receive(&mut self, port: usize, bytes: &[u8], _now: Instant, _rng: &mut Rng) {
        if let Some(Err(error)) = self.ports.get_mut(port).map(|port| port.send(bytes)) {
            self.failure = Some(error);
        }
    }

    fn transmit(&mut self, port: usize, limit: usize, _now: Instant, _rng: &mut Rng) -> Vec<u8> {
        let Some(port) = self.ports.get_mut(port) else { return Vec::new() };
        match port.device {
            LiveDevice::Line(_) => {
                let count = limit.min(port.bytes.len());
                port.bytes.drain(..count).collect()
            }
            LiveDevice::Host(_) => port.datagrams.pop_front().unwrap_or_default(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn timeout(&mut self, _now: Instant, _rng: &mut Rng) {}
}
