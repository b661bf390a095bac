/** Breaking things, to see what the contracts do about it. */
import { useEffect, useRef } from "preact/hooks";
import { CHAT_NAME, type Faults } from "../model/faults.js";
import { useObservable } from "../model/observable.js";
import { linkTo } from "../model/route.js";
import type { Session } from "../model/session.js";
import { clockWithSeconds } from "./time.js";

interface Fault {
  title: string;
  text: string;
  action: string;
  /** Whether there must be a party for it. */
  needsParty?: true;
  run: (faults: Faults) => Promise<void>;
}

const FAULTS: readonly Fault[] = [
  {
    title: "Drop my socket",
    text: "The network is gone without a goodbye. The client backs off, comes back and syncs.",
    action: "Drop it",
    run: (faults) => faults.drop(),
  },
  {
    title: "Stall my reader",
    text: "Nothing is read any more. What waits has a bound: the server cuts, the client syncs.",
    action: "Stall it",
    run: (faults) => faults.stall(),
  },
  {
    title: "Expire my token",
    text: "A token of 3 s, and no newer one. The server says so, waits, and closes with 4401.",
    action: "Let it expire",
    run: (faults) => faults.expire(),
  },
  {
    title: "Flood",
    text: "40 messages at once, twice the burst. What is too much is told how long to wait.",
    action: "Flood",
    run: (faults) => faults.flood(),
  },
  {
    title: "Lose a message",
    text: "One message vanishes before the client sees it. The next one shows the gap.",
    action: "Lose one",
    run: (faults) => faults.lose(),
  },
  {
    title: "Lose a party event",
    text: "The same for the party's queue: numbers and hashes show it, and a replay heals it.",
    action: "Lose one of the party",
    needsParty: true,
    run: (faults) => faults.loseOfParty(),
  },
];

/** The faults and their log. */
export function BreakItView({ session }: { session: Session }) {
  const { faults } = session;
  const { state } = useObservable(session.room);
  if (faults === undefined) {
    return (
      <div class="page">
        <h1>Break it</h1>
        <p class="note">Only a development server lets a page break things.</p>
      </div>
    );
  }
  return (
    <div class="page break-it">
      <div class="bar">
        <h1>Break it</h1>
        <p class="faint">
          Each fault is real: it happens in the socket that the client library uses.
          <RobotChat session={session} />
        </p>
      </div>
      <div class="columns wide-left">
        <ul class="faults">
          {FAULTS.map((fault) => (
            <li key={fault.title} class="card">
              <h2>{fault.title}</h2>
              <p>{fault.text}</p>
              {fault.needsParty && state.status !== "live" ? (
                <a class="button" href={linkTo("party")}>
                  Start a party first
                </a>
              ) : (
                <button type="button" onClick={() => void fault.run(faults)}>
                  {fault.action}
                </button>
              )}
            </li>
          ))}
        </ul>
        <Log faults={faults} />
      </div>
    </div>
  );
}

/** Where it can be seen that nothing was lost, once something was said there. */
function RobotChat({ session }: { session: Session }) {
  const chats = useObservable(session.chats);
  const found = chats.list.find((entry) => entry.chat.name === CHAT_NAME);
  if (found === undefined) return null;
  return (
    <>
      {" "}
      <a href={linkTo("chats", found.chat.chat_id)}>See the chat that it happens in.</a>
    </>
  );
}

const TONES = { deed: "You", fault: "Fault", contract: "Contract", good: "Healed" } as const;

function Log({ faults }: { faults: Faults }) {
  const log = useObservable(faults.log);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [log.lines.length]);
  return (
    <section class="card log" aria-labelledby="log-title">
      <div class="bar">
        <h2 id="log-title">What happened</h2>
        <button type="button" class="small" onClick={() => log.clear()}>
          Clear
        </button>
      </div>
      {log.lines.length === 0 && <p class="note">Nothing yet. Break something on the left.</p>}
      <div ref={box} class="lines" role="log" aria-label="What happened" tabIndex={0}>
        {log.lines.map((line) => (
          <p key={line.id} data-tone={line.tone}>
            <time dateTime={line.at.toISOString()}>{clockWithSeconds(line.at)}</time>
            <span class="tone">{TONES[line.tone]}</span>
            <span>{line.text}</span>
          </p>
        ))}
      </div>
    </section>
  );
}
