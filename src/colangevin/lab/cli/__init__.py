"""The command line: arguments, progress and files; no mathematics."""
