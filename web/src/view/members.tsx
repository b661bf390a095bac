/** The members of a chat. */
import { useRef, useState } from "preact/hooks";
import type { Chat, ChatEntry } from "../model/chats.js";
import { errorText } from "../model/chats.js";
import { useObservable } from "../model/observable.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { PresenceMark, presenceText } from "./presence_mark.js";
import { sentence } from "./sentence.js";

/** The members, and the actions on them in a group. */
export function Members({ session, entry }: { session: Session; entry: ChatEntry }) {
  const people = useObservable(session.people);
  const [error, setError] = useState<string>();
  const heading = useRef<HTMLHeadingElement>(null);
  const { chat } = entry;
  const attempt = async (action: Promise<void>) => {
    const failure = await action.then(() => undefined, errorText);
    setError(failure);
    return failure === undefined;
  };
  const change = async (action: Promise<void>) => {
    // The focused button may be gone.
    if (await attempt(action)) heading.current?.focus();
  };
  return (
    <aside class="members" aria-label="Members">
      <h3 ref={heading} tabIndex={-1}>
        Members
      </h3>
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
                {presenceText(people.presence(user_id))}
              </span>
              <MemberActions session={session} chat={chat} user_id={user_id} change={change} />
            </span>
          </li>
        ))}
      </ul>
      {chat.type === "group" && (
        <GroupActions session={session} chat_id={chat.chat_id} attempt={attempt} />
      )}
      {error !== undefined && (
        <p class="error" role="alert">
          {sentence(error)}
        </p>
      )}
    </aside>
  );
}

interface MemberActionsProps {
  session: Session;
  chat: Chat;
  user_id: string;
  change: (action: Promise<void>) => Promise<void>;
}

/** The user's actions on another member: all for an owner, fewer for an admin. */
function MemberActions({ session, chat, user_id, change }: MemberActionsProps) {
  const { chats, identity } = session;
  const roleOf = (id: string) => chat.members.find((member) => member.user_id === id)?.role;
  const own = roleOf(identity.user_id);
  const isOwner = own === "owner";
  const mayRemove = isOwner || (own === "admin" && roleOf(user_id) === "member");
  if (chat.type !== "group" || user_id === identity.user_id || !mayRemove) return null;
  return (
    <span class="member-actions">
      {isOwner && (
        <button
          type="button"
          class="small"
          aria-label={`Make owner: ${user_id}`}
          onClick={() => void change(chats.makeOwner(chat.chat_id, user_id))}
        >
          Make owner
        </button>
      )}
      <button
        type="button"
        class="small"
        aria-label={`Remove ${user_id}`}
        onClick={() => void change(chats.removeMember(chat.chat_id, user_id))}
      >
        Remove
      </button>
    </span>
  );
}

interface GroupActionsProps {
  session: Session;
  chat_id: string;
  attempt: (action: Promise<void>) => Promise<boolean>;
}

function GroupActions({ session, chat_id, attempt }: GroupActionsProps) {
  const [name, setName] = useState("");
  const add = async (event: Event) => {
    event.preventDefault();
    const given = name.trim();
    if (given !== "" && (await attempt(session.chats.addMember(chat_id, given)))) setName("");
  };
  return (
    <>
      <form class="inline-form" onSubmit={(event) => void add(event)}>
        <label class="field">
          <span>Add a member</span>
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
    </>
  );
}
