"""A policy as a document, and remarks about it."""

import json

from hearth.policy.loader import parse
from hearth.policy.model import Policy
from hearth.policy.show import SETTINGS, document, warnings


def test_the_document_has_everything_and_is_json(team: Policy) -> None:
    shown = json.loads(json.dumps(document(team)))
    assert set(shown["roles"]) == {"tl", "dev"}
    assert shown["roles"]["dev"]["otherwise"] == "ask"
    assert shown["rules"][0]["decide"] == "ask_lead"
    assert shown["rules"][1]["permission"] == "push_branch(main)"
    assert shown["settings"]["approval_wait"] == 45
    assert set(SETTINGS) <= set(shown["settings"])
    assert shown["stopChecks"][0]["kind"] == "committed"


def test_the_template_gives_no_reason_for_a_warning(team: Policy) -> None:
    assert warnings(team) == []


def test_parts_that_have_no_effect_are_warned_of() -> None:
    text = 'default_role = "a"\n[roles.a]\n[roles.b]\ntools = ["**"]\notherwise = "allow"\ngrants = ["p"]\n'
    text += '[permissions.p]\ntool = "Bash"\n[permissions.q]\ntool = "Bash"\n'
    found = warnings(parse("/x/policy.toml", text.encode()))
    assert [sentence.split(": ", 1)[1].split(";")[0] for sentence in found] == [
        "role 'a' has no tools, and sees nothing",
        "role 'b' may do everything otherwise, so its grants change nothing",
        "permission 'q' is in no grant and no rule",
        "no role is a lead, so every question goes to a person",
    ]
