"""The unmodified OpenRLHF 0.11.2 on a CPU: what it takes for granted about GPUs, answered in another way.

``arm()`` only installs an import hook (see ``patches/hook.py``); nothing is imported or changed until a process imports
OpenRLHF. It refuses beside a GPU: what it changes would spoil a training there.

========================================  ===========================================================================
``openrlhf``                              the four ``torch.cuda`` calls that a CPU build of torch cannot answer, and
                                          ``init_device_mesh("cuda", ...)``
``openrlhf.models.ring_attn_utils``       flash_attn, a wheel for GPUs only, stands in for the length of that import
``openrlhf.utils.distributed_util``       the NCCL group that carries new weights to vLLM becomes a gloo group
``openrlhf.trainer.ray.vllm_worker_wrap``  ``update_weight``: receive on the CPU, and pack the layers anew
========================================  ===========================================================================
"""

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from runner.training.patches.hook import arm_hook


def arm() -> None:
    """Install the hook. Idempotent."""
    arm_hook("cpu", AFTER, AROUND)


class _CpuDevice(str):
    """What ``torch.cuda.current_device()`` answers: "cpu" as a device, and 0 inside ``f"cuda:{...}"``, which OpenRLHF's
    replay buffer makes and never uses."""

    __slots__ = ()

    def __new__(cls) -> "_CpuDevice":
        return super().__new__(cls, "cpu")

    def __format__(self, spec: str) -> str:
        return "0"

    def __reduce__(self) -> tuple[type["_CpuDevice"], tuple[()]]:
        return (_CpuDevice, ())


def _answer_for_cuda(_: Any) -> None:
    """After ``openrlhf``. Raises RuntimeError beside a GPU."""
    import torch
    import torch.distributed.device_mesh as mesh

    cuda: Any = torch.cuda
    if cuda.is_available():
        raise RuntimeError("this machine has a GPU, and training.device is cpu: set training.device=cuda")
    cuda.set_device = lambda device: None
    cuda.current_device = _CpuDevice
    cuda.synchronize = lambda device=None: None
    cuda.current_stream = lambda device=None: None
    init_device_mesh: Any = mesh.init_device_mesh

    @functools.wraps(init_device_mesh)
    def init_cpu_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return init_device_mesh("cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    mesh.init_device_mesh = init_cpu_mesh


@contextmanager
def _without_flash_attn() -> Iterator[None]:
    """Around ``openrlhf.models.ring_attn_utils``. Gone afterwards, so that transformers and vLLM see no flash_attn."""
    stubs = _flash_attn_stubs()
    sys.modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            sys.modules.pop(name, None)


def _flash_attn_stubs() -> dict[str, ModuleType]:
    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("there is no flash_attn on a CPU: training.packing must be off")

    names = ("flash_attn", "flash_attn.utils", "flash_attn.bert_padding", "flash_attn.utils.distributed")
    stubs: dict[str, Any] = {name: ModuleType(name) for name in names}
    for name in ("index_first_axis", "pad_input", "rearrange", "unpad_input"):
        setattr(stubs["flash_attn.bert_padding"], name, absent)
    stubs["flash_attn.utils.distributed"].all_gather = absent
    return stubs


class _GlooGroup:
    """The one method of vLLM's PyNcclCommunicator that OpenRLHF calls."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
        self._group.broadcast(tensor, src).wait()


def _sync_over_gloo(module: Any) -> None:
    """After ``openrlhf.utils.distributed_util``."""

    def stateless_init_process_group(host: str, port: int, rank: int, world_size: int, device: Any) -> _GlooGroup:
        from vllm.distributed.utils import (  # type: ignore[import-not-found,unused-ignore]
            stateless_init_torch_distributed_process_group as init,
        )

        return _GlooGroup(init(host, port, rank, world_size, "gloo"))

    module.stateless_init_process_group = stateless_init_process_group


def _update_packed_layers(module: Any) -> None:
    """After ``openrlhf.trainer.ray.vllm_worker_wrap``.

    vLLM's CPU layers pack their weight and drop the parameter, so that loading alone cannot find it again. vLLM's own
    layerwise reload restores the parameters and packs each full layer anew.
    """
    update_weight = module.WorkerWrap.update_weight

    @functools.wraps(update_weight)
    def update_weight_on_cpu(self: Any, name: str, dtype: Any, shape: Any, empty_cache: bool = False) -> None:
        from vllm.config import set_current_vllm_config  # type: ignore[import-not-found,unused-ignore]
        from vllm.model_executor.model_loader.reload import (  # type: ignore[import-not-found,unused-ignore]
            finalize_layerwise_reload,
            initialize_layerwise_reload,
        )

        model = self.model_runner.get_model()
        with _cuda_means_cpu(), set_current_vllm_config(self.vllm_config):
            if not getattr(self, "_reloading", False):
                initialize_layerwise_reload(model)
                self._reloading = True
            update_weight(self, name, dtype, shape, empty_cache)
            if empty_cache:  # OpenRLHF's mark on the last parameter
                finalize_layerwise_reload(model, self.model_config)
                self._reloading = False
                _repack_embeddings(model)

    module.WorkerWrap.update_weight = update_weight_on_cpu


def _repack_embeddings(model: Any) -> None:
    """A tied lm_head receives no weight of its own: without this, the engine would sample from a stale one."""
    from vllm.model_executor.layers.vocab_parallel_embedding import (  # type: ignore[import-not-found,unused-ignore]
        VocabParallelEmbedding,
    )

    for layer in model.modules():
        if isinstance(layer, VocabParallelEmbedding):
            layer.quant_method.process_weights_after_loading(layer)


def _cuda_means_cpu() -> Any:
    """A context in which tensors asked for on "cuda" are made on the CPU."""
    from torch.overrides import TorchFunctionMode

    class CudaMeansCpu(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("device") == "cuda":
                kwargs["device"] = "cpu"
            return func(*args, **kwargs)

    return CudaMeansCpu()


AFTER = {
    "openrlhf": _answer_for_cuda,
    "openrlhf.utils.distributed_util": _sync_over_gloo,
    "openrlhf.trainer.ray.vllm_worker_wrap": _update_packed_layers,
}
AROUND = {"openrlhf.models.ring_attn_utils": _without_flash_attn}
