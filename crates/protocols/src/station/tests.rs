//! Two stations back to back.
