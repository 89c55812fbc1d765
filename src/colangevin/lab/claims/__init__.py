"""What records say of a claim: tests, numbers, words."""
