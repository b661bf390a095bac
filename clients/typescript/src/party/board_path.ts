/**
 * The board of a page of the site.
 *
 * `/{board}/{layout}/{size}/{sets}/{angle}/{view}/{climb}`: the first four say which board it is.
 * The angle can be changed while climbing, and the rest is only where somebody looks.
 */

const IDENTITY_SEGMENTS = 4;

/** Segments that begin a view, wherever they are. */
const VIEWS: ReadonlySet<string> = new Set(["play", "view", "list", "create"]);

/** The part of a path that identifies the board to which a session belongs. */
export function baseBoardPath(path: string): string {
  const [plain = ""] = path.split(/[?#]/, 1);
  const segments = plain.split("/").filter((segment) => segment !== "");
  const view = segments.findIndex((segment, index) => index > 0 && VIEWS.has(segment));
  const shown = view < 0 ? segments : segments.slice(0, view);
  return `/${shown.slice(0, IDENTITY_SEGMENTS).join("/")}`;
}

/** Whether a navigation leads to another board, and so out of the session. */
export function changesBoard(from: string, to: string): boolean {
  return baseBoardPath(from) !== baseBoardPath(to);
}
