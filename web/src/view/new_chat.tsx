/** The dialog that creates a chat: direct, or a group with a name. */
import type { RefObject } from "preact";
import { useState } from "preact/hooks";
import { errorText } from "../model/chats.js";
import type { Session } from "../model/session.js";
import { sentence } from "./sentence.js";

interface NewChatProps {
  session: Session;
  dialog: RefObject<HTMLDialogElement | null>;
  onCreated: (chat_id: string) => void;
}

/** The dialog. */
export function NewChat({ session, dialog, onCreated }: NewChatProps) {
  const [people, setPeople] = useState("");
  const [name, setName] = useState("");
  const [error, setError] = useState<string>();
  const member_ids = people
    .split(",")
    .map((id) => id.trim())
    .filter((id) => id !== "");
  const create = async (event: Event) => {
    event.preventDefault();
    try {
      const given = name.trim();
      const chat_id = await session.chats.create(member_ids, given === "" ? undefined : given);
      setPeople("");
      setName("");
      setError(undefined);
      dialog.current?.close();
      onCreated(chat_id);
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="new-chat-title">
      <form onSubmit={(event) => void create(event)}>
        <h2 id="new-chat-title">New chat</h2>
        <label class="field">
          <span>Members, separated by commas</span>
          <input
            name="people"
            value={people}
            onInput={(event) => setPeople(event.currentTarget.value)}
            placeholder="bo, cy"
            autocapitalize="none"
            spellcheck={false}
            required
          />
          <small>
            One name makes a direct chat, several make a group. Users need not exist yet.
          </small>
        </label>
        <label class="field">
          <span>Name of the group</span>
          <input
            name="name"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            placeholder="optional"
          />
        </label>
        {error !== undefined && (
          <p class="error" role="alert">
            {sentence(error)}
          </p>
        )}
        <div class="actions">
          <button type="button" onClick={() => dialog.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={member_ids.length === 0}>
            Create
          </button>
        </div>
      </form>
    </dialog>
  );
}
