//! Between a station and a device that carries whole packets, which may be left unfinished in both
//! directions (`os::vnet`).

use anyhow::{Context, Result};
use os::vnet::Received;
use protocols::Cx;
use protocols::meter::{Account, Counter};
use protocols::station::{Frame, Station};

/// The length of a packet that hardly ever has another one behind it, in bytes: an echo, a prompt.
const SHORT_LEN: usize = 512;

/// What a device had for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// No packet, or there is no room for one.
    Nothing,
    /// A packet of so many bytes.
    Packet(usize),
}

impl Read {
    /// Returns whether another packet is likely enough to ask for it: to ask in vain costs as much
    /// as to read one, and `poll` says it anyway.
    pub(super) fn may_have_more(self) -> bool {
        matches!(self, Self::Packet(length) if length > SHORT_LEN)
    }
}

/// Reads the next packet into a packet of the station.
pub(super) fn read_packet(
    device: &os::device::Device,
    station: &mut Station,
    cx: &mut Cx<'_>,
) -> Result<Read> {
    let Some(mut packet) = station.lend(cx) else { return Ok(Read::Nothing) };
    let left = cx.meter.enter(Account::Interrupt);
    let read = device.receive_now(packet.spare_mut());
    cx.meter.enter(left);
    match read {
        Ok(Some(Received { header, start, length })) => {
            packet.take_in(start + length);
            packet.pull(start);
            os::driver::describe(&mut packet, &header, start);
            station.receive_packet(packet, cx);
            Ok(Read::Packet(length))
        }
        Ok(None) => {
            station.take_back(packet);
            Ok(Read::Nothing)
        }
        Err(error) => {
            station.take_back(packet);
            if os::driver::is_about_the_device(&error) {
                return Err(error).context("the device cannot be read any more");
            }
            cx.meter.count(Counter::LinkHeadersUnknown);
            Ok(Read::Packet(0))
        }
    }
}

/// Writes all packets that the station owes; what the device has no room for waits.
pub(super) fn write_packets(
    device: &os::device::Device,
    station: &mut Station,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let mut failure = None;
    let mut write = |frame: Frame<'_>, cx: &mut Cx<'_>| {
        let left = cx.meter.enter(Account::Interrupt);
        let written = os::driver::write_frame(device, &frame);
        cx.meter.enter(left);
        written.unwrap_or_else(|error| {
            // What it does not like about one packet is lost, as on any wire.
            cx.meter.count(Counter::LinkPacketsDropped);
            if os::driver::is_about_the_device(&error) {
                failure = Some(error);
            }
            true
        })
    };
    station.transmit_to(&mut write, cx);
    match failure {
        Some(error) => Err(error).context("the device does not take what we send"),
        None => Ok(()),
    }
}
