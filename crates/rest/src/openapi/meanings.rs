//! The meaning of fields, by their name: a field has the same meaning in every object.

/// The sentence about a field whose schema has none of its own; empty for an unknown name, which a
/// test of the reference reports.
pub(super) fn meaning_of(field: &str) -> &'static str {
    match field {
        "address" => "The address for direct links from other nodes.",
        "bytes" => "The number of queued bytes.",
        "chat_id" => "The chat.",
        "client_message_id" => "The sender's own id of the message, the same in every retry.",
        "code" => "The error code.",
        "connected_at" => "When the connection was opened.",
        "connection_id" => "The connection.",
        "connections" => "The number of connections.",
        "content_type" => "The content type, such as `text/plain`.",
        "created_at" => "When the object was stored.",
        "degraded" => "The parts that do not work, such as `store` or `redis`.",
        "details" => "More about the error.",
        "device_id" => "The device.",
        "display_name" => "The name shown to other users; null removes it.",
        "error" => "The error.",
        "field" => "The field or parameter that is wrong.",
        "grace_period_seconds" => "The time to recover, in seconds.",
        "head_sequence" => "The sequence of the newest message; 0 if there is none.",
        "items" => "The entries of the page.",
        "kind" => "The kind of the connection: `chat` or `party`.",
        "last_acked_sequence" => {
            "The watermark: the highest sequence that the user has acknowledged. Absent if the \
             caller may not see it."
        }
        "last_message" => "The newest message.",
        "last_seen" => "When the user was last online.",
        "lease_ends_at" => "When the lease expires unless it is renewed.",
        "members" => "The members with their roles.",
        "message" => "A description of the error, for developers.",
        "message_id" => "The server's id of the message.",
        "messages" => "The number of queued frames.",
        "name" => "The name; direct chats have none, and null removes it.",
        "node" | "node_id" => "The node.",
        "outbox" => "The frames queued for the connection, if this node holds it.",
        "outcome" => "Whether a change was not made, or may have been made.",
        "planes" => "The planes that the node runs.",
        "reason" => "A more precise reason than the code.",
        "request_id" => "The id of the request in the server's log.",
        "role" => "The role of the member; `member` by default.",
        "sender_id" => "The user who sent the message.",
        "sequence" => "The number of the message in its chat.",
        "started_at" => "When the node was started.",
        "status" => "The state: `live`, `ready` or `not_ready`.",
        "type" => "Whether the chat is direct or a group.",
        "user_id" => "The user.",
        "user_ids" => "The users.",
        "visibility" => "Who may see the user's presence.",
        _ => "",
    }
}
