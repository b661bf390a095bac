//! The presence plane with real outboxes and a real directory; only the store is scripted, so that
//! it can fail, and the directory can be made silent.

mod engines;
mod fixtures;
mod privacy;
mod pushes;
mod failures;
mod watches;
