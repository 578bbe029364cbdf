"""What neighbours can do to an answer, and what can be learned of them. One question per file."""
