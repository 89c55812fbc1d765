"""Small helpers for frameworks; each module needs its framework, see ``docs/integrations.md``.

``import colangevin`` imports none of them. ``pip install "colangevin[integrations]"`` installs all
of the frameworks.
"""
