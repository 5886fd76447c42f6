"""``endless show episode``: an episode like the recording of a terminal.

Everything in it was written by a model or by the programs that it ran, so control characters are shown, not obeyed:
no recording clears the reader's screen or renames the window. Long lines are left to the terminal, so that they copy
whole.
"""

import unicodedata

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from runner.agent.protocol import Observation, read_observation
from runner.domain.episode import Episode, Outcome, Turn
from runner.domain.task import AGENT_HOME, AGENT_USER

COLOURS = {Outcome.PASS: "green", Outcome.FAIL: "yellow", Outcome.INFRA: "red"}


def show_episode(screen: Console, episode: Episode) -> None:
    """What the model was told; for each turn its thoughts, its command after a prompt, what came back and how long it
    took; and how it ended."""
    screen.print(Rule(f"episode {episode.id}", align="left"))
    _say(screen, episode.prompt.strip(), "dim")
    folder, elapsed = "", 0.0
    for number, turn in enumerate(episode.turns, 1):
        screen.print(Rule(_title(number, turn, elapsed), align="left", style="dim"))
        folder = _show_turn(screen, turn, folder)
        elapsed += turn.model_seconds + turn.command_seconds
    _show_end(screen, episode)


def visible(text: str) -> str:
    """The text with every character that would move the cursor, change the terminal or turn the writing shown by a
    sign or its number. Newlines and tabs stay."""
    return "".join(_sign(letter) for letter in text.replace("\r\n", "\n"))


def clock(seconds: float) -> str:
    """``0:07``, ``12:30``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _sign(letter: str) -> str:
    if letter in "\n\t" or unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return letter
    number = ord(letter)
    if number < 0x20 or number == 0x7F:
        return chr(0x2421 if number == 0x7F else 0x2400 + number)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _say(screen: Console, text: str, style: str = "") -> None:
    screen.print(Text(visible(text), style=style), soft_wrap=True)


def _title(number: int, turn: Turn, elapsed: float) -> str:
    tokens = f"{turn.input_tokens:,} tokens in, {turn.output_tokens:,} out"
    return f"turn {number}   at {clock(elapsed)}   {tokens} in {_seconds(turn.model_seconds)}"


def _show_turn(screen: Console, turn: Turn, folder: str) -> str:
    """Show it; returns the folder that its command left the shell in."""
    thought, _, _ = turn.reply.partition("<command>")
    thought = thought.replace("<think>", "").replace("</think>", "").replace("<action>done</action>", "").strip()
    if thought:
        _say(screen, thought, "italic")
    if turn.command is None:
        _say(screen, f"invalid: {turn.invalid}" if turn.invalid else "done", "yellow" if turn.invalid else "bold green")
        return folder
    prompt = Text(visible(_prompt(folder)), style="bold green")
    screen.print(prompt.append(visible(turn.command), style="bold default"), soft_wrap=True)
    seen = read_observation(turn.observation)
    if seen.output:
        _say(screen, seen.output)
    _show_status(screen, turn, seen)
    return seen.cwd or folder


def _prompt(folder: str) -> str:
    if not folder:
        return "$ "
    home = folder == AGENT_HOME or folder.startswith(f"{AGENT_HOME}/")
    return f"{AGENT_USER}:{'~' + folder.removeprefix(AGENT_HOME) if home else folder}$ "


def _show_status(screen: Console, turn: Turn, seen: Observation) -> None:
    for line in seen.notes:
        _say(screen, line, "yellow")
    took = _seconds(turn.command_seconds)
    if turn.exit_code is None:
        _say(screen, f"[no exit code, after {took}]", "yellow")
    else:
        _say(screen, f"[exit {turn.exit_code}, {took}]", "dim" if turn.exit_code == 0 else "red")


def _show_end(screen: Console, episode: Episode) -> None:
    turns = episode.turns
    screen.print(Rule(align="left"))
    model, commands = (sum(getattr(turn, f"{part}_seconds") for turn in turns) for part in ("model", "command"))
    tokens_in, tokens_out = (sum(getattr(turn, f"{way}_tokens") for turn in turns) for way in ("input", "output"))
    ended = episode.end.value.replace("_", " ")
    colour = COLOURS[episode.outcome]
    count = f"{len(turns)} turn{'' if len(turns) == 1 else 's'}"
    screen.print(
        f"[bold {colour}]{episode.outcome.value}[/]  ended by {ended} after {count} in {clock(episode.seconds)}"
        f"   model {_seconds(model)}, commands {_seconds(commands)}   {tokens_in:,} tokens in, {tokens_out:,} out",
        soft_wrap=True,
    )
    if episode.outcome is not Outcome.PASS and episode.verdict.strip():
        who = "what went wrong" if episode.outcome is Outcome.INFRA else "the verifier said"
        screen.print(Rule(who, align="left", style="dim"))
        _say(screen, episode.verdict.strip(), "dim")


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
