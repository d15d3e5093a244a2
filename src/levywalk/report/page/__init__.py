"""The page report.html: one file that opens offline."""
