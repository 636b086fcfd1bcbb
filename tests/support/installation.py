"""An installation of Hearth in a folder of its own, made to be broken and mended: a venv by hand, without pip."""

import os
import shutil
import sys
from pathlib import Path

import hearth


class Installation:
    """A venv whose only own package is a copy of `hearth`; the rest comes from the venv of the tests."""

    def __init__(self, folder: Path) -> None:
        own = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        own.mkdir(parents=True)
        (folder / "bin").mkdir()
        self.python = folder / "bin" / "python"
        self.python.symlink_to(os.path.realpath(sys.executable))
        (folder / "pyvenv.cfg").write_text(f"home = {Path(os.path.realpath(sys.executable)).parent}\n")
        self.package = own / "hearth"
        self._source = Path(hearth.__file__).parent
        self.install()
        # Folders named in a .pth file are searched after this one, and their own .pth files are not read.
        rest = [entry for entry in sys.path if entry.endswith("-packages")]
        (own / "rest.pth").write_text("\n".join(rest) + "\n")

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.python), "-I", "-m", "hearth.daemon")

    def install(self) -> None:
        """Put the whole package in place, whatever is there."""
        shutil.rmtree(self.package, ignore_errors=True)
        shutil.copytree(self._source, self.package, ignore=shutil.ignore_patterns("__pycache__"))

    def truncate(self, module: str) -> None:
        """Leave half a module, as an upgrade does that ran out of disk."""
        path = self.package / module
        text = path.read_text()
        path.write_text(text[: len(text) // 2] + "\n(")
