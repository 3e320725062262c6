"""`Mutant`: one fault to plant into the package, and the tests that must notice it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGE: Final = "recollect"


@dataclass(frozen=True)
class Mutant:
    """One fault: replace `old` by `new` in a file below the package.

    Attributes
    ----------
    name : str
        What is wrong with the package when the fault is in it.
    file : str
        The file, relative to the package.
    old, new : str
        What is replaced, which must stand in the file exactly once, and by what.
    tests : tuple of str
        Test files, or ids of tests, of which at least one must fail. Few, so that a mutant takes seconds.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether the file is there, with the text to replace in it exactly once."""
        path = ROOT / PACKAGE / self.file
        return path.is_file() and path.read_text().count(self.old) == 1

    @property
    def has_kernels(self) -> bool:
        """Whether compiled code is changed, so that no cached kernel may be used."""
        source = (ROOT / PACKAGE / self.file).read_text()
        return "from numba" in source or "import numba" in source
