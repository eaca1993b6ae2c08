"""Row cache files (`.rows`): parsed examples on disk.

================= ==================================================================================
module            what it does
================= ==================================================================================
`layout`          describes the file format
`block`           encodes examples as blocks
`writer`          writes a file
`row_file`        reads a file as a source
`file_rows`       the rows of a file whose features have names
`row_range`       several files as one stream, of which any range can be read
`validation`      checks what a file says about itself
================= ==================================================================================
"""
