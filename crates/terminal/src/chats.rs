//! The commands about chats, and the events of chats.

use std::io::Write;
use std::time::Duration;

use futures_util::Stream;
use heartline_client::{ChatEvent, Draft, SendError, SubscribeError};
use heartline_protocol::limits::{CONTENT_BYTES_MAX, PRESENCE_USERS_PER_CONNECTION_MAX};
use heartline_protocol::rest::{CreateChat, ListedChat};
use heartline_protocol::server_frame::{Chat, ChatKind, Message, Role};
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::Clock;
use tokio::io::AsyncRead;

use super::chat_list::{Found, role_name};
use super::line::Line;
use super::request::{Api, Request, Response};
use super::rest::RestError;
use super::terminal::{CONTINUE, Done, Flow, Progress, Terminal};
use super::view::message::{ShownMessage, count};
use super::view::presence;

/// The time without an answer after which a message is shown as waiting.
const SHOW_WAITING_AFTER: Duration = Duration::from_secs(1);
/// The hint for a command that needs a current chat.
const NO_CHAT: &str = "you are in no chat: /chats lists yours, /join CHAT opens one, /new NAME \
                       USER… creates a group, /direct USER opens a direct chat";

impl<R, S, O, E> Terminal<R, S, O, E>
where
    R: AsyncRead + Unpin,
    S: Stream + Unpin,
    O: Write,
    E: Write,
{
    // === commands ===

    /// Handles a command about chats.
    pub(super) fn on_chat_line(&mut self, line: Line, progress: &mut Progress) -> Flow {
        let request = match line {
            Line::New { name, member_ids } => {
                let (kind, name) = (ChatKind::Group, Some(name));
                Request::CreateChat(CreateChat { kind, name, member_ids })
            }
            Line::Direct(user_id) => {
                let (kind, name, member_ids) = (ChatKind::Direct, None, vec![user_id]);
                Request::CreateChat(CreateChat { kind, name, member_ids })
            }
            Line::Watch(user_ids) => return self.watch(user_ids, progress),
            Line::Unwatch(user_id) => return self.unwatch(user_id, progress),
            Line::Visibility(visibility) => Request::SetVisibility(visibility),
            Line::Contact(user_id) => Request::AddContact(user_id),
            Line::Uncontact(user_id) => Request::RemoveContact(user_id),
            Line::Chats => Request::Chats,
            Line::Join(text) => match self.chat_list.find(&text) {
                Found::Known(chat_id) | Found::Unlisted(chat_id) => Request::Join(chat_id),
                Found::NoMatch(sentence) => return self.explain(&sentence),
            },
            line => match self.chat_list.current() {
                Some(chat_id) => return self.on_line_in(chat_id, line, progress),
                None => return self.explain(NO_CHAT),
            },
        };
        self.request(request, progress)
    }

    /// Handles a command about the current chat.
    fn on_line_in(&mut self, chat_id: ChatId, line: Line, progress: &mut Progress) -> Flow {
        let request = match line {
            Line::Send(text) => return self.send_message(chat_id, text, progress),
            Line::Typing => return self.typing(chat_id, progress),
            Line::Add { user_id, role } => {
                let known = self.chat_list.role(chat_id, &user_id);
                if let Some(known) = known.filter(|known| role.is_none_or(|role| role == *known)) {
                    return self.explain_role(&user_id, known);
                }
                Request::Add { chat_id, user_id, role }
            }
            Line::Remove(user_id) if Some(&user_id) == self.chat_list.me.as_ref() => {
                return self.explain("you cannot remove yourself: use /leave");
            }
            Line::Remove(user_id) => Request::Remove { chat_id, user_id },
            Line::Rename(name) => Request::Rename { chat_id, name },
            Line::History(count) => Request::History { chat_id, count },
            Line::Who => Request::Members(chat_id),
            Line::Leave => Request::Leave(chat_id),
            _ => return CONTINUE,
        };
        self.request(request, progress)
    }

    fn send_message(&mut self, chat_id: ChatId, text: String, progress: &mut Progress) -> Flow {
        let draft = Draft::new(chat_id, text);
        let delay = if progress.is_connected { SHOW_WAITING_AFTER } else { Duration::ZERO };
        self.pending.push(draft.clone(), Clock::system().now() + delay);
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let result = sender.send_draft(draft.clone()).await;
            Done::Queued(draft, result)
        }));
        CONTINUE
    }

    fn typing(&mut self, chat_id: ChatId, progress: &mut Progress) -> Flow {
        if !progress.is_connected {
            return self.explain("not connected: try again when the connection is back");
        }
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.typing(chat_id, true).await;
            Done::Sent
        }));
        CONTINUE
    }

    fn watch(&mut self, user_ids: Vec<UserId>, progress: &mut Progress) -> Flow {
        let sender = self.client.sender();
        let subscribing =
            async move { Done::Subscribed(sender.presence_subscribe(user_ids).await) };
        progress.work = Some(Box::pin(subscribing));
        CONTINUE
    }

    fn unwatch(&mut self, user_id: UserId, progress: &mut Progress) -> Flow {
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.presence_unsubscribe(vec![user_id]).await;
            Done::Sent
        }));
        CONTINUE
    }

    fn explain_role(&mut self, user_id: &UserId, role: Role) -> Flow {
        let (article, role) = role_name(role);
        self.explain(&format!("{user_id} is already {article} {role}"))
    }

    fn request(&mut self, request: Request, progress: &mut Progress) -> Flow {
        progress.is_creating_chat = matches!(request, Request::CreateChat(_));
        match self.api(progress) {
            Ok(api) => {
                let requesting = async move { Done::Requested(api.send(request).await) };
                progress.work = Some(Box::pin(requesting));
                CONTINUE
            }
            Err(error) => self.explain(&error),
        }
    }

    /// Reads the list of chats.
    pub(super) fn list(&mut self, progress: &mut Progress) {
        progress.wants_list = false;
        // Without a token, the connection reports the error.
        if let Ok(api) = self.api(progress) {
            progress.is_listing = true;
            let listing = async move { Done::Listed(api.send(Request::Chats).await) };
            progress.work = Some(Box::pin(listing));
        }
    }

    fn api(&self, progress: &Progress) -> Result<Api, String> {
        let token = self.tokens.current()?;
        Ok(Api { rest: self.rest.clone(), base: progress.base.clone(), token })
    }

    // === results ===

    /// Handles the result of the work for a line.
    pub(super) fn on_done(&mut self, done: Done, progress: &mut Progress) -> Flow {
        match done {
            Done::Sent | Done::Queued(_, Ok(())) | Done::Subscribed(Ok(())) => CONTINUE,
            // The last event has the reason.
            Done::Subscribed(Err(SubscribeError::Stopped)) => CONTINUE,
            Done::Subscribed(Err(SubscribeError::TooMany)) => self.explain(&format!(
                "you can watch at most {PRESENCE_USERS_PER_CONNECTION_MAX} users: /unwatch USER \
                     removes one"
            )),
            Done::Queued(draft, Err(error)) => {
                self.pending.answered(&draft.client_message_id);
                match error {
                    SendError::InvalidContent => self.explain(&format!(
                        "a message can have at most {CONTENT_BYTES_MAX} bytes, and this one has \
                         {}: split it",
                        draft.content.len()
                    )),
                    SendError::Full => self.explain(
                        "too many messages are waiting for the server: send it again later",
                    ),
                    // The last event has the reason.
                    SendError::Stopped => CONTINUE,
                    error => self.explain(&error.to_string()),
                }
            }
            Done::Requested(response) => {
                progress.is_creating_chat = false;
                match response {
                    Ok(response) => self.on_response(response),
                    Err(error) => self.explain(&super::view::printable(&error.to_string())),
                }
            }
            Done::Listed(response) => {
                progress.is_listing = false;
                self.on_listed(response, progress)
            }
        }
    }

    fn on_listed(
        &mut self,
        response: Result<Response, RestError>,
        progress: &mut Progress,
    ) -> Flow {
        match response {
            Ok(Response::Chats(chats)) => self.chat_list.replace(&chats),
            Ok(_) => return CONTINUE,
            Err(error) => {
                let sentence = format!("reading your chats failed: {error}");
                self.screen.info(Clock::system().wall(), &sentence)?;
                return CONTINUE;
            }
        }
        if std::mem::replace(&mut progress.has_shown_hint, true) {
            return CONTINUE;
        }
        let sentence = match self.chat_list.first() {
            (0, _) | (_, None) => "you have no chats yet: /new NAME USER… creates a group, \
                                   /direct USER opens a direct chat, /help lists all commands"
                .to_owned(),
            (1, Some(chat_id)) => {
                self.chat_list.set_current(chat_id);
                format!("you are in {}: type a message to send it", self.chat_list.label(chat_id))
            }
            (count, Some(_)) => {
                format!("you have {count} chats: /chats lists them, /join CHAT opens one")
            }
        };
        self.screen.info(Clock::system().wall(), &sentence)?;
        CONTINUE
    }

    fn on_response(&mut self, response: Response) -> Flow {
        match response {
            Response::Chats(chats) => return self.show_chats(&chats),
            Response::Created(chat) | Response::Joined(chat) => {
                self.chat_list.update(&chat);
                self.chat_list.set_current(chat.chat_id);
                let label = self.chat_list.label_of(&chat);
                let messages = match chat.head_sequence {
                    0 => "no messages yet".to_owned(),
                    head => format!("{}; /history shows the last ones", count(head, "message")),
                };
                self.screen
                    .info(Clock::system().wall(), &format!("you are in {label}: {messages}"))?;
            }
            Response::Members(chat) => {
                self.chat_list.update(&chat);
                let label = self.chat_list.label_of(&chat);
                self.screen.write(&self.screen.view.members(&label, &chat))?;
            }
            Response::History { messages, .. } if messages.is_empty() => {
                self.screen.print("this chat has no messages yet")?;
            }
            Response::History { chat_id, messages } => {
                for message in messages {
                    let own = Some(&message.sender_id) == self.chat_list.me.as_ref();
                    self.show_message(&message, own, Some(chat_id))?;
                }
            }
            Response::Changed(chat) => self.show_changes(&chat)?,
            Response::Left(chat_id) => self.show_leaving(chat_id)?,
            Response::Visibility(visibility) => {
                self.screen.print(presence::visibility(visibility))?
            }
            Response::ContactAdded(user_id) => {
                let sentence = format!(
                    "{user_id} is added; you are contacts once {user_id} has added you too"
                );
                self.screen.print(&sentence)?;
            }
            Response::ContactRemoved(user_id) => {
                self.screen.print(&format!("{user_id} is removed from your contacts"))?;
            }
        }
        CONTINUE
    }

    // === events ===

    /// Handles an event of a chat.
    pub(super) fn on_chat(&mut self, event: ChatEvent, progress: &mut Progress) -> Flow {
        match event {
            ChatEvent::Connection(_) | ChatEvent::Synced => {}
            ChatEvent::Message { message, own } => {
                self.pending.answered(&message.client_message_id);
                self.show_message(&message, own, self.chat_list.current())?;
            }
            ChatEvent::Sent { ack } => _ = self.pending.answered(&ack.client_message_id),
            ChatEvent::Rejected { chat_id, client_message_id, error } => {
                let draft = self.pending.answered(&client_message_id);
                let content = draft.as_ref().map(|draft| draft.content.as_str());
                let label = self.chat_list.label(chat_id);
                let line =
                    self.screen.view.rejected(Clock::system().wall(), content, &label, &error);
                self.screen.write(&line)?;
            }
            ChatEvent::ChatChanged { chat_id, chat: None, .. } => self.show_leaving(chat_id)?,
            ChatEvent::ChatChanged { chat: Some(chat), .. } => {
                if self.chat_list.chat(chat.chat_id).is_some() || progress.is_creating_chat {
                    self.show_changes(&chat)?;
                } else {
                    self.show_new_chat(&chat)?;
                }
            }
            ChatEvent::Typing { chat_id, user_id, is_typing: true } => {
                let label = self.chat_list.label(chat_id);
                self.screen
                    .info(Clock::system().wall(), &format!("{user_id} is typing in {label}"))?;
            }
            ChatEvent::Typing { .. } => {}
            ChatEvent::Presence(presence) => {
                let line = self.screen.view.presence(Clock::system().wall(), &presence);
                self.screen.write(&line)?;
            }
            ChatEvent::SubscriptionRejected { user_ids, error } => {
                let users = presence::listed(&user_ids);
                let line = self.screen.view.error(
                    Clock::system().wall(),
                    &format!("watching {users} failed: {}", error.message),
                );
                self.screen.write(&line)?;
            }
            ChatEvent::Outgoing { text } => self.screen.sent(Clock::system().wall(), &text)?,
        }
        CONTINUE
    }

    /// Shows the messages that have waited for an answer for some time.
    pub(super) fn show_waiting(&mut self) -> Flow {
        for draft in self.pending.take_due(Clock::system().now()) {
            let place = self.place(draft.chat_id, self.chat_list.current());
            let me = self.chat_list.me.as_ref();
            let line =
                self.screen.view.waiting(Clock::system().wall(), &draft, me, place.as_deref());
            self.screen.write(&line)?;
        }
        CONTINUE
    }

    fn show_message(
        &mut self,
        message: &Message,
        own: bool,
        here: Option<ChatId>,
    ) -> std::io::Result<()> {
        let place = self.place(message.chat_id, here);
        let shown = ShownMessage { message, own, place: place.as_deref() };
        let line = self.screen.view.message(Clock::system().wall(), shown);
        self.screen.write(&line)
    }

    /// The name of a chat, unless it is the chat `here`.
    fn place(&self, chat_id: ChatId, here: Option<ChatId>) -> Option<String> {
        (here != Some(chat_id)).then(|| self.chat_list.label(chat_id))
    }

    fn show_chats(&mut self, chats: &[ListedChat]) -> Flow {
        self.chat_list.replace(chats);
        if chats.is_empty() {
            return self.explain(NO_CHAT);
        }
        for (index, listed) in chats.iter().enumerate() {
            let is_current = self.chat_list.current() == Some(listed.chat.chat_id);
            let label = self.chat_list.label_of(&listed.chat);
            let line = self.screen.view.listed(index + 1, is_current, &label, listed);
            self.screen.write(&line)?;
        }
        CONTINUE
    }

    fn show_changes(&mut self, chat: &Chat) -> std::io::Result<()> {
        for sentence in self.chat_list.update(chat) {
            self.screen.info(Clock::system().wall(), &sentence)?;
        }
        Ok(())
    }

    fn show_new_chat(&mut self, chat: &Chat) -> std::io::Result<()> {
        self.chat_list.update(chat);
        let label = self.chat_list.label_of(chat);
        let hint = match self.chat_list.current() {
            Some(_) => format!("/join {label} opens it"),
            None => {
                self.chat_list.set_current(chat.chat_id);
                "type a message to send it".to_owned()
            }
        };
        let sentence = match chat.kind {
            ChatKind::Direct => format!("new direct chat with {label}: {hint}"),
            ChatKind::Group => {
                let members = count(chat.members.len() as u64, "member");
                format!("you are now a member of {label} ({members}): {hint}")
            }
        };
        self.screen.info(Clock::system().wall(), &sentence)
    }

    fn show_leaving(&mut self, chat_id: ChatId) -> std::io::Result<()> {
        match self.chat_list.remove(chat_id) {
            Some(label) => {
                let sentence = format!("you are no longer a member of {label}");
                self.screen.info(Clock::system().wall(), &sentence)
            }
            None => Ok(()),
        }
    }
}
