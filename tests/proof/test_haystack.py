import re
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import pytest

from ropewalk.errors import LengthError, UsageError
from ropewalk.proof.haystack import (
    LONGEST_SENTENCE,
    GeneratedHaystack,
    TextHaystack,
    read_sentences,
)
from ropewalk.proof.needles import VALUE_DIGITS, Needle, draw_needle

NUMBERED = tuple(f"Sentence {word} goes on for a while." for word in "abcdefghijklmnopqrst")


def words(text: str) -> int:
    return len(text.split())


def characters(text: str) -> int:
    return len(text) + 1


def generated(seed: int = 0, count: int = 3000) -> list[str]:
    return list(islice(GeneratedHaystack(Random(seed)).sentences(), count))


def test_no_sentence_comes_twice_and_none_has_a_digit_or_an_open_place() -> None:
    text = generated()
    assert len(set(text)) == len(text)
    assert not re.search(r"[\d{}<>]|\s\s", " ".join(text))
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in text)
    assert not any(re.search(r"\b[Aa] [aeiou]", sentence) for sentence in text)


def test_the_text_is_varied() -> None:
    """No run of eight words comes back often enough to be learnt in one reading."""
    text = " ".join(generated()).split()
    runs = [tuple(text[i : i + 8]) for i in range(len(text) - 8)]
    assert len(set(runs)) > 0.97 * len(runs)


def test_another_state_gives_another_text_and_the_same_the_same() -> None:
    assert generated(3, 50) == generated(3, 50)
    assert not set(generated(3, 50)) & set(generated(4, 50))


@pytest.mark.parametrize("wanted", [4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18])
def test_a_generated_filler_has_the_count_asked_for_and_is_new(wanted: int) -> None:
    haystack = GeneratedHaystack(Random(wanted))
    before = list(islice(haystack.sentences(), 200))
    filler = haystack.filler(wanted, words)
    assert filler is not None
    assert words(filler) == wanted
    assert filler not in before
    assert filler not in list(islice(haystack.sentences(), 200))


def test_a_tokenizer_that_cuts_into_characters_is_filled_with_short_sentences() -> None:
    filler = GeneratedHaystack(Random(0)).filler(24, characters)
    assert filler is not None
    assert characters(filler) == 24
    assert GeneratedHaystack(Random(0)).filler(3, characters) is None


def test_text_is_read_in_order_round_its_starting_point_and_once() -> None:
    starts = set()
    for seed in range(40):
        read = tuple(TextHaystack(NUMBERED, Random(seed)).sentences())
        start = NUMBERED.index(read[0])
        assert read == NUMBERED[start:] + NUMBERED[:start]
        starts.add(start)
    assert len(starts) > 10


def test_a_text_filler_is_the_beginning_of_the_sentence_that_did_not_fit() -> None:
    haystack = TextHaystack(NUMBERED, Random(0))
    for sentence in haystack.sentences():
        refused = sentence
        break
    filler = haystack.filler(3, words)
    assert filler == " ".join(refused.split()[:3]) + "."
    assert refused not in list(haystack.sentences())


@pytest.mark.parametrize("wanted", range(1, 60))
def test_a_long_text_filler_is_made_of_several_sentences(wanted: int) -> None:
    filler = TextHaystack(NUMBERED, Random(0)).filler(wanted, words)
    assert filler is not None
    assert words(filler) == wanted


def test_a_text_that_cannot_be_cut_to_size_has_no_filler() -> None:
    assert TextHaystack(NUMBERED, Random(0)).filler(500, words) is None
    assert TextHaystack(("Word.",), Random(0)).filler(2, characters) is None


def test_text_without_spaces_is_cut_at_a_character() -> None:
    filler = TextHaystack(("天地玄黄宇宙洪荒。",), Random(0)).filler(6, characters)
    assert filler == "天地玄黄."


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_sentences_of_a_folder_come_file_by_file_in_sorted_order(tmp_path: Path) -> None:
    folder = write(
        tmp_path, b_txt="Third one.", a_md="One\n is here. Two!\n", c_py="x = 1", d__e_TXT="Last?"
    )
    (folder / "not.txt").mkdir()
    assert read_sentences(folder) == ("One is here.", "Two!", "Third one.", "Last?")


def test_a_file_is_read_whatever_it_is_called_and_without_its_byte_order_mark(
    tmp_path: Path,
) -> None:
    file = tmp_path / "report"
    file.write_bytes("\ufeffFirst. 二。三？Last".encode())
    assert read_sentences(file) == ("First.", "二。", "三？", "Last")


@pytest.mark.parametrize("word", ["word ", "字"])
def test_text_without_full_stops_is_cut_and_nothing_of_it_is_lost(
    tmp_path: Path, word: str
) -> None:
    file = tmp_path / "table.txt"
    file.write_text(word * 700, encoding="utf-8")
    pieces = read_sentences(file)
    assert max(map(len, pieces)) <= LONGEST_SENTENCE
    assert "".join(pieces).replace(" ", "") == word.strip() * 700
    assert {part for piece in pieces for part in piece.split()} <= {"word"} or word == "字"


def test_text_that_is_not_utf_8_is_named_with_its_byte(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_bytes(b"caf\xe9 au lait.")
    with pytest.raises(UsageError, match=r"old\.txt is not UTF-8 text \(byte 3\)"):
        read_sentences(tmp_path)


def test_a_missing_haystack_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.txt cannot be read \(No such file"):
        read_sentences(tmp_path / "gone.txt")


@pytest.mark.parametrize("text", [None, "", " \n\t "])
def test_a_haystack_without_text_is_told(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "empty.txt").write_text(text)
    with pytest.raises(LengthError, match="holds no text"):
        read_sentences(tmp_path)


def test_needles_cannot_be_mistaken_for_each_other() -> None:
    count = 60
    for seed in range(40):
        random = Random(seed)
        needles: list[Needle] = []
        for _ in range(count):
            needles.append(draw_needle(random, needles))
        keys, values = {n.key for n in needles}, {n.value for n in needles}
        assert len(keys) == len(values) == count
        assert not any(a != b and a.startswith(b) for a in keys for b in keys)


def test_a_value_is_a_number_that_stuttering_does_not_give() -> None:
    random = Random(0)
    for _ in range(500):
        value = draw_needle(random).value
        assert re.fullmatch(rf"[1-9]\d{{{VALUE_DIGITS - 1}}}", value)
        assert all(a != b for a, b in pairwise(value))


def test_question_and_opening_name_the_key_and_no_number() -> None:
    needle = draw_needle(Random(5))
    assert needle.sentence.startswith(f"{needle.opening} {needle.value}")
    for asked in (needle.question, needle.opening):
        assert needle.key in asked
        assert not re.search(r"\d", asked)
