"""More than one machine: files on Ray Data and servers on Ray Serve. Adapters only; Ray is the engine."""
