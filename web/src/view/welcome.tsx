/** The first steps: a chat between two tabs. */
import { type Route, guestLink, guestOf, linkToPerson } from "../model/route.js";
import type { Session } from "../model/session.js";
import { Icon } from "./icon.js";

/** The properties of the welcome. */
interface WelcomeProps {
  session: Session;
  route: Route;
  onCreate: () => void;
}

/** The view of a user without chats. */
export function Welcome({ session, route, onCreate }: WelcomeProps) {
  const { identity } = session;
  const guest = guestOf(identity.user_id);
  return (
    <section class="conversation empty welcome" aria-labelledby="welcome-title">
      <div class="welcome-card">
        <Icon name="chats" />
        <h2 id="welcome-title">Begin with a chat</h2>
        {identity.isDevelopment && (
          <>
            <p>
              Be two people at once: a second tab in which you are <b>{guest}</b>, with the same
              chat open in both.
            </p>
            <a
              class="button primary"
              href={guestLink(guest, linkToPerson(identity.user_id))}
              target="_blank"
              rel="noopener"
              onClick={() => route.open("chats", `@${guest}`)}
            >
              Open a second tab as {guest}
            </a>
          </>
        )}
        <p class="faint">
          {identity.isDevelopment ? "Or " : ""}
          <button type="button" class="inline" onClick={onCreate}>
            write to anybody
          </button>
          : nobody has to be here, or even to exist yet.
        </p>
      </div>
    </section>
  );
}
