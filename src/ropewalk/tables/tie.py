"""Whether input table and output head are one: what the flag says, what the file holds."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class Tie:
    """`flag` is the configuration's tie_word_embeddings, None where it does not say (GGUF never
    does); `head` the name of the head that the file stores, None for none.
    """

    flag: bool | None
    head: str | None
    gguf: bool = False

    @property
    def tied(self) -> bool:
        """Whether a model that obeys the flag reads its head from the input table.

        Without a flag the file decides. Raises ModelFileError where the flag says untied and the
        file holds no head: then there is none.
        """
        if self.flag is False and self.head is None:
            raise ModelFileError(
                "tie_word_embeddings is false and no output head is stored: the head's weights are "
                "missing from this checkpoint, and an engine would leave them at random values"
            )
        return self.head is None if self.flag is None else self.flag

    @property
    def sentence(self) -> str:
        """What is the case, in words; one for each combination of flag and file."""
        if self.flag is True and self.head is None:
            return "tied: the head is not stored, and the configuration says tied"
        if self.flag is True:
            return (
                f"tied by the configuration, and yet the file stores a head of its own "
                f"({self.head}): engines that obey the flag read the input table instead"
            )
        if self.flag is False and self.head is None:
            return "untied by the configuration, and no head is stored: its weights are missing"
        if self.flag is False:
            return f"untied: the head is {self.head}"
        if self.head is not None:
            return f"untied: the head is {self.head} ({self._unsaid})"
        return (
            "tied: no head is stored, so a head, if the model has one, is the input table "
            f"({self._unsaid})"
        )

    @property
    def _unsaid(self) -> str:
        return "llama.cpp goes by the file" if self.gguf else "the configuration does not say"
