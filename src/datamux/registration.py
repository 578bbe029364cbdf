"""Register our models with transformers' Auto classes on `import datamux`, without importing transformers.

If the Auto classes are loaded already, registration happens at once; otherwise, as soon as they are loaded. So
`import datamux` stays fast, which the command line needs.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

CONFIGS = "transformers.models.auto.configuration_auto"
BASE = "transformers.modeling_utils"
MODELS = "transformers.models.auto.modeling_auto"
TOKENIZERS = "transformers.models.auto.tokenization_auto"


def register_when_needed() -> None:
    """Import `datamux.hub`, now or right after transformers' Auto classes."""
    if CONFIGS in sys.modules:
        import datamux.hub  # noqa: F401
    elif not any(isinstance(finder, _AfterAutoClasses) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterAutoClasses())


class _AfterAutoClasses(MetaPathFinder):
    """Waits for the Auto classes to be imported and runs our registration after them."""

    def __init__(self) -> None:
        self.waiting_for = {CONFIGS, BASE, MODELS, TOKENIZERS}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting_for:
            return None
        self.waiting_for.discard(fullname)
        if not self.waiting_for:
            sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _RegisterAfter(spec.loader)
        return spec


class _RegisterAfter(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        try:
            import datamux.hub  # noqa: F401
        except ImportError:
            # Another module that we wait for is still being imported. Registration happens when that one is done.
            if module.__name__ == MODELS:
                raise
