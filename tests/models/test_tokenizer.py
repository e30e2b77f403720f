"""Whether a tokenizer is the model's own."""

import pytest

from ropewalk.errors import ModelFileError
from ropewalk.models.tokenizer import check_fits


def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_refused() -> None:
    check_fits(99, 100, "a model")
    with pytest.raises(ModelFileError, match=r"ids up to 100, and the model has 100 rows"):
        check_fits(100, 100, "a model")
