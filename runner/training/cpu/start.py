"""Starts a program of OpenRLHF on a CPU: ``python -m runner.training.cpu.start MODULE ARGUMENT...``.

Ray is started first, with GPUs that are only counters: PPO asks for one each for actor, critic and engine. OpenRLHF
keeps a Ray that already runs.
"""

import runpy
import sys

GPUS = 3
CPUS = GPUS + 2


def main() -> None:
    """Run the module as ``__main__`` with the rest of the command line."""
    module, sys.argv = sys.argv[1], sys.argv[1:]
    if module.endswith("train_ppo_ray"):
        import ray  # type: ignore[import-not-found,unused-ignore]

        ray.init(num_gpus=GPUS, num_cpus=CPUS, include_dashboard=False)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
