/** Who belongs to a chat. */
import { useState } from "preact/hooks";
import type { ChatEntry } from "../model/chats.js";
import { wordsOf } from "../model/chats.js";
import { useObservable } from "../model/observable.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { PresenceMark, presenceWords } from "./presence_mark.js";
import { sentence } from "./sentence.js";

/** The members, and for a group what can be done about them. */
export function Members({ session, entry }: { session: Session; entry: ChatEntry }) {
  const people = useObservable(session.people);
  const { chat } = entry;
  return (
    <aside class="members" aria-label="Members">
      <h3>Members</h3>
      <ul class="people">
        {chat.members.map(({ user_id, role }) => (
          <li key={user_id}>
            <span class="face">
              <Avatar name={user_id} />
              <PresenceMark presence={people.presence(user_id)} />
            </span>
            <span class="row-text">
              <span class="row-title named">
                <span>{user_id}</span>
                {user_id === session.identity.user_id && <small> (you)</small>}
              </span>
              <span class="row-last">
                {role === "member" ? "" : `${role}, `}
                {presenceWords(people.presence(user_id))}
              </span>
            </span>
          </li>
        ))}
      </ul>
      {chat.type === "group" && <GroupActions session={session} chat_id={chat.chat_id} />}
    </aside>
  );
}

function GroupActions({ session, chat_id }: { session: Session; chat_id: string }) {
  const [name, setName] = useState("");
  const [error, setError] = useState<string>();
  const attempt = async (action: Promise<void>) => {
    try {
      await action;
      setError(undefined);
      setName("");
    } catch (failure) {
      setError(wordsOf(failure));
    }
  };
  const add = (event: Event) => {
    event.preventDefault();
    if (name.trim() !== "") void attempt(session.chats.addMember(chat_id, name.trim()));
  };
  return (
    <>
      <form class="inline-form" onSubmit={add}>
        <label class="field">
          <span>Add somebody</span>
          <input
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            autocapitalize="none"
          />
        </label>
        <button type="submit">Add</button>
      </form>
      <button
        type="button"
        class="quiet"
        onClick={() => void attempt(session.chats.leave(chat_id))}
      >
        Leave this chat
      </button>
      {error !== undefined && (
        <p class="error" role="alert">
          {sentence(error)}
        </p>
      )}
    </>
  );
}
