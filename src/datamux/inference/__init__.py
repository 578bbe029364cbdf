"""Texts in, answers out: tokenise, put texts of similar length into one pass, run, and restore the order."""
