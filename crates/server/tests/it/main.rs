//! The whole server over real sockets: a real process, real signals, real time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod harness;
mod bench;
mod welcome;
mod refused_tokens;
mod refused_upgrades;
mod peers;
mod process;
mod proxy;
mod slow_consumers;
mod bad_frames;
mod stalled_crowd;
mod drain;
mod silence;
mod pauses;
mod leases;
mod connection_limits;
mod duplicates;
mod push;
mod admin;
mod bad_configuration;
mod tokens_over_time;
mod key_rotation;
mod tls;
mod out_of_files;
mod rest_client;
mod rest_document;
mod rest_chats;
mod rest_members;
mod rest_messages;
mod rest_users;
mod rest_bad_input;
mod rest_cors;
mod rest_store_down;
