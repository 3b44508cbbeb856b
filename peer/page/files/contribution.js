// What this computer brought: what it counted itself, what the company's server counts, how far that believes it, and what it holds against it.
"use strict";
import { h, t, ask, num, size, day, when, told, ranges } from "./parts.js";

const askAgain = 5000; // ms, after a question that was not answered

const fact = (name, value, more) => h("div", {}, h("dt", {}, t(name)), h("dd", {}, value, more ? h("small", {}, more) : null));

let chosen = ""; // among several networks, also when the view is drawn again

// contribution draws the view. present tells what happens now; the view returns what is to be done when that changes, and when the view is left.
export function contribution(main, present) {
  const facts = h("dl", { class: "facts" }), own = h("dl", { class: "facts" }), weeks = h("div"), standing = h("div"), board = h("div"), paper = h("div"), box = h("div", { class: "picture" }), answer = h("div");
  let urls = [], unanswered = 0; // when the last question failed
  // A computer that crawls for several networks has an account, a standing and a board in each.
  const all = present()?.networks || [];
  let network = all.length > 1 ? (all.find((n) => n.network === chosen) || all[0]).network : "";
  const choice = all.length > 1 ? h("p", {}, t("ui.credit.network"), " ", ranges(t("ui.credit.network"), all.map((n) => [n.network, n.name]), network, (n) => { network = chosen = n; for (const b of [standing, board, paper]) b.replaceChildren(); load(); })) : "";
  const link = (text, type) => { urls.push(URL.createObjectURL(new Blob([text], { type }))); return urls[urls.length - 1]; };

  async function load() {
    const asked = network; // an answer that comes after the choice of another one is nobody's
    let s;
    unanswered = 0;
    try { s = await ask("GET", `/v1/standing?network=${asked}`); } catch (e) {
      if (network !== asked) return;
      unanswered = Date.now();
      if (standing.textContent !== e.message) told(standing, e.message, true);
      return;
    }
    if (network !== asked) return;
    const c = s.credit;
    held(s);
    if (!c) { facts.replaceChildren(); weeks.replaceChildren(h("p", { class: "quiet" }, t("ui.credit.none"))); return; }
    facts.replaceChildren(fact("ui.verified", num(c.pages), c.withheld ? t("ui.withheld") : ""), fact("ui.verified.size", size(c.bytes)), fact("ui.rank", c.rank ? num(c.rank) : "–", c.rank ? t("ui.rank.of", num(c.ranked)) : ""),
      fact("ui.team", c.profile.team || "–", c.team_rank ? t(c.team_pages === 1 ? "ui.team.rank.one" : "ui.team.rank", num(c.team_rank), num(c.teams), num(c.team_pages)) : ""));
    weeks.replaceChildren(c.weeks.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("ui.weeks") }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("ui.week")), h("th", { class: "n", scope: "col" }, t("ui.verified")), h("th", { class: "n", scope: "col" }, t("ui.size")))),
      h("tbody", {}, c.weeks.map((w) => h("tr", {}, h("th", { scope: "row" }, w.week), h("td", { class: "n" }, num(w.pages)), h("td", { class: "n" }, size(w.bytes))))))) : h("p", { class: "quiet" }, t("ui.noweeks")));
    shown(c);
    certify(c);
  }

  // held shows how far the server believes this peer, and each case, to which the volunteer can object once.
  function held(s) {
    const words = { newcomer: "ui.standing.newcomer", established: "ui.standing.established", suspended: "ui.standing.suspended", banned: "ui.standing.banned", unknown: "ui.standing.unknown" };
    const works = s.standing === "newcomer" || s.standing === "established", doubt = s.enforced ? "ui.standing.doubt" : "ui.standing.doubt.shadow";
    const word = works && s.credit && s.credit.withheld ? "ui.standing.account" : works && s.waits ? "ui.standing.waits" : works && s.suspect ? doubt : words[s.standing];
    standing.replaceChildren(h("p", {}, word ? t(word) : s.standing), s.standing === "unknown" ? "" : h("p", { class: "quiet" }, t(s.enforced ? "ui.score" : "ui.score.shadow", num(s.score, 1), num(s.suspend_at, 1)), s.score < s.held.reduce((n, k) => n + k.amount, 0) - 0.05 ? ` ${t("ui.score.fallen")}` : ""),
      s.held.length ? h("h3", {}, t("ui.held.cases")) : h("p", { class: "quiet" }, t("ui.held.none")), ...s.held.map(one), s.more ? h("p", { class: "quiet" }, t(s.more === 1 ? "ui.held.more.one" : "ui.held.more", num(s.more))) : "");
  }
  // why says a case's reason in the volunteer's language, if it is one of those that this program knows; the server tells it in English.
  function why(reason) {
    const reasons = { "lost audit": "ui.reason.audit", "lost check": "ui.reason.check", reverted: "ui.reason.reverted", contradicted: "ui.reason.contradicted", "implausibly unchanged": "ui.reason.unchanged", "nothing changed": "ui.reason.nothing", slandered: "ui.reason.slandered" };
    const kind = reason.split(":")[0];
    return Object.hasOwn(reasons, kind) ? t(reasons[kind]) : reason.replace(/\.$/, "");
  }
  function one(k) {
    const text = h("textarea", { id: `object-${k.case}`, rows: "2", maxlength: "900", required: true }), said = h("div");
    const form = h("form", { onsubmit: async (e) => {
      e.preventDefault();
      try { await ask("POST", "/v1/do/object", { case: k.case, text: text.value, network }); } catch (err) { told(said, err.message, true); return; }
      load();
    } }, h("label", { for: text.id }, t("ui.object")), text, h("button", {}, t("ui.object.send")), said);
    return h("section", { class: "preview" }, h("p", { class: "url" }, h("b", {}, k.url)), h("p", {}, t("ui.case", why(k.reason), num(k.amount, 1))), h("p", { class: "quiet" }, `${when(k.ruled)} · ${k.case}`),
      k.objection ? h("p", {}, t("ui.objected", k.objection)) : form);
  }

  // shown lets the volunteer choose what the network's public board shows.
  function shown(c) {
    if (board.contains(document.activeElement)) return;
    const name = h("input", { type: "text", id: "nickname", value: c.profile.nickname, maxlength: "40", autocomplete: "off" }), team = h("input", { type: "text", id: "team", value: c.profile.team, maxlength: "40", autocomplete: "off" }), open = h("input", { type: "checkbox", id: "public", checked: c.profile.public }), said = h("div");
    const save = h("button", { class: "main" }, t("ui.board.save")); // one request at a time: the server refuses changes that follow at once
    board.replaceChildren(h("p", { class: "quiet" }, t("ui.board.what")), h("form", { onsubmit: async (e) => {
      e.preventDefault();
      save.disabled = true;
      const asked = network;
      try { await ask("POST", "/v1/do/profile", { nickname: name.value, team: team.value, public: open.checked ? "yes" : "", network }); } catch (err) { told(said, err.message, true); return; } finally { save.disabled = false; }
      told(said, t(open.checked ? "ui.board.on" : "ui.board.off"));
      if (network === asked) certify({ profile: { nickname: name.value } });
    } }, h("div", { class: "field" }, h("label", { for: "nickname" }, t("ui.nickname")), name), h("div", { class: "field" }, h("label", { for: "team" }, t("ui.team")), team),
    h("div", { class: "field" }, h("label", { for: "public" }, t("ui.public")), h("span", {}, open)), h("div", { class: "deeds" }, save, c.board ? h("a", { href: c.board, rel: "noreferrer", target: "_blank" }, t("ui.board.open")) : ""), said));
  }

  // certify asks for a certificate of contribution, which others can check. The form stays as it is once it is there, with the certificate that it got or waits for; a name that was not typed follows the nickname.
  let holder = null, given = "";
  function certify(c) {
    if (holder && paper.contains(holder)) {
      if (holder.value === given && holder !== document.activeElement) holder.value = given = c.profile.nickname;
      return;
    }
    given = c.profile.nickname;
    const name = holder = h("input", { type: "text", id: "holder", value: c.profile.nickname, maxlength: "40", autocomplete: "off" }), said = h("div");
    paper.replaceChildren(h("p", { class: "quiet" }, t("ui.certificate.what")), h("form", { onsubmit: async (e) => {
      e.preventDefault();
      let text;
      try { text = await ask("GET", `/v1/certificate?network=${network}&name=${encodeURIComponent(name.value)}`); } catch (err) { told(said, err.message, true); return; }
      said.replaceChildren(h("p", { class: "said", role: "status" }, h("a", { href: link(text, "text/plain"), download: "shoal-certificate.txt" }, t("ui.certificate.save"))), h("textarea", { class: "report", readonly: "", "aria-label": t("ui.certificate") }));
      said.lastChild.value = text;
    } }, h("div", { class: "field" }, h("label", { for: "holder" }, t("ui.certificate.name")), name), h("div", { class: "deeds" }, h("button", {}, t("ui.certificate.get"))), said));
  }

  main.append(h("h2", {}, t("ui.contribution")), choice, facts, weeks, h("h2", {}, t("ui.standing")), standing, h("h2", {}, t("ui.board")), board, h("h2", {}, t("ui.certificate")), paper,
    h("h2", {}, t("ui.own")), h("p", { class: "quiet" }, t("ui.own.what")), own, h("h2", {}, t("ui.picture")), h("p", { class: "quiet" }, t("ui.picture.what")), box, answer);
  ask("GET", "/v1/picture").then((svg) => {
    const at = link(svg, "image/svg+xml");
    const pages = present() ? present().done.ever.pages : 0;
    box.replaceChildren(h("img", { src: at, alt: t(pages === 1 ? "ui.picture.alt.one" : "ui.picture.alt", num(pages)) }), h("p", {}, h("a", { href: at, download: "shoal.svg" }, t("ui.picture.save"))));
  }, (e) => told(answer, e.message, true));
  load();
  return [() => {
    if (!present()) return;
    if (unanswered && Date.now() - unanswered > askAgain) load(); // a peer that has just started has not met its server yet
    const d = present().done.ever;
    own.replaceChildren(fact("ui.pages", num(d.pages)), fact("ui.updated", num(d.tasks_updated)), fact("ui.carried", size(d.bytes)), fact("ui.sincewhen", present().done.since ? day(present().done.since) : ""));
  }, () => urls.forEach((u) => URL.revokeObjectURL(u))];
}
