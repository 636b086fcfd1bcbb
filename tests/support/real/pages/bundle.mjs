// Makes one file for browsers of the official client: `node bundle.mjs PACKAGES FOLDER` writes `index.js` there.

import { createRequire } from "node:module";

const [packages, dir] = process.argv.slice(2);
const { build } = createRequire(`${packages}/`)("rolldown");
await build({
  input: "@modelcontextprotocol/client",
  cwd: packages,
  platform: "browser",
  output: { dir, format: "es", codeSplitting: false },
});
