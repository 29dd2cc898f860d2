"""Exceptions of this package."""


class UndefinedValue(Exception):
    """A property was read that nothing has determined yet, for example the IPU of an unused variable."""
