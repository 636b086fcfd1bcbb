"""A coding agent for tests: it speaks the Agent Client Protocol on stdin and stdout, and does what its prompt says.

    echo_agent.py [--no-load] [--resume] [--modes] [--config-modes] [--models METHOD] [--auth METHOD] [--state FILE]
                  [--ignore-eof] [--ignore-term] [--grandchild] [--no-answer METHOD] [--hold FILE]

Each line of a prompt's last block is a command (`echo_turns.Commands`); a prompt without any is said back after
"echo: ". --no-load and --resume say what it advertises; --modes and --config-modes have session modes, or a config
option for them; --models has models, which are set by that method; --auth wants a login by that method before a
session; --state keeps the sessions for other processes, and a load tells their history. --grandchild leaves a process
behind that ignores SIGTERM; --no-answer never answers that method; of a notification, it takes no notice.
--hold keeps the turns that tell of notices from their end while FILE exists.

Standard library only; it knows nothing of Hearth.
"""

import argparse
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid

from echo_turns import COMMANDS, LIFETIME_SECONDS, POLL_SECONDS, Cancelled, Commands, Refusal

MODELS = ["small", "large", "vendor/huge"]
MODES = {"default": "Default", "acceptEdits": "Accept edits", "plan": "Plan", "bypassPermissions": "Bypass"}


class Client:
    """The other end: what is sent to it, and its answers to what it is asked."""

    def __init__(self):
        self._lock = threading.Lock()
        self._ids = itertools.count(100)
        self._waiting = {}

    def write(self, text):
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()

    def send(self, **message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def ask(self, method, params):
        """Send a request; return its id and the queue that its answer will come to."""
        id, answers = next(self._ids), queue.Queue()
        self._waiting[id] = answers
        self.send(id=id, method=method, params=params)
        return id, answers

    def answered(self, message):
        waiting = self._waiting.pop(message.get("id"), None)
        if waiting:
            waiting.put(message)


class Session:
    """A conversation: its folder, its servers, its mode and what was said."""

    def __init__(self, id, params, kept=None):
        kept = kept or {}
        self.id = id
        self.cwd = params["cwd"]
        self.entries = params.get("mcpServers", [])
        self.mode = kept.get("mode", "default")
        self.model = "small"
        self.history = kept.get("history", [])
        self.server = None
        self.turns = set()


class Agent:
    """The agent: its sessions, and what it answers."""

    def __init__(self, options):
        self.options = options
        self.client = Client()
        self.sessions = {}
        self.logged_in = options.auth is None
        self.grandchild = None
        if options.grandchild:
            script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
            # With all descriptors, as programs that are not in Python hand them on.
            self.grandchild = subprocess.Popen([sys.executable, "-I", "-S", "-c", script], close_fds=False)

    def serve(self):
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self.client.answered(message)
            elif message["method"] == "session/prompt":
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()
            else:
                self.handle(message)
        while self.options.ignore_eof:
            time.sleep(1)

    def handle(self, message):
        id, method, params = message.get("id"), message["method"], message.get("params", {})
        if method in self.options.no_answer:
            return
        if method == "session/cancel":
            session = self.sessions.get(params["sessionId"])
            for turn in list(session.turns) if session else ():
                turn.cancelled.set()
            return
        if id is None:
            return
        try:
            self.client.send(id=id, result=self.result(id, method, params))
        except Refusal as refusal:
            code, text, data = refusal.args
            self.client.send(id=id, error={"code": code, "message": text, "data": data})
        except Exception as exc:
            self.client.send(id=id, error={"code": -32603, "message": "Internal error", "data": repr(exc)})

    def result(self, id, method, params):
        if method == "session/prompt":
            return self.run(id, params)
        known = getattr(self, "_" + method.replace("/", "_"), None)
        if known is None:
            raise Refusal(-32601, "Method not found", {"method": method})
        return known(params)

    def _initialize(self, params):
        sessions = {"close": {}, **({"resume": {}} if self.options.resume else {})}
        methods = [{"id": self.options.auth, "name": "A key"}] if self.options.auth else []
        return {
            "protocolVersion": min(1, params["protocolVersion"]),
            "agentCapabilities": {"loadSession": not self.options.no_load, "sessionCapabilities": sessions},
            "agentInfo": {"name": "echo-agent", "title": "Echo", "version": "1"},
            "authMethods": methods,
        }

    def _authenticate(self, params):
        self.logged_in = params["methodId"] == self.options.auth
        return {}

    def _session_new(self, params):
        if not self.logged_in:
            raise Refusal(-32000, "Authentication required", None)
        session = Session(uuid.uuid4().hex, params)
        self.sessions[session.id] = session
        self.keep()
        return {"sessionId": session.id, **self.settings(session)}

    def _session_load(self, params):
        session = self._known(params)
        for kind, text in session.history:
            Commands(self, session, 0).say(text, kind)
        return self.settings(session)

    def _session_resume(self, params):
        return self.settings(self._known(params))

    def _known(self, params):
        kept = self.kept().get(params["sessionId"])
        if kept is None:
            raise Refusal(-32002, "Resource not found", {"sessionId": params["sessionId"]})
        session = self.sessions[params["sessionId"]] = Session(params["sessionId"], params, kept)
        return session

    def _session_close(self, params):
        self.sessions.pop(params["sessionId"], None)
        return {}

    def _session_set_mode(self, params):
        if params["modeId"] not in MODES:
            raise Refusal(-32602, "Invalid params", {"details": f"no mode {params['modeId']}"})
        self.sessions[params["sessionId"]].mode = params["modeId"]
        self.keep()
        return {}

    def _session_set_model(self, params):
        self.sessions[params["sessionId"]].model = MODELS[MODELS.index(params["modelId"])]
        return {}

    def _session_set_config_option(self, params):
        if params["configId"] == "model":
            self._session_set_model({"sessionId": params["sessionId"], "modelId": params["value"]})
            return self.settings(self.sessions[params["sessionId"]])
        self._session_set_mode({"sessionId": params["sessionId"], "modeId": params["value"]})
        return self.settings(self.sessions[params["sessionId"]])

    def settings(self, session):
        found = {}
        if self.options.modes:
            modes = [{"id": id, "name": name} for id, name in MODES.items()]
            found["modes"] = {"currentModeId": session.mode, "availableModes": modes}
        if self.options.models == "session/set_model":
            models = [{"modelId": id, "name": id.title()} for id in MODELS]
            found["models"] = {"currentModelId": session.model, "availableModels": models}
        if self.options.models == "session/set_config_option":
            values = [{"value": id, "name": id.title()} for id in MODELS]
            option = {"id": "model", "name": "Model", "category": "model", "type": "select"}
            found["configOptions"] = [{**option, "currentValue": session.model, "options": values}]
        if self.options.config_modes:
            values = [{"value": id, "name": name} for id, name in MODES.items()]
            option = {"id": "mode", "name": "Mode", "category": "mode", "type": "select"}
            found.setdefault("configOptions", []).append({**option, "currentValue": session.mode, "options": values})
        return found

    def run(self, id, params):
        session = self.sessions[params["sessionId"]]
        turn = Commands(self, session, id)
        session.turns.add(turn)
        text = params["prompt"][-1]["text"]
        session.history += [("user_message_chunk", block["text"]) for block in params["prompt"]]
        try:
            self.act(turn, text)
        except Cancelled:
            turn.stop_reason = "cancelled"
        finally:
            session.turns.discard(turn)
            if turn.said:
                session.history.append(("agent_message_chunk", turn.said))
            self.keep()
        reason = "cancelled" if turn.cancelled.is_set() else turn.stop_reason
        return {"stopReason": reason, "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}}

    def act(self, turn, text):
        hold = self.options.hold
        while hold and text.startswith("<hearth-system>") and os.path.exists(hold):
            turn.sleep(POLL_SECONDS)
        lines = [line.strip().partition(" ") for line in text.splitlines()]
        commands = [(COMMANDS[word], rest) for word, _, rest in lines if word in COMMANDS]
        for command, rest in commands:
            command(turn, rest)
        if not commands:
            turn.say(f"echo: {text}")

    # --- sessions on disk

    def kept(self):
        if self.options.state is None or not os.path.exists(self.options.state):
            return {}
        with open(self.options.state, encoding="utf-8") as file:
            return json.load(file)

    def keep(self):
        if self.options.state is None:
            return
        own = {each.id: {"mode": each.mode, "history": each.history} for each in self.sessions.values()}
        everything = self.kept() | own
        temporary = f"{self.options.state}.{os.getpid()}.{threading.get_ident()}"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(everything, file)
        os.replace(temporary, self.options.state)


def main():
    parser = argparse.ArgumentParser()
    flags = ("no-load", "resume", "modes", "config-modes", "ignore-eof", "ignore-term", "grandchild")
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("auth", "state", "models", "hold"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--no-answer", action="append", default=[])
    options = parser.parse_args()
    signal.alarm(LIFETIME_SECONDS)
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Agent(options).serve()
    # Threads of turns end with the process.
    os._exit(0)


main()
