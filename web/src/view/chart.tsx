/** A small chart of the last two minutes. */
import { type Point, WINDOW_MS } from "../model/console.js";

const [WIDTH, HEIGHT] = [240, 56];
/** The smallest maximum of the scale, so that small values look small. */
const SCALE_MIN = 4;

interface ChartProps {
  title: string;
  points: readonly Point[];
  format: (value: number) => string;
}

/** The chart, with the latest value in large type. */
export function Chart({ title, points, format }: ChartProps) {
  const latest = points.at(-1)?.value ?? 0;
  const largest = Math.max(SCALE_MIN, ...points.map((point) => point.value));
  const path = pathOf(points, largest);
  return (
    <figure class="chart card">
      <figcaption>
        <span>{title}</span>
        <strong>{format(latest)}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {path !== "" && <path class="area" d={`${path}V${HEIGHT}H${firstX(points)}Z`} />}
        {path !== "" && <path class="line" d={path} />}
      </svg>
      <p class="faint">
        <span>2 min</span>
        <span>up to {format(Math.max(0, ...points.map((point) => point.value)))}</span>
      </p>
    </figure>
  );
}

/** The newest point is at the right edge; the width is two minutes. */
function xOf(point: Point, latest: Point): number {
  return WIDTH - ((latest.at - point.at) / WINDOW_MS) * WIDTH;
}

function firstX(points: readonly Point[]): string {
  const [first, latest] = [points[0], points.at(-1)];
  return first === undefined || latest === undefined ? "0" : xOf(first, latest).toFixed(1);
}

function pathOf(points: readonly Point[], largest: number): string {
  const latest = points.at(-1);
  if (latest === undefined) return "";
  const parts = points.map((point) => {
    const y = HEIGHT - 2 - (point.value / largest) * (HEIGHT - 6);
    return `${xOf(point, latest).toFixed(1)} ${y.toFixed(1)}`;
  });
  return `M${parts.join("L")}`;
}
