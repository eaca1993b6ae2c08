"""Parquet and Arrow IPC files, DuckDB, and tables of any library, as sources of examples.

`tables.py` gives roles to the columns of a table and makes blocks of its rows; `files.py` reads
tables from files, a batch at a time, `databases.py` from DuckDB.
"""
