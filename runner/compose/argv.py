"""``RECIPE key=value ... [-m] [--cfg job]``: which word is the recipe, which an override, which an option of Hydra."""

from collections.abc import Sequence
from dataclasses import dataclass

from runner.compose.suggest import did_you_mean
from runner.domain.errors import RecipeError

_FLAGS = ("-m", "--multirun", "--resolve")
_VALUED = {
    "--cfg": ("job", "hydra", "all"),
    "-c": ("job", "hydra", "all"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "-i": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "--package": None,
    "-p": None,
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A command line, sorted."""

    recipe: str
    overrides: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Hydra's own options, as they are passed on."""

    @property
    def prints(self) -> bool:
        """Whether Hydra only prints something (``--cfg``, ``--info``) and no job is wanted."""
        return any(option in _VALUED for option in self.options)


def parse(argv: Sequence[str]) -> Request:
    """Sort a command line. Raises RecipeError."""
    words, options = _split(list(argv))
    recipes = [word for index, word in enumerate(words) if _is_recipe(word, first=index == 0)]
    if not recipes:
        raise RecipeError("which recipe? `endless run RECIPE [key=value ...]`, for example `endless run quickstart`")
    if len(recipes) > 1:
        raise RecipeError(f"two recipes: {recipes[0]} and {recipes[1]}; an override is written key=value")
    return Request(
        recipe=recipes[0], overrides=tuple(word for word in words if word != recipes[0]), options=tuple(options)
    )


def _is_recipe(word: str, *, first: bool) -> bool:
    """Overrides hold ``=`` or start with ``~``; so may a path, when it comes first and ends in .yaml."""
    if first and word.endswith(".yaml") and "=" not in word.partition("/")[0]:
        return True
    return "=" not in word and not word.startswith("~")


def _split(rest: list[str]) -> tuple[list[str], list[str]]:
    words: list[str] = []
    options: list[str] = []
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if option in _FLAGS:
            options.append(option)
        elif option in _VALUED:
            options += [option, _choice(option, value if equals else (rest.pop(0) if rest else ""))]
        elif word.startswith("-"):
            raise RecipeError(f"unknown option {option}{did_you_mean(option, [*_FLAGS, *_VALUED])}")
        else:
            words.append(word)
    return words, options


def _choice(option: str, value: str) -> str:
    choices = _VALUED[option]
    if value and (choices is None or value in choices):
        return value
    wanted = " or ".join(choices) if choices else "a key of the recipe"
    raise RecipeError(f"{option} wants {wanted}{f', not {value}' if value else ''}")
