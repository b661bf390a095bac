/** The party: a local queue that can be shared. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useObservable } from "../model/observable.js";
import { type Route, linkTo } from "../model/route.js";
import type { Room } from "../model/room.js";
import type { Session } from "../model/session.js";
import { AddClimb } from "./add_climb.js";
import { CurrentClimb } from "./current_climb.js";
import { Icon } from "./icon.js";
import { Queue } from "./queue.js";
import { Roster } from "./roster.js";
import { sentence } from "./sentence.js";

/** The party. A link with a session id joins the session. */
export function PartyView({ session, route }: { session: Session; route: Route }) {
  const room = useObservable(session.room);
  const { state } = room;
  useEffect(() => {
    if (route.subject !== undefined) void room.join(route.subject);
  }, [room, route.subject]);
  useEffect(() => {
    if (room.isShared && state.sessionId !== null) route.replace("party", state.sessionId);
  }, [room.isShared, state.sessionId]);
  return (
    <div class="page party">
      <div class="bar">
        <h1>Party</h1>
        <PartyStatus room={room} />
      </div>
      <Notice room={room} />
      {room.isShared ? <Share room={room} route={route} /> : <Begin room={room} route={route} />}
      <div class="columns">
        <div class="column">
          {room.isShared && <CurrentClimb room={room} />}
          <section class="card" aria-labelledby="queue-title">
            <h2 id="queue-title">Queue</h2>
            <Queue room={room} />
            <AddClimb room={room} user_id={session.identity.user_id} />
          </section>
        </div>
        {room.isShared && <Roster room={room} identity={session.identity} />}
      </div>
    </div>
  );
}

const STATUS = {
  idle: "Only you",
  joining: "Joining…",
  live: "Live",
  reconnecting: "Reconnecting…",
  ended: "Ended",
  left: "Only you",
  failed: "Rejected",
} as const;

function PartyStatus({ room }: { room: Room }) {
  const { status, pendingEdits, sequence } = room.state;
  return (
    <p class="pill" data-status={status} role="status">
      {STATUS[status]}
      {status === "live" && sequence !== null && <span class="faint"> event {sequence}</span>}
      {pendingEdits > 0 && <span class="faint"> {pendingEdits} pending</span>}
    </p>
  );
}

function Notice({ room }: { room: Room }) {
  const { ended, status } = room.state;
  if (status === "ended")
    return <p class="notice">The party has ended: {ended?.reason ?? "a member ended it"}.</p>;
  if (room.refusal !== undefined) {
    return (
      <p class="notice error" role="alert">
        {sentence(room.refusal)}
      </p>
    );
  }
  if (room.isUnheardOf) {
    return (
      <p class="notice" role="status">
        This party is new and empty. If you expected others, check that the link is complete.
      </p>
    );
  }
  return null;
}

function Begin({ room, route }: { room: Room; route: Route }) {
  const start = async () => {
    await room.start();
    if (room.state.sessionId !== null) route.replace("party", room.state.sessionId);
  };
  return (
    <section class="card lead-card" aria-labelledby="begin-title">
      <div>
        <h2 id="begin-title">This queue is private</h2>
        <p>
          A list of climbs in order. Start a party, and everybody who opens its link can edit the
          queue with you. A member who leaves keeps a copy of the queue.
        </p>
      </div>
      <button type="button" class="primary" onClick={() => void start()}>
        <Icon name="party" />
        Start a party
      </button>
    </section>
  );
}

/** How long "Copied" is shown. */
const COPIED_MS = 2000;

function Share({ room, route }: { room: Room; route: Route }) {
  const [isCopied, setCopied] = useState(false);
  const { sessionId, isLeader } = room.state;
  const link = `${location.origin}${location.pathname}${linkTo("party", sessionId ?? "")}`;
  const input = useRef<HTMLInputElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(link);
      setCopied(true);
      setTimeout(() => setCopied(false), COPIED_MS);
    } catch {
      // Pages over plain HTTP from other machines cannot use the clipboard; select the link
      // instead.
      input.current?.focus();
    }
  };
  const leave = async (action: Promise<void>) => {
    await action;
    if (!room.isShared) route.replace("party");
  };
  return (
    <section class="card share" aria-label="Share this party">
      <label class="field">
        <span>Link to join this party</span>
        <input ref={input} readOnly value={link} onFocus={(event) => event.currentTarget.select()} />
      </label>
      <button type="button" onClick={() => void copy()}>
        <Icon name="link" />
        <span aria-live="polite">{isCopied ? "Copied" : "Copy link"}</span>
      </button>
      <button type="button" onClick={() => void leave(room.leave())}>
        Leave
      </button>
      {isLeader && (
        <End count={room.state.members.length} onEnd={() => void leave(room.end())} />
      )}
    </section>
  );
}

/** The button to end the party, with a confirmation, because it affects all members. */
function End({ count, onEnd }: { count: number; onEnd: () => void }) {
  const [isAsking, setAsking] = useState<boolean>();
  const [end, keep] = [useRef<HTMLButtonElement>(null), useRef<HTMLButtonElement>(null)];
  useEffect(() => {
    // Do not move the focus on the first render.
    if (isAsking !== undefined) (isAsking ? keep : end).current?.focus();
  }, [isAsking]);
  if (isAsking !== true) {
    return (
      <button ref={end} type="button" class="danger end" onClick={() => setAsking(true)}>
        End for everybody
      </button>
    );
  }
  const cancel = (event: KeyboardEvent) => {
    if (event.key === "Escape") setAsking(false);
  };
  return (
    <div class="end-question" role="group" aria-labelledby="end-question" onKeyDown={cancel}>
      <p id="end-question">
        End the party{count > 1 ? ` for all ${count} members` : ""}? Nobody can rejoin.
      </p>
      <button ref={keep} type="button" onClick={() => setAsking(false)}>
        Cancel
      </button>
      <button type="button" class="danger" onClick={onEnd}>
        End party
      </button>
    </div>
  );
}
