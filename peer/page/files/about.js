// What this program is and how to get rid of it, for a reader who knows nothing of it.
"use strict";
import { h, t, ask, contact } from "./parts.js";

const remembered = "about"; // in this browser: the reader has folded the text

// about is a part that says what the program does. It is open until the reader folds it. The function that it returns sets for whom.
export function about() {
  const words = h("p"), box = h("details", { class: "about", open: localStorage.getItem(remembered) !== "folded" }, h("summary", {}, t("ui.about")), words, h("p", {}, t("ui.about.never"), " ", t("ui.about.stop")));
  box.addEventListener("toggle", () => localStorage.setItem(remembered, box.open ? "open" : "folded"));
  let said = "";
  return [box, (present) => {
    if (said === present.for + present.contact) return;
    said = present.for + present.contact;
    words.replaceChildren(t("ui.about.does", present.for), ...(present.contact ? [" ", contact(present.contact)] : []));
  }];
}

// removal says how to remove the program from this computer, of this kind.
export function removal() {
  const box = h("details", { class: "about", id: "remove" }, h("summary", {}, t("ui.about.remove")));
  box.addEventListener("toggle", async () => {
    if (!box.open || box.childElementCount > 1) return;
    try {
      const a = await ask("GET", "/v1/about");
      box.append(h("ol", {}, h("li", {}, t("ui.remove.leave"), " ", h("a", { href: "#pause" }, t("ui.pause"))), h("li", {}, ...step(a))));
    } catch (e) { box.append(h("p", { class: "notice" }, e.message)); }
  });
  return box;
}

function step(a) {
  const command = (text) => h("pre", {}, h("code", {}, text)), service = `shoal-peer ${a.system ? "--system " : ""}service uninstall`;
  switch (a.package) {
    case "deb": return [t("ui.remove.deb"), command("sudo apt purge shoal-peer")];
    case "rpm": return [t("ui.remove.rpm", a.folder), command("sudo rpm -e shoal-peer")];
    case "image": return [t("ui.remove.image")];
  }
  if (a.os === "windows") return [t("ui.remove.windows", a.folder, a.program), command(service)];
  return [t("ui.remove.other", a.folder, a.program), command(`${a.system ? "sudo " : ""}${service}`)];
}
