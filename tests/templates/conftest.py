"""Templates are files of other repositories: tests copy them, and pytest collects none of them."""

collect_ignore_glob = ["*"]
