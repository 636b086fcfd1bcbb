// What a page does without any library: fetch, streams and EventSource; and once with the official client. Each function
// on `window` is one visit.

const MODERN = "2026-07-28";
const LEGACY = "2025-11-25";
const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";

function headers(token, more) {
  return {
    Accept: "application/json, text/event-stream",
    "Content-Type": "application/json",
    ...(token && { Authorization: `Bearer ${token}` }),
    ...more,
  };
}

// The messages of an answer, one by one, whether it is a stream or a body.
async function* messages(response) {
  if (!response.headers.get("Content-Type").startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  let text = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    text += piece;
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice("data: ".length));
    }
  }
}

async function all(response) {
  const found = [];
  for await (const message of messages(response)) found.push(message);
  return found;
}

function modernRequest(token, method, params = {}) {
  const body = { ...params, _meta: { ...params._meta, [VERSION_KEY]: MODERN, [CAPABILITIES_KEY]: {} } };
  const named = params.name && { "Mcp-Name": params.name };
  return {
    method: "POST",
    headers: headers(token, { "MCP-Protocol-Version": MODERN, "Mcp-Method": method, ...named }),
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: body }),
  };
}

// --- what pages do that may

// Requests of the modern era, each whole in itself; the last one stays open until it has told what it is to tell.
window.modern = async ({ url, token, call, change }) => {
  const post = (method, params) => fetch(url, modernRequest(token, method, params));
  const [listed] = await all(await post("tools/list"));
  const called = await all(await post("tools/call", { ...call, _meta: { progressToken: "p" } }));
  const told = [];
  for await (const message of messages(await post("subscriptions/listen", { notifications: { toolsListChanged: true } }))) {
    told.push(message.method);
    if (told.length === 1) await all(await post("tools/call", change));
    if (told.length === 2) break;
  }
  return { tools: listed.result.tools.map((tool) => tool.name), called, told };
};

// A session: its id is in a header of the answer, which a page can read only where the server says so.
window.legacy = async ({ url, token, call, change }) => {
  const opening = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: "page", version: "1" } };
  let session = {};
  const post = (message) =>
    fetch(url, { method: "POST", headers: headers(token, session), body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  const first = await post({ id: 0, method: "initialize", params: opening });
  session = { "Mcp-Session-Id": first.headers.get("Mcp-Session-Id"), "MCP-Protocol-Version": LEGACY };
  const [{ result }] = await all(first);
  const accepted = (await post({ method: "notifications/initialized" })).status;
  const stream = await fetch(url, { headers: headers(token, session) });
  const [listed] = await all(await post({ id: 1, method: "tools/list" }));
  const called = await all(await post({ id: 2, method: "tools/call", params: { ...call, _meta: { progressToken: "p" } } }));
  await all(await post({ id: 3, method: "tools/call", params: change }));
  const told = [];
  for await (const message of messages(stream)) {
    told.push(message.method);
    break;
  }
  const ended = (await fetch(url, { method: "DELETE", headers: headers(token, session) })).status;
  const tools = listed.result.tools.map((tool) => tool.name);
  return { version: result.protocolVersion, accepted, tools, called, told, ended };
};

// HTTP+SSE by the browser's own EventSource, which cannot send a token.
window.old = async ({ url, call }) => {
  const source = new EventSource(url);
  const next = (name) =>
    new Promise((resolve, reject) => {
      source.addEventListener(name, (event) => resolve(event.data), { once: true });
      source.addEventListener("error", () => reject(new Error("the stream was refused")), { once: true });
    });
  try {
    const address = new URL(await next("endpoint"), url);
    const ask = async (message) => {
      const answer = next("message");
      await fetch(address, { method: "POST", headers: headers(), body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
      return JSON.parse(await answer);
    };
    const opening = { protocolVersion: "2024-11-05", capabilities: {}, clientInfo: { name: "page", version: "1" } };
    const { result } = await ask({ id: 0, method: "initialize", params: opening });
    const called = await ask({ id: 1, method: "tools/call", params: call });
    return { version: result.protocolVersion, called };
  } finally {
    source.close();
  }
};

// The official client, which finds out by itself which era there is unless `mode` says so.
window.official = async ({ url, token, call, change, mode }) => {
  const { Client, StreamableHTTPClientTransport } = await import("/sdk.js");
  const client = new Client({ name: "page", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: headers(token) } }));
  const { tools } = await client.listTools();
  const progress = [];
  const called = await client.callTool(call, { onprogress: (each) => progress.push(each.progress) });
  const changed = new Promise((resolve) => client.setNotificationHandler("notifications/tools/list_changed", resolve));
  if (mode === "auto") await client.listen({ toolsListChanged: true });
  await client.callTool(change);
  const told = [(await changed).method];
  const version = client.getNegotiatedProtocolVersion();
  await client.close();
  return { version, tools: tools.map((tool) => tool.name), progress, text: called.content[0].text, told };
};

// One request; what came of it, and whether the page could read it.
window.ask = async ({ url, token, method, params }) => {
  const response = await fetch(url, modernRequest(token, method, params));
  return { status: response.status, wants: response.headers.get("WWW-Authenticate"), body: await response.json() };
};

// --- what pages do that may not: everything that a browser sends without asking first

window.slip = async ({ base, messages: bodies }) => {
  const url = `${base}/mcp`;
  const outcomes = {};
  for (const [name, body] of Object.entries(bodies)) {
    outcomes[`${name} without cors`] = await fetch(url, { method: "POST", mode: "no-cors", body }).then((seen) => seen.type, String);
    outcomes[`${name} by a form`] = await byForm(url, body);
  }
  for (const path of ["/mcp", "/sse", "/status"]) {
    outcomes[`${path} as a picture`] = await byElement("img", base + path);
    outcomes[`${path} as a script`] = await byElement("script", base + path);
    outcomes[`${path} without cors`] = await fetch(base + path, { mode: "no-cors" }).then((seen) => seen.type, String);
  }
  return outcomes;
};

// A form whose one field's name and value are the message around the "=": the oldest way to post any text anywhere.
function byForm(url, body) {
  const [name, value] = [`${body.slice(0, -1)},"x":"`, '"}'];
  const frame = Object.assign(document.createElement("iframe"), { name: "target" });
  const form = Object.assign(document.createElement("form"), { action: url, method: "post", enctype: "text/plain", target: "target" });
  form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  document.body.append(frame, form);
  return new Promise((resolve) => {
    frame.addEventListener("load", () => {
      frame.remove();
      form.remove();
      resolve("sent");
    });
    form.submit();
  });
}

function byElement(kind, src) {
  return new Promise((resolve) => {
    const element = document.createElement(kind);
    element.addEventListener("load", () => resolve("loaded"));
    element.addEventListener("error", () => resolve("refused"));
    element.src = src;
    document.body.append(element);
  });
}

window.isReady = true;
