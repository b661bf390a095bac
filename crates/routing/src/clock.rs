//! The clocks, as every plane is given them.

pub use heartline_runtime::Clock;
