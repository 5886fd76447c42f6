"""Both provider APIs, for tests that must hold for either."""

import pytest


@pytest.fixture(params=["openai", "anthropic"])
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)
