"""A launcher that is not Hydra's basic one runs the jobs itself: they are handed over instead of collected."""

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = """
from hydra._internal.core_plugins.basic_launcher import BasicLauncher
from hydra.core.config_store import ConfigStore

class LoudLauncher(BasicLauncher):
    def launch(self, job_overrides, initial_job_idx):
        print("launching", len(job_overrides), flush=True)
        return super().launch(job_overrides, initial_job_idx)

ConfigStore.instance().store(
    group="hydra/launcher", name="loud", node={"_target_": "hydra_plugins.loud.LoudLauncher"}, provider="loud"
)
"""

PROGRAM = """
import sys
from runner.compose import run_app

ending = sys.argv[1]

def job(config, composition):
    print("job", config.filter.n, flush=True)
    if ending == "error":
        import yaml
        yaml.safe_load("[")
    return int(ending)

print("code", run_app(["quickstart", "-m", "filter.n=1,2", "hydra/launcher=loud"], job))
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "hydra_plugins").mkdir()
    (folder / "hydra_plugins" / "loud.py").write_text(PLUGIN)
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{root}"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, code], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def test_jobs_run_inside_the_launcher(tmp_path):
    done = run(tmp_path, "0")
    assert done.stdout.split("\n") == ["launching 2", "job 1", "job 2", "code 0", ""], done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".pyc"] == ["hydra_plugins"]


def test_a_job_that_fails_there_is_an_error_here(tmp_path):
    done = run(tmp_path, "1")
    assert done.returncode == 1
    assert "EndlessError: variant filter.n=1" in done.stderr


def test_an_error_of_a_job_there_is_not_taken_for_one_of_the_recipe(tmp_path):
    done = run(tmp_path, "error")
    assert done.returncode == 1
    assert "yaml.parser.ParserError" in done.stderr
    assert "RecipeError" not in done.stderr
