// Replays captures with wabac, as ReplayWeb.page does: it loads a CDXJ index from a URL, and from beside it the WARC files that the index names.
// The second argument is a JSON file: captures with what each must be replayed as. It prints how many were.
import "fake-indexeddb/auto";
import { readFileSync } from "node:fs";
import { createHash } from "node:crypto";

globalThis.self ??= globalThis;
globalThis.location ??= new URL("http://localhost/");
const log = console.log;
console.log = () => {}; // wabac's own words
const { WorkerLoader } = await import("@webrecorder/wabac/swlib");

const [index, file] = process.argv.slice(2);
const loader = new WorkerLoader({ addEventListener() {}, postMessage() {} });
await loader._init_db;
const coll = await loader.addCollection({ name: "shoal", file: { sourceUrl: index } }, (percent, problem) => {
  if (problem) throw new Error(problem);
});
if (!coll) throw new Error("the index was not loaded");
const db = (await loader.loadColl("shoal")).store;

let replayed = 0;
const wrong = [];
for (const want of JSON.parse(readFileSync(file))) {
  const request = { url: want.url, timestamp: want.timestamp, request: { method: "GET", referrer: "", headers: new Headers() }, method: "GET" };
  try {
    const got = await db.getResource(request, "", null, {});
    if (!got) throw new Error("not found");
    const body = await got.getBuffer();
    const sum = createHash("sha256").update(body || "").digest("hex");
    const mime = (got.headers.get("content-type") || "").split(";")[0];
    if (got.status !== want.status || sum !== want.sha256 || mime !== want.mime) throw new Error(`status ${got.status}, ${mime}, ${body && body.length} bytes`);
    replayed++;
  } catch (err) {
    wrong.push(`${want.timestamp} ${want.url} (${want.what}): ${err.message}`);
  }
}
log(`replayed ${replayed}`);
for (const w of wrong) log(w);
process.exit(wrong.length ? 1 : 0);
