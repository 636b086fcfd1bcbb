// The scenario with @modelcontextprotocol/sdk 1.x, which knows the era with a handshake only.

import { createRequire } from "node:module";
import { capabilities, INFO, main, transport } from "./player.mjs";

await main((job) => {
  const load = createRequire(`${job.packages}/`);
  const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport: Stdio } = load("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport: Http } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const { SSEClientTransport: Sse } = load("@modelcontextprotocol/sdk/client/sse.js");
  const types = load("@modelcontextprotocol/sdk/types.js");
  const schemas = {
    "elicitation/create": types.ElicitRequestSchema,
    "sampling/createMessage": types.CreateMessageRequestSchema,
    "roots/list": types.ListRootsRequestSchema,
    "notifications/message": types.LoggingMessageNotificationSchema,
    "notifications/resources/updated": types.ResourceUpdatedNotificationSchema,
    "notifications/tools/list_changed": types.ToolListChangedNotificationSchema,
  };
  const client = new Client(INFO, { capabilities: capabilities(job) });
  return {
    client,
    isModern: () => false,
    onRequest: (method, handler) => client.setRequestHandler(schemas[method], handler),
    onNotification: (method, handler) => client.setNotificationHandler(schemas[method], handler),
    callTool: (params, options) => client.callTool(params, undefined, options),
    connect: async () => {
      const wire = transport(job, load, { Stdio, Http, Sse });
      const told = wire.setProtocolVersion?.bind(wire);
      let protocolVersion = null;
      wire.setProtocolVersion = (version) => {
        protocolVersion = version;
        told?.(version);
      };
      await client.connect(wire);
      return { protocolVersion, capabilities: client.getServerCapabilities(), instructions: client.getInstructions() };
    },
  };
});
