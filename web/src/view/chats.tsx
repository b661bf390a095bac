/** The chats: the list, and the conversation that is open. */
import { useRef } from "preact/hooks";
import { useObservable } from "../model/observable.js";
import type { Route } from "../model/route.js";
import type { Session } from "../model/session.js";
import { ChatList } from "./chat_list.js";
import { ConversationView } from "./conversation.js";
import { Icon } from "./icon.js";
import { NewChat } from "./new_chat.js";

/** The chats. On a narrow screen either the list or the conversation is shown. */
export function ChatsView({ session, route }: { session: Session; route: Route }) {
  const chats = useObservable(session.chats);
  const dialog = useRef<HTMLDialogElement>(null);
  const entry = route.subject === undefined ? undefined : chats.get(route.subject);
  const create = () => dialog.current?.showModal();
  return (
    <div class="chats">
      <h1 class="hidden">Chats</h1>
      <section class="chat-list" aria-label="All chats">
        <div class="bar">
          <p class="title" aria-hidden="true">
            Chats
          </p>
          <button type="button" class="primary small" onClick={create}>
            <Icon name="plus" />
            New chat
          </button>
        </div>
        <ChatList session={session} open={route.subject} onCreate={create} />
      </section>
      {entry === undefined ? (
        <NothingOpen session={session} subject={route.subject} />
      ) : (
        <ConversationView key={entry.chat.chat_id} session={session} entry={entry} route={route} />
      )}
      <NewChat
        session={session}
        dialog={dialog}
        onCreated={(chat_id) => route.open("chats", chat_id)}
      />
    </div>
  );
}

function NothingOpen({ session, subject }: { session: Session; subject: string | undefined }) {
  const isMissing = subject !== undefined && session.chats.isLoaded;
  return (
    <section class="conversation empty" aria-label="Conversation">
      <div class="hint">
        <Icon name="chats" />
        <p>
          {isMissing ? "You are not in this chat, or no longer." : "Choose a chat, or begin one."}
        </p>
      </div>
    </section>
  );
}
