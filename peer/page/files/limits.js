// Settings: a field for each, the week's grid, and what would hold.
"use strict";
import { h, t, ask, num, told, lang } from "./parts.js";

const days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const dayName = (d, style = "short") => new Date(2024, 0, 1 + d).toLocaleDateString(lang, { weekday: style }); // 1 January 2024 was a Monday
const hourName = (n) => `${String(n).padStart(2, "0")}:00`;

// limits draws the view.
export async function limits(main) {
  const answer = h("div"), form = h("form", { novalidate: true }), preview = h("section", { class: "preview", "aria-live": "polite" });
  main.append(h("h2", {}, t("ui.limits")), answer);
  let told1 = null, fields = {}, timer = 0;

  function changes() {
    const out = {};
    for (const [key, f] of Object.entries(fields)) {
      const v = f.get();
      if (JSON.stringify(v) !== JSON.stringify(f.was)) out[key] = v;
    }
    return out;
  }
  function wrong(errors) {
    for (const [key, f] of Object.entries(fields)) {
      const own = errors.filter((e) => e.setting.split("[")[0] === key);
      f.error.textContent = own.map((e) => `${e.setting} ${e.text}`).join("; ");
      f.control.toggleAttribute("aria-invalid", own.length > 0);
      if (own.length) f.control.setAttribute("aria-invalid", "true");
      if (own.length && f.box.closest("details")) f.box.closest("details").open = true;
    }
  }
  let attempts = 0;
  async function attempt() {
    const mine = ++attempts; // an older answer may come after a newer one
    let got;
    try { got = await ask("POST", "/v1/settings/try", changes()); } catch (e) { return mine === attempts && told(answer, e.message, true); }
    if (mine !== attempts || !main.contains(form)) return;
    wrong(got.errors);
    fields.windows?.holds(got.week);
    save.disabled = got.errors.length > 0 || !Object.keys(changes()).length;
    undo.disabled = !Object.keys(changes()).length;
    bar.classList.toggle("changed", !undo.disabled);
    const paused = got.week.filter((x) => x.paused).length;
    preview.replaceChildren(h("h2", {}, t("ui.wouldhold")), h("ul", {}, got.limits.map((l) => h("li", {}, l.value ? t("ui.hold.limit", t(`name.${l.setting}`), `${num(l.value)} ${l.setting.endsWith("per_s") ? "KiB/s" : "MiB"}`, l.by === "joining" ? t("ui.by.joining") : l.source.replace(` in ${told1.file}`, "")) : t("ui.hold.none", t(`name.${l.setting}`)))),
      h("li", {}, t("ui.pausedhours", num(paused))), got.paused ? h("li", {}, t("ui.pausednow", got.paused)) : ""),
    got.overruled.length ? h("ul", { class: "warn" }, got.overruled.map((x) => h("li", {}, x))) : h("p", { class: got.unread ? "warn" : "quiet" }, t(got.unread ? "ui.unreadpolicy" : "ui.nothingoverruled")),
    got.held.map((k) => h("p", { class: "warn" }, t("ui.held", t(`name.${k}`)))));
  }
  function touched() {
    clearTimeout(timer);
    timer = setTimeout(attempt, 300);
  }
  async function submit(e) {
    e.preventDefault();
    try {
      draw(await ask("PUT", "/v1/settings", changes()));
      told(answer, t("ui.saved"));
      answer.scrollIntoView({ block: "nearest" });
    } catch (err) {
      if (err.body && err.body.errors) wrong(err.body.errors);
      told(answer, err.message, true);
      const first = form.querySelector("[aria-invalid=true]");
      if (first) first.focus(); else answer.scrollIntoView();
    }
  }
  const save = h("button", { class: "main" }, t("ui.save")), undo = h("button", { type: "button", onclick: () => draw(told1) }, t("ui.undo")), bar = h("div", { class: "bar" }, save, undo), file = h("p", { class: "quiet" });
  form.addEventListener("submit", submit);
  form.addEventListener("input", touched);

  function draw(got) {
    told1 = got;
    fields = {};
    const groups = {};
    for (const s of got.settings) {
      groups[s.group] ??= s.group === "expert" ? h("details", { class: "about" }, h("summary", {}, t("group.expert"))) : h("fieldset", {}, h("legend", {}, t(`group.${s.group}`)));
      const f = s.kind === "windows" ? week(s, touched) : field(s);
      if (!s.fixed) fields[s.setting] = f;
      groups[s.group].append(f.box);
    }
    const [first, ...rest] = Object.values(groups);
    form.replaceChildren(first, preview, ...rest, bar, file);
    file.textContent = t("ui.file", got.file);
    bar.classList.remove("changed");
    save.disabled = undo.disabled = true;
    attempt();
  }
  main.append(form);
  try { draw(await ask("GET", "/v1/settings")); } catch (e) { told(answer, e.message, true); }
}

// plain are meanings in the words of the page's own fields; the others are those of the command line.
const plain = { down_kib_per_s: "ui.set.down", up_kib_per_s: "ui.set.up", day_mib: "ui.set.day", month_mib: "ui.set.month", on_battery: "ui.set.battery", on_metered: "ui.set.metered", in_use: "ui.set.inuse", full_screen: "ui.set.fullscreen",
  threads: "ui.set.threads", update: "ui.set.update" };

// hints are what stands below a field.
function hints(s) {
  const usual = Array.isArray(s.default) ? "" : s.proposed ? `${t("ui.zero")} ${t("ui.proposes", shown(s, s.proposed))}` : t("ui.default", shown(s, s.default));
  const bounds = s.most !== undefined ? t("ui.between", num(s.least), num(s.most)) : "";
  return [h("p", { class: "hint", id: `hint-${s.setting}` }, [plain[s.setting] ? t(plain[s.setting]) : s.meaning, bounds, usual, s.source && !s.held && s.value !== s.proposed ? t("ui.setbyfile") : "", s.takes || ""].filter(Boolean).join(" ")),
    s.held && !s.fixed ? h("p", { class: "hint warn" }, t("ui.heldby", s.held)) : ""];
}
const shown = (s, v) => (s.kind === "switch" ? t(v ? "ui.on" : "ui.off") : s.choices ? choiceName(v) : s.kind === "number" && v === 0 && s.zero === "no limit" ? t("amount.none") : s.kind === "number" ? `${num(v)}${s.unit ? ` ${s.unit}` : ""}` : v || t("ui.none"));
const choiceName = (v) => ({ pause: t("ui.choice.pause"), run: t("ui.choice.run"), auto: t("ui.choice.auto"), ask: t("ui.choice.ask"), off: t("ui.choice.off") })[v] || v;

// field is one setting's control. get is its value now.
function field(s) {
  const id = `set-${s.setting}`, described = { id, "aria-describedby": `hint-${s.setting} wrong-${s.setting}`, disabled: Boolean(s.fixed) };
  let control, get;
  if (s.kind === "switch") {
    control = h("input", { type: "checkbox", checked: s.value, ...described });
    get = () => control.checked;
  } else if (s.kind === "number") {
    control = h("input", { type: "number", value: s.value, min: s.least, max: s.most, step: "1", inputmode: "numeric", ...described });
    get = () => (control.validity.badInput ? "?" : control.value.trim() === "" ? null : Number(control.value)); // what is no number is refused, and not taken for an empty field
  } else if (s.choices) {
    control = h("select", described, s.choices.map((c) => h("option", { value: c, selected: c === s.value }, choiceName(c))));
    get = () => control.value;
  } else if (s.kind === "list") {
    control = h("textarea", { rows: "3", spellcheck: false, placeholder: s.example, ...described });
    control.value = s.value.join("\n");
    get = () => control.value.split("\n").map((l) => l.trim()).filter(Boolean);
  } else {
    control = h("input", { type: "text", value: s.value, autocomplete: "off", spellcheck: false, ...described });
    get = () => control.value;
  }
  const error = h("p", { class: "wrong", id: `wrong-${s.setting}`, role: "alert" });
  return { box: h("div", { class: "field" }, h("label", { for: id }, t(`name.${s.setting}`)), h("div", {}, control, s.unit ? ` ${s.unit}` : ""), hints(s), error), control, error, get, was: get() };
}

// whole is the hour of a time such as "08:00", or -1 for one within an hour.
function whole(text, empty) {
  if (!text) return empty;
  const m = /^(\d{1,2}):00$/.exec(text);
  return m && Number(m[1]) <= 24 ? Number(m[1]) : -1;
}

// daysOf reads days as the settings file has them: "mon-fri", "sat,sun"; empty: all. null: they cannot be read.
function daysOf(text) {
  if (!text) return days.map((_, d) => d);
  const out = new Set();
  for (const part of text.toLowerCase().split(",")) {
    const [a, b = a] = part.trim().split("-").map((x) => days.indexOf(x.trim()));
    if (a < 0 || b < 0) return null;
    for (let d = a; ; d = (d + 1) % 7) {
      out.add(d);
      if (d === b) break;
    }
  }
  return [...out];
}

// cellsOf are the hours of a pause that the grid can show, as numbers from Monday 00:00; null: it cannot.
function cellsOf(w) {
  if (!w.pause || w.down_kib_per_s || w.up_kib_per_s) return null;
  const on = daysOf(w.days), from = whole(w.from, 0), to = whole(w.to, 24);
  if (!on || from < 0 || to < 0 || from === to) return null;
  const out = [];
  for (const d of on) for (let k = from; k < (from < to ? to : to + 24); k++) out.push(((d * 24 + k) % 168));
  return out;
}

// pausesOf are the windows that pause the given hours: equal stretches of several days become one.
function pausesOf(cells) {
  const runs = new Map();
  for (let d = 0; d < 7; d++) for (let k = 0; k < 24; k++) {
    if (!cells.has(d * 24 + k) || (k > 0 && cells.has(d * 24 + k - 1))) continue;
    let end = k;
    while (end < 24 && cells.has(d * 24 + end)) end++;
    const key = `${k}-${end}`;
    runs.set(key, [...(runs.get(key) || []), d]);
  }
  return [...runs].map(([key, on]) => {
    const [from, to] = key.split("-").map(Number), w = {};
    if (on.length < 7) w.days = on.length > 2 && on.at(-1) - on[0] === on.length - 1 ? `${days[on[0]]}-${days[on.at(-1)]}` : on.map((d) => days[d]).join(",");
    if (from > 0 || to < 24) Object.assign(w, { from: hourName(from), to: hourName(to) });
    w.pause = true;
    return w;
  });
}

// week is the setting of windows: a grid of hours to pause, and rows for windows of other kinds.
function week(s, touched) {
  let cells = new Set(), rows = [], painted = false, painting = null, at = 0;
  const first = s.value.map((w) => ({ ...w }));
  for (const w of first) {
    const c = cellsOf(w);
    if (c) c.forEach((x) => cells.add(x)); else rows.push({ ...w }); // rows are edited in place
  }
  const grid = h("div", { class: "week", role: "group", "aria-label": t("name.windows") }), list = h("div"), buttons = [];
  const place = (e, d, k) => { if (d !== null) e.style.setProperty("--d", d); if (k !== null) e.style.setProperty("--h", k); return e; };
  for (let k = 0; k < 24; k++) grid.append(place(h("span", { class: "h", "aria-hidden": "true" }, String(k)), null, k));
  for (let d = 0; d < 7; d++) {
    grid.append(place(h("span", { class: "d", "aria-hidden": "true" }, dayName(d)), d, null));
    for (let k = 0; k < 24; k++) {
      const n = d * 24 + k, b = place(h("button", { type: "button", tabindex: n ? "-1" : "0" }), d, k);
      b.addEventListener("pointerdown", (e) => { painting = !cells.has(n); set(n, painting); move(n); e.target.releasePointerCapture?.(e.pointerId); });
      b.addEventListener("pointerenter", () => painting !== null && set(n, painting));
      b.addEventListener("click", (e) => e.detail === 0 && set(n, !cells.has(n))); // by the keyboard
      buttons.push(b);
      grid.append(b);
    }
  }
  const release = () => { painting = null; };
  grid.addEventListener("pointerup", release);
  grid.addEventListener("pointerleave", release);
  grid.addEventListener("keydown", (e) => {
    const tall = matchMedia("(max-width: 640px)").matches, step = { ArrowRight: tall ? 24 : 1, ArrowLeft: tall ? -24 : -1, ArrowDown: tall ? 1 : 24, ArrowUp: tall ? -1 : -24 }[e.key];
    if (!step) return;
    e.preventDefault();
    move((at + step + 168) % 168);
    buttons[at].focus();
  });
  function move(n) {
    buttons[at].tabIndex = -1;
    at = n;
    buttons[at].tabIndex = 0;
  }
  function set(n, on) {
    painted = true;
    if (on) cells.add(n); else cells.delete(n);
    mark(n);
    touched();
  }
  let held = [], most = {};
  const slower = (rate, usual) => (rate || Infinity) < usual; // 0 is no limit
  function mark(n) {
    const b = buttons[n], x = held[n] || {}, own = cells.has(n), admin = x.paused && !own && x.by === "admin";
    b.classList.toggle("pause", own);
    b.classList.toggle("admin", Boolean(admin));
    b.classList.toggle("less", !own && !admin && (slower(x.down, most.down) || slower(x.up, most.up)));
    b.setAttribute("aria-pressed", String(own));
    b.setAttribute("aria-label", t("ui.cell", dayName(Math.floor(n / 24), "long"), hourName(n % 24), own ? t("ui.cell.pause") : admin ? t("ui.cell.admin") : x.paused ? t("ui.cell.other") : t("ui.cell.run")));
    b.title = b.getAttribute("aria-label");
  }
  function others() {
    list.replaceChildren(...rows.map((w, i) => {
      const input = (name, type, key, more) => h("label", {}, name, h("br"), h("input", { type, value: w[key] ?? "", ...more, oninput: (e) => { painted = true; const v = e.target.value.trim(); if (e.target.validity.badInput) w[key] = "?"; else if (v === "") delete w[key]; else w[key] = type === "number" ? Number(v) : v; } }));
      return h("div", { class: "window", role: "group", "aria-label": t("ui.window", i + 1) }, input(t("ui.days"), "text", "days", { placeholder: t("ui.days.all") }), input(t("ui.from"), "text", "from", { placeholder: "08:00" }), input(t("ui.to"), "text", "to", { placeholder: "18:00" }),
        input(`${t("ui.down")} KiB/s`, "number", "down_kib_per_s", { min: 0 }), input(`${t("ui.up")} KiB/s`, "number", "up_kib_per_s", { min: 0 }),
        h("label", {}, h("input", { type: "checkbox", checked: Boolean(w.pause), onchange: (e) => { painted = true; if (e.target.checked) w.pause = true; else delete w.pause; touched(); } }), " ", t("ui.cell.pause")),
        h("button", { type: "button", onclick: () => { painted = true; rows.splice(i, 1); others(); touched(); } }, t("ui.remove")));
    }));
  }
  others();
  buttons.forEach((_, n) => mark(n));
  const error = h("p", { class: "wrong", id: "wrong-windows", role: "alert" });
  const legend = h("p", { class: "quiet" }, h("span", { class: "swatch pause" }), t("ui.cell.pause"), h("span", { class: "swatch less" }), t("ui.less"), h("span", { class: "swatch admin" }), t("ui.cell.admin"));
  const add = h("button", { type: "button", onclick: () => { painted = true; rows.push({ from: "08:00", to: "18:00", down_kib_per_s: 100 }); others(); touched(); } }, t("ui.addwindow"));
  const get = () => (painted ? [...pausesOf(cells), ...rows] : first);
  return { box: h("div", { class: "fieldwide" }, h("h3", {}, t("name.windows")), hints(s), h("p", { class: "quiet" }, t("ui.week.what")), grid, legend, list, add, error), control: grid, error, get, was: first,
    holds: (all) => { held = all; most = { down: Math.max(...all.map((x) => x.down || Infinity)), up: Math.max(...all.map((x) => x.up || Infinity)) }; buttons.forEach((_, n) => mark(n)); } };
}
