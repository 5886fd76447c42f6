"""A program that starts a model server and then waits to be killed: ``lifeline_owner.py LOG NAME VLLM``.

``VLLM`` is the recipe's section of that name, as JSON.
"""

import json
import sys
import time
from pathlib import Path

from runner import schema
from runner.llm.server import VllmServer

if __name__ == "__main__":
    vllm = schema.Vllm(**json.loads(sys.argv[3]))
    model = schema.Model(provider=schema.Provider.vllm, name=sys.argv[2], vllm=vllm)
    print(VllmServer(model, Path(sys.argv[1])).address(), flush=True)
    time.sleep(600)
