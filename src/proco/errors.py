"""The errors that end a command with one line instead of a traceback."""


class ProCoError(Exception):
    """Something the user can mend: a setting, a file, a run folder."""


class ConfigError(ProCoError, ValueError):
    """A setting is wrong: in a recipe, on the command line, or of a loss or a head."""


class DataError(ProCoError, ValueError):
    """A data set is missing, incomplete or not what it says."""
