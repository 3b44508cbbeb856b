// Keeps this browser's half of the session, which it shows to this address and port alone, and goes on.
"use strict";
try {
  localStorage.setItem("key", document.querySelector("meta[name=key]").content);
} catch {} // without a storage it can look
addEventListener("load", () => location.replace(document.querySelector("main a").href));
