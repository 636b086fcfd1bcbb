// The scenario with @modelcontextprotocol/client 2.x, which knows both eras: `job.mode` is `auto` or `legacy`.

import { createRequire } from "node:module";
import { capabilities, INFO, main, transport } from "./player.mjs";

await main((job) => {
  const load = createRequire(`${job.packages}/`);
  const { Client, SSEClientTransport: Sse, StreamableHTTPClientTransport: Http } = load("@modelcontextprotocol/client");
  const { StdioClientTransport: Stdio } = load("@modelcontextprotocol/client/stdio");
  const client = new Client(INFO, { capabilities: capabilities(job), versionNegotiation: { mode: job.mode } });
  return {
    client,
    isModern: () => client.getNegotiatedProtocolVersion() >= "2026",
    onRequest: (method, handler) => client.setRequestHandler(method, handler),
    onNotification: (method, handler) => client.setNotificationHandler(method, handler),
    callTool: (params, options) => client.callTool(params, options),
    connect: async () => {
      await client.connect(transport(job, load, { Stdio, Http, Sse }));
      return {
        protocolVersion: client.getNegotiatedProtocolVersion(),
        capabilities: client.getServerCapabilities(),
        instructions: client.getInstructions(),
      };
    },
  };
});
