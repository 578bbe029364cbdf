"""More than one machine: files on Ray Data and servers on Ray Serve. Ray does the work; this is an adapter."""
