/** The frame around every view: title, navigation, connection, user. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { useObservable, useTick } from "../model/observable.js";
import { type Route, type View, linkTo } from "../model/route.js";
import type { Session } from "../model/session.js";
import type { Theme } from "../model/theme.js";
import { Icon } from "./icon.js";
import { ThemeSwitch } from "./theme_switch.js";
import { Wordmark } from "./wordmark.js";

const TITLES: Record<View, string> = {
  chats: "Chats",
  party: "Party",
  you: "You",
  console: "Console",
  break: "Break it",
};

/** The properties of the shell. */
export interface ShellProps {
  session: Session;
  theme: Theme;
  route: Route;
  onSignOut: () => void;
  /** Signs out, to sign in with another token. */
  onOtherToken: () => void;
  children: ComponentChildren;
}

/** The shell. */
export function Shell(props: ShellProps) {
  const { session, theme, route, onSignOut, onOtherToken, children } = props;
  const { identity } = session;
  const views = Object.keys(TITLES) as View[];
  const shown = views.filter((view) => view !== "break" || session.faults !== undefined);
  return (
    <div class="shell" data-view={route.view} data-subject={route.subject !== undefined}>
      <Title session={session} view={TITLES[route.view]} />
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        <Wordmark />
        <LinkIndicator session={session} onOtherToken={onOtherToken} />
        <div class="who">
          <span class="who-name" title={`Device ${identity.device_id}`}>
            <strong>{identity.user_id}</strong>
            <small>{identity.device_id}</small>
          </span>
          <ThemeSwitch theme={theme} />
          <button
            type="button"
            class="round"
            aria-label="Sign out"
            title="Sign out"
            onClick={onSignOut}
          >
            <Icon name="leave" />
          </button>
        </div>
      </header>
      <nav class="views" aria-label="Views">
        {shown.map((view) => (
          <a key={view} href={linkTo(view)} aria-current={view === route.view ? "page" : undefined}>
            <Icon name={view} />
            <span>{TITLES[view]}</span>
            {view === "chats" && <UnreadTotal session={session} />}
          </a>
        ))}
      </nav>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

/** Moves the focus without changing the URL, which holds the view. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Sets the title of the tab: unread count, user, view. */
function Title({ session, view }: { session: Session; view: string }) {
  const { unreadTotal } = useObservable(session.chats);
  const { user_id } = session.identity;
  useEffect(() => {
    const unread = unreadTotal === 0 ? "" : `(${unreadTotal}) `;
    document.title = `${unread}${user_id} · ${view} · Heartline`;
  }, [unreadTotal, view, user_id]);
  return null;
}

function UnreadTotal({ session }: { session: Session }) {
  const { unreadTotal: total } = useObservable(session.chats);
  if (total === 0) return null;
  return (
    <span class="badge">
      {total > 99 ? "99+" : total}
      <span class="hidden"> unread</span>
    </span>
  );
}

interface LinkIndicatorProps {
  session: Session;
  onOtherToken: () => void;
}

/** The state of the connection. */
function LinkIndicator({ session, onOtherToken }: LinkIndicatorProps) {
  const link = useObservable(session.link);
  useTick(500);
  // The countdown is hidden from screen readers, which would read every second.
  const wait = link.waitSeconds;
  const isTokenNeeded = link.needsToken && session.identity.isByToken;
  return (
    <div class="link" data-state={link.state}>
      <span class="link-text" role="status" aria-live="polite">
        <span class="link-mark" aria-hidden="true" />
        <span class="link-words">
          {link.text}
          {wait !== undefined && <span aria-hidden="true"> in {wait} s</span>}
        </span>
      </span>
      {isTokenNeeded && (
        <button type="button" class="small" onClick={onOtherToken}>
          Use another token
        </button>
      )}
      {link.isStopped && !isTokenNeeded && (
        <button type="button" class="small" onClick={() => link.retry()}>
          Connect again
        </button>
      )}
      {wait !== undefined && (
        <button type="button" class="small quiet" onClick={() => link.retry()}>
          Try now
        </button>
      )}
    </div>
  );
}
