"""Immutable records, for data that is written once and then only read: the configuration, the registry's entry.

To a type checker, records are frozen dataclasses. At run time they are not: `@dataclass` compiles six functions
per class, which takes 8 ms of the daemon's cold start; this module does the same in thirty lines.
Knows nothing of the data.
"""

from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """Base class of records: annotated names are fields, their class attributes the defaults."""

    fields: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        cls.fields = tuple(cls.__annotations__)

    def __init__(self, **values: Any) -> None:
        for name in self.fields:
            if name not in values and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} needs {name!r}")
        if not values.keys() <= set(self.fields):
            raise TypeError(f"{type(self).__name__} has no {sorted(values.keys() - set(self.fields))}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use replace()")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: use replace()")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.fields)

    __hash__ = None  # type: ignore[assignment]  # fields hold mappings

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.fields)
        return f"{type(self).__name__}({shown})"

    def replace(self, **changes: Any) -> Self:
        """Return the same record with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self.fields} | changes)
