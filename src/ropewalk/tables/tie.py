"""Whether input table and output head are one: by the flag, the file, and the family."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.ties import UNKNOWN, Tying
from ropewalk.errors import ModelFileError
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Tie:
    """`said` is what configuration and family say (of a GGUF nothing); `head` the name of the head
    that the file stores, None for none; `alone`: it stores no input table beside it.
    """

    said: Tying = UNKNOWN
    head: str | None = None
    gguf: bool = False
    alone: bool = False

    @property
    def missing(self) -> bool:
        """Whether the model has a head of its own and the file does not hold it."""
        return self.said.tied is False and self.head is None and not self.gguf

    @property
    def tied(self) -> bool | None:
        """Whether the head is the input table; None where that is not known.

        The flag decides; without one a stored head is a head of its own, unless the family is
        tied without the flag; and with neither the family's default decides. llama.cpp goes by
        the file. Raises ModelFileError where the head is missing: then there is none.
        """
        if self.missing:
            raise ModelFileError(f"{self.sentence}; an engine would leave them at random values")
        if self.gguf:
            return self.head is None
        if self.said.tied is None and self.head is not None:
            return False
        return self.said.tied

    @property
    def sentence(self) -> str:
        """What is the case, in words; one for each combination of flag, family and file."""
        if self.gguf:
            rule = "(llama.cpp goes by the file)"
            if self.head is not None:
                return f"untied: the head is {self.head} {rule}"
            return (
                "tied: no head is stored, so a head, if the model has one, is the input table "
                f"{rule}"
            )
        if self.said.tied is None:
            return self._unknown()
        if self.head is None:
            if self.said.tied:
                return f"tied: the head is not stored, and {self._reason(tied=True)}"
            return (
                f"untied: no head is stored, and {self._reason(tied=False)}: the head's weights "
                "are missing from this checkpoint"
            )
        if self.said.tied and self.alone:
            return f"tied: {self.head} is both tables, and {self._reason(tied=True)}"
        if self.said.tied:
            return (
                f"tied: {self._reason(tied=True)}, and yet the file stores a head of its own "
                f"({self.head}): engines that obey that read the input table instead"
            )
        return f"untied: the head is {self.head}, and {self._reason(tied=False)}"

    def _reason(self, *, tied: bool) -> str:
        word = "tied" if tied else "untied"
        if self.said.flag is not None:
            return f"the configuration says {word} (tie_word_embeddings)"
        if self.said.fixed:
            return f"{self.said.family} models are {word} whatever the configuration says"
        return (
            f"the configuration does not say; {self.said.family} models are {word} by default "
            "(tie_word_embeddings)"
        )

    def _unknown(self) -> str:
        if self.head is not None:
            return f"untied: the head is {self.head} (the configuration does not say)"
        family = self.said.family
        because = (
            "no configuration names the model"
            if family is None
            else f"the configuration does not say, and what {family} models do is not known here"
        )
        return f"not known whether tied: no head is stored, and {because}"
