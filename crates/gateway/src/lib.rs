//! The socket: upgrade, authentication, session, outbox, drain.
