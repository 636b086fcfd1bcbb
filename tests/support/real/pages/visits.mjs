// Visits pages with a real browser: a job on standard input, one JSON document with what each visit gave.

import { once } from "node:events";
import { createRequire } from "node:module";

process.stdin.setEncoding("utf8");
let text = "";
process.stdin.on("data", (data) => (text += data));
await once(process.stdin, "end");
const job = JSON.parse(text);
const { chromium } = createRequire(`${job.packages}/`)("playwright-core");

const browser = await chromium.launch({ executablePath: job.program, args: job.options });
try {
  const context = await browser.newContext({ permissions: job.permissions });
  context.setDefaultTimeout(job.patience_ms);
  const found = [];
  for (const visit of job.visits) found.push(await make(await context.newPage(), visit));
  process.stdout.write(JSON.stringify(found));
} finally {
  await browser.close();
}

async function make(page, { origin, copied_from: former, does, given }) {
  // The page came from its site while the name meant that; now the same name means the daemon.
  for (const path of former ? ["/", "/client.js"] : []) {
    await page.route(origin + path, async (route) => route.fulfill({ response: await route.fetch({ url: former + path }) }));
  }
  // What servers said, which a page may not always know.
  const answers = [];
  page.on("response", (response) => answers.push([response.request().method(), response.url(), response.status()]));
  await page.goto(`${origin}/`);
  await page.waitForFunction(() => window.isReady);
  const limit = new Promise((_, reject) => setTimeout(() => reject(new Error("not in time")), job.patience_ms).unref());
  const work = page.evaluate(([name, argument]) => window[name](argument), [does, given]);
  const outcome = await Promise.race([work, limit]).then((result) => ({ result }), (error) => ({ error: error.message }));
  return { ...outcome, answers };
}
