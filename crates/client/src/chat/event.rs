//! What a chat client tells its application.

use heartline_protocol::server_frame::{Chat, ChatChange, Message, MessageAck, Presence};
use heartline_protocol::{ChatId, ClientMessageId, ErrorFrame, UserId};

use crate::event::ClientEvent;

/// Something that happened, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEvent {
    /// What the connection says, every raw frame included. What follows from a frame comes after
    /// it, as events of the other kinds.
    Connection(ClientEvent),
    /// A message of a chat. Per chat they come exactly once and in ascending order; a number is
    /// passed over only when the server no longer keeps its message.
    Message {
        /// The message; one of this client's own is built from its draft and its ack.
        message: Message,
        /// Whether this user sent it, here or on another device.
        own: bool,
    },
    /// A message of this client is stored.
    Sent {
        /// What the server said.
        ack: MessageAck,
    },
    /// A message of this client is definitely not stored, and is not tried again.
    Refused {
        /// Where it should have gone.
        chat_id: ChatId,
        /// The message.
        client_message_id: ClientMessageId,
        /// Why.
        error: ErrorFrame,
    },
    /// Every chat has reached the head that it had when this connection began. It comes once for
    /// a connection.
    Synced,
    /// A chat was made, renamed, or its members changed.
    ChatChanged {
        /// The chat.
        chat_id: ChatId,
        /// What happened.
        change: ChatChange,
        /// The chat as it is now; absent when this user is no longer a member, and then the
        /// client has forgotten how far it had come.
        chat: Option<Chat>,
    },
    /// A frame goes out that the client made: a message, a question about what is missing, an
    /// acknowledgement. It comes only to an application that asked for it in
    /// [`ChatConfig`](crate::ChatConfig), and not for what is sent while the client closes.
    Outgoing {
        /// The frame as it is sent.
        text: String,
    },
    /// Somebody came or left, or is no longer or again to be known about: a user who is watched,
    /// or one who shares an active chat. Only what is new to the application is told.
    Presence(Presence),
    /// Users are not watched, because the server refuses it for good.
    WatchRefused {
        /// Who.
        user_ids: Vec<UserId>,
        /// Why.
        error: ErrorFrame,
    },
    /// Somebody is typing, or no longer; it expires after 10 s.
    Typing {
        /// Where.
        chat_id: ChatId,
        /// Who.
        user_id: UserId,
        /// Whether they are typing.
        is_typing: bool,
    },
}
