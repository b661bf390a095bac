/** What was said, oldest first; scrolling up brings older messages. */
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Message } from "heartline";
import type { Chat } from "../model/chats.js";
import type { Conversation, Pending } from "../model/conversation.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { clock, day } from "./time.js";

/** This close to an end counts as being there, in pixels. */
const NEAR_PX = 120;

interface MessageListProps {
  session: Session;
  conversation: Conversation;
  chat: Chat;
}

/** The messages. */
export function MessageList({ session, conversation, chat }: MessageListProps) {
  const { messages, pending } = conversation;
  const box = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, height: 0, first: 0 });
  const first = messages[0]?.sequence ?? 0;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const { isAtEnd, height, first: before } = place.current;
    if (isAtEnd) element.scrollTop = element.scrollHeight;
    // Older messages push what was being read down; it stays where it was on the screen.
    else if (first < before) element.scrollTop += element.scrollHeight - height;
    place.current = { isAtEnd, height: element.scrollHeight, first };
  }, [messages.length, pending.length, first]);
  const scrolled = () => {
    const element = box.current;
    if (element === null) return;
    const below = element.scrollHeight - element.scrollTop - element.clientHeight;
    place.current.isAtEnd = below < NEAR_PX;
    if (element.scrollTop < NEAR_PX) void conversation.older();
  };
  return (
    <div
      class="messages"
      ref={box}
      onScroll={scrolled}
      role="log"
      aria-label="Messages"
      tabIndex={0}
    >
      <Beginning conversation={conversation} />
      {messages.map((message, index) => (
        <StoredMessage
          key={message.sequence}
          message={message}
          before={messages[index - 1]}
          isOwn={message.sender_id === session.identity.user_id}
          isGroup={chat.type === "group"}
          isDelivered={message.sequence <= (conversation.deliveredToAll ?? 0)}
        />
      ))}
      {pending.map((one) => (
        <PendingMessage key={one.client_message_id} conversation={conversation} pending={one} />
      ))}
    </div>
  );
}

function Beginning({ conversation }: { conversation: Conversation }) {
  if (conversation.error !== undefined) return <p class="note error">{conversation.error}</p>;
  if (!conversation.isLoaded) return <p class="note">Looking for messages…</p>;
  if (conversation.hasOlder) {
    return (
      <button type="button" class="quiet older" onClick={() => void conversation.older()}>
        Older messages
      </button>
    );
  }
  const isEmpty = conversation.messages.length + conversation.pending.length === 0;
  return (
    <p class="note">
      {isEmpty ? "Nothing was said here yet. Say something." : "This is where it began."}
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

function StoredMessage({ message, before, isOwn, isGroup, isDelivered }: StoredMessageProps) {
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
            <span title={`Number ${message.sequence} of this chat`}>#{message.sequence}</span>
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
  sending: ["M10 5.5v5l3 2M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "Being sent"],
  stored: ["M4 10.5l4 4 8-9", "Stored for good"],
  delivered: ["M1.5 10.5l4 4 8-9M10 13.5l1.2 1 7.3-9", "Delivered to everybody"],
} as const;

/** How far an own message has come. */
function Tick({ state }: { state: keyof typeof TICKS }) {
  const [path, label] = TICKS[state];
  return (
    <svg class="tick" data-state={state} viewBox="0 0 20 20" role="img" aria-label={label}>
      <title>{label}</title>
      <path d={path} />
    </svg>
  );
}
