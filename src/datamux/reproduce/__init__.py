"""Every experiment, the paper's and our own: a catalogue of them, one runner, their records, and the figures."""
