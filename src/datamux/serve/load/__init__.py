"""`datamux bench serve`: rising load on real servers, with and without multiplexing, and where the time goes."""
