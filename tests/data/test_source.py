"""Sources: found by their names and by what lies at a path, and light to import."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import pytest

from proco import data
from proco.config import as_settings, merge
from proco.data.bundled import FashionMnistLt
from proco.data.cifar import Cifar10
from proco.data.folder import Folder
from proco.data.lists import ImageNetLt, Lists
from proco.data.source import Source, source_of
from proco.errors import ConfigError, DataError

WriteImage = Callable[..., Path]


@dataclass(frozen=True, kw_only=True)
class Settings:
    source: Source = field(default_factory=FashionMnistLt)


def test_sources_announce_themselves() -> None:
    files = Path(data.__file__).parent.glob("*.py")
    names = [name for file in files for name in re.findall(r'Source\.registry\.register\("(\w+)"\)', file.read_text())]
    assert len(names) >= 9
    assert sorted(names) == sorted(Source.registry)


def test_settings_choose_a_source_by_name() -> None:
    settings = merge(Settings, {"source": {"name": "folder", "path": "photos", "on_bad_image": "skip"}})
    assert settings.source == Folder(path=Path("photos"), on_bad_image="skip")
    assert merge(Settings, as_settings(settings)) == settings
    assert isinstance(merge(Settings, {"source": "fashion_mnist_lt"}).source, FashionMnistLt)
    with pytest.raises(ConfigError, match="on_bad_image"):
        merge(Settings, {"source": {"name": "folder", "path": "photos", "on_bad_image": "ignore"}})


@pytest.mark.parametrize("name", Source.registry)
def test_settings_survive_a_round_trip(name: str) -> None:
    kind = Source.registry[name]
    paths = {item.name: Path("some/where") for item in fields(kind) if item.name in ("path", "root", "train")}
    settings = Settings(source=kind(**paths))
    assert merge(Settings, as_settings(settings)) == settings


@pytest.mark.parametrize("name", Source.registry)
def test_sources_with_a_path_say_what_they_look_for(name: str) -> None:
    kind = Source.registry[name]
    assert bool(kind.looks_for) == ("path" in {item.name for item in fields(kind)})


def test_path_finds_its_source(tmp_path: Path, write_image: WriteImage) -> None:
    (tmp_path / "table.csv").touch()
    np.savez(tmp_path / "cifar10.npz", images=np.zeros(1))
    write_image(tmp_path / "photos" / "a" / "x.png")
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "ImageNet_LT_train.txt").touch()
    found = {
        path: Source.registry.name_of(type(source_of(tmp_path / path)))
        for path in ("table.csv", "cifar10.npz", "photos", "imagenet")
    }
    assert found == {"table.csv": "manifest", "cifar10.npz": "arrays", "photos": "folder", "imagenet": "imagenet_lt"}
    (tmp_path / "cifar").mkdir()
    (tmp_path / "cifar10.npz").rename(tmp_path / "cifar" / "cifar10.npz")
    assert source_of(tmp_path / "cifar") == Cifar10(path=tmp_path / "cifar")


def test_unknown_paths_are_answered_with_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing does not exist"):
        source_of(tmp_path / "missing")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=r"not data of a known kind. Looked for: an npz file \(arrays\); .*manifest"):
        source_of(tmp_path / "notes.txt")


def test_folders_that_are_nearly_data_are_told_what_they_lack(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"known kind\. There is no image in it\. Looked for"):
        source_of(tmp_path)
    for name in ("1.jpg", "2.PNG", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"Its images \(2\) are not in class folders; if it is the folder of one class"):
        source_of(tmp_path)
    (tmp_path / "deep" / "train" / "cats").mkdir(parents=True)
    (tmp_path / "deep" / "cats").mkdir()
    (tmp_path / "deep" / "cats" / "1.jpg").touch()  # beside an empty folder of training images
    with pytest.raises(DataError, match=r"known kind\. Looked for"):
        source_of(tmp_path / "deep")


def test_paths_of_two_kinds_are_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "cifar10.npz").touch()
    (tmp_path / "cifar100.npz").touch()
    with pytest.raises(DataError, match=r"can be read as cifar10 and as cifar100\. Say which"):
        source_of(tmp_path)


def test_lists_beside_the_images_go_before_the_folder(tmp_path: Path, write_image: WriteImage) -> None:
    write_image(tmp_path / "train" / "n01440764" / "x.png")
    assert source_of(tmp_path) == Folder(path=tmp_path)
    (tmp_path / "ImageNet_LT_train.txt").touch()
    assert source_of(tmp_path) == ImageNetLt(path=tmp_path)


def test_sources_are_known_and_light_once_the_package_is_imported() -> None:
    code = (
        "import sys, proco.data.long_tail; from proco.data.source import Source; "
        "print('folder' in Source.registry, [name for name in ('torchvision', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "True []"


def test_places_are_made_absolute() -> None:
    lists = Lists(root=Path("images"), train=Path("/lists/train.txt"))
    assert set(Lists.places()) == {"root", "train", "val", "test"}
    assert lists.from_anywhere() == Lists(root=Path.cwd() / "images", train=Path("/lists/train.txt"))
