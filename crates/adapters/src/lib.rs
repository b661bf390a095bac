//! The outside world: one module per vendor or remote service.
