//! The clock that every plane uses.

pub use heartline_runtime::Clock;
