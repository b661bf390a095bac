//! The lock of the outbox: the standard one, or the model checker's.

#[cfg(feature = "model")]
use shuttle::sync as imp;
#[cfg(not(feature = "model"))]
use std::sync as imp;

pub(crate) use imp::MutexGuard;

/// A lock that a panic elsewhere does not poison: the guarded value is consistent between calls.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
