"""What tests of experiments share."""

import pytest

from smoke_runs import Smoke


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """Records at the smallest scale, by the name of an experiment."""
    return Smoke(tmp_path_factory.mktemp("smoke"))
