/** Adding a climb to the queue. */
import { useState } from "preact/hooks";
import { DIFFICULTIES, newItem, suggestion } from "../model/climbs.js";
import type { Room } from "../model/room.js";
import { Icon } from "./icon.js";

/** The form for a climb; an empty name adds a suggestion. */
export function AddClimb({ room, user_id }: { room: Room; user_id: string }) {
  const [name, setName] = useState("");
  const [difficulty, setDifficulty] = useState(DIFFICULTIES[2] ?? "");
  const add = (event: Event) => {
    event.preventDefault();
    const given = name.trim();
    setName("");
    void room.add(
      given === "" ? suggestion(room.queue, user_id) : newItem(given, difficulty, user_id),
    );
  };
  return (
    <form class="inline-form add-climb" onSubmit={add}>
      <label class="field grow">
        <span>Add a climb</span>
        <input
          value={name}
          maxLength={80}
          onInput={(event) => setName(event.currentTarget.value)}
          placeholder="leave empty for a suggestion"
        />
      </label>
      <label class="field">
        <span>Grade</span>
        <select value={difficulty} onChange={(event) => setDifficulty(event.currentTarget.value)}>
          {DIFFICULTIES.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      <button type="submit">
        <Icon name="plus" />
        Add
      </button>
    </form>
  );
}
