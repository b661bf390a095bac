/** The name with its mark. */
export function Wordmark() {
  return (
    <span class="wordmark">
      <svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
        <rect width="32" height="32" rx="8" />
        <path d="M5 17h5l2.5-6 4 12 3.5-9 1.7 3H27" />
      </svg>
      <span>Heartline</span>
    </span>
  );
}
