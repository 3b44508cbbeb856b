// Replaces the live parts of a page every two seconds, where the page is visible, no control in them has the focus and no explanation is open;
// asks before what cannot be undone, and adds to forms what says who sends them.
"use strict";
const live = document.getElementById("live");
const busy = () => document.hidden || live.contains(document.activeElement) || document.querySelector("#live [popover]:popover-open, #banner details[open]");
async function refresh() {
  if (!live.isConnected || busy()) return;
  const url = new URL(location.href);
  url.searchParams.set("fragment", "1");
  try {
    const r = await fetch(url, { headers: { Accept: "text/html" } });
    if (!r.ok || r.redirected) throw new Error(r.status);
    const fresh = new DOMParser().parseFromString(await r.text(), "text/html");
    if (busy()) return;
    for (const id of ["banner", "live"]) {
      const now = document.getElementById(id), next = fresh.getElementById(id);
      if (now && next && now.innerHTML !== next.innerHTML) now.replaceChildren(...next.childNodes);
    }
    document.body.classList.remove("stale");
    scrolls();
  } catch {
    document.body.classList.add("stale");
  }
}
// A table that is wider than its place says so.
function scrolls() {
  for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
}
addEventListener("resize", scrolls);
scrolls();
if (live) setInterval(refresh, 2000);
document.addEventListener("click", (e) => {
  const ask = e.target.closest && e.target.closest("[data-confirm]");
  if (ask && !confirm(ask.dataset.confirm)) e.preventDefault();
});
// What changes something shows this browser's half of the session, which a cookie alone does not have.
document.addEventListener("submit", (e) => {
  const form = e.target;
  if (form.getAttribute("method") !== "post") return;
  let key = "";
  try {
    key = localStorage.getItem("key") || "";
  } catch {}
  let field = form.querySelector("input[name=key]");
  if (!field) {
    field = document.createElement("input");
    field.type = "hidden";
    field.name = "key";
    form.append(field);
  }
  field.value = key;
});
