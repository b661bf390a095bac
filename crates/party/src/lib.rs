//! Party sessions: a queue that its members edit together, the members and their leader.
//!
//! Three layers, each of which uses only those before it: [`value`] is a session as a pure value
//! (no IO, no runtime, no clock); [`room`] holds the tasks that own sessions on a node, and the
//! ports to the stores; [`graphql`] is the interface for clients. `contract` is the suite that
//! every store must pass.

pub mod value;
pub mod room;
pub mod graphql;
#[cfg(any(test, feature = "contract"))]
pub mod contract;

pub use graphql::{Caller, Party};
pub use room::archive::{Archived, Discovered, PartyArchive, PartyArchiveError, SearchArea};
pub use room::listener::{
    Listener, ListenerEvent, SessionUpdate, SessionUpdateKind, SessionUser, Topic,
};
pub use room::parts::{PartyConfig, PartyParts};
pub use room::party_socket::PartySocket;
pub use room::rate::PartyRates;
pub use room::rooms::Rooms;
pub use room::store::{
    Commit, Committed, LOCK_LIFETIME, NOTICES_MAX, Notice, OFFER_LIFETIME, PartyStore,
    PartyStoreError, Revision, SessionActivity, SessionRecovery, SessionStore, SessionWatch,
    Stored,
};
pub use room::task::{Completed, Replayed};
pub use value::entry::{Entry, Remembered};
pub use value::error::PartyError;
pub use value::fact::{
    Contents, Fact, QueueChange, QueueEvent, SessionChange, SessionEvent, Stamp,
};
pub use value::fields::{Changes, FieldError, Head, changes, from_fields, to_fields};
pub use value::hash::{ContentHash, OrderHash, StateHash};
pub use value::item::{Climb, Item, QueueItem, QueueItemUser};
pub use value::limits::Limits;
pub use value::log::{EventLog, LogLimits, Replay};
pub use value::operation::{
    Actor, Applied, Context, Decided, Edit, Join, Lifecycle, Membership, NewSession, Operation,
    Outcome, apply, decide,
};
pub use value::queue::{FoldError, QueueState};
pub use value::roster::{
    Attachment, Away, FormerLeader, Member, MemberId, Resume, Roster, TokenDigest,
};
pub use value::session::{Details, PartySession, Status};

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("the folder is readable");
        let paths = entries.map(|entry| entry.expect("the folder is readable").path());
        paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn a_session_as_a_value_uses_no_runtime_and_no_port() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/value");
        let foreign = [
            "tokio",
            "tracing",
            "async ",
            "rand::",
            "::now()",
            "Mutex",
            "heartline_routing",
            "heartline_runtime",
            "crate::room",
            "crate::graphql",
        ];
        for path in sources(&folder) {
            let text = fs::read_to_string(&path).expect("a source file is readable");
            let found = foreign.into_iter().find(|word| text.contains(word));
            assert_eq!(found, None, "{}", path.display());
        }
    }
}
