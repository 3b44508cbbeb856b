// What every view uses: elements, words, numbers, and questions to the program.
"use strict";
let words = {};
export let lang = "en";
export const languages = { en: "English", de: "Deutsch" };

// speak loads a language's words. The choice stays in this browser.
export async function speak(choice) {
  const wish = choice || localStorage.getItem("lang") || navigator.languages.map((l) => l.slice(0, 2)).find((l) => languages[l]) || "en";
  const r = await fetch(`/words/${wish}.json`);
  if (!r.ok) throw new Error(r.status);
  words = await r.json();
  lang = wish;
  if (choice) localStorage.setItem("lang", choice);
  document.documentElement.lang = lang;
  for (const e of document.querySelectorAll("[data-t]")) e.textContent = t(e.dataset.t);
}

// t is the text of a key, with its values.
export function t(key, ...args) {
  return args.reduce((s, a, i) => s.replaceAll(`{${i}}`, a), words[key] ?? key);
}

// h makes an element. An attribute that is a function listens; one that is false or absent is left out.
export function h(tag, attrs, ...kids) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (typeof v === "function") e.addEventListener(k.slice(2), v);
    else if (k in e && typeof v === "boolean") e[k] = v;
    else if (v !== undefined && v !== false && v !== null) e.setAttribute(k, v);
  }
  e.append(...kids.flat().filter((k) => k !== undefined && k !== null && k !== false));
  return e;
}

// Refused is an answer that says what is wrong.
export class Refused extends Error {
  constructor(text, status, body) { super(text); this.status = status; this.body = body; }
}

// ask sends a question with this page's half of the session. Answers that are not JSON come as text.
export async function ask(method, path, body) {
  const url = new URL(path, location.origin);
  url.searchParams.set("lang", lang);
  const r = await fetch(url, { method, headers: { "X-Shoal-Key": localStorage.getItem("key") || "" }, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store" });
  const text = await r.text(), type = r.headers.get("Content-Type") || "";
  const data = type.split(";")[0] === "application/json" && text ? JSON.parse(text) : text;
  if (!r.ok) throw new Refused((data && data.error) || text.trim(), r.status, data);
  return data;
}

export const num = (n, digits = 0) => new Intl.NumberFormat(lang, { maximumFractionDigits: digits }).format(n);

// part words a share of all. None that there is is nothing, and none is all beside another one.
export function part(of) {
  const percent = (n) => new Intl.NumberFormat(lang, { style: "percent", maximumFractionDigits: 0 }).format(n);
  if (of > 0 && of < 0.005) return `<${percent(0.01)}`;
  return of < 1 && of >= 0.995 ? `>${percent(0.99)}` : percent(of);
}

// size words a number of bytes.
export function size(n) {
  for (const [unit, of] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) if (n >= of) return `${num(n / of, n >= 100 * of ? 0 : 1)} ${unit}`;
  return `${num(n)} B`;
}
// mib words a budget, and what was used of it, in the unit in which it is set.
export const mib = (n) => (n < 1 ? size(n * 2 ** 20) : `${num(n, n < 100 ? 1 : 0)} MiB`);
export const rate = (n) => `${num(n / 1024, n >= 102400 ? 0 : 1)} KiB/s`;
export const day = (at) => new Date(at).toLocaleDateString(lang, { day: "numeric", month: "long", year: "numeric" });
export const clock = (at) => new Date(at).toLocaleTimeString(lang, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
export const when = (at) => new Date(at).toLocaleString(lang, { day: "2-digit", month: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

// contact shows whom to ask, as a link where it is an address of the Web or of mail.
export function contact(text) {
  const to = /^https?:[/][/]/.test(text) ? text : /^[^\s@:]+@[^\s@]+$/.test(text) ? `mailto:${text}` : "";
  const [before, after = ""] = t("ui.contact").split("{0}");
  return h("span", {}, before, to ? h("a", { href: to, rel: "noreferrer", target: "_blank" }, text) : text, after);
}

// told shows what came of a deed, or why it failed.
export function told(box, text, wrong) {
  box.replaceChildren(h("p", { class: wrong ? "notice" : "said", role: wrong ? "alert" : "status" }, text));
}

// ranges are buttons of which one is chosen.
export function ranges(label, choices, chosen, choose) {
  const box = h("span", { class: "ranges", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    box.append(h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: (e) => {
      for (const b of box.children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
      choose(value);
    } }, text));
  }
  return box;
}
