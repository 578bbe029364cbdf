"""The rules for the paper's claims about texts, one file per part of the paper: rows of figures become a verdict."""
