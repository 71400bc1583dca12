//! Between a station and a device that carries whole packets, which may be left unfinished in both
//! directions (`os::vnet`).

use anyhow::{Context, Result};
use os::vnet::Received;
use protocols::Cx;
use protocols::meter::{Account, Counter};
use protocols::station::{Frame, Station};

/// Reads the next packet into a packet of the station, and returns whether there was one.
pub(super) fn read_packet(
    device: &os::device::Device,
    station: &mut Station,
    cx: &mut Cx<'_>,
) -> Result<bool> {
    let Some(mut packet) = station.lend(cx) else { return Ok(false) };
    let left = cx.meter.enter(Account::Interrupt);
    let read = device.receive_now(packet.spare_mut());
    cx.meter.enter(left);
    match read {
        Ok(Some(Received { header, start, length })) => {
            packet.take_in(start + length);
            packet.pull(start);
            os::driver::describe(&mut packet, &header, start);
            station.receive_packet(packet, cx);
            Ok(true)
        }
        Ok(None) => {
            station.take_back(packet);
            Ok(false)
        }
        Err(error) => {
            station.take_back(packet);
            if os::driver::is_about_the_device(&error) {
                return Err(error).context("the device cannot be read any more");
            }
            cx.meter.count(Counter::LinkHeadersUnknown);
            Ok(true)
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
