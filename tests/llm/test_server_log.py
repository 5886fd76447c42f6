"""The reason why a server died, found above what it printed while dying."""

from pathlib import Path

from runner.llm.server_log import last_lines

# What vLLM 0.29 prints when a worker cannot start, shortened.
DYING = """\
(EngineCore pid=22854) INFO 11-29 20:32:50 [core.py:123] Initializing a V1 LLM engine
(Worker pid=23309) ERROR 11-29 20:33:02 [multiproc_executor.py:1055] Traceback (most recent call last):
(Worker pid=23309) ERROR 11-29 20:33:02 [multiproc_executor.py:1055]   File "/v/cpu_worker.py", line 255, in _allocate
(Worker pid=23309) ERROR 11-29 20:33:02 [multiproc_executor.py:1055]     raise ValueError(
(Worker pid=23309) ERROR 11-29 20:33:02 [multiproc_executor.py:1055] ValueError: Available memory is less than requested
(EngineCore pid=22854) Process EngineCore:
(APIServer pid=22218) Traceback (most recent call last):
(APIServer pid=22218)   File "/v/utils.py", line 1320, in wait_for_engine_startup
(APIServer pid=22218)     raise RuntimeError(
(APIServer pid=22218)     ^^^^^^^^^^^^^^^^^^^
(APIServer pid=22218) RuntimeError: Engine core initialization failed. See root cause above.
"""


def test_the_cause_in_a_worker_is_among_the_last_lines_and_no_stack_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(DYING)
    lines = last_lines(log, 3)
    assert [line.rpartition("] ")[2] for line in lines] == [
        "ValueError: Available memory is less than requested",
        "(EngineCore pid=22854) Process EngineCore:",
        "(APIServer pid=22218) RuntimeError: Engine core initialization failed. See root cause above.",
    ]


def test_further_lines_of_an_exception_stay_and_long_lines_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("(APIServer pid=1) ValidationError: 1 error\n(APIServer pid=1)   Value error, " + "x" * 9000)
    first, second = last_lines(log, 12)
    assert first.endswith("1 error")
    assert second.startswith("(APIServer pid=1)   Value error, xxx")
    assert len(second) < 600


def test_a_log_that_is_not_there_or_empty_has_no_lines(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none", 5) == []
    (tmp_path / "log").write_bytes(b"\n\n")
    assert last_lines(tmp_path / "log", 5) == []
