"""Every error this package raises on purpose.

The tree::

    RopewalkError                  anything below; exit code 1 at the command line
    +-- UsageError                 the caller asked for something that cannot be; exit code 2
    |   +-- UnknownModelError      a name that is no file, folder, cached hub id or known model
    |   +-- LengthError            a length, depth or trial count outside what is possible
    |   +-- TensorError            a tensor of a shape, dtype or device that is not taken
    |   +-- PositionError          position ids that an encoding or its tokens do not take
    |   +-- RowError               a row that a table does not have
    |   +-- ScheduleError          a rotary schedule that cannot be built from what was given
    +-- ModelFileError             a file that is there and cannot be used
    |   +-- ConfigError            a configuration with missing, null or impossible values
    |   +-- GgufError              a GGUF file that is truncated, corrupt or lies about sizes
    +-- DataFileError              a file of texts, or of packed rows, that cannot be used
    +-- MissingPartError           an optional package that this command needs is not installed
    +-- ScheduleMismatchError      the live model does not rotate by the schedule that was read
    +-- TrainingError              a loss or a gradient that is not finite; training has stopped
    +-- EndpointError              a server that cannot be asked, or not any more
    +-- StoreError                 results that cannot be written, or a run folder in use

A message says what was given, what is allowed, and what to do next. The command line prints
it as one sentence and never shows a traceback for any of these.
"""

from __future__ import annotations

FAILED, ASKED_WRONGLY, INTERRUPTED = 1, 2, 130

EXIT_CODES = {
    0: "done",
    FAILED: "it failed",
    ASKED_WRONGLY: "it was asked wrongly",
    INTERRUPTED: "interrupted",
}
"""What the command line ends with, and what each code says; every help prints them."""


class RopewalkError(Exception):
    """Base of every error of this package."""

    exit_code = FAILED


class UsageError(RopewalkError, ValueError):
    """What was asked for cannot be done as asked."""

    exit_code = ASKED_WRONGLY


class UnknownModelError(UsageError):
    """The name is no file, no folder, no cached hub id and no known model."""


class LengthError(UsageError):
    """A length, depth or number of trials is outside what is possible."""


class TensorError(UsageError):
    """A tensor has a shape, dtype or device that is not taken; says which, and what is."""


class PositionError(UsageError):
    """Position ids that an encoding or its tokens do not take; says row, column and value."""


class RowError(UsageError, IndexError):
    """A row that a table does not have; says which, and how many there are."""


class ScheduleError(UsageError):
    """A rotary schedule cannot be built from these values."""


class ModelFileError(RopewalkError):
    """A model's file exists and cannot be used."""


class ConfigError(ModelFileError):
    """A configuration has missing, null or impossible values."""


class GgufError(ModelFileError):
    """A GGUF file is truncated, corrupt, or states sizes it does not have."""


class DataFileError(RopewalkError):
    """A file of texts or of packed rows exists and cannot be used; says which, and where in it."""


class MissingPartError(RopewalkError, ImportError):
    """An optional package that this command needs is not installed."""


class ScheduleMismatchError(RopewalkError):
    """The live model's inverse frequencies are not those of the schedule that was read."""


class TrainingError(RopewalkError):
    """A loss or gradient that is no finite number; says at which step, and on which rows."""


class EndpointError(RopewalkError):
    """A server cannot be asked, or not any more: no key, no such model, nothing at the address."""


class StoreError(RopewalkError):
    """Results cannot be written, or another run holds the run folder."""
