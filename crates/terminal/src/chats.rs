//! What the terminal does about chats: commands, what was said, and what changed.

use std::io::Write;
use std::time::Duration;

use futures_util::Stream;
use heartline_client::{ChatEvent, Draft, SendError, WatchError};
use heartline_protocol::limits::CONTENT_BYTES_MAX;
use heartline_protocol::rest::{CreateChat, ListedChat};
use heartline_protocol::server_frame::{Chat, ChatKind, Message, Role};
use heartline_protocol::{ChatId, UserId};
use heartline_runtime::Clock;
use tokio::io::AsyncRead;

use super::book::{Found, role_name};
use super::line::Line;
use super::request::{Answer, Desk, Request};
use super::rest::RestError;
use super::terminal::{Done, Flow, GO_ON, Progress, Terminal};
use super::view::people;
use super::view::speech::{Said, counted};

/// How long an answer may take before its message is shown as waiting.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// What to do without a chat.
const NO_CHAT: &str = "you are in no chat: /join goes to one of /chats, /new NAME USER… makes a \
                       group, /direct USER talks with one user";

impl<R, S, O, E> Terminal<R, S, O, E>
where
    R: AsyncRead + Unpin,
    S: Stream + Unpin,
    O: Write,
    E: Write,
{
    // === what was typed ===

    /// A command about chats.
    pub(super) fn on_chat_line(&mut self, line: Line, progress: &mut Progress) -> Flow {
        let request = match line {
            Line::New { name, member_ids } => {
                let (kind, name) = (ChatKind::Group, Some(name));
                Request::Make(CreateChat { kind, name, member_ids })
            }
            Line::Direct(user_id) => {
                let (kind, name, member_ids) = (ChatKind::Direct, None, vec![user_id]);
                Request::Make(CreateChat { kind, name, member_ids })
            }
            Line::Watch(user_ids) => return self.watch(user_ids, progress),
            Line::Unwatch(user_id) => return self.unwatch(user_id, progress),
            Line::Visibility(visibility) => Request::Show(visibility),
            Line::Contact(user_id) => Request::Befriend(user_id),
            Line::Uncontact(user_id) => Request::Unfriend(user_id),
            Line::Chats => Request::Chats,
            Line::Join(text) => match self.book.find(&text) {
                Found::Known(chat_id) | Found::Unlisted(chat_id) => Request::Join(chat_id),
                Found::Unclear(sentence) => return self.explain(&sentence),
            },
            line => match self.book.current() {
                Some(chat_id) => return self.on_line_in(chat_id, line, progress),
                None => return self.explain(NO_CHAT),
            },
        };
        self.ask(request, progress)
    }

    /// A command about the chat that one is in.
    fn on_line_in(&mut self, chat_id: ChatId, line: Line, progress: &mut Progress) -> Flow {
        let request = match line {
            Line::Say(text) => return self.speak(chat_id, text, progress),
            Line::Typing => return self.typing(chat_id, progress),
            Line::Add { user_id, role } => {
                let known = self.book.role(chat_id, &user_id);
                if let Some(known) = known.filter(|known| role.is_none_or(|role| role == *known)) {
                    return self.is_already(&user_id, known);
                }
                Request::Add { chat_id, user_id, role }
            }
            Line::Remove(user_id) if Some(&user_id) == self.book.me.as_ref() => {
                return self.explain("that is you: /leave leaves the chat");
            }
            Line::Remove(user_id) => Request::Remove { chat_id, user_id },
            Line::Rename(name) => Request::Rename { chat_id, name },
            Line::History(count) => Request::History { chat_id, count },
            Line::Who => Request::Who(chat_id),
            Line::Leave => Request::Leave(chat_id),
            _ => return GO_ON,
        };
        self.ask(request, progress)
    }

    fn speak(&mut self, chat_id: ChatId, text: String, progress: &mut Progress) -> Flow {
        let draft = Draft::new(chat_id, text);
        let patience = if progress.is_connected { ANSWER_PATIENCE } else { Duration::ZERO };
        self.pending.push(draft.clone(), Clock::system().now() + patience);
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let taken = sender.send_draft(draft.clone()).await;
            Done::Taken(draft, taken)
        }));
        GO_ON
    }

    fn typing(&mut self, chat_id: ChatId, progress: &mut Progress) -> Flow {
        if !progress.is_connected {
            return self.explain("there is no connection at the moment, so nobody would see it");
        }
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.typing(chat_id, true).await;
            Done::Passed
        }));
        GO_ON
    }

    fn watch(&mut self, user_ids: Vec<UserId>, progress: &mut Progress) -> Flow {
        let sender = self.client.sender();
        progress.work =
            Some(Box::pin(async move { Done::Watched(sender.presence_subscribe(user_ids).await) }));
        GO_ON
    }

    fn unwatch(&mut self, user_id: UserId, progress: &mut Progress) -> Flow {
        let sender = self.client.sender();
        progress.work = Some(Box::pin(async move {
            let _ = sender.presence_unsubscribe(vec![user_id]).await;
            Done::Passed
        }));
        GO_ON
    }

    fn is_already(&mut self, user_id: &UserId, role: Role) -> Flow {
        let (article, role) = role_name(role);
        self.explain(&format!("{user_id} is {article} {role} already"))
    }

    fn ask(&mut self, request: Request, progress: &mut Progress) -> Flow {
        progress.is_making = matches!(request, Request::Make(_));
        match self.desk(progress) {
            Ok(desk) => {
                let asking = async move { Done::Answered(desk.ask(request).await) };
                progress.work = Some(Box::pin(asking));
                GO_ON
            }
            Err(why) => self.explain(&why),
        }
    }

    /// Reads the chats anew.
    pub(super) fn list(&mut self, progress: &mut Progress) {
        progress.wants_list = false;
        // Without a token the connection itself has its say.
        if let Ok(desk) = self.desk(progress) {
            progress.is_listing = true;
            let listing = async move { Done::Listed(desk.ask(Request::Chats).await) };
            progress.work = Some(Box::pin(listing));
        }
    }

    fn desk(&self, progress: &Progress) -> Result<Desk, String> {
        let token = self.tokens.now()?;
        Ok(Desk { rest: self.rest.clone(), base: progress.base.clone(), token })
    }

    // === what came of it ===

    /// The work for a line is done.
    pub(super) fn on_done(&mut self, done: Done, progress: &mut Progress) -> Flow {
        match done {
            Done::Passed | Done::Taken(_, Ok(())) | Done::Watched(Ok(())) => GO_ON,
            // The last event says why.
            Done::Watched(Err(WatchError::Stopped)) => GO_ON,
            Done::Watched(Err(error @ WatchError::TooMany)) => {
                self.explain(&format!("{error}: /unwatch USER makes room"))
            }
            Done::Taken(draft, Err(error)) => {
                self.pending.answered(&draft.client_message_id);
                match error {
                    SendError::InvalidContent => self.explain(&format!(
                        "a message has at most {CONTENT_BYTES_MAX} bytes, and this one has {}: \
                         say it in parts",
                        draft.content.len()
                    )),
                    SendError::Full => self.explain(
                        "too many messages wait for the server: say it again when some are sent",
                    ),
                    // The last event says why.
                    SendError::Stopped => GO_ON,
                    error => self.explain(&error.to_string()),
                }
            }
            Done::Answered(answer) => {
                progress.is_making = false;
                match answer {
                    Ok(answer) => self.on_answer(answer),
                    Err(error) => self.explain(&super::view::printable(&error.to_string())),
                }
            }
            Done::Listed(answer) => {
                progress.is_listing = false;
                self.on_listed(answer, progress)
            }
        }
    }

    fn on_listed(&mut self, answer: Result<Answer, RestError>, progress: &mut Progress) -> Flow {
        match answer {
            Ok(Answer::Chats(chats)) => self.book.replace(&chats),
            Ok(_) => return GO_ON,
            Err(error) => {
                let sentence = format!("the chats cannot be read at the moment: {error}");
                self.screen.state(Clock::system().wall(), &sentence)?;
                return GO_ON;
            }
        }
        if std::mem::replace(&mut progress.has_greeted, true) {
            return GO_ON;
        }
        let sentence = match self.book.first() {
            (0, _) | (_, None) => "you have no chats yet: /new NAME USER… makes a group, /direct \
                                   USER talks with one user, /help shows the rest"
                .to_owned(),
            (1, Some(chat_id)) => {
                self.book.enter(chat_id);
                format!("you are in {}: what you type is said there", self.book.label(chat_id))
            }
            (count, Some(_)) => {
                format!("you have {count} chats: /chats lists them, /join goes to one")
            }
        };
        self.screen.state(Clock::system().wall(), &sentence)?;
        GO_ON
    }

    fn on_answer(&mut self, answer: Answer) -> Flow {
        match answer {
            Answer::Chats(chats) => return self.show_chats(&chats),
            Answer::Made(chat) | Answer::Joined(chat) => {
                self.book.learn(&chat);
                self.book.enter(chat.chat_id);
                let label = self.book.label_of(&chat);
                let messages = match chat.head_sequence {
                    0 => "nothing was said yet".to_owned(),
                    head => format!("{}; /history shows the last", counted(head, "message")),
                };
                self.screen
                    .state(Clock::system().wall(), &format!("you are in {label}: {messages}"))?;
            }
            Answer::Who(chat) => {
                self.book.learn(&chat);
                let label = self.book.label_of(&chat);
                self.screen.show(&self.screen.view.members(&label, &chat))?;
            }
            Answer::History { messages, .. } if messages.is_empty() => {
                self.screen.say("nothing was said here yet")?;
            }
            Answer::History { chat_id, messages } => {
                for message in messages {
                    let own = Some(&message.sender_id) == self.book.me.as_ref();
                    self.show_message(&message, own, Some(chat_id))?;
                }
            }
            Answer::Changed(chat) => self.show_changes(&chat)?,
            Answer::Left(chat_id) => self.show_leaving(chat_id)?,
            Answer::Shown(visibility) => self.screen.say(people::visibility(visibility))?,
            Answer::Befriended(user_id) => {
                let other =
                    format!("{user_id} is your contact, and you are theirs when they say so");
                self.screen.say(&other)?;
            }
            Answer::Unfriended(user_id) => {
                self.screen.say(&format!("{user_id} is no contact of yours"))?;
            }
        }
        GO_ON
    }

    // === what happens ===

    /// Something happened in a chat.
    pub(super) fn on_chat(&mut self, event: ChatEvent, progress: &mut Progress) -> Flow {
        match event {
            ChatEvent::Connection(_) | ChatEvent::Synced => {}
            ChatEvent::Message { message, own } => {
                self.pending.answered(&message.client_message_id);
                self.show_message(&message, own, self.book.current())?;
            }
            ChatEvent::Sent { ack } => _ = self.pending.answered(&ack.client_message_id),
            ChatEvent::Refused { chat_id, client_message_id, error } => {
                let draft = self.pending.answered(&client_message_id);
                let content = draft.as_ref().map(|draft| draft.content.as_str());
                let label = self.book.label(chat_id);
                let line =
                    self.screen.view.refused(Clock::system().wall(), content, &label, &error);
                self.screen.show(&line)?;
            }
            ChatEvent::ChatChanged { chat_id, chat: None, .. } => self.show_leaving(chat_id)?,
            ChatEvent::ChatChanged { chat: Some(chat), .. } => {
                if self.book.chat(chat.chat_id).is_some() || progress.is_making {
                    self.show_changes(&chat)?;
                } else {
                    self.show_new_chat(&chat)?;
                }
            }
            ChatEvent::Typing { chat_id, user_id, is_typing: true } => {
                let label = self.book.label(chat_id);
                self.screen
                    .state(Clock::system().wall(), &format!("{user_id} is typing in {label}"))?;
            }
            ChatEvent::Typing { .. } => {}
            ChatEvent::Presence(presence) => {
                let line = self.screen.view.presence(Clock::system().wall(), &presence);
                self.screen.show(&line)?;
            }
            ChatEvent::WatchRefused { user_ids, error } => {
                let (who, why) = (people::listed(&user_ids), &error.message);
                let line =
                    self.screen.view.trouble(Clock::system().wall(), &format!("{who}: {why}"));
                self.screen.show(&line)?;
            }
            ChatEvent::Outgoing { text } => self.screen.sent(Clock::system().wall(), &text)?,
        }
        GO_ON
    }

    /// Shows the messages whose answers take long.
    pub(super) fn show_waiting(&mut self) -> Flow {
        for draft in self.pending.take_due(Clock::system().now()) {
            let place = self.place(draft.chat_id, self.book.current());
            let me = self.book.me.as_ref();
            let line =
                self.screen.view.waiting(Clock::system().wall(), &draft, me, place.as_deref());
            self.screen.show(&line)?;
        }
        GO_ON
    }

    fn show_message(
        &mut self,
        message: &Message,
        own: bool,
        here: Option<ChatId>,
    ) -> std::io::Result<()> {
        let place = self.place(message.chat_id, here);
        let said = Said { message, own, place: place.as_deref() };
        let line = self.screen.view.said(Clock::system().wall(), said);
        self.screen.show(&line)
    }

    /// The name of a chat that is not the one here.
    fn place(&self, chat_id: ChatId, here: Option<ChatId>) -> Option<String> {
        (here != Some(chat_id)).then(|| self.book.label(chat_id))
    }

    fn show_chats(&mut self, chats: &[ListedChat]) -> Flow {
        self.book.replace(chats);
        if chats.is_empty() {
            return self.explain(NO_CHAT);
        }
        for (index, listed) in chats.iter().enumerate() {
            let is_current = self.book.current() == Some(listed.chat.chat_id);
            let label = self.book.label_of(&listed.chat);
            let line = self.screen.view.listed(index + 1, is_current, &label, listed);
            self.screen.show(&line)?;
        }
        GO_ON
    }

    fn show_changes(&mut self, chat: &Chat) -> std::io::Result<()> {
        for sentence in self.book.learn(chat) {
            self.screen.state(Clock::system().wall(), &sentence)?;
        }
        Ok(())
    }

    fn show_new_chat(&mut self, chat: &Chat) -> std::io::Result<()> {
        self.book.learn(chat);
        let label = self.book.label_of(chat);
        let what_now = match self.book.current() {
            Some(_) => format!("/join {label} goes there"),
            None => {
                self.book.enter(chat.chat_id);
                "what you type is said there".to_owned()
            }
        };
        let sentence = match chat.kind {
            ChatKind::Direct => format!("{label} wants to talk with you: {what_now}"),
            ChatKind::Group => {
                let members = counted(chat.members.len() as u64, "member");
                format!("you are now in {label} ({members}): {what_now}")
            }
        };
        self.screen.state(Clock::system().wall(), &sentence)
    }

    fn show_leaving(&mut self, chat_id: ChatId) -> std::io::Result<()> {
        match self.book.forget(chat_id) {
            Some(label) => {
                let sentence = format!("you are no longer in {label}");
                self.screen.state(Clock::system().wall(), &sentence)
            }
            None => Ok(()),
        }
    }
}
