//! The terminal: what the eye sees.
