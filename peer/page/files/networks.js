// The networks that this computer works for: what each does, its share of the limits, and how to leave or join one.
"use strict";
import { h, t, ask, num, size, mib, part, told, contact } from "./parts.js";

// networks draws the view. order makes a button that gives an order, join draws the form to join one more. It returns what to do with each new state.
export function networks(main, order, join) {
  const list = h("div"), answer = h("div"), more = h("div");
  let shown = "", boxes = [];

  // one is a network's box; its parts that change are set by update.
  function one(n, alone) {
    const says = h("p", { class: "says", role: "status" }), deeds = h("div", { class: "deeds" }), facts = h("dl", { class: "facts" });
    const weight = h("input", { type: "number", min: 1, max: 1000, step: 1, inputmode: "numeric", value: n.weight, id: `share-${n.network}` });
    async function save(e) {
      e.preventDefault();
      try {
        await ask("POST", "/v1/do/share", { network: n.network, weight: weight.value.trim() });
        told(answer, t("ui.share.saved", n.name));
      } catch (err) { told(answer, err.message, true); }
    }
    const share = alone ? "" : h("form", { class: "search", onsubmit: save }, h("div", {}, h("label", { for: weight.id }, t("ui.share")), weight), h("button", {}, t("ui.save")), h("p", { class: "quiet" }, t("ui.share.what")));
    const fact = (name, ...value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    const small = (text) => h("small", {}, text);
    let mode = "";
    function update(x) {
      says.className = `says ${x.state}`;
      if (says.textContent !== x.says) says.textContent = x.says;
      const used = (bytes, of) => (of ? mib(bytes / 2 ** 20) : size(bytes)), most = (n) => small(n ? t("ui.ofmost", mib(n)) : t("amount.none"));
      facts.replaceChildren(fact(t("ui.sites"), t("ui.ofsites", num(x.running), num(x.threads))), fact(t("ui.pages.today"), num(x.today_pages), small(t("ui.pages.ever", num(x.ever_pages)))), fact(t("ui.today"), used(x.today_bytes, x.day_mib), most(x.day_mib)), fact(t("ui.month"), used(x.month_bytes, x.month_mib), most(x.month_mib)),
        alone ? "" : fact(t("ui.share.now"), part(x.share)));
      if (x.mode === mode) return;
      mode = x.mode;
      const network = x.network, had = deeds.contains(document.activeElement);
      deeds.replaceChildren(mode === "open" ? order("pause", { network }, t("ui.pausetill")) : order("resume", { network }, t("ui.resume"), "main"),
        order("leave", { network, forget: "yes" }, t("ui.leave"), "grave", t("ui.leave.one.sure", x.name)));
      if (had) deeds.firstElementChild.focus();
    }
    const name = h("span", {}, n.name);
    return { box: h("fieldset", {}, h("legend", {}, name), says, n.contact ? h("p", { class: "quiet" }, contact(n.contact)) : "", facts, share, deeds, h("p", { class: "quiet id" }, n.network)), update };
  }

  main.append(h("h2", {}, t("ui.networks")), h("p", { class: "quiet" }, t("ui.networks.what")), answer, list, more);
  join(more);
  return (present) => {
    if (!present) return;
    const key = JSON.stringify(present.networks.map((n) => [n.network, n.name]));
    if (key !== shown) {
      if (shown) { more.replaceChildren(); join(more); } // a network has come or gone
      shown = key;
      boxes = present.networks.map((n) => one(n, present.networks.length === 1));
      list.replaceChildren(...boxes.map((b) => b.box));
    }
    present.networks.forEach((n, i) => boxes[i].update(n));
  };
}
