/** A page that a test can freeze, hide and cut from the network. */

/** `document`, as far as the client listens to it. */
class FakeDocument extends EventTarget {
  visibilityState = "visible";
}

/** The events of a browser about its page. */
export class FakePage {
  readonly window = new EventTarget();
  readonly document = new FakeDocument();

  /** Says something to the window, such as `online`. */
  tell(type: string, more: object = {}): void {
    this.window.dispatchEvent(Object.assign(new Event(type), more));
  }

  freeze(): void {
    this.document.dispatchEvent(new Event("freeze"));
  }

  resume(): void {
    this.document.dispatchEvent(new Event("resume"));
  }

  show(): void {
    this.document.visibilityState = "visible";
    this.document.dispatchEvent(new Event("visibilitychange"));
  }

  hide(): void {
    this.document.visibilityState = "hidden";
    this.document.dispatchEvent(new Event("visibilitychange"));
  }
}
