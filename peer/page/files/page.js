// The page: its views, and what it asks the program every two seconds while it is visible, or every six while nothing is crawled.
"use strict";
import { h, t, ask, speak, lang, languages, num, size, mib, rate, day, clock, when, told, ranges, contact, Refused } from "./parts.js";
import { chart, since } from "./charts.js";
import { limits } from "./limits.js";
import { about, removal } from "./about.js";
import { networks } from "./networks.js";
import { contribution } from "./contribution.js";

const main = document.getElementById("main"), stale = document.getElementById("stale");
const views = { now, pause, limits: () => limits(main), history, networks: shownNetworks, contribution: shownContribution, health };
let present = null, view = "", onPresent = () => {}, cleanup = () => {};

// refresh asks what happens now. A hidden page asks nothing.
async function refresh() {
  if (document.hidden) return;
  try {
    present = await ask("GET", "/v1/now");
    stale.hidden = true;
    if ((present.state === "unjoined") !== (view === "join")) show();
    else onPresent();
  } catch (e) {
    stale.hidden = false;
    stale.textContent = e instanceof Refused ? (e.status === 401 ? t("enter.shut") + " shoal-peer open" : e.message) : t("ui.gone");
  }
}

// show draws the view that the address names.
function show() {
  const wanted = location.hash.slice(1) || "now", joins = present && present.state === "unjoined";
  view = joins ? "join" : views[wanted] ? wanted : "now";
  for (const a of document.querySelectorAll("#nav a")) {
    a.hidden = joins;
    a.toggleAttribute("aria-current", false);
    if (a.hash === `#${view}`) a.setAttribute("aria-current", "page");
  }
  cleanup();
  onPresent = cleanup = () => {};
  main.replaceChildren();
  document.title = `Shoal · ${t(joins ? "ui.join" : `ui.${view}`)}`;
  if (joins) join(main); else views[view]();
  onPresent();
}

// says is the sentence of what happens now, which a screen reader hears when it changes.
function says() {
  const p = h("p", { class: "says", role: "status" });
  return [p, () => {
    if (!present) return;
    p.className = `says ${present.state}`;
    if (p.textContent !== present.says) p.textContent = present.says;
  }];
}

const several = () => present && present.networks.length > 1;
const companyOf = (id) => { const n = present.networks.find((x) => x.network === id); return n ? n.name : ""; };

function fact(name) {
  const value = h("dd"), box = h("div", {}, h("dt", {}, t(name)), value);
  return [box, (...kids) => value.replaceChildren(...kids)];
}

const capOf = (key) => present.limits.find((l) => l.setting === key);
const small = (text) => h("small", {}, text);
const who = (c) => (c.value === 0 ? t("amount.none") : c.by === "admin" ? `${t("ui.by.admin")}: ${c.source}` : t(c.by === "joining" ? "ui.by.joining" : "ui.by.you"));

function now() {
  const [sentence, say] = says();
  const [down, setDown] = fact("name.down_kib_per_s"), [up, setUp] = fact("name.up_kib_per_s"), [today, setToday] = fact("ui.carried.today"), [month, setMonth] = fact("ui.carried.month");
  const [pages, setPages] = fact("ui.pages.today"), sites = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ui.sites.now") }), notes = h("div");
  const figure = h("figure"), drawing = h("div", { class: "drawing" }), recorded = h("span"), capKey = h("span", { hidden: true }, t("ui.cap"));
  let span = "hour", past = null, state = "";
  async function load() {
    past = await ask("GET", `/v1/history?span=${span}`);
    draw();
  }
  // draw draws for the width that there is.
  function draw() {
    const width = drawing.clientWidth;
    if (!past || !present || !width) return;
    const [svg, capped] = chart(past, present.speed, [capOf("down_kib_per_s").value * 1024, capOf("up_kib_per_s").value * 1024], width);
    drawing.replaceChildren(svg);
    capKey.hidden = !capped;
    recorded.textContent = since(past);
  }
  const resized = new ResizeObserver(() => draw());
  resized.observe(drawing);
  figure.append(h("figcaption", {}, h("span", {}, h("span", { class: "key" }), t("ui.down")), h("span", {}, h("span", { class: "key k1" }), t("ui.up")), capKey, recorded,
    ranges(t("ui.span"), [["hour", t("ui.hour")], ["day", t("ui.day")], ["month", t("ui.month30")]], span, (s) => { span = s; load().catch(() => {}); })), drawing);
  const timer = setInterval(() => document.hidden || load().catch(() => {}), 20000);
  cleanup = () => { clearInterval(timer); resized.disconnect(); };
  const [what, setWhat] = about();
  const quick = h("div", { class: "deeds" });
  main.append(h("h2", {}, t("ui.now")), sentence, quick, what, removal(), notes, h("dl", { class: "facts" }, down, up, today, month, pages), h("h2", {}, t("ui.sites.now")), sites, h("h2", {}, t("ui.rates")), figure);
  let told = "";
  onPresent = () => {
    if (!present) return;
    say();
    setWhat(present);
    if (state !== present.state) { // what was drawn before is of another state
      if (state) load().catch(() => {});
      state = present.state;
    }
    const d = capOf("down_kib_per_s"), u = capOf("up_kib_per_s");
    const held = present.state === "paused" && present.speed.down_bytes_per_s > 0 ? small(t("ui.heldopen")) : "";
    setDown(rate(present.speed.down_bytes_per_s), held, small(d.value ? t("ui.ofmost", `${num(d.value)} KiB/s`) : ""), small(who(d)));
    setUp(rate(present.speed.up_bytes_per_s), small(u.value ? t("ui.ofmost", `${num(u.value)} KiB/s`) : ""), small(who(u)));
    setToday(...budget(present.done.today.bytes, capOf("day_mib"), t("ui.today")));
    setMonth(...budget(present.done.month.bytes, capOf("month_mib"), t("ui.month")), present.done.month_since > "0002" ? small(t("ui.since", day(present.done.month_since))) : ""); // it is not known while the peer starts
    setPages(num(present.done.today.pages), small(t("ui.unchanged", num(present.done.today.pages_unchanged))));
    const key = JSON.stringify([present.running, present.waiting, present.state, still(), lang]);
    if (key !== told) sites.replaceChildren(tasks());
    told = key;
    notes.replaceChildren(...(present.notes_holding || []).map((n) => h("p", { class: "notice" }, n)), ...(present.admin ? [h("p", { class: "quiet" }, t("ui.admin", present.admin))] : []));
    buttons(quick);
    draw();
  };
  load().catch(() => {});
}

function budget(used, cap, label) {
  if (!cap.value) return [size(used), small(t("amount.none"))];
  return [mib(used / 2 ** 20), h("progress", { max: cap.value * 2 ** 20, value: Math.min(used, cap.value * 2 ** 20), "aria-label": label }), small(t("ui.ofmost", mib(cap.value))), small(who(cap))];
}

// still reports whether nothing arrives although sites are asked.
const still = () => ["away", "silent", "webless", "looking"].includes(present.state) && present.speed.down_bytes_per_s < 100;

// doing says how a site that was begun stands. In a pause no request goes out: a site that was begun waits.
function doing(x) {
  const n = (present.networks || []).find((y) => y.network === x.network) || present;
  if (n.state === "draining") return t("ui.givenback");
  if (x.archive_away) return t("ui.away");
  if (n.state === "paused") return t("ui.rests");
  if (n.state === "finishing") return t("ui.finishing");
  return t(still() ? "ui.stalled" : "ui.fetching");
}

// tasks lists the sites. What each is doing stands below its name, so that nothing is cut off on a narrow screen.
function tasks() {
  const row = (x, state, pages, left) => h("tr", {}, h("td", { class: "url" }, h("b", {}, x.host.replace(/^https?:[/][/]/, "")), h("span", { class: "quiet" }, state, x.network ? `, ${t("ui.for", companyOf(x.network))}` : ""), x.url ? h("span", { class: "quiet" }, x.url) : null), h("td", { class: "n" }, pages), h("td", { class: "n" }, left));
  const rows = [...present.running.map((x) => row(x, doing(x), num(x.pages), num(x.left))), ...present.waiting.map((x) => row(x, t("ui.waiting"), "", num(x.pages)))];
  if (!rows.length) return h("p", { class: "quiet" }, t("ui.nosites"));
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, t("ui.site")), h("th", { class: "n" }, t("ui.pages")), h("th", { class: "n" }, t("ui.left")))), h("tbody", {}, rows));
}

// buttons offers the quick deeds of the moment; it leaves a button alone that has the focus.
function buttons(box) {
  const rests = present.mode !== "open", key = `${present.mode} ${lang}`;
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const had = box.contains(document.activeElement);
  box.replaceChildren(...(rests ? [order("resume", {}, t("ui.resume"), "main")] : [order("pause", { for: "1h" }, t("ui.pause1h")), order("pause", { for: "tomorrow" }, t("ui.pausetomorrow")), order("pause", {}, t("ui.pausetill"))]), h("a", { href: "#pause" }, t("ui.more")));
  if (had) box.firstElementChild.focus();
}

function order(name, args, text, look, ask1) {
  return h("button", { type: "button", class: look, onclick: async (e) => {
    if (ask1 && !confirm(ask1)) return;
    e.currentTarget.disabled = true;
    try { await ask("POST", `/v1/do/${name}`, args); } catch (err) { alert(err.message); }
    e.target.disabled = false;
    refresh();
  } }, text);
}

function pause() {
  const [sentence, say] = says();
  const resume = order("resume", {}, t("ui.resume"));
  const deed = (button, text) => h("div", { class: "deed" }, button, h("p", { class: "quiet" }, t(text)));
  main.append(h("h2", {}, t("ui.pause")), sentence, h("fieldset", {}, h("legend", {}, t("ui.rest")), h("p", { class: "quiet" }, t("ui.rest.what")),
    deed(order("pause", { for: "1h" }, t("ui.pause1h")), "ui.pause1h.what"), deed(order("pause", { for: "tomorrow" }, t("ui.pausetomorrow")), "ui.pausetomorrow.what"), deed(order("pause", {}, t("ui.pausetill")), "ui.pausetill.what"),
    deed(resume, "ui.resume.what")),
  h("fieldset", {}, h("legend", {}, t("ui.stop")), deed(order("finish", {}, t("ui.finish")), "ui.finish.what"), deed(order("drain", {}, t("ui.drain")), "ui.drain.what"),
    several() ? deed(h("a", { href: "#networks" }, t("ui.leave.one")), "ui.leave.one.what") : ""),
  h("fieldset", { class: "grave" }, h("legend", {}, t("ui.forgood")), deed(order("leave", { forget: "yes", all: "yes" }, t(several() ? "ui.leave.all" : "ui.leave"), "grave", t(several() ? "ui.leave.all.sure" : "ui.leave.sure")), "ui.leave.what")), removal());
  onPresent = () => {
    say();
    if (!present) return;
    resume.disabled = present.networks.every((n) => n.mode === "open");
    resume.className = resume.disabled ? "" : "main";
  };
}

function history() {
  const text = h("input", { type: "search", id: "match" }), from = h("select", { id: "since" }, ...[["1h", "ui.lasthour"], ["24h", "ui.lastday"], ["168h", "ui.lastweek"], ["", "ui.all"]].map(([v, k]) => h("option", { value: v, selected: v === "24h" }, t(k))));
  const lines = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ui.fetched") }), totals = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ui.bysite") }), answer = h("div"), denied = h("div");
  async function search(site) {
    const q = new URLSearchParams({ match: text.value, n: 100 });
    if (from.value) q.set("since", from.value);
    if (site) q.set("site", site);
    try {
      const [log, sites, settings] = await Promise.all([ask("GET", `/v1/log?${q}`), ask("GET", `/v1/sites?${q}`), ask("GET", "/v1/settings")]);
      const entries = log.split("\n").filter(Boolean).map((l) => JSON.parse(l)).reverse();
      lines.replaceChildren(entries.length ? table(["ui.when", "ui.page", "ui.answer", "ui.size"], entries.map((e) => [when(e.at), h("td", { class: "url" }, e.title || e.url, e.title ? h("span", { class: "quiet" }, e.url) : null), e.status ? String(e.status) : e.error, h("td", { class: "n" }, size(e.bytes))])) : h("p", { class: "quiet" }, t("ui.nothing")));
      totals.replaceChildren(sites.sites.length ? table(["ui.site", "ui.pages", "ui.size", "ui.last", "ui.deed"], sites.sites.map((x) => [h("td", { class: "url" }, h("button", { type: "button", onclick: () => search(x.site) }, x.site)), h("td", { class: "n" }, num(x.pages)), h("td", { class: "n" }, size(x.bytes)), when(x.last),
        x.denied ? x.denied : h("button", { type: "button", class: "danger", onclick: () => never(x.site) }, t("ui.never"))])) : h("p", { class: "quiet" }, t("ui.nothing")));
      const more = sites.all - sites.sites.length;
      if (more > 0) totals.append(h("p", { class: "quiet" }, t(more === 1 ? "ui.moresites.one" : "ui.moresites", num(more))));
      const list = settings.settings.find((s) => s.setting === "deny").value;
      denied.replaceChildren(list.length ? table(["ui.site", "ui.deed"], list.map((d) => [d, h("button", { type: "button", onclick: () => allow(d) }, t("ui.allow"))])) : h("p", { class: "quiet" }, t("ui.nodenied")));
    } catch (e) { told(answer, e.message, true); }
  }
  async function never(site) {
    if (!confirm(t("ui.never.sure", site))) return;
    try {
      const r = await ask("POST", "/v1/do/deny", { domain: site });
      told(answer, t("ui.never.done", r.domain, num(r.tasks_given_back)));
    } catch (e) { told(answer, e.message, true); }
    search();
  }
  async function allow(domain) {
    try {
      await ask("POST", "/v1/do/deny", { domain, allow: "yes" });
      told(answer, t("ui.allowed", domain));
    } catch (e) { told(answer, e.message, true); }
    search();
  }
  main.append(h("h2", {}, t("ui.history")), h("p", { class: "quiet" }, t("ui.history.what")),
    h("form", { class: "search", role: "search", onsubmit: (e) => { e.preventDefault(); search(); } }, h("div", {}, h("label", { for: "match" }, t("ui.match")), text), h("div", {}, h("label", { for: "since" }, t("ui.span")), from), h("button", { class: "main" }, t("ui.search"))),
    answer, h("h2", {}, t("ui.bysite")), totals, h("h2", {}, t("ui.fetched")), lines, h("h2", {}, t("ui.denied")), denied, h("p", { class: "quiet" }, t("ui.lists.what"), " ", h("a", { href: "#limits" }, t("ui.limits"))));
  search();
}

function table(heads, rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, heads.map((k) => h("th", {}, t(k))))), h("tbody", {}, rows.map((r) => h("tr", {}, r.map((c) => (c instanceof HTMLTableCellElement ? c : h("td", {}, c)))))));
}

function shownContribution() {
  const of = () => JSON.stringify((present?.networks || []).map((n) => n.network)), drawn = of();
  const [update, leave] = contribution(main, () => present);
  cleanup = leave;
  const typing = () => main.contains(document.activeElement) && document.activeElement.matches("input, textarea");
  onPresent = () => (of() === drawn || typing() ? update() : show()); // a network has come or gone: there is another choice
}

function shownNetworks() {
  const drawn = networks(main, order, join);
  onPresent = () => drawn(present);
}

function health() {
  const list = h("ul", { class: "checks" }), answer = h("div"), marks = { ok: "✓", note: "·", bad: "!" }, looks = { ok: "good", note: "quiet", bad: "bad" };
  async function load() {
    const got = await ask("GET", "/v1/health");
    list.replaceChildren(...got.checks.map((c) => h("li", {}, h("b", {}, h("span", { class: `mark ${looks[c.level]}`, "aria-hidden": "true" }, marks[c.level]), c.what, h("span", { class: "quiet" }, c.level === "bad" ? ` (${t("ui.bad")})` : "")), h("span", {}, c.says))));
    await updates();
  }
  const update = h("div", { class: "deeds" });
  async function updates() {
    const u = await ask("GET", "/v1/update"), order = (what) => ask("POST", "/v1/do/update", { what }).then(() => load()).catch((e) => told(answer, e.message, true));
    update.replaceChildren(...(u.can_take ? [u.notes ? h("p", { class: "quiet" }, u.notes) : "", h("button", { type: "button", onclick: () => order("take") }, t("ui.update.take")), h("button", { type: "button", onclick: () => order("refuse") }, t("ui.update.refuse"))] : []));
  }
  async function report() {
    const text = await ask("GET", "/v1/report"), area = h("textarea", { class: "report", readonly: "", "aria-label": t("ui.report") });
    area.value = text;
    let copied = true;
    try { await navigator.clipboard.writeText(text); } catch { copied = false; }
    answer.replaceChildren(h("p", { class: "said", role: "status" }, t(copied ? "ui.report.copied" : "ui.report.here")), area);
    if (!copied) area.select();
  }
  main.append(h("h2", {}, t("ui.health")), list, update, h("div", { class: "deeds" }, h("button", { type: "button", onclick: () => report().catch((e) => told(answer, e.message, true)) }, t("ui.report"))), h("p", { class: "quiet" }, t("ui.report.what")), answer);
  const failed = (e) => told(answer, e.message, true);
  const timer = setInterval(() => document.hidden || load().catch(() => {}), 15000);
  cleanup = () => clearInterval(timer);
  load().then(() => setTimeout(() => main.contains(list) && load().catch(() => {}), 2500)).catch(failed); // the use of the computer is asked when somebody looks
}

// join asks for the join string, says what one agrees to, and joins.
function join(box) {
  const text = h("textarea", { class: "join", id: "join", rows: "3", spellcheck: false, autocomplete: "off" }), answer = h("div"), terms = h("div");
  let looked = "", looks = 0;
  async function look(agree, withLimits) {
    const asked = agree ? looked : text.value.trim(), mine = ++looks; // the text may be another one when the answer comes
    answer.replaceChildren(h("p", { class: "quiet", role: "status" }, t("ui.join.asks")));
    try {
      const o = await ask("POST", "/v1/join", { join: asked, agree, limits: withLimits });
      if (o.joined) { answer.replaceChildren(); return refresh(); }
      if (mine !== looks) return;
      answer.replaceChildren();
      looked = asked;
      const head = h("h2", { tabindex: "-1" }, t("ui.join.lend", o.network_name));
      terms.replaceChildren(head, o.contact ? h("p", {}, contact(o.contact)) : "", h("ul", { class: "terms" }, o.does.map((x) => h("li", {}, x))), h("h2", {}, t("ui.join.uses")),
        h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ui.join.uses") }, h("table", {}, h("tbody", {}, o.uses.map((u) => h("tr", {}, h("th", { scope: "row" }, u.what), h("td", {}, u.how)))))),
        o.proposed.length ? h("p", { class: "quiet" }, t("ui.join.proposed")) : "",
        h("div", { class: "deeds" }, h("button", { type: "button", class: "main", onclick: () => look(true, true) }, t("ui.join.agree")), o.proposed.length ? h("button", { type: "button", onclick: () => look(true, false) }, t("ui.join.nolimits")) : "",
          h("button", { type: "button", onclick: () => { terms.replaceChildren(); looked = ""; text.focus(); } }, t("ui.join.no"))));
      head.focus();
    } catch (e) { if (mine === looks) told(answer, e.message, true); }
  }
  box.append(h("h2", {}, t(box === main ? "ui.join" : "ui.join.more")), h("p", {}, t("ui.join.what")), h("form", { onsubmit: (e) => { e.preventDefault(); look(false); } }, h("label", { for: "join" }, t("ui.join.string")), text, h("button", { class: "main" }, t("ui.join.look"))), answer, terms);
}

// begin draws the page for the first time. Words and the state come at the same time.
async function begin(choice) {
  const first = present ? null : ask("GET", "/v1/now").catch(() => null);
  await speak(choice);
  document.getElementById("langs").replaceChildren(...Object.entries(languages).map(([l, name]) => h("button", { type: "button", lang: l, "aria-pressed": String(l === lang), onclick: () => begin(l) }, name)));
  if (first) present = await first;
  show();
  await refresh();
}
addEventListener("hashchange", () => { show(); main.focus(); });
document.addEventListener("visibilitychange", refresh);
let beats = 0;
const rests = () => present && ["paused", "idle", "draining"].includes(present.state) && !present.running.length; // little changes then
setInterval(() => { if (beats++ % (rests() ? 3 : 1) === 0) refresh(); }, 2000);
begin();
