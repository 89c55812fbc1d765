"""Compile the kernels into a wheel, where there is a compiler.

Each library is one for all processors of a kind and chooses its instructions when it runs.
Without a compiler the wheel is pure; its kernels are then compiled at their first use.
"""

from __future__ import annotations

import importlib.util
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,type-arg,unused-ignore]
    """Called by hatchling before it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the library, unless the wheel only points to the sources."""
        if self.target_name != "wheel" or version == "editable":
            return
        building = _building(Path(self.root))
        self._folder = tempfile.TemporaryDirectory(prefix="colangevin-")
        made = {}
        try:
            compiler = building.find_compiler()
            for name in building.LIBRARIES:
                out = Path(self._folder.name) / building.packaged(name)
                building.build(compiler, name, out, portable=True)
                made[str(out)] = f"colangevin/native/{out.name}"
        except building.BuildError as error:
            self.app.display_warning(f"No compiled kernels in this wheel: {error}")
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"].update(made)
        build_data["pure_python"] = False
        # Called through ctypes: it depends on the machine, but on no version of Python.
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _building(root: Path) -> ModuleType:
    """``building.py`` alone: the package around it needs torch."""
    path = root / "src" / "colangevin" / "native" / "building.py"
    spec = importlib.util.spec_from_file_location("colangevin_building", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
