// Plays the scenario with a TypeScript client. What differs between the two packages is in an adapter:
// `connect(job)` gives {client, isModern, opening}, `onRequest` and `onNotification` register handlers.

import { createInterface } from "node:readline";

const LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel";
const ABILITIES = {
  "elicitation/create": { elicitation: { form: {}, url: {} } },
  "sampling/createMessage": { sampling: {} },
  "roots/list": { roots: { listChanged: true } },
};
const NOTICES = { "notifications/resources/updated": "resource", "notifications/tools/list_changed": "tools" };

export const INFO = { name: "typescript-player", version: "1" };

// A client can answer what the scenario has answers for.
export function capabilities(job) {
  return Object.assign({}, ...Object.keys(job.scenario?.answers ?? {}).map((method) => ABILITIES[method]));
}

// The transport to the job's server: a command, or an address with headers, perhaps on a Unix socket.
export function transport(job, load, { Stdio, Http, Sse }) {
  const { url, headers, socket, is_old: isOld } = job.server;
  if (!url) return new Stdio({ ...job.server, stderr: "inherit" });
  const { Agent, fetch } = load("undici");
  const dispatcher = new Agent({ connect: { socketPath: socket ?? undefined } });
  const options = { requestInit: { headers }, fetch: (where, init) => fetch(where, { ...init, dispatcher }) };
  return new (isOld ? Sse : Http)(new URL(url), options);
}

class Player {
  constructor(adapter, job) {
    this.adapter = adapter;
    this.client = adapter.client;
    this.scenario = job.scenario;
    this.timeout = job.scenario.patience_seconds * 1000;
    this.wakers = new Set();
    this.step = {};
    this.seen = {};
    for (const method of Object.keys(job.scenario.answers)) adapter.onRequest(method, (request) => this.answer(method, request.params));
    for (const [method, kind] of Object.entries(NOTICES)) {
      // Servers send bursts of them at their start; what counts is what the step waits for.
      adapter.onNotification(method, ({ params }) => {
        if (this.step.watch?.[kind]) this.see("notices", params?.uri ? { method, uri: params.uri } : { method });
      });
    }
    adapter.onNotification("notifications/message", ({ params }) => this.see("logs", params));
  }

  async play() {
    const opening = await this.adapter.connect();
    const steps = {};
    for (const step of this.scenario.steps) steps[step.name] = await this.playStep(step);
    await this.client.close();
    return { opening, steps };
  }

  async playStep(step) {
    this.step = step;
    this.seen = { progress: [], logs: [], notices: [], questions: [] };
    const undo = await this.prepare(step);
    try {
      this.seen.result = await this[step.do](step);
    } catch (error) {
      this.seen.error = { code: error.code, message: error.message, ...(error.data === undefined ? {} : { data: error.data }) };
    }
    for (const [kind, number] of Object.entries(step.await ?? {})) {
      await this.until(() => this.seen[kind].length >= number, `${number} ${kind} of ${step.name}`);
    }
    await undo();
    return Object.fromEntries(Object.entries(this.seen).filter(([, value]) => !Array.isArray(value) || value.length));
  }

  // What has to be arranged before the step; returns what undoes it.
  async prepare(step) {
    const { resource, tools } = step.watch ?? {};
    if (step.level && !this.adapter.isModern()) await this.client.setLoggingLevel(step.level);
    if (step.watch && this.adapter.isModern()) {
      const filter = { ...(tools && { toolsListChanged: true }), ...(resource && { resourceSubscriptions: [resource] }) };
      const subscription = await this.client.listen(filter);
      return () => subscription.close();
    }
    if (resource) {
      await this.client.subscribeResource({ uri: resource });
      return () => this.client.unsubscribeResource({ uri: resource });
    }
    return () => {};
  }

  see(kind, what) {
    this.seen[kind].push(what);
    for (const wake of this.wakers) wake();
  }

  // Waits for what comes in notifications, which may be handled after the answer that they came before.
  until(condition, what) {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => done(() => reject(new Error(`not in time: ${what}`))), this.timeout);
      const wake = () => condition() && done(resolve);
      const done = (settle) => {
        clearTimeout(timer);
        this.wakers.delete(wake);
        settle();
      };
      this.wakers.add(wake);
      wake();
    });
  }

  answer(method, params) {
    this.see("questions", { [method]: params ?? {} });
    const answer = { ...this.scenario.answers, ...this.step.answers }[method];
    return method === "elicitation/create" ? answer[params.message] : answer;
  }

  options() {
    return { timeout: this.timeout * 2 };
  }

  watched() {
    return { ...this.options(), onprogress: ({ progress, total, message }) => this.see("progress", [progress, total, message]) };
  }

  // --- what steps do

  list({ what }) {
    const ways = { tools: "listTools", resources: "listResources", templates: "listResourceTemplates", prompts: "listPrompts" };
    return this.client[ways[what]](undefined, this.options());
  }

  call(step) {
    const meta = { ...step.meta, ...(step.level && this.adapter.isModern() && { [LOG_LEVEL_KEY]: step.level }) };
    const params = { name: step.tool, arguments: step.arguments, ...(Object.keys(meta).length && { _meta: meta }) };
    const call = this.adapter.callTool(params, step.progress ? this.watched() : this.options());
    return step.release ? this.released(step, call) : call;
  }

  // A second call ends the first, when that one has said enough.
  async released(step, call) {
    await this.until(() => this.seen.progress.length >= step.progress, `progress of ${step.name}`);
    await this.adapter.callTool({ name: step.release, arguments: {} }, this.options());
    return call;
  }

  async cancel(step) {
    const controller = new AbortController();
    const call = this.adapter.callTool(
      { name: step.tool, arguments: step.arguments },
      { ...this.watched(), signal: controller.signal },
    );
    const end = call.then(() => false, () => true);
    await this.until(() => this.seen.progress.length, `progress of ${step.name}`);
    controller.abort("enough");
    return { cancelled: await end };
  }

  read({ uri }) {
    return this.client.readResource({ uri }, this.options());
  }

  prompt(step) {
    return this.client.getPrompt({ name: step.prompt, arguments: step.arguments }, this.options());
  }

  complete(step) {
    const context = step.context && { context: { arguments: step.context } };
    return this.client.complete({ ref: step.ref, argument: step.argument, ...context }, this.options());
  }
}

// Calls the tools that further lines of standard input name, for a job without a scenario; prints a line for each.
// The first one has the tools. A result that does not fit its output schema is an error of the package itself.
async function serveCalls(adapter, lines) {
  const tell = (document) => process.stdout.write(`${JSON.stringify(document)}\n`);
  const opening = await adapter.connect();
  tell({ opening, ...(await adapter.client.listTools()) });
  for await (const line of lines) {
    try {
      tell({ result: await adapter.callTool(JSON.parse(line), {}) });
    } catch (error) {
      tell({ error: error.message });
    }
  }
  await adapter.client.close();
}

// Reads the job from the first line of standard input, plays it with the adapter made for it, prints one JSON document.
export async function main(makeAdapter) {
  const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  const job = JSON.parse((await lines.next()).value);
  const adapter = makeAdapter(job);
  if (!job.scenario) return serveCalls(adapter, lines);
  const document = await new Player(adapter, job).play();
  process.stdout.write(JSON.stringify(document));
}
