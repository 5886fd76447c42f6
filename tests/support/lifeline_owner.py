"""A program that starts a model server and then waits to be killed: ``lifeline_owner.py LOG COMMAND...``."""

import sys
import time
from pathlib import Path

from runner import schema
from runner.llm.server import VllmServer

if __name__ == "__main__":
    vllm = schema.Vllm(command=sys.argv[2:])
    model = schema.Model(provider=schema.Provider.vllm, name="tiny", vllm=vllm)
    print(VllmServer(model, Path(sys.argv[1])).address(), flush=True)
    time.sleep(600)
