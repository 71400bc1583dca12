//! Packet I/O between a station and a packet device. Offloaded packets may be incomplete in both
//! directions (`os::vnet`).

use anyhow::{Context, Result};
use net::Cx;
use net::meter::{Account, Counter};
use net::station::{Frame, Station};
use os::vnet::Received;

/// Maximum length in bytes of a short packet, such as an echo or a prompt. Another packet rarely
/// follows a short packet at once.
const SHORT_LEN: usize = 512;

/// Result of a read from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketRead {
    /// No packet was available, or no buffer was free.
    Nothing,
    /// A packet of this length in bytes.
    Packet(usize),
}

impl PacketRead {
    /// Returns whether another packet is likely enough to justify another read. A read that finds
    /// no packet costs as much as a read of a packet, and `poll` reports the next packet in any
    /// case.
    pub(super) fn may_have_more(self) -> bool {
        matches!(self, Self::Packet(length) if length > SHORT_LEN)
    }
}

/// Reads the next packet into a packet buffer of the station.
pub(super) fn read_packet(
    device: &os::device::Device,
    station: &mut Station,
    cx: &mut Cx<'_>,
) -> Result<PacketRead> {
    let Some(mut packet) = station.lend(cx) else { return Ok(PacketRead::Nothing) };
    let previous_account = cx.meter.enter(Account::Interrupt);
    let read_result = device.receive_now(packet.spare_mut());
    cx.meter.enter(previous_account);
    match read_result {
        Ok(Some(Received { header, start, length })) => {
            packet.extend_from_spare(start + length);
            packet.pull(start);
            os::driver::describe(&mut packet, &header, start);
            station.receive_packet(packet, cx);
            Ok(PacketRead::Packet(length))
        }
        Ok(None) => {
            station.take_back(packet);
            Ok(PacketRead::Nothing)
        }
        Err(error) => {
            station.take_back(packet);
            if os::driver::is_device_error(&error) {
                return Err(error).context("cannot read from the device");
            }
            cx.meter.count(Counter::LinkHeadersUnknown);
            Ok(PacketRead::Packet(0))
        }
    }
}

/// Writes the packets that the station has queued. Packets that a full device does not accept stay
/// queued.
pub(super) fn write_packets(
    device: &os::device::Device,
    station: &mut Station,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let mut failure = None;
    let mut write = |frame: Frame<'_>, cx: &mut Cx<'_>| {
        let previous_account = cx.meter.enter(Account::Interrupt);
        let write_result = os::driver::write_frame(device, &frame);
        cx.meter.enter(previous_account);
        write_result.unwrap_or_else(|error| {
            // If the error concerns this packet only, the packet is lost, as on any wire.
            cx.meter.count(Counter::LinkPacketsDropped);
            if os::driver::is_device_error(&error) {
                failure = Some(error);
            }
            true
        })
    };
    station.transmit_to(&mut write, cx);
    match failure {
        Some(error) => Err(error).context("cannot write to the device"),
        None => Ok(()),
    }
}
