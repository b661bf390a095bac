//! The shapes of bodies and answers, by name.

use heartline_durability::members::{CHAT_NAME_CHARACTERS_MAX, GROUP_MEMBERS_MAX};
use heartline_durability::profiles::DISPLAY_NAME_CHARACTERS_MAX;
use heartline_protocol::ErrorCode;
use heartline_protocol::limits::{
    CONTENT_BYTES_MAX, CONTENT_TYPE_BYTES_MAX, EVENT_NAME_BYTES_MAX, PUSH_USERS_MAX,
};
use heartline_protocol::rest::{
    IDEMPOTENCY_KEY_LENGTH_MAX, PAGE_ITEMS, PAGE_ITEMS_MAX, PRESENCE_QUERY_USERS_MAX,
};
use serde_json::{Map, Value, json};

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
    let next = "Where the next page begins; null on the last one.";
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
        ("DeviceId", text("One of a user's devices.", &format!("^{alphabet}{{1,64}}$"))),
        (
            "ClientMessageId",
            text(
                "The sender's own name for a message, the same in every retry.",
                &format!("^{alphabet}{{1,64}}$"),
            ),
        ),
        ("ChatId", text("A chat.", &format!("^chat_{ulid}$"))),
        ("MessageId", text("A stored message.", &format!("^msg_{ulid}$"))),
        ("ConnectionId", text("One socket's life.", &format!("^conn_{ulid}_[0-9]+$"))),
        ("NodeId", text("One incarnation of a node.", r"^[A-Za-z0-9_.\-]{1,96}$")),
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
                "description": "Two users are contacts when each has put the other." }),
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
        "description": format!("The others: exactly one for a direct chat, at most {} for a \
            group. Naming oneself changes nothing.", GROUP_MEMBERS_MAX - 1) });
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
        ("ChatMember", object("One who belongs to a chat.", member_fields())),
        ("ListedChat", object("A chat with its newest message and the own watermark.", listed)),
        ("Delivery", object("How far a member has received; absent if not to be told.", delivery)),
        ("CreateChat", object("A chat to be made.", create)),
        ("RenameChat", object("The new name; null takes it away.", rename)),
        ("AddMember", object("A new member; `role` is `member` unless given.", add)),
        ("SetRole", object("Another role.", vec![("role", Required, reference("Role"))])),
    ])
}

fn message_fields() -> Vec<Field> {
    let empty = json!({ "type": "string", "description": "Empty when it was deleted." });
    let gone = json!({ "type": "boolean", "description": "Present and true when it was deleted." });
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
        "description": format!("At most {CONTENT_BYTES_MAX} bytes of UTF-8.") });
    let content_type = json!({ "type": ["string", "null"], "minLength": 1,
        "default": "text/plain",
        "description": format!("At most {CONTENT_TYPE_BYTES_MAX} bytes.") });
    let sender = json!({ "anyOf": [reference("UserId"), { "type": "null" }],
        "description": "On whose behalf; only for the scope `service`." });
    let send = vec![
        ("client_message_id", Required, reference("ClientMessageId")),
        ("content", Required, content),
        ("content_type", Optional, content_type),
        ("sender_id", Optional, sender),
    ];
    let duplicate = json!({ "type": "boolean",
        "description": "Whether an earlier attempt had stored it." });
    let mut sent = message_fields();
    sent.push(("duplicate", Required, duplicate));
    named([
        ("Message", object("A message as it is stored.", message_fields())),
        ("SendMessage", object("A message to be stored.", send)),
        ("SentMessage", object("The message as it is stored.", sent)),
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
        ("User", object("What a user shows of themselves.", user)),
        ("UpdateUser", object("The new name; null takes it away.", update)),
        ("Contact", object("One whom the caller has put as a contact.", contact)),
        ("VisibilitySetting", object("Who may see the caller's presence.", setting)),
    ])
}

fn presence() -> Named {
    let users = json!({ "type": "array", "items": reference("UserId"), "minItems": 1,
        "maxItems": PRESENCE_QUERY_USERS_MAX });
    let status = json!({ "type": "string", "enum": ["online", "offline", "unknown"],
        "description": "Unknown: nobody can say, or it is not for the caller to know." });
    let stale = json!({ "type": "boolean",
        "description": "The server itself cannot tell at the moment." });
    let version = json!({ "type": "integer", "minimum": 0,
        "description": "What is not newer than what is known is late. Absent with unknown." });
    let presence = vec![
        ("user_id", Required, reference("UserId")),
        ("status", Required, status),
        ("last_seen", Optional, reference("Timestamp")),
        ("stale", Optional, stale),
        ("version", Optional, version),
    ];
    let query = vec![("user_ids", Required, users)];
    named([
        ("Presence", object("Whether a user is online, to one who may know.", presence)),
        ("PresenceQuery", object("Whose presence is asked for.", query)),
    ])
}

fn operating() -> Named {
    let text = || json!({ "type": "string" });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let users = json!({ "type": "array", "items": reference("UserId"), "minItems": 1,
        "maxItems": PUSH_USERS_MAX });
    let name = json!({ "type": "string", "minLength": 1,
        "description": format!("At most {EVENT_NAME_BYTES_MAX} bytes.") });
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
        ("Push", object("An event for all devices of some users.", push)),
        ("Pushed", object("Connections it was queued or leased for.", connections())),
        ("Ended", object("Connections that were told to close.", connections())),
        ("Connection", object("A live connection.", connection)),
        ("NodeConnection", object("A live connection of the node that answers.", node_connection)),
        ("Outbox", object("What waits to be written.", outbox)),
        ("Node", object("A live node.", node)),
        ("Health", object("Whether the node works, and what does not.", health)),
        ("Error", object("A refusal.", vec![("error", Required, reference("ErrorObject"))])),
        ("ErrorObject", object("What was refused and why.", error)),
        ("ErrorDetails", object("More about it.", details)),
    ])
}

fn object(description: &str, fields: Vec<Field>) -> Value {
    let is_required = |field: &&Field| field.1 == Required;
    let required: Vec<_> = fields.iter().filter(is_required).map(|field| field.0).collect();
    let properties: Map<_, _> =
        fields.into_iter().map(|(name, _, schema)| (name.to_owned(), schema)).collect();
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
