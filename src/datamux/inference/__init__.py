"""Texts in, answers out: tokenise ahead, seat texts of similar length together, run, put answers back in order."""
