/** Injects faults and shows the reaction of server and client. */
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
  /** Whether the fault needs a party. */
  needsParty?: true;
  run: (faults: Faults) => Promise<void>;
}

const FAULTS: readonly Fault[] = [
  {
    title: "Drop my socket",
    text: "The network fails without a close frame. The client backs off, reconnects and syncs.",
    action: "Drop it",
    run: (faults) => faults.drop(),
  },
  {
    title: "Stall my reader",
    text: "The page stops reading. The server's buffer is limited: when full, it closes; the client syncs.",
    action: "Stall it",
    run: (faults) => faults.stall(),
  },
  {
    title: "Expire my token",
    text: "The token expires after 3 s without a new one. The server warns, waits, closes with 4401.",
    action: "Let it expire",
    run: (faults) => faults.expire(),
  },
  {
    title: "Flood",
    text: "40 messages at once, twice the burst. The server rejects the excess with a retry delay.",
    action: "Flood",
    run: (faults) => faults.flood(),
  },
  {
    title: "Lose a message",
    text: "One message is dropped before the client reads it. The next one reveals the gap.",
    action: "Lose one",
    run: (faults) => faults.lose(),
  },
  {
    title: "Lose a party event",
    text: "The same for the party's queue: sequences and hashes reveal it, a replay repairs it.",
    action: "Lose a party event",
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
        <p class="note">Faults can be injected only on a development server.</p>
      </div>
    );
  }
  return (
    <div class="page break-it">
      <div class="bar">
        <h1>Break it</h1>
        <p class="faint">
          Each fault is real: it is injected into the socket that the client library uses.
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

/** A link to the chat that the faults use, once it exists. */
function RobotChat({ session }: { session: Session }) {
  const chats = useObservable(session.chats);
  const found = chats.list.find((entry) => entry.chat.name === CHAT_NAME);
  if (found === undefined) return null;
  return (
    <>
      {" "}
      <a href={linkTo("chats", found.chat.chat_id)}>Open the chat that the faults use.</a>
    </>
  );
}

const TONES = { deed: "You", fault: "Fault", contract: "Protocol", good: "Recovered" } as const;

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
      {log.lines.length === 0 && <p class="note">No events yet. Inject a fault on the left.</p>}
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
