/** The user's own settings: privacy, contacts and devices. */
import { useEffect, useState } from "preact/hooks";
import type { Visibility } from "heartline";
import { useObservable } from "../model/observable.js";
import type { Session } from "../model/session.js";
import { Avatar } from "./avatar.js";
import { Icon } from "./icon.js";
import { PresenceMark, presenceText } from "./presence_mark.js";
import { sentence } from "./sentence.js";
import { ago } from "./time.js";

/** The interval at which the devices are loaded. */
const INTERVAL_MS = 5000;

/** The user. */
export function YouView({ session }: { session: Session }) {
  const people = useObservable(session.people);
  useEffect(() => {
    void people.load();
    const timer = setInterval(() => void people.load(), INTERVAL_MS);
    return () => clearInterval(timer);
  }, [people]);
  return (
    <div class="page">
      <div class="bar">
        <h1>You</h1>
      </div>
      {people.error !== undefined && (
        <p class="notice error" role="alert">
          {sentence(people.error)}
        </p>
      )}
      <div class="columns even">
        <div class="column">
          <Privacy session={session} />
          <Devices session={session} />
        </div>
        <div class="column">
          <Contacts session={session} />
          <Marks />
        </div>
      </div>
    </div>
  );
}

const CHOICES: readonly [Visibility, string, string][] = [
  ["everyone", "Everyone", "All users can see when you are online."],
  ["contacts_only", "Contacts only", "Users whom you have added and who have added you."],
  ["nobody", "Nobody", "Nobody can see whether you are online."],
];

function Privacy({ session }: { session: Session }) {
  const people = useObservable(session.people);
  return (
    <section class="card" aria-labelledby="privacy-title">
      <h2 id="privacy-title">Who can see when you are online?</h2>
      <div class="choices" role="radiogroup" aria-labelledby="privacy-title">
        {CHOICES.map(([value, label, text]) => (
          <label key={value} class="choice">
            <input
              type="radio"
              name="visibility"
              value={value}
              checked={people.visibility === value}
              onChange={() => void people.setVisibility(value)}
            />
            <span>
              <b>{label}</b>
              <small>{text}</small>
            </span>
          </label>
        ))}
      </div>
    </section>
  );
}

function Contacts({ session }: { session: Session }) {
  const people = useObservable(session.people);
  const [name, setName] = useState("");
  const add = (event: Event) => {
    event.preventDefault();
    if (name.trim() === "") return;
    void people.addContact(name.trim());
    setName("");
  };
  return (
    <section class="card" aria-labelledby="contacts-title">
      <h2 id="contacts-title">Contacts</h2>
      {people.contacts.length === 0 && (
        <p class="note">No contacts yet. Two users become contacts once each has added the other.</p>
      )}
      <ul class="people">
        {people.contacts.map((user_id) => (
          <li key={user_id}>
            <span class="face">
              <Avatar name={user_id} />
              <PresenceMark presence={people.presence(user_id)} />
            </span>
            <span class="row-text">
              <span class="row-title">{user_id}</span>
              <span class="row-last">{presenceText(people.presence(user_id))}</span>
            </span>
            <button
              type="button"
              class="round small"
              aria-label={`Remove ${user_id}`}
              onClick={() => void people.removeContact(user_id)}
            >
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      <form class="inline-form" onSubmit={add}>
        <label class="field grow">
          <span>Add a contact</span>
          <input
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            autocapitalize="none"
          />
        </label>
        <button type="submit">
          <Icon name="plus" />
          Add
        </button>
      </form>
    </section>
  );
}

function Devices({ session }: { session: Session }) {
  const people = useObservable(session.people);
  const own = session.identity.device_id;
  const devices = people.devices?.filter((connection) => connection.kind !== "party");
  return (
    <section class="card" aria-labelledby="devices-title">
      <h2 id="devices-title">Your devices</h2>
      <p class="faint">Every tab is a device, and each device receives every message.</p>
      <ul class="people">
        {devices === undefined ? (
          <li>
            <span class="row-text">
              <span class="row-title">{own} (this tab)</span>
            </span>
          </li>
        ) : (
          devices.map((device) => (
            <li key={device.connection_id} data-testid="device">
              <span class="row-text">
                <span class="row-title">
                  {device.device_id}
                  {device.device_id === own && " (this tab)"}
                </span>
                <span class="row-last">connected {ago(device.connected_at)}</span>
              </span>
            </li>
          ))
        )}
      </ul>
    </section>
  );
}

function Marks() {
  return (
    <section class="card" aria-labelledby="marks-title">
      <h2 id="marks-title">Presence marks</h2>
      <ul class="legend">
        <li>
          <span class="presence" data-status="online" aria-hidden="true" /> online
        </li>
        <li>
          <span class="presence" data-status="offline" aria-hidden="true" /> offline, with the time
          last seen
        </li>
        <li>
          <span class="presence" data-status="unknown" aria-hidden="true" /> unknown: the user
          hides it, or the server cannot read it
        </li>
      </ul>
    </section>
  );
}
