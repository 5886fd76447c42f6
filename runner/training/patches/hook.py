"""An import hook: call something with a module right after that module was executed, or hold something around it.

A name that ``from module import name`` takes elsewhere later is then the changed one.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

After = Mapping[str, Callable[[Any], None]]
"""Full module name -> what to do with the module. The modules are others' and have no types."""
Around = Mapping[str, Callable[[], AbstractContextManager[None]]]
"""Full module name -> what is entered while the module is executed."""


def arm_hook(name: str, after: After, around: Around | None = None) -> None:
    """Install the hook called ``name`` unless it is there. Raises RuntimeError when a module is imported already."""
    if any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        return
    around = around or {}
    late = sorted({*after, *around} & set(sys.modules))
    if late:
        raise RuntimeError(f"too late to patch {', '.join(late)}: arm the {name} patch before it is imported")
    sys.meta_path.insert(0, _Finder(name, after, around))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to change where all others are found too, and puts a loader around theirs.

    Several hooks may be armed: the search goes on behind this one, so that others may wrap the same module.
    """

    def __init__(self, name: str, after: After, around: Around) -> None:
        self.name = name
        self._after, self._around = after, around

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._after and fullname not in self._around:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                after, around = self._after.get(fullname, _nothing), self._around.get(fullname, nullcontext)
                spec.loader = _Loader(spec.loader, after, around)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(
        self,
        loader: importlib.abc.Loader,
        after: Callable[[Any], None],
        around: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._loader, self._after, self._around = loader, after, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with self._around():
            self._loader.exec_module(module)
        self._after(module)


def _nothing(_: Any) -> None:
    """For a module that only has something around it."""
