"""`datamux tune`: the fastest model that is good enough for your data, on your machine."""
