/** The chats: the list, and the conversation that is open. */
import { useEffect, useRef, useState } from "preact/hooks";
import { errorText } from "../model/chats.js";
import { useObservable } from "../model/observable.js";
import type { Route } from "../model/route.js";
import type { Session } from "../model/session.js";
import { ChatList } from "./chat_list.js";
import { ConversationView } from "./conversation.js";
import { Icon } from "./icon.js";
import { NewChat } from "./new_chat.js";
import { sentence } from "./sentence.js";
import { Welcome } from "./welcome.js";

/** The chats. On a narrow screen either the list or the conversation is shown. */
export function ChatsView({ session, route }: { session: Session; route: Route }) {
  const chats = useObservable(session.chats);
  const dialog = useRef<HTMLDialogElement>(null);
  const entry = route.subject === undefined ? undefined : chats.get(route.subject);
  const create = () => dialog.current?.showModal();
  const refusal = usePerson(session, route);
  const isNew = chats.isLoaded && chats.list.length === 0 && route.subject === undefined;
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
        <ChatList session={session} open={route.subject} />
      </section>
      {isNew && <Welcome session={session} route={route} onCreate={create} />}
      {!isNew && entry === undefined && (
        <NothingOpen text={refusal ?? hintOf(session, route)} isError={refusal !== undefined} />
      )}
      {entry !== undefined && (
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

/**
 * Opens the direct chat with the user whom the URL names, also after a reconnect; returns the error
 * if that fails.
 */
function usePerson({ chats, link }: Session, route: Route): string | undefined {
  const { person } = route;
  const { isAway } = useObservable(link);
  const [refusal, setRefusal] = useState<string>();
  useEffect(() => {
    setRefusal(undefined);
    if (person === undefined) return;
    let isLast = true;
    chats.create([person], undefined).then(
      (chat_id) => {
        if (route.person === person) route.replace("chats", chat_id);
      },
      (error) => {
        if (isLast) setRefusal(sentence(errorText(error)));
      },
    );
    return () => {
      isLast = false;
    };
  }, [chats, person, isAway]);
  return refusal;
}

/** The text shown without an open conversation. */
function hintOf({ chats }: Session, route: Route): string {
  if (route.person !== undefined) return `Opening the chat with ${route.person}…`;
  const isMissing = route.subject !== undefined && chats.isLoaded;
  return isMissing ? "You are not a member of this chat." : "Choose a chat, or create one.";
}

function NothingOpen({ text, isError }: { text: string; isError: boolean }) {
  return (
    <section class="conversation empty" aria-label="Conversation">
      <div class="hint">
        <Icon name="chats" />
        <p class={isError ? "error" : undefined} role={isError ? "alert" : undefined}>
          {text}
        </p>
      </div>
    </section>
  );
}
