"""Row cache files (`.rows`): parsed examples on disk."""
