// Reads WARC files with warcio, checks the SHA-256 digests of payloads and blocks, and prints how many records there are of each type.
import { createReadStream } from "node:fs";
import { createHash } from "node:crypto";
import { WARCParser } from "warcio";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
function base32(bytes) {
  let out = "", bits = 0, value = 0;
  for (const b of bytes) {
    value = ((value << 8) | b) & 0xffff;
    for (bits += 8; bits >= 5; bits -= 5) out += alphabet[(value >> (bits - 5)) & 31];
  }
  if (bits > 0) out += alphabet[(value << (5 - bits)) & 31];
  return out + "=".repeat((8 - (out.length % 8)) % 8);
}

const counts = {};
for (const name of process.argv.slice(2)) {
  let n = 0;
  const parser = new WARCParser(createReadStream(name));
  for await (const record of parser) {
    counts[record.warcType] = (counts[record.warcType] || 0) + 1;
    if ((n++ === 0) !== (record.warcType === "warcinfo")) throw new Error(`${name}: record ${n} is ${record.warcType}`);
    const payload = await record.readFully(false);
    if (record.warcType === "response") {
      const digest = "sha256:" + base32(createHash("sha256").update(payload).digest());
      if (record.warcPayloadDigest !== digest) throw new Error(`${name}: ${record.warcTargetURI}: ${record.warcPayloadDigest} is not ${digest}`);
      if (!record.httpHeaders || !record.httpHeaders.statusCode) throw new Error(`${name}: ${record.warcTargetURI}: no HTTP header`);
    }
    if (isNaN(Date.parse(record.warcDate))) throw new Error(`${name}: date ${record.warcDate}`);
  }
}
console.log(Object.entries(counts).map(([k, v]) => `${k} ${v}`).sort((a, b) => order(a) - order(b)).join(", "));
function order(s) { return ["warcinfo", "response", "revisit", "metadata"].indexOf(s.split(" ")[0]); }
