"""The published checkpoints of DataMUX and MUX-PLM: read, converted, and run as the published code ran them.

`quirks.py` has what that code does differently from ours, `mux_plm.py` and `contextual.py` what its successor does, and
nothing outside this folder knows of it. `models.py` builds models from those parts and ours; `checkpoint.py` and
`weights.py` read the files.
"""
