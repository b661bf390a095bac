/** The input field: Enter sends, Shift and Enter begins a new line. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { Conversation } from "../model/conversation.js";
import { Icon } from "./icon.js";

/** The maximum size of a message. */
const CONTENT_BYTES_MAX = 4096;
/** The maximum height of the field, in lines. */
const ROWS_MAX = 6;

/** The composer. */
export function Composer({ conversation, title }: { conversation: Conversation; title: string }) {
  const [text, setText] = useState(conversation.text);
  const input = useRef<HTMLTextAreaElement>(null);
  const bytes = new TextEncoder().encode(text).length;
  const isTooLong = bytes > CONTENT_BYTES_MAX;
  useEffect(() => {
    // On a phone the keyboard would cover the messages.
    if (matchMedia("(pointer: fine)").matches) input.current?.focus();
    return () => conversation.typing(false);
  }, [conversation]);
  const write = (value: string) => {
    conversation.text = value;
    setText(value);
  };
  const send = () => {
    const content = text.trim();
    if (content === "" || isTooLong) return;
    write("");
    conversation.typing(false);
    void conversation.send(content);
  };
  const typed = (value: string) => {
    write(value);
    conversation.typing(value !== "");
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  const submit = (event: Event) => {
    event.preventDefault();
    send();
    input.current?.focus();
  };
  return (
    <form class="composer" onSubmit={submit}>
      <textarea
        ref={input}
        aria-label={`Message to ${title}`}
        placeholder="Write a message"
        rows={Math.min(ROWS_MAX, text.split("\n").length)}
        value={text}
        onInput={(event) => typed(event.currentTarget.value)}
        onKeyDown={pressed}
        aria-invalid={isTooLong}
      />
      {isTooLong && (
        <span class="error" role="alert">
          {bytes - CONTENT_BYTES_MAX} bytes too long
        </span>
      )}
      <button
        type="submit"
        class="primary round"
        aria-label="Send"
        disabled={text.trim() === "" || isTooLong}
      >
        <Icon name="send" />
      </button>
    </form>
  );
}
