//! The application protocols of plumbline: Telnet, FTP and TFTP in both roles, the terminal that
//! displays a login, and the file transfer of terminal sessions: XMODEM, YMODEM and ZMODEM.
//!
//! The engines do no I/O, read no clock and own no random number generator. They process a byte
//! stream or datagrams, and do not know what carries them: kernel sockets, plumbline's own TCP/IP
//! (`plumbline-net`) or a serial line. Time, random numbers and the meter are arguments
//! ([`net::Cx`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ftp;
pub mod modem;
pub mod telnet;
pub mod terminal;
pub mod tftp;
pub mod xmodem;
pub mod ymodem;
pub mod zmodem;
