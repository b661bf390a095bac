/** The sign-in form: any name in development, otherwise a token. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type SignIn, subjectOf } from "../model/identity.js";
import { nameError } from "../model/name.js";
import { type ServerNode, askNode } from "../model/server.js";
import type { Theme } from "../model/theme.js";
import { sentence } from "./sentence.js";
import { ThemeSwitch } from "./theme_switch.js";
import { Wordmark } from "./wordmark.js";

/** Suggested names. */
const NAMES = ["ana", "bo", "cy"];

/** The interval of attempts to reach the server. */
const RETRY_MS = 2000;

/** The properties of the form. */
export interface SignInProps {
  node: ServerNode;
  theme: Theme;
  /** Whether the URL leads to a party. */
  isInvited: boolean;
  /** Whether the user is to enter another token. */
  isTokenWanted: boolean;
  /** An invalid name from the URL. */
  wrongName: string | undefined;
  onSignIn: (how: SignIn) => void;
}

/** The sign-in form. */
export function SignInView(props: SignInProps) {
  const { node, theme, isInvited, isTokenWanted, wrongName, onSignIn } = props;
  const [isByToken, setByToken] = useState(isTokenWanted || node.sign_in === "token");
  return (
    <main class="sign-in">
      <div class="sign-in-card">
        <h1>
          <Wordmark />
        </h1>
        <p class="lead">
          {isInvited
            ? "You are invited to a party. Sign in to join it."
            : "Durable chat, presence and shared queues. This page is a client of this server, " +
              "made with the TypeScript library."}
        </p>
        {isByToken ? (
          <ByToken onSignIn={onSignIn} />
        ) : (
          <ByName wrongName={wrongName} onSignIn={onSignIn} />
        )}
        {node.sign_in === "name" && (
          <button type="button" class="quiet" onClick={() => setByToken(!isByToken)}>
            {isByToken ? "Use a name instead" : "Use a token instead"}
          </button>
        )}
      </div>
      <footer class="sign-in-foot">
        <span>
          Version {node.version} on {node.node_id}
        </span>
        <ThemeSwitch theme={theme} />
      </footer>
    </main>
  );
}

type ByNameProps = Pick<SignInProps, "wrongName" | "onSignIn">;

function ByName({ wrongName, onSignIn }: ByNameProps) {
  const [name, setName] = useState(wrongName ?? "");
  const [refusal, setRefusal] = useState(wrongName && nameError(wrongName));
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const given = name.trim();
    const wrong = nameError(given);
    setRefusal(wrong);
    if (wrong === undefined) onSignIn({ name: given });
  };
  return (
    <form onSubmit={submit}>
      <label class="field">
        <span>Who are you?</span>
        <input
          ref={input}
          name="name"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
          autocomplete="username"
          autocapitalize="none"
          spellcheck={false}
          aria-describedby="name-hint"
          required
        />
      </label>
      <small id="name-hint">
        Any name without spaces or accents. This is a development server: it needs no password.
      </small>
      {refusal !== undefined && (
        <p class="error" role="alert">
          {sentence(refusal)}
        </p>
      )}
      <button type="submit" class="primary wide">
        Sign in
      </button>
      <div class="quick-names" role="group" aria-label="Sign in with a suggested name">
        <span aria-hidden="true">or sign in as</span>
        {NAMES.map((quick) => (
          <button key={quick} type="button" class="chip" onClick={() => onSignIn({ name: quick })}>
            {quick}
          </button>
        ))}
      </div>
    </form>
  );
}

function ByToken({ onSignIn }: { onSignIn: (how: SignIn) => void }) {
  const [token, setToken] = useState("");
  const [isWrong, setWrong] = useState(false);
  const submit = (event: Event) => {
    event.preventDefault();
    const trimmed = token.trim();
    if (subjectOf(trimmed) === "") setWrong(true);
    else onSignIn({ token: trimmed });
  };
  return (
    <form onSubmit={submit}>
      <label class="field">
        <span>Your token</span>
        <textarea
          name="token"
          rows={4}
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
          placeholder="heartline token --user ana"
          spellcheck={false}
          required
        />
      </label>
      {isWrong && (
        <p class="error" role="alert">
          This is not a token. A token has three parts separated by dots, and a user in sub.
        </p>
      )}
      <button type="submit" class="primary wide">
        Sign in
      </button>
    </form>
  );
}

/** The view shown if the server does not answer. */
export function Unreachable() {
  useEffect(() => {
    const retry = () =>
      askNode().then(
        () => location.reload(),
        () => {},
      );
    const timer = setInterval(() => void retry(), RETRY_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <main class="sign-in">
      <div class="sign-in-card">
        <h1>
          <Wordmark />
        </h1>
        <p role="alert">The server does not answer. Check that it runs; this page keeps trying.</p>
        <button type="button" class="primary wide" onClick={() => location.reload()}>
          Try now
        </button>
      </div>
    </main>
  );
}
