/** The list of chats, with presence, last message and unread count. */
import type { ChatEntry } from "../model/chats.js";
import { useObservable } from "../model/observable.js";
import { linkTo } from "../model/route.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { PresenceMark } from "./presence_mark.js";
import { sentence } from "./sentence.js";
import { clock } from "./time.js";
import { typingText } from "./typing_text.js";

/** The properties of the list. */
interface ChatListProps {
  session: Session;
  open: string | undefined;
}

/** The list. */
export function ChatList({ session, open }: ChatListProps) {
  const chats = useObservable(session.chats);
  const { list } = chats;
  if (list.length === 0) return <NoChats session={session} />;
  return (
    <ul class="rows">
      {list.map((entry) => (
        <li key={entry.chat.chat_id}>
          <ChatRow session={session} entry={entry} isOpen={entry.chat.chat_id === open} />
        </li>
      ))}
    </ul>
  );
}

function NoChats({ session }: { session: Session }) {
  const { chats } = session;
  const link = useObservable(session.link);
  if (!chats.isLoaded && link.isStopped) return <p class="note error">{sentence(link.text)}</p>;
  if (chats.error !== undefined) return <p class="note error">{sentence(chats.error)}</p>;
  return <p class="note">{chats.isLoaded ? "No chats yet." : "Loading your chats…"}</p>;
}

interface ChatRowProps {
  session: Session;
  entry: ChatEntry;
  isOpen: boolean;
}

function ChatRow({ session, entry, isOpen }: ChatRowProps) {
  const { chats, identity } = session;
  const people = useObservable(session.people);
  const { chat, last } = entry;
  const title = chats.title(chat);
  const peer = chats.peer(chat);
  const typing = chats.typing(chat.chat_id);
  const unread = chats.unread(entry);
  const said =
    last === undefined ? "" : `${whoSaid(last.sender_id, identity.user_id, peer)}${last.content}`;
  return (
    <a class="row" href={linkTo("chats", chat.chat_id)} aria-current={isOpen ? "true" : undefined}>
      <span class="face">
        <Avatar name={title} />
        {peer !== undefined && <PresenceMark presence={people.presence(peer)} />}
      </span>
      <span class="row-text">
        <span class="row-title">{title}</span>
        <span class="row-last">
          {typing.length > 0 ? typingText(typing) : said}
        </span>
      </span>
      <span class="row-end">
        {last !== undefined && <time dateTime={last.created_at}>{clock(last.created_at)}</time>}
        {unread > 0 && (
          <span class="badge">
            {unread > 99 ? "99+" : unread}
            <span class="hidden"> unread</span>
          </span>
        )}
      </span>
    </a>
  );
}

function whoSaid(sender_id: string, user_id: string, peer: string | undefined): string {
  if (sender_id === user_id) return "You: ";
  return sender_id === peer ? "" : `${sender_id}: `;
}
