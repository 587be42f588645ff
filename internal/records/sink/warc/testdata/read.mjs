// Reads an archive with warcio and prints each of its records as a line of JSON.
// Usage: node read.mjs PATH-OF-WARCIO/dist/index.js ARCHIVE
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pathToFileURL } from "node:url";

const [warcio, archive] = process.argv.slice(2);
const { WARCParser } = await import(pathToFileURL(warcio));

// RFC 4648, without padding: a SHA-1 needs none.
function base32(bytes) {
  let bits = "";
  for (const b of bytes) bits += b.toString(2).padStart(8, "0");
  return bits.replace(/.{5}/g, (five) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[parseInt(five, 2)]);
}

const parser = new WARCParser(createReadStream(archive));
for await (const record of parser) {
  const payload = (await record.readFully(false)) ?? new Uint8Array();
  console.log(JSON.stringify({
    Fields: Object.fromEntries([...record.warcHeaders.headers].map(([k, v]) => [k.toLowerCase(), v])),
    Offset: parser.offset,
    Status: Number(record.httpHeaders?.statusCode ?? 0),
    HTTP: Object.fromEntries([...(record.httpHeaders?.headers ?? [])].map(([k, v]) => [k.toLowerCase(), v])),
    Payload: base32(createHash("sha1").update(payload).digest()),
    Size: payload.length,
  }));
}
