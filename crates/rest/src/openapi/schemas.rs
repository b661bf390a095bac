//! The schemas of request and response bodies, by name.

use heartline_durability::chats::{CHAT_NAME_CHARACTERS_MAX, GROUP_MEMBERS_MAX};
use heartline_durability::people::DISPLAY_NAME_CHARACTERS_MAX;
use heartline_protocol::ErrorCode;
use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, EVENT_NAME_BYTES_MAX, PUSH_USERS_MAX,
};
use heartline_protocol::rest::{
    IDEMPOTENCY_KEY_LENGTH_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX, PRESENCE_QUERY_USERS_MAX,
};
use serde_json::{Map, Value, json};

use super::meanings::meaning_of;

/// A field of an object: its name, whether it must be there, and its schema.
type Field = (&'static str, Presence, Value);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

use Presence::{Optional, Required};

/// A schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A page of a list.
pub(super) fn page_of(name: &str) -> Value {
    let next = "The start of the next page; null on the last page.";
    object(
        "A page of a list.",
        vec![
            ("items", Required, array_of(&reference(name))),
            ("next_cursor", Required, json!({ "type": ["string", "null"], "description": next })),
        ],
    )
}

/// Every schema by its name.
pub(super) fn schemas() -> Value {
    let mut all = Map::new();
    all.extend(ids());
    all.extend(values());
    all.extend(chats());
    all.extend(messages());
    all.extend(people());
    all.extend(presence());
    all.extend(operating());
    all.into()
}

type Named = Vec<(String, Value)>;

fn named<const N: usize>(schemas: [(&str, Value); N]) -> Named {
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn ids() -> Named {
    let text = |description: &str, pattern: &str| json!({ "type": "string", "description": description, "pattern": pattern });
    let ulid = "[0-7][0-9A-HJKMNP-TV-Z]{25}";
    let alphabet = r"[A-Za-z0-9_.@|:+\-]";
    named([
        ("UserId", text("The `sub` of a user's tokens.", &format!("^{alphabet}{{1,128}}$"))),
        ("DeviceId", text("The id of one of a user's devices.", &format!("^{alphabet}{{1,64}}$"))),
        (
            "ClientMessageId",
            text(
                "The sender's own id of a message, the same in every retry.",
                &format!("^{alphabet}{{1,64}}$"),
            ),
        ),
        ("ChatId", text("The id of a chat.", &format!("^chat_{ulid}$"))),
        ("MessageId", text("The id of a stored message.", &format!("^msg_{ulid}$"))),
        ("ConnectionId", text("The id of a connection.", &format!("^conn_{ulid}_[0-9]+$"))),
        ("NodeId", text("The id of a node, new with each start.", r"^[A-Za-z0-9_.\-]{1,96}$")),
    ])
}

fn values() -> Named {
    let codes: Vec<_> = ErrorCode::ALL.into_iter().map(ErrorCode::as_str).collect();
    let one_line = r"^[^\u0000-\u001f\u007f-\u009f]*$";
    named([
        (
            "Timestamp",
            json!({ "type": "string", "format": "date-time",
                "description": "ISO 8601 in UTC with milliseconds." }),
        ),
        (
            "Sequence",
            json!({ "type": "integer", "minimum": 0,
                "description": "Per chat: 1, 2, 3, …; 0 is before the first message." }),
        ),
        (
            "Limit",
            json!({ "type": "integer", "minimum": 1, "maximum": PAGE_ITEMS_MAX,
                "default": PAGE_ITEMS }),
        ),
        (
            "IdempotencyKey",
            json!({ "type": "string", "pattern":
                format!("^[ -~]{{1,{IDEMPOTENCY_KEY_LENGTH_MAX}}}$") }),
        ),
        ("ChatKind", json!({ "type": "string", "enum": ["direct", "group"] })),
        ("Role", json!({ "type": "string", "enum": ["owner", "admin", "member"] })),
        (
            "ChatName",
            json!({ "type": "string", "minLength": 1, "maxLength": CHAT_NAME_CHARACTERS_MAX,
                "pattern": one_line }),
        ),
        (
            "DisplayName",
            json!({ "type": "string", "minLength": 1, "maxLength": DISPLAY_NAME_CHARACTERS_MAX,
                "pattern": one_line }),
        ),
        (
            "Visibility",
            json!({ "type": "string", "enum": ["everyone", "contacts_only", "nobody"],
                "description": "Two users become contacts once each has added the other." }),
        ),
        ("ErrorCode", json!({ "type": "string", "enum": codes })),
    ])
}

fn chat_fields() -> Vec<Field> {
    vec![
        ("chat_id", Required, reference("ChatId")),
        ("type", Required, reference("ChatKind")),
        ("name", Optional, reference("ChatName")),
        ("members", Required, array_of(&reference("ChatMember"))),
        ("head_sequence", Required, reference("Sequence")),
        ("created_at", Required, reference("Timestamp")),
    ]
}

fn chats() -> Named {
    let member_fields =
        || vec![("user_id", Required, reference("UserId")), ("role", Required, reference("Role"))];
    let others = json!({ "type": "array", "items": reference("UserId"),
        "description": format!("The other members: exactly one for a direct chat, at most {} for a \
            group. The caller's own id is ignored.", GROUP_MEMBERS_MAX - 1) });
    let mut listed = chat_fields();
    listed.push(("last_acked_sequence", Required, reference("Sequence")));
    listed.push(("last_message", Optional, reference("Message")));
    let delivery = vec![
        ("user_id", Required, reference("UserId")),
        ("last_acked_sequence", Optional, reference("Sequence")),
    ];
    let create = vec![
        ("type", Required, reference("ChatKind")),
        ("name", Optional, or_null(&reference("ChatName"))),
        ("member_ids", Required, others),
    ];
    let add =
        vec![("user_id", Required, reference("UserId")), ("role", Optional, reference("Role"))];
    let rename = vec![("name", Required, or_null(&reference("ChatName")))];
    named([
        ("Chat", object("A chat with its members.", chat_fields())),
        ("ChatMember", object("A member of a chat.", member_fields())),
        (
            "ListedChat",
            object("A chat with its newest message and the caller's watermark.", listed),
        ),
        ("Delivery", object("The watermark of a member.", delivery)),
        ("CreateChat", object("A chat to create.", create)),
        ("RenameChat", object("The new name; null removes it.", rename)),
        ("AddMember", object("A member to add.", add)),
        ("SetRole", object("The new role.", vec![("role", Required, reference("Role"))])),
    ])
}

fn message_fields() -> Vec<Field> {
    let empty = json!({ "type": "string",
        "description": "The content; empty if the message was deleted." });
    let gone =
        json!({ "type": "boolean", "description": "Present and true if the message was deleted." });
    vec![
        ("chat_id", Required, reference("ChatId")),
        ("sequence", Required, reference("Sequence")),
        ("message_id", Required, reference("MessageId")),
        ("sender_id", Required, reference("UserId")),
        ("client_message_id", Required, reference("ClientMessageId")),
        ("content", Required, empty),
        ("content_type", Required, json!({ "type": "string" })),
        ("created_at", Required, reference("Timestamp")),
        ("deleted", Optional, gone),
    ]
}

fn messages() -> Named {
    let content = json!({ "type": "string", "minLength": 1,
        "description": format!("The content: at most {CONTENT_BYTES_MAX} bytes of UTF-8.") });
    let content_type = json!({ "type": ["string", "null"], "minLength": 1,
        "default": "text/plain",
        "description": format!("The content type: at most {CONTENT_TYPE_BYTES_MAX} bytes.") });
    let sender = json!({ "anyOf": [reference("UserId"), { "type": "null" }],
        "description": "The sender; only with the scope `service`." });
    let send = vec![
        ("client_message_id", Required, reference("ClientMessageId")),
        ("content", Required, content),
        ("content_type", Optional, content_type),
        ("sender_id", Optional, sender),
    ];
    let duplicate = json!({ "type": "boolean",
        "description": "Whether an earlier attempt had stored the message." });
    let mut sent = message_fields();
    sent.push(("duplicate", Required, duplicate));
    named([
        ("Message", object("A stored message.", message_fields())),
        ("SendMessage", object("A message to send.", send)),
        ("SentMessage", object("The stored message.", sent)),
    ])
}

fn people() -> Named {
    let user = vec![
        ("user_id", Required, reference("UserId")),
        ("display_name", Optional, reference("DisplayName")),
    ];
    let update = vec![("display_name", Required, or_null(&reference("DisplayName")))];
    let contact = vec![("user_id", Required, reference("UserId"))];
    let setting = vec![("visibility", Required, reference("Visibility"))];
    named([
        ("User", object("The profile of a user.", user)),
        ("UpdateUser", object("The new name; null removes it.", update)),
        ("Contact", object("A user whom the caller has added as a contact.", contact)),
        ("VisibilitySetting", object("Who may see the caller's presence.", setting)),
    ])
}

fn presence() -> Named {
    let users = json!({ "type": "array", "items": reference("UserId"), "minItems": 1,
        "maxItems": PRESENCE_QUERY_USERS_MAX });
    let status = json!({ "type": "string", "enum": ["online", "offline", "unknown"],
        "description": "Unknown: the presence cannot be read, or the caller may not see it." });
    let stale = json!({ "type": "boolean",
        "description": "True if the server cannot read the presence at the moment." });
    let version = json!({ "type": "integer", "minimum": 0,
        "description": "Rises with each transition; drop older states. Absent if unknown." });
    let presence = vec![
        ("user_id", Required, reference("UserId")),
        ("status", Required, status),
        ("last_seen", Optional, reference("Timestamp")),
        ("stale", Optional, stale),
        ("version", Optional, version),
    ];
    let query = vec![("user_ids", Required, users)];
    named([
        ("Presence", object("The presence of a user, as far as the caller may see it.", presence)),
        ("PresenceQuery", object("The users to query.", query)),
    ])
}

fn operating() -> Named {
    let text = || json!({ "type": "string" });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let users = json!({ "type": "array", "items": reference("UserId"), "minItems": 1,
        "maxItems": PUSH_USERS_MAX });
    let name = json!({ "type": "string", "minLength": 1,
        "description": format!("The event's name: at most {EVENT_NAME_BYTES_MAX} bytes.") });
    let push = vec![
        ("user_ids", Required, users),
        ("name", Required, name),
        ("data", Required, json!({ "description": "Any JSON of at most 16 KiB." })),
    ];
    let connection = vec![
        ("connection_id", Required, reference("ConnectionId")),
        ("device_id", Required, reference("DeviceId")),
        ("kind", Required, text()),
        ("node", Required, reference("NodeId")),
        ("connected_at", Required, reference("Timestamp")),
        ("lease_ends_at", Required, reference("Timestamp")),
        ("outbox", Optional, reference("Outbox")),
    ];
    let node_connection = vec![
        ("connection_id", Required, reference("ConnectionId")),
        ("user_id", Required, reference("UserId")),
        ("device_id", Required, reference("DeviceId")),
        ("kind", Required, text()),
        ("connected_at", Required, reference("Timestamp")),
        ("outbox", Required, reference("Outbox")),
    ];
    let node = vec![
        ("node_id", Required, reference("NodeId")),
        ("name", Required, text()),
        ("address", Optional, text()),
        ("planes", Required, array_of(&text())),
        ("connections", Required, count()),
        ("started_at", Required, reference("Timestamp")),
        ("lease_ends_at", Required, reference("Timestamp")),
    ];
    let error = vec![
        ("code", Required, reference("ErrorCode")),
        ("message", Required, text()),
        ("request_id", Required, text()),
        ("details", Optional, reference("ErrorDetails")),
    ];
    let outcome = json!({ "type": "string", "enum": ["rejected", "unknown"] });
    let details = vec![
        ("outcome", Optional, outcome),
        ("grace_period_seconds", Optional, count()),
        ("reason", Optional, text()),
        ("field", Optional, text()),
    ];
    let outbox = vec![("messages", Required, count()), ("bytes", Required, count())];
    let health = vec![("status", Required, text()), ("degraded", Required, array_of(&text()))];
    let connections = || vec![("connections", Required, count())];
    named([
        ("Push", object("An event for all devices of the given users.", push)),
        ("Pushed", object("The result of a push.", connections())),
        ("Ended", object("The result of ending connections.", connections())),
        ("Connection", object("An open connection.", connection)),
        (
            "NodeConnection",
            object("An open connection of the node that serves the request.", node_connection),
        ),
        ("Outbox", object("The frames queued for a connection.", outbox)),
        ("Node", object("A running node.", node)),
        ("Health", object("The state of a node.", health)),
        ("Error", object("An error.", vec![("error", Required, reference("ErrorObject"))])),
        ("ErrorObject", object("The code and the cause of an error.", error)),
        ("ErrorDetails", object("Details of an error.", details)),
    ])
}

fn object(description: &str, fields: Vec<Field>) -> Value {
    let is_required = |field: &&Field| field.1 == Required;
    let required: Vec<_> = fields.iter().filter(is_required).map(|field| field.0).collect();
    let described = |(name, _, mut schema): Field| {
        if schema.get("description").is_none() {
            schema["description"] = meaning_of(name).into();
        }
        (name.to_owned(), schema)
    };
    let properties: Map<_, _> = fields.into_iter().map(described).collect();
    json!({
        "type": "object",
        "description": description,
        "required": required,
        "properties": properties,
    })
}

fn array_of(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn or_null(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}
