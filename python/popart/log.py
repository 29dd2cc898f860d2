"""The log of the library, written to file descriptor 2."""

from popxl import _core


class Logger:
    """Writes to the log."""

    def setLevel(self, level: str) -> None:
        """Sets the level, in place of the environment variable POPART_LOG_LEVEL.

        Args:
            level: TRACE, DEBUG, INFO, WARN, ERR or OFF.

        Raises:
            ValueError: It is none of them.
        """
        _core.set_log_level(level)

    def trace(self, message: str) -> None:
        """Writes a line at level TRACE."""
        _core.log_trace(message)

    def debug(self, message: str) -> None:
        """Writes a line at level DEBUG."""
        _core.log_debug(message)

    def info(self, message: str) -> None:
        """Writes a line at level INFO."""
        _core.log_info(message)

    def warn(self, message: str) -> None:
        """Writes a line at level WARN."""
        _core.log_warn(message)

    def error(self, message: str) -> None:
        """Writes a line at level ERR."""
        _core.log_error(message)

    def critical(self, message: str) -> None:
        """Writes a line at the highest level."""
        _core.log_critical(message)


_LOGGER = Logger()


def getLogger(name: str = "popart") -> Logger:
    """The log.

    Args:
        name: Not used: there is one log.
    """
    return _LOGGER
