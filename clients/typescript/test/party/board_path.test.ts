import { describe, expect, it } from "vitest";
import { baseBoardPath, changesBoard } from "../../src/party/board_path.js";

const BOARD = "/kilter/1/10/26_27";

describe("the board of a path", () => {
  it.each([
    ["/kilter/1/10/26_27/40/list", BOARD],
    ["/kilter/1/10/26_27/40/play/8A3F", BOARD],
    ["/kilter/1/10/26_27/40/view/some-climb-8A3F", BOARD],
    ["/kilter/1/10/26_27/40/create", BOARD],
    ["/kilter/1/10/26_27/40", BOARD],
    ["/kilter/1/10/26_27/", BOARD],
    [BOARD, BOARD],
    // Sets may be a number too, and are no angle for that.
    ["/tension/9/1/8", "/tension/9/1/8"],
    ["/tension/9/1/8/35", "/tension/9/1/8"],
    ["/kilter/1/10/26_27/40/list?sort=stars#top", BOARD],
    ["/board/list", "/board"],
    ["/list", "/list"],
    ["", "/"],
  ])("%s is %s", (path, base) => {
    expect(baseBoardPath(path)).toBe(base);
    expect(baseBoardPath(base)).toBe(base);
  });
});

describe("going to another page", () => {
  const from = "/kilter/1/10/26_27/40/play/8A3F";
  it.each([
    ["another board", "/tension/1/10/26_27/40/play/8A3F", true],
    ["another layout", "/kilter/8/10/26_27/40/play/8A3F", true],
    ["another size", "/kilter/1/7/26_27/40/play/8A3F", true],
    ["other sets", "/kilter/1/10/26/40/play/8A3F", true],
    ["another angle", "/kilter/1/10/26_27/25/play/8A3F", false],
    ["another view", "/kilter/1/10/26_27/40/list", false],
    ["creating a climb", "/kilter/1/10/26_27/40/create", false],
    ["another climb", "/kilter/1/10/26_27/40/play/77BC", false],
    ["a climb's page", "/kilter/1/10/26_27/40/view/a-slug-77BC", false],
  ])("%s: reconnects %3$s", (_what, to, reconnects) => {
    expect(changesBoard(from, to)).toBe(reconnects);
  });
});
