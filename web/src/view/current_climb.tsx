/** The current climb. */
import type { Room } from "../model/room.js";
import { Icon } from "./icon.js";

/** The current climb, and the next one. */
export function CurrentClimb({ room }: { room: Room }) {
  const { current, queue } = room.state;
  const index = queue.findIndex((item) => item.uuid === current?.uuid);
  const next = queue[index + 1];
  const isMirrored = current?.climb.mirrored === true;
  return (
    <section class="card current" aria-labelledby="current-title" aria-live="polite">
      <h2 id="current-title">Now</h2>
      {current === null ? (
        <p class="faint">No current climb. Press “Climb” on an item of the queue.</p>
      ) : (
        <>
          <p class="current-name" data-mirrored={isMirrored}>
            {current.climb.name}
          </p>
          <p class="faint">
            {current.climb.difficulty} at {current.climb.angle}°{isMirrored && ", mirrored"}
          </p>
          <div class="actions start">
            <button
              type="button"
              aria-pressed={isMirrored}
              onClick={() => void room.mirror(!isMirrored)}
            >
              <Icon name="mirror" />
              Mirror
            </button>
            <button
              type="button"
              class="primary"
              disabled={next === undefined}
              onClick={() => next && void room.setCurrent(next)}
            >
              <Icon name="play" />
              Next
            </button>
          </div>
        </>
      )}
    </section>
  );
}
