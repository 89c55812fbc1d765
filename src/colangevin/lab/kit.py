"""What an experiment is written with: ``from colangevin.lab import kit``."""

from colangevin.lab.claims.comparing import *
