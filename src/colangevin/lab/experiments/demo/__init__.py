"""What ``cola demo`` shows."""
