/** The way in: any name in development, else a token. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type SignIn, subjectOf } from "../model/identity.js";
import { refusalOf } from "../model/name.js";
import { type ServerNode, askNode } from "../model/server.js";
import type { Theme } from "../model/theme.js";
import { sentence } from "./sentence.js";
import { ThemeSwitch } from "./theme_switch.js";
import { Wordmark } from "./wordmark.js";

/** Names to begin with. */
const NAMES = ["ana", "bo", "cy"];

/** How often a server that did not answer is asked again. */
const RETRY_MS = 2000;

/** What the way in needs. */
export interface SignInProps {
  node: ServerNode;
  theme: Theme;
  /** Whether the address leads into somebody's party. */
  isInvited: boolean;
  /** Whether somebody is here to give another token than the last. */
  isTokenWanted: boolean;
  /** A name that came with the address and cannot be one. */
  wrongName: string | undefined;
  onSignIn: (how: SignIn) => void;
}

/** The way in. */
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
            ? "Somebody shares a party with you. Say who you are, and you are in it."
            : "Messages that arrive, presence that tells the truth, and queues that everybody " +
              "edits. This page is a live client of this very server."}
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
  const [refusal, setRefusal] = useState(wrongName && refusalOf(wrongName));
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    const given = name.trim();
    const wrong = refusalOf(given);
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
        Any name without spaces or accents: this is a development server, without passwords.
      </small>
      {refusal !== undefined && (
        <p class="error" role="alert">
          {sentence(refusal)}
        </p>
      )}
      <button type="submit" class="primary wide">
        Sign in
      </button>
      <div class="quick-names" role="group" aria-label="Sign in as somebody at once">
        <span aria-hidden="true">or at once as</span>
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
          This is no token: it has three parts with dots between them, and says whom it is for.
        </p>
      )}
      <button type="submit" class="primary wide">
        Sign in
      </button>
    </form>
  );
}

/** What is shown if the server does not say who it is. */
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
        <p role="alert">The server does not answer. Is it running? This page keeps asking.</p>
        <button type="button" class="primary wide" onClick={() => location.reload()}>
          Try now
        </button>
      </div>
    </main>
  );
}
