"""policy.toml becomes a policy, or a list of problems with file, line and the nearest right name."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import ConfigError
from hearth.paths import Places
from hearth.policy.audit_store import DAYS_BY_DEFAULT, SIZE_BYTES_BY_DEFAULT
from hearth.policy.decision import decide, sees
from hearth.policy.loader import FILE_LIMIT_BYTES, everything_asked, file_of, narrow, parse
from hearth.policy.model import Policy, StopCheck
from hearth.policy.template import TEMPLATES

PATH = "/home/u/.config/hearth/policy.toml"
PROJECT = "/home/u/work/.hearth/policy.toml"
ROLES = 'default_role = "dev"\n[roles.dev]\ntools = ["**"]\n'
PUSH = '[permissions.push]\ntool = "Bash"\ncommand = "git push {remote:remote} {branch:branch}"\n'


def read(text: str, path: str = PATH) -> Policy:
    return parse(path, text.encode())


def problems(text: str, path: str = PATH) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(text, path)
    return error.value.problems


def test_the_example_of_the_design_is_read() -> None:
    policy = read(
        """
default_role = "dev"
approval_wait = 30

[roles.tl]
lead = true
tools = ["**"]
may_start = ["dev"]
[roles.dev]
tools = ["github__*", "team__*", "!github__delete_*"]
grants = ["push(feature/*)"]
otherwise = "ask"
[roles.desk]
human = true

[permissions.push]
tool = "Bash"
command = "git push {remote:remote} {branch:branch}"

[[rules]]
role = "dev"
tool = "github__merge_*"
decide = "ask_human"
reason = "merging is the lead's"

[[stop_checks]]
kind = "command"
command = ["make", "lint"]
action = "nudge"

[hooks]
on_error = "pass"
"""
    )
    assert (policy.default_role, policy.approval_wait, policy.hooks_on_error) == ("dev", 30, "pass")
    assert (policy.lead_timeout, policy.approval_timeout, policy.hook_wait, policy.max_blocks) == (300, 3600, 50, 5)
    assert (policy.apply, policy.notify) == ("auto", True)
    assert policy.roles["tl"].lead
    assert policy.roles["tl"].may_start == {"dev"}
    assert policy.roles["desk"].human
    assert policy.roles["dev"].otherwise == "ask"
    assert policy.roles["dev"].grants[0].source == "policy.toml:11"
    assert policy.rules[0].source == "policy.toml:23"
    assert policy.stop_checks == (StopCheck("command", (), "", "nudge", ("make", "lint")),)


def test_the_digest_is_of_the_bytes() -> None:
    data = ROLES.encode()
    assert parse(PATH, data).digest == sha256(data).hexdigest()


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_is_valid(name: str) -> None:
    policy = read(TEMPLATES[name])
    assert {"tl", "dev"} <= set(policy.roles)


def test_resources_prompts_and_methods_are_those_of_tools_by_default() -> None:
    role = read('default_role = "dev"\n[roles.dev]\ntools = ["a__**"]\nprompts = ["b__*"]\n').roles["dev"]
    assert sees(role, "resources", "a", "file:///x")
    assert sees(role, "methods", "a", "x/y")
    assert sees(role, "prompts", "b", "x")
    assert not sees(role, "prompts", "a", "x")
    assert not sees(role, "tools", "b", "x")


def test_a_role_without_tools_sees_nothing() -> None:
    role = read('default_role = "dev"\n[roles.dev]\n').roles["dev"]
    assert not sees(role, "tools", "a", "x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1: there is no role"),
        ("[roles.dev]\n", ":1: default_role is missing; name one of dev"),
        ('default_role = "dve"\n[roles.dev]\n', ":1: default_role: there is no role 'dve'; did you mean 'dev'?"),
        ("default_role = 1\n[roles.dev]\n", ":1: default_role must be a text"),
        (ROLES + "[role.x]\n", ":4: key 'role' is not known; did you mean 'roles'?"),
        (ROLES + 'grant = ["x"]\n', ":4: role 'dev': key 'grant' is not known; did you mean 'grants'?"),
        (ROLES + 'otherwise = "maybe"\n', ':4: role \'dev\': otherwise must be "allow" or "ask" or "deny"'),
        (ROLES + 'grants = ["push"]\n', ":4: there is no permission 'push'; write a table [permissions.push]"),
        (ROLES + 'grants = ["psuh"]\n' + PUSH, ":4: there is no permission 'psuh'; did you mean 'push'?"),
        (ROLES + 'grants = ["push("]\n' + PUSH, ":4: 'push(' is not a grant"),
        (ROLES + 'grants = ["push(a, b)"]\n' + PUSH, ":4: 'push(a, b)' has more patterns than the permission has"),
        (ROLES + 'grants = ["push(brnch=a)"]\n' + PUSH, "did you mean 'branch'?"),
        (ROLES + 'grants = ["push(a, branch=b)"]\n' + PUSH, "two patterns for 'branch'"),
        (ROLES + 'grants = ["push(!a)"]\n' + PUSH, "exclusion"),
        (ROLES + 'grants = ["push(a***)"]\n' + PUSH, "three `*`"),
        (ROLES + 'grants = ["p(/etc/**)"]\n[permissions.p]\ntool = "Read"\narguments = {f = "{f:path}"}\n', "outside"),
        (ROLES + 'grants = ["p(../**)"]\n[permissions.p]\ntool = "Read"\narguments = {f = "{f:path}"}\n', "outside"),
        (ROLES + 'grants = ["p(x)"]\n[permissions.p]\ntool = "Read"\n', "has no captures"),
        (ROLES + "[permissions.p]\n", ":4: permission 'p': tool is missing"),
        (ROLES + '[permissions.p]\ntools = "x"\n', "did you mean 'tool'?"),
        (
            ROLES + '[permissions.p]\ntool = "x"\ncommand = "git {a:brnch}"\n',
            ":6: permission 'p': command has a capture",
        ),
        (ROLES + '[permissions.p]\ntool = "x"\ncommand = "a"\narguments = {a = "b"}\n', "either command or arguments"),
        (ROLES + '[permissions.p]\ntool = "x"\narguments = {}\n', "arguments must be a table"),
        (ROLES + '[permissions.p]\ntool = "x"\narguments = {a = 1}\n', "must have a text"),
        (ROLES + '[permissions.p]\ntool = "a***"\n', "three `*`"),
        (ROLES + '[permissions."p q"]\ntool = "x"\n', "letters, digits"),
        (ROLES + "[permissions]\np = 1\n", "must be a table"),
        (ROLES + '[roles."a b"]\n', "a role's name has"),
        (ROLES + '[roles.x]\nmay_start = ["dve"]\n', ":5: role 'x': may_start: there is no role 'dve'; did you mean"),
        (ROLES + '[roles.x]\ntools = ["!a__*"]\n', "exclusions only"),
        (ROLES + '[roles.x]\ntools = ["a***"]\n', ":5: pattern 'a***' has three"),
        (ROLES + '[[rules]]\ntool = "x"\n', ":4: rule: decide is missing"),
        (ROLES + '[[rules]]\ndecide = "deny"\n', ":4: rule: give either tool"),
        (ROLES + '[[rules]]\ndecide = "deny"\ntool = "x"\npermission = "y"\n', "either tool"),
        (ROLES + '[[rules]]\ndecide = "no"\ntool = "x"\n', ':5: rule: decide must be "allow"'),
        (ROLES + '[[rules]]\ndecide = "deny"\ntool = "x"\nrole = "dve"\n', ":7: rule: there is no role 'dve'"),
        (ROLES + '[[rules]]\ndecide = "deny"\npermission = "x"\n', "there is no permission 'x'"),
        (ROLES + "[rules]\n", "written [[rules]]"),
        (ROLES + "[[stop_checks]]\n", "kind is missing"),
        (ROLES + '[[stop_checks]]\nkind = "command"\n', "command is the program"),
        (ROLES + '[[stop_checks]]\nkind = "pushed"\ncommand = ["x"]\n', "and of no other kind"),
        (ROLES + '[[stop_checks]]\nkind = "pushed"\nroles = ["x"]\n', "there is no role 'x'"),
        (ROLES + '[hooks]\non_eror = "deny"\n', "did you mean 'on_error'?"),
        (ROLES + "[audit]\nenable = false\n", "did you mean 'enabled'?"),
        (ROLES + '[audit]\nenabled = "no"\n', "audit.enabled must be true or false"),
        (ROLES + "[audit]\ndays = 0\n", "audit.days must be a whole number from 1"),
        (ROLES + '[audit]\nsize = "1 KiB"\n', "audit.size must be a number of bytes from 1048576"),
        ("audit = false\n" + ROLES, "audit must be a table"),
        ("approval_wait = 10000\n" + ROLES, "at most 600"),
        ("approval_wait = -1\n" + ROLES, "must be a number of seconds"),
        ("roles = 1\n", "roles must be a table"),
        ("{}", "must be TOML"),
        ("a = ", "is not valid TOML"),
    ],
)
def test_a_mistake_has_its_line_and_the_nearest_name(text: str, problem: str) -> None:
    found = problems(text)
    assert all(sentence.startswith(PATH + ":") for sentence in found)
    assert any(problem in sentence for sentence in found), found


def test_every_mistake_is_reported_at_once() -> None:
    text = ROLES + 'x = 1\n[permissions.p]\ntool = "x"\ncommand = "{a}"\n[[rules]]\ntool = "x"\ndecide = "no"\n'
    assert [sentence.split(":")[1] for sentence in problems(text)] == ["7", "4", "10"]


def test_a_permission_with_a_mistake_is_not_reported_once_more_where_it_is_used() -> None:
    text = ROLES + 'grants = ["p"]\n[permissions.p]\ntool = "x"\ncommand = "{a"\n'
    assert len(problems(text)) == 1


def test_a_huge_file_is_refused_unread() -> None:
    with pytest.raises(ConfigError, match="bytes"):
        parse(PATH, b"#" * (FILE_LIMIT_BYTES + 1))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_policy_or_a_problem(data: bytes) -> None:
    try:
        parse(PATH, data)
    except ConfigError as error:
        assert error.problems


@given(st.integers(0, 5000), st.integers(0, 255))
def test_a_damaged_policy_is_a_policy_or_a_problem(position: int, byte: int) -> None:
    data = bytearray(TEMPLATES["team"].encode())
    data[position % len(data)] = byte
    try:
        parse(PATH, bytes(data))
    except ConfigError as error:
        assert error.problems


def test_the_policy_is_beside_the_config() -> None:
    assert file_of(Places(config="/x/y.toml")) == "/x/policy.toml"


# --- a project's policy


def test_a_project_takes_away_and_never_gives() -> None:
    mine = read('default_role = "dev"\n[roles.dev]\ntools = ["a__*", "b__*"]\n[roles.tl]\ntools = ["**"]\n')
    theirs = read('[roles.dev]\ntools = ["a__*", "c__*"]\n[[rules]]\ntool = "a__x"\ndecide = "deny"\n', PROJECT)
    both = narrow(mine, theirs)

    def outcome(server: str, tool: str, role: str = "dev") -> str:
        return decide(both, role, server, tool, None, None).outcome

    assert outcome("a", "y") == "allow"
    assert outcome("a", "x") == "deny"
    assert outcome("b", "y") == "deny"
    assert outcome("c", "y") == "deny"
    assert outcome("c", "y", "tl") == "allow"
    assert outcome("a", "x", "tl") == "deny"
    assert decide(both, "dev", "a", "x", None, None).source == ".hearth/policy.toml:5"
    assert sees(both.roles["dev"], "tools", "a", "y")
    assert not sees(both.roles["dev"], "tools", "b", "y")
    assert not sees(both.roles["dev"], "tools", "c", "y")
    assert both.digest not in (mine.digest, theirs.digest)
    assert decide(mine, "dev", "b", "y", None, None).outcome == "allow"


def test_a_projects_grants_narrow_where_it_says_otherwise() -> None:
    mine = read(ROLES + 'otherwise = "allow"\n')
    text = '[roles.dev]\ngrants = ["p"]\notherwise = "{}"\n[permissions.p]\ntool = "Bash"\ncommand = "make test"\n'
    asked = narrow(mine, read(text.format("ask"), PROJECT))
    assert decide(asked, "dev", None, "Bash", b'{"command": "make test"}', "/w").outcome == "allow"
    assert decide(asked, "dev", None, "Bash", b'{"command": "make x"}', "/w").outcome == "ask"


@pytest.mark.parametrize("key", ["lead", "human"])
def test_a_role_that_decides_cannot_be_claimed(key: str) -> None:
    (problem,) = problems(ROLES + f"claimable = true\n{key} = true\n")
    assert f"a role with {key} decides, so it needs a role token" in problem


def test_the_audit_log_has_the_limits_of_the_file_or_its_own() -> None:
    assert read(ROLES).audit == (True, DAYS_BY_DEFAULT, SIZE_BYTES_BY_DEFAULT)
    assert read(ROLES + '[audit]\nenabled = false\ndays = 7\nsize = "2 MiB"\n').audit == (False, 7, 2 * 1024 * 1024)


def test_stop_checks_of_a_project_are_added() -> None:
    theirs = read('[[stop_checks]]\nkind = "pushed"\n', PROJECT)
    assert [check.kind for check in narrow(read(ROLES), theirs).stop_checks] == ["pushed"]


@pytest.mark.parametrize(
    "text",
    [
        'default_role = "dev"\n',
        "approval_wait = 5\n",
        'apply = "auto"\n',
        '[hooks]\non_error = "pass"\n',
        "[audit]\nenabled = false\n",
        "[roles.dev]\nlead = true\n",
        "[roles.dev]\nhuman = true\n",
        "[roles.dev]\nclaimable = true\n",
        '[roles.dev]\nmay_start = ["tl"]\n',
        '[[rules]]\ntool = "x"\ndecide = "allow"\n',
        '[[stop_checks]]\nkind = "command"\ncommand = ["x"]\n',
    ],
)
def test_a_project_cannot_have_what_could_widen(text: str) -> None:
    assert "project's policy" in problems(text, PROJECT)[0]


def test_without_a_readable_policy_a_person_is_asked_about_everything() -> None:
    policy = everything_asked(PATH, "policy.toml:3: is wrong")
    for server, tool in (("a", "x"), (None, "Bash"), (None, "Read")):
        decision = decide(policy, policy.default_role, server, tool, b"{}", "/w")
        assert (decision.outcome, decision.level, decision.reason) == ("ask", "human", "policy.toml:3: is wrong")
    assert decide(policy, "tl", "a", "x", None, None).outcome == "deny"
