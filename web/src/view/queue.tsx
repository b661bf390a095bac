/** The queue: dragged into order, or moved by buttons. */
import { useState } from "preact/hooks";
import type { ClimbQueueItem } from "heartline/party";
import type { Room } from "../model/room.js";
import { Icon } from "./icon.js";

/** The queue. */
export function Queue({ room }: { room: Room }) {
  const [dragged, setDragged] = useState<string>();
  const [over, setOver] = useState<number>();
  const { queue } = room;
  if (queue.length === 0) return <p class="note">The queue is empty. Add a climb below.</p>;
  const drop = (index: number) => {
    if (dragged !== undefined) void room.move(dragged, index);
    setDragged(undefined);
    setOver(undefined);
  };
  return (
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
          <QueueItem room={room} item={item} index={index} />
        </li>
      ))}
    </ol>
  );
}

interface QueueItemProps {
  room: Room;
  item: ClimbQueueItem;
  index: number;
}

function QueueItem({ room, item, index }: QueueItemProps) {
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
          disabled={index === 0}
          onClick={() => void room.move(item.uuid, index - 1)}
        >
          <Icon name="up" />
        </button>
        <button
          type="button"
          class="round small"
          aria-label={`Move ${name} down`}
          disabled={isLast}
          onClick={() => void room.move(item.uuid, index + 1)}
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
