//! The store of a cluster: PostgreSQL.
