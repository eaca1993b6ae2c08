"""`python -m streaml1` is the command line."""

from streaml1.cli import main

if __name__ == "__main__":
    main()
