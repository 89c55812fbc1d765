"""Results for readers: tables, pages, one file for a browser."""
