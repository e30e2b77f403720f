"""What a model says once it has done with thinking: the answer is what follows the end of it.

Models mark their thinking in many ways: <think> and [THINK] with a closing mark of the same name,
channels (harmony's <|channel|>analysis<|message|>, Gemma's <|channel>thought ... <channel|>),
reserved tokens (MedGemma's <unused94>thought ... <unused95>), headings (Granite's "Here is my
thought process: ... Here is my response:"). A list of them would soon be old, so only their grammar
is known:

- a mark is a name in brackets; one that names thinking opens it wherever it stands, and one of any
  other name where the reply begins with it, if the reply goes on behind its closing mark;
- a mark closes another when it has the same name and a slash, an "end" or another form of brackets;
  marks that are written like special tokens are closed by the next one of their kind;
- a closing mark without an opening one closes what was opened in the prompt;
- of channels the last "final" is the answer.

Where the end was not reached, nothing has been answered, whatever was quoted on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.short import short

_THINKING = re.compile(
    r"think|thought|reason|reflect|reflex|analy[sz]|ponder|deliberat|scratch|ruminat|contemplat"
    r"|monolog|rationale|cogit|denk|pens[eé]|мысл|思|推理|\bcot\b",
    re.I,
)
_ANSWER = re.compile(
    r"answer|respon|final|solution|output|result|reply|conclu|antwort|réponse|respuesta|回答|答",
    re.I,
)
_PLAIN = re.compile(
    r"(?:a|b|i|u|s|p|em|br|li|ul|ol|td|tr|th|h\d|div|pre|sup|sub|span|code|mark|strong|table|html|body"
    r"|pad|bos|eos|unk|user|model|system|assistant|im[_ ]?(?:start|end)"
    r"|(?:start|end)[_ ]of[_ ](?:turn|text)"
    r"|e(?:o|nd)[_ ]?o?f?[_ ]?t(?:urn|ext)?(?:[_ ]id)?|endoftext|end|return|start|message"
    r"|(?:start|end)[_ ]header[_ ]id|inst|sys|image|doc|document|report|key|value|name|city|file)",
    re.I,
)
"""Marks that are no thinking: of text, of roles, of turns, and of what was asked."""

_MARK = re.compile(
    r"(?P<open>[<\[{◁⟨⟦【〔《「『«‹]{1,2}[|｜#!]?)\s*(?P<slash>/?)\s*"
    r"(?P<name>[^\W\d_][\w:.\-]{0,40}(?: [\w:.\-]{1,20}){0,3})\s*"
    r"(?P<close>[|｜#!]?[>\]}▷⟩⟧】〕》」』»›]{1,2})"
)
_EDGE = re.compile(
    r"^(begin|start|end|stop|close|open)[_ -]?(?:of[_ -]?)?|[_ -](begin|start|end|stop|off|on)$",
    re.I,
)
_ENDS = ("end", "stop", "close", "off")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_BARE_CHANNELS = re.compile(r"\A\s*(?:assistant)?(?:analysis|commentary)(?=[A-Z\W])")
_BARE_FINAL = re.compile(r"(?:\A\s*|assistant\s*)final(?=[A-Z0-9\W]|\Z)")
_HEADING = re.compile(
    r"\A[\s#*_]*(?:(?:here(?: is|'s|’s)|this is) (?:my|the) )?"
    r"(?:(?:thought|thinking|reasoning)(?: process)?|thoughts|analysis|chain[- ]of[- ]thought"
    r"|step[- ]by[- ]step (?:thinking|reasoning))[\s*_]*(?::|\n)",
    re.I,
)
_ANSWER_HEADING = re.compile(
    r"(?:(?:here(?: is|'s|’s)|this is) (?:my|the) |(?<=\n)[\s#*_]*(?:(?:my|the) )?)"
    r"(?:final )?(?:answer|response|reply|solution|conclusion|output)[\s*_]*(?::|\n)[*_]*",
    re.I,
)
_BARE_THOUGHT = re.compile(r"\A\s*(?:thought|think|thinking)\n")
_TAIL = 160
"""Characters at the end of a prompt in which a template may open thinking."""


@short
@dataclass(frozen=True, slots=True)
class Spoken:
    """What follows thinking is the `answer`. `thought`: there was some; `open`: it did not end."""

    answer: str
    open: bool = False
    thought: bool = False


@dataclass(frozen=True, slots=True)
class _Mark:
    start: int
    end: int
    brackets: tuple[str, str]
    name: str
    slash: bool
    follows: str = ""

    @property
    def core(self) -> str:
        """The name without what says that it begins or ends."""
        bare = _EDGE.sub("", self.name.lower())
        return re.sub(r"\d+$", "", bare) if bare.startswith("unused") else bare

    @property
    def edge(self) -> str:
        found = _EDGE.search(self.name.lower())
        return (found[1] or found[2] or "") if found else ""

    @property
    def ends(self) -> bool:
        """Whether it is plainly a closing one."""
        return self.slash or self.edge in _ENDS

    @property
    def special(self) -> bool:
        """Whether it is written as special tokens are, which stand for nothing else."""
        return (
            self.brackets[0][0] not in "<[{"
            or "|" in "".join(self.brackets)
            or ("｜" in "".join(self.brackets) or self.name.lower().startswith("unused"))
        )

    @property
    def thinks(self) -> bool:
        return is_thinking(self.name) or bool(re.match(r"\s*(?:thought|thinking)\b", self.follows))

    @property
    def plain(self) -> bool:
        return bool(_PLAIN.fullmatch(self.name)) or bool(_ANSWER.search(self.name))

    def closes(self, other: _Mark, last: bool) -> bool:
        """Whether it ends what `other` began; `last`: no mark behind it does so plainly."""
        if self.core == other.core and (self.ends or self.brackets != other.brackets):
            return True
        if self.core == other.core == "unused" and self.name != other.name:
            return True
        if not last or self.thinks:
            return False
        return bool(_ANSWER.search(self.name)) or (self.special and self.brackets == other.brackets)


def is_thinking(name: str) -> bool:
    """Whether a word, as of a mark, names thinking."""
    return bool(_THINKING.search(name))


def spoken(text: str, *, cut: bool = False, before: str = "", chat: bool = True) -> Spoken:
    """What a reply answers. `cut`: it ended because its tokens were used up.

    `before` is the prompt as the model read it: a template may open thinking there. Without `chat`
    the reply goes on with a text, and only what plainly is thinking is taken for it.
    """
    if found := _channels(text) or _headings(text, cut):
        return found
    opened = _opened(before)
    return _blocks(text, cut, opened, chat=chat)


def _channels(text: str) -> Spoken | None:
    """Harmony's channels, with its special tokens or with the words that are left without them."""
    parts = list(_CHANNEL.finditer(text))
    if parts or text.lstrip().startswith("<|channel|>"):
        final = [part for part in parts if part[1] == "final"]
        if not final:
            return Spoken("", open=True, thought=True)
        answer = text[final[-1].end() :].partition("<|")[0]
        return Spoken(answer.strip(), thought=len(parts) > 1)
    finals = list(_BARE_FINAL.finditer(text))
    if _BARE_CHANNELS.match(text):
        if not finals:
            return Spoken("", open=True, thought=True)
        return Spoken(text[finals[-1].end() :].strip(), thought=True)
    if finals and finals[0].start() == 0 and text[finals[0].end() :][:1].isalnum():
        return Spoken(text[finals[0].end() :].strip())
    return None


def _headings(text: str, cut: bool) -> Spoken | None:
    """Thinking under a heading of words, and the answer under another."""
    if _BARE_THOUGHT.match(text) and not _MARK.search(text):
        # Gemma's and MedGemma's without their marks: the answer follows without a sign of its own.
        lines = [line for line in text.splitlines() if line.strip()]
        return Spoken("", True, True) if cut else Spoken(lines[-1].strip(), thought=True)
    if not _HEADING.match(text):
        return None
    answers = list(_ANSWER_HEADING.finditer(text))
    if answers:
        return Spoken(text[answers[-1].end() :].strip(), thought=True)
    return Spoken("", True, True) if cut else None


def _marks(text: str) -> Iterator[_Mark]:
    for each in _MARK.finditer(text):
        brackets = each["open"], each["close"]
        follows = text[each.end() : each.end() + 12]
        yield _Mark(each.start(), each.end(), brackets, each["name"], bool(each["slash"]), follows)


def _opened(before: str) -> _Mark | None:
    """The mark at the end of a prompt that opens thinking there, None where none does."""
    tail = before[-_TAIL:].rstrip()
    opened: _Mark | None = None
    for mark in _marks(tail):
        if opened is not None and mark.closes(opened, last=False):
            opened = None
        elif not mark.ends and (mark.thinks or (mark.end == len(tail) and not mark.plain)):
            opened = mark
    return opened


def _blocks(text: str, cut: bool, opened: _Mark | None, *, chat: bool) -> Spoken:
    """Blocks between marks taken out."""
    marks, kept, at = list(_marks(text)), "", 0
    inside, thought, wrapped = opened, opened is not None, ""
    names = set()
    for index, mark in enumerate(marks):
        if inside is not None:
            later = any(each.closes(inside, last=False) for each in marks[index + 1 :])
            if mark.closes(inside, last=not later):
                wrapped = "" if inside.thinks else text[at : mark.start]
                inside, at, thought = None, mark.end, True
            continue
        if mark.ends:
            # Opened where we cannot see it: in the prompt.
            goes_on = bool(text[mark.end :].strip())
            if mark.core not in names and not mark.plain and (mark.thinks or (goes_on and chat)):
                kept, at, thought = "", mark.end, True
            continue
        names.add(mark.core)
        first = not text[: mark.start].strip()
        if (mark.thinks and (chat or first)) or (
            first and chat and not mark.plain and " " not in mark.name
        ):
            kept, inside, at = kept + text[at : mark.start], mark, mark.end
    if inside is not None:
        if cut or inside.thinks:
            return Spoken("", open=True, thought=True)
        # One whole reply in brackets, or a word in them: nothing was thought.
        return Spoken(text.strip())
    answer = (kept + text[at:]).strip()
    if not answer and wrapped.strip():
        return Spoken(wrapped.strip())
    return Spoken(answer, thought=thought)
