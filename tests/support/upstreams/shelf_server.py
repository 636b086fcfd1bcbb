"""A legacy server with everything twice, for one role and for another: tools, prompts, resources, a template.

Tools `open` and `secret`, prompts `open` and `secret`, resources `shelf://open` and `shelf://secret`, the template
`shelf://{name}`, subscriptions, completion, and the method `shelf/count` of its own.
"""

import stdio

NAMES = ("open", "secret")
LISTS = {
    "tools/list": {"tools": [stdio.described(name, readOnlyHint=True) for name in NAMES]},
    "prompts/list": {"prompts": [{"name": name, "arguments": [{"name": "word"}]} for name in NAMES]},
    "resources/list": {"resources": [{"uri": f"shelf://{name}", "name": name} for name in NAMES]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "shelf://{name}", "name": "any"}]},
}
CAPABILITIES = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}, "logging": {}}


def answered(request: stdio.Message) -> stdio.Message | None:
    """The answer to a request; None for a notification."""
    method, params = request.get("method", ""), request.get("params") or {}
    if "id" not in request:
        return None
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "shelf", "version": "1"}
        return stdio.result(request, {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info})
    if method in LISTS:
        return stdio.result(request, LISTS[method])
    if method == "tools/call":
        return stdio.result(request, stdio.text(params["name"]))
    if method == "prompts/get":
        message = {"role": "user", "content": {"type": "text", "text": params["name"]}}
        return stdio.result(request, {"messages": [message]})
    if method == "resources/read":
        return stdio.result(request, {"contents": [{"uri": params["uri"], "text": params["uri"]}]})
    if method == "completion/complete":
        return stdio.result(request, {"completion": {"values": ["word"]}})
    if method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel", "shelf/count"):
        return stdio.result(request, {})
    return stdio.error(request, -32601, f"unknown method: {method}")


def main() -> None:
    """Answer until stdin ends."""
    for request in stdio.messages():
        stdio.send_if(answered(request))


main()
