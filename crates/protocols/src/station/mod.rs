//! One host: its layers, and the steps between them.
