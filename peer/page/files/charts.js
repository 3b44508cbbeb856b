// The chart of rates over time, with the limits in force.
"use strict";
import { t, rate, clock, day, num } from "./parts.js";

const NS = "http://www.w3.org/2000/svg";
function s(tag, attrs, text) {
  const e = document.createElementNS(NS, tag);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

// nice is a round number not below v.
function nice(v) {
  const p = 10 ** Math.floor(Math.log10(Math.max(v, 1)));
  return [1, 2, 5, 10].map((m) => m * p).find((m) => m >= v);
}

// rates are bytes a second for each bucket of a history. The last one is not over yet: of the hour it is the speed of this moment, of longer spans a mean
// over what has passed of it.
function rates(bytes, past, from, now) {
  const out = bytes.map((v) => v / past.bucket_s), last = out.length - 1;
  const passed = (Date.now() - from) / 1000 - last * past.bucket_s;
  out[last] = past.span === "hour" ? now : bytes[last] / Math.min(Math.max(passed, 60), past.bucket_s);
  return out;
}

// chart draws the history of a span, as wide as its box is. now is the speed of this moment, caps are the limits in bytes a second; 0: none. It returns
// the drawing, and whether a limit is in it.
export function chart(past, now, caps, W) {
  const H = W < 640 ? 170 : 220, L = 46, B = 24, T = 12, n = past.down_bytes.length, from = new Date(past.from).getTime();
  const down = rates(past.down_bytes, past, from, now.down_bytes_per_s), up = rates(past.up_bytes, past, from, now.up_bytes_per_s);
  const most = nice(Math.max(1024, ...down, ...up) / 1024) * 1024;
  const known = Math.max(0, Math.floor((new Date(past.since).getTime() - from) / 1000 / past.bucket_s)), first = Math.min(known, n - 10); // no room for what was before the first start
  const x = (i) => L + ((i - first) / (n - 1 - first)) * (W - L - 8), y = (v) => T + (1 - Math.min(v / most, 1)) * (H - T - B);
  const svg = s("svg", { class: "chart", width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img",
    "aria-label": t("ui.chart.says", rate(Math.max(...down)), rate(Math.max(...up)), rate(down[n - 1]), rate(up[n - 1])) });
  for (const part of [0, 0.5, 1]) {
    svg.append(s("line", { class: "grid", x1: L, x2: W - 8, y1: y(most * part), y2: y(most * part) }));
    svg.append(s("text", { class: "tick", x: L - 6, y: y(most * part) + 4, "text-anchor": "end" }, num((most * part) / 1024, 1)));
  }
  for (const part of W < 640 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
    const k = first + part * (n - 1 - first), at = from + k * past.bucket_s * 1000;
    const text = past.span === "month" ? new Date(at).toLocaleDateString(document.documentElement.lang, { day: "numeric", month: "short" }) : clock(at);
    svg.append(s("text", { class: "tick", x: x(k), y: H - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, text));
  }
  const drawn = caps.map((cap) => cap > 0 && cap <= most);
  caps.forEach((cap, i) => {
    if (drawn[i]) svg.append(s("line", { class: `cap l${i}`, x1: L, x2: W - 8, y1: y(cap), y2: y(cap) }));
  });
  [down, up].forEach((line, i) => {
    const points = line.map((v, k) => [k, v]).filter(([k]) => k >= known).map(([k, v]) => `${x(k).toFixed(1)},${y(v).toFixed(1)}`);
    if (points.length === 1) points.unshift(`${(x(n - 1) - 6).toFixed(1)},${y(line[n - 1]).toFixed(1)}`); // recorded since a moment ago
    if (points.length) svg.append(s("polyline", { class: `line l${i}`, points: points.join(" ") }));
  });
  return [svg, drawn.some(Boolean)];
}

export const since = (past) => t("ui.recorded", day(past.since));
