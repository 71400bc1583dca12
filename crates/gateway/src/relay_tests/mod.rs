//! Tests of the relay in virtual time: between the station of a guest's kernel and a model of the
//! host's sockets.

mod buffer_limits;
mod cost;
mod echo_relay;
mod fair_outputs;
mod flow_limits;
mod half_closed;
mod host_error_relay;
mod host_sockets;
mod kernel;
mod program;
mod serial_line;
mod soak;
mod tcp_relay;
mod udp_relay;
mod world;
