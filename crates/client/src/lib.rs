//! An asynchronous client that keeps one device connected.
