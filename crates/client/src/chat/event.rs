//! The events of a chat client.

use heartline_protocol::server_frame::{Chat, ChatChange, Message, MessageAck, Presence};
use heartline_protocol::{ChatId, ClientMessageId, ErrorFrame, UserId};

use crate::event::ClientEvent;

/// An event of a chat client. Events arrive in the order in which they happened.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEvent {
    /// An event of the connection, including every frame as received. Events that follow from a
    /// frame come after it.
    Connection(ClientEvent),
    /// A message of a chat. Each is delivered exactly once, per chat in ascending order. The client
    /// skips a sequence only if the server has deleted that message.
    Message {
        /// The message; an own message is built from its draft and its ack.
        message: Message,
        /// Whether this user sent the message, on this or another device.
        own: bool,
    },
    /// A message of this client is stored.
    Sent {
        /// The server's ack.
        ack: MessageAck,
    },
    /// The server rejected a message of this client; the message is not stored and not retried.
    Rejected {
        /// The chat of the message.
        chat_id: ChatId,
        /// The id of the message.
        client_message_id: ClientMessageId,
        /// The server's error.
        error: ErrorFrame,
    },
    /// Every chat was delivered up to the head that it had when this connection began; sent once
    /// per connection.
    Synced,
    /// A chat was created or renamed, or its members changed.
    ChatChanged {
        /// The chat.
        chat_id: ChatId,
        /// The kind of change.
        change: ChatChange,
        /// The chat after the change; absent if this user is no longer a member. The client has
        /// then removed its cursor of the chat.
        chat: Option<Chat>,
    },
    /// The client sends a frame of its own: a message, a sync request or an ack. Only if
    /// [`ChatConfig`](crate::ChatConfig) enables it, and not for frames that are sent during
    /// `close`.
    Outgoing {
        /// The frame as sent.
        text: String,
    },
    /// The presence of a user changed, or whether this user may see it: a user of a subscription,
    /// or one who shares an active chat. Only changes are reported.
    Presence(Presence),
    /// The server rejected a subscription to the presence of users.
    SubscriptionRejected {
        /// The users.
        user_ids: Vec<UserId>,
        /// The server's error.
        error: ErrorFrame,
    },
    /// A user started or stopped typing; the application treats the user as no longer typing after
    /// 10 s without another event.
    Typing {
        /// The chat.
        chat_id: ChatId,
        /// The user.
        user_id: UserId,
        /// Whether the user is typing.
        is_typing: bool,
    },
}
