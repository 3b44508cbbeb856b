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

// chart draws the history of a span. caps are the limits in bytes a second; 0: none.
export function chart(past, caps) {
  const W = innerWidth < 640 ? 420 : 900, H = 220, L = 64, B = 24, T = 12, n = past.down_bytes.length;
  const down = past.down_bytes.map((v) => v / past.bucket_s), up = past.up_bytes.map((v) => v / past.bucket_s);
  const most = nice(Math.max(1024, ...down, ...up) / 1024) * 1024;
  const x = (i) => L + (i / (n - 1)) * (W - L - 8), y = (v) => T + (1 - Math.min(v / most, 1)) * (H - T - B);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img",
    "aria-label": t("ui.chart.says", rate(Math.max(...down)), rate(Math.max(...up)), rate(down[n - 1]), rate(up[n - 1])) });
  for (const part of [0, 0.5, 1]) {
    svg.append(s("line", { class: "grid", x1: L, x2: W - 8, y1: y(most * part), y2: y(most * part) }));
    svg.append(s("text", { class: "tick", x: L - 6, y: y(most * part) + 4, "text-anchor": "end" }, num((most * part) / 1024, 1)));
  }
  const from = new Date(past.from).getTime();
  for (const part of W < 900 ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]) {
    const at = from + part * (n - 1) * past.bucket_s * 1000;
    const text = past.span === "month" ? new Date(at).toLocaleDateString(document.documentElement.lang, { day: "numeric", month: "short" }) : clock(at);
    svg.append(s("text", { class: "tick", x: x(part * (n - 1)), y: H - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, text));
  }
  caps.forEach((cap, i) => {
    if (cap > 0 && cap <= most) svg.append(s("line", { class: `cap l${i}`, x1: L, x2: W - 8, y1: y(cap), y2: y(cap) }));
  });
  const known = Math.max(0, Math.floor((new Date(past.since).getTime() - from) / 1000 / past.bucket_s));
  [down, up].forEach((line, i) => {
    const points = line.map((v, k) => [k, v]).filter(([k]) => k >= known).map(([k, v]) => `${x(k).toFixed(1)},${y(v).toFixed(1)}`);
    if (points.length) svg.append(s("polyline", { class: `line l${i}`, points: points.join(" ") }));
  });
  return svg;
}

export const since = (past) => t("ui.recorded", day(past.since));
