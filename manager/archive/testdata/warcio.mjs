// Reads WARC files with warcio, checks the SHA-256 digests of payloads and blocks, and prints how many records there are of each type. After
// "--", it prints for each URL the key that webrecorder's readers look for.
import { createReadStream } from "node:fs";
import { createHash } from "node:crypto";
import { WARCParser, getSurt } from "warcio";

const sha256 = (...parts) => "sha256:" + parts.reduce((h, p) => h.update(p), createHash("sha256")).digest("hex");
const args = process.argv.slice(2);
const files = args.slice(0, args.indexOf("--"));
const counts = {};
for (const name of files) {
  let n = 0;
  const parser = new WARCParser(createReadStream(name), { keepHeadersCase: true });
  for await (const record of parser) {
    counts[record.warcType] = (counts[record.warcType] || 0) + 1;
    const where = `${name}: ${record.warcTargetURI}`;
    if ((n++ === 0) !== (record.warcType === "warcinfo")) throw new Error(`${name}: record ${n} is ${record.warcType}`);
    const payload = await record.readFully(false);
    if (record.warcType === "response") {
      if (record.warcPayloadDigest !== sha256(payload)) throw new Error(`${where}: ${record.warcPayloadDigest} is not ${sha256(payload)}`);
      const head = record.httpHeaders;
      if (!head || !/^HTTP\/1\.[01]$/.test(head.protocol) || !head.statusCode) throw new Error(`${where}: status line ${head && head.statusline}`);
    }
    if (isNaN(Date.parse(record.warcDate))) throw new Error(`${name}: date ${record.warcDate}`);
  }
}
const order = ["warcinfo", "response", "revisit", "metadata"];
console.log(Object.keys(counts).sort((a, b) => order.indexOf(a) - order.indexOf(b)).map((k) => `${k} ${counts[k]}`).join(", "));
for (const url of args.slice(args.indexOf("--") + 1)) console.log(getSurt(url));
