"""Deep networks: orthogonal weights, penalties, temperature."""
