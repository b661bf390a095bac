/** The messages, oldest first; scrolling up loads older ones. */
import { Component } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Message } from "heartline";
import type { Chat } from "../model/chats.js";
import type { Conversation, Pending } from "../model/conversation.js";
import { useObservable } from "../model/observable.js";
import { guestLink, linkToPerson } from "../model/route.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { Icon } from "./icon.js";
import { sentence } from "./sentence.js";
import { clock, day } from "./time.js";

/** The distance from an end, in pixels, that counts as being there. */
const NEAR_PX = 120;

interface MessageListProps {
  session: Session;
  conversation: Conversation;
  chat: Chat;
}

/** The messages. */
export function MessageList({ session, conversation, chat }: MessageListProps) {
  const { messages, pending, deliveredToAll = 0 } = conversation;
  const { box, onScroll, hasNew, toEnd } = usePlace(conversation, messages, pending);
  return (
    <div
      class="messages"
      ref={box}
      onScroll={onScroll}
      role="log"
      aria-label="Messages"
      tabIndex={0}
    >
      <Beginning session={session} conversation={conversation} chat={chat} />
      {messages.map((message, index) => (
        <StoredMessage
          key={message.sequence}
          message={message}
          before={messages[index - 1]}
          isOwn={message.sender_id === session.identity.user_id}
          isGroup={chat.type === "group"}
          isDelivered={message.sequence <= deliveredToAll}
        />
      ))}
      {pending.map((one) => (
        <PendingMessage key={one.client_message_id} conversation={conversation} pending={one} />
      ))}
      {hasNew && (
        <button type="button" class="small primary to-end" onClick={toEnd}>
          <Icon name="down" />
          New messages
        </button>
      )}
    </div>
  );
}

/**
 * Keeps the scroll position: at the end, new messages scroll into view; elsewhere the position
 * stays and a button announces new messages.
 */
function usePlace(conversation: Conversation, messages: Message[], pending: readonly Pending[]) {
  const box = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, height: 0, first: 0, last: 0, pending: 0 });
  const [hasNew, setHasNew] = useState(false);
  const [first, last] = [messages[0]?.sequence ?? 0, messages.at(-1)?.sequence ?? 0];
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const before = place.current;
    // Scroll to the user's own new message.
    const isAtEnd = before.isAtEnd || pending.length > before.pending;
    if (isAtEnd) element.scrollTop = element.scrollHeight;
    // Older messages are inserted above; keep the visible ones in place.
    else if (first < before.first) element.scrollTop += element.scrollHeight - before.height;
    else if (last > before.last) setHasNew(true);
    const height = element.scrollHeight;
    place.current = { isAtEnd, height, first, last, pending: pending.length };
  }, [messages.length, pending.length, first]);
  const onScroll = () => {
    const element = box.current;
    if (element === null) return;
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    place.current.isAtEnd = below < NEAR_PX;
    if (place.current.isAtEnd) setHasNew(false);
    if (element.scrollTop < NEAR_PX) void conversation.older();
  };
  const toEnd = () => box.current?.scrollTo({ top: box.current.scrollHeight });
  return { box, onScroll, hasNew, toEnd };
}

function Beginning({ session, conversation, chat }: MessageListProps) {
  const { error } = conversation;
  if (error !== undefined) return <p class="note error">{sentence(error)}</p>;
  if (!conversation.isLoaded) return <p class="note">Loading messages…</p>;
  if (conversation.hasOlder) {
    return (
      <button type="button" class="quiet older" onClick={() => void conversation.older()}>
        Older messages
      </button>
    );
  }
  const isEmpty = conversation.messages.length + conversation.pending.length === 0;
  return (
    <div class="note">
      <p>{isEmpty ? "No messages yet. Write the first one." : "This is the beginning of the chat."}</p>
      <Guest session={session} chat={chat} />
    </div>
  );
}

/** On a development server, a link to answer as the absent user. */
function Guest({ session, chat }: { session: Session; chat: Chat }) {
  const people = useObservable(session.people);
  const { user_id, isDevelopment } = session.identity;
  const peer = session.chats.peer(chat);
  const isAway = peer !== undefined && people.presence(peer).status !== "online";
  if (!isDevelopment || !isAway) return null;
  return (
    <p>
      <a href={guestLink(peer, linkToPerson(user_id))} target="_blank" rel="noopener">
        Answer as {peer}
      </a>{" "}
      in a second tab.
    </p>
  );
}

interface StoredMessageProps {
  message: Message;
  before: Message | undefined;
  isOwn: boolean;
  isGroup: boolean;
  isDelivered: boolean;
}

/** A stored message. It renders only when its properties change, because a chat has hundreds. */
class StoredMessage extends Component<StoredMessageProps> {
  override shouldComponentUpdate(next: StoredMessageProps): boolean {
    const names = Object.keys(next) as (keyof StoredMessageProps)[];
    return names.some((name) => next[name] !== this.props[name]);
  }

  override render() {
    return <MessageBubble {...this.props} />;
  }
}

function MessageBubble({ message, before, isOwn, isGroup, isDelivered }: StoredMessageProps) {
  const isNewDay = before === undefined || day(before.created_at) !== day(message.created_at);
  const isFirst = isNewDay || before?.sender_id !== message.sender_id;
  return (
    <>
      {isNewDay && <p class="day">{day(message.created_at)}</p>}
      <div class="message" data-own={isOwn} data-first={isFirst} data-sequence={message.sequence}>
        {isGroup &&
          !isOwn &&
          (isFirst ? <Avatar name={message.sender_id} /> : <span class="no-face" />)}
        <div class="bubble">
          {isGroup && !isOwn && isFirst && <p class="sender">{message.sender_id}</p>}
          <p class="content">{message.content === "" ? <i>deleted</i> : message.content}</p>
          <p class="meta">
            <span title={`Sequence ${message.sequence} in this chat`}>#{message.sequence}</span>
            <time dateTime={message.created_at}>{clock(message.created_at)}</time>
            {isOwn && <Tick state={isDelivered ? "delivered" : "stored"} />}
          </p>
        </div>
      </div>
    </>
  );
}

interface PendingMessageProps {
  conversation: Conversation;
  pending: Pending;
}

function PendingMessage({ conversation, pending }: PendingMessageProps) {
  return (
    <div class="message" data-own="true" data-first="true" data-pending="true">
      <div class="bubble">
        <p class="content">{pending.content}</p>
        <p class="meta">
          {pending.refusal === undefined ? (
            <Tick state="sending" />
          ) : (
            <>
              <span class="error" role="alert">
                Not sent: {pending.refusal}
              </span>
              <button
                type="button"
                class="inline"
                onClick={() => conversation.discard(pending.client_message_id)}
              >
                Discard
              </button>
            </>
          )}
        </p>
      </div>
    </div>
  );
}

const TICKS = {
  sending: ["M10 5.5v5l3 2M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "Sending"],
  stored: ["M4 10.5l4 4 8-9", "Stored"],
  delivered: ["M1.5 10.5l4 4 8-9M10 13.5l1.2 1 7.3-9", "Delivered to all members"],
} as const;

/** The state of an own message. */
function Tick({ state }: { state: keyof typeof TICKS }) {
  const [path, label] = TICKS[state];
  return (
    <svg class="tick" data-state={state} viewBox="0 0 20 20" role="img" aria-label={label}>
      <title>{label}</title>
      <path d={path} />
    </svg>
  );
}
