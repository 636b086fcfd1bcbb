"""A watch on the way to a file, under everything that editors and dotfile managers do to it."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("inotify is Linux's", allow_module_level=True)

from hearth.host.linux import file_watch
from hearth.host.linux.file_watch import FileWatch, way_to

# The kernel tells at once; whoever waits so long is told nothing.
BOUND_SECONDS = 5.0


class Place:
    """A config file that is two links away: its folder is one, and it is one itself."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real = root / "dotfiles" / "v1" / "config.toml"
        self.real.parent.mkdir(parents=True)
        self.real.write_text("first")
        (root / "dotfiles" / "current.toml").symlink_to("v1/config.toml")
        (root / "dotfiles" / "hearth").mkdir()
        (root / "dotfiles" / "hearth" / "config.toml").symlink_to("../current.toml")
        (root / ".config").mkdir()
        (root / ".config" / "hearth").symlink_to(root / "dotfiles" / "hearth")
        self.path = root / ".config" / "hearth" / "config.toml"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def watch(place: Place) -> Iterator[FileWatch]:
    opened = FileWatch(str(place.path))
    yield opened
    opened.close()


def told(watch: FileWatch) -> bool:
    """Whether the watch has news, as soon as the kernel says that there may be some."""
    return bool(select.select([watch.descriptor], [], [], BOUND_SECONDS)[0]) and watch.read()


def replace(place: Path, text: str) -> None:
    temporary = place.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(place)


def swap_link(link: Path, target: str) -> None:
    temporary = link.with_suffix(".tmp")
    temporary.symlink_to(target)
    temporary.replace(link)


def truncate_and_write(place: Place) -> None:
    place.path.write_text("second")


def rename_over(place: Place) -> None:
    replace(place.real, "second")


def delete_and_create(place: Place) -> None:
    place.real.unlink()
    place.real.write_text("second")


def touch(place: Place) -> None:
    os.utime(place.path)


def change_mode(place: Place) -> None:
    place.real.chmod(0o400)


def put_a_file_in_the_place_of_the_link(place: Place) -> None:
    replace(place.root / "dotfiles" / "hearth" / "config.toml", "second")


def swap_the_last_link(place: Place) -> None:
    other = place.root / "dotfiles" / "v2" / "config.toml"
    other.parent.mkdir()
    other.write_text("second")
    swap_link(place.root / "dotfiles" / "current.toml", "v2/config.toml")


def swap_the_folder(place: Place) -> None:
    other = place.root / "elsewhere"
    other.mkdir()
    (other / "config.toml").write_text("second")
    swap_link(place.root / ".config" / "hearth", str(other))


WAYS: list[Callable[[Place], None]] = [
    truncate_and_write,
    rename_over,
    delete_and_create,
    touch,
    change_mode,
    put_a_file_in_the_place_of_the_link,
    swap_the_last_link,
    swap_the_folder,
]


@pytest.mark.parametrize("write", WAYS)
def test_every_way_of_writing_is_told_and_so_is_the_next(
    place: Place, watch: FileWatch, write: Callable[[Place], None]
) -> None:
    write(place)
    assert told(watch)
    # What is watched now is what the name stands for now.
    while watch.read():
        pass
    place.path.chmod(0o600)
    place.path.write_text("third")
    assert told(watch)


def test_other_names_in_the_same_folders_are_no_news(place: Place, watch: FileWatch) -> None:
    (place.real.parent / "other.toml").write_text("x")
    (place.root / ".config" / "other").mkdir()
    assert not told(watch)


def test_a_file_whose_folders_come_one_by_one_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "config.toml"
    watch = FileWatch(str(path))
    for step in (tmp_path / "a", tmp_path / "a" / "b"):
        step.mkdir()
        assert told(watch)
    path.write_text("x")
    assert told(watch)
    watch.close()


def test_a_folder_that_goes_is_told_and_its_return_too(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    watch = FileWatch(str(folder / "config.toml"))
    folder.rename(tmp_path / "b")
    assert told(watch)
    folder.mkdir()
    assert told(watch)
    (folder / "config.toml").write_text("x")
    assert told(watch)
    watch.close()


def test_links_in_a_circle_are_followed_no_further_than_the_kernel_would(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert way_to(str(tmp_path / "a")) == {(str(tmp_path), "a"), (str(tmp_path), "b")}


def test_the_way_has_each_link_and_the_file(place: Place) -> None:
    root = str(place.root)
    assert way_to(str(place.path)) == {
        (f"{root}/.config", "hearth"),
        (f"{root}/dotfiles/hearth", "config.toml"),
        (f"{root}/dotfiles", "current.toml"),
        (f"{root}/dotfiles/v1", "config.toml"),
    }


def test_names_that_no_encoding_fits_are_watched_too(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.toml")
    watch = FileWatch(path)
    Path(path).write_text("x")
    assert told(watch)
    watch.close()


def test_events_that_were_lost_are_news(place: Place, watch: FileWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = file_watch._EVENT.pack(-1, file_watch._OVERFLOW, 0, 0)
    waiting = [overflow, b""]
    monkeypatch.setattr(watch, "_take", lambda: waiting.pop(0))
    assert watch.read()


def test_a_system_without_watches_left_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: FileWatch, function: str, *arguments: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FileWatch, "_called", refuse)
    with pytest.raises(OSError, match="No space left"):
        FileWatch(str(tmp_path / "x"))
