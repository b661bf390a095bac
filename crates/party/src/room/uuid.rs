//! UUIDs of members, sessions, commits and locks.

use heartline_runtime::Random;
use rand::RngCore;
use uuid::Builder;

/// A random UUID of version 4.
pub(crate) fn random_uuid(mut random: Random) -> String {
    let mut bytes = [0; 16];
    random.fill_bytes(&mut bytes);
    uuid_of(bytes)
}

/// The UUID of version 4 with these bits, except those of its version and variant.
pub(crate) fn uuid_of(bytes: [u8; 16]) -> String {
    Builder::from_random_bytes(bytes).into_uuid().to_string()
}
