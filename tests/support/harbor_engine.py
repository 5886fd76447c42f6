"""Harbor's Docker environment on an engine without a bridge network, such as the tests' own: for Harbor's Python only.

Harbor keeps a task from the network with a sidecar that it builds from a registry's image, on a bridge network. Here a
container simply gets no network at all, which is the same to a task, and images are built with the machine's. All else
is Harbor's own environment.
"""

from pathlib import Path
from typing import Any

from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.environments.docker.docker import DockerEnvironment

OVERLAY = Path(__file__).with_name("harbor_overlay.yaml")


class BridgelessDocker(DockerEnvironment):
    """No network for containers, this machine's for builds."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        more = [*(keywords.pop("extra_docker_compose", None) or ()), OVERLAY]
        super().__init__(*arguments, extra_docker_compose=more, **keywords)

    @staticmethod
    def _requires_egress_control(**_: Any) -> bool:
        return False

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return super().capabilities.model_copy(update={"disable_internet": True})
