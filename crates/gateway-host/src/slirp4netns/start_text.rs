//! The text that slirp4netns prints when it starts.

use super::slirp_arguments::SlirpSettings;
use std::fmt::Write as _;

/// Returns the text that slirp4netns prints on standard output when it starts.
#[must_use]
pub fn start_text(settings: &SlirpSettings) -> String {
    let network = settings.network;
    let mut text = format!(
        "Starting slirp\n\
         * MTU:             {}\n\
         * Network:         {}\n\
         * Netmask:         {}\n\
         * Gateway:         {}\n\
         * DNS:             {}\n\
         * DHCP begin:      {}\n\
         * DHCP end:        {}\n\
         * Recommended IP:  {}\n",
        settings.mtu_bytes,
        network.address(),
        network.netmask(),
        network.gateway(),
        network.dns(),
        network.dhcp_first(),
        network.dhcp_last(),
        network.guest(),
    );
    if let Some(path) = &settings.api_socket {
        let _ = writeln!(text, "* API Socket:      {}", path.display());
    }
    if settings.has_host_loopback {
        let _ = writeln!(
            text,
            "WARNING: 127.0.0.1:* on the host is accessible as {} (set --disable-host-loopback to \
             prohibit connecting to 127.0.0.1:*)",
            network.gateway()
        );
    }
    text
}
