"""Small helpers for frameworks; see ``docs/integrations.md``.

What is here needs torch alone. ``lightning``, ``transformers``, ``skorch`` and ``peft`` are modules
of this package that import their framework. ``import colangevin`` imports none of them, and
``pip install "colangevin[integrations]"`` installs all of the frameworks.
"""

from colangevin.integrations.reading import readings as readings
from colangevin.integrations.reading import release as release
from colangevin.integrations.reading import unwrap as unwrap
from colangevin.integrations.watching import to_logging as to_logging
from colangevin.integrations.watching import to_tensorboard as to_tensorboard
from colangevin.integrations.watching import watch as watch

__all__ = ["readings", "release", "to_logging", "to_tensorboard", "unwrap", "watch"]
