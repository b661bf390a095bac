//! One binary: Heartline.
fn main() {}
