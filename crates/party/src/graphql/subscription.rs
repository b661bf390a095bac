//! What callers listen to.
//!
//! A subscription is not run by the schema that declares it: its document is checked there once,
//! and then answered as a query to [`EventSchema`] for each event. So the same document of many
//! subscribers is run once per event, whoever asks first.

use async_graphql::{
    Context, EmptyMutation, EmptySubscription, ID, Object, Schema, Subscription, ValidationMode,
};
use futures_util::stream::{Empty, empty};

use super::event::{QueueEventView, SessionEventView};
use crate::room::listener::ListenerEvent;

/// What callers listen to, as it is declared.
#[derive(Debug)]
pub(super) struct Subscriptions;

/// What members listen to, over a socket. A subscription may come before its join.
#[Subscription(name = "Subscription")]
impl Subscriptions {
    /// What happens to a session's queue, for members: first a `FullSync`, then what follows it.
    async fn queue_updates(
        &self,
        #[graphql(desc = "The session that the connection is in, or is about to join")]
        session_id: ID,
    ) -> Empty<QueueEventView> {
        drop(session_id);
        empty()
    }

    /// What happens to a session's members, for members: first everybody who is here and who leads,
    /// then what follows.
    async fn session_updates(
        &self,
        #[graphql(desc = "The session that the connection is in, or is about to join")]
        session_id: ID,
    ) -> Empty<SessionEventView> {
        drop(session_id);
        empty()
    }
}

/// The schema that answers for one event, which is in the data of the request.
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
            ListenerEvent::Session(news) => Some(news.into()),
            ListenerEvent::FullSync(_) | ListenerEvent::Queue { .. } => None,
        }
    }
}

/// Documents come here after they were found valid.
pub(super) fn event_schema() -> EventSchema {
    let schema = Schema::build(EventRoot, EmptyMutation, EmptySubscription);
    schema.validation_mode(ValidationMode::Fast).finish()
}
