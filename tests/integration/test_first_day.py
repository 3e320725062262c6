"""A newcomer's first day, from a wheel in an empty environment."""

from pathlib import Path

import pytest

from tests.first_day import main


@pytest.mark.long
def test_a_first_day(tmp_path: Path) -> None:
    main(tmp_path / "day")
