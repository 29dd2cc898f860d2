"""Rewriting levels that lower-level programs name; accepted and without effect."""

import enum


class PatternsLevel(enum.Enum):
    """How much is rewritten."""

    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class Patterns:
    """A choice of rewritings."""

    __slots__ = ("level",)

    def __init__(self, level: PatternsLevel = PatternsLevel.Default) -> None:
        """Chooses a level.

        Args:
            level: The level.
        """
        self.level = level
