/** The queue, ordered by dragging or by buttons. */
import { useState } from "preact/hooks";
import type { ClimbQueueItem } from "heartline/party";
import type { Room } from "../model/room.js";
import { Icon } from "./icon.js";

/** The queue. */
export function Queue({ room }: { room: Room }) {
  const [dragged, setDragged] = useState<string>();
  const [over, setOver] = useState<number>();
  const { queue } = room;
  const [announcement, setAnnouncement] = useState("");
  const onMove = (item: ClimbQueueItem, index: number) => {
    if (index < 0 || index >= queue.length) return;
    void room.move(item.uuid, index);
    setAnnouncement(`${item.climb.name} is now ${index + 1} of ${queue.length}`);
  };
  if (queue.length === 0) return <p class="note">The queue is empty. Add a climb below.</p>;
  const drop = (index: number) => {
    if (dragged !== undefined) void room.move(dragged, index);
    setDragged(undefined);
    setOver(undefined);
  };
  return (
    <>
      <p class="hidden" role="status">
        {announcement}
      </p>
      <ol class="queue">
        {queue.map((item, index) => (
          <li
            key={item.uuid}
            draggable
            data-current={item.uuid === room.state.current?.uuid}
            data-dragged={item.uuid === dragged}
            data-over={index === over && dragged !== undefined}
            onDragStart={(event) => {
              event.dataTransfer?.setData("text/plain", item.climb.name);
              setDragged(item.uuid);
            }}
            onDragOver={(event) => {
              event.preventDefault();
              setOver(index);
            }}
            onDrop={(event) => {
              event.preventDefault();
              drop(index);
            }}
            onDragEnd={() => setDragged(undefined)}
          >
            <QueueItem room={room} item={item} index={index} onMove={onMove} />
          </li>
        ))}
      </ol>
    </>
  );
}

interface QueueItemProps {
  room: Room;
  item: ClimbQueueItem;
  index: number;
  onMove: (item: ClimbQueueItem, index: number) => void;
}

/** An item. Its move buttons stay enabled at the ends: a disabled button would lose the focus. */
function QueueItem({ room, item, index, onMove }: QueueItemProps) {
  const { name, difficulty } = item.climb;
  const isLast = index === room.queue.length - 1;
  const isCurrent = room.isShared && item.uuid === room.state.current?.uuid;
  return (
    <>
      <span class="grip">
        <Icon name="grip" />
      </span>
      <span class="row-text">
        <span class="row-title">{name}</span>
        <span class="row-last">
          {difficulty}
          {item.addedBy ? `, from ${item.addedBy}` : ""}
          {isCurrent ? ", now" : ""}
        </span>
      </span>
      <span class="queue-actions">
        {room.isShared && !isCurrent && (
          <button
            type="button"
            class="small"
            aria-label={`Climb ${name}`}
            onClick={() => void room.setCurrent(item)}
          >
            Climb
          </button>
        )}
        <button
          type="button"
          class="round small"
          aria-label={`Move ${name} up`}
          aria-disabled={index === 0}
          onClick={() => onMove(item, index - 1)}
        >
          <Icon name="up" />
        </button>
        <button
          type="button"
          class="round small"
          aria-label={`Move ${name} down`}
          aria-disabled={isLast}
          onClick={() => onMove(item, index + 1)}
        >
          <Icon name="down" />
        </button>
        <button
          type="button"
          class="round small"
          aria-label={`Remove ${name}`}
          onClick={() => void room.remove(item.uuid)}
        >
          <Icon name="close" />
        </button>
      </span>
    </>
  );
}
