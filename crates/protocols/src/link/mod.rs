//! The link layer: from bytes or frames on a wire to whole datagrams, and back.
