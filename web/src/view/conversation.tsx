/** One conversation: members, messages and the input field. */
import { useEffect, useState } from "preact/hooks";
import type { ChatEntry } from "../model/chats.js";
import { useObservable } from "../model/observable.js";
import type { Route } from "../model/route.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { Composer } from "./composer.js";
import { Icon } from "./icon.js";
import { Members } from "./members.js";
import { MessageList } from "./message_list.js";
import { PresenceMark, presenceText } from "./presence_mark.js";
import { typingText } from "./typing_text.js";

/** The properties of a conversation. */
interface ConversationProps {
  session: Session;
  entry: ChatEntry;
  route: Route;
}

/** A conversation. */
export function ConversationView({ session, entry, route }: ConversationProps) {
  const { chats } = session;
  const { chat_id } = entry.chat;
  const conversation = useObservable(chats.conversation(chat_id));
  const [areMembersShown, setMembersShown] = useState(false);
  useEffect(() => conversation.show(), [conversation]);
  useEffect(() => {
    const seen = () => {
      if (document.visibilityState === "visible") chats.markRead(chat_id);
    };
    seen();
    document.addEventListener("visibilitychange", seen);
    return () => document.removeEventListener("visibilitychange", seen);
  }, [chats, chat_id, entry.chat.head_sequence]);
  const typing = chats.typing(chat_id);
  const title = chats.title(entry.chat);
  return (
    <section
      class="conversation"
      aria-labelledby="conversation-title"
      data-members={areMembersShown}
    >
      <div class="bar">
        <button
          type="button"
          class="round back"
          aria-label="Back to the chats"
          onClick={() => route.open("chats")}
        >
          <Icon name="back" />
        </button>
        <Avatar name={title} />
        <div class="conversation-head">
          <h2 id="conversation-title">{title}</h2>
          <Subtitle session={session} entry={entry} />
        </div>
        <button
          type="button"
          class="round"
          aria-label="Members"
          title="Members"
          aria-expanded={areMembersShown}
          onClick={() => setMembersShown(!areMembersShown)}
        >
          <Icon name="people" />
        </button>
      </div>
      <div class="conversation-body">
        <div class="conversation-main">
          <MessageList session={session} conversation={conversation} chat={entry.chat} />
          <p class="typing" aria-live="polite">
            {typing.length > 0 && typingText(typing)}
          </p>
          <Away session={session} />
          <Composer conversation={conversation} title={title} />
        </div>
        {areMembersShown && <Members session={session} entry={entry} />}
      </div>
    </section>
  );
}

/** A notice: messages can be written without a connection. */
function Away({ session }: { session: Session }) {
  const { isAway } = useObservable(session.link);
  if (!isAway) return null;
  return (
    <p class="away notice">
      Not connected. Your messages are kept here and sent when the connection is back.
    </p>
  );
}

function Subtitle({ session, entry }: { session: Session; entry: ChatEntry }) {
  const people = useObservable(session.people);
  const peer = session.chats.peer(entry.chat);
  if (peer !== undefined) {
    const presence = people.presence(peer);
    return (
      <p class="subtitle" data-testid="peer-presence">
        <PresenceMark presence={presence} />{" "}
        <span aria-hidden="true">{presenceText(presence)}</span>
      </p>
    );
  }
  const { members } = entry.chat;
  const online = members.filter((member) => people.presence(member.user_id).status === "online");
  return (
    <p class="subtitle">
      {members.length} {members.length === 1 ? "member" : "members"}, {online.length} online
    </p>
  );
}
