"""What Hydra, OmegaConf and YAML say, in one or two lines that a recipe's author can act on."""

import re
import traceback
from collections.abc import Sequence

from runner.compose.hydra_main import group_names
from runner.compose.locate import recipe_names
from runner.compose.manual import describe_keys, key_names
from runner.compose.suggest import did_you_mean, nearest_keys, phrase
from runner.domain.errors import RecipeError
from runner.phases.registry import SECTIONS

_LIBRARIES = ("hydra", "omegaconf", "yaml", "antlr4")


def is_foreign(error: BaseException) -> bool:
    """Whether an exception comes from composing and not from us: by its type, or by who raised it."""
    raisers = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(module.partition(".")[0] in _LIBRARIES for module in (type(error).__module__, *raisers[-1:]))


def explain(error: BaseException, known_keys: Sequence[str] = ()) -> RecipeError:
    """The RecipeError for a composition error; ``known_keys`` are the keys the recipe has without overrides."""
    import yaml
    from hydra.errors import MissingConfigException, OverrideParseException
    from omegaconf.errors import OmegaConfBaseException

    present = {key.partition(".")[0] for key in known_keys if "." in key}
    absent = tuple(f"{name}." for name in SECTIONS if name not in present)
    keys = [*(name for name in key_names() if not name.startswith(absent)), *known_keys]
    match error:
        case MissingConfigException():
            return RecipeError(_missing(error.missing_cfg_file or "", error.options or (), str(error)))
        case OverrideParseException():
            return RecipeError(f"cannot read the override {error.override!r}: {_parse_reason(error.message)}")
        case yaml.MarkedYAMLError():
            return RecipeError(_yaml(error))
        case OmegaConfBaseException():
            return RecipeError(_omegaconf(error))
    return RecipeError(_composition(str(error), error.__cause__, keys))


def _missing(name: str, options: Sequence[str], text: str) -> str:
    group, _, option = name.rpartition("/")
    if group.startswith(("recipes", "own_recipe")):
        return f"defaults: there is no recipe {option!r}{did_you_mean(option, recipe_names())}"
    if not group or not options:
        wanted = re.search(r"Could not (?:find|load) '([^']*)'", text)
        name = wanted.group(1) if wanted else name
        return f"defaults: there is no {name!r}{did_you_mean(name.partition('/')[0], group_names())}"
    shown = ", ".join(options)
    return f"{group}={option}: the group {group} has no {option!r}{did_you_mean(option, options)}\noptions: {shown}"


def _parse_reason(message: str) -> str:
    """The reason without Hydra's pointer to its web page."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.startswith("See http")]
    return lines[0] if lines else "see Hydra's override grammar"


def _yaml(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{mark.name}, line {mark.line + 1}: " if mark else ""
    return f"not valid YAML: {where}{getattr(error, 'problem', None) or error}"


def _omegaconf(error: Exception) -> str:
    key = getattr(error, "full_key", "") or ""
    reason = str(error).partition("\n")[0]
    return f"{key}: {reason}" if key else reason


def _composition(text: str, cause: BaseException | None, keys: Sequence[str]) -> str:
    first = text.partition("\n")[0] or (_omegaconf(cause) if isinstance(cause, Exception) else "cannot be composed")
    first = re.sub(r"^In '[^']*': (?=Could not)", "", first)
    if found := re.match(r"Could not override '([^']*)'", first):
        return _unknown(found.group(1), keys, cause)
    if found := re.match(r"Could not delete from config\. '([^']*)' does not exist", first):
        return f"~{found.group(1)}: there is no such key{phrase(nearest_keys(found.group(1), keys))}"
    if found := re.match(r"Could not (?:append|delete) '([^']*)'", first):
        return f"{first.rstrip('.')}{did_you_mean(found.group(1), group_names())}"
    if found := re.match(r"Ambiguous value for argument '([^']*)'", first):
        name, _, value = found.group(1).partition("=")
        return f"{found.group(1)}: add -m to sweep over the values, or write '{name}=[{value}]' for a list"
    if found := re.match(r"Error merging override (.*)", first):
        return f"{found.group(1)}: {_omegaconf(cause) if isinstance(cause, Exception) else 'does not fit'}"
    if found := re.match(r"Override (\S+) looks like a config group", first):
        group = found.group(1).partition("@")[0].lstrip("+")
        return f"{found.group(1)}: there is no config group {group!r}{did_you_mean(group, group_names())}"
    if found := re.match(r"Multiple values for (\S+)\. To override a value use 'override \S+: ([^']*)'", first):
        group, option = found.groups()
        return f"{group} is chosen already; write {group}={option} without +, in defaults `override /{group}: {option}`"
    rest = text.partition("\n")[2].partition("\n")[0]
    return f"{first}\n{rest}" if first.endswith(("config:", ":")) and rest else first


def _unknown(key: str, keys: Sequence[str], cause: BaseException | None) -> str:
    """A key or a group that is not there. Hydra says it the same way for both."""
    groups = group_names()
    inner = str(getattr(cause, "full_key", "") or "")
    key = inner if inner.startswith((f"{key}.", f"{key}[")) else key
    if key.startswith("hydra"):
        return f"unknown key {key}"
    if "@" in key:
        group = key.partition("@")[0]
        hint = (
            did_you_mean(group, groups)
            if group not in groups
            else f"; {group}@ goes to models.generator or models.solver"
        )
        return f"{key}: nothing in this recipe is chosen by that{hint}"
    section = key.partition(".")[0]
    if section in SECTIONS and key != section and not any(name.startswith(f"{section}.") for name in keys):
        return f"{key}: this recipe has no {section}; choose one first, {section}=OPTION"
    if key in keys:  # a model's name: Hydra takes its dots for a path
        return f"{key}: a name with dots cannot be reached by dots; write {key.partition('.')[0]}={{NAME: ...}}"
    if key in groups:
        return f"{key} is not chosen in this recipe; write +{key}=OPTION to add it"
    near = phrase(nearest_keys(key, [name for name in (*keys, *groups) if "<name>" not in name]))
    adding = f"{' To' if near else '; to'} add it, write +{key}=..." if _is_open(key) else ""
    return f"unknown key {key}{near}{adding}"


def _is_open(key: str) -> bool:
    """Whether the schema leaves this name to the user: a price, a dimension, a value, a variable."""
    for entry in describe_keys():
        pattern = re.escape(entry.key).replace("<name>", "[^.]+")
        inside = pattern + r"\..+" if entry.type.startswith("mapping") else "(?!)"
        if re.fullmatch(f"{inside}|{pattern}" if "<name>" in entry.key else inside, key):
            return True
    return False
