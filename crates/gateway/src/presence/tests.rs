//! The plane's bookkeeping.
