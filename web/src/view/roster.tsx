/** The members of the party, and the leader. */
import type { Identity } from "../model/identity.js";
import type { Room } from "../model/room.js";
import { guestLink, guestOf, linkTo } from "../model/route.js";
import { Avatar } from "./avatar.js";
import { Icon } from "./icon.js";

/** The roster. */
export function Roster({ room, identity }: { room: Room; identity: Identity }) {
  const { members, leaderId, clientId, sessionId } = room.state;
  const guest = guestOf(identity.user_id);
  return (
    <section class="card roster" aria-labelledby="roster-title">
      <h2 id="roster-title">
        Members <span class="faint">{members.length}</span>
      </h2>
      <ul class="people">
        {members.map((member) => (
          <li key={member.id} data-leader={member.id === leaderId}>
            <Avatar name={member.username} />
            <span class="row-text">
              <span class="row-title named">
                <span>{member.username}</span>
                {member.id === clientId && <small> (you)</small>}
              </span>
              {member.id === leaderId && (
                <span class="row-last leader">
                  <Icon name="crown" />
                  Leader
                </span>
              )}
            </span>
          </li>
        ))}
      </ul>
      {members.length === 1 && identity.isDevelopment && (
        <p class="faint">
          <a
            href={guestLink(guest, linkTo("party", sessionId ?? ""))}
            target="_blank"
            rel="noopener"
          >
            Join as {guest}
          </a>{" "}
          in a second tab.
        </p>
      )}
      <p class="faint">The member who joined first leads. When the leader leaves, the next member leads.</p>
    </section>
  );
}
