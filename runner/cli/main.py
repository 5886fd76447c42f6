"""Arguments in, exit code out: 0 done, 1 the experiment failed, 2 the user's input is wrong, 130 interrupted
(or 128 and the number of another signal)."""

import argparse
import atexit
import gc
import sys
from collections.abc import Sequence
from importlib import import_module

from runner import __version__
from runner.cli.signals import exit_code, lasting_streams, raising
from runner.domain.errors import EndlessError, UserError

EPILOG = """\
first steps:
  endless run quickstart                    the whole pipeline on recorded replies: no key, no GPU, no Docker
  endless plan paper/qwen2.5-7b             what a run would do and cost, without running it
  endless run quickstart model=claude       the same recipe, live
  endless compare RUN RUN                   what differs between runs, and whether it is significant
  endless run quickstart filter.n=2         any key of a recipe can be set; `endless keys` lists them

exit codes: 0 done, 1 the experiment failed, 2 wrong input, 130 interrupted (143: SIGTERM, 129: SIGHUP)
"""


CLEAN = """\
Removed are built tasks, base images and graders that were not used for --days, and the longest unused ones beyond
sandbox.cache_gb; containers, folders and files that killed runs left. What a live run uses stays. All of it is made
again when it is wanted. Results (store/, runs/, the journal, MLflow) are never touched.
"""
RECIPE_COMMANDS = {
    "run": "run a recipe: the phases that are not done yet",
    "plan": "phases, fingerprints, calls, tokens and dollars of a recipe; runs nothing",
}


def parser() -> argparse.ArgumentParser:
    """The whole grammar, without importing any command."""
    top = argparse.ArgumentParser(
        prog="endless",
        description="Make RL environments for terminal agents, filter them, train on them: one recipe, one command.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"endless {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_show(commands)
    _add_compare(commands)
    _add_tasks(commands)
    _add_others(commands)
    return top


Commands = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_run(commands: Commands) -> None:  # type: ignore[valid-type]
    for name, text in RECIPE_COMMANDS.items():
        command = commands.add_parser(  # type: ignore[attr-defined]
            name,
            help=text,
            description=text,
            usage=f"endless {name} RECIPE [key=value ...] [-m] [--cfg job] [-v]",
            epilog="RECIPE is a name (paper/qwen2.5-7b) or the path of a .yaml file. -m sweeps over comma-separated "
            "values; --cfg job prints the composed recipe; -v logs more, and tracebacks of failures.",
        )
        command.set_defaults(module=f"runner.cli.{name}")


def _recipe_arguments(words: list[str]) -> argparse.Namespace:
    """``run`` and ``plan`` hand their words to Hydra's grammar, which is not argparse's."""
    name, *rest = words
    verbose = "-v" in rest or "--verbose" in rest
    rest = [word for word in rest if word not in ("-v", "--verbose")]
    return argparse.Namespace(command=name, module=f"runner.cli.{name}", words=rest, verbose=verbose)


def _add_show(commands: Commands) -> None:  # type: ignore[valid-type]
    text = "a run's summary, a task, or an episode replayed turn by turn"
    show = commands.add_parser("show", help=text, description=text)  # type: ignore[attr-defined]
    show.add_argument("what", choices=("runs", "run", "task", "episode"), nargs="?", default="run")
    show.add_argument("id", nargs="?", default="", help="a run, a task (000003-ab12cd34 or just 3), an episode (3/0)")
    show.add_argument("--run", default="", help="the run that a task or episode belongs to (default: the latest)")
    show.add_argument("--outputs", default="outputs", help="the outputs folder (default: outputs)")
    show.set_defaults(module="runner.cli.show")


def _add_compare(commands: Commands) -> None:  # type: ignore[valid-type]
    text = "runs side by side: which settings differ, which figures differ, and whether that is significant"
    compare = commands.add_parser("compare", help=text, description=text)  # type: ignore[attr-defined]
    compare.add_argument("runs", nargs="+", metavar="RUN", help="a run's folder, its name, or a part only it has")
    compare.add_argument("--out", default="", metavar="FOLDER", help="also write compare.html and compare.md there")
    compare.add_argument("--outputs", default="outputs", help="the outputs folder (default: outputs)")
    compare.set_defaults(module="runner.cli.compare")


def _add_tasks(commands: Commands) -> None:  # type: ignore[valid-type]
    tasks = commands.add_parser("tasks", help="check, import or export folders of tasks")  # type: ignore[attr-defined]
    actions = tasks.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="build, initial test passes, final test fails, oracle passes")
    check.add_argument("paths", nargs="+", metavar="PATH", help="task folders, or folders of them (any Harbor tasks)")
    check.add_argument("--sandbox", default="auto", help="auto, docker, apptainer or local (default: auto)")
    check.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    check.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the sandbox section")
    check.add_argument("--outputs", default="outputs", help="where images and the grader are cached")
    check.set_defaults(module="runner.cli.check")
    bring = actions.add_parser("import", help="Harbor tasks, or the paper's own folders, into the form stored here")
    bring.add_argument("source", metavar="PATH", help="a task folder, a folder of them, or a .tar, .tar.gz or .zip")
    bring.add_argument("--to", required=True, metavar="FOLDER", help="where they go; ids that are taken are refused")
    bring.add_argument("--json", action="store_true", help="one JSON object a line")
    bring.set_defaults(module="runner.cli.importing")
    export = actions.add_parser("export", help="write tasks in another format")
    export.add_argument("source", nargs="*", metavar="SOURCE", help="task folders (default: the latest run's dataset)")
    export.add_argument("--format", required=True, help="harbor, openrlhf or hf")
    export.add_argument("--to", required=True, metavar="FOLDER")
    export.add_argument("--run", default="", help="the run whose dataset to export (default: the latest)")
    export.add_argument("--truth", action="store_true", help="hf: include the hidden truth")
    export.add_argument("--outputs", default="outputs")
    export.set_defaults(module="runner.cli.export")


def _add_others(commands: Commands) -> None:  # type: ignore[valid-type]
    doctor = commands.add_parser("doctor", help="what works on this machine, what is missing, how to get it")  # type: ignore[attr-defined]
    doctor.set_defaults(module="runner.cli.doctor")
    ui = commands.add_parser("ui", help="the MLflow UI on a recipe's store")  # type: ignore[attr-defined]
    ui.add_argument("recipe", nargs="?", default="", help="a recipe whose store to show (default: outputs/mlflow.db)")
    ui.add_argument("--outputs", default="outputs")
    ui.add_argument("--host", default="127.0.0.1")
    ui.add_argument("--port", type=int, default=5000)
    ui.set_defaults(module="runner.cli.ui")
    text = "remove what runs keep for speed and nobody uses: images, layers, leftovers; never results"
    clean = commands.add_parser("clean", help=text, description=text, epilog=CLEAN)  # type: ignore[attr-defined]
    clean.add_argument("--all", action="store_true", help="everything that is kept for speed, however new")
    clean.add_argument(
        "--days", type=float, default=14, help="unused is what no run has wanted for so long (default: 14)"
    )
    clean.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    clean.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="address or cache_gb")
    clean.add_argument("--outputs", default="outputs", help="the outputs folder (default: outputs)")
    clean.set_defaults(module="runner.cli.clean")
    keys = commands.add_parser("keys", help="every key of a recipe: type, default and meaning")  # type: ignore[attr-defined]
    keys.add_argument("filter", nargs="?", default="", help="only keys that start with this")
    keys.set_defaults(module="runner.cli.keys")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Never raises; a traceback appears only for our own bugs, or with --verbose."""
    atexit.register(gc.freeze)  # at exit Python looks for garbage among all objects: a second, with MLflow's 400,000
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0] in RECIPE_COMMANDS and not {"-h", "--help"} & set(words):
        arguments = _recipe_arguments(words)
    else:
        arguments = parser().parse_args(words)
    try:
        with raising(), lasting_streams():
            code: int = import_module(arguments.module).main(arguments)
    except UserError as error:
        return _fail(error, 2, arguments)
    except EndlessError as error:
        return _fail(error, 1, arguments)
    except KeyboardInterrupt as interrupt:
        return _say("interrupted", exit_code(interrupt))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away (`| head`): nothing left to tell it
        return 0
    return code


def _fail(error: EndlessError, code: int, arguments: argparse.Namespace) -> int:
    if getattr(arguments, "verbose", False):
        raise error
    return _say(f"error: {error}", code)


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code
