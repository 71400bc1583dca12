//! Interface to the operating system: devices, terminals, clocks, namespaces, kernel sockets.
//!
//! Each file covers one concept. All `unsafe` calls of the operating system are in this crate. It
//! contains no protocol: it reads and writes bytes and packets, and returns time as the engines' own
//! [`net::Instant`]. A read or write that would block returns `None`; [`readiness::wait`] waits.
//!
//! Linux is the main target. Features that only Linux has (TUN, namespaces, `TCP_INFO`) are omitted
//! on other systems.

#[cfg(target_os = "linux")]
pub mod account;
#[cfg(target_os = "linux")]
mod atomic_file;
#[cfg(target_os = "linux")]
pub mod background;
#[cfg(target_os = "linux")]
pub mod batch;
#[cfg(target_os = "linux")]
pub mod beneath;
pub mod checksum;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod context_switches;
#[cfg(target_os = "linux")]
mod control_message;
#[cfg(target_os = "linux")]
pub mod datagram;
#[cfg(target_os = "linux")]
pub mod device;
pub mod device_users;
#[cfg(target_os = "linux")]
pub mod driver;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod dual_stack_tests;
pub mod entropy;
#[cfg(target_os = "linux")]
mod epoll;
#[cfg(target_os = "linux")]
pub mod error_queue;
#[cfg(target_os = "linux")]
pub mod fs_credentials;
#[cfg(target_os = "linux")]
pub mod guest_command;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub mod heap;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
pub mod inherited_descriptor;
#[cfg(target_os = "linux")]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod interface_route;
#[cfg(target_os = "linux")]
pub mod interface_setting;
#[cfg(target_os = "linux")]
pub mod load;
#[cfg(target_os = "linux")]
pub mod modem_lines;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod namespace_sockets;
#[cfg(target_os = "linux")]
pub mod namespace_watch;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod offload_tests;
#[cfg(target_os = "linux")]
pub mod outbound;
pub mod output;
#[cfg(target_os = "linux")]
pub mod packet_socket;
#[cfg(target_os = "linux")]
pub mod pam;
#[cfg(target_os = "linux")]
pub mod ping_socket;
pub mod port_owner;
#[cfg(target_os = "linux")]
pub mod privileges;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod proxy_neighbor;
#[cfg(target_os = "linux")]
pub mod pty;
#[cfg(target_os = "linux")]
pub mod queue_steering;
#[cfg(target_os = "linux")]
mod read_timer;
pub mod readiness;
pub mod receive_delay;
#[cfg(target_os = "linux")]
pub mod route;
#[cfg(target_os = "linux")]
pub mod sandbox;
#[cfg(target_os = "linux")]
pub mod schedule;
pub mod serial;
mod serial_lock;
#[cfg(target_os = "linux")]
pub mod service_manager;
#[cfg(target_os = "linux")]
pub mod signal_descriptor;
#[cfg(target_os = "linux")]
pub mod socket;
pub mod socket_table;
pub mod state_directory;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod super_datagram_tests;
#[cfg(target_os = "linux")]
pub mod target_namespace;
pub mod tcp_counters;
#[cfg(target_os = "linux")]
pub mod tcp_socket;
#[cfg(test)]
mod testing;
pub mod tty;
#[cfg(target_os = "linux")]
pub mod tun;
#[cfg(target_os = "linux")]
pub mod tun_in_namespace;
#[cfg(target_os = "linux")]
pub mod user;
#[cfg(target_os = "linux")]
pub mod utmp;
#[cfg(target_os = "linux")]
pub mod veth;
#[cfg(target_os = "linux")]
pub mod vnet;
#[cfg(target_os = "linux")]
pub mod wait_strategy;
#[cfg(target_os = "linux")]
pub mod wakeup;

use net::time::Duration;
use rustix::event::Timespec;
use rustix::io::Errno;
use std::io;

fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

/// Runs `call`, and repeats it if a signal interrupts it. Converts EAGAIN into `None`.
fn unless_blocked(mut call: impl FnMut() -> Result<usize, Errno>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
