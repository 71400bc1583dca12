//! Interruption of a measurement: a flag, and a descriptor that becomes readable.

use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Receives the interruption of a measurement.
#[derive(Debug)]
pub struct Interrupts {
    readable: UnixStream,
    state: Arc<InterruptState>,
}

/// Interrupts a measurement, from any thread.
#[derive(Clone, Debug)]
pub struct Interrupter {
    state: Arc<InterruptState>,
}

#[derive(Debug)]
struct InterruptState {
    writer: UnixStream,
    is_interrupted: AtomicBool,
}

impl Interrupts {
    /// Creates a receiver that is not interrupted.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn new() -> Result<Self> {
        let (readable, writer) = UnixStream::pair().context("no file descriptors are left")?;
        readable.set_nonblocking(true)?;
        let is_interrupted = AtomicBool::new(false);
        Ok(Self { readable, state: Arc::new(InterruptState { writer, is_interrupted }) })
    }

    /// Returns a handle that interrupts the measurement.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { state: Arc::clone(&self.state) }
    }

    /// Returns a descriptor that becomes readable after an interrupt and stays readable.
    ///
    /// # Errors
    ///
    /// Returns an error if no descriptors are left.
    pub fn descriptor(&self) -> Result<UnixStream> {
        self.readable.try_clone().context("no file descriptors are left")
    }

    /// Returns whether the measurement was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.state.is_interrupted.load(Ordering::SeqCst)
    }
}

impl Interrupter {
    /// Interrupts the measurement. Returns `false` if it was interrupted before.
    pub fn interrupt(&self) -> bool {
        let is_first = !self.state.is_interrupted.swap(true, Ordering::SeqCst);
        if is_first {
            // Ignored: if the descriptor cannot be written, [`Interrupts::is_interrupted`] still
            // reports the interrupt.
            _ = (&self.state.writer).write_all(b"!");
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read};

    #[test]
    fn an_interrupt_sets_the_flag_and_makes_the_descriptor_readable() {
        let interrupts = Interrupts::new().unwrap();
        let mut descriptor = interrupts.descriptor().unwrap();
        let error = descriptor.read(&mut [0; 2]).unwrap_err();
        assert_eq!((error.kind(), interrupts.is_interrupted()), (ErrorKind::WouldBlock, false));
        assert!(interrupts.interrupter().interrupt());
        assert_eq!(descriptor.read(&mut [0; 2]).unwrap(), 1);
        assert!(interrupts.is_interrupted());
    }

    #[test]
    fn a_second_interrupt_is_distinguished_from_the_first() {
        let interrupts = Interrupts::new().unwrap();
        assert!(interrupts.interrupter().interrupt());
        assert!(!interrupts.interrupter().interrupt());
    }

    #[test]
    fn without_an_interrupter_the_descriptor_is_not_readable() {
        let interrupts = Interrupts::new().unwrap();
        drop(interrupts.interrupter());
        let error = interrupts.descriptor().unwrap().read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }
}
