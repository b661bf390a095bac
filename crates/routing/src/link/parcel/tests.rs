use std::sync::Arc;

use heartline_protocol::{ChatId, CloseReason, ConnectionId, Timestamp, UserId};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::lease::LeaseKey;
use crate::link::{Delivery, PresenceNews, ResyncReason};
use crate::presence::Transition;

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn user_id() -> impl Strategy<Value = UserId> {
    "[A-Za-z0-9_.@|:+-]{1,128}".prop_map(|text| text.parse().unwrap())
}

fn user_ids() -> impl Strategy<Value = Arc<[UserId]>> {
    vec(user_id(), 0..20).prop_map(Into::into)
}

fn chat_id() -> impl Strategy<Value = ChatId> {
    any::<u128>().prop_map(|ulid| ChatId(ulid.into()))
}

fn connection_id() -> impl Strategy<Value = ConnectionId> {
    let parts = (any::<u128>(), any::<u16>());
    parts.prop_map(|(ulid, shard)| ConnectionId { ulid: ulid.into(), shard })
}

fn frame() -> impl Strategy<Value = Bytes> {
    ".{0,300}".prop_map(Bytes::from)
}

fn lease() -> impl Strategy<Value = LeaseKey> {
    let parts = (user_id(), "[a-z0-9._-]{1,96}", connection_id());
    parts.prop_map(|(user_id, node_id, connection_id)| LeaseKey {
        user_id,
        node_id: node(&node_id),
        connection_id,
    })
}

fn news() -> impl Strategy<Value = PresenceNews> {
    let parts = (user_id(), any::<bool>(), any::<u64>(), option::of(any::<u64>()), user_ids());
    parts.prop_map(|(user_id, is_online, version, last_seen, observer_ids)| {
        let last_seen = last_seen.map(|unix_ms| Timestamp { unix_ms });
        let transition = Transition { user_id, is_online, version, last_seen };
        PresenceNews { transition, observer_ids }
    })
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let place = (chat_id(), any::<u64>(), option::of(connection_id()), option::of(any::<u64>()));
    (place, user_ids(), frame()).prop_map(|(place, user_ids, frame)| {
        let (chat_id, sequence, origin, committed_at) = place;
        let committed_at = committed_at.map(|unix_ms| Timestamp { unix_ms });
        Delivery { chat_id, sequence, user_ids, frame, origin, committed_at }
    })
}

/// An envelope of each variant; any of them is as likely as another.
fn envelope() -> impl Strategy<Value = Envelope> {
    prop_oneof![
        (user_ids(), frame()).prop_map(|(user_ids, frame)| Envelope::Push { user_ids, frame }),
        delivery().prop_map(Envelope::Message),
        (user_ids(), chat_id(), user_id(), any::<bool>()).prop_map(
            |(user_ids, chat_id, user_id, is_typing)| Envelope::Typing {
                user_ids,
                chat_id,
                user_id,
                is_typing
            }
        ),
        vec(news(), 0..5).prop_map(Envelope::Presence),
        vec(user_id(), 0..20).prop_map(|user_ids| Envelope::PrivacyChanged { user_ids }),
        (
            option::of(user_ids()),
            option::of(vec(chat_id(), 0..5)),
            proptest::sample::select(&ResyncReason::ALL[..])
        )
            .prop_map(|(user_ids, chat_ids, reason)| Envelope::Resync {
                user_ids,
                chat_ids,
                reason
            }),
        (vec(lease(), 0..5), proptest::sample::select(&CloseReason::ALL[..]))
            .prop_map(|(leases, reason)| Envelope::Close { leases, reason }),
    ]
}

fn open(mut parcel: Parcel) -> Arrived {
    parcel.stamp(1);
    Arrived::open(parcel.into()).unwrap()
}

proptest! {
    #[test]
    fn every_envelope_survives_encoding_and_decoding(envelope in envelope()) {
        let arrived = open(Parcel::envelope(&node("a-1"), &envelope));
        prop_assert_eq!(&arrived.sender, &node("a-1"));
        let Ok(Content::Envelope(read)) = arrived.content() else {
            return Err(TestCaseError::fail("no envelope"));
        };
        prop_assert_eq!(read, envelope);
    }

    #[test]
    fn a_truncated_envelope_is_refused(
        envelope in envelope(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut parcel = Parcel::envelope(&node("a-1"), &envelope);
        parcel.stamp(1);
        let bytes = Bytes::from(parcel);
        let cut = bytes.slice(..cut.index(bytes.len()));
        let read = Arrived::open(cut).map(Arrived::content);
        prop_assert!(!matches!(read, Ok(Ok(Content::Envelope(_)))));
    }

    #[test]
    fn bytes_that_a_later_release_appends_are_ignored(
        envelope in envelope(),
        more in vec(any::<u8>(), 1..40),
    ) {
        let mut parcel = Parcel::envelope(&node("a-1"), &envelope);
        parcel.0.extend(more);
        let Ok(Content::Envelope(read)) = open(parcel).content() else {
            return Err(TestCaseError::fail("no envelope"));
        };
        prop_assert_eq!(read, envelope);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = Arrived::open(bytes.into()).map(Arrived::content);
    }

    #[test]
    fn no_body_causes_a_panic(
        kind in 0..30_u8,
        body in vec(any::<u8>(), 0..400),
    ) {
        let mut parcel = Parcel::begin(&node("a-1"), kind, 0);
        parcel.0.extend(body);
        let _ = open(parcel).content();
    }

    #[test]
    fn a_changed_byte_never_panics(
        envelope in envelope(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut parcel = Parcel::envelope(&node("a-1"), &envelope);
        parcel.stamp(1);
        let at = at.index(parcel.0.len());
        parcel.0[at] = byte;
        let _ = Arrived::open(parcel.into()).map(Arrived::content);
    }
}

#[test]
fn the_frame_is_a_slice_of_the_parcel() {
    let user_ids = Arc::new(["ana".parse().unwrap()]);
    let frame = Bytes::from_static(b"{\"type\":\"event\"}");
    let envelope = Envelope::Push { user_ids, frame };
    let mut parcel = Parcel::envelope(&node("a-1"), &envelope);
    parcel.stamp(1);
    let bytes = Bytes::from(parcel);
    let content = Arrived::open(bytes.clone()).unwrap().content().unwrap();
    let Content::Envelope(Envelope::Push { frame, .. }) = content else { panic!("{content:?}") };
    assert_eq!(frame.as_ptr_range().end, bytes.as_ptr_range().end, "nothing is copied");
}

#[test]
fn a_frame_that_is_not_text_is_refused() {
    let user_ids = Arc::new(["ana".parse().unwrap()]);
    let frame = Bytes::from_static(b"\xff\xfe");
    let envelope = Envelope::Push { user_ids, frame };
    assert!(open(Parcel::envelope(&node("a-1"), &envelope)).content().is_err());
}

#[test]
fn a_list_with_a_wrong_count_allocates_no_memory() {
    let mut parcel = Parcel::begin(&node("a-1"), codec::kind::PUSH, 0);
    parcel.0.extend(u32::MAX.to_le_bytes());
    assert!(open(parcel).content().is_err());
}

#[test]
fn a_parcel_that_is_sent_again_keeps_its_first_number() {
    let mut parcel = Parcel::probe(&node("a-1"));
    parcel.stamp(7);
    parcel.stamp(3);
    let arrived = Arrived::open(parcel.into()).unwrap();
    assert_eq!((arrived.number, arrived.earlier), (3, Some(7)));
}

#[test]
fn a_status_survives_encoding_and_may_have_unknown_fields() {
    for address in [None, Some("10.0.0.7:7400".to_owned())] {
        let status = Status { broker_is_healthy: false, broker_number: 42, address };
        let mut parcel = Parcel::status(&node("a-1"), &status);
        parcel.0.extend(b"more");
        let Ok(Content::Status(read)) = open(parcel).content() else { panic!("no status") };
        assert_eq!(read, status);
    }
}

/// An envelope with a reason of a later release.
fn with_reason(envelope: &Envelope, known: &str, later: &str) -> Envelope {
    let mut parcel = Parcel::envelope(&node("a-1"), envelope);
    let mut text = vec![known.len() as u8];
    text.extend(known.as_bytes());
    let at = parcel.0.windows(text.len()).position(|window| window == text).unwrap();
    let mut replaced = vec![later.len() as u8];
    replaced.extend(later.as_bytes());
    parcel.0.splice(at..at + text.len(), replaced);
    let Ok(Content::Envelope(read)) = open(parcel).content() else { panic!("no envelope") };
    read
}

#[test]
fn an_unknown_closing_reason_still_closes_the_connections() {
    let key = LeaseKey {
        user_id: "ana".parse().unwrap(),
        node_id: node("b-1"),
        connection_id: ConnectionId { ulid: 7.into(), shard: 3 },
    };
    let close = |reason| Envelope::Close { leases: vec![key.clone()], reason };
    let read = with_reason(&close(CloseReason::SessionEnded), "session_ended", "moved_away");
    assert_eq!(read, close(CloseReason::InternalError));
}

#[test]
fn an_unknown_resync_reason_still_makes_clients_sync() {
    let chat_ids = Some(vec![ChatId(9.into())]);
    let resync = |reason| Envelope::Resync { user_ids: None, chat_ids: chat_ids.clone(), reason };
    let read = with_reason(&resync(ResyncReason::LinkGap), "link_gap", "shard_moved");
    assert_eq!(read, resync(ResyncReason::Undelivered));
}

#[test]
fn an_unknown_kind_is_no_malformed_parcel() {
    let content = |kind| open(Parcel::begin(&node("a-1"), kind, 0)).content();
    assert!(matches!(content(200), Ok(Content::Unknown(200))), "an envelope");
    assert!(matches!(content(9), Ok(Content::Unknown(9))), "neither envelope nor status");
}

#[test]
fn another_version_names_its_sender() {
    let mut parcel = Parcel::probe(&node("a-1"));
    parcel.0[0] = VERSION + 1;
    parcel.0.extend(b"anything");
    let (version, sender) = (VERSION + 1, Some(node("a-1")));
    let refused = Arrived::open(parcel.into()).unwrap_err();
    assert_eq!(refused, ParcelError::Version { version, sender });
    let refused = Arrived::open(Bytes::from_static(&[9, 1, 2])).unwrap_err();
    assert_eq!(refused, ParcelError::Version { version: 9, sender: None });
}

#[test]
fn an_envelope_without_a_number_or_with_an_impossible_one_is_refused() {
    let envelope = Envelope::PrivacyChanged { user_ids: Vec::new() };
    let parcel = || Parcel::envelope(&node("a-1"), &envelope);
    assert!(Arrived::open(parcel().into()).is_err());
    assert!(Arrived::open(Parcel::probe(&node("a-1")).into()).is_ok(), "nothing was sent yet");
    let mut last = parcel();
    last.stamp(u64::MAX);
    assert!(Arrived::open(last.into()).is_err());
}
