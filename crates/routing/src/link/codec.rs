//! Envelopes as bytes.
//!
//! The frame inside is opaque: its sender encoded it once, it is copied into the parcel behind the
//! list of its receivers, and the receiver's frame is a slice of the parcel.
//!
//! Nodes of different releases read each other's envelopes, because nodes are upgraded one after
//! the other. A later release may append fields to an envelope, add a kind of envelope, and add a
//! closing or resync reason: a reader ignores bytes that follow the fields it knows, skips a kind
//! that it does not know, and replaces an unknown reason by a generic one. Any other change needs
//! another version of the parcel.

use heartline_protocol::{ChatId, CloseReason, ConnectionId, Timestamp};

use super::envelope::{Delivery, Envelope, PresenceNews, ResyncReason};
use super::wire::{Malformed, Reader, Writer, user_ids_length};
use crate::lease::LeaseKey;
use crate::presence::Transition;

/// The kinds of parcels that carry an envelope, from [`FIRST`] on.
pub(super) mod kind {
    pub(in crate::link) const FIRST: u8 = 16;
    pub(in crate::link) const PUSH: u8 = FIRST;
    pub(in crate::link) const MESSAGE: u8 = 17;
    pub(in crate::link) const TYPING: u8 = 18;
    pub(in crate::link) const PRESENCE: u8 = 19;
    pub(in crate::link) const PRIVACY_CHANGED: u8 = 20;
    pub(in crate::link) const RESYNC: u8 = 21;
    pub(in crate::link) const CLOSE: u8 = 22;
}

/// The kind of an envelope.
pub(super) fn kind_of(envelope: &Envelope) -> u8 {
    match envelope {
        Envelope::Push { .. } => kind::PUSH,
        Envelope::Message(_) => kind::MESSAGE,
        Envelope::Typing { .. } => kind::TYPING,
        Envelope::Presence(_) => kind::PRESENCE,
        Envelope::PrivacyChanged { .. } => kind::PRIVACY_CHANGED,
        Envelope::Resync { .. } => kind::RESYNC,
        Envelope::Close { .. } => kind::CLOSE,
    }
}

/// An estimate of the body's length, so that large envelopes are written without reallocation.
pub(super) fn length_hint(envelope: &Envelope) -> usize {
    match envelope {
        Envelope::Push { user_ids, frame } => 4 + user_ids_length(user_ids) + frame.len(),
        Envelope::Message(delivery) => {
            64 + user_ids_length(&delivery.user_ids) + delivery.frame.len()
        }
        Envelope::Typing { user_ids, .. } => 160 + user_ids_length(user_ids),
        _ => 256,
    }
}

/// Writes an envelope's body.
pub(super) fn encode(envelope: &Envelope, writer: &mut Writer<'_>) {
    match envelope {
        Envelope::Push { user_ids, frame } => {
            writer.user_ids(user_ids);
            writer.frame(frame);
        }
        Envelope::Message(delivery) => encode_message(delivery, writer),
        Envelope::Typing { user_ids, chat_id, user_id, is_typing } => {
            writer.user_ids(user_ids);
            writer.ulid(chat_id.0.0);
            writer.text(user_id.as_str());
            writer.byte((*is_typing).into());
        }
        Envelope::Presence(news) => {
            writer.count(news.len());
            for PresenceNews { transition, observer_ids } in news {
                encode_transition(transition, writer);
                writer.user_ids(observer_ids);
            }
        }
        Envelope::PrivacyChanged { user_ids } => writer.user_ids(user_ids),
        Envelope::Resync { user_ids, chat_ids, reason } => {
            writer.text(reason.as_str());
            writer.byte(user_ids.is_some().into());
            writer.user_ids(user_ids.as_deref().unwrap_or_default());
            writer.byte(chat_ids.is_some().into());
            let chat_ids = chat_ids.as_deref().unwrap_or_default();
            writer.count(chat_ids.len());
            chat_ids.iter().for_each(|chat_id| writer.ulid(chat_id.0.0));
        }
        Envelope::Close { leases, reason } => {
            writer.text(reason.as_str());
            writer.count(leases.len());
            leases.iter().for_each(|lease| encode_lease(lease, writer));
        }
    }
}

fn encode_message(delivery: &Delivery, writer: &mut Writer<'_>) {
    let Delivery { chat_id, sequence, user_ids, frame, origin, committed_at } = delivery;
    writer.ulid(chat_id.0.0);
    writer.number(*sequence);
    writer.byte(origin.is_some().into());
    if let Some(origin) = origin {
        encode_connection(*origin, writer);
    }
    encode_timestamp(*committed_at, writer);
    writer.user_ids(user_ids);
    writer.frame(frame);
}

fn encode_connection(connection_id: ConnectionId, writer: &mut Writer<'_>) {
    writer.ulid(connection_id.ulid.0);
    writer.short(connection_id.shard);
}

fn encode_lease(lease: &LeaseKey, writer: &mut Writer<'_>) {
    writer.text(lease.user_id.as_str());
    writer.text(lease.node_id.as_str());
    encode_connection(lease.connection_id, writer);
}

fn encode_transition(transition: &Transition, writer: &mut Writer<'_>) {
    writer.text(transition.user_id.as_str());
    writer.byte(transition.is_online.into());
    writer.number(transition.version);
    encode_timestamp(transition.last_seen, writer);
}

fn encode_timestamp(timestamp: Option<Timestamp>, writer: &mut Writer<'_>) {
    writer.byte(timestamp.is_some().into());
    if let Some(Timestamp { unix_ms }) = timestamp {
        writer.number(unix_ms);
    }
}

/// Reads the body of an envelope of this kind; none if this version knows no such kind.
pub(super) fn decode(kind: u8, body: Reader) -> Result<Option<Envelope>, Malformed> {
    let decode = match kind {
        kind::PUSH => decode_push,
        kind::MESSAGE => decode_message,
        kind::TYPING => decode_typing,
        kind::PRESENCE => decode_presence,
        kind::PRIVACY_CHANGED => decode_privacy_changed,
        kind::RESYNC => decode_resync,
        kind::CLOSE => decode_close,
        _ => return Ok(None),
    };
    decode(body).map(Some)
}

fn decode_push(mut body: Reader) -> Result<Envelope, Malformed> {
    let user_ids = body.user_ids()?;
    Ok(Envelope::Push { user_ids, frame: body.frame()? })
}

fn decode_message(mut body: Reader) -> Result<Envelope, Malformed> {
    let (chat_id, sequence) = (decode_chat(&mut body)?, body.number()?);
    let origin = body.flag()?.then(|| decode_connection(&mut body)).transpose()?;
    let committed_at = decode_timestamp(&mut body)?;
    let (user_ids, frame) = (body.user_ids()?, body.frame()?);
    Ok(Envelope::Message(Delivery { chat_id, sequence, user_ids, frame, origin, committed_at }))
}

fn decode_typing(mut body: Reader) -> Result<Envelope, Malformed> {
    let user_ids = body.user_ids()?;
    let chat_id = decode_chat(&mut body)?;
    let (user_id, is_typing) = (body.id()?, body.flag()?);
    Ok(Envelope::Typing { user_ids, chat_id, user_id, is_typing })
}

fn decode_presence(mut body: Reader) -> Result<Envelope, Malformed> {
    // A user of one letter, three fixed shapes and an empty list.
    let count = body.count(16)?;
    let news = (0..count).map(|_| decode_news(&mut body)).collect::<Result<_, _>>()?;
    Ok(Envelope::Presence(news))
}

fn decode_news(body: &mut Reader) -> Result<PresenceNews, Malformed> {
    let (user_id, is_online, version) = (body.id()?, body.flag()?, body.number()?);
    let last_seen = decode_timestamp(body)?;
    let transition = Transition { user_id, is_online, version, last_seen };
    Ok(PresenceNews { transition, observer_ids: body.user_ids()? })
}

fn decode_privacy_changed(mut body: Reader) -> Result<Envelope, Malformed> {
    let user_ids = body.user_ids()?.to_vec();
    Ok(Envelope::PrivacyChanged { user_ids })
}

fn decode_resync(mut body: Reader) -> Result<Envelope, Malformed> {
    let reason = body.text()?;
    let known = ResyncReason::ALL.into_iter().find(|known| known.as_str() == reason);
    // For clients every reason means the same.
    let reason = known.unwrap_or(ResyncReason::Undelivered);
    let (has_users, user_ids) = (body.flag()?, body.user_ids()?);
    let (has_chats, count) = (body.flag()?, body.count(16)?);
    let chat_ids = (0..count).map(|_| decode_chat(&mut body)).collect::<Result<_, _>>()?;
    let user_ids = has_users.then_some(user_ids);
    Ok(Envelope::Resync { user_ids, chat_ids: has_chats.then_some(chat_ids), reason })
}

fn decode_close(mut body: Reader) -> Result<Envelope, Malformed> {
    let reason = body.text()?;
    let known = CloseReason::ALL.into_iter().find(|known| known.as_str() == reason);
    // The connections must close all the same. With this reason their clients reconnect after a
    // back-off, and admission decides about them.
    let reason = known.unwrap_or(CloseReason::InternalError);
    // Two ids of one letter and a connection.
    let count = body.count(22)?;
    let leases = (0..count).map(|_| decode_lease(&mut body)).collect::<Result<_, _>>()?;
    Ok(Envelope::Close { leases, reason })
}

fn decode_lease(body: &mut Reader) -> Result<LeaseKey, Malformed> {
    let (user_id, node_id) = (body.id()?, body.id()?);
    Ok(LeaseKey { user_id, node_id, connection_id: decode_connection(body)? })
}

fn decode_timestamp(body: &mut Reader) -> Result<Option<Timestamp>, Malformed> {
    let unix_ms = body.flag()?.then(|| body.number()).transpose()?;
    Ok(unix_ms.map(|unix_ms| Timestamp { unix_ms }))
}

fn decode_chat(body: &mut Reader) -> Result<ChatId, Malformed> {
    body.ulid().map(|ulid| ChatId(ulid.into()))
}

fn decode_connection(body: &mut Reader) -> Result<ConnectionId, Malformed> {
    let (ulid, shard) = (body.ulid()?.into(), body.short()?);
    Ok(ConnectionId { ulid, shard })
}
