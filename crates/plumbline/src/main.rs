//! `plumb`: logs in, moves files, and shows where the time went.
fn main() {}
