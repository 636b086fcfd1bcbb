"""Texts that `hearth policy init` writes, by the name of their template."""

TEAM = """\
# Policy of Hearth: who may do what, and who is asked. `hearth policy check` looks for mistakes,
# `hearth policy explain --role dev Bash 'git push origin main'` says what is decided, and by which line.
# All keys, and which grants amount to running code: docs/policy.md

default_role = "dev"               # role of every session without a role token
approval_wait = 45                 # seconds that a call waits for a decision before it answers "pending"

# --- roles

[roles.tl]                         # the lead: decides what others ask
lead = true
tools = ["**"]
may_start = ["dev"]                # in a mode that never asks: a person decides, or the grant agent_mode(ID)
grants = [
    "commit", "push_branch(**)", "delete_merged_branch", "read_file(./**)", "search", "edit_file(./**)", "run_tests",
    "file_pr", "close_pr", "close_issue", "send_message", "spawn_agents", "clean_up_agents", "show_popup",
]
otherwise = "ask"                  # its own questions go to a person: a lead never decides about itself

[roles.dev]
tools = ["**", "!agents__**", "!policy__**", "!hearth__**", "!team__ask_human"]
grants = [
    "commit", "push_branch(feature/**)", "read_file(./**)", "search", "edit_file(./**)", "run_tests",
    "file_pr", "send_message",
]
otherwise = "ask"

# --- permissions: what a grant's name means. Captures have a kind: branch, remote, path, word, text.

[permissions.commit]               # runs the repository's commit hooks
tool = "Bash"
command = [
    "git status [--short]",
    "git add [-A] {files:path...}",
    "git add -A",
    "git commit [-a] -m {subject:text} [-m {body:text}]",
]

[permissions.push_branch]          # runs the repository's push hook
tool = "Bash"
command = ["git push [-u] {remote:remote} {branch:branch}", "git push --set-upstream {remote:remote} {branch:branch}"]

[permissions.delete_merged_branch] # `-d` refuses branches that are not merged
tool = "Bash"
command = "git branch -d {branch:branch}"

[permissions.read_file]
tool = "Read"
arguments.file_path = "{path:path}"
arguments."offset?" = "{offset:word}"
arguments."limit?" = "{limit:word}"
arguments."start_line?" = "{start:word}"
arguments."end_line?" = "{end:word}"
arguments."pages?" = "{pages:word}"

[permissions.search]
tool = "Grep"
arguments = { pattern = "{pattern:text}", "path?" = "{path:path}", "*" = "*" }

[permissions.edit_file]            # together with run_tests: runs any code
tool = ["Edit", "Write"]
arguments = { file_path = "{path:path}", "*" = "*" }

[permissions.run_tests]            # runs the code of the repository
tool = "Bash"
command = ["pytest [-q] [-x] [{tests:path...}]", "make test", "npm test", "cargo test", "go test ./..."]

[permissions.file_pr]
tool = "team__file_pr"

[permissions.close_pr]
tool = "Bash"
command = "gh pr close {number:word}"

[permissions.close_issue]
tool = "Bash"
command = "gh issue close {number:word}"

[permissions.send_message]
tool = "team__send_message"

[permissions.spawn_agents]
tool = ["agents__create_agent", "agents__send_agent_prompt"]

[permissions.clean_up_agents]
tool = ["agents__cancel_agent", "agents__kill_agent"]

[permissions.show_popup]
tool = "team__ask_human"

# --- rules: the first one that matches decides, before grants

[[rules]]
role = "dev"
tool = ["github__merge_*", "github__delete_*"]
decide = "ask_lead"
reason = "only the lead merges and deletes"

[[rules]]
permission = "push_branch(main)"
decide = "ask_human"
reason = "only a person pushes to main"

# --- checks when an agent stops

[[stop_checks]]
kind = "committed"
roles = ["dev"]
message = "Commit your work before you stop."
action = "block"

[[stop_checks]]
kind = "pushed"
roles = ["dev"]
message = "Push your branch, so that others can see it."
action = "nudge"
"""

TEMPLATES = {"team": TEAM}
