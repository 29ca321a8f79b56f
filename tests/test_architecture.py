"""The rules of the tree that no type checker knows: which way imports point, and what they cost."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import proco

SOURCE = Path(proco.__file__).parent
# Left to right; a module may import from its own layer's package and from layers before it.
LAYERS = [
    ["errors"],
    ["ranges", "registry", "roles"],
    ["config", "distributed", "full_precision"],
    ["kernels", "sphere"],
    ["losses"],
    ["augment"],
    ["data", "evaluation", "models", "optim"],
    ["methods"],
    ["training"],
    ["cli"],
]
HEAVY = ["timm", "torchvision", "matplotlib", "scipy", "sklearn", "pandas", "yaml", "typer", "rich"]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def layer_of(name: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


def imported_parts(path: Path) -> set[str]:
    """The parts of proco that a file imports: 'sphere' for proco.sphere.bessel."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "proco":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("proco.")}
    return found - {"__version__"}


def test_every_part_has_a_layer() -> None:
    parts = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in modules()} - {"__init__", "__main__"}
    assert parts == {name for layer in LAYERS for name in layer}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in ("__init__", "__main__"):
        return
    for other in imported_parts(path):
        assert other == part or layer_of(other) < layer_of(part), f"{path.name} imports {other}"


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_core_imports_need_torch_and_numpy_only() -> None:
    loaded = run_python(f"import sys, proco.losses, proco.sphere; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_package_import_does_not_load_torch() -> None:
    assert run_python("import sys, proco; print('torch' in sys.modules)") == "False"


@pytest.mark.parametrize("name", proco.__all__)
def test_public_names_resolve(name: str) -> None:
    assert getattr(proco, name).__name__ == name
    assert name in dir(proco)


def test_public_names_are_those_the_type_checker_sees() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == set(proco.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'ProcoLoss'"):
        _ = proco.ProcoLoss
