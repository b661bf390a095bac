//! The mutations. Those of the queue apply to the session that the connection has joined.

use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use aws_lc_rs::digest::{SHA256, digest};
use heartline_protocol::UserId;
use heartline_runtime::Random;
use rand::RngCore;

use super::input::{CreateSessionInput, ItemInput};
use super::item::ItemView;
use super::query::{caller, members, participants, rooms};
use super::session::{QueueStateView, SessionView};
use super::statistics::SessionSummary;
use crate::room::party_socket::{PartySocket, validate_names};
use crate::room::rate::Accounts;
use crate::room::task::Completed;
use crate::room::uuid::{random_uuid, uuid_of};
use crate::value::error::PartyError;
use crate::value::item::Item;
use crate::value::operation::{Edit, Join, Lifecycle, NewSession, Operation, Outcome};
use crate::value::roster::TokenDigest;
use crate::value::validate;

/// The mutations.
#[derive(Debug)]
pub(super) struct Mutation;

/// Mutations. Those of the queue apply to the session that the connection has joined.
#[Object]
impl Mutation {
    /// Adds the caller to a session. A session that does not exist is created.
    #[expect(clippy::too_many_arguments, reason = "the schema has so many")]
    async fn join_session(
        &self,
        context: &Context<'_>,
        #[graphql(
            desc = "The session: 1 to 100 letters, digits and hyphens; clients may choose a new id"
        )]
        session_id: ID,
        #[graphql(desc = "The board; set by the first join")] board_path: String,
        #[graphql(desc = "The name to show, 1 to 50 characters")] username: Option<String>,
        #[graphql(desc = "The picture to show")] avatar_url: Option<String>,
        #[graphql(desc = "The initial queue; set by the first join")] initial_queue: Option<
            Vec<ItemInput>,
        >,
        #[graphql(desc = "The initial current climb; set by the first join")]
        initial_current_climb: Option<ItemInput>,
        #[graphql(desc = "The name of the session; set by the first join")] session_name: Option<
            String,
        >,
        #[graphql(desc = "Whether to return a `resumeToken`")] resumable: Option<bool>,
        #[graphql(desc = "Resumes as the member that received this token; returns a new one")]
        resume_token: Option<String>,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<SessionView, PartyError> {
        let socket = caller(context).socket().ok_or_else(PartyError::needs_a_socket)?;
        socket.take_join()?;
        let items_max = rooms(context).limits().queue_items_max;
        let queue = initial_queue.unwrap_or_default().into_iter().map(Into::into).collect();
        let initial_queue = validate::queue("initialQueue", queue, items_max)?;
        let current = initial_current_climb.map(|item| item_of("initialCurrentClimb", item));
        let resume_token = resume_token.filter(|token| !token.is_empty());
        let is_resumable = resumable.unwrap_or_default() || resume_token.is_some();
        let join = Join {
            board_path,
            username,
            avatar_url,
            session_name,
            initial_queue,
            initial_current: current.transpose()?,
            resume_token: None,
            resumed_token: resume_token.as_deref().map(token_digest),
        };
        join_as(socket, session_id.0, join, is_resumable, text(correlation_id)).await
    }

    /// Creates a session, and adds the caller to it if the caller has a connection.
    async fn create_session(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The details of the session")] input: CreateSessionInput,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<SessionView, PartyError> {
        let caller = caller(context);
        let account = caller.account().ok_or_else(PartyError::authentication_required)?;
        match caller.socket() {
            Some(socket) => socket.take_lifecycle()?,
            None => {
                let now = rooms(context).clock().now();
                context.data_unchecked::<Accounts>().take_lifecycle(account, now)?;
            }
        }
        validate::board_ids(input.board_ids.as_deref().unwrap_or_default())?;
        let (correlation_id, new) = (text(correlation_id), NewSession::from(input));
        let session_id = match &correlation_id {
            Some(name) => named_session(account, name),
            None => random_uuid(rooms(context).random()),
        };
        let board_path = new.board_path.clone();
        let operation = Operation::Lifecycle(Lifecycle::Create(Box::new(new)));
        let actor = Some(caller.actor(rooms(context)));
        let created =
            rooms(context).operate(&session_id, operation, actor, correlation_id.clone()).await?;
        match caller.socket() {
            Some(socket) => {
                let join = Join { board_path, ..Join::default() };
                join_as(socket, session_id, join, false, correlation_id).await
            }
            None => Ok(SessionView {
                session: created.session,
                viewer: None,
                is_own: true,
                resume_token: None,
            }),
        }
    }

    /// Leaves the session. Returns whether the caller was a member.
    async fn leave_session(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<bool, PartyError> {
        match caller(context).socket() {
            Some(socket) => socket.leave(text(correlation_id)).await,
            None => Ok(false),
        }
    }

    /// Ends a session, which is final. Only its creator and its leader may.
    async fn end_session(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The session")] session_id: ID,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<Option<SessionSummary>, PartyError> {
        let (caller, rooms) = (caller(context), rooms(context));
        match (caller.socket(), caller.account()) {
            (Some(socket), _) => socket.take_lifecycle()?,
            (None, Some(account)) => {
                context
                    .data_unchecked::<Accounts>()
                    .take_lifecycle(account, rooms.clock().now())?;
            }
            (None, None) => return Err(PartyError::authentication_required()),
        }
        validate::session_id(&session_id)?;
        let members = members(&*rooms.read(&session_id).await?);
        let operation = Operation::Lifecycle(Lifecycle::End { expected_epoch: None });
        let actor = Some(caller.actor(rooms));
        let ended = rooms.operate(&session_id, operation, actor, text(correlation_id)).await?;
        // The session has ended, also if the archive cannot be read now.
        let former = participants(rooms, &session_id).await.unwrap_or_default();
        Ok(Some(SessionSummary::of(&ended.session, &members, &former)))
    }

    /// Changes the caller's name, in its present session and in those that it joins later.
    async fn update_username(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The name to show, 1 to 50 characters")] username: String,
        #[graphql(desc = "The picture to show; unchanged if not given")] avatar_url: Option<String>,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<bool, PartyError> {
        match caller(context).socket() {
            Some(socket) => {
                socket.update_username(username, avatar_url, text(correlation_id)).await?;
            }
            None => validate_names(&username, avatar_url.as_deref())?,
        }
        Ok(true)
    }

    /// Adds an item to the queue. An item that is already in the queue stays unchanged.
    async fn add_queue_item(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The item, with a UUID that the client generates")] item: ItemInput,
        #[graphql(desc = "The position, from 0; the end if not given or beyond the end")]
        position: Option<i32>,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<ItemView, PartyError> {
        let add = || Ok(Edit::Add { item: item_of("item", item)?, position });
        let added = edit(context, correlation_id, add).await?;
        item_of_outcome(added).ok_or_else(PartyError::item_not_found)
    }

    /// Removes an item from the queue. Removing an absent item changes nothing and is no error.
    async fn remove_queue_item(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The item")] uuid: ID,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<bool, PartyError> {
        edit(context, correlation_id, || Ok(Edit::Remove { uuid: uuid.0 })).await.map(|_| true)
    }

    /// Moves an item from its present position, which others may have changed.
    async fn reorder_queue_item(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The item")] uuid: ID,
        #[graphql(desc = "The position at which the caller saw it; only a hint")] old_index: i32,
        #[graphql(desc = "The new position, from 0, below the length of the queue")] new_index: i32,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<bool, PartyError> {
        let reorder = || Ok(Edit::Reorder { uuid: uuid.0, old_index, new_index });
        edit(context, correlation_id, reorder).await.map(|_| true)
    }

    /// Sets or clears the current climb, which need not be in the queue.
    async fn set_current_climb(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The climb; null clears the current one")] item: Option<ItemInput>,
        #[graphql(desc = "Whether to add it to the queue as well")] should_add_to_queue: Option<
            bool,
        >,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<Option<ItemView>, PartyError> {
        let set = || {
            let item = item.map(|item| item_of("item", item)).transpose()?;
            Ok(Edit::SetCurrent { item, should_add: should_add_to_queue.unwrap_or_default() })
        };
        Ok(item_of_outcome(edit(context, correlation_id, set).await?))
    }

    /// Mirrors the current climb, or stops mirroring it. Changes nothing if there is none.
    async fn mirror_current_climb(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "Whether it is mirrored")] mirrored: bool,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<Option<ItemView>, PartyError> {
        let mirror = || Ok(Edit::Mirror { mirrored });
        Ok(item_of_outcome(edit(context, correlation_id, mirror).await?))
    }

    /// Replaces an item by another, also as the current climb. Subscribers receive a `FullSync`.
    async fn replace_queue_item(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The item to replace")] uuid: ID,
        #[graphql(desc = "The new item")] item: ItemInput,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<ItemView, PartyError> {
        let replace = || Ok(Edit::Replace { uuid: uuid.0, item: item_of("item", item)? });
        let replaced = edit(context, correlation_id, replace).await?;
        item_of_outcome(replaced).ok_or_else(PartyError::item_not_found)
    }

    /// Replaces the whole queue. Subscribers receive a `FullSync`.
    async fn set_queue(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The items in order")] queue: Vec<ItemInput>,
        #[graphql(desc = "The current climb; null clears it")] current_climb_queue_item: Option<
            ItemInput,
        >,
        #[graphql(desc = "Chosen by the caller; a call repeated with the same id runs once")]
        correlation_id: Option<ID>,
    ) -> Result<QueueStateView, PartyError> {
        let items_max = rooms(context).limits().queue_items_max;
        let set = || {
            let queue = queue.into_iter().map(Into::into).collect();
            let queue = validate::queue("queue", queue, items_max)?;
            let current = current_climb_queue_item;
            let current = current.map(|item| item_of("currentClimbQueueItem", item)).transpose()?;
            Ok(Edit::SetQueue { queue, current })
        };
        let replaced = edit(context, correlation_id, set).await?;
        Ok(QueueStateView::Of(replaced.session))
    }
}

/// Stop 5 of the life of a party edit: resolved. Performs an edit in the caller's session. The rate
/// is checked before the arguments are validated.
async fn edit(
    context: &Context<'_>,
    correlation_id: Option<ID>,
    edit: impl FnOnce() -> Result<Edit, PartyError> + Send,
) -> Result<Completed, PartyError> {
    tracing::trace!(target: "heartline::life", party_stop = 5, "resolved");
    let socket = caller(context).socket().ok_or_else(PartyError::not_in_a_session)?;
    let inside = socket.begin_edit()?;
    socket.edit(inside, edit()?, text(correlation_id)).await
}

async fn join_as(
    socket: &Arc<PartySocket>,
    session_id: String,
    join: Join,
    is_resumable: bool,
    correlation_id: Option<String>,
) -> Result<SessionView, PartyError> {
    let resume_token = is_resumable.then(|| new_token(socket.random()));
    let join = Join { resume_token: resume_token.as_deref().map(token_digest), ..join };
    let (member, joined) = socket.join(session_id, join, correlation_id).await?;
    Ok(SessionView { session: joined.session, viewer: Some(member), is_own: false, resume_token })
}

fn item_of_outcome(completed: Completed) -> Option<ItemView> {
    match completed.outcome {
        Outcome::Item(item) | Outcome::Current(Some(item)) => Some(ItemView(item)),
        _ => None,
    }
}

fn item_of(argument: &'static str, input: ItemInput) -> Result<Item, PartyError> {
    validate::queue_item(argument, input.into())
}

/// Clients send empty text for ids that they do not give.
fn text(id: Option<ID>) -> Option<String> {
    id.map(|id| id.0).filter(|id| !id.is_empty())
}

/// A resume token: 256 random bits in hexadecimal.
fn new_token(mut random: Random) -> String {
    let mut bytes = [0; 32];
    random.fill_bytes(&mut bytes);
    hexadecimal(&bytes)
}

/// The id of the session that an account creates under this correlation id: the same one every
/// time, so that a repeated request creates no second session.
fn named_session(account: &UserId, correlation_id: &str) -> String {
    let name = format!("{}\n{correlation_id}", account.as_str());
    let digest = digest(&SHA256, name.as_bytes());
    uuid_of(*digest.as_ref().first_chunk().expect("a digest has 32 bytes"))
}

/// The form in which a token is stored. A reader of the store cannot resume with it.
fn token_digest(token: &str) -> TokenDigest {
    let digest = digest(&SHA256, token.as_bytes());
    TokenDigest(hexadecimal(digest.as_ref()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
