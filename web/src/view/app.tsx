/** The whole page: the sign-in form, or the views of a signed-in user. */
import { useEffect, useState } from "preact/hooks";
import { Identity, type SignIn, forget } from "../model/identity.js";
import { nameError } from "../model/name.js";
import { useObservable } from "../model/observable.js";
import type { Route } from "../model/route.js";
import type { ServerNode } from "../model/server.js";
import { Session } from "../model/session.js";
import type { Theme } from "../model/theme.js";
import { BreakItView } from "./break_it.js";
import { ChatsView } from "./chats.js";
import { ConsoleView } from "./console.js";
import { PartyView } from "./party.js";
import { Shell } from "./shell.js";
import { SignInView, Unreachable } from "./sign_in.js";
import { YouView } from "./you.js";

/** The initial data of the page. */
export interface AppProps {
  theme: Theme;
  route: Route;
  /** Undefined if the server did not answer. */
  node: ServerNode | undefined;
  device_id: string;
  /** The sign-in before a reload. */
  signIn: SignIn | undefined;
}

/** The page. */
export function App({ theme, route, node, device_id, signIn }: AppProps) {
  const begin = (how: SignIn | undefined) => {
    if (how === undefined || node === undefined || wrongNameOf(how) !== undefined) return undefined;
    const identity = new Identity(how, device_id, node);
    identity.remember();
    return new Session(identity);
  };
  const [session, setSession] = useState(() => begin(signIn));
  const [wrongName, setWrongName] = useState(() => wrongNameOf(signIn));
  const [isTokenWanted, setTokenWanted] = useState(false);
  useObservable(route);
  useEffect(() => {
    if (session === undefined) document.title = "Heartline";
  }, [session]);
  if (node === undefined) return <Unreachable />;
  if (session === undefined) {
    return (
      <SignInView
        node={node}
        theme={theme}
        isInvited={route.view === "party" && route.subject !== undefined}
        isTokenWanted={isTokenWanted}
        wrongName={wrongName}
        onSignIn={(how) => {
          setWrongName(undefined);
          setSession(begin(how));
        }}
      />
    );
  }
  const signOut = (isForToken: boolean) => {
    forget();
    setTokenWanted(isForToken);
    route.replace("chats");
    setSession(undefined);
    void session.close();
  };
  return (
    <Shell
      session={session}
      theme={theme}
      route={route}
      onSignOut={() => signOut(false)}
      onOtherToken={() => signOut(true)}
    >
      <CurrentView session={session} route={route} />
    </Shell>
  );
}

/** The name of a sign-in if it is invalid, such as a mistyped one in a link. */
function wrongNameOf(how: SignIn | undefined): string | undefined {
  if (how === undefined || !("name" in how)) return undefined;
  return nameError(how.name) === undefined ? undefined : how.name;
}

function CurrentView({ session, route }: { session: Session; route: Route }) {
  switch (route.view) {
    case "chats":
      return <ChatsView session={session} route={route} />;
    case "party":
      return <PartyView session={session} route={route} />;
    case "you":
      return <YouView session={session} />;
    case "console":
      return <ConsoleView session={session} />;
    case "break":
      return <BreakItView session={session} />;
  }
}
