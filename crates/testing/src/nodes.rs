//! Real servers and clients.

mod binary;
mod server;
mod process;
mod http;
mod socket;
mod tokens;
mod wait;
mod leases;
pub mod chat;
pub mod presence;
pub mod party;
mod doctor;
mod proxy;

pub use binary::Binary;
pub use doctor::DoctorReport;
pub use http::{Response, request};
pub use process::is_stopped;
pub use proxy::Proxy;
pub use server::{Files, Server};
pub use socket::{Socket, close_of, read_refusal};
pub use tokens::{SECRET, bearer, seconds_from_now, service_token, sign, token};
pub use wait::{PATIENCE, eventually};
