"""The ``sft`` section as a command of ``openrlhf.cli.train_sft``."""

from collections.abc import Iterator
from itertools import chain

from runner.schema import Config
from runner.schema_training import Device, Sft
from runner.training.compile.arithmetic import sft_steps
from runner.training.compile.checks import check_facts
from runner.training.compile.command import Command, Facts, Flag, flag
from runner.training.compile.layout import sft_processes
from runner.training.compile.notes import sft_notes
from runner.training.compile.overrides import finish
from runner.training.compile.parser import FlagTable, Program, installed_flags
from runner.training.compile.shared_flags import (
    checkpoint_flags,
    environment,
    logger_flags,
    machine_flags,
    optimizer_flags,
    warmup_warnings,
)

_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
"""What torchrun would set; MASTER_PORT is the launcher's, who finds a free one."""


def compile_sft(config: Config, facts: Facts, table: FlagTable | None = None) -> Command:
    """The command that trains what ``config.sft`` says. Like ``compile_ppo``."""
    sft = config.sft
    assert sft is not None, "the recipe has no sft section"
    table = table or installed_flags(config)
    check_facts(config, facts)
    processes = sft_processes(config.training)
    steps = sft_steps(sft, facts.rows, processes)
    checked = finish(_flags(config, sft, facts, steps), config.training.flags, table, Program.SFT)
    on_cpu = config.training.device is Device.cpu
    return Command(
        module=Program.SFT.module,
        launcher=() if on_cpu else _torchrun(processes),
        argv=checked.argv,
        env={**(_ALONE if on_cpu else {}), **environment(config, facts.model)},
        rows=facts.rows,
        steps=steps,
        optimizer_steps=steps,
        layout=("CPU: one process" if on_cpu else f"one node x {processes} GPUs, a process each",),
        checked=table.source,
        notes=(*sft_notes(sft, facts.rows, processes, steps), *checked.notes),
        warnings=tuple(warmup_warnings("sft.optimizer", sft.optimizer, steps)),
        flags=checked.flags,
    )


def _torchrun(processes: int) -> tuple[str, ...]:
    return ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")


def _flags(config: Config, sft: Sft, facts: Facts, steps: int) -> Iterator[Flag]:
    return chain(
        _model_and_data(config, sft, facts),
        _batches(sft),
        optimizer_flags("", "sft.optimizer", sft.optimizer, steps),
        machine_flags(config, "model.gradient_checkpointing_enable"),
        checkpoint_flags(config, facts, sft.save_every, "sft"),
        logger_flags(facts, "sft"),
    )


def _model_and_data(config: Config, sft: Sft, facts: Facts) -> Iterator[Flag]:
    yield flag("model.model_name_or_path", "training.policy", facts.model)
    yield flag("data.dataset", "sft.episodes", facts.data)
    yield flag("data.input_key", "sft.episodes", "messages")
    yield flag("data.apply_chat_template", "sft.episodes")
    yield flag("data.multiturn", "sft.episodes")
    yield flag("data.max_len", "sft.max_tokens", sft.max_tokens or config.agent.context_tokens)


def _batches(sft: Sft) -> Iterator[Flag]:
    yield flag("train.max_epochs", "sft.epochs", sft.epochs)
    yield flag("train.batch_size", "sft.batch_size", sft.batch_size)
    yield flag("train.micro_batch_size", "sft.micro_batch_size", sft.micro_batch_size)
