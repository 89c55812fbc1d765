"""Problems that people have, with a constraint, without one, and with the strongest rivals."""
