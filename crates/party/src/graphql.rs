//! The GraphQL interface of party sessions, for any transport.
//!
//! A transport opens a [`PartySocket`] for each connection and passes requests to [`Party::run`],
//! which returns encoded replies. The schema is that of existing clients; all additions are
//! nullable or optional.

mod document;
mod document_cache;
mod encoding_cache;
mod encode;
mod event;
mod guard;
mod input;
mod item;
mod mutation;
mod query;
mod session;
mod statistics;
mod subscription;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_graphql::extensions::{Extension, ExtensionContext, ExtensionFactory, NextExecute};
use async_graphql::parser::types::OperationType;
use async_graphql::{Response, SDLExportOptions, Schema, ServerError, Variables};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{BoxStream, StreamExt, once};
use heartline_protocol::UserId;
use heartline_protocol::graphql::{GraphQlRequest, Reply};

use crate::room::listener::{Listener, ListenerEvent};
use crate::room::party_socket::PartySocket;
use crate::room::rate::{Accounts, PartyRates};
use crate::room::rooms::Rooms;
use crate::room::uuid::random_uuid;
use crate::value::error::PartyError;
use crate::value::operation::Actor;
use crate::value::roster::Attachment;
use crate::value::validate;

use document::Document;
use document_cache::DocumentCache;
use encode::{encode_errors, encode_response, encode_without_data, server_error};
use encoding_cache::{DocumentKey, EncodingCache, EventKey};
use mutation::Mutation;
use query::Query;
use subscription::{EventSchema, Subscriptions, event_schema};

/// The most directives of one field.
const DIRECTIVES_MAX: usize = 8;

/// The party sessions of a node, as a GraphQL interface. Clones share everything.
#[derive(Clone)]
pub struct Party(Arc<Inner>);

struct Inner {
    rooms: Rooms,
    rates: PartyRates,
    schema: Schema<Query, Mutation, Subscriptions>,
    events: EventSchema,
    documents: DocumentCache,
    encodings: EncodingCache,
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A connection.
    Socket(Arc<PartySocket>),
    /// A request over HTTP, which is in no session.
    Http {
        /// The account, if it is signed in.
        account: Option<UserId>,
    },
}

impl Caller {
    fn socket(&self) -> Option<&Arc<PartySocket>> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Http { .. } => None,
        }
    }

    fn account(&self) -> Option<&UserId> {
        match self {
            Self::Socket(socket) => socket.account(),
            Self::Http { account } => account.as_ref(),
        }
    }

    fn actor(&self, rooms: &Rooms) -> Actor {
        match self {
            Self::Socket(socket) => socket.actor(),
            // No member has this id: it is random, and used for one request only.
            Self::Http { account } => Actor {
                member: random_uuid(rooms.random()).parse().expect("a UUID is a legal id"),
                account: account.clone(),
                attachment: Attachment { node: rooms.node_id().clone(), socket: 0 },
            },
        }
    }
}

impl Party {
    /// The interface to these sessions.
    pub fn new(rooms: Rooms, rates: PartyRates) -> Self {
        let schema = Schema::build(Query, Mutation, Subscriptions)
            .data(rooms.clone())
            .data(Accounts::new(rates))
            .limit_directives(DIRECTIVES_MAX)
            .extension(Stages)
            .finish();
        Self(Arc::new(Inner {
            rooms,
            rates,
            schema,
            events: event_schema(),
            documents: DocumentCache::default(),
            encodings: EncodingCache::default(),
        }))
    }

    /// The schema in GraphQL's schema language.
    pub fn sdl() -> String {
        let options = SDLExportOptions::new();
        let schema = Schema::build(Query, Mutation, Subscriptions).finish();
        schema.sdl_with_options(options.prefer_single_line_descriptions())
    }

    /// Opens a connection, which has joined no session yet. Its number must be unique among the
    /// sockets of this node.
    pub fn open(&self, account: Option<UserId>, socket: u64) -> Arc<PartySocket> {
        Arc::new(PartySocket::new(self.0.rooms.clone(), self.0.rates, account, socket))
    }

    /// Runs a request. A query or a mutation has one reply; a subscription has one for each event,
    /// and ends when the caller is no longer a member.
    pub fn run(&self, caller: Caller, request: GraphQlRequest) -> BoxStream<'static, Reply> {
        let party = self.clone();
        let replies = async move {
            let only = |reply| once(async { reply }).boxed();
            let document = match Document::parse(request, &party.0.documents) {
                Ok(document) => document,
                Err(error) => return only(Reply::Error(encode_errors(vec![error]))),
            };
            let kind = document.operation().map(|operation| operation.ty);
            if kind == Some(OperationType::Subscription) {
                return match party.subscribe(caller, document).await {
                    Ok(replies) => replies,
                    Err(refused) => only(refused),
                };
            }
            only(party.execute(caller, document).await)
        };
        replies.flatten_stream().boxed()
    }

    /// Stop 4 of the life of a party edit: executed. Runs a query or a mutation.
    async fn execute(&self, caller: Caller, mut document: Document) -> Reply {
        tracing::trace!(target: "heartline::life", party_stop = 4, "executed");
        let missing = document.missing_variables();
        if !missing.is_empty() {
            return self.invalid_reply(&document, missing).await;
        }
        let stage = Stage::default();
        // Variables may be as large as a whole queue, and are not needed afterwards.
        let variables = std::mem::take(&mut document.variables);
        let request = document.to_request(variables);
        let request = request.data(Arc::new(caller)).data(stage.clone());
        let response = self.0.schema.execute(request).await;
        if stage.has_begun() {
            return Reply::Next(encode_response(response));
        }
        self.invalid_reply(&document, response.errors).await
    }

    /// The reply for a document that was not run: the errors of the document if it is invalid, else
    /// the given errors of its variables.
    async fn invalid_reply(&self, document: &Document, errors: Vec<ServerError>) -> Reply {
        match self.validate(document, Variables::default()).await {
            Ok(()) => Reply::Next(encode_without_data(errors)),
            Err(invalid) => Reply::Error(encode_errors(invalid)),
        }
    }

    /// Validates a document without running it.
    async fn validate(
        &self,
        document: &Document,
        variables: Variables,
    ) -> Result<(), Vec<ServerError>> {
        let stage = Stage { is_validation: true, ..Stage::default() };
        let request = document.to_request(variables).data(stage.clone());
        let response = self.0.schema.execute(request).await;
        if stage.has_begun() { Ok(()) } else { Err(response.errors) }
    }

    async fn subscribe(
        &self,
        caller: Caller,
        document: Document,
    ) -> Result<BoxStream<'static, Reply>, Reply> {
        let missing = document.missing_variables();
        if !missing.is_empty() {
            return Err(self.invalid_reply(&document, missing).await);
        }
        if let Err(errors) = self.validate(&document, document.variables.clone()).await {
            return Err(self.invalid_reply(&document, errors).await);
        }
        let refused = |error: PartyError| Reply::Error(encode_errors(vec![server_error(&error)]));
        let (session_id, listener) = self.listen(&caller, &document).await.map_err(refused)?;
        let key = Arc::new(DocumentKey {
            query: document.query.clone(),
            operation_name: document.operation_name.clone(),
            variables: document.variables.clone(),
        });
        let (party, document) = (self.clone(), Arc::new(document.into_query()));
        let replies = listener.then(move |event| {
            let (party, session_id) = (party.clone(), Arc::clone(&session_id));
            let (key, document) = (Arc::clone(&key), Arc::clone(&document));
            async move { Reply::Next(party.encode(&session_id, event, &key, &document).await) }
        });
        Ok(replies.boxed())
    }

    async fn listen(
        &self,
        caller: &Caller,
        document: &Document,
    ) -> Result<(Arc<str>, Listener), PartyError> {
        let (topic, session_id) = document.subscription()?;
        validate::session_id(&session_id)?;
        let socket = caller.socket().ok_or_else(PartyError::not_in_any_session)?;
        let actor = socket.actor_in(&session_id).await?;
        let listener = self.0.rooms.listen(&session_id, topic, actor).await?;
        Ok((session_id.into(), listener))
    }

    /// Stop 15 of the life of a party edit: encoded, once for all subscribers with the same
    /// document.
    async fn encode(
        &self,
        session_id: &Arc<str>,
        event: ListenerEvent,
        key: &Arc<DocumentKey>,
        document: &Document,
    ) -> Bytes {
        tracing::trace!(target: "heartline::life", party_stop = 15, "encoded");
        let event_key = EventKey::of(session_id, &event);
        let encode = async {
            let request = document.to_request(document.variables.clone()).data(event);
            encode_response(self.0.events.execute(request).await)
        };
        match event_key {
            Some(event_key) => self.0.encodings.get(event_key, key, encode).await,
            None => encode.await,
        }
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Party").field("rooms", &self.0.rooms).finish_non_exhaustive()
    }
}

/// The progress of a request in the GraphQL engine, which shows whether an error is from validation
/// or from running.
#[derive(Debug, Clone, Default)]
struct Stage {
    /// Whether to stop before running.
    is_validation: bool,
    has_begun: Arc<AtomicBool>,
}

impl Stage {
    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Stages;

impl ExtensionFactory for Stages {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_trait]
impl Extension for Stages {
    async fn execute(
        &self,
        context: &ExtensionContext<'_>,
        operation_name: Option<&str>,
        next: NextExecute<'_>,
    ) -> Response {
        let Some(stage) = context.data_opt::<Stage>() else {
            return next.run(context, operation_name).await;
        };
        stage.has_begun.store(true, Ordering::Relaxed);
        if stage.is_validation {
            Response::default()
        } else {
            next.run(context, operation_name).await
        }
    }
}

#[cfg(test)]
mod tests;
