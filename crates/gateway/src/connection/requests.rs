//! The requests of a connection, from the frame to the response.

use std::task::{Context, Poll};

use heartline_protocol::client_frame::{Ack, Typing};
use heartline_protocol::limits::CLOSE_ANSWER_DEADLINE;
use heartline_protocol::{ServerFrame, encode_server};

use super::{Connection, Ended};
use crate::session::{Closing, Input, Request, Response};
use crate::websocket::text_frame;

impl Connection {
    /// Starts a request. A response that is ready at once is only sent, so it cannot end the
    /// connection.
    pub(super) fn request(&mut self, request: Request) {
        let requests = self.requests.get_or_insert_default();
        if let Some(answer) = requests.start(request, &self.gateway, &self.handle) {
            self.respond(answer);
        }
    }

    fn respond(&mut self, answer: Response) {
        let effects = self.input(Input::Answered(answer));
        let ended = self.perform(effects);
        debug_assert_eq!(ended, None, "a response ends nothing");
    }

    /// The next response. A page is read once the client has read most of its pending frames.
    pub(super) fn poll_response(&mut self, context: &mut Context<'_>) -> Poll<Option<Response>> {
        let Some(requests) = &mut self.requests else { return Poll::Ready(None) };
        if requests.has_read_waiting() {
            let room = self.gateway.config().limits.outbox_bytes / 4;
            if self.handle.outbox.load().bytes <= room
                && let Some(identity) = self.handle.identity()
            {
                requests.read_next(&self.gateway, &identity.key.user_id);
            }
        }
        let answer = requests.poll_response(context);
        if requests.is_empty() && requests.closing.is_none() {
            self.requests = None;
        }
        answer
    }

    /// Closes as soon as every request is answered, at the deadline at the latest. Nothing is read
    /// meanwhile.
    pub(super) fn close_when_answered(&mut self, closing: Closing) -> Option<Ended> {
        let Some(mut requests) = self.requests.take() else { return Some(self.close(closing)) };
        for answer in requests.refuse_reads() {
            self.respond(answer);
        }
        if requests.is_empty() {
            return Some(self.close(closing));
        }
        let answers_by = self.gateway.clock().now() + CLOSE_ANSWER_DEADLINE;
        requests.closing = Some(closing);
        self.requests = Some(requests);
        self.timer.as_mut().reset(answers_by);
        None
    }

    /// Waits for the last responses and writes as far as the socket accepts.
    pub(super) fn poll_last_responses(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        while let Poll::Ready(Some(answer)) = self.poll_response(context) {
            self.respond(answer);
        }
        let is_late = self.timer.as_mut().poll(context).is_ready();
        if self.poll_write(context).is_err() {
            return Poll::Ready(Ended::Lost);
        }
        let requests = self.requests.as_ref().filter(|requests| !is_late && !requests.is_empty());
        if requests.is_some() {
            return Poll::Pending;
        }
        let requests = self.requests.take().expect("the closing is stored with the requests");
        let closing = requests.closing.expect("only called while a closing is pending");
        Poll::Ready(self.close(closing))
    }

    pub(super) fn send_page(&self, frame: &ServerFrame) {
        let clock = self.gateway.clock();
        let page = text_frame(&encode_server(frame, clock.wall()));
        // `None`: the connection is closing and accepts no more data. The client syncs again.
        if let Some(pushed) = self.handle.outbox.push(&page, clock.now()) {
            self.gateway.hub().pressed(&self.handle, pushed.verdict);
        }
    }

    pub(super) fn acknowledge(&self, frame: &Ack) {
        if let Some(identity) = self.handle.identity() {
            let (user_id, sequence) = (&identity.key.user_id, frame.last_acked_sequence);
            self.gateway.durability.records.acknowledged(user_id, frame.chat_id, sequence);
        }
    }

    /// Sends a typing notice, which is dropped when there is no room for it.
    pub(super) fn send_typing(&self, frame: &Typing) {
        let Some(identity) = self.handle.identity() else { return };
        let (chat_id, user_id) = (frame.chat_id, identity.key.user_id.clone());
        self.gateway.typing.typing(chat_id, user_id, frame.is_typing);
    }
}
