"""Small convolutions in C++, compiled where they are first used; torch's own stay in use without a compiler."""
