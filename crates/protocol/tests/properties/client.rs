//! Frames of clients.

use heartline_protocol::client_frame::{
    Ack, Authenticate, Heartbeat, PresenceUsers, RefreshToken, SendMessage, SyncManifestRequest,
    SyncRequest, Typing,
};
use heartline_protocol::{ClientFrame, DecodeError, Decoded, Token, decode_client, encode_client};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::{chat_id, client_message_id, device_id, request_id, text, user_id};

/// Any frame that a client may send.
pub(crate) fn client_frame() -> BoxedStrategy<ClientFrame> {
    prop_oneof![connection_frame(), chat_frame(), presence_frame()].boxed()
}

fn connection_frame() -> BoxedStrategy<ClientFrame> {
    let token = || text(100).prop_map(Token);
    prop_oneof![
        (token(), option::of(device_id())).prop_map(|(token, device_id)| {
            ClientFrame::Authenticate(Authenticate { token, device_id })
        }),
        (request_id(), token()).prop_map(|(request_id, token)| {
            ClientFrame::RefreshToken(RefreshToken { request_id, token })
        }),
        Just(ClientFrame::Heartbeat(Heartbeat {})),
    ]
    .boxed()
}

fn chat_frame() -> BoxedStrategy<ClientFrame> {
    let content = text(200).prop_filter("content has 1 byte", |text| !text.is_empty());
    let content_type = option::of("[ -~]{1,64}");
    prop_oneof![
        (request_id(), chat_id(), client_message_id(), content, content_type).prop_map(
            |(request_id, chat_id, client_message_id, content, content_type)| {
                ClientFrame::SendMessage(SendMessage {
                    request_id,
                    chat_id,
                    client_message_id,
                    content,
                    content_type,
                })
            }
        ),
        (chat_id(), any::<u64>()).prop_map(|(chat_id, last_acked_sequence)| {
            ClientFrame::Ack(Ack { chat_id, last_acked_sequence })
        }),
        (request_id(), chat_id(), any::<u64>(), option::of(any::<u32>())).prop_map(
            |(request_id, chat_id, after_sequence, limit)| {
                ClientFrame::SyncRequest(SyncRequest { request_id, chat_id, after_sequence, limit })
            }
        ),
        (request_id(), option::of(text(100))).prop_map(|(request_id, page)| {
            ClientFrame::SyncManifest(SyncManifestRequest { request_id, page })
        }),
        (chat_id(), any::<bool>())
            .prop_map(|(chat_id, is_typing)| ClientFrame::Typing(Typing { chat_id, is_typing })),
    ]
    .boxed()
}

fn presence_frame() -> BoxedStrategy<ClientFrame> {
    let users = (request_id(), vec(user_id(), 1..=5));
    (users, any::<bool>())
        .prop_map(|((request_id, user_ids), subscribe)| {
            let users = PresenceUsers { request_id, user_ids };
            if subscribe {
                ClientFrame::PresenceSubscribe(users)
            } else {
                ClientFrame::PresenceUnsubscribe(users)
            }
        })
        .boxed()
}

/// The frame as an object whose fields can be changed.
fn object(frame: &ClientFrame) -> Map<String, Value> {
    serde_json::from_str(&encode_client(frame)).unwrap()
}

proptest! {
    #[test]
    fn a_client_frame_decodes_to_itself(frame in client_frame()) {
        prop_assert_eq!(decode_client(&encode_client(&frame)), Ok(Decoded::Frame(frame)));
    }

    #[test]
    fn the_order_of_fields_and_the_space_between_them_do_not_matter(frame in client_frame()) {
        let spread = serde_json::to_string_pretty(&object(&frame)).unwrap();
        prop_assert_eq!(decode_client(&format!("\r\n\t {spread} \n")), Ok(Decoded::Frame(frame)));
    }

    #[test]
    fn unknown_fields_are_ignored(
        frame in client_frame(),
        extra in vec((text(40), crate::hostile::json_value()), 0..4),
    ) {
        let mut object = object(&frame);
        for (key, value) in extra {
            // The prefix keeps it from being one of the known fields.
            object.insert(format!("x-{key}"), value);
        }
        let text = Value::from(object).to_string();
        prop_assert_eq!(decode_client(&text), Ok(Decoded::Frame(frame)));
    }

    #[test]
    fn an_unknown_type_keeps_its_request_id(id in option::of(request_id()), kind in text(40)) {
        let mut object = Map::from_iter([("type".to_owned(), Value::from(format!("x-{kind}")))]);
        if let Some(id) = &id {
            object.insert("request_id".to_owned(), id.as_str().into());
        }
        let decoded = decode_client(&Value::from(object).to_string());
        prop_assert_eq!(decoded, Ok(Decoded::UnknownType { request_id: id }));
    }

    #[test]
    fn a_bad_field_is_named_and_the_request_id_returned(
        frame in client_frame(),
        id in request_id(),
        which in any::<prop::sample::Index>(),
        value in prop_oneof![
            Just(Value::from(-1)),
            Just(Value::from(0.5)),
            Just(Value::from(vec![Value::Null])),
            Just(Value::from(Map::new())),
        ],
    ) {
        let mut object = object(&frame);
        let fields: Vec<_> = object.keys().filter(|key| *key != "request_id").cloned().collect();
        let field = which.get(&fields);
        object.insert("request_id".to_owned(), id.as_str().into());
        object.insert(field.clone(), value);
        match decode_client(&Value::from(object).to_string()) {
            Err(DecodeError::InvalidField { request_id, field: named, .. }) => {
                prop_assert_eq!(request_id, Some(id));
                // An element of a list is named with its place, as in `user_ids[0]`.
                prop_assert_eq!(named.split('[').next(), Some(field.as_str()));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn a_missing_field_is_named_and_the_request_id_returned(
        frame in client_frame(),
        which in any::<prop::sample::Index>(),
    ) {
        let whole = object(&frame);
        let fields: Vec<_> = whole.keys().cloned().collect();
        let field = which.get(&fields);
        let mut object = whole.clone();
        object.remove(field);
        let id = frame.request_id().filter(|_| field != "request_id").cloned();
        match decode_client(&Value::from(object).to_string()) {
            Err(DecodeError::InvalidField { request_id, field: named, .. }) => {
                prop_assert_eq!(&named, field);
                prop_assert_eq!(request_id, id);
            }
            Ok(Decoded::Frame(shorter)) => {
                let optional = ["device_id", "content_type", "limit", "page"];
                prop_assert!(optional.contains(&field.as_str()), "{field} is needed");
                prop_assert_eq!(shorter.request_id(), frame.request_id());
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
