//! The subscriptions.
//!
//! The schema that declares the subscriptions only validates their documents. For each event, the
//! document runs as a query of [`EventSchema`]. The same document of many subscribers therefore
//! runs once per event.

use async_graphql::{
    Context, EmptyMutation, EmptySubscription, ID, Object, Schema, Subscription, ValidationMode,
};
use futures_util::stream::{Empty, empty};

use super::event::{QueueEventView, SessionEventView};
use crate::room::listener::ListenerEvent;

/// The subscriptions as the schema declares them.
#[derive(Debug)]
pub(super) struct Subscriptions;

/// Subscriptions of members, over a socket. A client may subscribe before its join completes.
#[Subscription(name = "Subscription")]
impl Subscriptions {
    /// The events of a session's queue: first a `FullSync`, then every change.
    async fn queue_updates(
        &self,
        #[graphql(desc = "The session that the connection has joined or is joining")]
        session_id: ID,
    ) -> Empty<QueueEventView> {
        drop(session_id);
        empty()
    }

    /// The events of a session's members: first all members and the leader, then every change.
    async fn session_updates(
        &self,
        #[graphql(desc = "The session that the connection has joined or is joining")]
        session_id: ID,
    ) -> Empty<SessionEventView> {
        drop(session_id);
        empty()
    }
}

/// The schema of one event, which is in the data of the request.
pub(super) type EventSchema = Schema<EventRoot, EmptyMutation, EmptySubscription>;

/// One event, under the names of the subscriptions.
#[derive(Debug)]
pub(super) struct EventRoot;

#[Object(name = "Subscription")]
impl EventRoot {
    async fn queue_updates(&self, context: &Context<'_>, session_id: ID) -> Option<QueueEventView> {
        drop(session_id);
        match context.data_unchecked::<ListenerEvent>() {
            ListenerEvent::FullSync(session) => Some(QueueEventView::full_sync(session)),
            ListenerEvent::Queue { event, incarnation } => QueueEventView::of(event, *incarnation),
            ListenerEvent::Session(_) => None,
        }
    }

    async fn session_updates(
        &self,
        context: &Context<'_>,
        session_id: ID,
    ) -> Option<SessionEventView> {
        drop(session_id);
        match context.data_unchecked::<ListenerEvent>() {
            ListenerEvent::Session(update) => Some(update.into()),
            ListenerEvent::FullSync(_) | ListenerEvent::Queue { .. } => None,
        }
    }
}

/// The schema does not validate documents: the schema of the subscriptions has done so.
pub(super) fn event_schema() -> EventSchema {
    let schema = Schema::build(EventRoot, EmptyMutation, EmptySubscription);
    schema.validation_mode(ValidationMode::Fast).finish()
}
