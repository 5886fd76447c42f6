"""Prompts are Jinja templates in folders; a set's digest is part of the fingerprint of what it made."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError, Undefined
from jinja2.exceptions import TemplateNotFound

from runner.domain.errors import RecipeError


@dataclass(frozen=True)
class PromptSet:
    """A folder of ``*.j2`` templates. An undefined variable in one is an error, never an empty string."""

    folder: Path

    @classmethod
    def open(cls, builtin: Path, name: str) -> "PromptSet":
        """The set ``name`` below ``builtin``, or the absolute folder ``name``. Raises RecipeError for neither."""
        folder = Path(name) if Path(name).is_absolute() else builtin / name
        if not folder.is_dir():
            known = ", ".join(sorted(p.name for p in builtin.iterdir() if p.is_dir()))
            raise RecipeError(f"no prompt set {name!r} (there are: {known}, or an absolute folder of your own)")
        return cls(folder)

    @cached_property
    def digest(self) -> str:
        """A hash of every template's name and text, 16 hexadecimal digits."""
        state = hashlib.sha256()
        for path in sorted(self.folder.glob("*.j2")):
            state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return state.hexdigest()[:16]

    @cached_property
    def _environment(self) -> Environment:
        undefined: type[Undefined] = StrictUndefined
        return Environment(
            loader=FileSystemLoader(self.folder),
            undefined=undefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=False,
            autoescape=False,
        )

    def render(self, template: str, **values: Any) -> str:
        """Fill ``<template>.j2``. Raises RecipeError for a missing or broken template of the user's own set."""
        try:
            return self._environment.get_template(f"{template}.j2").render(**values)
        except TemplateNotFound as error:
            raise RecipeError(f"the prompt set {self.folder} lacks {error.name}") from error
        except TemplateError as error:
            raise RecipeError(f"{self.folder / template}.j2: {error}") from error
