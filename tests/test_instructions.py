"""The regression guard: no hot path may take more instructions than were recorded."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location(
    "instructions", Path(__file__).parents[1] / "bench" / "instructions.py"
)
instructions = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(instructions)


def test_no_hot_path_takes_more_instructions_than_recorded():
    try:
        rows, comparable = instructions.compare()
    except instructions.UnavailableError as missing:
        pytest.skip(str(missing))
    if not comparable:
        pytest.skip(f"counts are recorded for another compiler than {instructions.compiler()}")
    slower = {path: change for path, *_, change in rows if change > instructions.TOLERANCE}
    assert not slower, "if this is meant, record it: python bench/instructions.py --write"
