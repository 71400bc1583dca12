//! The end of a guest whose device remains for the next one: a virtual machine that has disconnected.

use super::{Guest, Relay};
use net::Cx;

impl Guest {
    /// Ends all flows and DNS queries because the guest is gone, resets the sockets of TCP, and
    /// discards the output. Without this, a connection on which no data waits would last until its
    /// keep-alive fails, and the next guest would receive the answers to datagrams of this one.
    pub fn end_flows(&mut self, cx: &mut Cx<'_>) {
        let Relay { tcp, udp, echo, dns, .. } = &mut self.relay;
        let layers = &mut self.station.layers;
        tcp.end_all(&mut layers.tcp, cx);
        udp.end_all();
        echo.end_all();
        dns.end_all();
        if self.output.is_some() {
            while self.transmit_one(&mut |_, _| true, cx).is_some() {}
        } else {
            self.transmit_to(&mut |_, _| true, cx);
        }
    }
}
