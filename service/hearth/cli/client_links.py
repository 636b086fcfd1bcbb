"""Clients connected by a plan, file by file: what came of it, and what stands in the way. One that fails keeps no other
from being connected.
"""

from collections.abc import Iterable
from typing import NamedTuple

from hearth.clients import linking
from hearth.clients.linking import Outcome
from hearth.clients.planning import Plan
from hearth.errors import ConfigError, HearthError
from hearth.paths import Places


class Links(NamedTuple):
    """What is done with clients' files, and what stands in the way: sentences, and the exit code of the first."""

    plans: list[Plan]
    outcomes: list[Outcome]
    problems: list[str]
    exit_code: int = 0

    @property
    def changed(self) -> list[Outcome]:
        """Those files that change."""
        return [outcome for outcome in self.outcomes if outcome.changes]


def linked(plans: Iterable[Plan], places: Places, dry_run: bool) -> Links:
    """Connect them, or only say how."""
    done, code = Links(list(plans), [], []), 0
    for plan in done.plans:
        try:
            outcome = linking.connect(plan.table, plan.replace, plan.whole, places, dry_run)
            done.outcomes.append(outcome._replace(notes=outcome.notes + plan.notes))
        except HearthError as exc:
            code = code or exc.exit_code
            done.problems.extend(each for each in sentences(exc) if each not in done.problems)
    return done._replace(exit_code=code)


def sentences(error: HearthError) -> list[str]:
    """What an error says, one finding each."""
    return error.problems if isinstance(error, ConfigError) else [str(error)]
