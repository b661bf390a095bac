//! The format of presence.

use super::*;

const AT: Timestamp = Timestamp { unix_ms: 1_700_000_000_007 };
const NEXT_DAY: Timestamp = Timestamp { unix_ms: 1_700_086_400_000 };
const PAPER: View = View { with_colours: false };

fn bo(status: PresenceStatus, last_seen: Option<Timestamp>) -> Presence {
    let user_id = "bo".parse().unwrap();
    Presence { user_id, status, last_seen, stale: false, version: None }
}

#[test]
fn every_status_is_a_sentence() {
    let shown = |presence: &Presence| PAPER.presence(AT, presence);
    assert_eq!(shown(&bo(PresenceStatus::Online, None)), "22:13:20 -- bo is online\n");
    let offline = bo(PresenceStatus::Offline, Some(AT));
    assert_eq!(shown(&offline), "22:13:20 -- bo is offline, last seen at 22:13:20\n");
    let line = PAPER.presence(NEXT_DAY, &offline);
    assert!(line.ends_with("-- bo is offline, last seen at 2023-11-14 22:13:20\n"), "{line}");
    assert_eq!(shown(&bo(PresenceStatus::Offline, None)), "22:13:20 -- bo is offline\n");
    let unknown = bo(PresenceStatus::Unknown, None);
    assert_eq!(shown(&unknown), "22:13:20 -- the status of bo is unknown\n");
    let stale = shown(&Presence { stale: true, ..unknown });
    assert!(
        stale.ends_with("the status of bo is unknown: the server cannot read it at the moment\n")
    );
}

#[test]
fn a_long_list_of_users_is_shortened() {
    let users: Vec<UserId> = (0..7).map(|number| format!("u{number}").parse().unwrap()).collect();
    assert_eq!(listed(&users[..2]), "u0, u1");
    assert_eq!(listed(&users), "u0, u1, u2, u3, u4, …");
}
